"""Audits a whole log from where it lies: a service's store, a folder of tiles, or a web address.

Every hash is computed again from the entries: each tile, the root, and with it the signature over it; every entry goes
through the monitor. One pass, in constant memory.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Final, Protocol
from urllib.error import HTTPError
from urllib.request import urlopen

from rngsvc.monitor import Finding, Monitor, Unclosed
from rngsvc.protocol.checkpoint import Checkpoint, verify_checkpoint
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.tiles import HASH_BYTES, WIDTH, Tile, parse_bundle

FETCH_TIMEOUT_S: Final = 30.0
LISTED_FINDINGS: Final = 1000
_LARGEST_FILE: Final = WIDTH * (2 + 0xFFFF)


class SourceUnreadable(Exception):
    """The log, or a part of it, cannot be read: the audit is undecided."""


class LogSource(Protocol):
    """Where a log lies. All raise SourceUnreadable."""

    def checkpoint(self) -> str:
        """Return the newest signed checkpoint."""

    def entries(self, tile: Tile) -> list[bytes]:
        """Return the entries of an entry bundle."""

    def hashes(self, tile: Tile) -> bytes | None:
        """Return the bytes of a tile, None where this kind of source keeps none of that width."""


class TilesFolder:
    """A folder in the layout of C2SP tlog-tiles."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def checkpoint(self) -> str:
        """Read `checkpoint`."""
        return _text(self._read("checkpoint"))

    def entries(self, tile: Tile) -> list[bytes]:
        """Read an entry bundle, or the beginning of the full one that has replaced it."""
        return _entries(self._read, tile)

    def hashes(self, tile: Tile) -> bytes | None:
        """Read a tile, or the beginning of the full one that has replaced it."""
        return _hashes(self._read, tile)

    def _read(self, path: str) -> bytes:
        try:
            return (self._folder / path).read_bytes()
        except FileNotFoundError:
            raise _MissingError(path) from None
        except OSError as error:
            raise SourceUnreadable(f"{path}: {error.strerror}") from error


class TilesUrl:
    """The same layout under a web address."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError("url: must begin with http:// or https://")
        self._url = url.rstrip("/")

    def checkpoint(self) -> str:
        """Fetch `/checkpoint`."""
        return _text(self._read("checkpoint"))

    def cosigned_checkpoint(self) -> str:
        """Fetch `/cosigned-checkpoint`: the newest one that the log's quorum of witnesses has cosigned."""
        return _text(self._read("cosigned-checkpoint"))

    def entries(self, tile: Tile) -> list[bytes]:
        """Fetch an entry bundle, or the beginning of the full one that has replaced it."""
        return _entries(self._read, tile)

    def hashes(self, tile: Tile) -> bytes | None:
        """Fetch a tile, or the beginning of the full one that has replaced it."""
        return _hashes(self._read, tile)

    def _read(self, path: str) -> bytes:
        try:
            with urlopen(f"{self._url}/{path}", timeout=FETCH_TIMEOUT_S) as answer:  # noqa: S310  (http only: see above)
                content: bytes = answer.read(_LARGEST_FILE + 1)
        except HTTPError as error:
            if error.code == 404:
                raise _MissingError(path) from error
            raise SourceUnreadable(f"{path}: HTTP status {error.code}") from error
        except (OSError, HTTPException) as error:
            raise SourceUnreadable(f"{self._url}/{path}: {error}") from error
        if len(content) > _LARGEST_FILE:
            raise SourceUnreadable(f"{path}: is larger than any tile")
        return content


class StoreFile:
    """A service's SQLite store, read beside the running service."""

    def __init__(self, file: Path) -> None:
        try:
            self._connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
            self._connection.execute("SELECT size FROM head")
        except sqlite3.Error as error:
            raise SourceUnreadable(f"{file}: {error}") from error

    def checkpoint(self) -> str:
        """Read the head's checkpoint."""
        rows = self._rows("SELECT checkpoint FROM head")
        if not rows:
            raise SourceUnreadable("the store holds no log yet")
        return _text(bytes(rows[0][0]))

    def entries(self, tile: Tile) -> list[bytes]:
        """Read a run of entries."""
        first = tile.index * WIDTH
        rows = self._rows(
            "SELECT entry FROM entry WHERE position >= ? AND position < ? ORDER BY position", first, first + tile.width
        )
        return [bytes(entry) for (entry,) in rows]

    def hashes(self, tile: Tile) -> bytes | None:
        """Read a full tile; partial ones are not stored."""
        if tile.width < WIDTH:
            return None
        rows = self._rows("SELECT hashes FROM tile WHERE level = ? AND number = ?", tile.level, tile.index)
        return bytes(rows[0][0]) if rows else b""

    def _rows(self, sql: str, *arguments: object) -> list[tuple[bytes]]:
        try:
            return self._connection.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise SourceUnreadable(str(error)) from error


