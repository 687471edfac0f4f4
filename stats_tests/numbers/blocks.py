"""Tests of short blocks of successive numbers: poker, coupon collector, permutation, extremes, runs up, collisions.

Knuth lets each test begin where the one before ended; here each observation has its own block at a fixed place in the
stream. So observations are independent, their probabilities are exact, and segments can be counted in any order.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stats_tests.nulls import (
    Probabilities,
    judge_categories,
    quantile_edges,
    stretch_labels,
    stretch_probabilities,
)
from stats_tests.numbers.cells import Cells, count_distinct, distinct_after
from stats_tests.numbers.number_test import KNUTH, NumberTest
from stats_tests.result import Result
from stats_tests.windows import Counts, Statistic

POKER_HAND: Final = 5
PERMUTED: Final = 4
EXTREMES_OF: Final = 8
LONGEST_RUN: Final = 7
BINS: Final = 32

Blocks = NDArray[np.uint64]


def in_blocks(
    test: str,
    block: int,
    probabilities: Probabilities,
    categorise: Callable[[Blocks], NDArray[np.int64]],
    labels: list[str] | None = None,
) -> Statistic:
    """Return the statistic that puts each block of `block` numbers into one category of known probability."""

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        return np.bincount(categorise(numbers.reshape(-1, block)), minlength=len(probabilities))

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities, labels),)

    return Statistic(cells=len(probabilities), observe=observe, judge=judge, span=block, step=block)


def _poker(test: str, m: int) -> Statistic:
    cells = Cells.at_most(16, m)
    probabilities = distinct_after(POKER_HAND, cells)[POKER_HAND]
    return in_blocks(test, POKER_HAND, probabilities, lambda blocks: count_distinct(cells.of(blocks)))


def _coupon_block(m: int) -> int:
    """Return a block in which all cells are seen but in about one of a hundred blocks."""
    cells = Cells.at_most(64, m)
    return math.ceil(cells.count * (math.log(cells.count) + 5))


def _coupon_collector(test: str, m: int) -> Statistic:
    cells = Cells.at_most(64, m)
    block = _coupon_block(m)
    finished = distinct_after(block, cells)[:, -1]
    # Category of time t: the stretch of times t lies in; the last is "not finished within the block".
    edges = quantile_edges(finished, BINS)
    probabilities = np.append(stretch_probabilities(np.minimum(finished, finished[-1]), edges), 0.0)
    probabilities[-2] -= 1 - finished[-1]
    probabilities[-1] = 1 - finished[-1]

    def categorise(blocks: Blocks) -> NDArray[np.int64]:
        drawn = cells.of(blocks)
        first_seen = np.full((len(blocks), cells.count), block, dtype=np.int64)
        rows = np.arange(len(blocks))
        # From the last draw to the first, so that the first draw of a cell is what remains written.
        for t in range(block - 1, -1, -1):
            first_seen[rows, drawn[:, t]] = t
        # `finished` counts draws, `first_seen` counts from 0: the last cell seen at t is finished after t + 1 draws.
        draws = first_seen.max(axis=1) + 1
        category = np.searchsorted(edges, draws, side="right")
        return np.where(draws > block, len(probabilities) - 1, category)

    labels = [*stretch_labels(edges, block + 1), f"more than {block}"]
    return in_blocks(test, block, probabilities, categorise, labels)


def _permutation(test: str, m: int) -> Statistic:
    # Four numbers of a small range are often not all different; those blocks are a category of their own, with its
    # exact probability, so no tie is broken and none is dropped.
    orders = math.factorial(PERMUTED)
    untied = math.perm(m, PERMUTED) / m**PERMUTED
    probabilities = np.append(np.full(orders, untied / orders), 1 - untied)
    labels = ["".join(map(str, order)) for order in permutations(range(PERMUTED))]

    def categorise(blocks: Blocks) -> NDArray[np.int64]:
        # Lehmer code: for each place, how many later numbers are smaller.
        code = np.zeros(len(blocks), dtype=np.int64)
        tied = np.zeros(len(blocks), dtype=bool)
        for i in range(PERMUTED):
            later = blocks[:, i + 1 :]
            code = code * (PERMUTED - i) + (later < blocks[:, i : i + 1]).sum(axis=1)
            tied |= (later == blocks[:, i : i + 1]).any(axis=1)
        return np.where(tied, orders, code)

    return in_blocks(test, PERMUTED, probabilities, categorise, [*labels, "tied"])


def _extremes(test: str, m: int) -> Statistic:
    cells = Cells.at_most(4096, m)
    at_most = np.cumsum(cells.probabilities) ** EXTREMES_OF
    at_least = (1 - np.concatenate([[0.0], np.cumsum(cells.probabilities)[:-1]])) ** EXTREMES_OF
    for_largest, for_smallest = quantile_edges(at_most, BINS), quantile_edges(1 - np.append(at_least[1:], 0.0), BINS)
    largest = stretch_probabilities(at_most, for_largest)
    smallest = stretch_probabilities(1 - np.append(at_least[1:], 0.0), for_smallest)

    def observe(numbers: NDArray[np.uint64]) -> Counts:
        blocks = cells.of(numbers).reshape(-1, EXTREMES_OF)
        tops = np.searchsorted(for_largest, blocks.max(axis=1), side="right")
        bottoms = np.searchsorted(for_smallest, blocks.min(axis=1), side="right")
        return np.concatenate(
            [np.bincount(tops, minlength=len(largest)), np.bincount(bottoms, minlength=len(smallest))]
        )

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        tops, bottoms = counts[: len(largest)], counts[len(largest) :]
        return (
            judge_categories(f"{test}/largest", tops, largest, stretch_labels(for_largest, cells.count)),
            judge_categories(f"{test}/smallest", bottoms, smallest, stretch_labels(for_smallest, cells.count)),
        )

    return Statistic(
        cells=len(largest) + len(smallest), observe=observe, judge=judge, span=EXTREMES_OF, step=EXTREMES_OF
    )


def _runs_up(test: str, m: int) -> Statistic:
    # A run up is strictly ascending: r numbers do so with chance C(m, r) / m^r, ties included in the reckoning.
    at_least = np.array([math.comb(m, r) / m**r for r in range(1, LONGEST_RUN + 1)])
    probabilities = np.append(at_least[:-1] - at_least[1:], at_least[-1])

    def categorise(blocks: Blocks) -> NDArray[np.int64]:
        rising = blocks[:, 1:] > blocks[:, :-1]
        length: NDArray[np.int64] = np.logical_and.accumulate(rising, axis=1).sum(axis=1)
        return length

    labels = [*map(str, range(1, LONGEST_RUN)), f"{LONGEST_RUN} or more"]
    return in_blocks(test, LONGEST_RUN, probabilities, categorise, labels)


def _collision_cells(m: int) -> Cells:
    return Cells.at_most(1 << 20, m)


def _collision_block(m: int) -> int:
    """Return a block in which about two collisions are expected."""
    return max(2, round(2 * math.sqrt(_collision_cells(m).count)))


def _collisions(test: str, m: int) -> Statistic:
    cells, block = _collision_cells(m), _collision_block(m)
    # Collisions = block - distinct. Only few are likely: those categories are kept, the rest is "or more".
    most = 16
    distinct = distinct_after(block, cells)[block] if cells.count <= 4096 else _distinct_of_many(block, cells.count)
    by_collisions = np.zeros(most + 1)
    for collisions in range(min(block, len(distinct))):
        if block - collisions < len(distinct):
            by_collisions[min(collisions, most)] += distinct[block - collisions]

    def categorise(blocks: Blocks) -> NDArray[np.int64]:
        return np.minimum(block - count_distinct(cells.of(blocks)), most)

    return in_blocks(test, block, by_collisions, categorise, [*map(str, range(most)), f"{most} or more"])


def _distinct_of_many(block: int, cells: int) -> Probabilities:
    """Return P(r different of `cells` equal cells in `block` draws); the narrower last cell weighs less than 1e-6."""
    p = np.zeros(block + 1)
    p[0] = 1.0
    hit = np.arange(block + 1) / cells
    for _ in range(block):
        moved = p * (1 - hit)
        p *= hit
        p[1:] += moved[:-1]
    return p


def _birthday_cells(m: int) -> Cells:
    return Cells.at_most(1 << 30, m)


def _birthday_block(m: int) -> int:
    """Return how many birthdays make about two equal spacings likely."""
    return round(math.cbrt(8 * _birthday_cells(m).count))


def _birthday_spacings(test: str, m: int) -> Statistic:
    cells, block = _birthday_cells(m), _birthday_block(m)
    mean = block**3 / (4 * cells.count)
    hits = np.arange(12)
    probabilities = np.exp(special.xlogy(hits, mean) - mean - special.gammaln(hits + 1))
    probabilities = np.append(probabilities, 1 - probabilities.sum())

    def categorise(blocks: Blocks) -> NDArray[np.int64]:
        spacings = np.diff(np.sort(cells.of(blocks), axis=1), axis=1)
        return np.minimum(block - 1 - count_distinct(spacings), len(probabilities) - 1)

    return in_blocks(test, block, probabilities, categorise, [*map(str, hits), f"{len(hits)} or more"])


def _needs(least: int, m: int) -> str | None:
    return None if m >= least else f"needs a range of at least {least}"


TESTS: Final = (
    NumberTest(
        name="poker",
        title="How many different cells five numbers hit",
        clauses=("R03",),
        null="chi-square, exact Stirling probabilities",
        source=f"{KNUTH} D",
        minimal=lambda _m: 5000,
        statistic=_poker,
        parameters={"hand": POKER_HAND, "most_cells": 16},
        objection=partial(_needs, 2),
    ),
    NumberTest(
        name="coupon-collector",
        title="How many numbers it takes to see every cell",
        clauses=("R02", "R03"),
        null="chi-square, exact waiting-time distribution (Stirling), one observation a block",
        source=f"{KNUTH} E",
        minimal=lambda m: 100 * _coupon_block(m),
        statistic=_coupon_collector,
        parameters={"most_cells": 64},
        objection=partial(_needs, 2),
    ),
    NumberTest(
        name="permutation",
        title="In which order four numbers stand",
        clauses=("R03",),
        null="chi-square, exact; blocks with equal numbers are a category",
        source=f"{KNUTH} F",
        minimal=lambda _m: 2000,
        statistic=_permutation,
        parameters={"numbers": PERMUTED},
        objection=partial(_needs, PERMUTED),
    ),
    NumberTest(
        name="order-statistics",
        title="The largest and the smallest of eight numbers",
        clauses=("R03",),
        null="chi-square against the exact powers of the distribution function",
        source=f"{KNUTH} C (maximum of t)",
        minimal=lambda _m: 2000,
        statistic=_extremes,
        parameters={"numbers": EXTREMES_OF, "bins": BINS},
        objection=partial(_needs, 3),
    ),
    NumberTest(
        name="runs-up",
        title="How far numbers ascend from the start of a block",
        clauses=("R02", "R03", "R05", "R06"),
        null="chi-square, exact with ties: P(at least r) = C(m, r) / m^r",
        source=f"{KNUTH} G, exercise 14 (independent runs)",
        minimal=lambda _m: 2000,
        statistic=_runs_up,
        parameters={"longest": LONGEST_RUN},
        objection=partial(_needs, 2),
    ),
    NumberTest(
        name="collisions",
        title="How often numbers of a block fall into a cell that is taken",
        clauses=("R08",),
        null="chi-square, exact occupancy distribution",
        source=f"{KNUTH} I",
        minimal=lambda m: 100 * _collision_block(m),
        statistic=_collisions,
        parameters={"most_cells": 1 << 20},
        objection=lambda m: (
            _needs(16, m)
            or (
                None
                if m <= 1 << 20 or m >= 1 << 40
                else "between 2^20 and 2^40 the cells would be too unequal for the occupancy distribution"
            )
        ),
    ),
    NumberTest(
        name="birthday-spacings",
        title="How often spacings between the sorted numbers of a block are equal",
        clauses=("R08",),
        null="chi-square against Poisson(k^3 / 4m), k chosen for a mean of about 2; wrong by the order of m^(-1/3)",
        source=f"{KNUTH} J; Marsaglia and Tsang (2002)",
        minimal=lambda m: 100 * _birthday_block(m),
        statistic=_birthday_spacings,
        parameters={"most_cells": 1 << 30},
        objection=partial(_needs, 1 << 30),
        primary=False,
    ),
)
