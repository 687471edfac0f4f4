"""T0 to T8 of AIS 20/31 by their names, with its parameters and bounds, and exact P-values instead of its verdicts.

AIS 31 passes or fails each block by itself and lets one failure be repeated. Here a test of a block adds integers to
those of all other blocks, one P-value speaks for them together, and how many blocks lie outside the published bounds
is told beside it. All of it is exploratory: the same properties are judged by the primary tests of bits.

T6 and T7 read disjoint words, all of a window at a fixed place, so that each context comes about 100,000 times; the
publication reads on until each has come exactly so often.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from stats_tests.bits.per_sequence import UNIT, UNJUDGED, chi_square, goodness_of_fit
from stats_tests.bits.structure import judge_poisson
from stats_tests.bits.universal import distance_moments, distances_back
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result, not_applicable
from stats_tests.windows import Counts, Statistic, WindowCounts

AIS: Final = "AIS 20/31, functionality classes for random number generators, version 2.0 (2011)"

# Procedure A, 2.4.4.1.
DISJOINT_WORDS: Final = 1 << 16
WORD_OCTETS: Final = 6
BLOCK_BITS: Final = 20_000
BLOCK_OCTETS: Final = BLOCK_BITS // 8
NIBBLES: Final = BLOCK_BITS // 4
MONOBIT_BOUNDS: Final = (9654, 10_346)
POKER_BOUNDS: Final = (1.03, 57.4)
RUN_BOUNDS: Final = ((2267, 2733), (1079, 1421), (502, 748), (223, 402), (90, 223), (90, 223))
"""Fewest and most runs of 1, 2, 3, 4, 5 and of six or more bits, of zeros as of ones."""
LONG_RUN: Final = 34
SHIFTS: Final = 5000
COMPARED: Final = 5000
AUTOCORRELATION_BOUNDS: Final = (2326, 2674)

# Procedure B, 2.4.4.2.
UNIFORM: Final = ((1, 0.025), (2, 0.02))
"""Bits in a word, and how far the share of each word may lie from its probability."""
WORDS: Final = 100_000
HOMOGENEOUS: Final = (2, 3)
"""Bits before the bit that is compared; the first of them is the one whose influence is looked for."""
HOMOGENEITY_BOUND: Final = 15.13
ENTROPY_BITS, ENTROPY_FIRST, ENTROPY_TESTED = 8, 2560, 256_000
ENTROPY_BOUND: Final = 7.976


def scaled_chi_square(test: str, squares: float, mean: float, variance: float, details: dict[str, int]) -> Result:
    """Return the result of a sum of squares of which mean and variance are exact, by the chi-square that has both."""
    scale = variance / (2 * mean)
    return chi_square(test, squares / scale, mean / scale, details)


# --- T0: disjointness ---


def observe_words(chunk: NDArray[np.uint8]) -> Counts:
    """Count the words of 48 bits that equal an earlier one of their 65,536."""
    octets = chunk.reshape(-1, WORD_OCTETS)
    padded = np.zeros((len(octets), 8), dtype=np.uint8)
    padded[:, 2:] = octets
    words = np.sort(padded.view(">u8").astype(np.uint64).reshape(-1, DISJOINT_WORDS), axis=1)
    return np.array([np.count_nonzero(words[:, 1:] == words[:, :-1])])


def judge_words(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Judge how often a word came again: the standard allows it never."""
    values = 2.0 ** (8 * WORD_OCTETS)
    distinct = -values * math.expm1(DISJOINT_WORDS * math.log1p(-1 / values))
    mean = windows * (DISJOINT_WORDS - distinct)
    return (judge_poisson(T0, int(counts[0]), mean, windows, f"no group of {DISJOINT_WORDS} words of 48 bits"),)


# --- T1: monobit ---


def observe_monobit(chunk: NDArray[np.uint8]) -> Counts:
    """Sum the squared excess of ones over zeros in each block, and count the blocks outside the bounds."""
    ones = np.bitwise_count(chunk.reshape(-1, BLOCK_OCTETS)).sum(axis=1, dtype=np.int64)
    low, high = MONOBIT_BOUNDS
    outside = np.count_nonzero((ones <= low) | (ones >= high))
    return np.array([((2 * ones - BLOCK_BITS) ** 2).sum(), outside])


def judge_monobit(counts: Counts, blocks: int) -> tuple[Result, ...]:
    """Judge the sum of squares; a block's has mean n and variance 2 n (n - 1)."""
    squares, outside = map(int, counts)
    return (_of_blocks(T1, squares / BLOCK_BITS, 1, 2 * (1 - 1 / BLOCK_BITS), blocks, outside),)


