"""Tests of how numbers follow each other: pairs, overlapping pairs, gaps, runs about the middle, serial correlation."""

import math
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stats_tests.nulls import (
    judge_categories,
    log_chi_square_lower,
    log_chi_square_tail,
    log_two_sided_normal,
)
from stats_tests.numbers.cells import Cells
from stats_tests.numbers.number_test import KNUTH, NumberTest
from stats_tests.result import Result, not_applicable
from stats_tests.windows import Counts, Statistic

MOST_PAIRED_CELLS: Final = 64
INTERPLAY_DISTANCE: Final = 4
LAGS: Final = 5


def _pair_cells(m: int) -> Cells:
    return Cells.at_most(MOST_PAIRED_CELLS, m)


def _pairs_needed(numbers_a_pair: int, m: int) -> int:
    # A fifth of an expectation of five in each cell is enough to begin with: cells are joined until they expect five.
    return max(1000, numbers_a_pair * _pair_cells(m).count ** 2)


def _pairs(distance: int, test: str, m: int) -> Statistic:
    """Return the test of disjoint pairs (x_i, x_{i + distance}), one in each block of distance + 1 numbers."""
    cells = _pair_cells(m)
    block = distance + 1
    probabilities = np.outer(cells.probabilities, cells.probabilities).ravel()

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        blocks = cells.of(numbers).reshape(-1, block)
        return np.bincount(blocks[:, 0] * cells.count + blocks[:, -1], minlength=len(probabilities))

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities),)

    return Statistic(cells=len(probabilities), observe=observe, judge=judge, span=block, step=block)


def _overlaps(test: str, m: int) -> Statistic:
    cells = _pair_cells(m)
    d, p = cells.count, cells.probabilities

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        values = cells.of(numbers)
        return np.bincount(values[:-1] * d + values[1:], minlength=d * d)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        if windows * float(p.min()) ** 2 < 1:
            return (not_applicable(test, "chi-square", "some pair expects less than one observation"),)
        table = counts.reshape(d, d)
        singles = (table.sum(axis=0) + table.sum(axis=1)) / 2
        expected_pairs, expected_singles = windows * np.outer(p, p), windows * p
        psi_2 = float(((table - expected_pairs) ** 2 / expected_pairs).sum())
        psi_1 = float(((singles - expected_singles) ** 2 / expected_singles).sum())
        degrees = d * d - d
        return (
            Result(
                test=test,
                null=f"chi-square, {degrees} degrees of freedom (asymptotic)",
                statistic=psi_2 - psi_1,
                log_p=log_chi_square_tail(psi_2 - psi_1, degrees),
                log_p_low=log_chi_square_lower(psi_2 - psi_1, degrees),
                details={"observations": windows, "degrees_of_freedom": degrees},
            ),
        )

    return Statistic(cells=d * d, observe=observe, judge=judge, span=2)


