"""Where each card comes to lie: the table of position against card, and all that is linear in it."""

import math
from typing import Final

import numpy as np

from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.nulls import (
    SMALLEST_EXPECTATION,
    judge_mean,
    log_chi_square_lower,
    log_chi_square_tail,
    log_smallest_of,
)
from stats_tests.result import Result, not_applicable
from stats_tests.shuffles.deck import SUITS, Decks, on_decks, single_deck, suits_and_ranks
from stats_tests.windows import Counts, Statistic

SUBSEQUENCE_STEP: Final = 7


def _every_deck(test: str, n: int) -> Statistic:
    return _table(test, n, with_parts=True, step=1)


def _every_seventh_deck(test: str, n: int) -> Statistic:
    return _table(test, n, with_parts=False, step=SUBSEQUENCE_STEP)


def _table(test: str, n: int, *, with_parts: bool, step: int) -> Statistic:
    offsets = np.arange(n, dtype=np.int64) * n

    def observe(decks: Decks) -> Counts:
        return np.bincount((decks[::step] + offsets).ravel(), minlength=n * n)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        table = counts.reshape(n, n)
        whole = _judge_table(f"{test}/table" if with_parts else test, table, windows)
        return (whole, *_judge_parts(test, table, windows)) if with_parts else (whole,)

    return Statistic(cells=n * n, observe=observe, judge=judge, step=step)


def _judge_table(test: str, table: Counts, decks: int) -> Result:
    """Judge the whole table, position by card.

    Each row and each column sums to the number of decks, so Pearson's X has mean n(n-1), not the (n-1)^2 of its
    degrees of freedom: ((n-1)/n) X is chi-square with (n-1)^2. Uncorrected, good shuffles fail five times too often.
    """
    n = len(table)
    expected = decks / n
    if expected < SMALLEST_EXPECTATION:
        return not_applicable(test, "chi-square", "a cell expects fewer than five", {"decks": decks})
    statistic = (n - 1) / n * float(((table - expected) ** 2).sum()) / expected
    degrees = (n - 1) ** 2
    return Result(
        test=test,
        null=f"chi-square, {degrees} degrees of freedom, of the doubly constrained table",
        statistic=statistic,
        log_p=log_chi_square_tail(statistic, degrees),
        log_p_low=log_chi_square_lower(statistic, degrees),
        details={"decks": decks, "degrees_of_freedom": degrees},
    )


def _judge_parts(test: str, table: Counts, decks: int) -> tuple[Result, ...]:
    n = len(table)
    positions = np.arange(n)
    distances = np.abs(positions[:, None] - positions[None, :])
    products = positions[:, None] * positions[None, :]
    parts = [
        _judge_each_position(f"{test}/each-position", table, np.arange(n), decks),
        judge_mean(
            f"{test}/footrule",
            int((table * distances).sum()),
            decks,
            (n * n - 1) / 3,
            (n + 1) * (2 * n * n + 7) / 45,
        ),
        judge_mean(
            f"{test}/rank-correlation",
            int((table * products).sum()),
            decks,
            n * (n - 1) ** 2 / 4,
            (n * (n * n - 1) / 12) ** 2 / (n - 1),
        ),
    ]
    if single_deck(n) is not None:
        suits, ranks = suits_and_ranks(n)
        parts.append(_judge_each_position(f"{test}/suits", table, suits, decks))
        parts.append(_judge_each_position(f"{test}/ranks", table, ranks, decks))
    return tuple(parts)


def _judge_each_position(test: str, table: Counts, classes: Counts, decks: int) -> Result:
    """Judge each position by itself, cards put in classes; the result is the smallest P-value of all positions."""
    n = len(table)
    sizes = np.bincount(classes)
    expected = decks * sizes / n
    null = f"smallest of {n} chi-square P-values, {len(sizes) - 1} degrees of freedom each"
    if float(expected.min()) < SMALLEST_EXPECTATION:
        return not_applicable(test, null, "a cell expects fewer than five", {"decks": decks})
    by_class = np.zeros((len(sizes), n), dtype=np.int64)
    np.add.at(by_class, classes, table.T)
    statistics = ((by_class - expected[:, None]) ** 2 / expected[:, None]).sum(axis=0)
    worst = int(statistics.argmax())
    log_ps = [log_chi_square_tail(float(x), len(sizes) - 1) for x in statistics]
    return Result(
        test=test,
        null=null,
        statistic=float(statistics[worst]),
        log_p=log_smallest_of(log_ps),
        details={"decks": decks, "position": worst},
    )


def _five_in_each_cell(setting: Setting) -> int:
    return math.ceil(SMALLEST_EXPECTATION * setting.size)


ENTRIES: Final = (
    Entry(
        id="shuffles.position-card",
        title="Each card at each position as often as at any other; suits, ranks, footrule, rank correlation",
        clauses=("R02", "R03", "R04", "R05", "R06", "R21", "R22"),
        kind=Kind.SHUFFLES,
        null="chi-square with (n-1)^2 degrees of freedom, corrected for fixed row sums; exact moments for the sums",
        source="covariance of a random permutation matrix; Diaconis and Graham (1977) for the footrule",
        minimal=_five_in_each_cell,
        make=on_decks(_every_deck, "shuffles.position-card"),
        parameters={"suits": SUITS},
    ),
    Entry(
        id="shuffles.subsequences",
        title="Each card at each position as often as at any other, in every seventh deck",
        clauses=("R03",),
        kind=Kind.SHUFFLES,
        null="chi-square with (n-1)^2 degrees of freedom, corrected for fixed row sums",
        source="covariance of a random permutation matrix",
        minimal=lambda setting: SUBSEQUENCE_STEP * _five_in_each_cell(setting),
        make=on_decks(_every_seventh_deck, "shuffles.subsequences"),
        parameters={"step": SUBSEQUENCE_STEP},
    ),
)
