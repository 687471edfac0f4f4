"""Tests of shuffles: decks of n different cards, 2 <= n <= 1020, each order as likely as any other."""

from typing import Final

from stats_tests.catalogue import Entry
from stats_tests.shuffles import duplicates, hands, order, pairs, positions, successive, top_card

ENTRIES: Final[tuple[Entry, ...]] = (
    *positions.ENTRIES,
    *pairs.ENTRIES,
    *order.ENTRIES,
    *successive.ENTRIES,
    *hands.ENTRIES,
    *top_card.ENTRIES,
    *duplicates.ENTRIES,
)
