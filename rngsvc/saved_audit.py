"""Where an audit stopped, as a file: what a later run needs to go on as if there had been no break.

The file is read as strictly as everything else; whether the log still continues what was audited, the later run proves
anew (`rngsvc.audit`).
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rngsvc.findings import Check, Finding
from rngsvc.protocol.commitment import MAX_SEQ, TABLE_BYTES
from rngsvc.protocol.entries import MAX_ENTRY_BYTES
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.members import Array, Integer, Octets, Record, Row, Text, Word, load, member
from rngsvc.protocol.receipt import LogName
from rngsvc.protocol.signed_note import MAX_NOTE_CHARACTERS
from rngsvc.protocol.tiles import HASH_BYTES, WIDTH

FORMAT: Final = "rngsvc-audit/1"

_MANY: Final = 2**53 - 1
_INDEX: Final = Integer(0, _MANY)
_COUNTS: Final = Array(Row(Text(1, 100), Integer(0, _MANY)), 0, 1000)


@dataclass(frozen=True, kw_only=True)
class SavedEntry:
    """An entry that is still needed, and its place in the log."""

    index: int = member(_INDEX)
    entry: str = member(Text(1, MAX_ENTRY_BYTES))


@dataclass(frozen=True, kw_only=True)
class SavedTable:
    """A table; ``unclosed`` are the entries of its unclosed hands, those of ``spoilt`` ones up to the first finding.

    ``twin`` are the five counts of `rngsvc.monitor.TwinCount`, at a twin table.
    """

    table: SavedEntry = member(Record(SavedEntry))  # noqa: RUF009  (`member` declares a field)
    prev: bytes = member(Octets(HASH_BYTES))
    last_reserved: int = member(Integer(0, MAX_SEQ))
    last_closed: int = member(Integer(0, MAX_SEQ))
    last_closed_ms: int = member(_INDEX)
    at_stake: int = member(_INDEX)
    given_up: int = member(_INDEX)
    unclosed: tuple[SavedEntry, ...] = member(Array(Record(SavedEntry), 0, _MANY))
    spoilt: tuple[int, ...] = member(Array(Integer(1, MAX_SEQ), 0, _MANY))
    twin: tuple[int, ...] | None = member(Array(_INDEX, 5, 5), optional=True)


@dataclass(frozen=True, kw_only=True)
class SavedFinding:
    """A finding."""

    check: str = member(Word(tuple(Check)))
    index: int = member(_INDEX)
    message: str = member(Text(0, 10_000))
    table: bytes | None = member(Octets(TABLE_BYTES), optional=True)
    seq: int | None = member(Integer(1, MAX_SEQ), optional=True)

    @classmethod
    def of(cls, finding: Finding) -> "SavedFinding":
        """Return ``finding`` as it is saved; a message holds printable ASCII only."""
        message = ascii(finding.message)[1:-1][:10_000]
        return cls(check=finding.check, index=finding.index, message=message, table=finding.table, seq=finding.seq)

    def finding(self) -> Finding:
        """Return the finding."""
        return Finding(Check(self.check), self.index, self.message, self.table, self.seq)


@dataclass(frozen=True, kw_only=True)
class SavedAudit:
    """An audit of the first ``size`` entries of ``origin``'s log.

    ``first_key`` is the key that the audit began with and ``auditor`` the raw X25519 key that it opened escrows with.
    ``checkpoint`` is the newest one that was seen and verified. ``edge`` are the hashes at the tree's right edge: for
    each tile level, from the leaves up, those of its partial tile. ``key`` is the log's key, since ``key_since`` (ms);
    ``replaced`` are those before it, the newest last.
    """

    origin: str = member(LogName())
    first_key: bytes = member(Octets(32))
    auditor: bytes | None = member(Octets(32), optional=True)
    checkpoint: str | None = member(Text(1, MAX_NOTE_CHARACTERS, besides="\n—"), optional=True)
    size: int = member(_INDEX)
    edge: tuple[bytes, ...] = member(Array(Octets(0, HASH_BYTES * (WIDTH - 1)), 1, 8))
    key: bytes = member(Octets(32))
    replaced: tuple[bytes, ...] = member(Array(Octets(32), 0, _MANY))
    key_since: int = member(_INDEX)
    last_time: int = member(_INDEX)
    start_checked: int = member(Integer(0, 1))
    running_since: int = member(_INDEX)
    daily_late: int = member(Integer(0, 1))
    counts: tuple[tuple[str, int], ...] = member(_COUNTS)
    outcomes: tuple[tuple[str, int], ...] = member(_COUNTS)
    finding_count: int = member(_INDEX)
    findings: tuple[SavedFinding, ...] = member(Array(Record(SavedFinding), 0, _MANY))
    tables: tuple[SavedTable, ...] = member(Array(Record(SavedTable), 0, _MANY))

    @classmethod
    def read(cls, file: Path) -> "SavedAudit":
        """Read a file; OSError, or MalformedError that names the member that is wrong."""
        try:
            members = load(file.read_text(encoding="utf-8"), "state")
        except UnicodeDecodeError as error:
            raise MalformedError("state", "must be UTF-8") from error
        if not isinstance(members, dict) or members.pop("format", None) != FORMAT:
            raise MalformedError("format", f'must be "{FORMAT}"')
        saved = Record(cls).read(members, "")
        for level, hashes in enumerate(saved.edge):
            if len(hashes) != HASH_BYTES * (saved.size >> 8 * level) % (HASH_BYTES * WIDTH):
                raise MalformedError(f"edge[{level}]", f"must be the hashes of a tree of {saved.size} leaves")
        if saved.size >> 8 * len(saved.edge):
            raise MalformedError("edge", f"must have every level of a tree of {saved.size} leaves")
        return saved

    def write(self, file: Path) -> None:
        """Replace ``file`` durably and as a whole: after a crash the old or the new one is there. Raises OSError."""
        part = file.with_name(f"{file.name}.part")
        with part.open("w", encoding="utf-8") as out:
            json.dump({"format": FORMAT, **Record(SavedAudit).write(self)}, out, ensure_ascii=False)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def counted(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return counts in a fixed order."""
    return tuple(sorted(counts.items()))


def in_log_order(entries: Iterable[SavedEntry]) -> tuple[SavedEntry, ...]:
    """Return each entry once, by its place."""
    return tuple({each.index: each for each in sorted(entries, key=lambda entry: entry.index)}.values())
