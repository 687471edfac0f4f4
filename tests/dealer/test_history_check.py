"""Any reader's history, played again by the rules without the cards that he could not see."""

import random
from collections import Counter
from typing import Any

import pytest

from dealer.events import Mucked
from dealer.history import Reader, Viewer, history
from dealer.history_check import Undecided, check
from dealer.house_rules import HouseRules
from dealer.rooms import GAMES
from dealer.state import Hand
from tests.dealer.play import Shoe
from tests.dealer.test_any_hand import any_start, any_step
from tests.scale import scaled

RULES = list(GAMES.values())


def any_hand(rules: HouseRules, rng: random.Random) -> Hand:
    hand = any_start(rules, rng)
    shoe = Shoe(rng, deck_size=hand.deck_size)
    while not hand.over:
        hand = any_step(hand, shoe, rng)
    return hand


def net(hand: Hand) -> dict[int, int]:
    return dict(hand.net())


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_each_players_history_plays_again_to_the_same_chips(rules: HouseRules) -> None:
    rng = random.Random(rules.name)
    for _ in range(scaled(40, 10_000)):
        hand = any_hand(rules, rng)
        for viewer in (*hand.seats, Reader.HOUSE):
            assert net(check(history(hand, viewer), rules)) == net(hand)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_a_bystanders_history_plays_again_unless_a_hand_was_mucked(rules: HouseRules) -> None:
    rng = random.Random(rules.name)
    said: Counter[str] = Counter()
    for _ in range(scaled(100, 10_000)):
        hand = any_hand(rules, rng)
        try:
            assert net(check(history(hand, Reader.BYSTANDER), rules)) == net(hand)
            said["checked"] += 1
        except Undecided:
            assert any(isinstance(event, Mucked) for event in hand.events)
            said["undecided"] += 1
    assert said["checked"] > said["undecided"]


def changed(written: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Change one number or word of an event, or what somebody won."""
    if rng.random() < 0.1:
        return {**written, "net": {seat: each + 1 for seat, each in written["net"].items()}}
    number = rng.randrange(len(written["events"]))
    event = written["events"][number]
    key = rng.choice([key for key in event if key not in {"cards", "discards"}])
    value = event[key]
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else "changed"
    events = [*written["events"]]
    events[number] = {**event, key: other}
    return {**written, "events": events}


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_a_changed_event_is_refused_whoever_reads_it(rules: HouseRules) -> None:
    rng = random.Random(rules.name)
    for _ in range(scaled(40, 10_000)):
        hand = any_hand(rules, rng)
        with pytest.raises((ValueError, KeyError)):
            check(changed(history(hand, rng.choice(hand.seats)), rng), rules)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_another_winner_is_refused(rules: HouseRules) -> None:
    """The cards of the showdown decide, not what the history says of them."""
    rng = random.Random(rules.name)
    refused = 0
    for _ in range(scaled(100, 5_000)):
        hand = any_hand(rules, rng)
        viewer: Viewer = rng.choice(hand.seats)
        written = history(hand, viewer)
        wins = [event for event in written["events"] if event["event"] == "won"]
        shown = sorted({event["seat"] for event in written["events"] if event["event"] == "shown"})
        others = [seat for seat in shown if seat != wins[-1]["seat"]] if wins else []
        if not others:
            continue
        wins[-1]["seat"] = others[0]
        with pytest.raises(ValueError, match=r"events\[\d+\]"):
            check(written, rules)
        refused += 1
    assert refused
