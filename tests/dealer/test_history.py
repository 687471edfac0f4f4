"""Histories: what each reader may see, the hand played again from its history, and PHH read by PokerKit."""

import json
import random
import tomllib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from pokerkit import HandHistory

from dealer.actions import Act, Action
from dealer.cards import NAMES, item_of
from dealer.events import Dealt, Reshuffled
from dealer.hand import apply, start, time_out
from dealer.history import Reader, Viewer, history, open_locations, replay, visible_events
from dealer.history_phh import phh
from dealer.house_rules import HouseRules, Stakes, Structure
from dealer.rooms import GAMES, recorded
from dealer.state import Hand, NeedAction
from dealer.stub import Location
from tests.dealer.play import Shoe, at_random, call_down, play, stacked
from tests.scale import scaled

GAME_NAMES = list(GAMES)


def random_hand(rules: HouseRules, rng: random.Random) -> Hand:
    *_, hand = every_moment(rules, rng)
    return hand


def every_moment(rules: HouseRules, rng: random.Random) -> Iterator[Hand]:
    players = rng.randint(rules.fewest_players, rules.most_players)
    stakes = rng.choice(rules.stakes)
    seats = sorted(rng.sample(range(1, 11), players))
    stacks = [(seat, rng.randint(1, 30 * stakes.big_bet)) for seat in seats]
    button = rng.choice(seats) if rules.name == "pokerkings" else 0
    hand = start(rules, stakes, stacks, button=button)
    shoe = Shoe(rng, deck_size=hand.deck_size)
    choose = at_random(rng)
    yield hand
    while not hand.over:
        hand = apply(hand, choose(hand, hand.awaits)) if isinstance(hand.awaits, NeedAction) else shoe.answer(hand)
        yield hand


@pytest.mark.parametrize("game", GAME_NAMES)
def test_a_history_replays_to_the_same_bytes(game: str) -> None:
    rng = random.Random(game)
    for _ in range(scaled(100, 10_000)):
        written = json.dumps(history(random_hand(GAMES[game], rng), Reader.HOUSE))
        assert json.dumps(history(replay(json.loads(written), GAMES[game]), Reader.HOUSE)) == written


def test_timeouts_kept_folds_and_void_hands_replay_too() -> None:
    rules = GAMES["poker777"]
    rng = random.Random(7)
    kinds = set()
    for _ in range(scaled(100, 5_000)):
        hand = start(rules, rules.stakes[0], [(seat, rng.randint(30, 3000)) for seat in range(1, rng.randint(3, 9))])
        shoe = Shoe(rng)
        while not hand.over:
            if not isinstance(hand.awaits, NeedAction):
                hand = shoe.answer(hand)
            elif rng.random() < 0.1:
                hand = time_out(hand)
            else:
                others = [i for i, seat in enumerate(hand.seats) if seat != hand.awaits.seat]
                i = rng.choice(others)
                if (
                    rng.random() < 0.1
                    and hand.settlement is None
                    and i in hand.betting.active
                    and i not in hand.kept_folds
                ):
                    hand = apply(hand, Action(hand.seats[i], Act.FOLD))
                else:
                    hand = apply(hand, at_random(rng)(hand, hand.awaits))
        written = history(hand, Reader.HOUSE)
        kinds |= {event["event"] for event in written["events"]}
        assert history(replay(written, rules), Reader.HOUSE) == written
    assert {"protected", "fold_kept"} <= kinds


@pytest.mark.parametrize("game", GAME_NAMES)
def test_a_changed_history_is_refused(game: str) -> None:
    rng = random.Random(game)
    for _ in range(scaled(30, 1_000)):
        written = history(random_hand(GAMES[game], rng), Reader.HOUSE)
        number = rng.randrange(len(written["events"]))
        event = written["events"][number]
        key = rng.choice([key for key in event if key not in ("all_in", "shuffle")])
        changed = {**event, key: 99 if isinstance(event[key], int) else "changed"}
        written["events"][number] = changed
        with pytest.raises(Exception, match=r".+"):
            replay(written, GAMES[game])