def _of_blocks(test: str, statistic: float, mean: float, variance: float, blocks: int, outside: int) -> Result:
    if not blocks:
        return not_applicable(test, UNJUDGED, f"no whole block of {BLOCK_BITS} bits")
    details = {"blocks": blocks, "blocks_outside_the_bounds": outside}
    return scaled_chi_square(test, statistic, blocks * mean, blocks * variance, details)


# --- T2: poker ---


def observe_poker(chunk: NDArray[np.uint8]) -> Counts:
    """Sum the squared frequencies of the sixteen words of four bits, block by block."""
    blocks = chunk.reshape(-1, BLOCK_OCTETS)
    place = 16 * np.arange(len(blocks))[:, None]
    cells = np.bincount((place + (blocks >> 4)).ravel(), minlength=16 * len(blocks))
    cells += np.bincount((place + (blocks & 15)).ravel(), minlength=16 * len(blocks))
    squares = (cells.reshape(-1, 16) ** 2).sum(axis=1)
    statistic = 16 / NIBBLES * squares - NIBBLES
    low, high = POKER_BOUNDS
    return np.array([squares.sum(), np.count_nonzero((statistic <= low) | (statistic >= high))])


def judge_poker(counts: Counts, blocks: int) -> tuple[Result, ...]:
    """Judge Pearson's statistic summed over the blocks; a block's has mean 15 and variance 30 (1 - 1/5000)."""
    squares, outside = map(int, counts)
    statistic = 16 / NIBBLES * squares - blocks * NIBBLES
    return (_of_blocks(T2, statistic, 15, 30 * (1 - 1 / NIBBLES), blocks, outside),)


# --- T3: runs ---

RUN_CELLS: Final = 2 * len(RUN_BOUNDS)


