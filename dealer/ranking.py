"""Rankings: the value of five cards out of those a player holds. Whatever the game, the greater number wins.

A ranking is a callable from cards to an ``int`` (`EightOrBetter`: ``None`` without a qualifying low). Values of one
ranking compare among themselves only. Suits never count except to make a flush.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, IntEnum
from functools import lru_cache
from itertools import combinations
from typing import Final

from dealer.cards import ACE, DECK_SIZES

Ranking = Callable[[Sequence[int]], int | None]


class Category(IntEnum):
    """The classes of a high hand in their usual order."""

    HIGH_CARD = 0
    PAIR = 1
    TWO_PAIR = 2
    THREE_OF_A_KIND = 3
    STRAIGHT = 4
    FLUSH = 5
    FULL_HOUSE = 6
    FOUR_OF_A_KIND = 7
    STRAIGHT_FLUSH = 8


class SuitedLowStraight(Enum):
    """What the suited straight with the ace at its foot is (PK-8)."""

    ROYAL_FLUSH = "royal_flush"
    STRAIGHT_FLUSH = "straight_flush"


# One number a card, so that one sum tells both the count of each rank (base 5) and of each suit (four bits each).
_SUIT_BITS: Final = 16
_KEYS: Final = tuple((5 ** (card >> 2) << _SUIT_BITS) + (1 << 4 * (card & 3)) for card in range(52))
_FIVE_OF_A_SUIT: Final = 0x8888
_TO_FIVE: Final = 0x3333


class HighRanking:
    """The best high hand. ``low_straight``: the ace may also stand below the deck's lowest rank in a straight."""

    def __init__(
        self,
        *,
        deck_size: int = 52,
        flush_over_full_house: bool = False,
        low_straight: bool = True,
        suited_low_straight: SuitedLowStraight = SuitedLowStraight.STRAIGHT_FLUSH,
    ) -> None:
        if deck_size not in DECK_SIZES:
            raise ValueError(f"deck_size: {deck_size} is not one of {DECK_SIZES}")
        self.deck_size = deck_size
        order = list(Category)
        if flush_over_full_house:
            order[Category.FLUSH], order[Category.FULL_HOUSE] = Category.FULL_HOUSE, Category.FLUSH
        self._order = order
        self._place = [order.index(category) for category in Category]
        lowest = 13 - deck_size // 4
        # Rank masks of the straights with their top rank, highest first.
        straights = [(0b11111 << top - 4, top, top) for top in range(ACE, lowest + 3, -1)]
        if low_straight:
            mask = 1 << ACE | 0b1111 << lowest
            royal = suited_low_straight is SuitedLowStraight.ROYAL_FLUSH
            straights.append((mask, lowest + 3, ACE if royal else lowest + 3))
        self._straights = tuple(straights)
        # At most one entry for each multiset of ranks (49,205 of seven cards), filled as they come.
        self._unsuited: dict[int, int] = {}

    def __call__(self, cards: Sequence[int]) -> int:
        """Return the value of the best five of the cards (five or more)."""
        key = sum([_KEYS[card] for card in cards])
        value = self._unsuited.get(key >> _SUIT_BITS)
        if value is None:
            value = self._unsuited[key >> _SUIT_BITS] = self._best_unsuited(cards)
        if (key + _TO_FIVE) & _FIVE_OF_A_SUIT:
            return max(value, self._best_suited(cards))
        return value

    def category(self, value: int) -> Category:
        """Return the class of a value that this ranking gave."""
        return self._order[value >> 20]

    def place(self, category: Category) -> int:
        """Return where a class stands in this ranking's order, 0 the lowest."""
        return self._place[category]

    def _value(self, category: Category, ranks: Iterable[int]) -> int:
        value = self._place[category]
        places = 5
        for rank in ranks:
            value = value << 4 | rank
            places -= 1
        return value << 4 * places

    def _best_unsuited(self, cards: Sequence[int]) -> int:
        counts = [0] * 13
        for card in cards:
            counts[card >> 2] += 1
        groups = sorted([(count, rank) for rank, count in enumerate(counts) if count], reverse=True)
        (most, first), (second_most, second) = groups[0], groups[1]
        others = sorted([rank for _, rank in groups[1:]], reverse=True)
        if most == 4:
            return self._value(Category.FOUR_OF_A_KIND, (first, others[0]))
        if most == 3 and second_most >= 2:
            return self._value(Category.FULL_HOUSE, (first, max(rank for rank in others if counts[rank] >= 2)))
        if len(groups) >= 5:
            mask = sum([1 << rank for _, rank in groups])
            for straight, top, _ in self._straights:
                if mask & straight == straight:
                    return self._value(Category.STRAIGHT, (top,))
        if most == 3:
            return self._value(Category.THREE_OF_A_KIND, (first, *others[:2]))
        if most == second_most == 2:
            kicker = next(rank for rank in others if rank != second)
            return self._value(Category.TWO_PAIR, (first, second, kicker))
        if most == 2:
            return self._value(Category.PAIR, (first, *others[:3]))
        return self._value(Category.HIGH_CARD, (first, *others[:4]))

    def _best_suited(self, cards: Sequence[int]) -> int:
        suits = Counter(card & 3 for card in cards)
        suited = max(suits, key=suits.__getitem__)
        ranks = sorted((card >> 2 for card in cards if card & 3 == suited), reverse=True)
        mask = sum(1 << rank for rank in ranks)
        tops = [top for straight, _, top in self._straights if mask & straight == straight]
        if tops:
            return self._value(Category.STRAIGHT_FLUSH, (max(tops),))
        return self._value(Category.FLUSH, ranks[:5])


