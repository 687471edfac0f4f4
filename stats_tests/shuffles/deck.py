"""Small views of decks that several tests need. A deck is a row: the card at position 0 is dealt first."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stats_tests.catalogue import Setting
from stats_tests.windows import Statistic, WindowCounts

Decks = NDArray[Any]

SUITS = 4


def by_position(decks: Decks) -> Decks:
    """Return the decks with a row for each position, so that one operation runs over all decks at once."""
    return np.ascontiguousarray(decks.T)


def tally_type(most: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest type that counts up to `most`: narrow counts are several times as fast."""
    return np.uint8 if most <= 255 else np.uint16


def on_decks(statistic: Callable[[str, int], Statistic], test: str) -> Callable[[Setting, int], WindowCounts]:
    """Return the factory of accumulators for a statistic of decks, made by the test's id and the deck's size."""

    def make(setting: Setting, start: int) -> WindowCounts:
        n = setting.size
        return WindowCounts(statistic(test, n), start, tally_type(n - 1), width=n)

    return make


def single_deck(n: int) -> int | None:
    """Return the size of the deck of suited cards that n cards are made of, or None.

    52, 36 and 32 cards are one deck of four suits without its lowest ranks; k times 52 cards are a shoe of k decks.
    """
    if n in {32, 36}:
        return n
    return 52 if n % 52 == 0 else None


def suits_and_ranks(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the suit 0..3 and the rank 0.. (lowest present is 0) of each card 0..n-1.

    A card's code is 4 * rank + suit, as in the hand protocol; stripped decks leave out the lowest codes.
    """
    size = single_deck(n)
    assert size is not None, "asked only where the deck has suits"
    codes = np.arange(n) % size
    return codes % SUITS, codes // SUITS
