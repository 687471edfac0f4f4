"""The entries of the log: one record per type, its canonical bytes, and the strict way back.

An entry's bytes are canonical JSON (RFC 8785) without a newline. Since our values are only bounded integers,
lower-case hex, fixed words and arrays of these, sorted members without spaces are already canonical. What a member
means is written in `transparency-log.md`; `entry.schema.json` says the same to programs in other languages.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeAlias, cast

from rngsvc.protocol.commitment import (
    MAX_CONTRIBUTION_BYTES,
    MAX_CONTRIBUTOR_ID_BYTES,
    MAX_CONTRIBUTORS,
    MAX_HANDS_A_PROMISE,
    MAX_HANDS_A_RESERVE,
    MAX_ITEMS,
    MAX_SEQ,
    MAX_SHUFFLES,
    MAX_TTL_S,
    MIN_CONTRIBUTION_BYTES,
    MIN_TTL_S,
    SEED_BYTES,
    TABLE_BYTES,
)
from rngsvc.protocol.derivation import MAX_DRAWS, MAX_MODULUS, MAX_PURPOSE_BYTES, STREAM_BYTES
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.escrow import ESCROW_BYTES
from rngsvc.protocol.members import Array, Codec, Integer, Octets, Record, Row, Word, load, member, members_of
from rngsvc.protocol.octets import sha256
from rngsvc.protocol.signed_note import verify_ed25519

VERSION: Final = "rs1"
MAX_ENTRY_BYTES: Final = 65_535
NO_PREVIOUS: Final = bytes(32)  # `prev` of a table's first entry
OLD_KEY_MS: Final = 30 * 86_400_000  # for so long after a change the old key signs checkpoints too

MODES: Final = ("shoe", "full")
REVEALS: Final = ("public", "escrow")
OUTCOMES: Final = ("complete", "aborted", "lost")
# Why a hand was aborted: its time ran out, the dealer's mistake, too few players, the connection to the service was
# lost, the caller's own reasons, the byte stream was used up.
ABORT_REASONS: Final = ("expired", "misdeal", "players_left", "rng_lost", "caller", "exhausted")
# Why nothing can be revealed: the stored seed cannot be read, or the key that seals the seeds is gone.
LOST_REASONS: Final = ("seed_lost", "key_lost")
INTEGRITY_KINDS: Final = ("start", "daily")
SAMPLE_KINDS: Final = ("bits", "numbers", "shuffles")
VERDICTS: Final = ("pass", "fail", "undecided")

_MAX_INT: Final = 2**53 - 1
_TIME: Final = Integer(0, _MAX_INT)
_HASH: Final = Octets(32)
_KEY: Final = Octets(32)
_SIGNATURE: Final = Octets(64)
_SEQ: Final = Integer(1, MAX_SEQ)
_K: Final = Integer(0, MAX_SHUFFLES - 1)
_PLACE: Final = Integer(0, MAX_ITEMS - 1)
_ABSENT: Final = Array(Integer(0, MAX_CONTRIBUTORS - 1), 0, MAX_CONTRIBUTORS)
_CONTRIBUTOR: Final = Octets(1, MAX_CONTRIBUTOR_ID_BYTES)

Location: TypeAlias = tuple[int, int]
"""Shuffle j and place p in it."""
Opened: TypeAlias = tuple[int, int, tuple[int, ...]]
"""Time in ms, shuffle k and the places opened then."""


class _OptionalSeed(Codec[bytes]):
    """A contributed seed or choice, or nothing at all of a contributor who gave none."""

    _seed: ClassVar = Octets(MIN_CONTRIBUTION_BYTES, MAX_CONTRIBUTION_BYTES)

    def read(self, value: object, field: str) -> bytes:
        """Return what was given; b"" where nothing was."""
        return b"" if value == "" else self._seed.read(value, field)

    def write(self, value: bytes) -> str:
        """Return hex, "" where nothing was given."""
        return value.hex()


class _Promises(Codec[tuple[bytes, ...]]):
    """One contributor's row: his id, P and, at a twin table, Q."""

    _rows: ClassVar = {2: Row(_CONTRIBUTOR, _HASH), 3: Row(_CONTRIBUTOR, _HASH, _HASH)}

    def read(self, value: object, field: str) -> tuple[bytes, ...]:
        """Refuse anything but two or three values."""
        if not isinstance(value, list) or len(value) not in self._rows:
            raise MalformedError(field, "must be an array of 2, at a twin table of 3")
        return self._rows[len(value)].read(value, field)

    def write(self, value: tuple[bytes, ...]) -> list[str]:
        """Return the row in hex."""
        return self._rows[len(value)].write(value)

    def text(self, value: tuple[bytes, ...]) -> str:
        """Return the row's text."""
        return self._rows[len(value)].text(value)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """What every entry has: its time in ms since 1970, never below an earlier entry's."""

    type: ClassVar[str]
    time: int = member(_TIME)

    def members(self) -> dict[str, Any]:
        """Return the entry as a JSON object."""
        return {"v": VERSION, "type": self.type, **Record(type(self)).write(self)}

    def encode(self) -> bytes:
        """Return the canonical bytes, whose `merkle.leaf_hash` stands in the tree."""
        written = []
        for name, codec in _text_members(self.type):
            if codec is None:
                written.append(name)
            elif (value := getattr(self, name)) is not None:
                written.append(f'"{name}":{codec.text(value)}')
        return f"{{{','.join(written)}}}".encode("ascii")

    def check(self) -> None:
        """Raise MalformedError where the members do not go together."""