def _gap_cut(parts: int, m: int) -> int:
    """Return the range's first part: numbers below it are hits."""
    return -(-m // parts)


def _gaps(test: str, m: int) -> Statistic:
    # Half the range, and a sixteenth of it, each with gaps as long as are likely. A gap is counted from each hit that
    # has a whole window behind it, so no gap is cut off by the end of the sample.
    marks = [(_gap_cut(2, m), 12), (_gap_cut(16, m), 64)]
    longest = max(length for _, length in marks)

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        parts = []
        for cut, length in marks:
            hits = np.flatnonzero(numbers < cut)
            gaps = np.diff(hits, append=len(numbers) + longest) - 1
            gaps = gaps[hits < len(numbers) - longest]
            parts.append(np.bincount(np.minimum(gaps, length), minlength=length + 1))
        return np.concatenate(parts)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        results = []
        offset = 0
        for name, (cut, length) in zip(("half", "sixteenth"), marks, strict=True):
            p = cut / m
            probabilities = np.append(p * (1 - p) ** np.arange(length), (1 - p) ** length)
            labels = [*map(str, range(length)), f"{length} or more"]
            seen = counts[offset : offset + length + 1]
            results.append(judge_categories(f"{test}/{name}", seen, probabilities, labels))
            offset += length + 1
        return tuple(results)

    return Statistic(cells=sum(length + 1 for _, length in marks), observe=observe, judge=judge, span=longest + 1)


def _runs(test: str, m: int) -> Statistic:
    middle = m // 2
    q = middle / m
    change = 2 * q * (1 - q)
    # Neighbouring changes share a number: P(two changes in a row) = q(1 - q), not change squared.
    shared = q * (1 - q) - change**2

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        low = numbers < middle
        return np.array([np.count_nonzero(low[1:] != low[:-1])], dtype=np.int64)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        if windows < 2:
            return (not_applicable(test, "normal", "fewer than three numbers"),)
        changes = int(counts[0])
        variance = windows * change * (1 - change) + 2 * (windows - 1) * shared
        z = (changes - windows * change) / math.sqrt(variance)
        return (
            Result(
                test=test,
                null="standard normal, two-sided",
                statistic=z,
                log_p=log_two_sided_normal(z),
                details={"runs": changes + 1, "expected_runs": windows * change + 1},
            ),
        )

    return Statistic(cells=1, observe=observe, judge=judge, span=2)


def _serial_correlation(test: str, m: int) -> Statistic:
    cells = Cells.at_most(4096, m)
    p = cells.probabilities
    mean = float(np.arange(cells.count) @ p)
    variance = float((np.arange(cells.count) - mean) ** 2 @ p)

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        values = cells.of(numbers)
        first = values[:-LAGS]
        counts = [int(first.sum())]
        for lag in range(1, LAGS + 1):
            other = values[lag : len(values) - LAGS + lag]
            counts += [int(other.sum()), int(first @ other)]
        return np.array(counts, dtype=np.int64)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        if windows < 1:
            return (not_applicable(test, "chi-square", f"fewer than {LAGS + 1} numbers"),)
        sum_first, rest = int(counts[0]), counts[1:].reshape(LAGS, 2)
        scores = [
            (int(products) - mean * (sum_first + int(sum_other)) + windows * mean**2) / (variance * math.sqrt(windows))
            for sum_other, products in rest
        ]
        statistic = sum(z * z for z in scores)
        return (
            Result(
                test=test,
                null=f"chi-square, {LAGS} degrees of freedom",
                statistic=statistic,
                log_p=log_chi_square_tail(statistic, LAGS),
                log_p_low=log_chi_square_lower(statistic, LAGS),
                details={f"z_lag_{lag}": z for lag, z in enumerate(scores, start=1)},
            ),
        )

    return Statistic(cells=1 + 2 * LAGS, observe=observe, judge=judge, span=LAGS + 1)


def _needs_two(m: int) -> str | None:
    return None if m >= 2 else "needs a range of at least 2"


TESTS: Final = (
    NumberTest(
        name="serial-pairs",
        title="Each pair of neighbours as often as any other (adjacency)",
        clauses=("R03", "R05"),
        null="chi-square over all pairs of cells, exact probabilities, disjoint pairs",
        source=f"{KNUTH} B",
        minimal=partial(_pairs_needed, 2),
        statistic=partial(_pairs, 1),
        parameters={"most_cells": MOST_PAIRED_CELLS},
        objection=_needs_two,
    ),
    NumberTest(
        name="interplay",
        title="Each pair of numbers four apart as often as any other (interplay correlation)",
        clauses=("R02", "R03"),
        null="chi-square over all pairs of cells, exact probabilities, disjoint pairs",
        source=f"{KNUTH} B",
        minimal=partial(_pairs_needed, INTERPLAY_DISTANCE + 1),
        statistic=partial(_pairs, INTERPLAY_DISTANCE),
        parameters={"distance": INTERPLAY_DISTANCE, "most_cells": MOST_PAIRED_CELLS},
        objection=_needs_two,
    ),
    NumberTest(
        name="overlaps",
        title="Overlapping pairs of neighbours: second difference of psi-square",
        clauses=("R02", "R03"),
        null="chi-square with d^2 - d degrees of freedom, asymptotic",
        source="Good (1953); Billingsley (1956) for cells of unequal probability",
        minimal=partial(_pairs_needed, 5),
        statistic=_overlaps,
        parameters={"most_cells": MOST_PAIRED_CELLS},
        objection=_needs_two,
    ),
    NumberTest(
        name="gaps",
        title="How many numbers pass until one falls into the same part of the range again",
        clauses=("R03",),
        null="chi-square against the geometric distribution",
        source=f"{KNUTH} C",
        minimal=lambda _m: 5000,
        statistic=_gaps,
        parameters={"parts": "first half, first sixteenth"},
        objection=lambda m: None if m >= 2 else "needs a range of at least 2",
    ),
    NumberTest(
        name="runs",
        title="How often numbers change between the lower and the upper half",
        clauses=("R02", "R03", "R05", "R06", "R21"),
        null="normal with the exact mean and variance of the number of changes",
        source="Wald and Wolfowitz (1940), for a known probability",
        minimal=lambda _m: 1000,
        statistic=_runs,
        objection=_needs_two,
    ),
    NumberTest(
        name="serial-correlation",
        title="Correlation with the number one to five places before",
        clauses=("R02", "R03", "R05", "R06"),
        null="chi-square: sum of five squared, uncorrelated normal scores with exact variance",
        source=f"{KNUTH} J, for known mean and variance",
        minimal=lambda _m: 1000,
        statistic=_serial_correlation,
        parameters={"lags": LAGS},
        objection=_needs_two,
    ),
)
