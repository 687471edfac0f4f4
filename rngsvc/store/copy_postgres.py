"""PostgreSQL as source and destination of `rngsvc.store.copy`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from rngsvc.ports import StoreRefused
from rngsvc.store.address import split_address
from rngsvc.store.copy import COLUMNS, Destination, Rows, Source
from rngsvc.store.postgres import PostgresStore

_ROWS_AT_ONCE: Final = 1000


class _PostgresEnd:
    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]", schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        cursor = await self._connection.cursor(f"SELECT {', '.join(COLUMNS[table])} FROM {self._schema}.{table}")  # noqa: S608
        while rows := await cursor.fetch(_ROWS_AT_ONCE):
            yield [tuple(row) for row in rows]

    async def fill(self, table: str, rows: Rows) -> None:
        await self._connection.copy_records_to_table(
            table, records=rows, columns=COLUMNS[table], schema_name=self._schema
        )


@asynccontextmanager
async def from_postgres(address: str) -> AsyncIterator[Source]:
    """Read a PostgreSQL store as it is now; StoreRefused if that cannot be."""
    uri, schema = split_address(address)
    try:
        connection = await asyncpg.connect(uri)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield _PostgresEnd(connection, schema)
        finally:
            await connection.close()
    except (OSError, asyncpg.PostgresError) as error:
        raise StoreRefused(f"{address}: {error}") from error


@asynccontextmanager
async def into_postgres(address: str) -> AsyncIterator[Destination]:
    """Fill a new PostgreSQL store; StoreRefused if there is one already, or if it is in use."""
    store = PostgresStore(address)
    if await store.open() is not None:
        await store.close()
        raise StoreRefused(f"{address}: holds a log already")
    uri, schema = split_address(address)
    try:
        connection = await asyncpg.connect(uri)
        try:
            async with connection.transaction():
                yield _PostgresEnd(connection, schema)
        finally:
            await connection.close()
    except (OSError, asyncpg.PostgresError) as error:
        raise StoreRefused(f"{address}: {error}") from error
    finally:
        await store.close()
