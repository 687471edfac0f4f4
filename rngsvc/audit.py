"""Audits a whole log from where it lies: a service's store, a folder of tiles, or a web address.

Every hash is computed again from the entries: each tile, the root, and with it the signature over it; every entry goes
through the monitor. One pass, in memory that grows with the tables and what is open at them, not with the log. It can
stop and go on later: then the log must prove that it continues what was audited, and what was seen of it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Final, Protocol
from urllib.error import HTTPError
from urllib.request import urlopen

from rngsvc.abort_rate import AbortLimit
from rngsvc.findings import Finding
from rngsvc.monitor import Examiner, GivenUp, Monitor, TwinCount, Unclosed
from rngsvc.protocol.checkpoint import Checkpoint, verify_checkpoint
from rngsvc.protocol.entries import OLD_KEY_MS
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import consistency_proof, leaf_hash, root_of, verify_consistency
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.tiles import HASH_BYTES, WIDTH, Tile, nodes_from_tiles, parse_bundle
from rngsvc.saved_audit import SavedAudit, SavedFinding, counted

FETCH_TIMEOUT_S: Final = 30.0
LISTED_FINDINGS: Final = 1000
LISTED_TABLES: Final = 20
SAVED_EVERY: Final = 65_536
_LARGEST_FILE: Final = WIDTH * (2 + 0xFFFF)


class SourceUnreadable(Exception):
    """The log, or a part of it, cannot be read: the audit is undecided."""


class LogSource(Protocol):
    """Where a log lies. All raise SourceUnreadable."""

    def checkpoint(self) -> str:
        """Return the newest signed checkpoint."""

    def entries(self, tile: Tile) -> list[bytes]:
        """Return the entries of an entry bundle."""

    def hashes(self, tile: Tile) -> bytes:
        """Return the bytes of a tile."""


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

    def hashes(self, tile: Tile) -> bytes:
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

    def hashes(self, tile: Tile) -> bytes:
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

    def hashes(self, tile: Tile) -> bytes:
        """Read a full tile; a partial one is not stored and made from what is below it."""
        if tile.width < WIDTH and tile.level == 0:
            return b"".join(map(leaf_hash, self.entries(Tile(None, tile.index, tile.width))))
        if tile.width < WIDTH:
            assert tile.level is not None, "an entry bundle has no hashes"
            below = [Tile(tile.level - 1, tile.index * WIDTH + i) for i in range(tile.width)]
            return b"".join(root_of(_split(self.hashes(each))) for each in below)
        rows = self._rows("SELECT hashes FROM tile WHERE level = ? AND number = ?", tile.level, tile.index)
        return bytes(rows[0][0]) if rows else b""

    def _rows(self, sql: str, *arguments: object) -> list[tuple[bytes]]:
        try:
            return self._connection.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise SourceUnreadable(str(error)) from error


def key_entries_in(source: LogSource, first: int, size: int) -> list[tuple[int, bytes]]:
    """Return index and bytes of what looks like a change of the log's key, from ``first`` on; all is read for it."""
    found = []
    for number in range(first // WIDTH, -(-size // WIDTH)):
        bundle = enumerate(source.entries(Tile.covering(None, number, size)), number * WIDTH)
        found += [(index, raw) for index, raw in bundle if index >= first and b'"type":"key"' in raw]
    return found


class _MissingError(SourceUnreadable):
    """A file that is not there."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: is not there")


def _split(hashes: bytes) -> list[bytes]:
    return [hashes[i : i + HASH_BYTES] for i in range(0, len(hashes), HASH_BYTES)]


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

    ``log_faults`` are about the log as a whole: a tile, the root, a signature, a history that it does not continue;
    ``evidence`` then holds the signed checkpoints that contradict each other. At most `LISTED_FINDINGS` of the
    ``finding_count`` findings are listed. ``counts`` are entries by type, ``outcomes`` hands, checks and verdicts;
    ``given_up`` the tables that gave up the most hands; ``twin`` what became of the hands of each twin table.
    """

    checkpoint: Checkpoint
    note: str
    log_faults: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    finding_count: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    tables: int = 0
    last_time: int = 0
    unclosed: list[Unclosed] = field(default_factory=list)
    given_up: list[GivenUp] = field(default_factory=list)
    twin: dict[bytes, TwinCount] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.log_faults and not self.finding_count

    def add(self, findings: Iterable[Finding]) -> None:
        """Count findings and list the first ones."""
        for finding in findings:
            self.finding_count += 1
            if len(self.findings) < LISTED_FINDINGS:
                self.findings.append(finding)


@dataclass(slots=True)
class Audit:
    """An audit of the log whose first key is ``key``.

    ``limit`` says how many hands may be given up. An ``examiner`` looks into closed hands; ``auditor`` is his raw
    X25519 key. ``progress`` is told how far the audit is, and the log's size.

    To go on later, ``save`` is given what `resume_from` of a later audit needs, every `SAVED_EVERY` entries and at the
    end; but not once the log as a whole has a fault.
    """

    key: NoteKey
    limit: AbortLimit = field(default_factory=AbortLimit)
    examiner: Examiner | None = None
    auditor: bytes | None = None
    progress: Callable[[int, int], None] = lambda _done, _total: None
    save: Callable[[SavedAudit], None] | None = None
    resume_from: SavedAudit | None = None

    def run(self, source: LogSource) -> Audited:
        """Audit the log in ``source``.

        Raises SourceUnreadable where something is missing, so that no verdict can be given; MalformedError or
        ProofError where ``resume_from`` is not of such an audit.
        """
        note = source.checkpoint()
        try:
            checkpoint = Checkpoint.parse(SignedNote.parse(note).text)
        except MalformedError as error:
            raise SourceUnreadable(f"checkpoint: {error}") from error
        audited = Audited(checkpoint, note)
        monitor, tiles = self._begun(source, audited)
        if self.resume_from and not _continues(self.resume_from, monitor, source, audited):
            return audited
        first = monitor.size
        for bundle in _bundles(first, checkpoint.size):
            entries = source.entries(bundle)
            if len(entries) != bundle.width:
                raise SourceUnreadable(f"{bundle.path}: has {len(entries)} entries, not {bundle.width}")
            new = entries[monitor.size - bundle.index * WIDTH :]
            for raw in new:
                audited.add(monitor.feed(raw))
            audited.add(monitor.signs)
            monitor.signs.clear()
            tiles.add([leaf_hash(raw) for raw in new])
            self.progress(monitor.size, checkpoint.size)
            if (bundle.index + 1) * WIDTH % SAVED_EVERY == 0:
                # This checkpoint's key may stand in an entry to come, so that it is not verified yet.
                self._save(monitor, tiles, audited, self.resume_from.checkpoint if self.resume_from else None)
        tiles.finish()
        self._check_head(monitor, audited)
        self._save(monitor, tiles, audited, note)
        audited.given_up, too_many = monitor.given_up(self.limit, LISTED_TABLES)
        audited.add([*monitor.overdue(), *too_many])
        audited.counts, audited.outcomes = dict(monitor.counts), dict(monitor.outcomes)
        audited.tables, audited.last_time = monitor.tables, monitor.last_time
        audited.unclosed, audited.twin = monitor.unclosed(), monitor.twin_tables()
        return audited

    def _begun(self, source: LogSource, audited: Audited) -> tuple[Monitor, "_TileCheck"]:
        saved = self.resume_from
        if saved is None:
            return Monitor(self.key, self.examiner), _TileCheck(source, audited)
        for member, now, then in (
            ("origin", self.key.name, saved.origin),
            ("first_key", self.key.public_key, saved.first_key),
            ("auditor", self.auditor, saved.auditor),
        ):
            if now != then:
                raise MalformedError(member, "must be what the audit began with")
        audited.findings = [each.finding() for each in saved.findings]
        audited.finding_count = saved.finding_count
        return Monitor.restored(saved, self.examiner), _TileCheck(source, audited, saved.size, saved.edge)

    def _check_head(self, monitor: Monitor, audited: Audited) -> None:
        """Check root and signatures, once every entry is known."""
        if monitor.root != audited.checkpoint.root:
            audited.log_faults.append("the entries do not give the signed root")
        keys = [monitor.key]
        if monitor.old_key and monitor.last_time <= monitor.key_since + OLD_KEY_MS:
            keys.append(monitor.old_key)
        for key in keys:
            try:
                # Each of them: neither does the old key's signature alone do, nor, for a time, the new one's.
                verify_checkpoint(audited.note, monitor.origin, [key])
            except (MalformedError, ProofError) as error:
                audited.log_faults.append(f"checkpoint, key {key.key_id.hex()}: {error}")

    def _save(self, monitor: Monitor, tiles: "_TileCheck", audited: Audited, seen: str | None) -> None:
        if self.save is None or audited.log_faults:
            return
        self.save(
            SavedAudit(
                origin=self.key.name,
                first_key=self.key.public_key,
                auditor=self.auditor,
                checkpoint=seen,
                size=monitor.size,
                edge=tiles.edge(),
                key=monitor.key.public_key,
                replaced=tuple(monitor.replaced),
                key_since=monitor.key_since,
                last_time=monitor.last_time,
                start_checked=int(monitor.self_checks.started),
                running_since=monitor.self_checks.running_since,
                daily_late=int(monitor.self_checks.late),
                counts=counted(monitor.counts),
                outcomes=counted(monitor.outcomes),
                finding_count=audited.finding_count,
                findings=tuple(map(SavedFinding.of, audited.findings)),
                tables=monitor.saved_tables(),
            )
        )


def _continues(saved: SavedAudit, monitor: Monitor, source: LogSource, audited: Audited) -> bool:
    """Check that the log continues what was audited of it, and the checkpoint that was seen then."""
    new = audited.checkpoint
    earlier = [(monitor.size, monitor.root)]
    if saved.checkpoint:
        seen = Checkpoint.parse(SignedNote.parse(saved.checkpoint).text)
        earlier.insert(0, (seen.size, seen.root))
    node = nodes_from_tiles(new.size, source.hashes)
    for size, root in earlier:
        try:
            if size > new.size:
                raise ProofError(f"the log had {size} entries when it was last seen, and now has {new.size}")
            if size:
                verify_consistency(size, root, new.size, new.root, consistency_proof(size, new.size, node))
        except (ProofError, MalformedError) as error:
            audited.log_faults.append(f"the log does not continue its first {size} entries as they were: {error}")
            audited.evidence = [*([saved.checkpoint] if saved.checkpoint else ()), audited.note]
            return False
    return True


def _bundles(first: int, size: int) -> Iterator[Tile]:
    for index in range(first // WIDTH, (size + WIDTH - 1) // WIDTH):
        yield Tile.covering(None, index, size)


class _TileCheck:
    """Builds every tile again from the leaves and compares it with the one that the source offers."""

    def __init__(self, source: LogSource, audited: Audited, size: int = 0, edge: Sequence[bytes] = (b"",)) -> None:
        self._source = source
        self._audited = audited
        self._pending = [_split(hashes) for hashes in edge]
        self._done = [size >> 8 * (level + 1) for level in range(len(edge))]

    def edge(self) -> tuple[bytes, ...]:
        """Return for each level the hashes of its partial tile."""
        return tuple(b"".join(hashes) for hashes in self._pending)

    def add(self, leaves: list[bytes]) -> None:
        """Take in the leaf hashes of one bundle."""
        self._pending[0] += leaves
        level = 0
        # A bundle never holds more than its tile has left.
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
        if self._source.hashes(tile) != b"".join(hashes):
            self._audited.log_faults.append(f"{tile.path}: does not hold the hashes of the entries")
