"""The life of one hand. No I/O and no clock here; a step that is not in the table is an error.

A hand is *reserved* when its commitment is logged, *promised* when its contributors' promises are, *sealed* once its
first shuffle is, *drawn* if numbers were drawn from it instead, and *closed* for ever by its reveal. At a twin table
sealing two decks leaves it *unchosen*, and the choice between them makes it a sealed hand like any other.

Each step is a frozen record that carries what the log or the store says of it; `advance` makes the next hand from it.
The service steps a hand as calls come in, and after a restart folds the stored steps with the same function (`replay`),
so that both see the same hand.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, assert_never


class State(StrEnum):
    """Where a hand is in its life."""

    RESERVED = "reserved"
    PROMISED = "promised"
    UNCHOSEN = "unchosen"
    SEALED = "sealed"
    DRAWN = "drawn"
    CLOSED = "closed"

    @property
    def hand(self) -> str:
        """What a hand in this state is called."""
        return f"{'an' if self is State.UNCHOSEN else 'a'} {self} hand"

    __hash__ = str.__hash__  # an enum's own is a Python call, and every step looks its transition up


class Event(StrEnum):
    """What can happen to a reserved hand."""

    PROMISE = "promise"
    SEAL = "seal"
    SEAL_TWIN = "seal_twin"
    CHOOSE = "choose"
    RESHUFFLE = "reshuffle"
    OPEN = "open"
    DRAW = "draw"
    CLOSE = "close"

    __hash__ = str.__hash__


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.RESERVED, Event.PROMISE): State.PROMISED,
    (State.RESERVED, Event.SEAL): State.SEALED,
    (State.RESERVED, Event.SEAL_TWIN): State.UNCHOSEN,
    (State.RESERVED, Event.DRAW): State.DRAWN,
    (State.RESERVED, Event.CLOSE): State.CLOSED,
    (State.PROMISED, Event.SEAL): State.SEALED,
    (State.PROMISED, Event.SEAL_TWIN): State.UNCHOSEN,
    (State.PROMISED, Event.DRAW): State.DRAWN,
    (State.PROMISED, Event.CLOSE): State.CLOSED,
    (State.UNCHOSEN, Event.CHOOSE): State.SEALED,
    (State.UNCHOSEN, Event.CLOSE): State.CLOSED,
    (State.SEALED, Event.RESHUFFLE): State.SEALED,
    (State.SEALED, Event.OPEN): State.SEALED,
    (State.SEALED, Event.CLOSE): State.CLOSED,
    (State.DRAWN, Event.CLOSE): State.CLOSED,
}


_ONLY_AT_TWIN_TABLES: Final = (Event.SEAL_TWIN, Event.CHOOSE)
_NOT_AT_TWIN_TABLES: Final = (Event.SEAL, Event.DRAW)


class IllegalStep(Exception):
    """The table of transitions has no such step; the hand is unchanged.

    ``twin`` says which kind of table it is, so that the steps named are those that it has.
    """

    def __init__(self, state: State, event: Event, *, twin: bool | None = None) -> None:
        elsewhere = () if twin is None else _NOT_AT_TWIN_TABLES if twin else _ONLY_AT_TWIN_TABLES
        legal = sorted(e for s, e in TRANSITIONS if s is state and e not in elsewhere)
        super().__init__(f"{state.hand} allows no {event}, only: {', '.join(legal) or 'nothing'}")
        self.state = state
        self.event = event


Location = tuple[int, int]
"""(k, p): place p of shuffle k."""


class Reserved(NamedTuple):
    """Step 1: the commitment is logged at ``position``; ``leaf`` is that entry's leaf hash, ``secret`` the sealed s.

    At a twin table ``twin`` is the commitment of deck 1, and ``secret`` holds both seeds.
    """

    position: int
    time: int
    leaf: bytes
    commitment: bytes
    secret: bytes
    twin: bytes = b""


class Promised(NamedTuple):
    """Step 2: the promises, (id, P) or at a twin table (id, P, Q) ascending by id, are logged at ``position``."""

    position: int
    leaf: bytes
    promises: tuple[tuple[bytes, ...], ...]


class Sealed(NamedTuple):
    """Steps 4, 5 and 7: shuffle ``k`` of ``n`` items is logged at ``position``.

    ``inputs`` are the locations it shuffled (none for k = 0), ``contributions`` CR for k = 0, ``secret`` the sealed
    contributed seeds. ``twin`` are context and root of deck 1, for k = 0 at a twin table.
    """

    position: int
    time: int
    k: int
    n: int
    context: bytes
    root: bytes
    inputs: tuple[Location, ...] = ()
    contributions: bytes = b""
    secret: bytes = b""
    twin: tuple[bytes, bytes] | None = None


class Chosen(NamedTuple):
    """Twin mode: that ``deck`` (0 or 1) is played is logged at ``position``."""

    position: int
    time: int
    deck: int


class Opened(NamedTuple):
    """Step 6: ``places`` of shuffle ``k`` were newly opened at ``time``. Stored, and logged with the close."""

    time: int
    k: int
    places: tuple[int, ...]


class Drawn(NamedTuple):
    """Step 9: numbers are logged at ``position``."""

    position: int
    time: int
    contributions: bytes
    secret: bytes = b""


class Closed(NamedTuple):
    """Step 8: the reveal is logged at ``position``."""

    position: int
    time: int


Step = Promised | Sealed | Chosen | Opened | Drawn | Closed


class Hand(NamedTuple):
    """One hand as far as it has come. Immutable; `advance` returns the next one."""

    seq: int
    state: State
    reserved: Reserved
    promised: Promised | None = None
    shuffles: tuple[Sealed, ...] = ()
    drawn: Drawn | None = None
    openings: tuple[Opened, ...] = ()
    closed: Closed | None = None
    opened: frozenset[Location] = frozenset()
    named: frozenset[Location] = frozenset()
    chosen: Chosen | None = None

    @property
    def commitment(self) -> bytes:
        """Step 1's C, of the deck that is played."""
        return self.reserved.twin if self.chosen and self.chosen.deck else self.reserved.commitment

    @property
    def pre(self) -> bytes:
        """Step 3: leaf hash of the promise entry, or of the reserve entry when there is none."""
        return self.promised.leaf if self.promised else self.reserved.leaf

    @property
    def promises(self) -> tuple[tuple[bytes, ...], ...]:
        """(id, P) or (id, P, Q) of each contributor, ascending by id."""
        return self.promised.promises if self.promised else ()

    @property
    def contributed_secret(self) -> bytes:
        """The sealed contributed seeds; empty before the seal or draw, and when there are none."""
        if self.drawn:
            return self.drawn.secret
        return self.shuffles[0].secret if self.shuffles else b""

    @property
    def shown_shuffles(self) -> int:
        """How many of its shuffles have leaves to be shown: none while, or if, nobody chose between two decks."""
        undecided = self.shuffles and self.shuffles[0].twin and not self.chosen
        return 0 if undecided else len(self.shuffles)

    @property
    def started_ms(self) -> int:
        """When its first seal or its draw was logged; 0 before."""
        if self.drawn:
            return self.drawn.time
        return self.shuffles[0].time if self.shuffles else 0

    @property
    def steps(self) -> int:
        """How many steps it has gone, the reservation included: the number of its next one."""
        once = sum(map(bool, (self.promised, self.chosen, self.drawn, self.closed)))
        return 1 + len(self.shuffles) + len(self.openings) + once

    @property
    def positions(self) -> list[int]:
        """Log positions of its entries, ascending."""
        first, later = self.shuffles[:1], self.shuffles[1:]
        steps = (self.reserved, self.promised, *first, self.chosen, *later, self.drawn, self.closed)
        return [step.position for step in steps if step]


