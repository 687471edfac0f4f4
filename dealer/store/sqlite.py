"""The store in one SQLite file: write-ahead log, every commit on the disk before it is answered.

A lock file keeps a second dealer out. Readers are not kept out, so that a copy can be taken while the dealer runs.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dealer.cashier import Transfer
from dealer.store import FinishedHand, StoredTable, StoreFailed, StoreHeld, StoreLost
from dealer.store.migrations import layout_changes

_BUSY_S: Final = 5.0
# After these nobody knows what is on the disk, and asking again may give a wrong answer.
_DOUBTS: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# What every layout has.
_TABLES: Final = frozenset({"tables", "journal", "ledger", "accounts", "hands"})
_CHANGE_BALANCE: Final = (
    "INSERT INTO accounts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET balance = balance + excluded.balance"
)


class SqliteStore:
    """`Store` in the file ``path``, which is made if it is not there.

    ``lost`` is called once, with the reason, when what is on the disk is in doubt. Raises StoreHeld, StoreFailed.
    """

    def __init__(self, path: Path, lost: Callable[[str], object] = lambda _: None) -> None:
        self._path = path
        self._tell_lost = lost
        self._gone = ""
        self._lock = take_lock(path)
        try:
            self._open(path)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, path: Path) -> None:
        try:
            # It holds the cards of running hands.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise StoreFailed(f"store {path}: {error}") from error
        try:
            self._look_whose_it_is()
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            for number, sql in layout_changes("sqlite", version):
                self._db.executescript(f"BEGIN IMMEDIATE; {sql} PRAGMA user_version = {number}; COMMIT;")
        except (sqlite3.Error, StoreFailed) as error:
            self._db.close()
            raise StoreFailed(f"store {path}: {error}") from error

    def _look_whose_it_is(self) -> None:
        """Raise StoreFailed for a database of something else, before anything in it is changed."""
        made = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if made and not made >= _TABLES:
            raise StoreFailed("it is no dealer's store")

    @contextmanager
    def _doubted(self) -> Iterator[sqlite3.Connection]:
        if self._gone:
            raise StoreLost(self._gone)
        try:
            yield self._db
        except sqlite3.Error as error:
            said = f"store {self._path}: {error}"
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _DOUBTS:
                raise StoreFailed(said) from error
            self._gone = said
            self._tell_lost(str(error))
            raise StoreLost(said) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._doubted() as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException:
                # What cannot be rolled back was rolled back by SQLite, or will be when the file is opened next.
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def create(self, table: bytes, game: str, stakes: str) -> None:
        """Keep a new table."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO tables VALUES (?, ?, ?, NULL)", (table, game, stakes))
            known = db.execute("SELECT game, stakes FROM tables WHERE id = ?", (table,)).fetchone()
            if known != (game, stakes):
                raise ValueError("table: exists with other terms")

    def tables(self) -> list[StoredTable]:
        """Return all tables with their journals."""
        with self._doubted() as db:
            ids = db.execute("SELECT id FROM tables ORDER BY id").fetchall()
        return [self.table(table) for (table,) in ids]

    def table(self, table: bytes) -> StoredTable:
        """Return one table."""
        with self._doubted() as db:
            found = db.execute("SELECT game, stakes, snapshot FROM tables WHERE id = ?", (table,)).fetchone()
            rows = db.execute("SELECT entry FROM journal WHERE table_id = ? ORDER BY number", (table,)).fetchall()
        if found is None:
            raise KeyError(table)
        game, stakes, snapshot = found
        journal = tuple(json.loads(entry) for (entry,) in rows)
        return StoredTable(table, game, stakes, json.loads(snapshot) if snapshot else None, journal)

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        """Add to a table's journal and to the ledger."""
        with self._transaction() as db:
            db.executemany(
                "INSERT INTO journal (table_id, entry) VALUES (?, ?)",
                [(table, json.dumps(entry, separators=(",", ":"))) for entry in entries],
            )
            for transfer in transfers:
                db.execute("INSERT INTO ledger (debit, credit, amount) VALUES (?, ?, ?)", transfer)
                for change in ((transfer.debit, -transfer.amount), (transfer.credit, transfer.amount)):
                    db.execute(_CHANGE_BALANCE, change)

    def finish(self, hand: FinishedHand, snapshot: Mapping[str, Any]) -> None:
        """Keep a finished hand and the table's snapshot, and drop the journal that led to it."""
        with self._transaction() as db:
            row = (hand.table, hand.hand, json.dumps(hand.players), hand.history, hand.receipt)
            db.execute("INSERT OR REPLACE INTO hands VALUES (?, ?, ?, ?, ?)", row)
            db.execute("UPDATE tables SET snapshot = ? WHERE id = ?", (json.dumps(snapshot), hand.table))
            db.execute("DELETE FROM journal WHERE table_id = ?", (hand.table,))

    def finished(self, table: bytes, hand: int) -> FinishedHand:
        """Return a finished hand."""
        which = "hand = ?" if hand else "? = 0 ORDER BY hand DESC LIMIT 1"
        with self._doubted() as db:
            found = db.execute(
                f"SELECT hand, players, history, receipt FROM hands WHERE table_id = ? AND {which}",  # noqa: S608  (two fixed texts)
                (table, hand),
            ).fetchone()
        if found is None:
            raise KeyError(hand)
        number, players, history, receipt = found
        return FinishedHand(table, number, {int(s): p for s, p in json.loads(players).items()}, history, receipt)

    def balances(self) -> dict[str, int]:
        """Return the ledger's accounts."""
        with self._doubted() as db:
            return dict(db.execute("SELECT name, balance FROM accounts").fetchall())

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
        os.close(self._lock)


def take_lock(path: Path) -> int:
    """Take the lock file beside a store; it is free again when the descriptor is closed. Raises StoreHeld."""
    lock = path.with_name(path.name + ".lock")
    try:
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreFailed(f"store {path}: {error}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        raise StoreHeld(f"store {path}: another dealer holds {lock.name}") from error
    return held