@dataclass(frozen=True, kw_only=True)
class _TableEntry(_Entry):
    """What every entry of a table has: the table, and the leaf hash of the table's entry before it."""

    table: bytes = member(Octets(TABLE_BYTES))
    prev: bytes = member(_HASH)


@dataclass(frozen=True, kw_only=True)
class TableEntry(_TableEntry):
    """Step 0. A table and what is fixed for it.

    ``auditor`` is his raw X25519 and Ed25519 key (escrow only), ``twin`` is 1 at a twin table and None at others.
    """

    type = "table"
    mode: str = member(Word(MODES))
    reveal: str = member(Word(REVEALS))
    ttl: int = member(Integer(MIN_TTL_S, MAX_TTL_S))
    auditor: tuple[bytes, bytes] | None = member(Row(_KEY, _KEY), optional=True)
    twin: int | None = member(Integer(1, 1), optional=True)

    def check(self) -> None:
        """Auditor keys exactly under escrow; a table's first entry has no previous one."""
        if (self.auditor is not None) != (self.reveal == "escrow"):
            raise MalformedError("auditor", "must be there under escrow, and only then")
        if self.prev != NO_PREVIOUS:
            raise MalformedError("prev", "must be 64 zeros in a table's first entry")


@dataclass(frozen=True, kw_only=True)
class ReserveEntry(_TableEntry):
    """Step 1. The commitments of hands ``first``, ``first`` + 1, ..; those of their second decks at a twin table."""

    type = "reserve"
    first: int = member(_SEQ)
    commitments: tuple[bytes, ...] = member(Array(_HASH, 1, MAX_HANDS_A_RESERVE))
    twin_commitments: tuple[bytes, ...] | None = member(Array(_HASH, 1, MAX_HANDS_A_RESERVE), optional=True)

    def commitments_of(self, seq: int) -> tuple[bytes, ...]:
        """Return hand ``seq``'s C, at a twin table that of deck 0 and that of deck 1."""
        listed = (self.commitments,) if self.twin_commitments is None else (self.commitments, self.twin_commitments)
        return tuple(each[seq - self.first] for each in listed)

    def check(self) -> None:
        """The last hand has a number too; a hand's two decks have different seeds."""
        _check_last_seq(self.first, len(self.commitments))
        if self.twin_commitments is None:
            return
        if len(self.twin_commitments) != len(self.commitments):
            raise MalformedError("twin_commitments", "must be as many as commitments")
        for i, (one, other) in enumerate(zip(self.commitments, self.twin_commitments, strict=True)):
            if one == other:
                raise MalformedError(f"twin_commitments[{i}]", "must differ from the commitment of deck 0")


