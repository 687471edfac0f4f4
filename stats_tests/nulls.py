"""Null distributions, and P-values from counts.

Everything is computed in logarithms where a P-value may underflow, and every count is judged against exact
probabilities. Small cells are joined by one rule, fixed in advance: neighbours are joined until each cell expects at
least five (Knuth, TAOCP vol. 2, 3.3.1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stats_tests.result import Category, Result, not_applicable

SMALLEST_EXPECTATION: Final = 5.0
MOST_CATEGORIES_SHOWN: Final = 64

Probabilities = NDArray[np.float64]


def log_chi_square_tail(statistic: float, degrees: float) -> float:
    """Return log P(chi-square with `degrees` >= statistic), also where the probability itself underflows."""
    if statistic <= 0:
        return 0.0
    tail = float(special.gammaincc(degrees / 2, statistic / 2))
    if tail > 1e-280:
        return math.log(tail) if tail < 1 else 0.0
    # Continued fraction of the upper incomplete gamma function (DLMF 8.9.2), modified Lentz; it converges fast for
    # x > a, and the tail underflows nowhere else.
    a, x = degrees / 2, statistic / 2
    b = x + 1 - a
    c, d = 1e300, 1 / b
    fraction = d
    for i in range(1, 10_000):
        numerator = -i * (i - a)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return -x + a * math.log(x) - math.lgamma(a) + math.log(fraction)


def log_chi_square_lower(statistic: float, degrees: float) -> float:
    """Return log P(chi-square with `degrees` <= statistic): small when the counts agree too well."""
    if statistic <= 0:
        return -math.inf
    lower = float(special.gammainc(degrees / 2, statistic / 2))
    if lower > 1e-280:
        return math.log(lower)
    # First term of the series (DLMF 8.11.4) is enough where the rest is below it by x / a.
    a, x = degrees / 2, statistic / 2
    return -x + a * math.log(x) - math.lgamma(a + 1) - math.log1p(-x / (a + 1))


def log_two_sided_normal(z: float) -> float:
    """Return log P(|standard normal| >= |z|)."""
    return min(0.0, math.log(2) + float(special.log_ndtr(-abs(z))))


def log_smallest_of(log_ps: Sequence[float]) -> float:
    """Return the log P-value of the smallest of several P-values, taken as independent (Sidak).

    For weakly dependent tables, as those of the positions of one deck, it is right to within the dependence, which
    is of order 1/n squared; for small P-values it agrees with the Bonferroni bound, which needs no independence.
    """
    smallest, tests = min(log_ps), len(log_ps)
    if smallest < -30:
        return min(0.0, smallest + math.log(tests))
    p = math.exp(smallest)
    return 0.0 if p >= 1 else math.log(-math.expm1(tests * math.log1p(-p)))


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Pearson's statistic of a table whose small cells have been joined."""

    statistic: float
    degrees: int
    log_p: float
    log_p_low: float
    observed: NDArray[np.int64]
    expected: NDArray[np.float64]
    labels: tuple[str, ...]


def chi_square(counts: NDArray[np.int64], probabilities: Probabilities, labels: Sequence[str]) -> ChiSquare | None:
    """Compare counts of independent observations with exact probabilities; None if fewer than two cells remain.

    Args:
        counts: observations per category, neighbours beside each other.
        probabilities: of the categories under the null distribution; they sum to one.
        labels: of the categories, for the report.
    """
    total = int(counts.sum())
    observed, expected, names = _join_small_cells(counts, probabilities * total, labels)
    if len(observed) < 2:
        return None
    statistic = float(((observed - expected) ** 2 / expected).sum())
    degrees = len(observed) - 1
    log_p, log_p_low = log_chi_square_tail(statistic, degrees), log_chi_square_lower(statistic, degrees)
    return ChiSquare(statistic, degrees, log_p, log_p_low, observed, expected, names)


def _join_small_cells(
    counts: NDArray[np.int64], expected: NDArray[np.float64], labels: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float64], tuple[str, ...]]:
    """Join each cell that expects too little with the next; what remains at the end joins the last whole cell."""
    if len(expected) and float(expected.min()) >= SMALLEST_EXPECTATION:
        return counts, expected, tuple(labels)
    # `firsts` are where the joined cells begin; a cell is whole when its expectation reaches the least.
    firsts, sum_expected = [0], 0.0
    for cell, value in enumerate(expected.tolist()):
        if sum_expected >= SMALLEST_EXPECTATION:
            firsts.append(cell)
            sum_expected = 0.0
        sum_expected += value
    if sum_expected < SMALLEST_EXPECTATION and len(firsts) > 1:
        firsts.pop()
    lasts = [*(first - 1 for first in firsts[1:]), len(expected) - 1]
    names = tuple(labels[a] if a == b else f"{labels[a]}..{labels[b]}" for a, b in zip(firsts, lasts, strict=True))
    return np.add.reduceat(counts, firsts), np.add.reduceat(expected, firsts), names


