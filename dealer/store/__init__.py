"""What the dealer keeps: tables, their journals, the ledger and finished hands. `Store` is the port.

`sqlite` is for one machine, `postgres` for a dealer with a standby; what is written in either survives `kill -9` at any
point. `memory` is for trying things out and for tests. A store has one dealer at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from dealer.cashier import Transfer

COPIED: Final[Mapping[str, Any]] = {"note": "copied"}
"""What the journal of a table says in a copy whose original may have gone on."""


class StoredTable(NamedTuple):
    """A table as it was opened, as it stood between two hands, and everything that happened since."""

    table: bytes
    game: str
    stakes: str
    snapshot: Mapping[str, Any] | None
    journal: Sequence[Mapping[str, Any]]


class FinishedHand(NamedTuple):
    """A closed hand: who sat where, and the house's own history with its receipt, as JSON texts."""

    table: bytes
    hand: int
    players: Mapping[int, str]
    history: str
    receipt: str


class StoreFailed(Exception):
    """It is not known what is stored: whoever gets this reloads, and shows nothing of what he wanted to store."""


class StoreLost(StoreFailed):
    """The store is gone for this process, and perhaps another dealer's by now: it stops; a fresh start finds out."""


class StoreDoubted(StoreFailed):
    """What is stored contradicts itself: nobody may be paid by it before a person has looked at it."""


class StoreHeld(StoreFailed):
    """Another dealer has the store."""


class StoreUnreachable(StoreFailed):
    """The store cannot be reached at the start: nothing is wrong with it as far as we know."""


class Store(Protocol):
    """The verbs. When one returns, what it wrote is durable; when it raises StoreFailed, it may or may not be."""

    def create(self, table: bytes, game: str, stakes: str) -> None:
        """Keep a new table. A repeat with the same terms changes nothing; with others it raises ValueError."""

    def tables(self) -> list[StoredTable]:
        """Return all tables with their journals, by id."""

    def table(self, table: bytes) -> StoredTable:
        """Return one table. Raises KeyError."""

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        """Add to a table's journal and to the ledger, both or neither."""

    def finish(self, hand: FinishedHand, snapshot: Mapping[str, Any]) -> None:
        """Keep a finished hand and the table's snapshot, and drop the journal that led to it, all or nothing."""

    def finished(self, table: bytes, hand: int) -> FinishedHand:
        """Return a finished hand; number 0 is the newest. Raises KeyError."""

    def balances(self) -> dict[str, int]:
        """Return the ledger's accounts."""

    def close(self) -> None:
        """Let go of the store."""
