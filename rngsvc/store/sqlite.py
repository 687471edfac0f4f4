"""The store on one machine: SQLite in WAL mode with synchronous=FULL, so that a commit survives a power cut.

One writer thread owns one connection; a second thread with a read-only connection serves reads, which see only whole
commits. A lock file keeps a second process out; compare-and-swap on the head would catch one that came in all the same.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from rngsvc.ports import Commit, Head, HeadMoved, SampleRow, StepRow, StoreHeld, StoreRefused, TableRow
from rngsvc.store.migrations import migrations_after

_BUSY_TIMEOUT_S: Final = 5.0
_CHECKPOINT_PAGES: Final = 4000  # 16 MiB of WAL
_MOST_VARIABLES: Final = 500
T = TypeVar("T")

# Errors after which SQLite has certainly rolled back: the write never began or could not be made.
_REFUSALS: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_TOOBIG,
    }
)


class SqliteStore:
    """See `rngsvc.ports.Store`. ``path`` is the database file; its folder must exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sqlite-write")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="sqlite-read")
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None
        self._lock_fd: int | None = None

    # --- Taking and releasing ---

    async def open(self) -> Head | None:
        """Lock the file, migrate it, and return its head."""
        return await self._on(self._writer, self._open)

    def _open(self) -> Head | None:
        self._lock()
        try:
            # Seeds lie in it sealed, but who plays what is nobody's business either.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._write_connection = connection = self._connect(self._path.absolute().as_uri())
            _look_whose_it_is(connection)
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode != "wal":
                raise sqlite3.OperationalError("there is no write-ahead log on this kind of file system")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            _migrate(connection)
            self._read_connection = self._connect(f"{self._path.absolute().as_uri()}?mode=ro")
            return _head(connection)
        except (sqlite3.Error, OSError, ValueError) as error:
            self._release()
            raise StoreRefused(f"{self._path}: {error}") from error

    def _connect(self, uri: str) -> sqlite3.Connection:
        # The thread that closes may be another than the one that opened.
        return sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    def _lock(self) -> None:
        lock = self._path.with_name(self._path.name + ".lock")
        try:
            self._lock_fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._unlock()
            raise StoreHeld(f"{self._path}: another process holds {lock.name}; a log has one writer") from None
        except OSError as error:
            raise StoreRefused(f"{lock}: {error.strerror}") from error

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    async def check(self) -> None:
        """Do nothing: what is wrong with the disk shows at the next write, and nobody else writes before."""

    async def close(self) -> None:
        """Close both connections and let the lock go."""
        # Whatever was asked of either thread before is done first.
        self._reader.shutdown()
        self._writer.shutdown()
        self._release()

    def _release(self) -> None:
        for connection in (self._read_connection, self._write_connection):
            if connection:
                connection.close()
        self._read_connection = self._write_connection = None
        self._unlock()

    # --- Writing ---

    async def commit(self, commit: Commit) -> None:
        """Write all of it in one transaction."""
        await self._on(self._writer, lambda: self._commit(commit))

    def _commit(self, commit: Commit) -> None:
        connection = self._write_connection
        assert connection, "open() comes first"
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise StoreRefused(str(error)) from error
        try:
            if _head(connection) != commit.expected:
                raise HeadMoved("the head is another than the writer believes")
            _write(connection, commit)
        except BaseException as error:
            connection.rollback()
            if isinstance(error, sqlite3.Error):
                raise StoreRefused(str(error)) from error
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # With these the transaction is still open or rolled back, never committed. Anything else (an I/O error of
            # fsync above all) leaves it unknown what the disk has, and the caller must stop.
            if (error.sqlite_errorcode & 0xFF) in _REFUSALS:
                if connection.in_transaction:
                    connection.rollback()
                raise StoreRefused(str(error)) from error
            raise

    # --- Reading ---

    async def entries(self, first: int, end: int) -> list[bytes]:
        """Return a run of entries."""
        rows = await self._read(
            "SELECT entry FROM entry WHERE position >= ? AND position < ? ORDER BY position", first, end
        )
        return [entry for (entry,) in rows]

    async def entries_at(self, positions: Sequence[int]) -> list[bytes]:
        """Return entries by position."""
        found: dict[int, bytes] = {}
        for start in range(0, len(positions), _MOST_VARIABLES):
            wanted = positions[start : start + _MOST_VARIABLES]
            marks = ",".join("?" * len(wanted))
            found.update(await self._read(f"SELECT position, entry FROM entry WHERE position IN ({marks})", *wanted))  # noqa: S608
        return [found[position] for position in positions]

    async def tile(self, level: int, number: int) -> bytes:
        """Return a full tile."""
        rows = await self._read("SELECT hashes FROM tile WHERE level = ? AND number = ?", level, number)
        if not rows:
            raise KeyError((level, number))
        return bytes(rows[0][0])

    async def table(self, table: bytes) -> TableRow | None:
        """Return a table."""
        rows = await self._read("SELECT position, owner FROM card_table WHERE card_table = ?", table)
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
        return [table for (table,) in rows]

    async def sequence(self, table: bytes) -> tuple[int, int]:
        """Return last reserved and last closed."""
        rows = await self._read(
            """
            SELECT
                (SELECT seq FROM step WHERE card_table = ?1 ORDER BY seq DESC LIMIT 1),
                (SELECT seq FROM step WHERE card_table = ?1 AND kind = 'close' ORDER BY seq DESC, n DESC LIMIT 1)
            """,
            table,
        )
        return rows[0][0] or 0, rows[0][1] or 0

    async def steps(self, table: bytes, first_seq: int, end_seq: int) -> list[StepRow]:
        """Return the steps of a run of hands."""
        rows = await self._read(
            f"SELECT {_STEP} FROM step WHERE card_table = ? AND seq >= ? AND seq < ? ORDER BY seq, n",  # noqa: S608
            table,
            first_seq,
            end_seq,
        )
        return [StepRow(table, *row) for row in rows]

    async def last_steps(self, table: bytes, after_seq: int, limit: int) -> list[StepRow]:
        """Return the newest logged step of each hand of a run."""
        rows = await self._read(
            # With max(n), SQLite takes the other columns from the row that has the maximum.
            f"SELECT {_STEP.replace(' n,', ' max(n),')} FROM step"  # noqa: S608
            " WHERE card_table = ? AND seq > ? AND position IS NOT NULL GROUP BY seq ORDER BY seq LIMIT ?",
            table,
            after_seq,
            limit,
        )
        return [StepRow(table, *row) for row in rows]

    async def data_key(self, table: bytes, day: int) -> bytes | None:
        """Return a wrapped data key."""
        rows = await self._read("SELECT wrapped FROM data_key WHERE card_table = ? AND day = ?", table, day)
        return rows[0][0] if rows else None

    async def sample(self, sample_id: bytes) -> SampleRow | None:
        """Return a sample."""
        rows = await self._read("SELECT position, sha256 FROM sample WHERE sample_id = ?", sample_id)
        return SampleRow(sample_id, *rows[0]) if rows else None

    async def results(self, before: int, limit: int) -> list[int]:
        """Return positions of results, newest first."""
        rows = await self._read(
            "SELECT position FROM entry WHERE kind IN ('audit', 'integrity') AND position < ?"
            " ORDER BY position DESC LIMIT ?",
            before,
            limit,
        )
        return [position for (position,) in rows]

    async def key_entries(self) -> list[int]:
        """Return positions of changes of the log's key."""
        rows = await self._read("SELECT position FROM entry WHERE kind = 'key' ORDER BY position")
        return [position for (position,) in rows]

    async def _read(self, sql: str, *values: object) -> list[Any]:
        def read() -> list[Any]:
            assert self._read_connection, "open() comes first"
            return self._read_connection.execute(sql, values).fetchall()

        return await self._on(self._reader, read)

    async def _on(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, work)


