"""A hand told as text: from the engine's events, and from a written history, the same."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dealer.cards import NAMES
from dealer.hand import start, void
from dealer.history import Reader, history
from dealer.rooms import GAMES
from dealer.show import Telling, money, title
from dealer.show_history import text
from dealer.state import Hand
from tests.dealer.play import Shoe, at_random, play
from tests.scale import scaled

NAMES_OF_PLAYERS = {1: "Ann", 2: "Ben", 3: "Cleo", 4: "Dan", 5: "Eve"}


def hand_of(game: str, seed: int) -> Hand:
    rng = random.Random(seed)
    rules = GAMES[game]
    stakes = rng.choice(rules.stakes)
    players = rng.randint(2, 5)
    button = rng.randint(1, players) if game == "pokerkings" else 0
    stacks = [(seat, rng.choice((stakes.big_bet, 3 * stakes.big_bet, stakes.buy_in))) for seat in range(1, players + 1)]
    hand = start(rules, stakes, stacks, button=button)
    return play(hand, Shoe(rng, deck_size=hand.deck_size), at_random(rng))


def told(hand: Hand) -> str:
    """Tell a hand from the engine's own events."""
    players = {seat: NAMES_OF_PLAYERS[seat] for seat in hand.seats}
    telling = Telling(hand.rules, players, button=hand.button)
    stacks = dict(zip(hand.seats, hand.start_stacks, strict=True))
    lines = [title(hand.rules, hand.stakes), *telling.seats(stacks), *telling.tell(hand.events)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("game", sorted(GAMES))
def test_a_written_history_reads_like_the_hand_itself(game: str) -> None:
    for seed in range(scaled(60, 5_000)):
        hand = hand_of(game, seed)
        written = json.loads(json.dumps(history(hand, Reader.HOUSE, names=NAMES_OF_PLAYERS)))
        assert text(written, hand.rules) == told(hand)


@pytest.mark.parametrize("game", sorted(GAMES))
def test_a_players_text_has_his_cards_and_no_folded_ones(game: str) -> None:
    for seed in range(scaled(60, 5_000)):
        hand = hand_of(game, seed)
        for seat in hand.seats:
            words = text(json.loads(json.dumps(history(hand, seat))), hand.rules).split()
            names = {word.strip("()+") for word in words} & set(NAMES)
            still_in = {hand.seats[i] for i in hand.betting.inside}
            assert {NAMES[card] for card in hand.cards(seat)} <= names
            for i, other in enumerate(hand.seats):
                if other not in still_in and other != seat:
                    assert not {NAMES[card] for card in hand.down[i]} & names - public_names(hand)


def public_names(hand: Hand) -> set[str]:
    """Every card that lay open at some time, also as an earlier owner's before a reshuffle."""
    written = history(hand, Reader.HOUSE)
    size = hand.deck_size
    return {
        NAMES[card["item"] + 52 - size]
        for event in written["events"]
        if event["event"] in ("shown", "community_card") or event.get("face") == "up"
        for card in event["cards"]
    } | {
        # A discard that was shuffled again was somebody's before; he may have been the reader.
        NAMES[card["item"] + 52 - size]
        for event in written["events"]
        if any(each["event"] == "reshuffled" for each in written["events"])
        for card in event.get("cards", ())
        if "item" in card
    }


def test_a_void_hand_says_why() -> None:
    rules = GAMES["casino_club"]
    hand = void(start(rules, rules.stakes[0], [(1, 500), (2, 500)]), "unreachable")
    assert "the hand is void, every chip goes back: unreachable" in text(history(hand, Reader.BYSTANDER), rules)


@pytest.mark.parametrize(("cents", "shown"), [(0, "0"), (5, "0.05"), (50, "0.50"), (200, "2"), (1234, "12.34")])
def test_money_is_in_whole_units(cents: int, shown: str) -> None:
    assert money(cents) == shown


@pytest.mark.parametrize(
    ("content", "arguments", "exit_code"),
    [
        ("history", [], 0),
        ("history", ["--phh"], 0),
        ("a player's", [], 0),
        ("a player's", ["--phh"], 2),
        ("history", ["--check"], 0),
        ("a player's", ["--check"], 0),
        ("with a chip too many", ["--check"], 1),
        ("history", ["--check", "--phh"], 2),
        ("{}", ["--check"], 2),
        ("[]", ["--check"], 2),
        ("{}", [], 2),
        ("nonsense", [], 2),
        ("[" * 100_000, [], 2),
    ],
)
def test_the_history_command(tmp_path: Path, content: str, arguments: list[str], exit_code: int) -> None:
    hand = hand_of("limit_stud", 0)  # somebody folds
    viewer = {"history": Reader.HOUSE, "a player's": 1, "with a chip too many": 1}.get(content)
    file = tmp_path / "hand.json"
    written = json.dumps(history(hand, viewer, names=NAMES_OF_PLAYERS)) if viewer else content
    if content == "with a chip too many":
        written = re.sub(r'("event": "won".*?"amount": )(\d+)', lambda won: won[1] + str(int(won[2]) + 1), written)
    file.write_text(written)
    run = subprocess.run(
        [sys.executable, "-m", "dealer", "history", *arguments, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == exit_code, run.stderr
    assert "Traceback" not in run.stderr
    if exit_code == 0:
        assert {"--phh": "F7S", "--check": "every chip"}.get("".join(arguments), "Ann") in run.stdout
