"""A written history as text: the house's own, or a player's, with ``??`` for the cards that he may not see."""

from collections.abc import Iterator, Mapping
from typing import Any

from dealer.actions import Act
from dealer.cards import of_item
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
    Protected,
    Raked,
    Reshuffled,
    Returned,
    RoundOpened,
    Shown,
    Voided,
    Won,
)
from dealer.house_rules import HouseRules, Stakes, Structure
from dealer.show import HIDDEN, Telling, title
from dealer.stub import Location
from dealer.stud import Face


def text(written: Mapping[str, Any], rules: HouseRules) -> str:
    """Return a history as a card room tells it. Raises KeyError or ValueError if it is none."""
    stakes = Stakes(**{**written["stakes"], "structure": Structure(written["stakes"]["structure"])})
    players = {each["seat"]: each.get("name", f"seat {each['seat']}") for each in written["seats"]}
    telling = Telling(rules, players, button=written["button"])
    heading = title(rules, stakes)
    if "receipt" in written:
        heading += f" · hand {written['receipt']['seq']}"
    seats = telling.seats({each["seat"]: each["stack"] for each in written["seats"]})
    return "\n".join([heading, *seats, *telling.tell(_events(written))]) + "\n"


def _events(written: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of a history as the engine's records."""
    at: dict[Location, int] = {}
    for event in written["events"]:
        cards = []
        for move in event.get("cards", ()):
            card = of_item(move["item"], written["deck_size"]) if "item" in move else HIDDEN
            at[Location(move["k"], move["p"])] = card
            cards.append(card)
        yield _event(event, tuple(cards), at)


def _event(  # noqa: C901, PLR0912  (one arm for each kind of event)
    event: Mapping[str, Any], cards: tuple[int, ...], at: Mapping[Location, int]
) -> Event:
    seat, street, amount = event.get("seat", 0), event.get("street", ""), event.get("amount", 0)
    k, p = (event["cards"][0]["k"], event["cards"][0]["p"]) if cards else (0, 0)
    match event["event"]:
        case "posted":
            return Posted(seat, Post(event["post"]), amount, event["all_in"])
        case "dealt":
            return Dealt(street, seat, Face(event["face"]), k, p, cards[0])
        case "burned":
            return Burned(street, k, p)
        case "community_card":
            return CommunityCard(street, k, p, cards[0])
        case "reshuffled":
            return Reshuffled(event["shuffle"], tuple(Location(*each) for each in event["locations"]))
        case "round_opened":
            return RoundOpened(street, event["first"])
        case "acted":
            chips = (event.get("adds", 0), event.get("to", 0), event.get("all_in", False))
            return Acted(street, seat, Act(event["act"]), *chips)
        case "fold_kept":
            return FoldKept(seat)
        case "protected":
            return Protected(seat)
        case "discarded":
            named = tuple(Location(*each) for each in event.get("discards", ()))
            return Discarded(seat, tuple(at[each] for each in named) or (HIDDEN,) * event["count"], named)
        case "returned":
            return Returned(seat, amount)
        case "shown":
            return Shown(seat, cards)
        case "mucked":
            return Mucked(seat)
        case "raked":
            return Raked(event["pot"], amount)
        case "won":
            return Won(seat, event["pot"], event.get("side", ""), amount)
        case "voided":
            return Voided(event["reason"])
        case other:
            raise ValueError(f"events: {other!r} is no event of a hand")