def low_rank(card: int) -> int:
    """Return the rank with the ace low: ace 0, deuce 1, to king 12."""
    return ((card >> 2) + 1) % 13


class EightOrBetter:
    """The best low of five different ranks, eight or lower, ace low; straights and flushes do not count (LS-8)."""

    def __call__(self, cards: Sequence[int]) -> int | None:
        """Return the value of the best qualifying low, or None."""
        ranks = {low_rank(card) for card in cards if low_rank(card) <= 7}
        if len(ranks) < 5:
            return None
        # Compared from the highest card down (LS-9); the lower hand is the better one, hence the sign.
        return -_digits(sorted(ranks)[4::-1])


class Razz:
    """The lowest five cards: ace low, pairs count against the hand, straights and flushes do not."""

    def __init__(self) -> None:
        self._values: dict[int, int] = {}

    def __call__(self, cards: Sequence[int]) -> int:
        """Return the value of the lowest five of the cards (five or more)."""
        key = sum([_KEYS[card] for card in cards]) >> _SUIT_BITS
        value = self._values.get(key)
        if value is None:
            fives = combinations([low_rank(card) for card in cards], 5)
            value = self._values[key] = max(-self._height(five) for five in fives)
        return value

    @staticmethod
    def _height(ranks: Sequence[int]) -> int:
        counts = Counter(ranks)
        groups = sorted(((count, rank) for rank, count in counts.items()), reverse=True)
        pairing = _digits([count for count, _ in groups] + [0] * (5 - len(groups)))
        return pairing << 20 | _digits([rank for _, rank in groups] + [0] * (5 - len(groups)))


class DeuceToSeven:
    """The lowest five cards where the ace is high and straights and flushes count against the hand."""

    def __init__(self) -> None:
        self.high = HighRanking(low_straight=False)

    def __call__(self, cards: Sequence[int]) -> int:
        """Return the value of exactly five cards."""
        assert len(cards) == 5, "a seven-card form of this game is not played here"
        return -self.high(cards)


def _digits(ranks: Iterable[int]) -> int:
    value = 0
    for rank in ranks:
        value = value << 4 | rank
    return value


@lru_cache
def high_ranking(
    deck_size: int = 52,
    flush_over_full_house: bool = False,
    low_straight: bool = True,
    suited_low_straight: SuitedLowStraight = SuitedLowStraight.STRAIGHT_FLUSH,
) -> HighRanking:
    """Return the one `HighRanking` of these rules, so that what it has worked out is kept."""
    return HighRanking(
        deck_size=deck_size,
        flush_over_full_house=flush_over_full_house,
        low_straight=low_straight,
        suited_low_straight=suited_low_straight,
    )
