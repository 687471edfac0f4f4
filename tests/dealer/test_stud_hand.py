"""Seven Card Stud from the first ante to the last muck."""

import random

import pytest

from dealer.events import Burned, CommunityCard, Dealt, Reshuffled
from dealer.hand import start
from dealer.house_rules import Form, HouseRules
from dealer.rooms import GAMES
from dealer.rooms.casino_club import CASINO_CLUB
from tests.dealer.play import Shoe, at_random, call_down, play
from tests.scale import scaled

STAKES = CASINO_CLUB.stakes[0]
STUD_HOUSES = [rules for rules in GAMES.values() if rules.form is Form.SEVEN_CARD_STUD]


def even(players: int, chips: int = 5000) -> list[tuple[int, int]]:
    return [(seat, chips) for seat in range(1, players + 1)]


@pytest.mark.parametrize("players", range(2, 9))
def test_random_hands_end_with_every_chip_and_card_counted(players: int) -> None:
    rng = random.Random(players)
    for _ in range(scaled(100, 5000)):
        stacks = [(seat, rng.randint(1, 3000)) for seat in range(1, players + 1)]
        hand = play(start(CASINO_CLUB, STAKES, stacks), Shoe(rng), at_random(rng))
        assert sum(hand.betting.stacks) == sum(stack for _, stack in stacks)
        assert sum(hand.net().values()) == 0


@pytest.mark.rule("CC-11")
@pytest.mark.rule("P7-10")
@pytest.mark.rule("LS-11")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_eight_players_to_the_river_share_one_card_from_the_burns(rules: HouseRules) -> None:
    hand = play(start(rules, STAKES, even(8)), Shoe(random.Random(8)), call_down)
    (shuffle,) = [event for event in hand.events if isinstance(event, Reshuffled)]
    assert shuffle.locations == ((0, 24), (0, 33), (0, 42))
    (shared,) = [event for event in hand.events if isinstance(event, CommunityCard)]
    assert (shared.k, shared.p) == (1, 0)
    assert not [event for event in hand.events if isinstance(event, Dealt) and event.street == "seventh"]


@pytest.mark.rule("CC-10")
@pytest.mark.rule("P7-10")
@pytest.mark.rule("LS-11")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_seven_players_to_the_river_are_dealt_burns_and_stub_without_a_burn(rules: HouseRules) -> None:
    """There are just enough cards for them in the stub, but not for the burn that comes first."""
    hand = play(start(rules, STAKES, even(7)), Shoe(random.Random(7)), call_down)
    (shuffle,) = [event for event in hand.events if isinstance(event, Reshuffled)]
    assert len(shuffle.locations) == 7 + 3
    river = [event for event in hand.events if isinstance(event, Dealt) and event.street == "seventh"]
    assert [(event.k, event.p) for event in river] == [(1, p) for p in range(7)]
    assert not [event for event in hand.events if isinstance(event, Burned) and event.street == "seventh"]
