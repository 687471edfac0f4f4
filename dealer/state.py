"""One hand at one moment: the record, what it waits for, and the counting that keeps it honest.

Players are *positions* 0..n-1 clockwise from the dealer's left inside, and seat numbers to the outside.
"""

from functools import lru_cache
from typing import NamedTuple

from dealer import draw, stud
from dealer.actions import Choice
from dealer.betting import Betting
from dealer.events import Event, Posting
from dealer.house_rules import HouseRules, Stakes
from dealer.pot import layers
from dealer.showdown import Settlement
from dealer.stub import Location, Stub
from dealer.stud import Face

SHOWDOWN = "showdown"


class Place(NamedTuple):
    """One place of the current shuffle: who gets its card (nobody: a burn or a community card) and how."""

    p: int
    seat: int | None
    face: Face
    location: Location


class NeedCards(NamedTuple):
    """The next places of shuffle ``k``, in dealing order; ``opened`` are those that are not burned, ascending."""

    k: int
    places: tuple[Place, ...]
    opened: tuple[int, ...]

    def to_open(self) -> tuple[int, ...]:
        """Return the places to open, ascending: `supply` wants their cards in this order."""
        return self.opened


@lru_cache(maxsize=4096)
def places_for(
    k: int, first: int, seats: tuple[int, ...], faces: tuple[Face, ...], *, at_a_time: int = 1, burn: bool = False
) -> NeedCards:
    """Return the request for a round of cards to ``seats`` from place ``first`` on, so many at a time to each.

    The same seats are dealt the same way hand after hand, so requests are kept.
    """
    to: list[tuple[int | None, Face]] = [(None, Face.BURN)] if burn else []
    for n in range(0, len(faces), at_a_time):
        to += [(seat, face) for seat in seats for face in faces[n : n + at_a_time]]
    places = tuple(Place(first + n, seat, face, Location(k, first + n)) for n, (seat, face) in enumerate(to))
    return NeedCards(k, places, tuple(place.p for place in places if place.face is not Face.BURN))


def community_place(k: int) -> NeedCards:
    """Return the request for one card for everybody, the first of shuffle ``k`` (CC-11)."""
    return NeedCards(k, (Place(0, None, Face.COMMUNITY, Location(k, 0)),), (0,))


class NeedShuffle(NamedTuple):
    """These locations are to be shuffled again, as shuffle ``k``; `reshuffled` says that it is done."""

    k: int
    locations: tuple[Location, ...]


class NeedAction(NamedTuple):
    """A player is to act; ``choices`` are all his legal acts."""

    seat: int
    street: str
    choices: tuple[Choice, ...]


class Hand:
    """One hand at one moment. Made by `dealer.hand.start` only; read it freely."""

    rules: HouseRules
    stakes: Stakes
    seats: tuple[int, ...]
    position: dict[int, int]
    chips: int
    start_stacks: tuple[int, ...]
    deck_size: int
    button: int
    posts: tuple[Posting, ...]
    big_blinds: tuple[int, ...]
    streets: tuple[stud.Street, ...]
    street: int
    betting: Betting
    stub: Stub
    burns: tuple[Location, ...]
    where: dict[int, Location]
    down: list[tuple[int, ...]]
    up: list[tuple[int, ...]]
    community: tuple[int, ...]
    discards: tuple[tuple[Location, int], ...]
    draws_left: tuple[int, ...]
    to_draw: int
    bring_in_due: bool
    low_card: int
    first_to_act: int
    kept_folds: frozenset[int]
    may_muck: tuple[int, ...]
    settlement: Settlement | None
    in_payment: int
    awaits: NeedCards | NeedShuffle | NeedAction | None
    events: list[Event]

    # --- reading

    @property
    def over(self) -> bool:
        """Say whether the hand has ended."""
        return self.awaits is None

    @property
    def street_name(self) -> str:
        """Return the street being played; between draw's two rounds it is the draw."""
        return draw.DRAW if self.draws_left else self.streets[self.street].name

    def stack(self, seat: int) -> int:
        """Return the chips in front of a seat that are not bet."""
        return self.betting.stacks[self.position[seat]]

    def cards(self, seat: int) -> tuple[int, ...]:
        """Return all cards of a seat, down cards first; a community card is not among them."""
        i = self.position[seat]
        return self.down[i] + self.up[i]

    def pots(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """Return the pots as they stand, main pot first: name, total, seats that may win it."""
        betting = self.betting
        pots = self.settlement.pots if self.settlement else layers(betting.paid, betting.dead, betting.inside)
        return [(pot.name(n), pot.total, tuple(self.seats[i] for i in pot.members)) for n, pot in enumerate(pots)]

    def net(self) -> dict[int, int]:
        """Return what each seat has won or lost so far."""
        return {s: now - was for s, now, was in zip(self.seats, self.betting.stacks, self.start_stacks, strict=True)}

    @property
    def raked(self) -> int:
        """Return the chips that the house has taken of this hand."""
        return sum(self.settlement.rakes) if self.settlement else 0

    # --- changing: by the functions of `dealer.hand` alone, on a fresh copy

    def copy(self) -> "Hand":
        """Return an independent copy."""
        # Written out, since a compiled class has no dictionary to copy.
        new = Hand()
        new.rules = self.rules
        new.stakes = self.stakes
        new.seats = self.seats
        new.position = self.position
        new.chips = self.chips
        new.start_stacks = self.start_stacks
        new.deck_size = self.deck_size
        new.button = self.button
        new.posts = self.posts
        new.big_blinds = self.big_blinds
        new.streets = self.streets
        new.street = self.street
        new.betting = self.betting.copy()
        new.stub = self.stub
        new.burns = self.burns
        new.where = self.where
        new.down = self.down.copy()
        new.up = self.up.copy()
        new.community = self.community
        new.discards = self.discards
        new.draws_left = self.draws_left
        new.to_draw = self.to_draw
        new.bring_in_due = self.bring_in_due
        new.low_card = self.low_card
        new.first_to_act = self.first_to_act
        new.kept_folds = self.kept_folds
        new.may_muck = self.may_muck
        new.settlement = self.settlement
        new.in_payment = self.in_payment
        new.awaits = self.awaits
        new.events = self.events.copy()
        return new

    def record(self, event: Event) -> None:
        """Note an event that moves neither chips nor cards."""
        self.events.append(event)

    def record_chips(self, event: Event) -> None:
        """Note an event and count all chips: a wrong sum means that the engine is wrong, so it stops."""
        self.events.append(event)
        betting = self.betting
        counted = sum(betting.stacks) + sum(betting.paid) + sum(betting.dead) + self.in_payment
        assert counted == self.chips, "a chip appeared or vanished"

    def count_cards(self) -> None:
        """Count all cards: each lies in the stub, among the burns, aside or at one known location."""
        counted = len(self.where) + len(self.burns) + self.stub.left + self.stub.set_aside
        assert counted == self.deck_size, "a card appeared or vanished"
