"""T0 to T8 of AIS 20/31 against the standard read aloud: one bit after the other, one block after the other."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stats_tests.battery import CATALOGUE
from stats_tests.bits import ais_31
from stats_tests.bits.ais_31 import AIS_31, long_run_probability, run_moments
from stats_tests.bits.universal import distance_moments
from stats_tests.catalogue import Kind, Setting
from stats_tests.known_bad import key_stream
from stats_tests.p_values import uniformity
from stats_tests.result import Result, Status
from tests.scale import scaled

SETTING = Setting(Kind.BITS, 10**6)
BLOCK = 20_000
IDS = [entry.id.removeprefix("bits.ais-31.") for entry in AIS_31]


def results(octets: NDArray[np.uint8]) -> dict[str, Result]:
    found = {}
    for entry in AIS_31:
        accumulator = entry.make(SETTING, 0)
        accumulator.update(octets)
        (result,) = accumulator.results()
        found[entry.id.removeprefix("bits.ais-31.")] = result
    return found


def bits_of(octets: NDArray[np.uint8]) -> list[int]:
    return [int(bit) for bit in np.unpackbits(octets)]


# --- The standard, step by step (AIS 20/31 version 2.0, 2.4.4) ---


def t1(block: list[int]) -> tuple[int, bool]:
    ones = sum(block)
    return (2 * ones - BLOCK) ** 2, 9654 < ones < 10346


def t2(block: list[int]) -> tuple[int, bool]:
    frequency = [0] * 16
    for j in range(0, BLOCK, 4):
        frequency[8 * block[j] + 4 * block[j + 1] + 2 * block[j + 2] + block[j + 3]] += 1
    squares = sum(f * f for f in frequency)
    return squares, 1.03 < 16 / 5000 * squares - 5000 < 57.4


def t3(block: list[int]) -> tuple[list[int], bool]:
    allowed = [(2267, 2733), (1079, 1421), (502, 748), (223, 402), (90, 223), (90, 223)]
    runs = [[0] * 6, [0] * 6]
    for bit, run in itertools.groupby(block):
        runs[bit][min(len(list(run)), 6) - 1] += 1
    within = all(low <= runs[bit][k] <= high for bit in (0, 1) for k, (low, high) in enumerate(allowed))
    return runs[0] + runs[1], within


def t4(block: list[int]) -> bool:
    return max(len(list(run)) for _, run in itertools.groupby(block)) < 34


def t5(block: list[int]) -> tuple[int, bool]:
    words = np.array(block)
    differing = [int((words[:5000] ^ words[shift : 5000 + shift]).sum()) for shift in range(1, 5001)]
    away = [abs(z - 2500) for z in differing]
    shift = away.index(max(away)) + 1
    z = sum(block[j] ^ block[j + shift] for j in range(10_000, 15_000))
    return (2 * z - 5000) ** 2, 2326 < z < 2674


def t8(octets: list[int]) -> float:
    harmonic = [0.0, *itertools.accumulate(1 / k for k in range(1, len(octets) + 1))]
    last: dict[int, int] = {}
    total = 0.0
    for place, octet in enumerate(octets, start=1):
        if place > 2560:
            total += harmonic[place - last.get(octet, 0) - 1]
        last[octet] = place
    return total / 256_000 / math.log(2)


def biased(count: int, seed: int) -> NDArray[np.uint8]:
    """Bits with one third of ones, and now and then a long stretch of zeros: outside every bound."""
    rng = np.random.default_rng(seed)
    octets = np.packbits(rng.random(8 * count) < 1 / 3)
    octets[1000:1010] = 0
    return octets


@pytest.mark.parametrize("make", [lambda n: key_stream(5, 0, n), lambda n: biased(n, 6)], ids=["fair", "biased"])
def test_blocks_are_counted_as_the_standard_counts_them(make: Callable[[int], NDArray[np.uint8]]) -> None:
    octets = make(3 * BLOCK // 8)
    blocks = [bits_of(octets[at : at + BLOCK // 8]) for at in range(0, octets.size, BLOCK // 8)]
    for reference, observe in (
        (t1, ais_31.observe_monobit),
        (t2, ais_31.observe_poker),
        (t5, ais_31.observe_autocorrelation),
    ):
        sums, within = zip(*(reference(block) for block in blocks), strict=True)
        assert observe(octets).tolist() == [sum(sums), within.count(False)]
    runs, within = zip(*(t3(block) for block in blocks), strict=True)
    assert ais_31.observe_runs(octets).tolist() == [*np.sum(runs, axis=0).tolist(), within.count(False)]
    assert ais_31.observe_long_runs(octets).tolist() == [sum(not t4(block) for block in blocks)]


@pytest.mark.parametrize("start", [*range(0, 40, 3), BLOCK - 34])
@pytest.mark.parametrize(("length", "found"), [(33, 0), (34, 1), (35, 1)])
def test_a_run_of_34_bits_is_found_wherever_it_stands(start: int, length: int, found: int) -> None:
    bits = np.arange(BLOCK) % 2
    end = min(start + length, BLOCK)
    bits[start:end] = 1
    if start:
        bits[start - 1] = 0
    if end < BLOCK:
        bits[end] = 0
    if end - start == length:
        assert ais_31.observe_long_runs(np.packbits(bits)).tolist() == [found]
        assert ais_31.observe_long_runs(np.packbits(1 - bits)).tolist() == [found]


def test_words_that_come_again_are_counted() -> None:
    octets = key_stream(1, 0, 6 * 65_536).copy()
    assert ais_31.observe_words(octets).tolist() == [0]
    words = octets.reshape(-1, 6)
    words[500] = words[40_000]
    words[65_535] = words[0] = words[9]
    assert ais_31.observe_words(octets).tolist() == [3]
    assert len({word.tobytes() for word in words}) == 65_536 - 3


def test_words_of_bits_are_counted_and_compared_as_the_standard_does() -> None:
    octets = biased(400_000, 3)
    text = "".join(map(str, bits_of(octets)))
    for width, tolerance in ((1, 0.025), (2, 0.02)):
        statistic = ais_31.uniform_statistic(width, tolerance)
        chunk = octets[: 2 * statistic.span]
        words = [text[at : at + width] for at in range(0, 8 * chunk.size, width)]
        counts = [words.count(f"{word:0{width}b}") for word in range(1 << width)]
        assert statistic.observe(chunk).tolist() == [*counts, 2]
    for before in (2, 3):
        statistic = ais_31.homogeneity_statistic(before)
        words = [text[at : at + before + 1] for at in range(0, 8 * statistic.span, before + 1)]
        counts = [words.count(f"{word:0{before + 1}b}") for word in range(2 << before)]
        (result,) = statistic.judge(statistic.observe(octets[: statistic.span]), 1)
        total = 0.0
        for between in itertools.product("01", repeat=before - 1):
            table = [[words.count(a + "".join(between) + c) for c in "01"] for a in "01"]
            size = sum(map(sum, table))
            for row, column in itertools.product((0, 1), repeat=2):
                expected = sum(table[row]) * (table[0][column] + table[1][column]) / size
                total += (table[row][column] - expected) ** 2 / expected
        assert statistic.observe(octets[: statistic.span])[:-1].tolist() == counts
        assert result.statistic == pytest.approx(total)


def test_the_entropy_is_corons() -> None:
    octets = key_stream(2, 0, 258_560)
    found = results(octets)["t8-entropy"]
    assert found.statistic == pytest.approx(t8(octets.tolist()), abs=1e-7)
    assert found.details["windows_outside_the_bounds"] == 0
    halved = results(octets & 0x7F)["t8-entropy"]
    assert halved.statistic == pytest.approx(t8((octets & 0x7F).tolist()), abs=1e-7)
    assert halved.statistic == pytest.approx(7.0, abs=0.01)
    assert halved.details["windows_outside_the_bounds"] == 1


# --- Null distributions ---


@pytest.mark.parametrize(("n", "longest"), [(1, 3), (2, 3), (7, 2), (9, 3), (11, 6)])
def test_moments_of_runs_are_those_of_all_words(n: int, longest: int) -> None:
    rows = []
    for word in itertools.product((0, 1), repeat=n):
        counts = [0] * (2 * longest)
        for bit, run in itertools.groupby(word):
            counts[longest * bit + min(len(list(run)), longest) - 1] += 1
        rows.append(counts)
    table = np.array(rows, dtype=float)
    mean, covariance = run_moments(n, longest)
    assert mean == pytest.approx(table.mean(axis=0))
    assert covariance == pytest.approx(np.cov(table.T, bias=True), abs=1e-12)


@pytest.mark.parametrize(("n", "length"), [(4, 2), (5, 5), (10, 3), (12, 4), (13, 6), (3, 4)])
def test_the_probability_of_a_long_run_is_that_of_all_words(n: int, length: int) -> None:
    words = itertools.product((0, 1), repeat=n)
    long = sum(max(len(list(run)) for _, run in itertools.groupby(word)) >= length for word in words)
    assert long_run_probability(n, length) == pytest.approx(long / 2**n)


def test_entropy_has_its_mean_and_variance_for_small_words() -> None:
    # The mean of Coron's statistic is the entropy; the variance by simulation.
    assert distance_moments(8, 256_000, ais_31.entropy_weight)[0] == pytest.approx(8, abs=1e-9)
    length, first, tested, runs = 3, 200, 100, scaled(4000, 40_000)
    mean, variance = distance_moments(length, tested, ais_31.entropy_weight)
    rows = np.random.default_rng(11).integers(0, 1 << length, (runs, first + tested), dtype=np.uint16)
    weight = ais_31.entropy_weight(np.arange(1, first + tested + 1))
    seen = [weight[ais_31.distances_back(row, first) - 1].mean() for row in rows]
    assert mean == pytest.approx(length, abs=1e-9)
    assert np.mean(seen) == pytest.approx(mean, abs=4 * math.sqrt(variance / runs))
    assert np.var(seen) == pytest.approx(variance, rel=4 * math.sqrt(2 / runs))


def test_p_values_of_fair_bits_are_uniform() -> None:
    seeds = scaled(40, 1000)
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        for test, result in results(key_stream(seed, 0, 400_000)).items():
            assert result.p_value is not None
            found.setdefault(test, []).append(result.p_value)
    for test in ("t0-disjointness", "t4-long-run"):
        # Next to nothing is expected: 0.19 long runs of 34 bits in a thousand seeds.
        assert sum(p < 1 for p in found.pop(test)) <= 3
    assert len(found) == len(IDS) - 2
    for test, values in found.items():
        assert uniformity(values) > 1e-5, test


def test_the_bounds_are_those_of_the_standard_whose_blocks_fail_once_in_a_million() -> None:
    # AIS 31 says of T1 to T5 that a fair block fails each with a probability of about 10^-6.
    assert long_run_probability(BLOCK, 34) == pytest.approx(1.16e-6, rel=0.01)
    blocks = key_stream(9, 0, BLOCK // 8 * scaled(400, 100_000))
    for observe in (
        ais_31.observe_monobit,
        ais_31.observe_poker,
        ais_31.observe_runs,
        ais_31.observe_long_runs,
        ais_31.observe_autocorrelation,
    ):
        outside = sum(int(observe(blocks[at : at + 1_000_000])[-1]) for at in range(0, blocks.size, 1_000_000))
        assert outside <= 3


# --- Faults ---


def sticky(lag: int) -> NDArray[np.uint8]:
    """Bits that are as the bit `lag` places before with probability 0.51."""
    changes = np.random.default_rng(lag).random((3_240_000 // lag, lag)) < 0.49
    return np.packbits(np.cumsum(changes, axis=0) % 2)


FAULTS: dict[str, tuple[NDArray[np.uint8], set[str]]] = {
    "zeros": (np.zeros(400_000, dtype=np.uint8), {name for name in IDS if not name.startswith("t7")}),
    "alternating": (np.full(400_000, 0x55, dtype=np.uint8), {"t2-poker", "t3-runs", "t5-autocorrelation"}),
    "counter": (np.arange(50_000, dtype=">u8").view(np.uint8), {"t0-disjointness", "t1-monobit", "t8-entropy"}),
    "period": (np.tile(key_stream(1, 0, 251), 1594)[:400_000], {"t5-autocorrelation", "t8-entropy"}),
    "like the bit before": (sticky(1), {"t2-poker", "t3-runs", "t6-uniform-distribution/2-bit"}),
    "like the bit two before": (sticky(2), {"t2-poker", "t3-runs", "t7-homogeneity/2-before"}),
    "like the bit three before": (sticky(3), {"t2-poker", "t7-homogeneity/3-before"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault: str) -> None:
    octets, seen = FAULTS[fault]
    found = results(octets)
    small = {test for test, result in found.items() if result.log_p is not None and result.log_p < math.log(1e-6)}
    assert seen <= small


def test_they_are_told_and_not_judged() -> None:
    for entry in AIS_31:
        assert CATALOGUE[entry.id] is entry
        assert not entry.primary
        assert entry.clauses == ("R24",)
    assert sorted({name.split("-")[0] for name in IDS}) == [f"t{number}" for number in range(9)]


@pytest.mark.parametrize("entry", AIS_31, ids=IDS)
def test_less_than_a_window_is_not_applicable(entry: object) -> None:
    accumulator = entry.make(SETTING, 0)
    accumulator.update(key_stream(1, 0, entry.minimal(SETTING) - 1))
    (result,) = accumulator.results()
    assert result.status is Status.NOT_APPLICABLE


@pytest.mark.parametrize("entry", AIS_31, ids=IDS)
def test_shards_join_to_the_whole(entry: object) -> None:
    octets = key_stream(4, 0, 2 * entry.minimal(SETTING) + 1000)
    whole = entry.make(SETTING, 0)
    whole.update(octets)
    cuts = [0, 7, 2500, entry.minimal(SETTING) + 1, octets.size]
    joined = entry.make(SETTING, 0)
    for start, stop in itertools.pairwise(cuts):
        part = entry.make(SETTING, start)
        part.update(octets[start:stop])
        joined.merge(part)
    assert joined.to_state() == whole.to_state()
