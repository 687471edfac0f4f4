"""What is stud's own: its streets, who brings in, who speaks first, and the river when the deck runs short."""

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from dealer.house_rules import Board, EqualBoards, HouseRules, OpenPair, SeventhStreetFirst, Stakes
from dealer.ranking import low_rank
from dealer.stub import Location, Stub


class Face(StrEnum):
    """How a card is dealt. A burned card is never opened; a community card is everybody's."""

    DOWN = "down"
    UP = "up"
    BURN = "burn"
    COMMUNITY = "community"


class Street(NamedTuple):
    """One round: burn or not, what each player is dealt, and which limit its bets have."""

    name: str
    burn: bool
    faces: tuple[Face, ...]
    big_bets: bool


# CC-2, CC-5, CC-7, AL-9: no burn on third street, one before each later one. P7-5, LS-2: big bets from fifth street on.
STREETS: Final = (
    Street("third", False, (Face.DOWN, Face.DOWN, Face.UP), big_bets=False),
    Street("fourth", True, (Face.UP,), big_bets=False),
    Street("fifth", True, (Face.UP,), big_bets=True),
    Street("sixth", True, (Face.UP,), big_bets=True),
    Street("seventh", True, (Face.DOWN,), big_bets=True),
)
FOURTH: Final = 1
SEVENTH: Final = 4


def brings_in(rules: HouseRules, door_cards: Sequence[int]) -> int:
    """Return the position whose door card brings in; equal ranks go by suit (CC-3, P7-2, LS-3)."""
    match rules.board:
        case Board.LOW_CARD_BRINGS_IN:
            return min(range(len(door_cards)), key=lambda i: by_suit(rules, door_cards[i]))
        case Board.HIGH_CARD_BRINGS_IN:
            return max(range(len(door_cards)), key=lambda i: (low_rank(door_cards[i]), by_suit(rules, door_cards[i])))


BoardValue = tuple[tuple[int, ...], tuple[int, ...]]


@lru_cache(maxsize=1 << 16)
def board_value(ranks: tuple[int, ...]) -> BoardValue:
    """Return what upcards are compared by: how they pair, then the ranks; straights and flushes do not count (AL-6)."""
    groups = sorted([(ranks.count(rank), rank) for rank in set(ranks)], reverse=True)
    return tuple([count for count, _ in groups]), tuple([rank for _, rank in groups])


def _board_values(rules: HouseRules, boards: Mapping[int, Sequence[int]]) -> dict[int, BoardValue]:
    match rules.board:
        case Board.LOW_CARD_BRINGS_IN:
            return {i: board_value(tuple([card >> 2 for card in cards])) for i, cards in boards.items()}
        case Board.HIGH_CARD_BRINGS_IN:
            return {i: board_value(tuple([low_rank(card) for card in cards])) for i, cards in boards.items()}


def best_board(rules: HouseRules, boards: Mapping[int, Sequence[int]], *, best: bool = True) -> int:
    """Return the key of the best board of upcards, or the worst (low is good where the high card brings in)."""
    values = _board_values(rules, boards)
    highest = best is (rules.board is Board.LOW_CARD_BRINGS_IN)
    return (max if highest else min)(values, key=values.__getitem__)


def speaks_first(rules: HouseRules, boards: Mapping[int, Sequence[int]]) -> int:
    """Return the position with the best board of upcards."""
    values = _board_values(rules, boards)
    best = (max if rules.board is Board.LOW_CARD_BRINGS_IN else min)(values.values())
    equal = [i for i in boards if values[i] == best]
    if len(equal) == 1:
        return equal[0]
    match rules.equal_boards:
        case EqualBoards.NEAREST_DEALERS_LEFT:
            return min(equal)
        case EqualBoards.HIGHEST_CARD_BY_SUIT:
            return max(equal, key=lambda i: max(by_suit(rules, card) for card in boards[i]))


def first_on(street: int, rules: HouseRules, boards: Mapping[int, Sequence[int]], *, before: int) -> int:
    """Return the position that speaks first on a street from fourth on; ``before`` did so on the last one (CC-7)."""
    match rules.seventh_street_first:
        case SeventhStreetFirst.AS_ON_SIXTH if street == SEVENTH:
            return before
        case _:
            return speaks_first(rules, boards)


def by_suit(rules: HouseRules, card: int) -> tuple[int, int]:
    """Return a card's place by rank, ace high, then by the house's order of suits."""
    return card >> 2, rules.suits_low_to_high.index("cdhs"[card & 3])


def bet_sizes(rules: HouseRules, stakes: Stakes, street: int, boards: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return what a bet or raise may be on a street from fourth on, small one first (CC-6, P7-4, LS-6)."""
    if STREETS[street].big_bets:
        return (stakes.big_bet,)
    match rules.open_pair_on_fourth:
        case OpenPair.NOTHING:
            return (stakes.small_bet,)
        case OpenPair.SMALL_OR_BIG_BET:
            pair = any(len({card >> 2 for card in cards}) < len(cards) for cards in boards)
            return (stakes.small_bet, stakes.big_bet) if pair else (stakes.small_bet,)


class River(Enum):
    """How seventh street is dealt."""

    FROM_THE_STUB = "from_the_stub"
    FROM_BURNS_AND_STUB = "from_burns_and_stub"
    COMMUNITY_FROM_BURNS = "community_from_burns"


def river(rules: HouseRules, stub: Stub, burns: Sequence[Location], players: int) -> River:
    """Decide whether the deck can serve everyone left on seventh street, judged before the burn (CC-10, CC-11)."""
    if stub.left >= players + rules.short_deck_counts_the_burn:
        return River.FROM_THE_STUB
    if len(burns) + stub.left >= players:
        return River.FROM_BURNS_AND_STUB
    return River.COMMUNITY_FROM_BURNS
