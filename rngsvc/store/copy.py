"""Copies a whole store into a new one, of the same kind or another: a backup of a running service, or a move.

The source is read as one snapshot, so it may be in use. The destination must be new; it is filled in one transaction,
so that there is either all of it or nothing. A copy is as old as its snapshot: the head guard of the service that it
was taken from refuses it as soon as anything later was signed.
"""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final, Protocol

from rngsvc.ports import StoreRefused
from rngsvc.store.sqlite import SqliteStore

Rows = Sequence[Sequence[Any]]
_ROWS_AT_ONCE: Final = 1000

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "head": ("one", "size", "root", "checkpoint", "time"),
    "entry": ("position", "kind", "entry"),
    "tile": ("level", "number", "hashes"),
    "card_table": ("card_table", "position", "owner"),
    "step": ("card_table", "seq", "n", "kind", "position", "secret", "time", "k", "places"),
    "data_key": ("card_table", "day", "wrapped"),
    "sample": ("sample_id", "position", "sha256"),
}


class Source(Protocol):
    """A snapshot of a store."""

    def rows(self, table: str) -> AsyncIterator[Rows]:
        """Yield all rows of a table, some at a time."""


class Destination(Protocol):
    """A new store inside one transaction."""

    async def fill(self, table: str, rows: Rows) -> None:
        """Add rows to a table."""


async def copy(source: Source, destination: Destination) -> dict[str, int]:
    """Copy every table; return how many rows each has."""
    counts = {}
    for table in COLUMNS:
        counts[table] = 0
        async for rows in source.rows(table):
            await destination.fill(table, rows)
            counts[table] += len(rows)
    return counts


# --- SQLite ---


class _SqliteEnd:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        found = self._connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table}")  # noqa: S608
        while rows := found.fetchmany(_ROWS_AT_ONCE):
            yield rows

    async def fill(self, table: str, rows: Rows) -> None:
        marks = ", ".join("?" * len(COLUMNS[table]))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(COLUMNS[table])}) VALUES ({marks})", rows)  # noqa: S608


@asynccontextmanager
async def from_sqlite(path: Path) -> AsyncIterator[Source]:
    """Read a SQLite store as it is now; StoreRefused if that cannot be."""
    try:
        where = f"{path.absolute().as_uri()}?mode=ro"  # noqa: ASYNC240  (no file is touched)
        with closing(sqlite3.connect(where, uri=True, isolation_level=None)) as found:
            found.execute("BEGIN")
            # The first read is what takes the snapshot, and what tells a file that is no database.
            found.execute("SELECT count(*) FROM sqlite_schema")
            yield _SqliteEnd(found)
    except sqlite3.Error as error:
        raise StoreRefused(f"{path}: {error}") from error


@asynccontextmanager
async def into_sqlite(path: Path) -> AsyncIterator[Destination]:
    """Fill a new SQLite store; StoreRefused if there is one already, or if it is in use."""
    store = SqliteStore(path)
    if await store.open() is not None:
        await store.close()
        raise StoreRefused(f"{path}: holds a log already")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            yield _SqliteEnd(connection)
            connection.execute("COMMIT")
        await store.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # One file, whole, that can be read where nothing can be written; who opens it as a service's store turns
            # the write-ahead log on again.
            connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        raise StoreRefused(f"{path}: {error}") from error
    finally:
        await store.close()