@dataclass(frozen=True, kw_only=True)
class PromiseEntry(_TableEntry):
    """Step 2. For each hand from ``first`` on: (contributor id, P), at a twin table (id, P, Q), ascending by id."""

    type = "promise"
    first: int = member(_SEQ)
    promises: tuple[tuple[tuple[bytes, ...], ...], ...] = member(
        Array(Array(_Promises(), 0, MAX_CONTRIBUTORS), 1, MAX_HANDS_A_PROMISE)
    )

    @property
    def twin(self) -> bool | None:
        """Whether choices are promised too; None where nobody promises anything."""
        return next((len(row) == 3 for rows in self.promises for row in rows), None)

    def check(self) -> None:
        """Ids are distinct and ascend by bytes, a prefix first; either every row promises a choice or none."""
        _check_last_seq(self.first, len(self.promises))
        width = 3 if self.twin else 2
        for i, rows in enumerate(self.promises):
            if not _ascending(row[0] for row in rows):
                raise MalformedError(f"promises[{i}]", "must ascend strictly by contributor id")
            if any(len(row) != width for row in rows):
                raise MalformedError(f"promises[{i}]", "must promise choices as the first row does")


@dataclass(frozen=True, kw_only=True)
class SealEntry(_TableEntry):
    """Steps 5 and 7. Shuffle ``k`` of hand ``seq``: context HC_k, root R_k and the stream bytes ``used``.

    ``cr``, ``absent`` and ``pre`` belong to k = 0, ``inputs`` (the named locations) to a reshuffle. At a twin table
    k = 0 seals two decks: ``hc``, ``root`` and ``used`` are of deck 0, ``twin_hc`` and so on of deck 1.
    """

    type = "seal"
    seq: int = member(_SEQ)
    k: int = member(_K)
    n: int = member(Integer(1, MAX_ITEMS))
    hc: bytes = member(_HASH)
    root: bytes = member(_HASH)
    used: int = member(Integer(0, STREAM_BYTES))
    cr: bytes | None = member(_HASH, optional=True)
    absent: tuple[int, ...] | None = member(_ABSENT, optional=True)
    pre: bytes | None = member(_HASH, optional=True)
    inputs: tuple[Location, ...] | None = member(Array(Row(_K, _PLACE), 1, MAX_ITEMS), optional=True)
    twin_hc: bytes | None = member(_HASH, optional=True)
    twin_root: bytes | None = member(_HASH, optional=True)
    twin_used: int | None = member(Integer(0, STREAM_BYTES), optional=True)

    def deck(self, number: int) -> "SealEntry":
        """Return the entry as if it sealed deck ``number`` (0 or 1) alone."""
        if self.twin_hc is None or self.twin_root is None or self.twin_used is None:
            assert number == 0, "an ordinary hand has one deck"
            return self
        alone = replace(self, twin_hc=None, twin_root=None, twin_used=None)
        return replace(alone, hc=self.twin_hc, root=self.twin_root, used=self.twin_used) if number else alone

    def check(self) -> None:
        """The members of k = 0 or those of a reshuffle; everything ascending."""
        for name in ("cr", "absent", "pre"):
            if (getattr(self, name) is not None) != (self.k == 0):
                raise MalformedError(name, "must be there when k is 0, and only then")
        if (self.inputs is not None) != (self.k > 0):
            raise MalformedError("inputs", "must be there when k is 1 or more, and only then")
        for name in ("twin_hc", "twin_root", "twin_used"):
            if getattr(self, name) is not None and self.k > 0:
                raise MalformedError(name, "must be absent when k is 1 or more")
            if (getattr(self, name) is None) != (self.twin_hc is None):
                raise MalformedError(name, "must be there together with twin_hc")
        if self.absent is not None and not _ascending(self.absent):
            raise MalformedError("absent", "must ascend strictly")
        if self.inputs is not None:
            if not _ascending(self.inputs) or self.inputs[-1][0] >= self.k:
                raise MalformedError("inputs", "must ascend strictly and name earlier shuffles")
            if len(self.inputs) != self.n:
                raise MalformedError("n", "must be the number of inputs")


