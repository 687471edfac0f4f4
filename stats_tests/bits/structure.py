"""Structure that SP 800-22 is blind to: linear recurrences longer than a block, spacings, collisions, repetition.

The words of these tests are 32 bits wide, big-endian, as most generators emit them.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stats_tests.bits import tails
from stats_tests.bits.linear_complexity import linear_complexity
from stats_tests.bits.matrix_rank import rank_of, rank_probability
from stats_tests.bits.per_sequence import UNJUDGED, chi_square, goodness_of_fit
from stats_tests.bits.repeated_blocks import RepeatedBlocks
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.nulls import log_chi_square_tail
from stats_tests.result import Category, Result, not_applicable
from stats_tests.windows import Counts, Statistic, WindowCounts

LANE_COMPLEXITY: Final = "bits.structure.lane-complexity"
LARGE_RANK: Final = "bits.structure.large-rank"
BIRTHDAYS: Final = "bits.structure.birthday-spacings"
COLLISIONS: Final = "bits.structure.collisions"
AUTOCORRELATION: Final = "bits.structure.autocorrelation"

WORD_BITS: Final = 32
LANE_BITS: Final = 45_000
"""MT19937 needs twice its 19,937 bits to show itself."""
LANES: Final = (0, 15, 31)
LANE_STEP: Final = 1 << 23
"""Bytes from one lane window to the next: quadratic work, so one look in 8 MiB."""
LARGE_SIDE: Final = 1024
LARGE_RANK_STEP: Final = 1 << 20
MOST_DEFICIENT: Final = 32
"""Greater rank deficiencies are counted as this one, which a fair matrix has with probability 2^-1022."""
FEWEST_FOR_CHI_SQUARE: Final = 38
"""Matrices from which on the rarest of three categories is expected five times (SP 800-22, 2.5.7)."""
BIRTHDAY_WORDS: Final = 1 << 12
COLLISION_WORDS: Final = 1 << 16
LAGS: Final = 64


def _words(chunk: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return chunk.view(">u4").astype(np.uint32)


# --- Linear complexity of bit lanes ---


def observe_lanes(chunk: NDArray[np.uint8]) -> Counts:
    """Sum how far the complexities of the lanes lie from n/2, and count those that do not lie there."""
    counts = np.zeros(2, dtype=np.int64)
    span = LANE_BITS * WORD_BITS // 8
    for begin in range(0, chunk.size, LANE_STEP):
        words = _words(chunk[begin : begin + span])
        for lane in LANES:
            bits = (words >> np.uint32(WORD_BITS - 1 - lane) & np.uint32(1)).astype(np.uint8)
            distance = abs(linear_complexity(bits) - LANE_BITS // 2)
            counts += (distance, distance > 0)
    return counts


def judge_lanes(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Combine the lanes by Fisher's method.

    Of the 2^n words of even length n, 2^min(2n - 2L, 2L - 1) have complexity L, so the distance d from n/2 has
    P(>= d) = 2 x 4^-d for d >= 1.
    """
    lanes = windows * len(LANES)
    if not lanes:
        return (not_applicable(LANE_COMPLEXITY, UNJUDGED, f"less than {LANE_BITS} words"),)
    distance, away = map(int, counts)
    statistic = 2 * (distance * math.log(4) - away * math.log(2))
    return (
        Result(
            test=LANE_COMPLEXITY,
            null=f"chi-square, {2 * lanes} degrees of freedom, conservative (Fisher's method)",
            statistic=statistic,
            log_p=log_chi_square_tail(statistic, 2 * lanes),
            details={"lanes": lanes, "lane_bits": LANE_BITS, "mean_distance": distance / lanes},
        ),
    )


# --- Rank of large matrices ---


def observe_ranks(chunk: NDArray[np.uint8]) -> Counts:
    """Count matrices of 1024 x 1024 bits by what they lack of full rank."""
    counts = np.zeros(MOST_DEFICIENT + 1, dtype=np.int64)
    octets = LARGE_SIDE * LARGE_SIDE // 8
    for begin in range(0, chunk.size, LARGE_RANK_STEP):
        rows = chunk[begin : begin + octets].reshape(LARGE_SIDE, -1).view(np.uint64)
        counts[min(LARGE_SIDE - rank_of(rows), MOST_DEFICIENT)] += 1
    return counts


