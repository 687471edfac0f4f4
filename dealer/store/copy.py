"""Copies a whole store into a new one, of the same kind or another: a backup of a running dealer, or a move.

The source is read as one snapshot, so its dealer may go on; then the copy says of each table that it is a copy, and
whoever goes on from it plays no hand to its end that was being played (`dealer.table_live`). A source that nobody uses
is held until it is copied. The destination must hold no table yet; it is filled in one transaction, so that there is
all of it or nothing.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from typing import Any, Final

from dealer.store import COPIED, StoreFailed, StoreHeld
from dealer.store.location import ExtraMissing, Location, open_store
from dealer.store.sqlite import take_lock

COLUMNS: Final[Mapping[str, str]] = {
    "tables": "id, game, stakes, snapshot",
    "journal": "number, table_id, entry",
    "ledger": "number, debit, credit, amount",
    "accounts": "name, balance",
    "hands": "table_id, hand, players, history, receipt",
}
_AT_ONCE: Final = 1_000

Rows = list[tuple[Any, ...]]


def copy(source: Location, destination: Location) -> dict[str, int]:
    """Copy a store; return how many rows of what there were. Raises StoreFailed, ExtraMissing."""
    return asyncio.run(_copy(source, destination))


async def _copy(source: Location, destination: Location) -> dict[str, int]:
    counts = dict.fromkeys(COLUMNS, 0)
    last, tables = 0, []
    async with _end(source, writes=False) as found:
        _make(destination)
        async with _end(destination, writes=True) as new:
            if new.is_used:
                raise StoreHeld(f"{destination}: another dealer holds it")
            for table in COLUMNS:
                async for rows in found.rows(table):
                    await new.fill(table, rows)
                    counts[table] += len(rows)
                    if table == "tables":
                        tables += [row[0] for row in rows]
                    if table == "journal":
                        last = max(last, *(row[0] for row in rows))
            if found.is_used and tables:
                note = json.dumps(COPIED)
                await new.fill("journal", [(number, table, note) for number, table in enumerate(tables, last + 1)])
    return counts


def _make(destination: Location) -> None:
    """Make the destination, or see that it is empty and nobody uses it."""
    store = open_store(destination)
    try:
        if store.tables():
            raise StoreFailed(f"{destination}: holds tables already")
    finally:
        store.close()


@asynccontextmanager
async def _end(location: Location, *, writes: bool) -> AsyncIterator[Any]:
    if location.path:
        with _sqlite(location, writes=writes) as end:
            yield end
    elif location.uri:
        async with _postgres(location, writes=writes) as end:
            yield end
    else:
        raise StoreFailed("memory: cannot be copied")


class _Sqlite:
    def __init__(self, db: sqlite3.Connection, *, is_used: bool) -> None:
        self._db = db
        self.is_used = is_used

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        found = self._db.execute(f"SELECT {COLUMNS[table]} FROM {table}")  # noqa: S608  (names of ours)
        while rows := found.fetchmany(_AT_ONCE):
            yield rows

    async def fill(self, table: str, rows: Rows) -> None:
        marks = ", ".join("?" * len(rows[0]))
        self._db.executemany(f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({marks})", rows)  # noqa: S608  (names of ours)


@contextmanager
def _sqlite(location: Location, *, writes: bool) -> Iterator[_Sqlite]:
    assert location.path, "asked for only with a path"
    where = f"{location.path.absolute().as_uri()}?mode={'rw' if writes else 'ro'}"
    try:
        with closing(sqlite3.connect(where, uri=True, isolation_level=None)) as db:
            # Reading tells a file that is no store of ours.
            db.execute(f"SELECT {COLUMNS['journal']} FROM journal LIMIT 1")  # noqa: S608  (names of ours)
            lock = None
            with suppress(StoreHeld):
                lock = take_lock(location.path)
            try:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                yield _Sqlite(db, is_used=lock is None)
                db.execute("COMMIT")
            finally:
                if lock is not None:
                    os.close(lock)
    except sqlite3.Error as error:
        raise StoreFailed(f"{location}: {error}") from error


class _Postgres:
    def __init__(self, db: Any, schema: str, *, is_used: bool) -> None:
        self._db = db
        self._schema = schema
        self.is_used = is_used

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        cursor = await self._db.cursor(f"SELECT {COLUMNS[table]} FROM {self._schema}.{table}")  # noqa: S608  (names of ours)
        while rows := await cursor.fetch(_AT_ONCE):
            yield [tuple(row) for row in rows]

    async def fill(self, table: str, rows: Rows) -> None:
        columns = COLUMNS[table].split(", ")
        await self._db.copy_records_to_table(table, records=rows, columns=columns, schema_name=self._schema)


@asynccontextmanager
async def _postgres(location: Location, *, writes: bool) -> AsyncIterator[_Postgres]:
    try:
        import asyncpg  # noqa: PLC0415  (an extra)

        from dealer.store.postgres import lock_of  # noqa: PLC0415  (needs the same extra)
    except ImportError:
        raise ExtraMissing from None
    try:
        db = await asyncpg.connect(location.uri)
        try:
            # Held, if nobody else does, for as long as this session lives.
            is_free = await db.fetchval("SELECT pg_try_advisory_lock($1)", lock_of(location.schema))
            async with db.transaction(isolation="repeatable_read", readonly=not writes):
                yield _Postgres(db, location.schema, is_used=not is_free)
        finally:
            with suppress(OSError, asyncpg.InterfaceError):
                await db.close()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StoreFailed(f"{location}: {error}") from error
