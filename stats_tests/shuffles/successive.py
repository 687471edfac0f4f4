"""What a deck has to do with the decks before it: cards at the same place, cards dealt again.

The permutations that lead from each deck to the next are independent and uniform if the decks are, so agreements of
successive decks are independent observations although each deck is compared twice.
"""

from typing import Final

import numpy as np
from scipy import special

from stats_tests import nulls
from stats_tests.catalogue import Entry, Kind
from stats_tests.nulls import Probabilities, judge_categories
from stats_tests.result import Result
from stats_tests.shuffles.deck import Decks, by_position, on_decks, tally_type
from stats_tests.windows import Counts, Statistic

LAGS: Final = 5


def _agreement(test: str, n: int) -> Statistic:
    def observe(decks: Decks) -> Counts:
        rows = by_position(decks)
        earlier = rows[:, :-LAGS]
        counts = []
        for lag in range(1, LAGS + 1):
            same = earlier == rows[:, lag : rows.shape[1] - LAGS + lag]
            counts.append(np.bincount(same.sum(axis=0, dtype=tally_type(n)), minlength=n + 1))
        return np.concatenate(counts)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        by_lag = counts.reshape(LAGS, n + 1)
        return tuple(
            judge_categories(f"{test}/lag-{lag}", by_lag[lag - 1], nulls.fixed_points(n)) for lag in range(1, LAGS + 1)
        )

    return Statistic(cells=LAGS * (n + 1), observe=observe, judge=judge, span=LAGS + 1)


def hypergeometric(n: int, k: int) -> Probabilities:
    """Return P(j common cards of two deals of k cards from n), j = 0..k."""
    j = np.arange(k + 1)

    def log_choose(a: int, b: np.ndarray | int) -> np.ndarray:
        b = np.asarray(b)
        logs = special.gammaln(a + 1) - special.gammaln(b + 1) - special.gammaln(np.maximum(a - b, 0) + 1)
        return np.where((b >= 0) & (b <= a), logs, -np.inf)

    logs = log_choose(k, j) + log_choose(n - k, k - j) - log_choose(n, k)
    probabilities: Probabilities = np.exp(logs)
    return probabilities


def deal_sizes(n: int) -> tuple[int, ...]:
    """Return how many cards are taken as a deal: five, and a quarter of the deck."""
    return tuple(dict.fromkeys((min(5, n // 2), max(1, n // 4))))


def _overlaps(test: str, n: int) -> Statistic:
    sizes = deal_sizes(n)

    def observe(decks: Decks) -> Counts:
        rows = by_position(decks[:, : max(sizes)])
        counts = []
        for k in sizes:
            common = np.zeros(rows.shape[1] - 1, dtype=tally_type(k))
            for card in rows[:k, :-1]:
                common += (rows[:k, 1:] == card).any(axis=0)
            counts.append(np.bincount(common, minlength=k + 1))
        return np.concatenate(counts)

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        results, offset = [], 0
        for k in sizes:
            results.append(
                judge_categories(f"{test}/deals-of-{k}", counts[offset : offset + k + 1], hypergeometric(n, k))
            )
            offset += k + 1
        return tuple(results)

    return Statistic(cells=sum(k + 1 for k in sizes), observe=observe, judge=judge, span=2)


ENTRIES: Final = (
    Entry(
        id="shuffles.deck-to-deck",
        title="How many cards lie where they lay one to five decks before (serial)",
        clauses=("R02", "R03", "R05", "R06"),
        kind=Kind.SHUFFLES,
        null="chi-square against the exact distribution of fixed points",
        source="derangement numbers; the steps between decks are independent",
        minimal=lambda _setting: 1000,
        make=on_decks(_agreement, "shuffles.deck-to-deck"),
        parameters={"lags": LAGS},
    ),
    Entry(
        id="shuffles.overlaps",
        title="How many cards of a deal come again in the next deal",
        clauses=("R02", "R03"),
        kind=Kind.SHUFFLES,
        null="chi-square against the hypergeometric distribution",
        source="hypergeometric probabilities",
        minimal=lambda _setting: 1000,
        make=on_decks(_overlaps, "shuffles.overlaps"),
    ),
)