@dataclass(frozen=True, kw_only=True)
class ChooseEntry(_TableEntry):
    """Twin mode. The contributors' ``choices`` (b"" where none was given) make ``deck`` the one that is played.

    ``seed`` is the 48-byte hand seed of the other one.
    """

    type = "choose"
    seq: int = member(_SEQ)
    choices: tuple[bytes, ...] = member(Array(_OptionalSeed(), 0, MAX_CONTRIBUTORS))
    deck: int = member(Integer(0, 1))
    seed: bytes = member(Octets(SEED_BYTES))


@dataclass(frozen=True, kw_only=True)
class DrawEntry(_TableEntry):
    """Step 9. ``values``, numbers 0..m-1 drawn for ``purpose`` (ASCII bytes)."""

    type = "draw"
    seq: int = member(_SEQ)
    purpose: bytes = member(Octets(1, MAX_PURPOSE_BYTES))
    m: int = member(Integer(1, MAX_MODULUS))
    values: tuple[int, ...] = member(Array(Integer(0, MAX_MODULUS - 1), 1, MAX_DRAWS))
    hc: bytes = member(_HASH)
    cr: bytes = member(_HASH)
    absent: tuple[int, ...] = member(_ABSENT)
    pre: bytes = member(_HASH)

    def check(self) -> None:
        """ASCII purpose, values below m, absent ascending."""
        if not self.purpose.isascii():
            raise MalformedError("purpose", "must be ASCII")
        for i, value in enumerate(self.values):
            if value >= self.m:
                raise MalformedError(f"values[{i}]", "must be below m")
        if not _ascending(self.absent):
            raise MalformedError("absent", "must ascend strictly")


