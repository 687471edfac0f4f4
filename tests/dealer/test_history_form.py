"""Any damaged history ends `dealer history` with one line and a code that tells what is wrong: never a traceback."""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dealer.commands.history import command
from dealer.history import Reader, history
from dealer.history_form import read_history
from dealer.rooms import GAMES
from tests.dealer.test_history_check import any_hand
from tests.scale import scaled

FORMS = ([], ["--check"], ["--phh"])
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 52, 99, 2**53, 10**30, 1.5, "", "x", "fold", "dealt", "shown", "two\nlines", "\ud800"),
    *([], [1], [[0, 0]], {}, {"event": "won"}, [{"how": "dealt", "k": 0, "p": 0, "item": 0}]),
)


def told(written: Any, *flags: str) -> Result:
    return CliRunner().invoke(
        command, [*flags, "-"], input=written if isinstance(written, str) else json.dumps(written)
    )


def check_one_line(result: Result, *, said: Any = None) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), (said, result.exc_info)
    assert result.exit_code in (0, 1, 2, 3), said
    if result.exit_code:
        assert result.output.startswith("Error: "), said
        assert result.output.count("\n") == 1, said


def casino_club(viewer: Any = Reader.HOUSE, seed: int = 1) -> dict[str, Any]:
    rng = random.Random(seed)
    hand = any_hand(GAMES["casino_club"], rng)
    while hand.settlement is None or not any(event["event"] == "shown" for event in history(hand, viewer)["events"]):
        hand = any_hand(GAMES["casino_club"], rng)
    return json.loads(json.dumps(history(hand, viewer)))


def within(written: dict[str, Any], **change: Any) -> dict[str, Any]:
    """Return a history with some members changed, ``events__0__seat`` being that of the first event."""
    changed = copy.deepcopy(written)
    for name, value in change.items():
        *path, last = (int(part) if part.isdigit() else part for part in name.split("__"))
        inside: Any = changed
        for part in path:
            inside = inside[part]
        inside[last] = value
    return changed


GOOD = casino_club()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{", "must be JSON: "),
        ([], "history: must be an object"),
        ({}, "game: is missing"),
        (within(GOOD, game="whist"), "game: 'whist' is not one of casino_club, "),
        (within(GOOD, events__0=7), "events[0]: must be an object"),
        (within(GOOD, events__0__event="paid"), "events[0].event: 'paid' is not one of posted, "),
        (within(GOOD, events__0__seat=98), "events[0].seat: nobody sits at 98"),
        (within(GOOD, events__0__amount="5"), "events[0].amount: must be an integer 0.."),
        (within(GOOD, events__0__extra=1), "events[0]: 'extra' is not one of event, seat, "),
        (within(GOOD, stakes__small_bet=0), "stakes.small_bet: must be an integer 1.."),
        (within(GOOD, stakes__blind=1), "stakes: 'blind' is not one of name, "),
        (within(GOOD, seats=[]), "seats: must be an array of 2..8 elements"),
        (within(GOOD, deck_size=32), "deck_size: must be 52, for "),
        (within(GOOD, receipt={}), "receipt.seq: is missing"),
        (within(GOOD, net={}), "net."),
    ],
)
@pytest.mark.parametrize("flags", FORMS)
def test_the_member_that_is_wrong_is_named(written: Any, said: str, flags: list[str]) -> None:
    result = told(written, *flags)
    assert result.exit_code == 2
    assert f"is no history: {said}" in result.output
    check_one_line(result)


def test_a_history_that_ends_early_is_told_so_in_words() -> None:
    for cut in (1, 2, 5):
        result = told({**GOOD, "events": GOOD["events"][:-cut]}, "--check")
        assert result.exit_code == 1
        assert "events: it ends before the hand is over" in result.output
        check_one_line(result)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Give the path of every member and element."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


def damaged(written: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Drop, repeat, swap or replace one to three members of a history."""
    changed = copy.deepcopy(written)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        everywhere = list(places(changed))
        # The few members at the top are as likely as the many of the events.
        *path, last = rng.choice(everywhere if rng.random() < 0.7 else [each for each in everywhere if len(each) < 4])
        inside: Any = changed
        for part in path:
            inside = inside[part]
        match rng.randrange(5):
            case 0:
                del inside[last]
            case 1 if isinstance(inside, list):
                inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[last]))
            case 2 if isinstance(inside, list):
                other = rng.randrange(len(inside))
                inside[last], inside[other] = inside[other], inside[last]
            case 3 if isinstance(inside[last], int):
                inside[last] += rng.choice((-1, 1))
            case _:
                inside[last] = copy.deepcopy(rng.choice(ODD))
    return changed


def replayed_wrongly(written: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Change a history so that it mostly keeps its form: other events, other order, other numbers and acts."""
    changed = copy.deepcopy(written)
    events = changed["events"]
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(events) - 1)
        numbers = [name for name, value in events[at].items() if type(value) is int]
        match rng.randrange(7):
            case 0:
                del events[at]
            case 1:
                events[at], events[at + 1] = events[at + 1], events[at]
            case 2:
                del events[at + 1 :]
            case 3 if numbers:
                events[at][rng.choice(numbers)] += rng.choice((-1, 1, 10**9))
            case 4 if "act" in events[at]:
                events[at]["act"] = rng.choice(("fold", "check", "call", "bring_in", "complete", "bet", "raise"))
            case 5:
                each = rng.choice([*changed["seats"], *changed["posts"]])
                each[rng.choice(["stack" if "stack" in each else "amount", "seat"])] = rng.choice(
                    (1, 2, 3, 10, 2**53 - 1)
                )
            case _:
                name = rng.choice([name for name in changed["stakes"] if name not in ("name", "structure")])
                changed["stakes"][name] = rng.choice((1, 2, 10, 2**53 - 1))
        if len(events) < 2:
            break
    changed["button"] = rng.choice((changed["button"], rng.randrange(10)))
    if rng.random() < 0.5:
        changed.pop("net", None)
    return changed


@pytest.mark.parametrize("damage", [damaged, replayed_wrongly])
@pytest.mark.parametrize("game", list(GAMES))
def test_no_damage_makes_a_traceback(
    game: str, damage: Callable[[dict[str, Any], random.Random], dict[str, Any]]
) -> None:
    rng = random.Random(game)
    codes: Counter[int] = Counter()
    for _ in range(scaled(6, 500)):
        hand = any_hand(GAMES[game], rng)
        for viewer in (Reader.HOUSE, Reader.BYSTANDER, rng.choice(hand.seats)):
            written = json.loads(json.dumps(history(hand, viewer)))
            assert read_history(json.dumps(written)) == (written, GAMES[game])
            assert told(written).exit_code == 0
            for _ in range(10):
                broken = damage(written, rng)
                for flags in FORMS:
                    result = told(broken, *flags)
                    check_one_line(result, said=(flags, broken))
                    codes[result.exit_code] += 1
    assert {0, 1, 2} <= set(codes)
