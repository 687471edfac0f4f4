"""What the service needs from outside, as few verbs as it uses, and the records that pass through them.

The comment on a verb is its contract: what is durable when it returns, what is compared before it is swapped. Stores
are written natively against these verbs (`store/`), and one suite (`tests/conformance/`) holds them to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Head:
    """Where the log stands: ``size`` entries under ``root``, the signed ``checkpoint`` that says so.

    ``time`` (ms since 1970 UTC) is the log's last time, openings included, so it may move without the checkpoint.
    """

    size: int
    root: bytes
    checkpoint: bytes
    time: int


class TableRow(NamedTuple):
    """A registered table: its 16-byte id, the position of its `table` entry, and who registered it."""

    table: bytes
    position: int
    owner: str


class StepRow(NamedTuple):
    """One step ``n`` (0 = reserved) in the life of hand ``seq`` at ``table``.

    ``kind`` is "reserve" or a `hand.Event`. What is public stands in the entry at ``position`` (None for an opening);
    ``secret`` is sealed; ``time``, ``k`` and ``places`` (u16 each) belong to openings.
    """

    table: bytes
    seq: int
    n: int
    kind: str
    position: int | None
    secret: bytes = b""
    time: int = 0
    k: int = 0
    places: bytes = b""


class TileRow(NamedTuple):
    """A full tile (C2SP tlog-tiles): 256 hashes of tree level 8 * ``level``."""

    level: int
    number: int
    hashes: bytes


class DataKeyRow(NamedTuple):
    """The wrapped data key of one table and UTC day (days since 1970)."""

    table: bytes
    day: int
    wrapped: bytes


class SampleRow(NamedTuple):
    """A sample: its 16-byte id, the position of its `sample` entry, the SHA-256 of its data once it was sent whole."""

    sample_id: bytes
    position: int
    sha256: bytes = b""


class EntryRow(NamedTuple):
    """A log entry: its type word and its bytes."""

    kind: str
    entry: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch: everything that becomes durable together.

    ``entries`` stand at positions ``expected.size`` .. ``head.size - 1`` (from 0 for the first commit).
    """

    expected: Head | None
    head: Head
    entries: Sequence[EntryRow] = ()
    tiles: Sequence[TileRow] = ()
    tables: Sequence[TableRow] = ()
    steps: Sequence[StepRow] = ()
    data_keys: Sequence[DataKeyRow] = ()
    samples: Sequence[SampleRow] = ()


class StoreRefused(Exception):
    """The commit was refused and certainly nothing of it is stored."""


class StoreHeld(StoreRefused):
    """Another writer holds the store."""


class HeadMoved(Exception):
    """Compare-and-swap failed: somebody else has written to this store. Nothing of the commit is stored."""


class StoreDamaged(Exception):
    """What is stored does not fit together: somebody or something has altered it. Nothing may be built on it."""


class UnwrapRefused(Exception):
    """A data key does not unwrap: it, its context or the key-encryption key is not the one it was wrapped with."""


class Store(Protocol):
    """Where log, tables and hands are kept. One writer; readers see only whole commits."""

    async def open(self) -> Head | None:
        """Take the store for this writer and return its head, None if it is new.

        StoreHeld if another writer holds it, another StoreRefused if it cannot be read.
        """

    async def commit(self, commit: Commit) -> None:
        """Make all of ``commit`` durable at once, if the stored head equals ``commit.expected``.

        When it returns, the commit survives a power cut. HeadMoved: not stored, the head is another. StoreRefused:
        certainly not stored. Any other exception: unknown, the caller must stop and load again.
        """

    async def entries(self, first: int, end: int) -> list[bytes]:
        """Return the entries at positions ``first`` .. ``end - 1``; fewer where the log ends before."""

    async def entries_at(self, positions: Sequence[int]) -> list[bytes]:
        """Return the entries at ``positions``, in that order; KeyError if one is not stored."""

    async def tile(self, level: int, number: int) -> bytes:
        """Return the 8192 bytes of a full tile; KeyError if it is not stored."""

    async def table(self, table: bytes) -> TableRow | None:
        """Return the table, None if it is not registered."""

    async def tables_with_unclosed_hands(self) -> list[bytes]:
        """Return the ids of all tables whose newest hand is not closed."""

    async def sequence(self, table: bytes) -> tuple[int, int]:
        """Return the table's last reserved and last closed sequence numbers, 0 for none."""

    async def steps(self, table: bytes, first_seq: int, end_seq: int) -> list[StepRow]:
        """Return the steps of hands ``first_seq`` .. ``end_seq - 1`` ordered by (seq, n)."""

    async def last_steps(self, table: bytes, after_seq: int, limit: int) -> list[StepRow]:
        """Return the newest logged step of each of at most ``limit`` hands above ``after_seq``, ascending.

        An opening is stored but not logged: it has no ``position`` and is passed over.
        """

    async def data_key(self, table: bytes, day: int) -> bytes | None:
        """Return the wrapped data key of that table and day, None if there is none (any more)."""

    async def sample(self, sample_id: bytes) -> SampleRow | None:
        """Return the sample, None if there is none of that id."""

    async def results(self, before: int, limit: int) -> list[int]:
        """Return the positions below ``before`` of the newest ``limit`` `audit` and `integrity` entries, descending."""

    async def key_entries(self) -> list[int]:
        """Return the positions of all `key` entries, ascending."""

    async def check(self) -> None:
        """Raise if the store is out of this writer's reach; asked every few seconds, also when nothing is written.

        A store on this machine's own disk does not get out of reach unnoticed, and need not look.
        """

    async def close(self) -> None:
        """Release the store if this writer has it; closing again does nothing. Commits that were answered stay."""


class Clock(Protocol):
    """Time as an argument."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 UTC. May jump; the sequencer never goes back with it."""


class Entropy(Protocol):
    """The service's random generator."""

    def generate(self, count: int) -> bytes:
        """Return ``count`` fresh bytes, or raise: on any doubt there are none."""


class Signer(Protocol):
    """The log's Ed25519 signing key."""

    @property
    def public_key(self) -> bytes:
        """Raw public key, 32 bytes."""

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature over ``message``."""


class KeyEncryptionKey(Protocol):
    """Wraps the data keys under which seeds are stored."""

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Return ``data_key`` wrapped; ``context`` is bound to it."""

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the data key; UnwrapRefused if it was wrapped by another key, for another context, or was changed.

        Any other exception says nothing about the data key: the key-encryption key could not be used.
        """


class HeadGuard(Protocol):
    """Remembers the newest checkpoint outside the store, so that a restored older store is noticed."""

    def advance(self, checkpoint: bytes) -> None:
        """Remember ``checkpoint``; called after each commit and before its answers."""