def reserve(seq: int, reserved: Reserved) -> Hand:
    """Return hand ``seq`` at the beginning of its life."""
    return Hand(seq, State.RESERVED, reserved)


def event_of(step: Step) -> Event:
    """Return which event of the table ``step`` is."""
    match step:
        case Promised():
            return Event.PROMISE
        case Sealed():
            if step.k:
                return Event.RESHUFFLE
            return Event.SEAL_TWIN if step.twin else Event.SEAL
        case Chosen():
            return Event.CHOOSE
        case Opened():
            return Event.OPEN
        case Drawn():
            return Event.DRAW
        case Closed():
            return Event.CLOSE
        case _:
            assert_never(step)


def next_state(state: State, event: Event) -> State:
    """Return the state that ``event`` leads to; IllegalStep if the table has none."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStep(state, event) from None


def advance(hand: Hand, step: Step) -> Hand:
    """Return ``hand`` after ``step``; IllegalStep if the table does not allow it.

    What a step carries was checked by whoever made it (`service.py`); here it is only put in its place.
    """
    state = next_state(hand.state, event_of(step))
    match step:
        case Promised():
            return hand._replace(state=state, promised=step)
        case Sealed():
            assert step.k == len(hand.shuffles), "shuffles of a hand are sealed in order"
            shuffles = (*hand.shuffles, step)
            named = hand.named | frozenset(step.inputs) if step.inputs else hand.named
            # Written out: `_replace` takes twice as long, and every seal comes here.
            return Hand(
                hand.seq,
                state,
                hand.reserved,
                hand.promised,
                shuffles,
                hand.drawn,
                hand.openings,
                hand.closed,
                hand.opened,
                named,
                hand.chosen,
            )
        case Chosen():
            (sealed,) = hand.shuffles
            assert sealed.twin, "only a hand with two decks is chosen in"
            # From here on the deck that is played is the hand's first shuffle, as if there had been no other.
            context, root = sealed.twin if step.deck else (sealed.context, sealed.root)
            return hand._replace(state=state, shuffles=(sealed._replace(context=context, root=root),), chosen=step)
        case Opened():
            new = frozenset((step.k, place) for place in step.places)
            assert not new & hand.opened, "a place is recorded once, when it is first opened"
            return hand._replace(state=state, openings=(*hand.openings, step), opened=hand.opened | new)
        case Drawn():
            return hand._replace(state=state, drawn=step)
        case Closed():
            return hand._replace(state=state, closed=step)
        case _:
            assert_never(step)


def replay(seq: int, reserved: Reserved, steps: Iterable[Step]) -> Hand:
    """Return hand ``seq`` after all its stored ``steps``, in order."""
    hand = reserve(seq, reserved)
    for step in steps:
        hand = advance(hand, step)
    return hand


def check_places(hand: Hand, k: int, places: Iterable[int]) -> tuple[int, ...]:
    """Return those of ``places`` of shuffle ``k`` that are not open yet; ValueError if one may never be opened."""
    if k >= len(hand.shuffles):
        raise ValueError(f"k: shuffle {k} is not sealed; there are {len(hand.shuffles)}")
    n = hand.shuffles[k].n
    new = []
    for place in places:
        if place >= n:
            raise ValueError(f"places: shuffle {k} has places 0..{n - 1}, not {place}")
        if (k, place) in hand.opened:
            continue
        if (k, place) in hand.named:
            raise ValueError(f"places: {place} was named in a reshuffle and is not opened any more")
        new.append(place)
    return tuple(new)


def check_locations(hand: Hand, locations: Iterable[Location]) -> None:
    """Check that each location exists in ``hand`` and was not named before; ValueError names the first that fails."""
    for k, place in locations:
        if k >= len(hand.shuffles) or place >= hand.shuffles[k].n:
            raise ValueError(f"locations: ({k}, {place}) does not exist in this hand")
        if (k, place) in hand.named:
            raise ValueError(f"locations: ({k}, {place}) was named by an earlier reshuffle")