def judge_categories(
    test: str, counts: NDArray[np.int64], probabilities: Probabilities, labels: Sequence[str] | None = None
) -> Result:
    """Return the chi-square result for counts of independent observations with known probabilities."""
    names = [str(i) for i in range(len(counts))] if labels is None else labels
    observations = int(counts.sum())
    table = chi_square(counts, probabilities, names)
    if table is None:
        return not_applicable(
            test, "chi-square", "fewer than two categories expect five observations", {"observations": observations}
        )
    # A category that cannot occur and did: no chi-square says this strongly enough.
    impossible = int(counts[probabilities == 0].sum())
    shown = len(table.observed) <= MOST_CATEGORIES_SHOWN
    return Result(
        test=test,
        null=f"chi-square, {table.degrees} degrees of freedom",
        statistic=table.statistic,
        log_p=-math.inf if impossible else table.log_p,
        log_p_low=table.log_p_low,
        details={"observations": observations, "degrees_of_freedom": table.degrees},
        categories=tuple(
            Category(name, int(o), float(e))
            for name, o, e in zip(table.labels, table.observed, table.expected, strict=True)
        )
        if shown
        else (),
    )


def judge_mean(test: str, total: int, observations: int, mean: float, variance: float) -> Result:
    """Return the two-sided normal result for a sum of independent observations with known mean and variance."""
    if observations < 1 or variance <= 0:
        return not_applicable(test, "normal", "nothing to average", {"observations": observations})
    z = (total - observations * mean) / math.sqrt(observations * variance)
    return Result(
        test=test,
        null="standard normal, two-sided",
        statistic=z,
        log_p=log_two_sided_normal(z),
        details={"observations": observations, "mean": total / observations, "expected_mean": mean},
    )


# --- Random permutations of n cards ---


@cache
def fixed_points(n: int) -> Probabilities:
    """Return P(k cards in their own place), k = 0..n: derangements of the rest, D(n-k) / (k! (n-k)!)."""
    alternating = np.cumsum([(-1) ** i / math.factorial(i) if i < 170 else 0.0 for i in range(n + 1)])
    return np.array([alternating[n - k] / math.factorial(k) if k < 170 else 0.0 for k in range(n + 1)])


@cache
def cycles(n: int) -> Probabilities:
    """Return P(k cycles), k = 0..n: unsigned Stirling numbers of the first kind over n!.

    Built as the sum of independent trials with chances 1/1, 1/2 .. 1/n (Feller's coupling).
    """
    p = np.zeros(n + 1)
    p[0] = 1.0
    for i in range(1, n + 1):
        p[1:] = p[1:] * (1 - 1 / i) + p[:-1] / i
        p[0] *= 1 - 1 / i
    return p


@cache
def inversions(n: int) -> Probabilities:
    """Return P(k inversions), k = 0..n(n-1)/2: Mahonian numbers over n!, sums of uniforms on 0..i-1, i = 1..n."""
    p = np.ones(1)
    for i in range(2, n + 1):
        total = np.concatenate([np.zeros(i), np.cumsum(p), np.full(i - 1, p.sum())])
        p = (total[i:] - total[:-i]) / i
    normalised: Probabilities = p / p.sum()
    return normalised


@cache
def descents(n: int) -> Probabilities:
    """Return P(k descents), k = 0..n-1: Eulerian numbers over n!."""
    p = np.zeros(n)
    p[0] = 1.0
    for size in range(2, n + 1):
        k = np.arange(1, size)
        p[1:size] = ((k + 1) * p[1:size] + (size - k) * p[: size - 1]) / size
        p[0] /= size
    return p


def moments(probabilities: Probabilities) -> tuple[float, float]:
    """Return mean and variance of a distribution on 0, 1, 2 .."""
    values = np.arange(len(probabilities))
    mean = float(values @ probabilities)
    return mean, float((values - mean) ** 2 @ probabilities)


# --- Cutting a distribution into stretches of about equal probability ---


def quantile_edges(cumulative: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Cut 0..len-1 into at most `bins` stretches of about equal probability; return where each begins but the first."""
    wanted = np.arange(1, bins) / bins
    edges = np.searchsorted(cumulative, wanted, side="left") + 1
    inner: NDArray[np.int64] = np.unique(edges[edges < len(cumulative)]).astype(np.int64)
    return inner


def stretch_probabilities(cumulative: NDArray[np.float64], edges: NDArray[np.int64]) -> Probabilities:
    """Return the probabilities of the stretches that `edges` cut."""
    bounds = np.concatenate([[0.0], cumulative[edges - 1], [1.0]])
    probabilities: Probabilities = np.diff(bounds)
    return probabilities


def stretch_labels(edges: NDArray[np.int64], length: int) -> list[str]:
    """Return the stretches' labels, ``first..last``."""
    firsts = [0, *edges.tolist()]
    lasts = [*(edge - 1 for edge in edges.tolist()), length - 1]
    return [str(a) if a == b else f"{a}..{b}" for a, b in zip(firsts, lasts, strict=True)]