def observe_runs(chunk: NDArray[np.uint8]) -> Counts:
    """Count runs of zeros and of ones by length, 1 to 5 and longer, those at a block's edges as they are cut."""
    bits = np.unpackbits(chunk)
    begins = np.empty(bits.size, dtype=bool)
    np.not_equal(bits[1:], bits[:-1], out=begins[1:])
    begins[::BLOCK_BITS] = True
    at = np.flatnonzero(begins)
    longest = len(RUN_BOUNDS)
    lengths = np.minimum(np.diff(at, append=bits.size), longest)
    cells = RUN_CELLS * (at // BLOCK_BITS) + longest * bits[at] + lengths - 1
    table = np.bincount(cells, minlength=bits.size // BLOCK_BITS * RUN_CELLS).reshape(-1, RUN_CELLS)
    low, high = np.array(RUN_BOUNDS * 2).T
    outside = np.count_nonzero(((table < low) | (table > high)).any(axis=1))
    return np.append(table.sum(axis=0), outside)


def judge_runs(counts: Counts, blocks: int) -> tuple[Result, ...]:
    """Judge the numbers of runs together.

    Runs of zeros and of ones differ in number by one at most, so the last number says nothing more and is left out.
    """
    if not blocks:
        return (not_applicable(T3, UNJUDGED, f"no whole block of {BLOCK_BITS} bits"),)
    mean, covariance = run_moments(BLOCK_BITS, len(RUN_BOUNDS))
    away = counts[: RUN_CELLS - 1] - blocks * mean[:-1]
    statistic = float(away @ np.linalg.solve(covariance[:-1, :-1], away)) / blocks
    details = {"blocks": blocks, "blocks_outside_the_bounds": int(counts[-1])}
    return (chi_square(T3, statistic, RUN_CELLS - 1, details),)


@cache
def run_moments(n: int, longest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exact mean and covariance of the numbers of runs in n fair bits: of zeros by length, then of ones.

    Runs of `longest` bits and more are one number. Carried from bit to bit: for each length of the run that is still
    open (of zeros, then of ones), its probability and, weighted with it, mean and second moments of the runs closed.
    """
    states = 2 * longest
    chance = np.zeros(states)
    mean = np.zeros((states, states))
    second = np.zeros((states, states, states))
    chance[[0, longest]] = 0.5
    own = np.eye(states)

    def closed() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the moments after the open run of each state has been counted."""
        cross = mean[:, :, None] * own[:, None, :]
        both = cross + cross.transpose(0, 2, 1) + chance[:, None, None] * own[:, :, None] * own[:, None, :]
        return mean + chance[:, None] * own, second + both

    def onward(open_: NDArray[np.float64], shut: NDArray[np.float64]) -> NDArray[np.float64]:
        """Let the next bit be equal or not, each with probability 1/2."""
        after = np.zeros_like(open_)
        for first, other in ((0, longest), (longest, 0)):
            after[first + 1 : first + longest] = open_[first : first + longest - 1]
            after[first + longest - 1] += open_[first + longest - 1]
            after[first] += shut[other : other + longest].sum(axis=0)
        return after / 2

    for _ in range(n - 1):
        shut_mean, shut_second = closed()
        second = onward(second, shut_second)
        mean = onward(mean, shut_mean)
        chance = onward(chance, chance)
    last_mean, last_second = closed()
    total: NDArray[np.float64] = last_mean.sum(axis=0)
    return total, last_second.sum(axis=0) - np.outer(total, total)


# --- T4: long run ---


def observe_long_runs(chunk: NDArray[np.uint8]) -> Counts:
    """Count the blocks with a run of 34 bits or more."""
    blocks = chunk.reshape(-1, BLOCK_OCTETS)
    # A run of 34 bits holds three whole octets of its bit, which almost no block has.
    even = (blocks == 0) | (blocks == 255)
    suspects = np.flatnonzero((even[:, 2:] & even[:, 1:-1] & even[:, :-2]).any(axis=1))
    return np.array([sum(_longest_run(blocks[suspect]) >= LONG_RUN for suspect in suspects)])


def _longest_run(octets: NDArray[np.uint8]) -> int:
    bits = np.unpackbits(octets)
    changes = np.flatnonzero(bits[1:] != bits[:-1]) + 1
    return int(np.diff(changes, prepend=0, append=bits.size).max())


def judge_long_runs(counts: Counts, blocks: int) -> tuple[Result, ...]:
    """Judge how many blocks have a long run: the standard allows none."""
    mean = blocks * long_run_probability(BLOCK_BITS, LONG_RUN)
    return (judge_poisson(T4, int(counts[0]), mean, blocks, f"no whole block of {BLOCK_BITS} bits"),)


@cache
def long_run_probability(n: int, length: int) -> float:
    """Return the probability that n fair bits have a run of `length` or more.

    That is a run of length - 1 pairs of equal neighbours; each first one ends at some pair and began after an unequal
    pair, or with the sample.
    """
    pairs, needed = n - 1, length - 1
    # found[i]: the first such run of equal pairs ends at pair i.
    found = np.zeros(pairs + 1)
    before = 0.0  # the chance that one has ended at pair i - needed - 1 or earlier
    for i in range(needed, pairs + 1):
        if i == needed:
            found[i] = 0.5**needed
        else:
            before += found[i - needed - 1]
            found[i] = 0.5 ** (needed + 1) * (1 - before)
    return float(found.sum())


# --- T5: autocorrelation ---


def observe_autocorrelation(chunk: NDArray[np.uint8]) -> Counts:
    """For each block take the shift that stands out most in its first half, and see what it does in the second."""
    bits = np.unpackbits(chunk).reshape(-1, BLOCK_BITS)
    half = BLOCK_BITS // 2
    sign = np.float32(1) - 2 * bits[:, :half].astype(np.float32)
    # The transform is as long as the half, so no shift wraps around.
    early = fft.rfft(sign[:, :COMPARED], half)
    agreement = np.rint(fft.irfft(early.conj() * fft.rfft(sign), half)[:, 1 : SHIFTS + 1])
    shifts = np.argmax(np.abs(agreement), axis=1) + 1
    differing = [
        np.count_nonzero(row[half : half + COMPARED] != row[half + shift : half + shift + COMPARED])
        for row, shift in zip(bits, shifts, strict=True)
    ]
    low, high = AUTOCORRELATION_BOUNDS
    found = np.array(differing, dtype=np.int64)
    return np.array([((2 * found - COMPARED) ** 2).sum(), np.count_nonzero((found <= low) | (found >= high))])


def judge_autocorrelation(counts: Counts, blocks: int) -> tuple[Result, ...]:
    """Judge the sum of squares; the first half chose the shift, so in the second the count is binomial."""
    squares, outside = map(int, counts)
    return (_of_blocks(T5, squares / COMPARED, 1, 2 * (1 - 1 / COMPARED), blocks, outside),)


# --- T6: uniform distribution, T7: homogeneity ---


def _word_counts(chunk: NDArray[np.uint8], bits: int, words: int) -> NDArray[np.int64]:
    """Return how often each word comes, a row for each window of so many disjoint words."""
    columns = np.unpackbits(chunk).reshape(-1, bits).T
    values = columns[0].copy()
    for column in columns[1:]:
        values = values << np.uint8(1) | column
    place = np.repeat(np.arange(len(values) // words), words) << bits
    return np.bincount(place + values, minlength=len(values) // words << bits).reshape(-1, 1 << bits)


def uniform_statistic(bits: int, tolerance: float) -> Statistic:
    """Return T6 for words of so many bits."""

    def observe(chunk: NDArray[np.uint8]) -> Counts:
        table = _word_counts(chunk, bits, WORDS)
        outside = (np.abs(table / WORDS - 0.5**bits) > tolerance).any(axis=1)
        return np.append(table.sum(axis=0), np.count_nonzero(outside))

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        test = f"{T6}/{bits}-bit"
        if not windows:
            return (not_applicable(test, UNJUDGED, f"less than {WORDS} words"),)
        labels = [f"{word:0{bits}b}" for word in range(1 << bits)]
        details = {"windows": windows, "windows_outside_the_bounds": int(counts[-1])}
        return (goodness_of_fit(test, counts[:-1], [0.5**bits] * len(labels), labels, details),)

    octets = bits * WORDS // 8
    return Statistic(cells=(1 << bits) + 1, observe=observe, judge=judge, span=octets, step=octets)


def homogeneity_statistic(before: int) -> Statistic:
    """Return T7 for a bit and so many bits before it: does the first of them tell anything, the others being equal?"""
    bits, words = before + 1, WORDS << before
    halves = 1 << before

    def comparisons(table: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return Pearson's statistic of each table of first bit by last bit, one for each value of those between."""
        cells = table.reshape(-1, 2, halves // 2, 2).transpose(0, 2, 1, 3).astype(np.float64)
        rows, columns = cells.sum(axis=3, keepdims=True), cells.sum(axis=2, keepdims=True)
        expected = rows * columns / cells.sum(axis=(2, 3), keepdims=True).clip(1)
        away = (cells - expected) ** 2
        parts = np.divide(away, expected, out=np.zeros_like(away), where=expected > 0)
        found: NDArray[np.float64] = parts.sum(axis=(2, 3))
        return found

    def observe(chunk: NDArray[np.uint8]) -> Counts:
        table = _word_counts(chunk, bits, words)
        outside = (comparisons(table) > HOMOGENEITY_BOUND).any(axis=1)
        return np.append(table.sum(axis=0), np.count_nonzero(outside))

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        test = f"{T7}/{before}-before"
        if not windows:
            return (not_applicable(test, UNJUDGED, f"less than {words} words"),)
        each = comparisons(counts[None, :-1])[0]
        details = {"windows": windows, "windows_outside_the_bounds": int(counts[-1]), "largest": float(each.max())}
        return (chi_square(test, float(each.sum()), each.size, details),)

    octets = bits * words // 8
    return Statistic(cells=(1 << bits) + 1, observe=observe, judge=judge, span=octets, step=octets)


# --- T8: entropy ---


def entropy_weight(distance: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return Coron's weight of a distance i, (1 + 1/2 + .. + 1/(i - 1)) / ln 2, whose mean is the entropy in bits."""
    return np.asarray((special.digamma(distance) + np.euler_gamma) / math.log(2), dtype=np.float64)


@cache
def _weights() -> Counts:
    distances = np.maximum(np.arange(ENTROPY_FIRST + ENTROPY_TESTED + 1), 1)
    table: Counts = np.rint(entropy_weight(distances) * UNIT).astype(np.int64)
    return table


def observe_entropy(chunk: NDArray[np.uint8]) -> Counts:
    """Sum the weights of the distances back to the last equal octet, in fixed point."""
    rows = chunk.reshape(-1, ENTROPY_FIRST + ENTROPY_TESTED).astype(np.uint16)
    sums = [int(_weights()[distances_back(row, ENTROPY_FIRST)].sum()) for row in rows]
    return np.array([sum(sums), sum(total <= ENTROPY_BOUND * ENTROPY_TESTED * UNIT for total in sums)])


def judge_entropy(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Judge the mean weight; its mean is 8 bits and its variance exact, as for Maurer's statistic."""
    if not windows:
        return (not_applicable(T8, UNJUDGED, f"less than {ENTROPY_FIRST + ENTROPY_TESTED} octets"),)
    mean, variance = distance_moments(ENTROPY_BITS, ENTROPY_TESTED, entropy_weight)
    entropy = int(counts[0]) / UNIT / ENTROPY_TESTED / windows
    return (
        Result(
            test=T8,
            null=f"normal, mean {mean:.8g}, variance {variance / windows:.6g}",
            statistic=entropy,
            log_p=log_two_sided_normal((entropy - mean) / math.sqrt(variance / windows)),
            details={"windows": windows, "windows_outside_the_bounds": int(counts[1])},
        ),
    )


# --- Entries ---

T0: Final = "bits.ais-31.t0-disjointness"
T1: Final = "bits.ais-31.t1-monobit"
T2: Final = "bits.ais-31.t2-poker"
T3: Final = "bits.ais-31.t3-runs"
T4: Final = "bits.ais-31.t4-long-run"
T5: Final = "bits.ais-31.t5-autocorrelation"
T6: Final = "bits.ais-31.t6-uniform-distribution"
T7: Final = "bits.ais-31.t7-homogeneity"
T8: Final = "bits.ais-31.t8-entropy"


def _block_statistic(
    cells: int,
    observe: Callable[[NDArray[np.uint8]], Counts],
    judge: Callable[[Counts, int], tuple[Result, ...]],
    octets: int = BLOCK_OCTETS,
) -> Statistic:
    return Statistic(cells=cells, observe=observe, judge=judge, span=octets, step=octets)


def _entry(
    name: str, title: str, null: str, statistic: Statistic, bounds: dict[str, int | float | str], part: str = ""
) -> Entry:
    def make(_setting: Setting, start: int) -> WindowCounts:
        return WindowCounts(statistic, start, np.uint8)

    return Entry(
        id=name + part,
        title=title,
        clauses=("R24",),
        kind=Kind.BITS,
        null=null,
        source=AIS,
        minimal=lambda _setting: statistic.span,
        make=make,
        parameters={"window_octets": statistic.span, **bounds},
        primary=False,
    )


def _between(bounds: tuple[float, float]) -> dict[str, int | float | str]:
    return {"passes_above": bounds[0], "passes_below": bounds[1]}


AIS_31: Final = (
    _entry(
        T0,
        "T0: no word of 48 bits twice among 65,536",
        "Poisson, exact mean",
        _block_statistic(1, observe_words, judge_words, WORD_OCTETS * DISJOINT_WORDS),
        {"most_repeats": 0},
    ),
    _entry(
        T1,
        "T1: as many ones as zeros in 20,000 bits",
        "chi-square scaled to the exact mean and variance",
        _block_statistic(2, observe_monobit, judge_monobit),
        _between(MONOBIT_BOUNDS),
    ),
    _entry(
        T2,
        "T2: words of four bits in 20,000 bits",
        "chi-square scaled to the exact mean and variance",
        _block_statistic(2, observe_poker, judge_poker),
        _between(POKER_BOUNDS),
    ),
    _entry(
        T3,
        "T3: runs by length in 20,000 bits",
        "chi-square, 11 degrees of freedom, exact mean and covariance",
        _block_statistic(RUN_CELLS + 1, observe_runs, judge_runs),
        {f"runs_of_{length}": f"{low}..{high}" for length, (low, high) in enumerate(RUN_BOUNDS, start=1)},
    ),
    _entry(
        T4,
        "T4: no run of 34 bits in 20,000",
        "Poisson, exact mean",
        _block_statistic(1, observe_long_runs, judge_long_runs),
        {"longest_run": LONG_RUN - 1},
    ),
    _entry(
        T5,
        "T5: the shift that stands out in 10,000 bits does not in the next 10,000",
        "chi-square scaled to the exact mean and variance",
        _block_statistic(2, observe_autocorrelation, judge_autocorrelation),
        _between(AUTOCORRELATION_BOUNDS),
    ),
    *(
        _entry(
            T6,
            f"T6: words of {bits} bit{'s' * (bits > 1)} are equally frequent",
            f"chi-square, {2**bits - 1} degrees of freedom",
            uniform_statistic(bits, tolerance),
            {"words": WORDS, "tolerance": tolerance},
            f"/{bits}-bit",
        )
        for bits, tolerance in UNIFORM
    ),
    *(
        _entry(
            T7,
            f"T7: a bit does not depend on the bit {before} places before it",
            f"chi-square, {2 ** (before - 1)} degrees of freedom",
            homogeneity_statistic(before),
            {"words_of_each_context": WORDS, "passes_up_to": HOMOGENEITY_BOUND},
            f"/{before}-before",
        )
        for before in HOMOGENEOUS
    ),
    _entry(
        T8,
        "T8: entropy of octets by Coron's estimator",
        "normal, exact variance",
        _block_statistic(2, observe_entropy, judge_entropy, ENTROPY_FIRST + ENTROPY_TESTED),
        {"first": ENTROPY_FIRST, "tested": ENTROPY_TESTED, "passes_above": ENTROPY_BOUND},
    ),
)
