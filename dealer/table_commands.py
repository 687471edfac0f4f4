"""Everything that can happen to a table, as records, and their form in the journal.

A table is what its commands made of it, each with the time at which it came: replaying the journal gives the same
table, the same cards and the same clocks.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, get_args

from dealer.actions import Act


class Sit(NamedTuple):
    """A player takes a seat with so many chips, which the cashier has booked."""

    player: str
    seat: int
    amount: int


class TopUp(NamedTuple):
    """A seated player adds chips, which the cashier has booked."""

    player: str
    amount: int


class Stand(NamedTuple):
    """A player leaves with his chips; in a hand he folds in turn first (AL-15)."""

    player: str


class SitOut(NamedTuple):
    """A player keeps his seat and is not dealt in; in a hand he folds in turn (AL-15)."""

    player: str


class SitIn(NamedTuple):
    """A player says "I play" (CC-1).

    ``post``: come in with what he owes at once, instead of waiting for his big blind (PK-11 to PK-13). ``every_hand``:
    post his ante from now on without asking him again.
    """

    player: str
    post: bool = False
    every_hand: bool = True


class Disconnected(NamedTuple):
    """A player's connection is gone; his clock runs on (AL-16)."""

    player: str


class Connected(NamedTuple):
    """A player is there again (P7-9)."""

    player: str


class Play(NamedTuple):
    """A player acts in a hand. ``turn`` is the number of the decision that he answers, so that a repeat is known."""

    player: str
    hand: int
    turn: int
    act: Act
    to: int | None = None
    cards: tuple[int, ...] = ()


class Tick(NamedTuple):
    """Time has passed: a deadline may be over."""


class DrawButton(NamedTuple):
    """The shuffle service drew the first button: ``seat`` (PK-14)."""

    seat: int


class Close(NamedTuple):
    """An operator closes the table: no more hands are dealt, and everybody leaves when the present one is over."""


class Begin(NamedTuple):
    """The next hand begins; ``number`` is its sequence number at the shuffle service."""

    number: int


class Supply(NamedTuple):
    """The awaited places were opened: their cards."""

    cards: tuple[int, ...]


class Reshuffle(NamedTuple):
    """The awaited shuffle was made and sealed."""


class Delay(NamedTuple):
    """The next cards cannot be had at present (AL-22)."""

    why: str


class Void(NamedTuple):
    """The hand cannot go on: every chip goes back (AL-22)."""

    why: str


Command = (
    Sit
    | TopUp
    | Stand
    | SitOut
    | SitIn
    | Disconnected
    | Connected
    | Play
    | Tick
    | DrawButton
    | Close
    | Begin
    | Supply
    | Reshuffle
    | Delay
    | Void
)
_KINDS: Final[dict[str, Callable[..., Any]]] = {kind.__name__: kind for kind in get_args(Command)}


def encode(command: Command, now_ms: int) -> dict[str, Any]:
    """Return a command and its time as a JSON object."""
    fields = {name: value.value if isinstance(value, Enum) else value for name, value in command._asdict().items()}
    return {"do": type(command).__name__, "at": now_ms, **fields}


def decode(written: dict[str, Any]) -> tuple[Command, int]:
    """Return the command and its time that `encode` wrote."""
    fields = dict(written)
    kind, now_ms = _KINDS[fields.pop("do")], fields.pop("at")
    if "cards" in fields:
        fields["cards"] = tuple(fields["cards"])
    if "act" in fields:
        fields["act"] = Act(fields["act"])
    command: Any = kind(**fields)
    return command, now_ms
