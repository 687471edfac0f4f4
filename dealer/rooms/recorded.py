"""Common card-room rules for hands that were recorded elsewhere: 52 cards, the usual rankings, five games.

No page stands behind this profile. It is what the rooms of the recorded hands have in common, and by tag where one of
them is known to differ. Where the records do not tell how their rooms read a rule there are several readings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from dealer.house_rules import (
    Board,
    Button,
    Completion,
    EqualBoards,
    Form,
    HouseRules,
    OddChip,
    OpenPair,
    Pot,
    RaiseCap,
)

STUD = HouseRules(
    name="recorded",
    room="recorded",
    title="Seven Card Stud",
    form=Form.SEVEN_CARD_STUD,
    stakes=(),
    # The lowest card up brings in, clubs lowest; he may complete at once.
    board=Board.LOW_CARD_BRINGS_IN,
    suits_low_to_high="cdhs",
    may_open_for_full_bet=True,
    # Four bets a round, between two players too; the completion is the first of them.
    raises_a_round=3,
    raise_cap=RaiseCap.ALWAYS,
    # Only where the pot is all for the high hand does an open pair allow a big bet on fourth street.
    open_pair_on_fourth=OpenPair.SMALL_OR_BIG_BET,
    odd_chip=OddChip.HIGH_CARD_BY_SUIT,
)

STUD_HIGH_LOW = replace(
    STUD,
    title="Seven Card Stud High-Low, eight or better",
    pot=Pot.HIGH_AND_EIGHT_OR_BETTER,
    open_pair_on_fourth=OpenPair.NOTHING,
)

RAZZ = replace(
    STUD,
    title="Razz",
    pot=Pot.RAZZ,
    # The highest card up brings in, the ace being low; later the lowest board speaks first.
    board=Board.HIGH_CARD_BRINGS_IN,
    open_pair_on_fourth=OpenPair.NOTHING,
)

FIVE_CARD_DRAW = HouseRules(
    name="recorded",
    room="recorded",
    title="Five Card Draw",
    form=Form.FIVE_CARD_DRAW,
    stakes=(),
    button=Button.MOVES,
    big_blind_is_a_bet=True,
    raises_a_round=3,
    raise_cap=RaiseCap.ALWAYS,
)

DEUCE_TO_SEVEN_SINGLE_DRAW = replace(FIVE_CARD_DRAW, title="Deuce to Seven Single Draw", pot=Pot.DEUCE_TO_SEVEN)

GAMES: Final[Mapping[str, HouseRules]] = {
    "seven-card-stud": STUD,
    "seven-card-stud-hi-lo": STUD_HIGH_LOW,
    "razz": RAZZ,
    "five-card-draw": FIVE_CARD_DRAW,
    "deuce-to-seven-single-draw": DEUCE_TO_SEVEN_SINGLE_DRAW,
}


# How the rooms read what the records mostly leave open, in the order in which a record is held against them.
_OTHER_READINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Equal boards: the highest suit speaks first, instead of the seat nearest the dealer's left.
    "ties-by-suit": {"equal_boards": EqualBoards.HIGHEST_CARD_BY_SUIT},
    # Whoever speaks first on a river with a community card does so by his own four upcards.
    "own-upcards": {"community_card_counts_for_first_to_act": False},
}


def readings(rules: HouseRules, tags: frozenset[str]) -> Iterator[HouseRules]:
    """Yield the rules that a record may have been played by, the likeliest first; all but the usual ones are named.

    ``tags``: what is known of the record; a room that is known to differ is tried by its own rule first.
    """
    if "deviates" in tags:
        # One room adds a full bet to the bring-in where others complete it to a full bet.
        yield replace(rules, name="recorded/deviates", completion=Completion.BRING_IN_PLUS_SMALL_BET)
    yield rules
    if rules.form is Form.SEVEN_CARD_STUD:
        for name, change in _OTHER_READINGS.items():
            yield replace(rules, name=f"{rules.name}/{name}", **change)
