"""A reader's history played again by the rules: who was asked, what he could do, who won, every chip.

Cards that the reader could not see are replaced by others that fit. Nothing that he saw depends on them, except who
won where a bystander does not see all hands of the showdown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dealer.actions import Act, Action, IllegalAction
from dealer.hand import WrongCards, apply
from dealer.history import Reader, next_of, started, visible_events
from dealer.house_rules import HouseRules
from dealer.state import Hand
from dealer.stub import Location


class Undecided(Exception):
    """The history does not show all the hands that decide who won."""


def check(written: Mapping[str, Any], rules: HouseRules) -> Hand:
    """Play any reader's history again under its game's rules and return the hand, some of its cards stood in for.

    `ValueError` if the rules make something else of its acts and of the cards that it shows, with the first event that
    differs; `Undecided` if it does not show what decides.
    """
    events = written["events"]
    seen = dict(_seen(events))
    items = _fitting(events, seen, written["deck_size"])
    hand = before = started(written, rules)
    kept: set[int] = set()  # who folded out of turn, which shows only when the fold is carried out
    while True:
        made = [
            event
            for event in visible_events(hand, Reader.HOUSE)
            if event["event"] != "fold_kept" or event["seat"] not in kept
        ]
        number = next((at for at, pair in enumerate(zip(events, made, strict=False)) if not _agree(*pair)), len(made))
        if number < len(made):
            folded = _folded(events, number)
            if rules.fold_out_of_turn and folded is not None and folded not in kept:
                kept.add(folded)
                hand = _next(before, number, partial(apply, action=Action(folded, Act.FOLD)))
                continue
            hidden = _hidden_at_showdown(hand, seen)
            if hidden and made[number]["event"] in {"won", "raked", "shown"}:
                raise Undecided(f"events[{number}]: depends on cards of seats {hidden} that the history does not show")
            if number == len(events):
                then = _without_items(made[number])
                raise ValueError(f"events: it ends before the hand is over, the rules go on with {then}")
            has = events[number]
            raise ValueError(f"events[{number}]: the history has {has}, the rules make {_without_items(made[number])}")
        if number >= len(events):
            break
        coming = [_filled(event, hand, items, seen, events) for event in events[number:]]
        before, hand = hand, _next(hand, number, partial(next_of, events=coming))
    net = {str(seat): each for seat, each in hand.net().items()} if hand.over else None
    if net is None and "net" in written:
        raise ValueError(f"events: it ends before the hand is over, with {len(events)} events")
    if net is not None and "net" not in written:
        raise ValueError(f"net: is missing, the rules make {net}")
    if written.get("net") != net:
        raise ValueError(f"net: the history has {written['net']}, the rules make {net}")
    return hand


def _next(hand: Hand, number: int, step: Callable[[Hand], Hand]) -> Hand:
    """Return the hand after ``step``; `ValueError` that names event ``number`` if the rules refuse it."""
    try:
        return step(hand)
    except (IllegalAction, WrongCards) as refused:
        raise ValueError(f"events[{number}]: {refused}") from refused


def _folded(events: Sequence[Mapping[str, Any]], number: int) -> int | None:
    """Return the seat that folds in event ``number``, None if it is no fold."""
    event = events[number] if number < len(events) else {}
    return event["seat"] if event.get("event") == "acted" and event.get("act") == "fold" else None


def _moves(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    for event in events:
        for move in event.get("cards", ()):
            yield Location(move["k"], move["p"]), move


def _seen(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Location, int]]:
    """Give the items that the history shows, by where they lay."""
    for location, move in _moves(events):
        if "item" in move:
            yield location, move["item"]


def _hidden_at_showdown(hand: Hand, seen: Mapping[Location, int]) -> list[int]:
    """Return the seats that came to the showdown with cards that the history does not show."""
    inside = hand.betting.inside if len(hand.betting.inside) > 1 else ()
    return [hand.seats[i] for i in inside if any(hand.where[card] not in seen for card in hand.down[i])]


def _fitting(events: Sequence[Mapping[str, Any]], seen: Mapping[Location, int], deck_size: int) -> dict[Location, int]:
    """Return an item for every location of every shuffle: what was seen, and what may have lain at the others."""
    shuffles = {0: [Location(0, p) for p in range(deck_size)]}
    inputs = {
        event["shuffle"]: [Location(*each) for each in event["locations"]]
        for event in events
        if event["event"] == "reshuffled"
    }
    shuffles |= {k: [Location(k, p) for p in range(len(locations))] for k, locations in inputs.items()}
    items = dict(seen)
    # What was seen of a reshuffle lay among its inputs before, at one of those that were not seen.
    for k in sorted(inputs, reverse=True):
        of_k = {items[location] for location in shuffles[k] if location in items}
        unseen = [location for location in inputs[k] if location not in items]
        came = of_k - {items[location] for location in inputs[k] if location in items}
        if len(came) > len(unseen):
            raise ValueError(f"events: shuffle {k} shows items that were not shuffled into it: {sorted(came)}")
        items.update(zip(unseen, sorted(came), strict=False))
    for k in sorted(shuffles):
        pool = {items[location] for location in inputs[k]} if k else set(range(deck_size))
        rest = sorted(pool - {items[location] for location in shuffles[k] if location in items})
        items.update(zip((location for location in shuffles[k] if location not in items), rest, strict=False))
    return items


def _filled(
    event: Mapping[str, Any],
    hand: Hand,
    items: Mapping[Location, int],
    seen: Mapping[Location, int],
    events: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the event with a card wherever one was dealt, and with the locations of what was discarded."""
    filled = dict(event)
    if event["event"] == "dealt" or event["event"] == "community_card":
        filled["cards"] = [{**move, "item": items[Location(move["k"], move["p"])]} for move in event["cards"]]
    if event["event"] == "discarded" and event["count"] and "discards" not in event:
        shuffled = {
            Location(*each) for other in events if other["event"] == "reshuffled" for each in other["locations"]
        }
        held = [hand.where[card] for card in hand.down[hand.position[event["seat"]]]]
        # A card that was seen was kept; one that was shuffled in again was not.
        held.sort(key=lambda location: (location in seen, location not in shuffled))
        filled["discards"] = [[*location] for location in held[: event["count"]]]
    return filled


def _agree(written: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    """Say whether an event is the one that the rules made, what its reader could not see left aside."""
    if "discards" not in written:
        made = {name: value for name, value in made.items() if name != "discards"}
    if len(written.get("cards", ())) != len(made.get("cards", ())):
        return False
    cards = [
        move if "item" in shown else {name: value for name, value in move.items() if name != "item"}
        for shown, move in zip(written.get("cards", ()), made.get("cards", ()), strict=True)
    ]
    return written == {**made, **({"cards": cards} if "cards" in made else {})}


def _without_items(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as it may be told: a card in it may be one that only stood in."""
    cards = [{name: value for name, value in move.items() if name != "item"} for move in made.get("cards", ())]
    told = {name: value for name, value in made.items() if name not in {"cards", "discards"}}
    return {**told, **({"cards": cards} if cards else {})}
