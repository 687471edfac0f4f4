"""Where a store may lie, and commits to put into it: what the conformance suite is made of.

A new kind of store joins the suite with one more `StorePlace` in `PLACES` and must pass every test unchanged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from rngsvc.ports import (
    Commit,
    DataKeyRow,
    EntryRow,
    Head,
    SampleRow,
    StepRow,
    Store,
    TableRow,
    TileRow,
)
from rngsvc.store.memory import Disk, MemoryStore
from rngsvc.store.postgres import PostgresStore
from rngsvc.store.sqlite import SqliteStore
from tests.postgres import postgres

TABLE = bytes(range(16))
OTHER_TABLE = bytes(range(16, 32))


@dataclass(frozen=True)
class StorePlace:
    """One place for a store: `handle` gives a new, unopened store on it, as a restarted or a second process would.

    ``elsewhere`` is Python source whose expression makes such a store in another process; None where the place dies
    with this one.
    """

    handle: Callable[[], Store]
    elsewhere: str | None


def in_memory(_folder: Path) -> StorePlace:
    disk = Disk()
    return StorePlace(lambda: MemoryStore(disk), None)


def in_sqlite(folder: Path) -> StorePlace:
    path = folder / "log.sqlite3"
    imports = "from pathlib import Path\nfrom rngsvc.store.sqlite import SqliteStore\n"
    return StorePlace(lambda: SqliteStore(path), f"{imports}store = SqliteStore(Path({str(path)!r}))")


def in_postgres(_folder: Path) -> StorePlace:
    address = postgres().address()
    imports = "from rngsvc.store.postgres import PostgresStore\n"
    return StorePlace(lambda: PostgresStore(address), f"{imports}store = PostgresStore({address!r})")


PLACES: dict[str, Callable[[Path], StorePlace]] = {
    "memory": in_memory,
    "sqlite": in_sqlite,
    "postgres": in_postgres,
}


def head(size: int, time: int = 0) -> Head:
    """A head of `size` entries whose root and checkpoint are unlike any other's."""
    return Head(size, sha256(b"root %d" % size).digest(), b"checkpoint %d" % size, time)


def entries(first: int, end: int, kind: str = "reserve") -> list[EntryRow]:
    return [EntryRow(kind, b"entry %d" % position) for position in range(first, end)]


def step(seq: int, n: int, kind: str, position: int | None, table: bytes = TABLE, **rest: Any) -> StepRow:
    return StepRow(table, seq, n, kind, position, **rest)


@dataclass
class Writer:
    """Commits to a store as the sequencer does: each expects the head that the last one left."""

    store: Store
    head: Head | None = None
    commits: list[Commit] = field(default_factory=list)

    async def commit(
        self, new_entries: int = 1, *, kind: str = "reserve", time: int | None = None, **rows: Any
    ) -> Head:
        """Add `new_entries` entries and `rows`; return the new head."""
        size = self.head.size if self.head else 0
        now = time if time is not None else (self.head.time + 1 if self.head else 1)
        new = head(size + new_entries, now)
        commit = Commit(self.head, new, entries(size, size + new_entries, kind), **rows)
        await self.store.commit(commit)
        self.commits.append(commit)
        self.head = new
        return new


async def everything(store: Store) -> dict[str, Any]:
    """Return all that the verbs of a store give for the rows that these tests write."""
    return {
        "entries": await store.entries(0, 10_000),
        "tables": [await store.table(table) for table in (TABLE, OTHER_TABLE)],
        "unclosed": sorted(await store.tables_with_unclosed_hands()),
        "sequence": [await store.sequence(table) for table in (TABLE, OTHER_TABLE)],
        "steps": [await store.steps(table, 0, 10_000) for table in (TABLE, OTHER_TABLE)],
        "data_keys": [await store.data_key(table, day) for table in (TABLE, OTHER_TABLE) for day in (1, 2)],
        "samples": [await store.sample(bytes([i]) * 16) for i in range(3)],
        "results": await store.results(10_000, 10_000),
        "key_entries": await store.key_entries(),
    }


def rows_of_everything() -> dict[str, Any]:
    """One row of every kind, for a commit of three entries at the beginning of a log."""
    return {
        "tables": [TableRow(TABLE, 0, "casino")],
        "steps": [
            step(1, 0, "reserve", 1, secret=b"sealed seed"),
            step(1, 1, "seal", 2, secret=b"sealed contributions"),
            step(1, 2, "open", None, time=17, k=0, places=b"\x00\x01\x00\x33"),
        ],
        "tiles": [TileRow(0, 0, bytes(range(256)) * 32)],
        "data_keys": [DataKeyRow(TABLE, 1, b"wrapped")],
        "samples": [SampleRow(bytes(16), 2)],
    }
