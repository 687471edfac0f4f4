"""A recorded hand in its neutral form, as a JSON object: what each of its members must be.

`read_case` checks every member once, here at the edge, and names the first that is wrong. What the record says may
still be against the rules, or contradict itself: to find that is what it is replayed for (`dealer.replay`).
"""

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from dealer.cards import NAMES
from dealer.house_rules import Form, Structure
from dealer.rooms import recorded

HIDDEN: Final = "??"
"""A card that nobody saw."""

MOST_CHIPS: Final = 2**53 - 1
_MOST_SEAT: Final = 99
_LONGEST_TEXT: Final = 200
_MOST_ELEMENTS: Final = 1_000

POST_KINDS: Final = ("ante", "small-blind", "big-blind", "dead-blind")

Check = Callable[[object, str], None]
"""Looks at a value and where it stands; raises ValueError if it is not what it must be there."""


# --- kinds of members


def _text(value: object, at: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_TEXT or not value.isprintable():
        raise ValueError(f"{at}: must be a string of 1..{_LONGEST_TEXT} printable characters")


def _string(value: object, at: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{at}: must be a string")


def _flag(value: object, at: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{at}: must be true or false")


def _whole(least: int, most: int = MOST_CHIPS) -> Check:
    def check(value: object, at: str) -> None:
        # JSON's true and false are integers to Python.
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{at}: must be an integer {least}..{most}")

    return check


def _word(words: Sequence[str]) -> Check:
    def check(value: object, at: str) -> None:
        if value not in words:
            raise ValueError(f"{at}: {reprlib.repr(value):.60} is not one of {', '.join(words)}")

    return check


def _card(value: object, at: str) -> None:
    if value != HIDDEN and value not in NAMES:
        raise ValueError(f"{at}: must be a card such as 'Td', or '{HIDDEN}'")


def _array(element: Check, least: int = 0, most: int = _MOST_ELEMENTS) -> Check:
    def check(value: object, at: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ValueError(f"{at}: must be an array of {least}..{most} elements")
        for index, each in enumerate(cast("list[object]", value)):
            element(each, f"{at}[{index}]")

    return check


def _of_object(value: object, at: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{at}: must be an object")
    return cast("dict[str, object]", value)


def _object(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Return the check of an object; members other than these are not looked at."""
    optional = optional or {}

    def check(value: object, at: str) -> None:
        members = _of_object(value, at)
        inside = f"{at}." if at != "case" else ""
        for name, inner in needed.items():
            if name not in members:
                raise ValueError(f"{inside}{name}: is missing")
            inner(members[name], f"{inside}{name}")
        for name, inner in optional.items():
            if name in members:
                inner(members[name], f"{inside}{name}")

    return check


def _only(optional: Mapping[str, Check]) -> Check:
    """Return the check of an object that may have these members and no others."""

    def check(value: object, at: str) -> None:
        for name in _of_object(value, at):
            _word(tuple(optional))(name, at)
        _object({}, optional)(value, at)

    return check


def _by_player(element: Check) -> Check:
    def check(value: object, at: str) -> None:
        for player, each in _of_object(value, at).items():
            element(each, f"{at}.{player}")

    return check


# --- the form

_chips = _whole(0)
_of_player: Final[Mapping[str, Check]] = {"player": _text, "amount": _chips}
_cards = _array(_card, 0, 7)
_STAKES: Final = ("ante", "bring_in", "small_bet", "big_bet", "small_blind", "big_blind")

_CASE: Final = _object(
    {
        "id": _text,
        "game": _word(tuple(recorded.GAMES)),
        "structure": _word(tuple(structure.value.replace("_", "-") for structure in Structure)),
        "stakes": _only(dict.fromkeys(_STAKES, _chips)),
        "seats": _array(
            _object({"seat": _whole(1, _MOST_SEAT), "player": _text, "stack": _whole(1)}),
            recorded.STUD.fewest_players,
            recorded.STUD.most_players,
        ),
        "forced": _array(_object({**_of_player, "kind": _word(POST_KINDS)}, {"all_in": _flag, "live": _flag})),
        "cards": _object({}),
        "actions": _array(
            _object(
                {"street": _text, "player": _text, "action": _text},
                {
                    "amount": _chips,
                    "to": _chips,
                    "all_in": _flag,
                    "count": _whole(0, 5),
                    "cards": _array(_card, 0, 5),
                    "in_place_of_bring_in": _flag,
                },
            )
        ),
    },
    {
        "source": _object({}),
        "unit": _text,
        "button": _whole(0, _MOST_SEAT),
        "not_dealt": _array(_object({})),
        "community_card": _card,
        "uncalled_returns": _array(_object(_of_player, {"inferred": _flag})),
        "showdown": _array(_object({"player": _text, "cards": _cards, "how": _word(("shown", "mucked"))})),
        "pots": _array(_object({"name": _text, "total": _chips, "eligible": _array(_text)}, {"rake": _chips})),
        "total_pot": _chips,
        "rake": _chips,
        "collected": _array(_object(_of_player, {"pot": _text, "part": _word(("hi", "lo"))})),
        "net": _object({}),
        "notes": _array(_string),
        "tags": _array(_text),
        "checks": _object({}),
    },
)
_STUD_STREETS: Final = _only(
    {"third": _array(_card, 3, 3), **dict.fromkeys(("fourth", "fifth", "sixth", "seventh"), _array(_card, 1, 1))},
)
_DRAW_STREETS: Final = _only(
    {
        "predraw": _array(_card, 5, 5),
        "discard_count": _whole(0, 5),
        "discarded": _array(_card, 0, 5),
        "drawn": _array(_card, 0, 5),
        "final": _array(_card, 5, 5),
    }
)


def read_case(text: bytes) -> dict[str, Any]:
    """Return the case that a file's bytes hold; ValueError names the first member that must be otherwise.

    A member that is null is as good as absent.
    """
    try:
        case = json.loads(text, object_hook=_without_nulls)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be JSON: {error}") from error
    _CASE(case, "case")
    _check_stakes(case)
    _check_players(case)
    stud = recorded.GAMES[case["game"]].form is Form.SEVEN_CARD_STUD
    _by_player(_STUD_STREETS if stud else _DRAW_STREETS)(case["cards"], "cards")
    _by_player(_whole(-MOST_CHIPS))(case.get("net", {}), "net")
    for index, action in enumerate(case["actions"]):
        _check_count(action, f"actions[{index}].count")
    return cast("dict[str, Any]", case)


def _check_count(action: Mapping[str, Any], at: str) -> None:
    """Check that it is said how many cards were thrown, and not twice differently."""
    match action["action"], action.get("count"), action.get("cards"):
        case "discard", None, None:
            raise ValueError(f"{at}: is missing, and so are the cards")
        case "discard", int(count), list(cards) if count != len(cards):
            raise ValueError(f"{at}: must be {len(cards)}, as many as its cards")
        case "stand-pat", int(count), _ if count:
            raise ValueError(f"{at}: must be 0")
        case _:
            pass


def _without_nulls(members: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _check_stakes(case: Mapping[str, Any]) -> None:
    """Check that the stakes have the bets that the game and its structure are played with."""
    stakes = case["stakes"]
    needed = ["small_bet", "big_bet"] if case["structure"] == "fixed-limit" else []
    if recorded.GAMES[case["game"]].form is Form.FIVE_CARD_DRAW:
        needed.append("big_blind")
    elif not needed:
        needed.append("small_bet")
    for name in needed:
        _object({name: _whole(1)})(stakes, "stakes")
    if stakes.get("bring_in", 0) >= stakes.get("small_bet", MOST_CHIPS):
        raise ValueError("stakes.bring_in: must be less than the small bet")


def _check_players(case: Mapping[str, Any]) -> None:
    """Check that everybody who is named has one seat, and every seat one player."""
    for name in ("seat", "player"):
        values = [seat[name] for seat in case["seats"]]
        for index, value in enumerate(values):
            if value in values[:index]:
                raise ValueError(f"seats[{index}].{name}: {value!r} has a seat already")
    players = [seat["player"] for seat in case["seats"]]
    seated = _word(players)
    for name in ("cards", "net"):
        for player in case.get(name, ()):
            seated(player, name)
    for player in players if "net" in case else ():
        if player not in case["net"]:
            raise ValueError(f"net.{player}: is missing")
    for name in ("forced", "actions", "uncalled_returns", "showdown", "collected"):
        for index, entry in enumerate(case.get(name, ())):
            seated(entry["player"], f"{name}[{index}].player")
    for index, pot in enumerate(case.get("pots", ())):
        for place, player in enumerate(pot["eligible"]):
            seated(player, f"pots[{index}].eligible[{place}]")