@dataclass(frozen=True, kw_only=True)
class CloseEntry(_TableEntry):
    """Step 8. How hand ``seq`` ended.

    ``opened`` (mode shoe) is what was opened when; ``seeds`` (sealed or drawn hands) every contributed seed, b"" for an
    absent one; ``seed`` or ``escrow`` the reveal of s, neither when it is lost. At a twin table s is the seed of the
    deck that was played; a hand without a choice reveals s of deck 0, and that of deck 1 as ``twin_seed`` or
    ``twin_escrow``.
    """

    type = "close"
    seq: int = member(_SEQ)
    outcome: str = member(Word(OUTCOMES))
    reason: str | None = member(Word(ABORT_REASONS + LOST_REASONS), optional=True)
    opened: tuple[Opened, ...] | None = member(
        Array(Row(_TIME, _K, Array(_PLACE, 1, MAX_ITEMS)), 0, MAX_SHUFFLES * MAX_ITEMS), optional=True
    )
    seeds: tuple[bytes, ...] | None = member(Array(_OptionalSeed(), 0, MAX_CONTRIBUTORS), optional=True)
    seed: bytes | None = member(Octets(SEED_BYTES), optional=True)
    escrow: bytes | None = member(Octets(ESCROW_BYTES), optional=True)
    twin_seed: bytes | None = member(Octets(SEED_BYTES), optional=True)
    twin_escrow: bytes | None = member(Octets(ESCROW_BYTES), optional=True)

    def check(self) -> None:
        """A reason that fits the outcome, one reveal unless lost, openings in order and no place opened twice."""
        reasons: Mapping[str, tuple[str, ...]] = {"aborted": ABORT_REASONS, "lost": LOST_REASONS}
        if self.outcome == "complete":
            if self.reason is not None:
                raise MalformedError("reason", "must be absent when the hand is complete")
        elif self.reason is None:
            raise MalformedError("reason", "is missing")
        elif self.reason not in reasons[self.outcome]:
            raise MalformedError("reason", f"must be one of {', '.join(reasons[self.outcome])}")
        if self.seed is not None and self.escrow is not None:
            raise MalformedError("escrow", "must be absent where the seed is shown")
        if (self.seed is None and self.escrow is None) != (self.outcome == "lost"):
            raise MalformedError("seed", "or escrow must be there, unless the hand is lost")
        for name, of_deck_0 in (("twin_seed", self.seed), ("twin_escrow", self.escrow)):
            if getattr(self, name) is not None and (of_deck_0 is None or self.outcome == "complete"):
                raise MalformedError(name, "must be revealed like the seed of deck 0, and not of a complete hand")
        self._check_opened()

    def _check_opened(self) -> None:
        seen: set[Location] = set()
        earlier = 0
        for i, (time, k, places) in enumerate(self.opened or ()):
            if not earlier <= time <= self.time:
                raise MalformedError(f"opened[{i}][0]", "must not be before the opening before it or after the close")
            if not _ascending(places):
                raise MalformedError(f"opened[{i}][2]", "must ascend strictly")
            if not seen.isdisjoint((k, p) for p in places):
                raise MalformedError(f"opened[{i}][2]", "must not name a place that was open already")
            seen.update((k, p) for p in places)
            earlier = time


@dataclass(frozen=True, kw_only=True)
class KeyEntry(_Entry):
    """The log's key changes from ``old`` to ``new`` (raw Ed25519); both sign, the old one first."""

    type = "key"
    old: bytes = member(_KEY)
    new: bytes = member(_KEY)
    sigs: tuple[bytes, bytes] = member(Row(_SIGNATURE, _SIGNATURE))

    @staticmethod
    def signed_bytes(origin: str, old: bytes, new: bytes) -> bytes:
        """Return what both keys sign."""
        return b"\x16" + b"rs1/key" + sha256(origin.encode("ascii")) + old + new

    def check(self) -> None:
        """A key follows another one."""
        if self.old == self.new:
            raise MalformedError("new", "must differ from old")

    def verify(self, origin: str) -> None:
        """Raise ProofError unless both keys agreed to the change in the log called ``origin``."""
        message = self.signed_bytes(origin, self.old, self.new)
        verify_ed25519(self.old, self.sigs[0], message, "the old key's signature in the key entry")
        verify_ed25519(self.new, self.sigs[1], message, "the new key's signature in the key entry")


@dataclass(frozen=True, kw_only=True)
class IntegrityEntry(_Entry):
    """A check of the service by itself: the code's manifest hash, and (report's SHA-256, verdict)."""

    type = "integrity"
    kind: str = member(Word(INTEGRITY_KINDS))
    code: bytes = member(_HASH)
    results: tuple[bytes, str] = member(Row(_HASH, Word(VERDICTS)))


@dataclass(frozen=True, kw_only=True)
class SampleEntry(_Entry):
    """A sample was asked for: ``id`` (1..64 bytes), ``count`` of what; logged before its first byte."""

    type = "sample"
    id: bytes = member(Octets(1, 64))
    kind: str = member(Word(SAMPLE_KINDS))
    count: int = member(Integer(1, _MAX_INT))


