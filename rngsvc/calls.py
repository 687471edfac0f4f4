"""What the shuffle service is asked and what it answers, as frozen records.

A request is well-formed when it is one of these: the edge has checked bytes, ranges and order. Steps are those
of `protocol/hand-protocol.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rngsvc.hand import Hand, Location
from rngsvc.log import Logged
from rngsvc.shuffles import Openings

# --- Requests ---


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: his name, and whether he is the operator, who may act on every table."""

    name: str
    is_operator: bool = False


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """Step 0."""

    table: bytes
    mode: str
    reveal: str
    ttl_s: int
    auditor: tuple[bytes, bytes] | None = None
    twin: bool = False


@dataclass(frozen=True, slots=True)
class ReserveHands:
    """Step 1."""

    table: bytes
    first: int
    count: int

    @property
    def seq(self) -> int:
        """The first hand, by which the call is known again."""
        return self.first


@dataclass(frozen=True, slots=True)
class PromiseSeeds:
    """Step 2: for each hand from ``first`` on, (id, P) ascending by id; with promised choices (id, P, Q)."""

    table: bytes
    first: int
    promises: tuple[tuple[tuple[bytes, ...], ...], ...]

    @property
    def seq(self) -> int:
        """The first hand, by which the call is known again."""
        return self.first


Contributions = tuple[tuple[bytes, bytes], ...]
"""(id, seed) pairs, or (id, choice) ones, ascending by id."""


@dataclass(frozen=True, slots=True)
class SealShuffle:
    """Steps 2 to 5."""

    table: bytes
    seq: int
    n: int
    contributions: Contributions = ()


@dataclass(frozen=True, slots=True)
class ChooseTwin:
    """Twin mode: ``choices`` are (id, choice) pairs, ascending by id."""

    table: bytes
    seq: int
    choices: Contributions = ()


@dataclass(frozen=True, slots=True)
class Reshuffle:
    """Step 7."""

    table: bytes
    seq: int
    k: int
    locations: tuple[Location, ...]


@dataclass(frozen=True, slots=True)
class OpenCards:
    """Step 6."""

    table: bytes
    seq: int
    k: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CloseHand:
    """Step 8. ``reason`` is None for complete."""

    table: bytes
    seq: int
    outcome: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class DrawNumbers:
    """Step 9."""

    table: bytes
    seq: int
    purpose: bytes
    modulus: int
    count: int
    contributions: Contributions = ()


# --- Answers ---


@dataclass(frozen=True, slots=True)
class Shuffled:
    """A sealed shuffle: its entry, all leaves, the contributions' leaf hashes, and in mode full all openings.

    The entry is the `choose` entry where it was one of two decks; before the choice there are no leaves.
    """

    logged: Logged
    leaves: Sequence[bytes]
    contribution_leaves: tuple[bytes, ...] = ()
    openings: Openings | None = None


@dataclass(frozen=True, slots=True)
class Numbers:
    """Drawn numbers."""

    logged: Logged
    values: tuple[int, ...]
    contribution_leaves: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class HandView:
    """What is public of a hand, and when it expires (0: closed, or a lower one is open)."""

    hand: Hand
    entries: tuple[Logged, ...]
    expires_ms: int


@dataclass(frozen=True, slots=True)
class PublicHand:
    """What anybody may see of a hand: ``view``, the contributions' leaf hashes, and all leaves of each shuffle.

    ``key_entries`` are the changes of the log's key, without which nobody can check it. Both kinds of leaves are None
    where the hand's secrets are lost.
    """

    view: HandView
    key_entries: tuple[Logged, ...]
    contribution_leaves: tuple[bytes, ...] | None
    leaves: tuple[tuple[bytes, ...], ...] | None


@dataclass(frozen=True, slots=True)
class OpenedHand:
    """What an auditor needs to re-derive a closed hand; ``seeds`` has b"" for an absent contributor."""

    entries: tuple[Logged, ...]
    seeds: tuple[bytes, ...]
    leaves: tuple[tuple[bytes, ...], ...]
    escrow: bytes
    seed: bytes
