"""A recorded hand in its neutral form, as a JSON object: what each of its members must be.

`read_case` checks every member once, here at the edge, and names the first that is wrong. What the record says may
still be against the rules, or contradict itself: to find that is what it is replayed for (`dealer.replay`).
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from dealer.cards import NAMES
from dealer.house_rules import Form, Structure
from dealer.json_form import (
    MOST_CHIPS,
    MOST_SEAT,
    Check,
    array,
    by_name,
    check_stakes,
    flag,
    members,
    only,
    string,
    text,
    whole,
    word,
)
from dealer.rooms import recorded

HIDDEN: Final = "??"
"""A card that nobody saw."""

POST_KINDS: Final = ("ante", "small-blind", "big-blind", "dead-blind")


def _card(value: object, at: str) -> None:
    if value != HIDDEN and value not in NAMES:
        raise ValueError(f"{at}: must be a card such as 'Td', or '{HIDDEN}'")


_chips = whole(0)
_of_player: Final[Mapping[str, Check]] = {"player": text, "amount": _chips}
_cards = array(_card, 0, 7)
_STAKES: Final = ("ante", "bring_in", "small_bet", "big_bet", "small_blind", "big_blind")

_CASE: Final = members(
    {
        "id": text,
        "game": word(tuple(recorded.GAMES)),
        "structure": word(tuple(structure.value.replace("_", "-") for structure in Structure)),
        "stakes": only(dict.fromkeys(_STAKES, _chips)),
        "seats": array(
            members({"seat": whole(1, MOST_SEAT), "player": text, "stack": whole(1)}),
            recorded.STUD.fewest_players,
            recorded.STUD.most_players,
        ),
        "forced": array(members({**_of_player, "kind": word(POST_KINDS)}, {"all_in": flag, "live": flag})),
        "cards": members({}),
        "actions": array(
            members(
                {"street": text, "player": text, "action": text},
                {
                    "amount": _chips,
                    "to": _chips,
                    "all_in": flag,
                    "count": whole(0, 5),
                    "cards": array(_card, 0, 5),
                    "in_place_of_bring_in": flag,
                },
            )
        ),
    },
    {
        "source": members({}),
        "unit": text,
        "button": whole(0, MOST_SEAT),
        "not_dealt": array(members({})),
        "community_card": _card,
        "uncalled_returns": array(members(_of_player, {"inferred": flag})),
        "showdown": array(members({"player": text, "cards": _cards, "how": word(("shown", "mucked"))})),
        "pots": array(members({"name": text, "total": _chips, "eligible": array(text)}, {"rake": _chips})),
        "total_pot": _chips,
        "rake": _chips,
        "collected": array(members(_of_player, {"pot": text, "part": word(("hi", "lo"))})),
        "net": members({}),
        "notes": array(string),
        "tags": array(text),
        "checks": members({}),
    },
)
_STUD_STREETS: Final = only(
    {"third": array(_card, 3, 3), **dict.fromkeys(("fourth", "fifth", "sixth", "seventh"), array(_card, 1, 1))},
)
_DRAW_STREETS: Final = only(
    {
        "predraw": array(_card, 5, 5),
        "discard_count": whole(0, 5),
        "discarded": array(_card, 0, 5),
        "drawn": array(_card, 0, 5),
        "final": array(_card, 5, 5),
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
    game = recorded.GAMES[case["game"]]
    check_stakes(case["stakes"], game.form, Structure(case["structure"].replace("-", "_")))
    _check_players(case)
    stud = game.form is Form.SEVEN_CARD_STUD
    by_name(_STUD_STREETS if stud else _DRAW_STREETS)(case["cards"], "cards")
    by_name(whole(-MOST_CHIPS))(case.get("net", {}), "net")
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


def _check_players(case: Mapping[str, Any]) -> None:
    """Check that everybody who is named has one seat, and every seat one player."""
    for name in ("seat", "player"):
        values = [seat[name] for seat in case["seats"]]
        for index, value in enumerate(values):
            if value in values[:index]:
                raise ValueError(f"seats[{index}].{name}: {value!r} has a seat already")
    players = [seat["player"] for seat in case["seats"]]
    seated = word(players)
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
