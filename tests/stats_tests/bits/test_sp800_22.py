"""The fifteen tests as the battery runs them: any split, several sequences, honest and dishonest generators."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sp80022suite
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks import stats_bits
from stats_tests.bits import known_answers
from stats_tests.bits.per_sequence import SecondLevel, judge_one
from stats_tests.bits.sequence import Sequence
from stats_tests.bits.sp800_22 import SP800_22
from stats_tests.catalogue import Entry, Kind, Mode, Setting
from stats_tests.nulls import log_chi_square_tail
from stats_tests.result import Result, Status
from tests.scale import scaled

N = 10**6
BY_ID = {entry.id.removeprefix("bits.sp800-22."): entry for entry in SP800_22}
# The longest sequences on which every test but those of 10^6 bits can be split finely in a test's time.
SHORT = 8 * 1024
SHORT_TESTS = [entry for entry in SP800_22 if entry.objection(Setting(Kind.BITS, SHORT)) is None]


def run(entry: Entry, octets: NDArray[np.uint8], size: int = N, mode: Mode = Mode.CORRECTED) -> tuple[Result, ...]:
    accumulator = entry.make(Setting(Kind.BITS, size, mode), 0)
    accumulator.update(octets)
    return accumulator.results()


def good(seed: int, bits: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, bits // 8, dtype=np.uint8)


def test_there_are_fifteen_tests_with_188_results() -> None:
    results = [result for entry in SP800_22 for result in run(entry, good(1, N))]
    assert len(SP800_22) == 15
    assert len(results) == 188
    assert all(result.test.partition("/")[0] in {entry.id for entry in SP800_22} for result in results)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("entry", SHORT_TESTS, ids=lambda entry: entry.id)
@settings(max_examples=scaled(15, 300), deadline=None)
@given(data=st.data())
def test_every_split_gives_the_same_state(entry: Entry, mode: Mode, data: st.DataObject) -> None:
    setting = Setting(Kind.BITS, SHORT, mode)
    octets = good(data.draw(st.integers(0, 99)), 3 * SHORT + 80)
    whole = entry.make(setting, 0)
    whole.update(octets)
    cuts = sorted(data.draw(st.lists(st.integers(0, octets.size), max_size=4)))
    bounds = [0, *cuts, octets.size]
    segments = []
    for begin, end in itertools.pairwise(bounds):
        segment = entry.make(setting, begin)
        middle = data.draw(st.integers(begin, end))
        segment.update(octets[begin:middle])
        segment.update(octets[middle:end])
        again = entry.make(setting, begin)
        again.load(segment.to_state())
        segments.append(again)
    while len(segments) > 1:
        left = data.draw(st.integers(0, len(segments) - 2))
        segments[left].merge(segments.pop(left + 1))
    assert segments[0].to_state() == whole.to_state()
    assert segments[0].results() == whole.results()


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("entry", SP800_22, ids=lambda entry: entry.id)
def test_two_halves_of_long_sequences_give_the_same_state(entry: Entry, mode: Mode) -> None:
    octets, setting = good(2, 2 * N), Setting(Kind.BITS, N, mode)
    whole, left, right = entry.make(setting, 0), entry.make(setting, 0), entry.make(setting, 100_001)
    whole.update(octets)
    left.update(octets[:100_001])
    right.update(octets[100_001:])
    left.merge(right)
    assert left.to_state() == whole.to_state()


@pytest.mark.parametrize("entry", SP800_22, ids=lambda entry: entry.id)
def test_a_part_of_a_sequence_is_not_tested(entry: Entry) -> None:
    (result, *_) = run(entry, good(3, N - 8))
    assert result.status is Status.NOT_APPLICABLE
    assert str(N) in result.reason


@pytest.mark.parametrize(
    ("test", "fewest"),
    [("frequency", 100), ("longest-run", 128), ("rank", 38_912), ("spectral", 1000), ("universal", 387_840)]
    + [(test, N) for test in ("non-overlapping", "overlapping", "linear-complexity", "random-excursions")],
)
def test_short_sequences_are_objected_to_with_the_length_needed(test: str, fewest: int) -> None:
    objection = BY_ID[test].objection
    assert objection(Setting(Kind.BITS, fewest)) is None
    assert str(fewest) in (objection(Setting(Kind.BITS, fewest - 1)) or "")


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("mode", Mode)
def test_honest_sequences_have_uniform_p_values(mode: Mode) -> None:
    sequences = scaled(40, 1000)
    tests = [make(N, mode) for make in known_answers.TESTS]
    p_values: dict[str, list[float]] = {}
    for seed in range(sequences):
        sequence = Sequence.packed(good(1000 + seed, N))
        for test in tests:
            for result in judge_one(test, sequence):
                if result.p_value is not None:
                    p_values.setdefault(result.test, []).append(result.p_value)
    assert len(p_values) == 188
    bins = 5
    worst = 1.0
    for of_test in p_values.values():
        counts = np.histogram(of_test, bins, (0, 1))[0]
        expected = len(of_test) / bins
        worst = min(worst, math.exp(log_chi_square_tail(float(((counts - expected) ** 2 / expected).sum()), bins - 1)))
    assert worst > 1e-4 / 188


@pytest.mark.parametrize("entry", SP800_22, ids=lambda entry: entry.id)
def test_honest_sequences_pass_together(entry: Entry) -> None:
    sequences = scaled(6, 60)
    assert all(
        result.log_p is not None and result.log_p > math.log(1e-5) for result in run(entry, good(5, sequences * N))
    )


# sp80022suite takes one bit a byte and returns the least of several P-values. Its constants are NIST's.
PEER: list[tuple[str, Callable[[bytes], float]]] = [
    ("frequency", sp80022suite.frequency),
    ("block-frequency", lambda bits: sp80022suite.block_frequency(128, bits)),
    ("runs", sp80022suite.runs),
    ("longest-run", sp80022suite.longest_run_of_ones),
    ("rank", sp80022suite.rank),
    ("spectral", sp80022suite.discrete_fourier_transform),
    ("overlapping", lambda bits: sp80022suite.overlapping_template_matchings(9, bits)),
    ("universal", sp80022suite.universal),
    ("linear-complexity", lambda bits: sp80022suite.linear_complexity(500, bits)),
    ("serial", lambda bits: sp80022suite.serial(16, bits)),
    ("approximate-entropy", lambda bits: sp80022suite.approximate_entropy(10, bits)),
    ("cumulative-sums", sp80022suite.cumulative_sums),
    ("random-excursions", sp80022suite.random_excursions),
    ("random-excursions-variant", sp80022suite.random_excursions_variant),
]


@pytest.mark.parametrize("seed", range(scaled(2, 20)))
def test_compat_mode_agrees_with_another_implementation(seed: int) -> None:
    octets = good(seed, N)
    bits = np.unpackbits(octets).tobytes()
    for test, peer in PEER:
        results = run(BY_ID[test], octets, mode=Mode.NIST_COMPAT)
        if results[0].p_value is None:
            with pytest.raises(ValueError, match="Insufficient number of cycles"):
                peer(bits)
            continue
        assert min(result.p_value or 0.0 for result in results) == pytest.approx(peer(bits), abs=2e-6), test


def _biased(share: float) -> NDArray[np.uint8]:
    return np.packbits(np.random.default_rng(1).random(N) < share)


def _sticky(stay: float) -> NDArray[np.uint8]:
    return np.packbits(np.cumsum(np.random.default_rng(1).random(N) > stay) & 1)


def _register() -> NDArray[np.uint8]:
    bits = np.random.default_rng(1).integers(0, 2, N, dtype=np.uint8)
    for k in range(40, N):
        bits[k] = bits[k - 40] ^ bits[k - 38] ^ bits[k - 21] ^ bits[k - 19]
    return np.packbits(bits)


def _even_rows() -> NDArray[np.uint8]:
    rows = np.random.default_rng(1).integers(0, 2, (N // 32, 32), dtype=np.uint8)
    rows[:, -1] = rows[:, :-1].sum(axis=1) & 1
    return np.packbits(rows)


def _pulled() -> NDArray[np.uint8]:
    uniform, position = np.random.default_rng(1).random(N), 0
    bits = np.empty(N, dtype=np.uint8)
    for k in range(N):
        bits[k] = uniform[k] < 0.5 - 0.02 * position
        position += 1 if bits[k] else -1
    return np.packbits(bits)


BAD: list[tuple[str, Callable[[], Any], tuple[str, ...]]] = [
    ("nothing but zeros", lambda: np.zeros(N // 8, dtype=np.uint8), ("frequency", "serial", "cumulative-sums")),
    ("alternating", lambda: np.full(N // 8, 0x55, dtype=np.uint8), ("runs", "spectral", "longest-run", "rank")),
    ("half a per cent more ones", lambda: _biased(0.505), ("frequency", "cumulative-sums")),
    ("two per cent more ones", lambda: _biased(0.52), ("block-frequency",)),
    ("sticky", lambda: _sticky(0.53), ("runs", "approximate-entropy", "serial")),
    ("a period of 4096 bits", lambda: np.resize(good(1, 4096), N // 8), ("spectral", "universal", "serial", "rank")),
    ("a 40-bit feedback register", _register, ("linear-complexity",)),
    ("blocks of 32 with even parity", _even_rows, ("rank",)),
    ("every nibble 1001", lambda: np.full(N // 8, 0x99, dtype=np.uint8), ("non-overlapping", "overlapping")),
    ("a walk pulled back to zero", _pulled, ("random-excursions", "random-excursions-variant")),
]  # fmt: skip


@pytest.mark.parametrize(("title", "make", "caught_by"), BAD, ids=[row[0] for row in BAD])
def test_bad_sequences_are_caught(title: str, make: Callable[[], Any], caught_by: tuple[str, ...]) -> None:
    octets = make()
    for test in caught_by:
        results = run(BY_ID[test], octets)
        assert min(result.log_p for result in results if result.log_p is not None) < math.log(1e-6), test


@pytest.mark.parametrize(
    ("test", "parts"), [("frequency", 2), ("runs", 2), ("spectral", 2), ("universal", 2), ("rank", 1), ("serial", 2)]
)
def test_several_sequences_of_a_test_of_one_sum_are_judged_each_too(test: str, parts: int) -> None:
    assert len(run(BY_ID[test], good(1, 3 * N))) == parts


def test_sequences_that_err_in_opposite_directions_are_caught() -> None:
    sequences = [_biased(share) for share in (0.503, 0.497, 0.503, 0.497)]
    total, each = run(BY_ID["frequency"], np.concatenate(sequences))
    assert total.log_p is not None
    assert each.log_p is not None
    assert total.log_p > math.log(1e-3)
    assert each.log_p < math.log(1e-6)


def test_the_second_level_of_few_sequences_counts_those_that_pass() -> None:
    entry = BY_ID["frequency"]
    octets = np.concatenate([good(1, 9 * SHORT), np.zeros(SHORT // 8, dtype=np.uint8)])
    (result,) = run(entry, octets, size=SHORT, mode=Mode.NIST_COMPAT)
    assert result.statistic == 9
    assert result.p_value == pytest.approx(1 - 0.99**10)


def test_the_second_level_of_many_sequences_is_their_uniformity() -> None:
    entry = BY_ID["block-frequency"]
    (honest,) = run(entry, good(2, 100 * SHORT), size=SHORT, mode=Mode.NIST_COMPAT)
    assert len(honest.categories) == SecondLevel.BINS
    assert honest.p_value is not None
    assert honest.p_value > 1e-4
    (repeated,) = run(entry, np.resize(good(2, SHORT), 100 * SHORT // 8), size=SHORT, mode=Mode.NIST_COMPAT)
    assert repeated.log_p is not None
    assert repeated.log_p < -100


@pytest.mark.parametrize("bits", ["", "012", [0, 1, 2], [[0, 1]], [0.5]])
def test_a_sequence_is_zeros_and_ones(bits: Any) -> None:
    with pytest.raises(ValueError, match="bits"):
        Sequence.of(bits)


def test_the_fourteen_tests_of_the_peer_run_faster_here() -> None:
    rows = [(ours, theirs) for _, ours, theirs in stats_bits.measure(sequences=1) if theirs is not None]
    ours, theirs = (sum(column) for column in zip(*rows, strict=True))
    assert theirs / ours >= stats_bits.BAR
