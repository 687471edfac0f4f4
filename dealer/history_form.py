"""A hand's history as JSON, as it comes from outside: what each of its members must be.

`read_history` checks every member once, here at the edge, and names the first that is wrong. Whether the hand was
played by the rules of its game is another question (`dealer.history_check`). But each card comes from a place of its
own, and no seat shows or throws what it does not hold: whoever tells the hand may rely on that.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from dealer import draw, stud
from dealer.actions import Act
from dealer.events import Post
from dealer.house_rules import Form, HouseRules, Structure
from dealer.json_form import (
    MOST_CHIPS,
    MOST_SEAT,
    Check,
    array,
    check_stakes,
    exactly,
    flag,
    members,
    only,
    string,
    text,
    whole,
    word,
)
from dealer.rooms import GAMES
from dealer.stud import Face

_MOST_EVENTS: Final = 100_000
_MOST_SHUFFLES: Final = 99
_chips: Final = whole(0)
_seat: Final = whole(1, MOST_SEAT)
_shuffle: Final = whole(0, _MOST_SHUFFLES)
_place: Final = whole(0, 51)
_AMOUNTS: Final = ("ante", "bring_in", "small_bet", "big_bet", "small_blind", "big_blind", "buy_in")
_BETTING: Final = (Act.FOLD, Act.CHECK, Act.CALL, Act.BRING_IN, Act.COMPLETE, Act.BET, Act.RAISE)
_street: Final = word((*(street.name for street in (*stud.STREETS, *draw.STREETS)), draw.DRAW))
_post: Final = word(tuple(post.value for post in Post))


def _location(value: object, at: str) -> None:
    array(whole(0, _MOST_SHUFFLES), 2, 2)(value, at)


def _reason(value: object, at: str) -> None:
    """Check words of another program: of several lines perhaps, but nothing that a terminal obeys."""
    string(value, at)
    if not cast("str", value).replace("\n", " ").replace("\t", " ").isprintable():
        raise ValueError(f"{at}: must be a string of printable characters")


def _moved(how: str, *, seen: bool | None = None) -> Check:
    """Return the check of a moved card; ``seen``: whether it is shown, None for either."""
    needed = {"how": word((how,)), "k": _shuffle, "p": _place}
    item = {"item": _place}
    return exactly(needed | item if seen else needed, item if seen is None else {})


_one_card: Final = array(_moved("dealt"), 1, 1)
_EVENTS: Final[Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]]] = {
    "posted": ({"seat": _seat, "post": _post, "amount": _chips, "all_in": flag}, {}),
    "reshuffled": ({"shuffle": whole(1, _MOST_SHUFFLES), "locations": array(_location, 1, 52)}, {}),
    "dealt": (
        {"street": _street, "seat": _seat, "face": word((Face.DOWN.value, Face.UP.value)), "cards": _one_card},
        {"shuffle": whole(0, 0)},
    ),
    "burned": ({"street": _street, "cards": array(_moved("burnt", seen=False), 1, 1)}, {}),
    "community_card": ({"street": _street, "cards": _one_card}, {}),
    "round_opened": ({"street": _street, "first": _seat}, {}),
    "acted": (
        {"street": _street, "seat": _seat, "act": word(_BETTING)},
        {"adds": _chips, "to": _chips, "all_in": flag},
    ),
    "fold_kept": ({"seat": _seat}, {}),
    "protected": ({"seat": _seat}, {}),
    "discarded": ({"seat": _seat, "count": whole(0, 5)}, {"discards": array(_location, 1, 5)}),
    "returned": ({"seat": _seat, "amount": _chips}, {}),
    "shown": ({"seat": _seat, "cards": array(_moved("shown", seen=True), 1, 7)}, {}),
    "mucked": ({"seat": _seat}, {}),
    "raked": ({"pot": text, "amount": _chips}, {}),
    "won": ({"seat": _seat, "pot": text, "amount": _chips}, {"side": text}),
    "voided": ({"reason": _reason}, {}),
}


def _event(value: object, at: str) -> None:
    members({"event": word(tuple(_EVENTS))})(value, at)
    event = cast("Mapping[str, Any]", value)
    needed, optional = _EVENTS[event["event"]]
    exactly({"event": string, **needed}, optional)(value, at)


_HISTORY: Final = members(
    {
        "game": word(tuple(GAMES)),
        "stakes": only(
            {
                "name": text,
                "structure": word(tuple(structure.value for structure in Structure)),
                **dict.fromkeys(_AMOUNTS, _chips),
            }
        ),
        "button": whole(0, MOST_SEAT),
        "deck_size": whole(32, 52),
        "seats": array(members({"seat": _seat, "stack": whole(1)}, {"name": text})),
        "posts": array(members({"seat": _seat, "post": _post, "amount": _chips})),
        "events": array(_event, 0, _MOST_EVENTS),
    },
    {"receipt": members({"seq": whole(0)}), "net": members({})},
)


def read_history(document: bytes | str) -> tuple[dict[str, Any], HouseRules]:
    """Return the history that a file holds, and the rules of its game; ValueError names the first wrong member."""
    try:
        written = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be JSON: {error}") from error
    _HISTORY(written, "history")
    rules = GAMES[written["game"]]
    for name in ("name", "structure"):
        members({name: string})(written["stakes"], "stakes")
    check_stakes(written["stakes"], rules.form, Structure(written["stakes"]["structure"]))
    _check_seats(written, rules)
    _check_cards(written, rules)
    return cast("dict[str, Any]", written), rules


def _check_seats(written: Mapping[str, Any], rules: HouseRules) -> None:
    """Check that the house deals to so many, from so many cards, and that whoever is named sits there."""
    seats = [each["seat"] for each in written["seats"]]
    if not rules.fewest_players <= len(seats) <= rules.most_players:
        raise ValueError(f"seats: must be an array of {rules.fewest_players}..{rules.most_players} elements")
    for index, seat in enumerate(seats):
        if seat in seats[:index]:
            raise ValueError(f"seats[{index}].seat: {seat} is named twice")
    if written["deck_size"] != rules.deck_size(len(seats)):
        raise ValueError(f"deck_size: must be {rules.deck_size(len(seats))}, for {len(seats)} players")
    for name in ("posts", "events"):
        for index, entry in enumerate(written[name]):
            for member in ("seat", "first"):
                if member in entry and entry[member] not in seats:
                    raise ValueError(f"{name}[{index}].{member}: nobody sits at {entry[member]}")
    if "net" in written:
        exactly(dict.fromkeys(map(str, seats), whole(-MOST_CHIPS)))(written["net"], "net")


def _check_cards(written: Mapping[str, Any], rules: HouseRules) -> None:
    """Check that every card comes from a place of its own, and that each seat shows and throws what it holds."""
    table = _Felt(written["deck_size"], 7 if rules.form is Form.SEVEN_CARD_STUD else 5)
    for number, event in enumerate(written["events"]):
        table.see(event, f"events[{number}]")


class _Felt:
    """Where each card lies, as far as the history has told."""

    def __init__(self, deck_size: int, most_cards: int) -> None:
        self._deck_size = deck_size
        self._most_cards = most_cards
        self._sizes = {0: deck_size}
        self._items: dict[tuple[int, int], int | None] = {}
        self._held: dict[int, dict[tuple[int, int], str]] = {}

    def see(self, event: Mapping[str, Any], at: str) -> None:
        """Take the next event; ValueError if it cannot be."""
        match event["event"]:
            case "reshuffled":
                self._reshuffle(event["shuffle"], event["locations"], at)
            case "dealt":
                location = self._take(event["cards"][0], f"{at}.cards[0]")
                held = self._held.setdefault(event["seat"], {})
                held[location] = event["face"]
                if len(held) > self._most_cards:
                    raise ValueError(f"{at}.seat: has {self._most_cards} cards already")
            case "burned":
                self._take(event["cards"][0], f"{at}.cards[0]")
            case "community_card":
                self._take(event["cards"][0], f"{at}.cards[0]")
                self._most_cards -= 1
                if self._most_cards < 6 or any(len(held) > self._most_cards for held in self._held.values()):
                    raise ValueError(f"{at}: comes instead of a seventh card for everybody")
            case "discarded":
                self._discard(event, at)
            case "shown":
                self._show(event["seat"], event["cards"], f"{at}.cards")
            case _:
                pass

    def _reshuffle(self, k: int, locations: Sequence[Sequence[int]], at: str) -> None:
        if k != len(self._sizes):
            raise ValueError(f"{at}.shuffle: must be {len(self._sizes)}")
        for index, (before, p) in enumerate(locations):
            if p >= self._sizes.get(before, 0) or [before, p] in locations[:index]:
                raise ValueError(f"{at}.locations[{index}]: must be a place of a shuffle before it, named once")
        self._sizes[k] = len(locations)

    def _take(self, move: Mapping[str, Any], at: str) -> tuple[int, int]:
        """Take a card from its place."""
        location = move["k"], move["p"]
        if move["p"] >= self._sizes.get(move["k"], 0):
            raise ValueError(f"{at}.p: must be a place of shuffle {move['k']}")
        if location in self._items:
            raise ValueError(f"{at}.p: that card lies elsewhere by now")
        item = move.get("item")
        self._check_item(move["k"], item, at)
        self._items[location] = item
        return location

    def _check_item(self, k: int, item: int | None, at: str) -> None:
        if item is None:
            return
        if item >= self._deck_size:
            raise ValueError(f"{at}.item: must be an integer 0..{self._deck_size - 1}")
        if any(known == item and shuffle == k for (shuffle, _), known in self._items.items()):
            raise ValueError(f"{at}.item: lies elsewhere by now")

    def _discard(self, event: Mapping[str, Any], at: str) -> None:
        held = self._held.get(event["seat"], {})
        down = [location for location, face in held.items() if face == Face.DOWN.value]
        named = [tuple(each) for each in event.get("discards", ())]
        if named and len(named) != event["count"]:
            raise ValueError(f"{at}.discards: must be {event['count']}, as many as are counted")
        for index, location in enumerate(named):
            if location not in down or location in named[:index]:
                raise ValueError(f"{at}.discards[{index}]: must be a card that the seat holds, named once")
        hidden = [location for location in down if self._items[location] is None]
        if not named and event["count"] > len(hidden):
            raise ValueError(f"{at}.count: must be at most {len(hidden)}, the hidden cards of the seat")
        for location in named or hidden[: event["count"]]:
            del held[cast("tuple[int, int]", location)]

    def _show(self, seat: int, moves: Sequence[Mapping[str, Any]], at: str) -> None:
        held = self._held.get(seat, {})
        for index, move in enumerate(moves):
            location = move["k"], move["p"]
            if location not in held or location in [(each["k"], each["p"]) for each in moves[:index]]:
                raise ValueError(f"{at}[{index}]: must be a card that the seat holds, named once")
            if self._items[location] is None:
                self._check_item(move["k"], move["item"], f"{at}[{index}]")
                self._items[location] = move["item"]
            if self._items[location] != move["item"]:
                raise ValueError(f"{at}[{index}].item: must be {self._items[location]}, as it was dealt")
