"""A hand told as a card room tells it: one line an event, cards on the street they fall, money in whole units.

Whoever looks sees his own cards: ``viewer`` is a seat, or None for the house's view of everything. The text is plain.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from dealer.actions import Act
from dealer.cards import NAMES
from dealer.events import (
    Acted,
    Burned,
    CommunityCard,
    Dealt,
    Discarded,
    Event,
    FoldKept,
    Mucked,
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
from dealer.house_rules import Form, HouseRules, Stakes
from dealer.ranking_words import in_words
from dealer.stud import Face

STREETS = {
    "third": "Third street",
    "fourth": "Fourth street",
    "fifth": "Fifth street",
    "sixth": "Sixth street",
    "seventh": "Seventh street",
    "predraw": "Before the draw",
    "postdraw": "After the draw",
}


HIDDEN: Final = -1
"""Stands in an event for a card that its reader may not see."""


def _names(cards: Iterable[int]) -> str:
    return " ".join("??" if card == HIDDEN else NAMES[card] for card in cards)


def money(cents: int) -> str:
    """Return an amount of cents as the felt shows it: 50 is 0.50, 200 is 2."""
    return str(cents // 100) if cents % 100 == 0 else f"{cents // 100}.{cents % 100:02d}"


def title(rules: HouseRules, stakes: Stakes) -> str:
    """Return the sign over the table."""
    return f"{rules.title} · {stakes.name}"


class Telling:
    """Tells the events of one hand in order; `tell` gives the lines of those that are new."""

    def __init__(
        self, rules: HouseRules, players: Mapping[int, str], *, viewer: int | None = None, button: int = 0
    ) -> None:
        self._rules = rules
        self._rankings = rules.rankings(rules.deck_size(len(players)))
        self._community: tuple[int, ...] = ()
        self._players = players
        self._viewer = viewer
        self._button = button
        self._pot = 0
        self._street = ""
        self._hands: dict[int, list[tuple[Face, str]]] = {seat: [] for seat in players}
        self._in = set(players)
        self._width = max(len(name) for name in players.values())

    def seats(self, stacks: Mapping[int, int]) -> list[str]:
        """Return who sits where with how much."""
        return [
            f"  seat {seat}  {self._players[seat]:<{self._width}}  {money(stack):>8}"
            + ("  button" if seat == self._button else "")
            for seat, stack in stacks.items()
        ]

    def tell(self, events: Iterable[Event]) -> list[str]:
        """Return the lines of the next events."""
        lines: list[str] = []
        for kind, run in groupby(events, type):
            if kind is Posted:
                lines += self._posted([event for event in run if isinstance(event, Posted)])
            elif kind in {Dealt, Burned}:
                lines += self._dealt([event for event in run if isinstance(event, Dealt | Burned)])
            else:
                for event in run:
                    lines += self._tell_one(event)
        return lines

    def _name(self, seat: int) -> str:
        return f"{self._players[seat]:<{self._width}}"

    # --- Money before the deal ---

    def _posted(self, run: list[Posted]) -> list[str]:
        lines = []
        for (post, amount, all_in), same in groupby(run, lambda each: (each.post, each.amount, each.all_in)):
            posts = list(same)
            self._pot += amount * len(posts)
            what = f"{post.value.replace('_', ' ')} {money(amount)}{' and is all-in' if all_in else ''}"
            who = "everybody" if len(posts) == len(self._players) > 1 else self._list(each.seat for each in posts)
            lines.append(f"  {who}: {what}")
        return lines

    def _list(self, seats: Iterable[int]) -> str:
        return ", ".join(self._players[seat] for seat in seats)

    # --- Cards ---

    def _dealt(self, run: list[Dealt | Burned]) -> list[str]:
        street = run[0].street
        lines = [] if street == self._street else self._heading(street)
        burns = sum(isinstance(event, Burned) for event in run)
        fresh: dict[int, int] = {}
        for event in run:
            if isinstance(event, Dealt):
                self._hands[event.seat].append((event.face, _names([event.card])))
                fresh[event.seat] = fresh.get(event.seat, 0) + 1
        if burns:
            lines.append("  burn")
        lines += [f"  {self._name(seat)}  {self._layout(seat, count)}" for seat, count in fresh.items()]
        return lines

    def _heading(self, street: str) -> list[str]:
        self._street = street
        name = STREETS.get(street, street.replace("_", " ").capitalize())
        return [f"─── {name} " + "─" * (30 - len(name)) + f" pot {money(self._pot)}"]

    def _layout(self, seat: int, fresh: int) -> str:
        """Return a seat's cards, face-down ones in brackets; the ``fresh`` newest ones stand last."""
        cards = self._hands[seat]
        seen = self._viewer in (None, seat)
        down = [name if seen else "??" for face, name in cards if face is Face.DOWN]
        up = [name for face, name in cards if face is Face.UP]
        if self._rules.form is Form.FIVE_CARD_DRAW and fresh < len(cards):
            kept, new = down[:-fresh], down[-fresh:]
            return f"({' '.join(kept)} + {' '.join(new)})" if kept else f"({' '.join(new)})"
        # Seventh street's card goes to the right of the upcards, as it lies on the felt.
        last = down[2:] if up else []
        layout = " ".join([f"({' '.join(down[:2] if up else down)})", *up])
        return f"{layout} ({' '.join(last)})" if last else layout

    # --- The rest ---

    def _tell_one(self, event: Event) -> list[str]:
        match event:
            case RoundOpened(street=street):
                return [] if street == self._street else self._heading(street)
            case Acted():
                return self._acted(event)
            case CommunityCard(card=card):
                self._community = (card,)
                return [f"  one card for everybody: {NAMES[card]}"]
            case Reshuffled(locations=locations):
                return [f"  {len(locations)} cards are shuffled again by the shuffle service"]
            case FoldKept(seat=seat):
                return [f"  {self._name(seat)}  folds out of turn"] if self._viewer in (None, seat) else []
            case Protected(seat=seat):
                return [f"  {self._name(seat)}  is out of time: all-in for what is in the pot"]
            case Discarded():
                return self._discarded(event)
            case _:
                return self._ended(event)

    def _acted(self, event: Acted) -> list[str]:
        self._pot += event.adds
        doing = {
            Act.FOLD: "folds",
            Act.CHECK: "checks",
            Act.CALL: f"calls {money(event.adds)}",
            Act.BRING_IN: f"brings in for {money(event.to)}",
            Act.COMPLETE: f"completes to {money(event.to)}",
            Act.BET: f"bets {money(event.to)}",
            Act.RAISE: f"raises to {money(event.to)}",
            Act.STAND_PAT: "stands pat",
        }[event.act]
        return [f"  {self._name(event.seat)}  {doing}{' and is all-in' if event.all_in else ''}"]

    def _discarded(self, event: Discarded) -> list[str]:
        lines = [] if self._street == "draw" else self._heading("draw")
        if not event.cards:
            return [*lines, f"  {self._name(event.seat)}  stands pat"]
        for card in event.cards:
            self._hands[event.seat].remove((Face.DOWN, _names([card])))
        seen = f": {_names(event.cards)}" if self._viewer in (None, event.seat) and HIDDEN not in event.cards else ""
        count = len(event.cards)
        return [*lines, f"  {self._name(event.seat)}  draws {count}{seen}"]

    def _ended(self, event: Event) -> list[str]:
        match event:
            case Returned(seat=seat, amount=amount):
                self._pot -= amount
                return [f"  {self._name(seat)}  takes back {money(amount)} that nobody called"]
            case Shown(seat=seat, cards=cards):
                return [*self._showdown(), f"  {self._name(seat)}  shows {_names(cards)}{self._value(cards)}"]
            case Mucked(seat=seat):
                return [f"  {self._name(seat)}  does not show"]
            case Raked(pot=pot, amount=amount):
                return [f"  the house takes {money(amount)} of the {pot} pot"]
            case Won(seat=seat, pot=pot, side=side, amount=amount):
                which = f"the {pot} pot" if "pot" not in pot else f"the {pot}"
                return [
                    *self._showdown(),
                    f"  {self._name(seat)}  wins {money(amount)} of {which}{f', {side}' if side else ''}",
                ]
            case Voided(reason=reason):
                return [f"  the hand is void, every chip goes back: {reason}"]
            case _:
                raise AssertionError(f"an event without words: {event}")

    def _value(self, cards: tuple[int, ...]) -> str:
        """Return the hand in words; nothing for a winner who shows less than a hand."""
        seven = (*cards, *self._community)
        words = [in_words(ranking, seven) for ranking in self._rankings] if len(seven) >= 5 else []
        return f" ({'; '.join(filter(None, words))})" if any(words) else ""

    def _showdown(self) -> list[str]:
        return [] if self._street == "showdown" else self._heading("showdown")
