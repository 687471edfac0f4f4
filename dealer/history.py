"""A hand's history as JSON, cut to what its reader may see, and the hand played again from it.

An event that moves cards has ``cards`` and one that seals a shuffle has ``shuffle``, in the form that a receipt's
verifier reads (`rngsvc.protocol`); everything else in it is the game's. A full history replays to the same bytes.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from dealer.actions import Act, Action, IllegalAction
from dealer.cards import item_of, of_item
from dealer.events import (
    Acted,
    Burned,
    CommunityCard,
    Dealt,
    Discarded,
    Event,
    FoldKept,
    Mucked,
    Post,
    Posted,
    Posting,
    Protected,
    Raked,
    Reshuffled,
    Returned,
    RoundOpened,
    Shown,
    Voided,
    Won,
)
from dealer.hand import WrongCards, apply, protect, reshuffled, start, supply, void
from dealer.house_rules import HouseRules, Stakes, Structure
from dealer.state import Hand, NeedCards
from dealer.stub import Location
from dealer.stud import Face


class Reader(Enum):
    """A reader who holds no seat: the house's own record, which has everything, or a bystander."""

    HOUSE = "house"
    BYSTANDER = "bystander"


Viewer = Reader | int

_AMOUNTS: Final = ("ante", "bring_in", "small_bet", "big_bet", "small_blind", "big_blind", "buy_in")


