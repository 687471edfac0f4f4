"""A hand of ours written down in the neutral form of recorded hands, so that `dealer.replay` can be held against it."""

from typing import Any

from dealer.actions import Act
from dealer.cards import NAMES
from dealer.events import Acted, CommunityCard, Dealt, Discarded, Mucked, Post, Posted, Returned, Shown, Won
from dealer.house_rules import Form
from dealer.state import Hand

POSTS = {
    Post.ANTE: "ante",
    Post.SMALL_BLIND: "small-blind",
    Post.BIG_BLIND: "big-blind",
    Post.LIVE_POST: "big-blind",
    Post.DEAD: "dead-blind",
}


def case_of(hand: Hand, game: str) -> dict[str, Any]:
    """Return a finished hand as a case; every card is known."""
    player = {seat: f"P{n}" for n, seat in enumerate(sorted(hand.seats), 1)}
    stakes = hand.stakes
    names = ("ante", "bring_in", "small_bet", "big_bet", "small_blind", "big_blind")
    posted = [event for event in hand.events if isinstance(event, Posted)]
    community = [NAMES[event.card] for event in hand.events if isinstance(event, CommunityCard)]
    return {
        "id": f"{game}-ours",
        "source": {"site": "ours"},
        "game": game,
        "structure": stakes.structure.value.replace("_", "-"),
        "unit": "chips",
        "stakes": {name: amount for name in names if (amount := getattr(stakes, name))},
        "button": hand.button or None,
        "seats": [
            {"seat": seat, "player": player[seat], "stack": stack}
            for seat, stack in sorted(zip(hand.seats, hand.start_stacks, strict=True))
        ],
        "not_dealt": [],
        "forced": [
            {"player": player[p.seat], "kind": POSTS[p.post], "amount": p.amount, "all_in": p.all_in} for p in posted
        ],
        "cards": {player[seat]: _cards(hand, seat) for seat in hand.seats},
        **({"community_card": community[0]} if community else {}),
        "actions": _actions(hand, player),
        "uncalled_returns": [
            {"player": player[event.seat], "amount": event.amount}
            for event in hand.events
            if isinstance(event, Returned)
        ],
        "showdown": [
            {
                "player": player[event.seat],
                "cards": [NAMES[card] for card in hand.cards(event.seat)],
                "how": "shown" if isinstance(event, Shown) else "mucked",
            }
            for event in hand.events
            if isinstance(event, Shown | Mucked) and len(hand.betting.inside) > 1
        ],
        "pots": [
            {"name": name, "total": total, "eligible": [player[seat] for seat in sorted(seats)], "rake": 0}
            for name, total, seats in hand.pots()
        ],
        "total_pot": sum(total for _, total, _ in hand.pots()),
        "rake": 0,
        "collected": [
            {"player": player[event.seat], "amount": event.amount, "pot": event.pot}
            for event in hand.events
            if isinstance(event, Won)
        ],
        "net": {player[seat]: net for seat, net in hand.net().items()},
        "notes": [],
        "tags": [],
        "checks": {},
    }


def _cards(hand: Hand, seat: int) -> dict[str, Any]:
    dealt = [event for event in hand.events if isinstance(event, Dealt) and event.seat == seat]
    if hand.rules.form is Form.SEVEN_CARD_STUD:
        streets: dict[str, Any] = {}
        for event in dealt:
            streets.setdefault(event.street, []).append(NAMES[event.card])
        return streets
    predraw = [NAMES[event.card] for event in dealt if event.street == "predraw"]
    threw = [event for event in hand.events if isinstance(event, Discarded) and event.seat == seat]
    if not threw:
        return {"predraw": predraw}
    return {
        "predraw": predraw,
        "discard_count": len(threw[0].cards),
        "discarded": [NAMES[card] for card in threw[0].cards],
        "drawn": [NAMES[event.card] for event in dealt if event.street == "draw"],
        "final": [NAMES[card] for card in hand.cards(seat)],
    }


def _actions(hand: Hand, player: dict[int, str]) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = []
    for event in hand.events:
        if isinstance(event, Discarded):
            kind = "discard" if event.cards else "stand-pat"
            entry = {"street": "draw", "player": player[event.seat], "action": kind, "count": len(event.cards)}
            actions.append({**entry, "cards": [NAMES[card] for card in event.cards]} if event.cards else entry)
        elif isinstance(event, Acted):
            word = event.act.value.replace("_", "-")
            entry = {"street": event.street, "player": player[event.seat], "action": word}
            if event.act not in (Act.FOLD, Act.CHECK):
                entry |= {"amount": event.adds, "to": event.to, "all_in": event.all_in}
            actions.append(entry)
    return actions