def judge_ranks(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Judge few matrices by Fisher's method, many by the chi-square of SP 800-22."""
    if not windows:
        return (not_applicable(LARGE_RANK, UNJUDGED, f"no whole matrix of {LARGE_SIDE} x {LARGE_SIDE} bits"),)
    exactly = [rank_probability(LARGE_SIDE, deficiency) for deficiency in range(MOST_DEFICIENT + 1)]
    details = {"matrices": windows, "rank_deficiency": int(counts @ np.arange(counts.size))}
    if windows >= FEWEST_FOR_CHI_SQUARE:
        observed = np.array([counts[0], counts[1], counts[2:].sum()])
        probabilities = (exactly[0], exactly[1], 1 - exactly[0] - exactly[1])
        labels = [str(LARGE_SIDE), str(LARGE_SIDE - 1), f"<={LARGE_SIDE - 2}"]
        return (goodness_of_fit(LARGE_RANK, observed, probabilities, labels, details),)
    at_least = [1.0, *(sum(exactly[deficiency:]) for deficiency in range(1, MOST_DEFICIENT + 1))]
    statistic = -2 * sum(int(count) * math.log(tail) for count, tail in zip(counts, at_least, strict=True))
    null = f"chi-square, {2 * windows} degrees of freedom, conservative (Fisher's method)"
    log_p = log_chi_square_tail(statistic, 2 * windows)
    return (Result(test=LARGE_RANK, null=null, statistic=statistic, log_p=log_p, details=details),)


# --- Birthday spacings and collisions ---


def observe_birthdays(chunk: NDArray[np.uint8]) -> Counts:
    """Count, in each group of birthdays, the spacings that another one equals already."""
    days = np.sort(_words(chunk).reshape(-1, BIRTHDAY_WORDS), axis=1)
    spacings = np.sort(np.diff(days, axis=1, prepend=np.uint32(0)), axis=1)
    return np.array([np.count_nonzero(spacings[:, 1:] == spacings[:, :-1])])


def judge_birthdays(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Judge the number of equal spacings."""
    mean = windows * equal_spacings(BIRTHDAY_WORDS, 2.0**WORD_BITS)
    return (judge_poisson(BIRTHDAYS, int(counts[0]), mean, windows, f"no group of {BIRTHDAY_WORDS} words"),)


@cache
def equal_spacings(birthdays: int, days: float) -> float:
    """Return the mean number of spacings that equal an earlier one, to second order in 1/birthdays.

    Marsaglia's m^3 / 4n counts pairs as if all m (m - 1) / 2 were as good as m^2 / 2, and three equal spacings as three
    instead of two; both corrections follow from the joint density of two and of three spacings.
    """
    m = float(birthdays)
    pairs = m * m * (m - 1) / (4 * days)
    triples = m * m * (m - 1) ** 2 * (m - 2) / (18 * days * days)
    return pairs - triples


def observe_collisions(chunk: NDArray[np.uint8]) -> Counts:
    """Count, in each group of words, those that equal an earlier one."""
    words = np.sort(_words(chunk).reshape(-1, COLLISION_WORDS), axis=1)
    return np.array([np.count_nonzero(words[:, 1:] == words[:, :-1])])


def judge_collisions(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Judge the number of collisions; the mean is exact."""
    values = 2.0**WORD_BITS
    distinct = -values * math.expm1(COLLISION_WORDS * math.log1p(-1 / values))
    mean = windows * (COLLISION_WORDS - distinct)
    return (judge_poisson(COLLISIONS, int(counts[0]), mean, windows, f"no group of {COLLISION_WORDS} words"),)


def judge_poisson(test: str, count: int, mean: float, windows: int, lacking: str) -> Result:
    """Return the two-sided result of a count that is Poisson over so many windows; `lacking` says why there is none."""
    null = f"Poisson, mean {mean:.6g}"
    if not windows:
        return not_applicable(test, UNJUDGED, lacking)
    return Result(
        test=test,
        null=null,
        statistic=count,
        log_p=tails.poisson_two_sided(count, mean),
        details={"groups": windows, "expected": mean},
        categories=(Category("equal", count, mean),),
    )


# --- Correlation ---


def observe_lags(chunk: NDArray[np.uint8]) -> Counts:
    """Count for each lag of 1 .. 64 bits the bits that differ from the bit so much later.

    The last eight bytes are only compared with.
    """
    octets = chunk.size - LAGS // 8
    counts = []
    for shift in range(1, 9):
        later = chunk[:-1] << np.uint8(shift & 7) | chunk[1:] >> np.uint8(8 - shift) if shift < 8 else chunk[1:]
        counts += [_differing_bits(chunk[:octets], later[offset : offset + octets]) for offset in range(LAGS // 8)]
    return np.array(counts).reshape(8, LAGS // 8).T.reshape(-1)


def _differing_bits(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> int:
    difference = np.zeros((first.size + 7) // 8, dtype=np.uint64)
    np.bitwise_xor(first, second, out=difference.view(np.uint8)[: first.size])
    return int(np.bitwise_count(difference).sum(dtype=np.int64))


def judge_lags(counts: Counts, windows: int) -> tuple[Result, ...]:
    """Judge all lags together.

    Each count is binomial with probability 1/2 and any two are uncorrelated.
    """
    if not windows:
        return (not_applicable(AUTOCORRELATION, UNJUDGED, f"less than {LAGS // 8 + 1} bytes"),)
    pairs = 8 * windows
    z = (2 * counts - pairs) / math.sqrt(pairs)
    worst = int(np.argmax(np.abs(z)))
    statistic = float((z**2).sum())
    details = {"pairs": pairs, "worst_lag": worst + 1, "worst_z": float(z[worst])}
    return (chi_square(AUTOCORRELATION, statistic, LAGS, details),)


def differing_at_lags(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Counts:
    """Count for lags of 0 .. 64 bytes, then of -1 .. -64, the bits of two samples that differ.

    The last 64 bytes of each are only compared with. Counts of pieces that overlap by these add up to those of the
    whole.
    """
    octets = first.size - LAGS
    counts = [_differing_bits(first[:octets], second[lag : lag + octets]) for lag in range(LAGS + 1)]
    counts += [_differing_bits(second[:octets], first[lag : lag + octets]) for lag in range(1, LAGS + 1)]
    return np.array(counts)


def judge_cross_correlation(test: str, counts: Counts, octets: int) -> Result:
    """Judge all lags together: whether two instances' samples agree more or less often than chance."""
    z = (2 * counts - 8 * octets) / math.sqrt(8 * octets)
    worst = int(np.argmax(np.abs(z)))
    statistic = float((z**2).sum())
    worst_lag = worst if worst <= LAGS else LAGS - worst
    details = {"pairs": 8 * octets, "worst_lag_bytes": worst_lag, "worst_z": float(z[worst])}
    return chi_square(test, statistic, len(counts), details)


def _entry(
    name: str,
    title: str,
    clauses: tuple[str, ...],
    null: str,
    source: str,
    statistic: Statistic,
    parameters: dict[str, int],
) -> Entry:
    def make(_setting: Setting, start: int) -> WindowCounts:
        return WindowCounts(statistic, start, np.uint8)

    return Entry(
        id=name,
        title=title,
        clauses=clauses,
        kind=Kind.BITS,
        null=null,
        source=source,
        minimal=lambda _setting: statistic.span,
        make=make,
        parameters=parameters,
    )


def _windows(
    cells: int,
    observe: Callable[[NDArray[np.uint8]], Counts],
    judge: Callable[[Counts, int], tuple[Result, ...]],
    span: int,
    step: int,
) -> Statistic:
    return Statistic(cells=cells, observe=observe, judge=judge, span=span, step=step)


STRUCTURE: Final = (
    _entry(
        LANE_COMPLEXITY,
        "Linear complexity of single bit lanes",
        ("R11", "R12"),
        "Fisher's combination of exact P-values, conservative",
        "number of words of each linear complexity (Rueppel, 1986)",
        _windows(2, observe_lanes, judge_lanes, LANE_BITS * WORD_BITS // 8, LANE_STEP),
        {"lane_bits": LANE_BITS, "word_bits": WORD_BITS, "lanes": len(LANES), "step_bytes": LANE_STEP},
    ),
    _entry(
        LARGE_RANK,
        "Ranks of 1024 x 1024 matrices",
        ("R11", "R12"),
        "chi-square of three categories, or Fisher's combination of exact P-values",
        "SP 800-22 rev. 1a, 3.5",
        _windows(MOST_DEFICIENT + 1, observe_ranks, judge_ranks, LARGE_SIDE * LARGE_SIDE // 8, LARGE_RANK_STEP),
        {"side": LARGE_SIDE, "step_bytes": LARGE_RANK_STEP},
    ),
    _entry(
        BIRTHDAYS,
        "Equal spacings between sorted words",
        ("R02", "R11"),
        "Poisson, mean to second order",
        "Marsaglia, 1985; Knuth, TAOCP 3.3.2 J",
        _windows(1, observe_birthdays, judge_birthdays, 4 * BIRTHDAY_WORDS, 4 * BIRTHDAY_WORDS),
        {"birthdays": BIRTHDAY_WORDS, "day_bits": WORD_BITS},
    ),
    _entry(
        COLLISIONS,
        "Equal words in a group",
        ("R02", "R11"),
        "Poisson, exact mean",
        "Knuth, TAOCP 3.3.2 I",
        _windows(1, observe_collisions, judge_collisions, 4 * COLLISION_WORDS, 4 * COLLISION_WORDS),
        {"words": COLLISION_WORDS, "word_bits": WORD_BITS},
    ),
    _entry(
        AUTOCORRELATION,
        "Bits against bits 1 to 64 places later",
        ("R02", "R03", "R06"),
        "chi-square, 64 degrees of freedom",
        "differences of distinct fair bits are fair and uncorrelated",
        _windows(LAGS, observe_lags, judge_lags, LAGS // 8 + 1, 1),
        {"lags": LAGS},
    ),
    Entry(
        id=RepeatedBlocks.ID,
        title="No stretch of the sample comes twice",
        clauses=("R07", "R08", "R11"),
        kind=Kind.BITS,
        null="Poisson, mean far below 1: any repetition is fatal",
        source="birthday bound",
        minimal=lambda _setting: RepeatedBlocks.BLOCK,
        make=lambda _setting, start: RepeatedBlocks(start),
        parameters={"block_bytes": RepeatedBlocks.BLOCK, "one_in": 1 << RepeatedBlocks.MARK_BITS},
    ),
)
