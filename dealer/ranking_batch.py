"""Rankings of many hands at once, in NumPy: the same numbers as `dealer.ranking`, for studies and tests.

The dealer itself does not need this module, nor NumPy. A hand is a row of card codes; the work is done on bit masks of
ranks, one for each suit, and on tables over the 8,192 masks that the scalar rankings fill.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dealer.ranking import Category, DeuceToSeven, EightOrBetter, HighRanking, Razz

Cards = NDArray[np.uint8]
Values = NDArray[np.int64]
Masks = NDArray[np.uint16]

# Stands for "no qualifying low": less than any value of a low.
NO_LOW: Final = -(1 << 60)
# Rows at a time: the intermediate arrays stay in the cache.
_ROWS: Final = 1 << 15

_MASKS: Final = 1 << 13
# One bit for each card: four lanes of sixteen bits, one a suit.
_LANES: Final = np.array([1 << (16 * (card & 3) + (card >> 2)) for card in range(52)], dtype=np.uint64)


def values(ranking: HighRanking | EightOrBetter | Razz | DeuceToSeven, cards: Cards) -> Values:
    """Return one value a row of ``cards``, shape (hands, cards a hand); `NO_LOW` for a low that does not qualify."""
    if cards.ndim != 2 or not 5 <= cards.shape[1] <= 7:
        raise ValueError(f"cards: shape {cards.shape} is not (hands, 5 to 7)")
    found = np.empty(len(cards), dtype=np.int64)
    for first in range(0, len(cards), _ROWS):
        rows = cards[first : first + _ROWS]
        suits = _suit_masks(rows)
        match ranking:
            case HighRanking():
                found[first : first + _ROWS] = _HighTables.of(ranking).values(suits)
            case DeuceToSeven():
                found[first : first + _ROWS] = -_HighTables.of(ranking.high).values(suits)
            case EightOrBetter():
                found[first : first + _ROWS] = _eight_or_better()[_any(suits)]
            case Razz():
                found[first : first + _ROWS] = _razz(ranking, rows, _any(suits))
    return found


def _suit_masks(cards: Cards) -> list[Masks]:
    lanes = _LANES[cards[:, 0]]
    for column in range(1, cards.shape[1]):
        lanes |= _LANES[cards[:, column]]
    return [(lanes >> np.uint64(shift)).astype(np.uint16) for shift in (0, 16, 32, 48)]


def _any(suits: list[Masks]) -> Masks:
    return suits[0] | suits[1] | suits[2] | suits[3]


class _HighTables:
    """What one `HighRanking` says of every mask of ranks; a hand's value is the greatest that applies to it."""

    def __init__(self, ranking: HighRanking) -> None:
        ranks = [[rank for rank in range(12, -1, -1) if mask >> rank & 1] for mask in range(_MASKS)]
        self.flush = np.zeros(_MASKS, dtype=np.int32)
        self.unpaired = np.zeros(_MASKS, dtype=np.int32)
        # The first five ranks of a mask, four bits each, from bit 16 down; its highest bit; that bit's rank.
        self.first = np.zeros(_MASKS, dtype=np.int32)
        self.bit = np.zeros(_MASKS, dtype=np.uint16)
        for mask, held in enumerate(ranks):
            for place, rank in enumerate(held[:5]):
                self.first[mask] |= rank << 16 - 4 * place
            self.bit[mask] = 1 << held[0] if held else 0
            if 5 <= len(held) <= 7:
                self.flush[mask] = ranking([4 * rank for rank in held])
                # Five of a suit at most four times: the second card of another suit leaves no flush.
                self.unpaired[mask] = ranking([4 * rank + place % 2 for place, rank in enumerate(held[:7])])
        self.straight = np.where(self.unpaired >> 20 == ranking.place(Category.STRAIGHT), self.unpaired, 0)
        self.place = {category: ranking.place(category) << 20 for category in Category}

    @staticmethod
    @lru_cache
    def of(ranking: HighRanking) -> "_HighTables":
        """Return the tables of a ranking, made once."""
        return _HighTables(ranking)

    def values(self, suits: list[Masks]) -> NDArray[np.int32]:
        """Return the values of hands given as one mask of ranks for each suit."""
        a, b, c, d = suits
        both_ab: Masks = a & b
        both_cd: Masks = c & d
        any_ab: Masks = a | b
        any_cd: Masks = c | d
        held: Masks = any_ab | any_cd
        twice: Masks = both_ab | both_cd | (any_ab & any_cd)
        thrice: Masks = (both_ab & any_cd) | (both_cd & any_ab)
        four: Masks = both_ab & both_cd
        value = np.maximum(self.unpaired[held], np.maximum(self.flush[a], self.flush[b]))
        value = np.maximum(value, np.maximum(self.flush[c], self.flush[d]))
        (paired,) = np.nonzero(twice)
        if len(paired):
            of_pairs = self._paired(held[paired], twice[paired], thrice[paired], four[paired])
            value[paired] = np.maximum(value[paired], of_pairs)
        return value

    def _paired(
        self,
        held: Masks,
        twice: Masks,
        thrice: Masks,
        four: Masks,
    ) -> NDArray[np.int32]:
        first, bit, place = self.first, self.bit, self.place
        pair = bit[twice]
        second = bit[twice ^ pair]
        rest = first[held ^ pair]
        one = place[Category.PAIR] | first[pair] | (rest >> 4 & 0x0FFF0)
        rest = first[held ^ pair ^ second]
        two = place[Category.TWO_PAIR] | first[pair] | first[second] >> 4 | (rest >> 8 & 0x00F00)
        value = np.where(second != 0, two, one)
        (rows,) = np.nonzero(thrice)
        if len(rows):
            trips = bit[thrice[rows]]
            others = held[rows] ^ trips
            three = place[Category.THREE_OF_A_KIND] | first[trips] | (first[others] >> 4 & 0x0FF00)
            under = bit[twice[rows] ^ trips]
            full = place[Category.FULL_HOUSE] | first[trips] | first[under] >> 4
            value[rows] = np.where(under != 0, full, three)
        (rows,) = np.nonzero(four)
        if len(rows):
            quads = bit[four[rows]]
            others = held[rows] ^ quads
            value[rows] = place[Category.FOUR_OF_A_KIND] | first[quads] | (first[others] >> 4 & 0x0F000)
        best: NDArray[np.int32] = np.maximum(value, self.straight[held])
        return best


@lru_cache
def _eight_or_better() -> Values:
    scalar = EightOrBetter()
    table = np.full(_MASKS, NO_LOW, dtype=np.int64)
    for mask in range(_MASKS):
        value = scalar([4 * rank for rank in range(13) if mask >> rank & 1])
        if value is not None:
            table[mask] = value
    return table


@lru_cache
def _razz_unpaired() -> Values:
    scalar = Razz()
    table = np.zeros(_MASKS, dtype=np.int64)
    for mask in range(_MASKS):
        held = [4 * rank for rank in range(13) if mask >> rank & 1]
        if len(held) >= 5:
            table[mask] = scalar(held)
    return table


def _razz(ranking: Razz, cards: Cards, held: Masks) -> Values:
    found = _razz_unpaired()[held]
    # Fewer than five different ranks are rare: the scalar ranking, which remembers, does those.
    for row in np.flatnonzero(found == 0):
        found[row] = ranking(cards[row].tolist())
    return found