def secrets(hand: Hand, viewer: Viewer) -> set[Location]:
    """Locations that the viewer must not see, told from the rules and not from the history code."""
    uncovered: set[Location] = set()
    for seat, cards in zip(hand.seats, zip(hand.down, hand.up, strict=True), strict=True):
        down, up = cards
        uncovered |= {hand.where[card] for card in up}
        i = hand.seats.index(seat)
        at_showdown = hand.over and len(hand.betting.inside) > 1 and i in hand.betting.inside
        shown = any(event["event"] == "shown" and event["seat"] == seat for event in visible_events(hand, Reader.HOUSE))
        if seat == viewer or shown or (at_showdown and viewer in hand.seats):
            uncovered |= {hand.where[card] for card in down}
    own = {Location(e.k, e.p) for e in hand.events if isinstance(e, Dealt) and e.seat == viewer}
    everything = {Location(e.k, e.p) for e in hand.events if isinstance(e, Dealt)}
    return everything - uncovered - own


@pytest.mark.rule("CC-15")
@pytest.mark.parametrize("game", GAME_NAMES)
def test_nobody_sees_a_card_that_is_not_his_to_see(game: str) -> None:
    """Not during the hand either: the check runs after each step of it."""
    rng = random.Random(game)
    for _ in range(scaled(5, 500)):
        for hand in every_moment(GAMES[game], rng):
            viewers: list[Viewer] = [Reader.BYSTANDER, *hand.seats]
            for viewer in viewers:
                hidden = secrets(hand, viewer)
                assert not hidden & (open_locations(hand, viewer) or set())
                for event in visible_events(hand, viewer):
                    for move in event.get("cards", []):
                        assert "item" not in move or Location(move["k"], move["p"]) not in hidden


@pytest.mark.rule("CC-15")
def test_once_over_a_player_sees_mucked_showdown_hands_but_no_folded_one() -> None:
    rules = GAMES["casino_club"]
    rng = random.Random(3)
    folded = []

    def third_seat_folds(hand: Hand, need: NeedAction) -> Action:
        if need.seat == 3 and Act.FOLD in {choice.act for choice in need.choices}:
            folded.append(need.seat)
            return Action(3, Act.FOLD)
        return call_down(hand, need)

    cards = "2c 3c 4c 5d 6d 7d Ts 9h 8h"
    hand = start(rules, rules.stakes[0], [(1, 5000), (2, 5000), (3, 5000)])
    hand = play(hand, Shoe(rng, stacked(cards)), third_seat_folds)
    assert folded
    assert {event["event"] for event in visible_events(hand, 1)} >= {"mucked", "shown"}
    for viewer, sees in ((1, {1, 2}), (3, {1, 2, 3}), (Reader.BYSTANDER, set())):
        open_downs = {
            event["seat"]
            for event in visible_events(hand, viewer)
            if event["event"] == "dealt" and event["face"] == "down" and "item" in event["cards"][0]
        }
        shown = {event["seat"] for event in visible_events(hand, viewer) if event["event"] == "shown"}
        assert open_downs == sees | shown


@pytest.mark.rule("CC-15")
def test_an_uncalled_winner_stays_hidden() -> None:
    rules = GAMES["casino_club"]

    def all_fold(hand: Hand, need: NeedAction) -> Action:
        acts = {choice.act for choice in need.choices}
        act = next(act for act in (Act.BRING_IN, Act.FOLD, Act.MUCK) if act in acts)
        return Action(need.seat, act)

    hand = play(start(rules, rules.stakes[0], [(1, 5000), (2, 5000)]), Shoe(random.Random(1)), all_fold)
    (winner,) = [seat for seat, net in hand.net().items() if net > 0]
    loser = ({1, 2} - {winner}).pop()
    hidden = [e for e in visible_events(hand, loser) if e["event"] == "dealt" and e["seat"] == winner]
    assert [("item" in event["cards"][0]) for event in hidden] == [False, False, True]


