"""The data keys of a SQLite store, beside the service that may be using it: for a change of key, and for retention."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from rngsvc.ports import DataKeyRow, StoreRefused

_BUSY_TIMEOUT_S: Final = 10.0
_ROWS_AT_ONCE: Final = 10_000


class SqliteKeys:
    """See `rngsvc.rewrapping.DataKeys` and `rngsvc.retention.Hands`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def count(self) -> int:
        """Return how many rows there are."""
        return int(self._one("SELECT count(*) FROM data_key"))

    async def data_keys(self, after: DataKeyRow | None, limit: int) -> list[DataKeyRow]:
        """Return the next rows."""
        table, day = (after.table, after.day) if after else (b"", -1)
        return self._keys("(card_table, day) > (?, ?) ORDER BY card_table, day LIMIT ?", table, day, limit)

    async def exchange(self, changes: Sequence[tuple[DataKeyRow, DataKeyRow]]) -> int:
        """Replace rows that are still what they were."""
        values = [(new.wrapped, old.table, old.day, old.wrapped) for old, new in changes]
        return self._write("UPDATE data_key SET wrapped = ? WHERE card_table = ? AND day = ? AND wrapped = ?", values)

    async def data_keys_before(self, day: int) -> list[DataKeyRow]:
        """Return the rows of earlier days."""
        return self._keys("day < ? ORDER BY card_table, day", day)

    async def size(self) -> int:
        """Return the log's size."""
        rows = self._connection.execute("SELECT size FROM head").fetchall()
        return int(rows[0][0]) if rows else 0

    async def entry(self, position: int) -> bytes:
        """Return an entry."""
        return bytes(self._one("SELECT entry FROM entry WHERE position = ?", position))

    async def audits(self) -> list[tuple[int, bytes]]:
        """Return the verdicts."""
        return self._connection.execute(
            # So that the index of results is used.
            "SELECT position, entry FROM entry WHERE kind IN ('audit', 'integrity') AND kind = 'audit'"
        ).fetchall()

    async def table_position(self, table: bytes) -> int:
        """Return where a table stands."""
        return int(self._one("SELECT position FROM card_table WHERE card_table = ?", table))

    async def lives(self, table: bytes) -> AsyncIterator[tuple[int, int | None]]:
        """Yield reservation and close of each hand."""
        found = self._connection.execute(
            "SELECT r.position, c.position FROM step AS r LEFT JOIN step AS c"
            " ON c.card_table = r.card_table AND c.seq = r.seq AND c.kind = 'close'"
            " WHERE r.card_table = ? AND r.n = 0 ORDER BY r.seq",
            (table,),
        )
        while rows := found.fetchmany(_ROWS_AT_ONCE):
            for reserved, closed in rows:
                yield reserved, closed

    async def destroy(self, rows: Sequence[DataKeyRow]) -> int:
        """Delete rows; the file's pages are overwritten, and the write-ahead log is emptied if nobody reads it."""
        count = self._write(
            "DELETE FROM data_key WHERE card_table = ? AND day = ?", [(row.table, row.day) for row in rows]
        )
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return count

    def _keys(self, where: str, *values: object) -> list[DataKeyRow]:
        rows = self._connection.execute(f"SELECT card_table, day, wrapped FROM data_key WHERE {where}", values)  # noqa: S608
        return [DataKeyRow(*row) for row in rows]

    def _one(self, sql: str, *values: object) -> Any:
        rows = self._connection.execute(sql, values).fetchall()
        if not rows:
            raise StoreRefused("a row that must be there is missing: the store is damaged")
        return rows[0][0]

    def _write(self, sql: str, values: Sequence[tuple[object, ...]]) -> int:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            count = self._connection.executemany(sql, values).rowcount
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.execute("COMMIT")
        return count


@asynccontextmanager
async def keys_in_sqlite(path: Path) -> AsyncIterator[SqliteKeys]:
    """Open the store's file; StoreRefused if that cannot be."""
    try:
        where = f"{path.absolute().as_uri()}?mode=rw"  # noqa: ASYNC240  (no file is touched)
        with closing(sqlite3.connect(where, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("SELECT 1 FROM data_key LIMIT 1").fetchall()
            yield SqliteKeys(connection)
    except sqlite3.Error as error:
        raise StoreRefused(f"{path}: {error}") from error