@dataclass(frozen=True, kw_only=True)
class AuditEntry(_Entry):
    """An auditor's verdict on the entries ``first`` to ``last`` (log indices); ``result`` is his report's hash."""

    type = "audit"
    first: int = member(Integer(0, _MAX_INT))
    last: int = member(Integer(0, _MAX_INT))
    result: bytes = member(_HASH)
    verdict: str = member(Word(VERDICTS))
    signer: bytes = member(_KEY)
    sig: bytes = member(_SIGNATURE)

    def signed_bytes(self) -> bytes:
        """Return what ``signer`` signs: the entry's canonical bytes without ``sig``."""
        members = self.members()
        del members["sig"]
        return canonical(members)

    def check(self) -> None:
        """The range runs forwards."""
        if self.first > self.last:
            raise MalformedError("last", "must not be below first")

    def verify(self) -> None:
        """Raise ProofError unless ``signer`` signed the entry."""
        verify_ed25519(self.signer, self.sig, self.signed_bytes(), "the auditor's signature")


Entry: TypeAlias = (
    TableEntry
    | ReserveEntry
    | PromiseEntry
    | SealEntry
    | ChooseEntry
    | DrawEntry
    | CloseEntry
    | KeyEntry
    | IntegrityEntry
    | SampleEntry
    | AuditEntry
)
HandEntry: TypeAlias = TableEntry | ReserveEntry | PromiseEntry | SealEntry | ChooseEntry | DrawEntry | CloseEntry
"""An entry that belongs to a table's chain."""

ENTRY_TYPES: Final[Mapping[str, type[Entry]]] = {
    kind.type: kind
    for kind in (
        TableEntry,
        ReserveEntry,
        PromiseEntry,
        SealEntry,
        ChooseEntry,
        DrawEntry,
        CloseEntry,
        KeyEntry,
        IntegrityEntry,
        SampleEntry,
        AuditEntry,
    )
}

_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode


@cache
def _text_members(kind: str) -> tuple[tuple[str, Codec[Any] | None], ...]:
    """Return the members of an entry of type ``kind`` in canonical order, each with its codec.

    Where there is none, the name is the whole text: it is the same in every entry of the type.
    """
    codecs: dict[str, tuple[str, Codec[Any] | None]] = {
        "v": (f'"v":"{VERSION}"', None),
        "type": (f'"type":"{kind}"', None),
        **{name: (name, codec) for name, (codec, _) in members_of(cast("Any", ENTRY_TYPES[kind])).items()},
    }
    return tuple(codecs[name] for name in sorted(codecs))


def canonical(members: Mapping[str, Any]) -> bytes:
    """Return the RFC 8785 bytes of an object of integers, ASCII strings without controls, and arrays of these."""
    return _encode(members).encode("ascii")


def parse_entry(raw: bytes) -> Entry:
    """Return the entry whose canonical bytes are ``raw``; MalformedError names the first member that is wrong."""
    if len(raw) > MAX_ENTRY_BYTES:
        raise MalformedError("entry", f"must be at most {MAX_ENTRY_BYTES} bytes")
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise MalformedError("entry", "must be ASCII") from error
    members = load(text, "")
    if not isinstance(members, dict):
        raise MalformedError("entry", "must be an object")
    if members.pop("v", None) != VERSION:
        raise MalformedError("v", f'must be "{VERSION}"')
    kind = members.pop("type", None)
    if not isinstance(kind, str) or kind not in ENTRY_TYPES:
        raise MalformedError("type", f"must be one of {', '.join(ENTRY_TYPES)}")
    entry: Entry = Record(ENTRY_TYPES[kind]).read(members, "")
    entry.check()
    if entry.encode() != raw:
        raise MalformedError("entry", "must be canonical: members sorted, no spaces, no escapes")
    return entry


def _check_last_seq(first: int, count: int) -> None:
    if first + count - 1 > MAX_SEQ:
        raise MalformedError("first", "must leave every hand a number up to 2**53-1")


def _ascending(values: Iterable[Any]) -> bool:
    """Say whether the values rise strictly."""
    return all(a < b for a, b in pairwise(values))
