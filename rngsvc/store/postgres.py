"""The store for many machines: PostgreSQL, one schema a log (shard).

The writer is one session that holds an advisory lock for as long as it lives; when it ends, however it ends, a standby
gets the lock. Compare-and-swap on the head catches a writer that has lost its lock and does not know. A lost
connection is never mended: what became of its last commit is unknown, so the service stops and starts again.
"""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, cast

import asyncpg

from rngsvc.ports import Commit, Head, HeadMoved, SampleRow, StepRow, StoreHeld, StoreRefused, TableRow
from rngsvc.store.address import split_address
from rngsvc.store.migrations import migrations_after

_READERS: Final = 4
_GOODBYE_S: Final = 5.0
_STEP: Final = "seq, n, kind, position, secret, time, k, places"
# After so long without an answer to a write its outcome is unknown, and the writer must stop: the network to the server
# may be cut, and a standby on the other side of the cut may be the writer already.
_ANSWER_S: Final = 7.0
_MIGRATION_S: Final = 86_400.0
# A writer whose machine or network vanished is noticed after seven seconds, and its lock is free: by keepalives if the
# server was waiting for it, by the user timeout if an answer was on its way, which TCP would repeat for a quarter of
# an hour.
_SESSION: Final = {
    "application_name": "rngsvc",
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "7000",
}


