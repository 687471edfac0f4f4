"""Poker hands dealt from the top of the deck, one of each deck, by category.

A stripped deck's ace also counts below its lowest rank, so A-7-8-9-10 is a straight of 32 cards. What is called a
straight is a matter of the test, not of a room: any fixed classification of the C(n, k) hands has known frequencies.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stats_tests.catalogue import Entry, Kind
from stats_tests.nulls import judge_categories
from stats_tests.result import Result
from stats_tests.shuffles.deck import SUITS, Decks, on_decks, suits_and_ranks
from stats_tests.windows import Counts, Statistic

CATEGORIES: Final = (
    "royal flush",
    "straight flush",
    "four of a kind",
    "full house",
    "flush",
    "straight",
    "three of a kind",
    "two pairs",
    "one pair",
    "high card",
)

FREQUENCIES: Final[Mapping[tuple[int, int], tuple[int, ...]]] = {
    (52, 5): (4, 36, 624, 3744, 5108, 10200, 54912, 123552, 1098240, 1302540),
    (52, 7): (4324, 37260, 224848, 3473184, 4047644, 6180020, 6461620, 31433400, 58627800, 23294460),
    (36, 5): (4, 20, 288, 1728, 480, 6120, 16128, 36288, 193536, 122400),
    (36, 7): (1860, 8700, 44640, 633024, 175560, 1169940, 607200, 3157056, 2316600, 233100),
    (32, 5): (4, 16, 224, 1344, 204, 5100, 10752, 24192, 107520, 52020),
    (32, 7): (1404, 5200, 26208, 357504, 57940, 639520, 258060, 1398600, 605880, 15540),
}
"""Hands of k cards of an n-card deck in each category, counted over all C(n, k) hands."""


@cache
def _runs_of_five(ranks: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, for each set of ranks as a bit mask, whether it holds a straight and whether it holds the highest one."""
    masks = np.arange(1 << ranks)
    with_low_ace = (masks << 1) | (masks >> (ranks - 1))
    straight = np.zeros(len(masks), dtype=bool)
    for lowest in range(ranks - 3):
        straight |= (with_low_ace >> lowest) & 0b11111 == 0b11111
    return straight, masks >> (ranks - 5) == 0b11111


def classify(hands: Decks, n: int) -> NDArray[np.int64]:
    """Return the index in `CATEGORIES` of the best five-card hand in each row of cards of an n-card deck."""
    suits, ranks = suits_and_ranks(n)
    ranks = ranks - ranks.min()
    per_suit = int(ranks.max()) + 1
    straights, highest = _runs_of_five(per_suit)

    # One word holds the four suits' sets of ranks, another a count for each rank in four bits: cards just add up.
    suited = (np.int64(1) << (suits * 16 + ranks))[hands].sum(axis=1)
    of_rank = (np.int64(1) << (4 * ranks))[hands].sum(axis=1)
    ones = sum(1 << (4 * rank) for rank in range(per_suit))
    at_least_two = ((of_rank >> 1) | (of_rank >> 2)) & ones
    at_least_three = ((of_rank >> 2) | ((of_rank >> 1) & of_rank)) & ones
    four = (of_rank >> 2) & ones
    any_suit = np.zeros(len(hands), dtype=np.int64)
    flush = np.zeros(len(hands), dtype=bool)
    straight_flush, royal = flush.copy(), flush.copy()
    for suit in range(SUITS):
        held = (suited >> (16 * suit)) & ((1 << per_suit) - 1)
        any_suit |= held
        flush |= np.bitwise_count(held) >= 5
        straight_flush |= straights[held]
        royal |= highest[held]
    pairs = np.bitwise_count(at_least_two)
    has_three = at_least_three != 0
    return np.select(
        [royal, straight_flush, four != 0, has_three & (pairs >= 2), flush, straights[any_suit], has_three,
         pairs >= 2, pairs == 1],
        list(range(9)),
        9,
    )  # fmt: skip


def _hands(k: int, test: str, n: int) -> Statistic:
    frequencies = np.array(FREQUENCIES[n, k], dtype=np.float64)
    probabilities = frequencies / frequencies.sum()

    def observe(decks: Decks) -> Counts:
        return np.bincount(classify(decks[:, :k], n), minlength=len(CATEGORIES))

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities, CATEGORIES),)

    return Statistic(cells=len(CATEGORIES), observe=observe, judge=judge)


def _entry(k: int) -> Entry:
    entry_id = f"shuffles.hands-of-{k}"

    return Entry(
        id=entry_id,
        title=f"Poker categories of the first {k} cards",
        clauses=("R03", "R04"),
        kind=Kind.SHUFFLES,
        null="chi-square against the exact frequencies; rare categories are joined",
        source="enumeration of all hands",
        minimal=lambda _setting: 10_000,
        make=on_decks(partial(_hands, k), entry_id),
        parameters={"cards": k},
        objection=lambda setting: None if (setting.size, k) in FREQUENCIES else "hands are of decks of 52, 36 or 32",
    )


ENTRIES: Final = (_entry(5), _entry(7))
