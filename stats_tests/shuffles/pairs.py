"""Which cards lie together: adjacent cards anywhere in the deck, and cards at registered pairs of positions."""

import math
from typing import Final

import numpy as np

from stats_tests.catalogue import Entry, Kind
from stats_tests.nulls import SMALLEST_EXPECTATION, log_chi_square_lower, log_chi_square_tail, log_smallest_of
from stats_tests.result import Result, not_applicable
from stats_tests.shuffles.deck import Decks, on_decks
from stats_tests.windows import Counts, Statistic

LARGEST_FOR_MANY_PAIRS: Final = 128


def adjacency_weights(n: int) -> tuple[tuple[float, int], ...]:
    """Return (weight, number) of the independent squared normals that Pearson's statistic of adjacent pairs sums.

    They are the eigenvalues of the covariance of the n(n-1) counts over their expectation N/n, for n >= 4. Their sum,
    the mean of the statistic, is (n-1)^2.
    """
    return (
        ((n + 1) / (n - 1), (n - 1) * (n - 2) // 2),
        (1.0, n * (n - 3) // 2),
        (1 / (n - 1), 2 * (n - 1)),
    )


def _adjacency(test: str, n: int) -> Statistic:
    weights = adjacency_weights(n)
    mean = sum(w * k for w, k in weights)
    half_variance = sum(w * w * k for w, k in weights)
    # Satterthwaite: a scaled chi-square with the same mean and variance; with weights this equal the tails agree too.
    scale, degrees = half_variance / mean, mean * mean / half_variance
    off_diagonal = ~np.eye(n, dtype=bool)

    def observe(decks: Decks) -> Counts:
        return np.bincount((decks[:, :-1].astype(np.int64) * n + decks[:, 1:]).ravel(), minlength=n * n)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        expected = windows / n
        if expected < SMALLEST_EXPECTATION:
            return (not_applicable(test, "chi-square", "a cell expects fewer than five", {"decks": windows}),)
        pairs = counts.reshape(n, n)[off_diagonal]
        statistic = float(((pairs - expected) ** 2).sum()) / expected
        return (
            Result(
                test=test,
                null=f"{scale:.6f} times chi-square with {degrees:.1f} degrees of freedom",
                statistic=statistic,
                log_p=log_chi_square_tail(statistic / scale, degrees),
                log_p_low=log_chi_square_lower(statistic / scale, degrees),
                details={"decks": windows, "mean": mean},
            ),
        )

    return Statistic(cells=n * n, observe=observe, judge=judge)


def registered_pairs(n: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of positions that are looked at, fixed here in advance.

    The first cards dealt against each other, neighbours in the middle and at the end, and far apart. For large decks
    only the first pair: its table alone has n(n-1) cells.
    """
    if n > LARGEST_FOR_MANY_PAIRS:
        return ((0, 1),)
    half, quarter = n // 2, n // 4
    wanted = [
        (0, 1), (0, 2), (1, 2), (0, half), (0, n - 1), (1, n - 2), (quarter, n - 1 - quarter), (half - 1, half),
        (quarter, half), (half, n - 1), (n - 3, n - 1), (n - 2, n - 1),
    ]  # fmt: skip
    return tuple(dict.fromkeys((a, b) for a, b in wanted if 0 <= a < b < n))


def _position_pairs(test: str, n: int) -> Statistic:
    pairs = registered_pairs(n)
    firsts, seconds = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    offsets = np.arange(len(pairs), dtype=np.int64) * n * n
    off_diagonal = ~np.eye(n, dtype=bool)

    def observe(decks: Decks) -> Counts:
        codes = decks[:, firsts].astype(np.int64) * n + decks[:, seconds] + offsets
        return np.bincount(codes.ravel(), minlength=len(pairs) * n * n)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        tables = counts.reshape(len(pairs), n, n)
        ordered = _judge_tables(f"{test}/ordered", tables[:, off_diagonal], windows, pairs)
        dealt = tables[0] + tables[0].T
        first_two = _judge_tables(f"{test}/first-two", dealt[np.triu_indices(n, 1)][None], windows, pairs[:1])
        return ordered, first_two

    return Statistic(cells=len(pairs) * n * n, observe=observe, judge=judge)


def _judge_tables(test: str, tables: Counts, decks: int, pairs: tuple[tuple[int, int], ...]) -> Result:
    """Judge tables of equally likely cells, one observation a deck in each; the smallest P-value counts."""
    cells = tables.shape[1]
    expected = decks / cells
    null = f"smallest of {len(tables)} chi-square P-values, {cells - 1} degrees of freedom each"
    if cells < 2:
        return not_applicable(test, null, "one cell only", {"decks": decks})
    if expected < SMALLEST_EXPECTATION:
        return not_applicable(test, null, "a cell expects fewer than five", {"decks": decks})
    statistics = ((tables - expected) ** 2).sum(axis=1) / expected
    worst = int(statistics.argmax())
    return Result(
        test=test,
        null=null,
        statistic=float(statistics[worst]),
        log_p=log_smallest_of([log_chi_square_tail(float(x), cells - 1) for x in statistics]),
        details={"decks": decks, "first_position": pairs[worst][0], "second_position": pairs[worst][1]},
    )


ENTRIES: Final = (
    Entry(
        id="shuffles.adjacency",
        title="Each card follows each other card equally often",
        clauses=("R03", "R04"),
        kind=Kind.SHUFFLES,
        null="weighted sum of chi-squares, exact weights, approximated by a scaled chi-square (Satterthwaite)",
        source="eigenvalues of the covariance, confirmed by enumeration of small decks",
        minimal=lambda setting: math.ceil(SMALLEST_EXPECTATION * setting.size),
        make=on_decks(_adjacency, "shuffles.adjacency"),
        objection=lambda setting: None if setting.size >= 4 else "needs at least four cards",
    ),
    Entry(
        id="shuffles.position-pairs",
        title="Each pair of cards at two positions as often as any other (interplay); first two cards unordered",
        clauses=("R02", "R03", "R04", "R05", "R06"),
        kind=Kind.SHUFFLES,
        null="chi-square with n(n-1)-1 degrees of freedom for each registered pair, smallest P-value",
        source="multinomial: one pair of each deck",
        minimal=lambda setting: math.ceil(SMALLEST_EXPECTATION * setting.size * (setting.size - 1)),
        make=on_decks(_position_pairs, "shuffles.position-pairs"),
        parameters={"largest_deck_for_many_pairs": LARGEST_FOR_MANY_PAIRS},
    ),
)