@pytest.mark.rule("DK-5")
@pytest.mark.parametrize("game", GAME_NAMES)
def test_places_of_each_shuffle_are_taken_one_after_the_other_and_none_is_skipped(game: str) -> None:
    rng = random.Random(game)
    for _ in range(scaled(100, 5_000)):
        hand = random_hand(GAMES[game], rng)
        named = {location for event in hand.events if isinstance(event, Reshuffled) for location in event.locations}
        sealed = 0
        following: dict[int, int] = {}
        for event in visible_events(hand, Reader.BYSTANDER):
            if "shuffle" in event:
                assert event["shuffle"] == sealed
                following[sealed] = 0
                sealed += 1
            for move in event.get("cards", []):
                if move["how"] in ("dealt", "burnt"):
                    assert move["p"] == following[move["k"]]
                    following[move["k"]] += 1
        assert all(location.k < sealed for location in named)


def as_pokerkit_reads_it(text: str) -> tuple[list[int], list[int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = HandHistory.loads(text)
        *_, state = read
    return list(state.starting_stacks), list(state.stacks)


def passive(rng: random.Random) -> Any:
    """A player within the rules that all rooms share: no raises, folds only when he owes something."""

    def choose(hand: Hand, need: NeedAction) -> Action:
        facing = {choice.act for choice in need.choices}
        if Act.CALL in facing and rng.random() < 0.3:
            return Action(need.seat, Act.FOLD)
        if Act.DISCARD in facing and rng.random() < 0.7:
            return Action(need.seat, Act.DISCARD, cards=tuple(rng.sample(hand.cards(need.seat), rng.randint(1, 3))))
        bets = [c for c in need.choices if c.act in (Act.BET, Act.COMPLETE)]
        if bets and rng.random() < 0.3:
            return Action(need.seat, bets[0].act, bets[0].lowest)
        return call_down(hand, need)

    return choose


SINGLE_DRAW = Stakes(name="1/2", structure=Structure.NO_LIMIT, small_blind=1, big_blind=2)
STUD = Stakes(name="5/10", ante=1, bring_in=2, small_bet=5, big_bet=10)
PHH_GAMES = {
    "casino_club": (GAMES["casino_club"], STUD),
    "poker777": (GAMES["poker777"], STUD),
    "limit_stud_high_low": (recorded.STUD_HIGH_LOW, STUD),
    "razz": (recorded.RAZZ, STUD),
    "deuce_to_seven": (recorded.DEUCE_TO_SEVEN_SINGLE_DRAW, SINGLE_DRAW),
}


@pytest.mark.parametrize("game", list(PHH_GAMES))
def test_pokerkit_reads_our_phh_and_gets_the_same_payoffs(game: str) -> None:
    rules, stakes = PHH_GAMES[game]
    rng = random.Random(game)
    for _ in range(scaled(12, 400)):
        players = rng.randint(2, 6)
        stacks = [(seat, rng.randint(60, 400)) for seat in range(1, players + 1)]
        hand = play(start(rules, stakes, stacks, button=players), Shoe(rng), passive(rng))
        text = phh(hand)
        assert tomllib.loads(text)["finishing_stacks"] == hand.betting.stacks
        assert as_pokerkit_reads_it(text) == (list(hand.start_stacks), hand.betting.stacks), text


def test_phh_has_no_code_for_five_card_draw() -> None:
    rules = GAMES["pokerkings"]
    hand = play(start(rules, rules.stakes[0], [(1, 900), (2, 900)]), Shoe(random.Random(1), deck_size=32), call_down)
    with pytest.raises(ValueError, match="PHH has no code"):
        phh(hand)


def test_items_are_those_of_the_shuffle() -> None:
    rules = GAMES["pokerkings"]
    order = random.Random(2).sample(range(32), 32)
    hand = play(
        start(rules, rules.stakes[0], [(1, 900), (2, 900)]), Shoe(random.Random(1), order, deck_size=32), call_down
    )
    for event in visible_events(hand, Reader.HOUSE):
        for move in event.get("cards", []):
            assert move["item"] == order[move["p"]]
    assert item_of(51, 32) == 31
    assert NAMES[20] == "7c"
    assert item_of(20, 32) == 0