_STEP: Final = "seq, n, kind, position, secret, time, k, places"


def _write(connection: sqlite3.Connection, commit: Commit) -> None:
    head = commit.head
    connection.execute(
        "INSERT OR REPLACE INTO head (one, size, root, checkpoint, time) VALUES (1, ?, ?, ?, ?)",
        (head.size, head.root, head.checkpoint, head.time),
    )
    first = commit.expected.size if commit.expected else 0
    rows: dict[str, Sequence[tuple[object, ...]]] = {
        "INSERT INTO entry (position, kind, entry) VALUES (?, ?, ?)": [
            (position, *row) for position, row in enumerate(commit.entries, first)
        ],
        "INSERT INTO tile (level, number, hashes) VALUES (?, ?, ?)": commit.tiles,
        "INSERT INTO card_table (card_table, position, owner) VALUES (?, ?, ?)": commit.tables,
        f"INSERT INTO step (card_table, {_STEP}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)": commit.steps,  # noqa: S608
        "INSERT INTO data_key (card_table, day, wrapped) VALUES (?, ?, ?)": commit.data_keys,
        "INSERT OR REPLACE INTO sample (sample_id, position, sha256) VALUES (?, ?, ?)": commit.samples,
    }
    for sql, values in rows.items():
        if values:
            connection.executemany(sql, values)


def _head(connection: sqlite3.Connection) -> Head | None:
    row = connection.execute("SELECT size, root, checkpoint, time FROM head").fetchone()
    return Head(*row) if row else None


def _look_whose_it_is(connection: sqlite3.Connection) -> None:
    """Raise ValueError for a newer store or one of something else, before anything in it is changed."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    migrations_after("sqlite", version)
    made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if made and not made >= {"head", "entry", "step"}:
        raise ValueError("it is no store of this service")


def _migrate(connection: sqlite3.Connection) -> None:
    """Apply the numbered migrations that the file does not have yet, each in a transaction of its own."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for each in migrations_after("sqlite", version):
        connection.executescript(f"BEGIN EXCLUSIVE;\n{each.sql}\nPRAGMA user_version = {each.number};\nCOMMIT;")
