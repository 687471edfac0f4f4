"""SP 800-90B: NIST's estimates hit, and the health tests' alarms as frequent as they should be."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stats_tests.bits import min_entropy
from stats_tests.bits.health import HEALTH, SAMPLES, FirstBytes, proportion_cutoff, repetition_cutoff
from stats_tests.bits.known_answers import expansion
from stats_tests.bits.min_entropy import Bits, estimate
from stats_tests.catalogue import Kind, Setting
from stats_tests.result import Result, Status
from tests.scale import PROVING, scaled
from tests.stats_tests.bits import step_by_step

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "sp800_90b" / "min_entropy.json").read_text())["samples"]
BY_ID = {entry.id.removeprefix("bits.health."): entry for entry in HEALTH}
SETTING = Setting(Kind.BITS, 10**6)


def run(test: str, octets: NDArray[np.uint8]) -> Result:
    accumulator = BY_ID[test].make(SETTING, 0)
    accumulator.update(octets)
    (result,) = accumulator.results()
    return result


def good(seed: int, size: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


@pytest.mark.parametrize("sample", ["rand1_short", "rand4_short", "rand8_short"])
def test_nists_estimates_are_hit(sample: str) -> None:
    assert estimate(_sample(sample)) == pytest.approx(VECTORS[sample]["estimates"], abs=1e-9)


def _sample(name: str) -> Bits:
    return np.unpackbits(np.frombuffer(bytes.fromhex(VECTORS[name]["packed_bits"]), dtype=np.uint8))


@pytest.mark.skipif(not PROVING, reason="the three short samples show the same in a tenth of the time")
def test_nists_estimates_of_its_pi_file_are_hit() -> None:
    # data.pi.bin is NIST's text file of 1,004,882 bits of pi, 24 in the first line and 25 in each other after three
    # blanks, where every character but "0" is taken for a one.
    digits = "".join(map(str, expansion("pi", 1_004_882).bits.tolist()))
    text = "".join(f"   {line}\n" for line in [digits[:24], *_lines_of(digits[24:], 25)])
    assert len(text) == 1_165_666
    bits = np.array([character != "0" for character in text], dtype=np.uint8)
    assert estimate(bits) == pytest.approx(VECTORS["data.pi"]["estimates"], abs=1e-9)


def _lines_of(text: str, length: int) -> list[str]:
    return [text[k : k + length] for k in range(0, len(text), length)]


DEGENERATE: list[tuple[str, Callable[[], Bits], float]] = [
    ("nothing but zeros", lambda: np.zeros(20_000, dtype=np.uint8), 0.0),
    ("nothing but ones", lambda: np.ones(20_000, dtype=np.uint8), 0.0),
    ("alternating", lambda: np.resize(np.array([0, 1], dtype=np.uint8), 20_000), 0.01),
    ("period 1000", lambda: np.resize(np.unpackbits(good(1, 125)), 20_000), 0.01),
    ("one in a thousand", lambda: (np.random.default_rng(1).random(20_000) < 0.001).astype(np.uint8), 0.01),
]


@pytest.mark.parametrize(("title", "make", "most"), DEGENERATE, ids=[row[0] for row in DEGENERATE])
def test_samples_without_entropy_are_given_none(title: str, make: Callable[[], Bits], most: float) -> None:
    estimates = estimate(make())
    assert 0 <= min(estimates.values()) <= most
    assert max(estimates.values()) <= 1


def test_too_few_samples_are_refused_with_the_number_needed() -> None:
    with pytest.raises(ValueError, match="6012"):
        estimate(np.zeros(6011, dtype=np.uint8))
    estimate(np.unpackbits(good(1, 752))[:6012])


# --- The vectorised predictors and tuples against the publication's loops ---


@settings(max_examples=scaled(40, 1000), deadline=None)
@given(st.lists(st.integers(0, 1), min_size=2, max_size=300), st.integers(0, 3))
def test_tuples_are_counted_as_a_search_counts_them(some: list[int], copies: int) -> None:
    bits = np.array(some * (copies + 1), dtype=np.uint8)
    text = "".join(map(str, bits.tolist()))
    most, pairs = min_entropy._tuple_counts(min_entropy._common_prefixes(bits))
    for length in range(1, len(most) + 1):
        seen: dict[str, int] = {}
        for k in range(len(text) - length + 1):
            seen[text[k : k + length]] = seen.get(text[k : k + length], 0) + 1
        if length == len(most):
            assert max(seen.values(), default=1) == 1
        else:
            assert most[length] == max(seen.values())
            assert pairs[length] == sum(count * (count - 1) // 2 for count in seen.values())


@settings(max_examples=scaled(40, 1000), deadline=None)
@given(st.integers(1, 6), st.integers(1, 90), st.integers(0, 2**32), st.booleans())
def test_the_best_predictor_is_followed_as_step_by_step(rows: int, places: int, seed: int, silent: bool) -> None:
    rng = np.random.default_rng(seed)
    guessed = rng.random((rows, places)) < (0.7 if silent else 1.0)
    right = guessed & (rng.random((rows, places)) < rng.random((rows, 1)))
    scores, leader, correct, run, longest = [0] * rows, 0, 0, 0, 0
    for place in range(places):
        followed = leader
        for row in range(rows):
            if right[row, place]:
                scores[row] += 1
                if scores[row] >= scores[leader]:
                    leader = row
        if guessed[followed, place]:
            run = run + 1 if right[followed, place] else 0
            correct += right[followed, place]
            longest = max(longest, run)
    chunk = min_entropy._CHUNK
    assert places < chunk
    assert min_entropy._follow(lambda a, b: right[:, a:b], places, lambda a, b: guessed[:, a:b]) == (correct, longest)


PREDICTORS: list[tuple[str, dict[str, object], Callable[[list[int]], tuple[int, int]], int]] = [
    (
        "multi_most_common_in_window",
        {"COMMON_WINDOWS": (3, 9, 25, 61)},
        lambda bits: step_by_step.multi_most_common_in_window(bits, (3, 9, 25, 61)),
        3,
    ),
    ("lag", {"LAGS": 20, "_LAGS": range(1, 21)}, lambda bits: step_by_step.lag(bits, 20), 1),
    (
        "multi_markov_model_with_counting",
        {"ORDERS": 5, "MARKOV_ENTRIES": 12},
        lambda bits: step_by_step.multi_markov_model_with_counting(bits, 5, 12),
        2,
    ),
    ("lz78y", {"ORDERS": 5, "LZ_ENTRIES": 30}, lambda bits: step_by_step.lz78y(bits, 5, 30), 6),
]


@pytest.mark.parametrize(("name", "limits", "reference", "unpredicted"), PREDICTORS, ids=[row[0] for row in PREDICTORS])
def test_predictors_agree_with_the_publications_loops_under_small_limits(
    name: str,
    limits: dict[str, object],
    reference: Callable[[list[int]], tuple[int, int]],
    unpredicted: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for constant, value in {**limits, "_CHUNK": 64}.items():
        monkeypatch.setattr(min_entropy, constant, value)
    for seed in range(scaled(60, 1000)):
        rng = np.random.default_rng(seed)
        length = int(rng.integers(70, 300))
        bits = np.cumsum(rng.random(length) < rng.random()).astype(np.uint8) & 1
        expected = min_entropy._prediction_entropy(reference(bits.tolist()), length - unpredicted)
        assert getattr(min_entropy, name)(bits) == pytest.approx(expected, abs=1e-12), seed


# From the reference results of NIST's program for ringOsc-nist, biased-random-bits and biased-random-bytes: the longest
# run of right predictions and one more, predictions, the bound that follows from the run. No sample that is small
# enough to be stored here has a run so long that it matters.
LOCAL = [
    (83, 999_937, 0.81760774776600598),
    (527, 999_999, 0.97225067522872544),
    (583, 7_999_937, 0.9713579012997926),
    (582, 7_999_999, 0.9713063889472594),
    (583, 7_999_998, 0.9713578878098017),
]


@pytest.mark.parametrize(("run", "predictions", "bound"), LOCAL)
def test_a_long_run_of_right_predictions_bounds_the_entropy(run: int, predictions: int, bound: float) -> None:
    entropy = min_entropy._prediction_entropy((predictions // 2, run - 1), predictions)
    assert entropy == pytest.approx(-math.log2(bound), abs=1e-9)


@pytest.mark.parametrize(
    ("constant", "off"),
    [
        ("Z", 2.576),
        ("MARKOV_LENGTH", 127),
        ("COMPRESSION_BITS", 5),
        ("COMPRESSION_FIRST", 999),
        ("COMPRESSION_SIGMA", 0.5908),
        ("FREQUENT_TUPLE", 38),
        ("COMMON_WINDOWS", (61, 255, 1023, 4095)),
        ("_LAGS", range(1, 100)),
        ("ORDERS", 15),
    ],
)
def test_any_constant_that_is_off_misses_an_answer(constant: str, off: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(min_entropy, constant, off)
    found = [
        name
        for name in ("rand4_short", "rand1_short", "rand8_short")
        if estimate(_sample(name)) != pytest.approx(VECTORS[name]["estimates"], abs=1e-9)
    ]
    assert found


def test_runs_of_predictions_have_fellers_probability() -> None:
    # P(no run of three successes in ten trials with p = 1/2) = 504 / 1024 (tribonacci numbers).
    assert math.exp(min_entropy._log_no_longer_run(0.5, 3, 10)) == pytest.approx(504 / 1024, rel=2e-3)


# --- Health tests ---


@pytest.mark.parametrize(("entropy", "cutoff"), [(1, 21), (8, 4), (0.5, 41), (2.5, 9)])
def test_repetition_cutoffs_are_one_and_twenty_over_h(entropy: float, cutoff: int) -> None:
    assert repetition_cutoff(entropy) == cutoff


@pytest.mark.parametrize(("entropy", "window"), [(1, 1024), (1, 512), (8, 512), (0.3, 1024)])
def test_proportion_cutoffs_are_the_smallest_of_probability_two_to_minus_twenty(entropy: float, window: int) -> None:
    from scipy import stats

    share, cutoff = 2.0**-entropy, proportion_cutoff(entropy, window)
    assert stats.binom.sf(cutoff - 1, window, share) <= 2.0**-20 < stats.binom.sf(cutoff - 2, window, share)


def test_cutoffs_agree_with_those_of_the_service() -> None:
    from rngsvc import health_tests

    for entropy in (0.1, 0.5, 1.0, 3.3, 8.0):
        assert repetition_cutoff(entropy) == health_tests.repetition_cutoff(entropy, 20)
        assert proportion_cutoff(entropy, 512) == health_tests.proportion_cutoff(entropy, 20, 512)


def test_stuck_bytes_raise_alarms() -> None:
    octets = good(1, 100_000)
    octets[500:520] = 7
    assert run("repetition-count", octets).statistic == 17
    assert (run("repetition-count", octets).log_p or 0) < math.log(1e-12)
    octets[:] = 9
    assert run("repetition-count", octets).statistic == 100_000 - 3


def test_a_byte_that_comes_too_often_raises_alarms() -> None:
    octets = good(1, 512 * 1000)
    octets[::8] = 7
    result = run("adaptive-proportion", octets)
    assert (result.statistic or 0) > 50
    assert (result.log_p or 0) < math.log(1e-12)


@pytest.mark.parametrize("test", ["repetition-count", "adaptive-proportion"])
def test_honest_bytes_raise_as_many_alarms_as_expected(test: str) -> None:
    result = run(test, good(3, scaled(4, 400) << 20))
    expected = result.details["expected"]
    assert abs((result.statistic or 0) - expected) < 5 * math.sqrt(expected) + 3


def test_the_estimate_is_that_of_the_first_million_bits() -> None:
    octets = good(4, SAMPLES // 8 + 1000)
    octets[SAMPLES // 8 :] = 0
    result = run("min-entropy", octets)
    assert len(result.details) == 10
    assert result.statistic == min(result.details.values())
    assert 0.7 < result.statistic < 1
    assert run("min-entropy", octets[: SAMPLES // 8 - 1]).status is Status.NOT_APPLICABLE
    assert not BY_ID["min-entropy"].primary


@settings(max_examples=scaled(50, 500), deadline=None)
@given(data=st.data())
def test_the_first_bytes_are_kept_whatever_the_split(data: st.DataObject) -> None:
    octets = good(1, 100)
    seen: list[bytes] = []

    def judge(kept: NDArray[np.uint8]) -> tuple[Result, ...]:
        seen.append(kept.tobytes())
        return ()

    def empty(start: int) -> FirstBytes:
        return FirstBytes(start, 60, judge)

    middle = data.draw(st.integers(0, 100))
    whole, left, right = empty(0), empty(0), empty(middle)
    whole.update(octets)
    left.update(octets[:middle])
    right.update(octets[middle:])
    again = empty(middle)
    again.load(right.to_state())
    left.merge(again)
    assert left.to_state() == whole.to_state()
    left.results()
    assert seen == [octets[:60].tobytes()]


@pytest.mark.parametrize("change", [{"kept": "00"}, {"end": -1}, {"start": "0"}, {"kept": "x"}], ids=str)
def test_a_state_of_something_else_is_refused(change: dict[str, object]) -> None:
    state = {**FirstBytes(0, 60, lambda _: ()).to_state(), **change}
    with pytest.raises(ValueError, match=r"state|hex"):
        FirstBytes(0, 60, lambda _: ()).load(state)  # type: ignore[arg-type]