class _MissingError(SourceUnreadable):
    """A file that is not there."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: is not there")


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceUnreadable("checkpoint: is not UTF-8") from error


def _entries(read: Callable[[str], bytes], tile: Tile) -> list[bytes]:
    try:
        return parse_bundle(_exact_or_full(read, tile))[: tile.width]
    except MalformedError as error:
        raise SourceUnreadable(f"{tile.path}: {error}") from error


def _hashes(read: Callable[[str], bytes], tile: Tile) -> bytes:
    return _exact_or_full(read, tile)[: HASH_BYTES * tile.width]


def _exact_or_full(read: Callable[[str], bytes], tile: Tile) -> bytes:
    try:
        return read(tile.path)
    except _MissingError:
        if tile.width == WIDTH:
            raise
        return read(Tile(tile.level, tile.index).path)


@dataclass(slots=True)
class Audited:
    """The result of an audit: the log was audited up to ``checkpoint``; it passes if there are no ``findings``.

    ``log_faults`` are about the log as a whole: a tile, the root, the signature. At most `LISTED_FINDINGS` of the
    ``finding_count`` findings are listed. ``counts`` are entries by type, ``outcomes`` hands, checks and verdicts.
    """

    checkpoint: Checkpoint
    log_faults: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    finding_count: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    tables: int = 0
    last_time: int = 0
    unclosed: list[Unclosed] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.log_faults and not self.finding_count

    def add(self, findings: list[Finding]) -> None:
        """Count findings and list the first ones."""
        self.finding_count += len(findings)
        self.findings += findings[: LISTED_FINDINGS - len(self.findings)]


def audit(
    source: LogSource, key: NoteKey, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Audited:
    """Audit the log in ``source``, whose first key is ``key``; ``progress`` is told how far it is, and the log's size.

    Raises SourceUnreadable where something is missing, so that no verdict can be given.
    """
    note = source.checkpoint()
    try:
        checkpoint = Checkpoint.parse(SignedNote.parse(note).text)
    except MalformedError as error:
        raise SourceUnreadable(f"checkpoint: {error}") from error
    audited = Audited(checkpoint)
    monitor = Monitor(key)
    tiles = _TileCheck(source, audited)
    for bundle in _bundles(checkpoint.size):
        entries = source.entries(bundle)
        if len(entries) != bundle.width:
            raise SourceUnreadable(f"{bundle.path}: has {len(entries)} entries, not {bundle.width}")
        for raw in entries:
            audited.add(monitor.feed(raw))
        tiles.add([leaf_hash(raw) for raw in entries])
        progress(monitor.size, checkpoint.size)
    tiles.finish()
    if monitor.root != checkpoint.root:
        audited.log_faults.append("the entries do not give the signed root")
    try:
        # With the key that the log has come to have: an old one alone does not do.
        verify_checkpoint(note, monitor.origin, [monitor.key])
    except (MalformedError, ProofError) as error:
        audited.log_faults.append(f"checkpoint: {error}")
    audited.add(monitor.overdue())
    audited.counts, audited.outcomes = dict(monitor.counts), dict(monitor.outcomes)
    audited.tables, audited.last_time = monitor.tables, monitor.last_time
    audited.unclosed = monitor.unclosed()
    return audited


def _bundles(size: int) -> Iterator[Tile]:
    for index in range((size + WIDTH - 1) // WIDTH):
        yield Tile.covering(None, index, size)


class _TileCheck:
    """Builds every tile again from the leaves and compares it with the one that the source offers."""

    def __init__(self, source: LogSource, audited: Audited) -> None:
        self._source = source
        self._audited = audited
        self._pending: list[list[bytes]] = [[]]
        self._done: list[int] = [0]

    def add(self, leaves: list[bytes]) -> None:
        """Take in the leaf hashes of one bundle."""
        self._pending[0] += leaves
        level = 0
        while len(self._pending[level]) == WIDTH:
            hashes, self._pending[level] = self._pending[level], []
            self._compare(level, hashes)
            self._done[level] += 1
            level += 1
            if level == len(self._pending):
                self._pending.append([])
                self._done.append(0)
            self._pending[level].append(root_of(hashes))

    def finish(self) -> None:
        """Compare the partial tiles at the tree's edge."""
        for level, hashes in enumerate(self._pending):
            if hashes:
                self._compare(level, hashes)

    def _compare(self, level: int, hashes: list[bytes]) -> None:
        tile = Tile(level, self._done[level], len(hashes))
        offered = self._source.hashes(tile)
        if offered is not None and offered != b"".join(hashes):
            self._audited.log_faults.append(f"{tile.path}: does not hold the hashes of the entries")
