"""Cards as the whole dealer counts them: ``4 * rank + suit``, deuce 0 to ace 12, suits clubs, diamonds, hearts, spades.

A card is a plain ``int`` in 0..51. The shuffle service knows only items; `of_item` is protocol rs1's mapping.
"""

from collections.abc import Iterable
from typing import Final

RANKS: Final = "23456789TJQKA"
SUITS: Final = "cdhs"
ACE: Final = 12
DECK_SIZES: Final = (52, 36, 32)

NAMES: Final = tuple(rank + suit for rank in RANKS for suit in SUITS)
_CODES: Final = {name: code for code, name in enumerate(NAMES)}


def parse(text: str) -> int:
    """Return the card written as rank and suit, such as ``"Td"``; `ValueError` for anything else."""
    try:
        return _CODES[text]
    except KeyError:
        raise ValueError(f"card: {text!r} is not a rank of {RANKS} followed by a suit of {SUITS}") from None


def names(cards: Iterable[int]) -> str:
    """Return cards as text, one blank between two."""
    return " ".join(NAMES[card] for card in cards)


def of_item(item: int, deck_size: int) -> int:
    """Return the card that an item of a shuffle stands for; a stripped deck drops the low ranks (protocol rs1)."""
    return item + 52 - deck_size


def item_of(card: int, deck_size: int) -> int:
    """Return the shuffle's item for a card, the inverse of `of_item`."""
    return card - 52 + deck_size
