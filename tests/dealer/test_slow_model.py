"""The dealer against the slow model: places and reshuffles, pots, winners and odd chips of random hands."""

import random
from collections import Counter
from functools import partial

import pytest

from dealer.events import Acted, Burned, CommunityCard, Dealt, Discarded, Reshuffled, Returned
from dealer.house_rules import Form, HouseRules, OddChip, Pot
from dealer.ranking import SuitedLowStraight
from dealer.rooms import GAMES
from dealer.state import Hand
from tests.dealer import slow_model
from tests.dealer.play import Shoe
from tests.dealer.test_any_hand import any_start, any_step
from tests.scale import scaled

RULES = list(GAMES.values())


def told(hand: Hand) -> list[tuple[object, ...]]:
    story: list[tuple[object, ...]] = []
    for event in hand.events:
        match event:
            case Dealt(_, seat, _, k, p, _):
                story.append(("dealt", seat, k, p))
            case Burned(_, k, p):
                story.append(("burnt", k, p))
            case CommunityCard(_, k, p, _):
                story.append(("all", k, p))
            case Reshuffled(k, locations):
                story.append(("shuffle", k, tuple(tuple(location) for location in locations)))
            case _:
                pass
    return story


def expected_net(rules: HouseRules, hand: Hand, pots: list[slow_model.Pot], paid: dict[int, int]) -> dict[int, int]:
    """Pay the pots by the slow model's own ranking of hands."""
    net: Counter[int] = Counter({seat: -chips for seat, chips in paid.items()})
    lowest = {52: 2, 36: 6, 32: 7}[hand.deck_size]
    royal = rules.suited_low_straight is SuitedLowStraight.ROYAL_FLUSH
    high = partial(slow_model.high, lowest=lowest, flush_first=rules.flush_over_full_house, royal_low=royal)
    for total, owners in pots:
        cards = {seat: [*hand.cards(seat), *hand.community] for seat in owners}
        sides = [(total, high, False)]
        if rules.pot is Pot.HIGH_AND_EIGHT_OR_BETTER and any(
            slow_model.best(held, slow_model.low) is not None for held in cards.values()
        ):
            sides = [(total - total // 2, high, False), (total // 2, slow_model.low, True)]
        for chips, value, ace_low in sides:
            if len(owners) == 1:
                winners = list(owners)
            else:
                values = {seat: slow_model.best(held, value) for seat, held in cards.items()}
                best = max(found for found in values.values() if found is not None)
                winners = [seat for seat in hand.seats if values.get(seat) == best]
            if rules.odd_chip is OddChip.HIGH_CARD_BY_SUIT and len(winners) > 1:
                winners.sort(
                    key=lambda seat: slow_model.highest_of_winning_five(  # used at once
                        cards[seat],
                        value,
                        rules.suits_low_to_high,
                        ace_low=ace_low,
                    ),
                    reverse=True,
                )
            for n, seat in enumerate(winners):
                net[seat] += chips // len(winners) + (n < chips % len(winners))
    return {seat: net[seat] for seat in hand.seats}


@pytest.mark.rule("CC-10")
@pytest.mark.rule("CC-11")
@pytest.mark.rule("PK-5")
@pytest.mark.rule("P7-8")
@pytest.mark.rule("AL-4")
@pytest.mark.rule("AL-20")
@pytest.mark.timeout(0 if scaled(0, 1) else 300)
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_places_pots_and_payments_are_those_of_the_slow_model(rules: HouseRules) -> None:
    rng = random.Random(f"slow {rules.name}")
    reshuffled = 0
    for _ in range(scaled(100, 20_000)):
        hand = any_start(rules, rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        while not hand.over:
            hand = any_step(hand, shoe, rng)
        acts = [event for event in hand.events if isinstance(event, Acted)]
        if rules.form is Form.SEVEN_CARD_STUD:
            story = slow_model.stud_places(hand.seats, acts)
        else:
            drew = [event for event in hand.events if isinstance(event, Discarded)]
            story = slow_model.draw_places(hand.seats, hand.deck_size, drew)
        assert told(hand) == story
        reshuffled += any(step[0] == "shuffle" for step in story)

        pots, paid, back = slow_model.settle_chips(hand.events)
        assert [(total, tuple(sorted(seats))) for _, total, seats in hand.pots()] == pots
        returned: Counter[int] = Counter()
        for event in hand.events:
            if isinstance(event, Returned):
                returned[event.seat] += event.amount
        assert dict(returned) == back
        assert hand.net() == expected_net(rules, hand, pots, paid)
    assert reshuffled >= scaled(1, 50)