class PostgresStore:
    """See `rngsvc.ports.Store`. ``address`` as `split_address` reads it; passwords come from the environment."""

    def __init__(self, address: str) -> None:
        self._uri, self._schema = split_address(address)
        self._writer: asyncpg.Connection[asyncpg.Record] | None = None
        self._readers: asyncpg.Pool[asyncpg.Record] | None = None
        self._at_work = asyncio.Lock()  # one session does one thing at a time

    # --- Taking and releasing ---

    async def open(self) -> Head | None:
        """Take the shard's lock, migrate its schema, and return its head."""
        try:
            writer = await asyncpg.connect(
                self._uri, command_timeout=_ANSWER_S, server_settings={**_SESSION, "search_path": self._schema}
            )
        except (OSError, asyncpg.PostgresError) as error:
            raise StoreRefused(f"PostgreSQL cannot be reached: {error}") from error
        self._writer = writer
        try:
            if not await writer.fetchval("SELECT pg_try_advisory_lock($1)", self._lock):
                raise StoreHeld(f"another process holds the lock of schema {self._schema}; a log has one writer")
            await self._migrate(writer)
            self._readers = await asyncpg.create_pool(
                self._uri,
                min_size=1,
                max_size=_READERS,
                server_settings={"search_path": self._schema, "default_transaction_read_only": "on"},
            )
            return await self._head(writer)
        except (OSError, asyncpg.PostgresError, ValueError) as error:
            await self.close()
            raise StoreRefused(f"PostgreSQL: {error}") from error
        except StoreRefused:
            await self.close()
            raise

    @property
    def _lock(self) -> int:
        """The shard's advisory lock, the same for everybody who names the same schema of a database."""
        return int.from_bytes(sha256(b"rngsvc/writer/" + self._schema.encode()).digest()[:8], "big", signed=True)

    async def _migrate(self, writer: "asyncpg.Connection[asyncpg.Record]") -> None:
        await writer.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        await writer.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
        version = await writer.fetchval("SELECT max(version) FROM schema_version") or 0
        for each in migrations_after("postgres", version):
            async with writer.transaction():
                await writer.execute(each.sql, timeout=_MIGRATION_S)
                await writer.execute("INSERT INTO schema_version VALUES ($1)", each.number)

    async def close(self) -> None:
        """End both sessions. The lock is free when it returns, and at the latest when the server notices the end."""
        readers, writer, self._readers, self._writer = self._readers, self._writer, None, None
        if readers:
            readers.terminate()
        if writer:
            try:
                await writer.execute("SELECT pg_advisory_unlock_all()", timeout=_GOODBYE_S)
                await writer.close(timeout=_GOODBYE_S)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                writer.terminate()  # the server, or the way to it, is gone

    # --- Writing ---

    async def commit(self, commit: Commit) -> None:
        """Write all of it in one transaction."""
        writer = self._writer
        assert writer, "open() comes first"
        try:
            async with self._at_work:
                await self._commit(writer, commit)
        except TimeoutError as error:
            raise TimeoutError(f"PostgreSQL has not answered a write for {_ANSWER_S:g} s") from error

    async def check(self) -> None:
        """Ask the session that holds the lock for an answer."""
        writer = self._writer
        assert writer, "open() comes first"
        try:
            async with self._at_work:
                await writer.execute("SELECT 1")
        except TimeoutError as error:
            raise TimeoutError(f"PostgreSQL has not answered for {_ANSWER_S:g} s") from error

    async def _commit(self, writer: "asyncpg.Connection[asyncpg.Record]", commit: Commit) -> None:
        transaction = writer.transaction()
        try:
            await transaction.start()
            await self._write(writer, commit)
        except HeadMoved:
            await transaction.rollback()
            raise
        except asyncpg.PostgresError as error:
            # The server has said no. If it still talks to us, nothing of this is stored and the lock is still ours.
            if writer.is_closed():
                raise
            await transaction.rollback()
            raise StoreRefused(str(error)) from error
        # What fails from here on leaves the outcome unknown.
        await transaction.commit()

    async def _write(self, writer: "asyncpg.Connection[asyncpg.Record]", commit: Commit) -> None:
        await self._swap_head(writer, commit)
        first = commit.expected.size if commit.expected else 0
        columns: dict[str, list[tuple[Any, ...]]] = {
            "entry (position bigint, kind text, entry bytea)": [
                (position, row.kind, row.entry) for position, row in enumerate(commit.entries, first)
            ],
            "tile (level integer, number bigint, hashes bytea)": [
                (tile.level, tile.number, tile.hashes) for tile in commit.tiles
            ],
            "card_table (card_table bytea, position bigint, owner text)": [
                (row.table, row.position, row.owner) for row in commit.tables
            ],
            "step (card_table bytea, seq bigint, n integer, kind text, position bigint, secret bytea, time bigint,"
            " k integer, places bytea)": [
                (row.table, row.seq, row.n, row.kind, row.position, row.secret, row.time, row.k, row.places)
                for row in commit.steps
            ],
            "data_key (card_table bytea, day bigint, wrapped bytea)": [
                (row.table, row.day, row.wrapped) for row in commit.data_keys
            ],
        }
        for declared, rows in columns.items():
            if rows:
                await writer.execute(_insert(declared), *map(list, zip(*rows, strict=True)))
        for row in commit.samples:
            await writer.execute(
                "INSERT INTO sample VALUES ($1, $2, $3) ON CONFLICT (sample_id) DO UPDATE SET sha256 = excluded.sha256",
                row.sample_id,
                row.position,
                row.sha256,
            )

    async def _swap_head(self, writer: "asyncpg.Connection[asyncpg.Record]", commit: Commit) -> None:
        new = (commit.head.size, commit.head.root, commit.head.checkpoint, commit.head.time)
        if commit.expected is None:
            done = await writer.execute("INSERT INTO head VALUES (1, $1, $2, $3, $4) ON CONFLICT DO NOTHING", *new)
        else:
            old = commit.expected
            done = await writer.execute(
                "UPDATE head SET size = $1, root = $2, checkpoint = $3, time = $4"
                " WHERE size = $5 AND root = $6 AND checkpoint = $7 AND time = $8",
                *new,
                old.size,
                old.root,
                old.checkpoint,
                old.time,
            )
        if not done.endswith(" 1"):
            raise HeadMoved("the head is another than the writer believes")

    # --- Reading ---

    async def entries(self, first: int, end: int) -> list[bytes]:
        """Return a run of entries."""
        rows = await self._read(
            "SELECT entry FROM entry WHERE position >= $1 AND position < $2 ORDER BY position", first, end
        )
        return [row[0] for row in rows]

    async def entries_at(self, positions: Sequence[int]) -> list[bytes]:
        """Return entries by position."""
        rows = await self._read("SELECT position, entry FROM entry WHERE position = ANY($1)", list(positions))
        found: dict[int, bytes] = {row[0]: row[1] for row in rows}
        return [found[position] for position in positions]

    async def tile(self, level: int, number: int) -> bytes:
        """Return a full tile."""
        rows = await self._read("SELECT hashes FROM tile WHERE level = $1 AND number = $2", level, number)
        if not rows:
            raise KeyError((level, number))
        return cast("bytes", rows[0][0])

    async def table(self, table: bytes) -> TableRow | None:
        """Return a table."""
        rows = await self._read("SELECT position, owner FROM card_table WHERE card_table = $1", table)
        return TableRow(table, *rows[0]) if rows else None

    async def tables_with_unclosed_hands(self) -> list[bytes]:
        """Return the tables whose newest hand is not closed."""
        rows = await self._read(
            """
            SELECT card_table FROM card_table AS t WHERE (
                SELECT kind FROM step WHERE step.card_table = t.card_table ORDER BY seq DESC, n DESC LIMIT 1
            ) <> 'close'
            """
        )
        return [row[0] for row in rows]

    async def sequence(self, table: bytes) -> tuple[int, int]:
        """Return last reserved and last closed."""
        rows = await self._read(
            """
            SELECT
                (SELECT max(seq) FROM step WHERE card_table = $1),
                (SELECT max(seq) FROM step WHERE card_table = $1 AND kind = 'close')
            """,
            table,
        )
        return rows[0][0] or 0, rows[0][1] or 0

    async def steps(self, table: bytes, first_seq: int, end_seq: int) -> list[StepRow]:
        """Return the steps of a run of hands."""
        rows = await self._read(
            f"SELECT {_STEP} FROM step WHERE card_table = $1 AND seq >= $2 AND seq < $3 ORDER BY seq, n",  # noqa: S608
            table,
            first_seq,
            end_seq,
        )
        return [StepRow(table, *row) for row in rows]

    async def last_steps(self, table: bytes, after_seq: int, limit: int) -> list[StepRow]:
        """Return the newest logged step of each hand of a run."""
        rows = await self._read(
            f"SELECT DISTINCT ON (seq) {_STEP} FROM step WHERE card_table = $1 AND seq > $2"  # noqa: S608
            " AND position IS NOT NULL ORDER BY seq, n DESC LIMIT $3",
            table,
            after_seq,
            limit,
        )
        return [StepRow(table, *row) for row in rows]

    async def data_key(self, table: bytes, day: int) -> bytes | None:
        """Return a wrapped data key."""
        rows = await self._read("SELECT wrapped FROM data_key WHERE card_table = $1 AND day = $2", table, day)
        return rows[0][0] if rows else None

    async def sample(self, sample_id: bytes) -> SampleRow | None:
        """Return a sample."""
        rows = await self._read("SELECT position, sha256 FROM sample WHERE sample_id = $1", sample_id)
        return SampleRow(sample_id, *rows[0]) if rows else None

    async def results(self, before: int, limit: int) -> list[int]:
        """Return positions of results, newest first."""
        rows = await self._read(
            "SELECT position FROM entry WHERE kind IN ('audit', 'integrity') AND position < $1"
            " ORDER BY position DESC LIMIT $2",
            before,
            limit,
        )
        return [row[0] for row in rows]

    async def key_entries(self) -> list[int]:
        """Return positions of changes of the log's key."""
        rows = await self._read("SELECT position FROM entry WHERE kind = 'key' ORDER BY position")
        return [row[0] for row in rows]

    async def _read(self, sql: str, *values: object) -> list[Any]:
        assert self._readers, "open() comes first"
        return list(await self._readers.fetch(sql, *values))

    @staticmethod
    async def _head(connection: "asyncpg.Connection[asyncpg.Record]") -> Head | None:
        row = await connection.fetchrow("SELECT size, root, checkpoint, time FROM head")
        return Head(*row) if row else None


def _insert(declared: str) -> str:
    """Return one statement that inserts columns of values into ``name (column type, ...)``."""
    name, _, columns = declared.rstrip(")").partition(" (")
    pairs = [column.split() for column in columns.split(", ")]
    names = ", ".join(column for column, _ in pairs)
    arrays = ", ".join(f"${i}::{kind}[]" for i, (_, kind) in enumerate(pairs, 1))
    return f"INSERT INTO {name} ({names}) SELECT * FROM unnest({arrays})"  # noqa: S608