def history(
    hand: Hand, viewer: Viewer, *, names: Mapping[int, str] | None = None, receipt: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the history of a hand as ``viewer``, a seat or a `Reader`, may see it now.

    Once a hand is over, a player sees every hand that reached the showdown, mucked ones too; never folded cards nor an
    uncalled winner's (CC-15).
    """
    return {
        **({"receipt": receipt} if receipt is not None else {}),
        "game": hand.rules.name,
        "stakes": {
            "name": hand.stakes.name,
            "structure": hand.stakes.structure.value,
            **{name: amount for name in _AMOUNTS if (amount := getattr(hand.stakes, name))},
        },
        "button": hand.button,
        "deck_size": hand.deck_size,
        "seats": [
            {"seat": seat, "stack": stack, **({"name": names[seat]} if names and seat in names else {})}
            for seat, stack in zip(hand.seats, hand.start_stacks, strict=True)
        ],
        "posts": [{"seat": p.seat, "post": p.post.value, "amount": p.amount} for p in hand.posts],
        "events": visible_events(hand, viewer),
        **({"net": {str(seat): net for seat, net in hand.net().items()}} if hand.over else {}),
    }


def visible_events(hand: Hand, viewer: Viewer, since: int = 0) -> list[dict[str, Any]]:
    """Return the events from number ``since`` on as JSON objects, without what ``viewer`` may not see."""
    open_to_him = open_locations(hand, viewer)
    return [
        _written(event, hand, open_to_him, viewer)
        for event in hand.events[since:]
        if not isinstance(event, FoldKept) or viewer in (Reader.HOUSE, event.seat)
    ]


def open_locations(hand: Hand, viewer: Viewer) -> set[Location] | None:
    """Return the locations whose cards the viewer may see; None for all.

    By location, not by card: a discard that is shuffled and dealt again is another player's secret or showing. An
    opening that is handed to the viewer must be of one of these.
    """
    if viewer is Reader.HOUSE:
        return None
    seen: set[Location] = set()
    for event in hand.events:
        match event:
            case Dealt(_, seat, face, k, p, _):
                if seat == viewer or face is Face.UP:
                    seen.add(Location(k, p))
            case CommunityCard(_, k, p, _):
                seen.add(Location(k, p))
            case Shown(_, cards):
                seen.update(hand.where[card] for card in cards)
            case _:
                pass
    if hand.over and hand.settlement is not None and viewer in hand.seats and len(hand.betting.inside) > 1:
        for i in hand.betting.inside:
            seen.update(hand.where[card] for card in hand.down[i])
    return seen


def _written(  # noqa: C901, PLR0912  # one arm for each kind of event
    event: Event, hand: Hand, seen: set[Location] | None, viewer: Viewer
) -> dict[str, Any]:
    def moved(how: str, k: int, p: int, card: int | None) -> dict[str, Any]:
        shown = card is not None and (seen is None or Location(k, p) in seen)
        item = {"item": item_of(card, hand.deck_size)} if card is not None and shown else {}
        return {"how": how, "k": k, "p": p, **item}

    match event:
        case Posted(seat, post, amount, all_in):
            return {"event": "posted", "seat": seat, "post": post.value, "amount": amount, "all_in": all_in}
        case Reshuffled(k, locations):
            return {"event": "reshuffled", "shuffle": k, "locations": [list(location) for location in locations]}
        case Dealt(street, seat, face, k, p, card):
            # The deck's first card tells that its shuffle was sealed before.
            sealed = {"shuffle": 0} if k == p == 0 else {}
            cards = [moved("dealt", k, p, card)]
            return {"event": "dealt", **sealed, "street": street, "seat": seat, "face": face.value, "cards": cards}
        case Burned(street, k, p):
            return {"event": "burned", "street": street, "cards": [moved("burnt", k, p, None)]}
        case CommunityCard(street, k, p, card):
            return {"event": "community_card", "street": street, "cards": [moved("dealt", k, p, card)]}
        case RoundOpened(street, first):
            return {"event": "round_opened", "street": street, "first": first}
        case Acted(street, seat, act, adds, to, all_in):
            chips = {"adds": adds, "to": to, "all_in": all_in} if adds else {}
            return {"event": "acted", "street": street, "seat": seat, "act": act.value, **chips}
        case FoldKept(seat):
            return {"event": "fold_kept", "seat": seat}
        case Protected(seat):
            return {"event": "protected", "seat": seat}
        case Discarded(seat, cards, locations):
            own = seen is None or seat == viewer
            named = {"discards": [[*location] for location in locations]} if own and locations else {}
            return {"event": "discarded", "seat": seat, "count": len(cards), **named}
        case Returned(seat, amount):
            return {"event": "returned", "seat": seat, "amount": amount}
        case Shown(seat, cards):
            shown = [moved("shown", *hand.where[card], card) for card in cards]
            return {"event": "shown", "seat": seat, "cards": shown}
        case Mucked(seat):
            return {"event": "mucked", "seat": seat}
        case Raked(pot, amount):
            return {"event": "raked", "pot": pot, "amount": amount}
        case Won(seat, pot, side, amount):
            return {"event": "won", "seat": seat, "pot": pot, **({"side": side} if side else {}), "amount": amount}
        case Voided(reason):
            return {"event": "voided", "reason": reason}


# --- played again


def replay(written: Mapping[str, Any], rules: HouseRules) -> Hand:
    """Play a full history again under its game's rules and return the hand.

    `ValueError` if the history is not what these rules make of its cards and acts, with the first event that differs.
    """
    events = written["events"]
    hand = started(written, rules)
    while len(hand.events) < len(events):
        number = len(hand.events)
        try:
            hand = next_of(hand, events[number:])
        except (IllegalAction, WrongCards) as refused:
            raise ValueError(f"events[{number}]: {refused}") from refused
    again = visible_events(hand, Reader.HOUSE)
    for number, (event, made) in enumerate(zip(events, again, strict=False)):
        if event != made:
            raise ValueError(f"events[{number}]: the history has {event}, the rules make {made}")
    if len(again) != len(events):
        raise ValueError(f"events: the rules go on with {again[len(events)]}")
    return hand


def started(written: Mapping[str, Any], rules: HouseRules) -> Hand:
    """Return the hand of a history before its first event but the posts; `ValueError` if it cannot begin so."""
    stakes = {**written["stakes"], "structure": Structure(written["stakes"]["structure"])}
    return start(
        rules,
        Stakes(**stakes),
        [(entry["seat"], entry["stack"]) for entry in written["seats"]],
        button=written["button"],
        posts=[Posting(post["seat"], Post(post["post"]), post["amount"]) for post in written["posts"]],
    )


def next_of(hand: Hand, events: Sequence[Mapping[str, Any]]) -> Hand:
    """Give the hand what the first of ``events`` says that it was given; what follows from that follows by itself."""
    event = events[0]
    match event["event"]:
        case "fold_kept":
            return apply(hand, Action(event["seat"], Act.FOLD))
        case "voided":
            return void(hand, event["reason"])
        case "protected":
            return protect(hand, event["seat"])
        case "reshuffled":
            return reshuffled(hand)
        case "acted":
            return apply(hand, Action(event["seat"], Act(event["act"]), event.get("to")))
        case "discarded":
            i = hand.position[event["seat"]]
            at = {hand.where[card]: card for card in hand.down[i]}
            named = [Location(k, p) for k, p in event.get("discards", ())]
            if not at.keys() >= set(named):
                raise ValueError(
                    f"events[{len(hand.events)}].discards: names cards that seat {event['seat']} does not hold"
                )
            cards = tuple(at[location] for location in named)
            return apply(hand, Action(event["seat"], Act.DISCARD if cards else Act.STAND_PAT, cards=cards))
        case "shown" | "mucked" as kind:
            return apply(hand, Action(event["seat"], Act.SHOW if kind == "shown" else Act.MUCK))
        case "dealt" | "burned" | "community_card" if isinstance(hand.awaits, NeedCards):
            if len(events) < len(hand.awaits.places):
                raise ValueError(f"events: the history ends in a deal, {len(hand.awaits.places)} places were due")
            moves = [event["cards"][0] for event in events[: len(hand.awaits.places)] if "cards" in event]
            if any(move["how"] == "dealt" and "item" not in move for move in moves):
                raise ValueError(f"events[{len(hand.events)}]: only the house's own history has every card")
            return supply(hand, [of_item(move["item"], hand.deck_size) for move in moves if move["how"] == "dealt"])
        case other:
            raise ValueError(f"events[{len(hand.events)}]: {other} follows from nothing")
