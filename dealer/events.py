"""What happened in a hand, in order, as records. A hand's events are its whole history; nothing else is stored.

Every card event names the place that the card came from (``k``, ``p``), so that it can be checked against an opening.
"""

from enum import Enum
from typing import NamedTuple

from dealer.actions import Act
from dealer.stub import Location
from dealer.stud import Face


class Post(Enum):
    """Kinds of forced money."""

    ANTE = "ante"
    SMALL_BLIND = "small_blind"
    BIG_BLIND = "big_blind"
    LIVE_POST = "live_post"  # a newcomer's or returning player's bet, as large as the big blind (PK-11, PK-12)
    DEAD = "dead"  # into the pot, nobody's bet (PK-12, PK-13)


class Posting(NamedTuple):
    """Forced money that a seat owes before the deal."""

    seat: int
    post: Post
    amount: int


class Posted(NamedTuple):
    """A player posted forced money, all he had if ``all_in``."""

    seat: int
    post: Post
    amount: int
    all_in: bool


class Dealt(NamedTuple):
    """A player was dealt a card, face down or up."""

    street: str
    seat: int
    face: Face
    k: int
    p: int
    card: int


class Burned(NamedTuple):
    """A card was burned; it is never opened."""

    street: str
    k: int
    p: int


class CommunityCard(NamedTuple):
    """A card was turned up for everybody (CC-11)."""

    street: str
    k: int
    p: int
    card: int


class Reshuffled(NamedTuple):
    """The cards at these locations were shuffled again and sealed, as shuffle ``k`` (DK-4)."""

    k: int
    locations: tuple[Location, ...]


class RoundOpened(NamedTuple):
    """A betting round began; ``first`` is the seat that acts, or would act, first."""

    street: str
    first: int


class Acted(NamedTuple):
    """A player acted: ``adds`` chips, ``to`` his total on the street."""

    street: str
    seat: int
    act: Act
    adds: int
    to: int
    all_in: bool


class FoldKept(NamedTuple):
    """A fold out of turn, kept and seen by nobody else until the player's turn comes (P7-6)."""

    seat: int


class Protected(NamedTuple):
    """A player out of time is treated as all-in for what he has put in (P7-8)."""

    seat: int


class Discarded(NamedTuple):
    """A player threw away cards for the draw; none means that he stands pat. All see how many (PK-4)."""

    seat: int
    cards: tuple[int, ...]
    locations: tuple[Location, ...]


class Returned(NamedTuple):
    """The part of a bet that nobody called went back (AL-3)."""

    seat: int
    amount: int


class Shown(NamedTuple):
    """A hand was shown."""

    seat: int
    cards: tuple[int, ...]


class Mucked(NamedTuple):
    """A hand was given up unshown."""

    seat: int


class Raked(NamedTuple):
    """The house took its share of a pot (AL-8)."""

    pot: str
    amount: int


class Won(NamedTuple):
    """A player won a pot or a part of it; ``side`` is high or low where the pot is halved, else empty."""

    seat: int
    pot: str
    side: str
    amount: int


class Voided(NamedTuple):
    """The hand is void and every chip went back (AL-22)."""

    reason: str


Event = (
    Posted
    | Dealt
    | Burned
    | CommunityCard
    | Reshuffled
    | RoundOpened
    | Acted
    | FoldKept
    | Protected
    | Discarded
    | Returned
    | Shown
    | Mucked
    | Raked
    | Won
    | Voided
)
