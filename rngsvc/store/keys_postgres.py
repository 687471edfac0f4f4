"""The data keys of a PostgreSQL store, beside the service that may be using it; see `rngsvc.store.keys_sqlite`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from rngsvc.ports import DataKeyRow, StoreRefused
from rngsvc.store.address import split_address

_ROWS_AT_ONCE: Final = 10_000


class PostgresKeys:
    """See `rngsvc.rewrapping.DataKeys` and `rngsvc.retention.Hands`."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    async def count(self) -> int:
        """Return how many rows there are."""
        return int(await self._one("SELECT count(*) FROM data_key"))

    async def data_keys(self, after: DataKeyRow | None, limit: int) -> list[DataKeyRow]:
        """Return the next rows."""
        table, day = (after.table, after.day) if after else (b"", -1)
        return await self._keys("(card_table, day) > ($1, $2) ORDER BY card_table, day LIMIT $3", table, day, limit)

    async def exchange(self, changes: Sequence[tuple[DataKeyRow, DataKeyRow]]) -> int:
        """Replace rows that are still what they were."""
        values = [(new.wrapped, old.table, old.day, old.wrapped) for old, new in changes]
        return await self._write(
            "UPDATE data_key SET wrapped = $1 WHERE card_table = $2 AND day = $3 AND wrapped = $4", values
        )

    async def data_keys_before(self, day: int) -> list[DataKeyRow]:
        """Return the rows of earlier days."""
        return await self._keys("day < $1 ORDER BY card_table, day", day)

    async def size(self) -> int:
        """Return the log's size."""
        return int(await self._connection.fetchval("SELECT size FROM head") or 0)

    async def entry(self, position: int) -> bytes:
        """Return an entry."""
        return bytes(await self._one("SELECT entry FROM entry WHERE position = $1", position))

    async def audits(self) -> list[tuple[int, bytes]]:
        """Return the verdicts."""
        rows = await self._connection.fetch(
            # So that the index of results is used.
            "SELECT position, entry FROM entry WHERE kind IN ('audit', 'integrity') AND kind = 'audit'"
        )
        return [(row[0], row[1]) for row in rows]

    async def table_position(self, table: bytes) -> int:
        """Return where a table stands."""
        return int(await self._one("SELECT position FROM card_table WHERE card_table = $1", table))

    async def lives(self, table: bytes) -> AsyncIterator[tuple[int, int | None]]:
        """Yield reservation and close of each hand."""
        async with self._connection.transaction(readonly=True):
            cursor = await self._connection.cursor(
                "SELECT r.position, c.position FROM step AS r LEFT JOIN step AS c"
                " ON c.card_table = r.card_table AND c.seq = r.seq AND c.kind = 'close'"
                " WHERE r.card_table = $1 AND r.n = 0 ORDER BY r.seq",
                table,
            )
            while rows := await cursor.fetch(_ROWS_AT_ONCE):
                for row in rows:
                    yield row[0], row[1]

    async def destroy(self, rows: Sequence[DataKeyRow]) -> int:
        """Delete rows. PostgreSQL overwrites them when it vacuums, which it is told to do at the end."""
        values = [(row.table, row.day) for row in rows]
        count = await self._write("DELETE FROM data_key WHERE card_table = $1 AND day = $2", values)
        await self._connection.execute("VACUUM data_key")
        return count

    async def _keys(self, where: str, *values: object) -> list[DataKeyRow]:
        rows = await self._connection.fetch(f"SELECT card_table, day, wrapped FROM data_key WHERE {where}", *values)  # noqa: S608
        return [DataKeyRow(row[0], row[1], row[2]) for row in rows]

    async def _one(self, sql: str, *values: object) -> Any:
        row = await self._connection.fetchrow(sql, *values)
        if row is None:
            raise StoreRefused("a row that must be there is missing: the store is damaged")
        return row[0]

    async def _write(self, sql: str, values: Sequence[tuple[object, ...]]) -> int:
        count = 0
        async with self._connection.transaction():
            for each in values:
                done = await self._connection.execute(sql, *each)
                count += int(done.rpartition(" ")[2])
        return count


@asynccontextmanager
async def keys_in_postgres(address: str) -> AsyncIterator[PostgresKeys]:
    """Connect to the store's schema; StoreRefused if that cannot be."""
    uri, schema = split_address(address)
    try:
        connection = await asyncpg.connect(uri, server_settings={"search_path": schema})
        try:
            await connection.execute("SELECT 1 FROM data_key LIMIT 1")
            yield PostgresKeys(connection)
        finally:
            await connection.close()
    except (OSError, asyncpg.PostgresError) as error:
        raise StoreRefused(f"{address}: {error}") from error
