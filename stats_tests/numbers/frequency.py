"""How often each value comes: chi-square, Kolmogorov-Smirnov, low digits, every seventh number, Poisson counts."""

import itertools
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stats_tests.nulls import SMALLEST_EXPECTATION, judge_categories
from stats_tests.numbers.cells import Cells
from stats_tests.numbers.number_test import KNUTH, NumberTest
from stats_tests.result import Result
from stats_tests.windows import Counts, Statistic

MOST_CELLS: Final = 4096
MOST_STEPS: Final = 64
SUBSEQUENCE_STEP: Final = 7


def _frequency(test: str, m: int) -> Statistic:
    cells = Cells.at_most(MOST_CELLS, m)

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        return np.bincount(cells.of(numbers), minlength=cells.count)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        chi_square = judge_categories(f"{test}/chi-square", counts, cells.probabilities, cells.labels)
        return chi_square, _kolmogorov_smirnov(f"{test}/kolmogorov-smirnov", counts, cells)

    return Statistic(cells=cells.count, observe=observe, judge=judge)


def _kolmogorov_smirnov(test: str, counts: Counts, cells: Cells) -> Result:
    """Compare the empirical distribution function with the line at no more than 64 steps of it.

    At the steps of a discrete distribution the scaled difference tends to a Brownian bridge seen at those times only;
    its maximum is smaller than that of the whole bridge, so Kolmogorov's law would be too lenient.
    """
    total = int(counts.sum())
    steps = np.unique(np.linspace(0, cells.count, min(cells.count, MOST_STEPS) + 1).astype(np.int64))[1:-1]
    if total == 0 or not len(steps):
        return Result(test=test, null="one value: no distribution function to compare", statistic=0.0, log_p=0.0)
    times = np.cumsum(cells.probabilities)[steps - 1]
    seen = np.cumsum(counts)[steps - 1] / total
    statistic = float(np.abs(seen - times).max()) * math.sqrt(total)
    return Result(
        test=test,
        null=f"largest absolute value of a Brownian bridge at {len(times)} times",
        statistic=statistic,
        log_p=log_bridge_tail(statistic, times),
        details={"observations": total},
    )


def log_bridge_tail(bound: float, times: NDArray[np.float64]) -> float:
    """Return log P(max over `times` of |Brownian bridge| >= bound).

    The bridge is a Markov chain of normal steps: its density is carried from time to time on the nodes of a
    Gauss-Legendre rule between the bounds. Where nearly nothing is lost on the way, the sum of the single tails is
    right to more digits than the difference from one.
    """
    if bound <= 0:
        return 0.0
    spread = np.sqrt(times * (1 - times))
    log_sum = float(special.logsumexp(math.log(2) + special.log_ndtr(-bound / spread)))
    if log_sum < -18:
        return log_sum
    nodes, weights = np.polynomial.legendre.leggauss(256)
    nodes, weights = nodes * bound, weights * bound
    density = np.exp(-0.5 * (nodes / spread[0]) ** 2) / (math.sqrt(2 * math.pi) * spread[0])
    for now, then in itertools.pairwise(times):
        shrink = (1 - then) / (1 - now)
        deviation = math.sqrt((then - now) * shrink)
        step = np.exp(-0.5 * ((nodes[:, None] - shrink * nodes[None, :]) / deviation) ** 2)
        density = step @ (density * weights) / (math.sqrt(2 * math.pi) * deviation)
    inside = float(density @ weights)
    return 0.0 if inside <= 0 else math.log1p(-min(inside, 1 - 1e-16))


def _low_digits(test: str, m: int) -> Statistic:
    residues = 256
    probabilities = np.array([-((r - m) // residues) / m for r in range(residues)])

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        return np.bincount((numbers % np.uint64(residues)).astype(np.int64), minlength=residues)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities),)

    return Statistic(cells=residues, observe=observe, judge=judge)


def _low_digits_objection(m: int) -> str | None:
    return None if m > MOST_CELLS else f"the frequency test sees each value of a range up to {MOST_CELLS}"


def _subsequence(test: str, m: int) -> Statistic:
    cells = Cells.at_most(MOST_CELLS, m)

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        return np.bincount(cells.of(numbers[::SUBSEQUENCE_STEP]), minlength=cells.count)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, cells.probabilities, cells.labels),)

    return Statistic(cells=cells.count, observe=observe, judge=judge, step=SUBSEQUENCE_STEP)


def _poisson(test: str, m: int) -> Statistic:
    cells = Cells.at_most(64, m)
    block = cells.count
    p = float(cells.probabilities[0])
    hits = np.arange(block + 1)
    logs = (
        special.gammaln(block + 1)
        - special.gammaln(hits + 1)
        - special.gammaln(block - hits + 1)
        + special.xlogy(hits, p)
        + special.xlog1py(block - hits, -p)
    )
    probabilities = np.exp(logs)

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        first = numbers.reshape(-1, block) < cells.width
        return np.bincount(first.sum(axis=1), minlength=block + 1)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities),)

    return Statistic(cells=block + 1, observe=observe, judge=judge, span=block, step=block)


def _five_each(m: int) -> int:
    cells = Cells.at_most(MOST_CELLS, m)
    return math.ceil(SMALLEST_EXPECTATION / float(cells.probabilities.min()))


TESTS: Final = (
    NumberTest(
        name="frequency",
        title="Each value as often as any other (chi-square, and Kolmogorov-Smirnov)",
        clauses=("R02", "R03", "R04", "R06", "R22"),
        null="chi-square; Brownian bridge at the steps of the distribution",
        source=f"{KNUTH} A and 3.3.1; exact cell probabilities",
        minimal=lambda m: min(_five_each(m), 5 * MOST_CELLS * 2),
        statistic=_frequency,
        parameters={"most_cells": MOST_CELLS, "most_steps": MOST_STEPS},
    ),
    NumberTest(
        name="equidistribution",
        title="Each low byte as often as any other",
        clauses=("R03", "R08"),
        null="chi-square, exact cell probabilities",
        source=f"{KNUTH} A",
        minimal=lambda _m: 5 * 300,
        statistic=_low_digits,
        parameters={"residues": 256},
        objection=_low_digits_objection,
    ),
    NumberTest(
        name="subsequences",
        title="Each value as often as any other among every seventh number",
        clauses=("R03",),
        null="chi-square, exact cell probabilities",
        source=f"{KNUTH} K",
        minimal=lambda m: SUBSEQUENCE_STEP * min(_five_each(m), 5 * MOST_CELLS * 2),
        statistic=_subsequence,
        parameters={"step": SUBSEQUENCE_STEP},
    ),
    NumberTest(
        name="poisson",
        title="How often the first cell comes in a block as long as there are cells",
        clauses=("R03",),
        null="chi-square against the exact binomial, whose limit is Poisson with mean 1",
        source="binomial probabilities",
        minimal=lambda m: 100 * Cells.at_most(64, m).count,
        statistic=_poisson,
        parameters={"most_cells": 64},
    ),
)
