"""The value of a hand in words, for whoever prints it."""

from collections.abc import Sequence
from typing import Final

from dealer.cards import RANKS
from dealer.ranking import Category, DeuceToSeven, EightOrBetter, HighRanking, Ranking, Razz

_RANK_NAMES: Final = (
    "deuce",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "jack",
    "queen",
    "king",
    "ace",
)


def in_words(ranking: Ranking, cards: Sequence[int]) -> str:
    """Return the value of cards in words, such as ``two pair, kings and fours``; empty where no low qualifies."""
    value = ranking(cards)
    match ranking:
        case HighRanking():
            assert value is not None, "every hand has a high value"
            return _high_in_words(ranking, value)
        case DeuceToSeven(high=high):
            assert value is not None, "every hand has a value"
            return f"{_high_in_words(high, -value)} for low"
        case EightOrBetter() | Razz() if value is not None:
            return f"low {_low_in_words(-value)}"
        case _:
            return ""


def _high_in_words(ranking: HighRanking, value: int) -> str:  # one arm a class of hands
    first, second = (_RANK_NAMES[value >> shift & 15] for shift in (16, 12))
    match ranking.category(value):
        case Category.STRAIGHT_FLUSH:
            return "a royal flush" if first == "ace" else f"a straight flush, {first} high"
        case Category.FOUR_OF_A_KIND:
            return f"four {_many(first)}"
        case Category.FULL_HOUSE:
            return f"a full house, {_many(first)} over {_many(second)}"
        case Category.FLUSH:
            return f"a flush, {first} high"
        case Category.STRAIGHT:
            return f"a straight, {first} high"
        case Category.THREE_OF_A_KIND:
            return f"three {_many(first)}"
        case Category.TWO_PAIR:
            return f"two pair, {_many(first)} and {_many(second)}"
        case Category.PAIR:
            return f"a pair of {_many(first)}"
        case Category.HIGH_CARD:
            return f"{first} high"


def _many(rank: str) -> str:
    return f"{rank}es" if rank == "six" else f"{rank}s"


def _low_in_words(height: int) -> str:
    ranks = [height >> shift & 15 for shift in (16, 12, 8, 4, 0)]
    if height >> 20 in (0, 0x11111):
        return "-".join(RANKS[(rank - 1) % 13] for rank in ranks)
    return "with a pair"
