"""The store in one SQLite file: write-ahead log, every commit on the disk before it is answered, one process only."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from dealer.cashier import Transfer
from dealer.store import FinishedHand, StoredTable, StoreFailed

_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE tables (id BLOB PRIMARY KEY, game TEXT NOT NULL, stakes TEXT NOT NULL, snapshot TEXT) WITHOUT ROWID;
CREATE TABLE journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    table_id BLOB NOT NULL REFERENCES tables (id),
    entry TEXT NOT NULL
);
CREATE TABLE ledger (number INTEGER PRIMARY KEY, debit TEXT NOT NULL, credit TEXT NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hands (
    table_id BLOB NOT NULL REFERENCES tables (id),
    hand INTEGER NOT NULL,
    players TEXT NOT NULL,
    history TEXT NOT NULL,
    receipt TEXT NOT NULL,
    PRIMARY KEY (table_id, hand)
);
"""
_CHANGE_BALANCE: Final = (
    "INSERT INTO accounts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET balance = balance + excluded.balance"
)


class SqliteStore:
    """`Store` in the file ``path``, which is made if it is not there. Raises StoreFailed if it is another's."""

    def __init__(self, path: Path) -> None:
        try:
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
        except sqlite3.Error as error:
            raise StoreFailed(f"store {path}: {error}") from error
        if version not in (0, _SCHEMA_VERSION):
            raise StoreFailed(f"store {path}: has the layout {version}, this dealer knows {_SCHEMA_VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreFailed(f"store: {error}") from error
        except BaseException:
            self._db.execute("ROLLBACK")
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
        return [self.table(table) for (table,) in self._db.execute("SELECT id FROM tables ORDER BY id").fetchall()]

    def table(self, table: bytes) -> StoredTable:
        """Return one table."""
        found = self._db.execute("SELECT game, stakes, snapshot FROM tables WHERE id = ?", (table,)).fetchone()
        if found is None:
            raise KeyError(table)
        game, stakes, snapshot = found
        rows = self._db.execute("SELECT entry FROM journal WHERE table_id = ? ORDER BY number", (table,))
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
        found = self._db.execute(
            f"SELECT hand, players, history, receipt FROM hands WHERE table_id = ? AND {which}",  # noqa: S608  (two fixed texts)
            (table, hand),
        ).fetchone()
        if found is None:
            raise KeyError(hand)
        number, players, history, receipt = found
        return FinishedHand(table, number, {int(s): p for s, p in json.loads(players).items()}, history, receipt)

    def balances(self) -> dict[str, int]:
        """Return the ledger's accounts."""
        return dict(self._db.execute("SELECT name, balance FROM accounts").fetchall())

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
