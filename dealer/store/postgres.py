"""The store for a dealer with a standby: PostgreSQL, one schema a dealer.

One session does all reading and writing, and holds an advisory lock for as long as it lives; so nobody who has lost the
lock can write. When it ends, however it ends, a standby gets the lock. A lost session is never mended: what became of
its last commit is unknown, so the dealer stops and starts again.

The port's verbs return when things are durable, and the driver is asynchronous: so the session lives in an event loop
of its own thread, and whoever calls waits for it (docs/decisions/card-room.md).
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeVar

import asyncpg

from dealer.cashier import Transfer
from dealer.store import FinishedHand, StoredTable, StoreFailed, StoreHeld, StoreLost, StoreUnreachable
from dealer.store.migrations import layout_changes

CONNECT_S: Final = 10.0
COMMAND_S: Final = 10.0
HEARTBEAT_S: Final = 1.0
UNANSWERED_S: Final = 5.0
_GOODBYE_S: Final = 5.0
# The server notices within seven seconds that our machine vanished, and the lock is free: by keepalives if it was
# waiting for us, by the user timeout if an answer was on its way.
SESSION: Final = {
    "application_name": "dealer",
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "7000",
}
# What asking raises when the session ends in the middle of it; the last is asyncpg's word for words out of turn.
_BROKEN_OFF: Final = (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# What a server says that starts, stops or is full.
_NOT_NOW: Final = (
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresConnectionError,
    asyncpg.TooManyConnectionsError,
)

Connection = Any  # asyncpg has no types
T = TypeVar("T")


class PostgresStore:
    """`Store` in ``schema`` of the database at ``uri``; the schema is made if it is not there.

    ``lost`` is called once, from the store's thread, with the reason, when the session is gone. Raises StoreHeld,
    StoreUnreachable, StoreFailed. Passwords come from the environment.
    """

    def __init__(self, uri: str, schema: str, lost: Callable[[str], object] = lambda _: None) -> None:
        self._uri = uri
        self._schema = schema
        # While it opens, an exception says all there is to say.
        self._tell_lost: Callable[[str], object] = lambda _: None
        self._gone = ""
        self._session: Connection = None
        self._heart: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._journal = self._ledger = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres", daemon=True)
        self._thread.start()
        try:
            self._wait(self._open())
            self._tell_lost = lost
            if self._gone:
                raise StoreLost(f"PostgreSQL: {self._gone}")
        except StoreLost as error:
            self.close()
            raise StoreUnreachable(str(error)) from error
        except BaseException:
            self.close()
            raise

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # --- Taking and letting go

    async def _open(self) -> None:
        settings = {**SESSION, "search_path": self._schema}
        try:
            self._session = session = await asyncpg.connect(
                self._uri, timeout=CONNECT_S, command_timeout=COMMAND_S, server_settings=settings
            )
        except (OSError, *_NOT_NOW) as error:
            raise StoreUnreachable(f"PostgreSQL cannot be reached: {error}") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise StoreFailed(f"PostgreSQL: {error}") from error
        if not await self._reading(lambda db: db.fetchval("SELECT pg_try_advisory_lock($1)", lock_of(self._schema))):
            raise StoreHeld(f"another dealer holds the lock of schema {self._schema}")
        await self._reading(lambda db: db.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}"))
        await self._reading(lambda db: db.execute("CREATE TABLE IF NOT EXISTS layout (number INTEGER NOT NULL)"))
        known = await self._reading(lambda db: db.fetchval("SELECT coalesce(max(number), 0) FROM layout"))
        for number, sql in layout_changes("postgres", known):

            async def change(db: Connection, number: int = number, sql: str = sql) -> None:
                await db.execute(sql)
                await db.execute("INSERT INTO layout VALUES ($1)", number)

            await self._writing(change)
        last = "SELECT (SELECT coalesce(max(number), 0) FROM journal), (SELECT coalesce(max(number), 0) FROM ledger)"
        self._journal, self._ledger = await self._reading(lambda db: db.fetchrow(last))
        self._heart = asyncio.create_task(self._beat(session.get_server_pid()))

    async def _beat(self, session: int) -> None:
        """Notice that the session is gone when nobody writes."""
        try:
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                answers = await self._reading(lambda db: db.fetchval("SELECT pg_backend_pid()", timeout=UNANSWERED_S))
                if answers != session:  # something between us shares sessions out, and the lock is anybody's
                    self._lose(f"session {answers} answers for {session}")
        except StoreFailed:
            pass

    def close(self) -> None:
        """End the session. The lock is free when it returns, or at the latest when the server notices."""
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        async with self._turn:
            self._gone = self._gone or "it is closed"
            if self._heart:
                self._heart.cancel()
                await asyncio.wait([self._heart])
            if self._session is None:
                return
            try:
                await self._session.execute("SELECT pg_advisory_unlock_all()", timeout=_GOODBYE_S)
                await self._session.close(timeout=_GOODBYE_S)
            except (*_BROKEN_OFF, asyncpg.PostgresError):
                self._session.terminate()

    # --- Doubt

    def _lose(self, why: str) -> StoreLost:
        """Give the session up for good."""
        if not self._gone:
            self._gone = why
            self._session.terminate()
            self._tell_lost(why)
        return StoreLost(f"PostgreSQL: {self._gone}")

    async def _reading(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        async with self._turn:
            return await self._asked(ask)

    async def _asked(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Ask the server. Raises StoreFailed if it refuses, StoreLost if it cannot be understood any more."""
        if self._gone:
            raise StoreLost(f"PostgreSQL: {self._gone}")
        try:
            return await ask(self._session)
        except asyncpg.PostgresError as error:
            if self._session.is_closed() or isinstance(error, _NOT_NOW):
                raise self._lose(str(error)) from error
            raise StoreFailed(f"PostgreSQL: {error}") from error
        except _BROKEN_OFF as error:
            raise self._lose(f"{type(error).__name__}: {error}") from error

    async def _writing(self, write: Callable[[Connection], Awaitable[None]]) -> None:
        """Write in one transaction. After StoreFailed nothing of it is stored; after StoreLost nobody knows."""
        async with self._turn:
            await self._asked(lambda db: db.execute("BEGIN"))
            try:
                await self._asked(write)
            except (StoreFailed, ValueError):
                if not self._gone:
                    await self._surely("ROLLBACK")
                raise
            await self._surely("COMMIT")

    async def _surely(self, end: str) -> None:
        try:
            await self._asked(lambda db: db.execute(end))
        except StoreFailed as error:
            raise self._lose(f"{end}: {error}") from error

    # --- The verbs

    def create(self, table: bytes, game: str, stakes: str) -> None:
        """Keep a new table."""

        async def write(db: Connection) -> None:
            await db.execute("INSERT INTO tables VALUES ($1, $2, $3, NULL) ON CONFLICT DO NOTHING", table, game, stakes)
            known = await db.fetchrow("SELECT game, stakes FROM tables WHERE id = $1", table)
            if tuple(known) != (game, stakes):
                raise ValueError("table: exists with other terms")

        self._wait(self._writing(write))

    def tables(self) -> list[StoredTable]:
        """Return all tables with their journals."""
        return self._tables("TRUE")

    def table(self, table: bytes) -> StoredTable:
        """Return one table."""
        found = self._tables("tables.id = $1", table)
        if not found:
            raise KeyError(table)
        return found[0]

    def _tables(self, which: str, *values: bytes) -> list[StoredTable]:
        journal = "SELECT array_agg(entry ORDER BY number) FROM journal WHERE table_id = tables.id"
        sql = f"SELECT id, game, stakes, snapshot, ({journal}) FROM tables WHERE {which} ORDER BY id"  # noqa: S608  (fixed texts)
        return [
            StoredTable(
                table, game, stakes, json.loads(snapshot) if snapshot else None, tuple(map(json.loads, entries or ()))
            )
            for table, game, stakes, snapshot, entries in self._wait(self._reading(lambda db: db.fetch(sql, *values)))
        ]

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        """Add to a table's journal and to the ledger."""
        texts = [json.dumps(entry, separators=(",", ":")) for entry in entries]
        moved = list(transfers)
        changes: Counter[str] = Counter()
        for transfer in moved:
            changes[transfer.debit] -= transfer.amount
            changes[transfer.credit] += transfer.amount
        # Numbers of a write that fails are left out; only their order means something.
        first, self._journal = self._journal + 1, self._journal + len(texts)
        booked, self._ledger = self._ledger + 1, self._ledger + len(moved)

        async def write(db: Connection) -> None:
            numbers = list(range(first, first + len(texts)))
            await db.execute(
                "INSERT INTO journal SELECT $1::bytea, * FROM unnest($2::bigint[], $3::text[])", table, numbers, texts
            )
            if moved:
                numbers = list(range(booked, booked + len(moved)))
                columns = map(list, zip(*moved, strict=True))
                rows = "unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])"
                await db.execute(f"INSERT INTO ledger SELECT * FROM {rows}", numbers, *columns)  # noqa: S608  (a fixed text)
                await db.execute(
                    "INSERT INTO accounts SELECT * FROM unnest($1::text[], $2::bigint[])"
                    " ON CONFLICT (name) DO UPDATE SET balance = accounts.balance + excluded.balance",
                    list(changes),
                    list(changes.values()),
                )

        self._wait(self._writing(write))

    def finish(self, hand: FinishedHand, snapshot: Mapping[str, Any]) -> None:
        """Keep a finished hand and the table's snapshot, and drop the journal that led to it."""

        async def write(db: Connection) -> None:
            await db.execute(
                "INSERT INTO hands VALUES ($1, $2, $3, $4, $5) ON CONFLICT (table_id, hand) DO UPDATE"
                " SET players = excluded.players, history = excluded.history, receipt = excluded.receipt",
                hand.table,
                hand.hand,
                json.dumps(hand.players),
                hand.history,
                hand.receipt,
            )
            await db.execute("UPDATE tables SET snapshot = $2 WHERE id = $1", hand.table, json.dumps(snapshot))
            await db.execute("DELETE FROM journal WHERE table_id = $1", hand.table)

        self._wait(self._writing(write))

    def finished(self, table: bytes, hand: int) -> FinishedHand:
        """Return a finished hand."""
        sql = (
            "SELECT hand, players, history, receipt FROM hands WHERE table_id = $1 AND ($2 = 0 OR hand = $2)"
            " ORDER BY hand DESC LIMIT 1"
        )
        found = self._wait(self._reading(lambda db: db.fetchrow(sql, table, hand)))
        if found is None:
            raise KeyError(hand)
        number, players, history, receipt = found
        return FinishedHand(table, number, {int(s): p for s, p in json.loads(players).items()}, history, receipt)

    def balances(self) -> dict[str, int]:
        """Return the ledger's accounts."""
        return dict(self._wait(self._reading(lambda db: db.fetch("SELECT name, balance FROM accounts"))))


def lock_of(schema: str) -> int:
    """Return the advisory lock of a dealer, the same for everybody who names this schema of the database."""
    return int.from_bytes(sha256(b"dealer/" + schema.encode()).digest()[:8], "big", signed=True)
