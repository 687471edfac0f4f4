"""What a witness remembers, in a SQLite file of its own: one row a log, replaced only by compare-and-swap."""

import sqlite3
from pathlib import Path

from rngsvc.witness import Seen


class WitnessStore:
    """See `rngsvc.witness.State`. ``path``'s folder must exist; several processes may share the file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            """
            CREATE TABLE IF NOT EXISTS seen (
                origin TEXT    PRIMARY KEY,
                size   INTEGER NOT NULL,
                root   BLOB    NOT NULL,
                note   TEXT    NOT NULL  -- the checkpoint with the log's signature and our cosignature
            ) STRICT
            """
        )

    def newest(self, origin: str) -> Seen | None:
        """Return the newest cosigned checkpoint of that log."""
        row = self._connection.execute("SELECT size, root, note FROM seen WHERE origin = ?", (origin,)).fetchone()
        return Seen(*row) if row else None

    def swap(self, origin: str, old: Seen | None, new: Seen) -> bool:
        """Replace the row if it is still ``old``; durable when it returns True."""
        if old is None:
            done = self._connection.execute(
                "INSERT INTO seen (origin, size, root, note) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (origin, new.size, new.root, new.note),
            )
        else:
            done = self._connection.execute(
                "UPDATE seen SET size = ?, root = ?, note = ? WHERE origin = ? AND size = ? AND root = ?",
                (new.size, new.root, new.note, origin, old.size, old.root),
            )
        return done.rowcount == 1

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
