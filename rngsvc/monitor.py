"""Checks a log from outside, entry by entry: entries in, findings out.

Pure and in constant memory but for what is open: a closed hand is forgotten. It trusts nothing that the service holds
beside the log. What needs secrets (that an escrowed seed gives its deck) is left to the auditor who has the key.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from rngsvc.frontier import Frontier
from rngsvc.protocol.entries import (
    AuditEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    HandEntry,
    IntegrityEntry,
    KeyEntry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError, ProofError, StreamExhaustedError
from rngsvc.protocol.merkle import leaf_hash
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.proven_hand import (
    ContextMismatch,
    ContributionMismatch,
    Placed,
    ProvenHand,
    RevealMismatch,
    StepMismatch,
    Unproven,
)

# The service closes what has expired in its next round; only much later is it a fault.
OVERDUE_GRACE_MS: Final = 600_000


class Check(StrEnum):
    """What was checked."""

    ENTRY = "entry"
    """Each entry is in the one accepted form."""
    TIME = "time"
    """Times never go back."""
    TABLE = "table"
    """A table is registered once, before anything else happens at it."""
    CHAIN = "chain"
    """Each entry of a table names the one before it."""
    SEQUENCE = "sequence"
    """Hands are reserved without gaps, with one commitment each, and sealed and closed in order."""
    STEP = "step"
    """Each entry of a hand is a legal step: promises before the seal, reshuffles of what is there, one close."""
    CONTEXT = "context"
    """What is sealed follows from the commitment, the promises, the contributions and the shuffle before."""
    MEMBERS = "members"
    """An entry's members agree with the hand's other entries, openings included."""
    REVEAL = "reveal"
    """What a close reveals gives commitment, promises, shuffles and numbers."""
    DEADLINE = "deadline"
    """Nothing happens after a hand's expiry, and nothing expires before it."""
    OVERDUE = "overdue"
    """No hand stays unclosed long after its expiry."""
    KEY = "key"
    """Each change of the log's key is signed by both keys, and follows the one before."""
    VERDICT = "verdict"
    """Each auditor's verdict is signed, and covers entries that were there."""


_CHECK_OF: Final[dict[type[Exception], Check]] = {
    StepMismatch: Check.STEP,
    ContextMismatch: Check.CONTEXT,
    ContributionMismatch: Check.CONTEXT,
    RevealMismatch: Check.REVEAL,
    StreamExhaustedError: Check.REVEAL,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong: the ``check`` that failed, at which log position, and what it found."""

    check: Check
    index: int
    message: str
    table: bytes | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Unclosed:
    """A hand that is open or reserved, and when it expires (ms since 1970 UTC); only the lowest of a table does."""

    table: bytes
    seq: int
    state: str
    expires_ms: int


@dataclass(slots=True)
class _Table:
    """What is remembered of a table: its newest entry, its unclosed hands."""

    placed: Placed
    terms: TableEntry
    prev: bytes
    last_reserved: int = 0
    last_closed: int = 0
    last_closed_ms: int = 0
    hands: dict[int, ProvenHand] = field(default_factory=dict)

    def expires_ms(self) -> int:
        """Step 8: when the lowest unclosed hand expires."""
        hand = self.hands[self.last_closed + 1]
        started = hand.draw.logged if hand.draw else hand.shuffles[0].logged if hand.shuffles else hand.reserve_entry
        return max(hand.reserve_entry.entry.time, self.last_closed_ms, started.entry.time) + 1000 * self.terms.ttl


class Monitor:
    """Follows one log from its first entry; ``key`` is its first key and names its origin.

    After `feed` of every entry, `root` is to be compared with the signed checkpoint, whose key is `key` by then.
    """

    def __init__(self, key: NoteKey) -> None:
        self.key = key
        self.origin = key.name
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.last_time = 0
        self._frontier = Frontier()
        self._tables: dict[bytes, _Table] = {}
        self._spoilt: set[tuple[bytes, int]] = set()

    @property
    def size(self) -> int:
        """How many entries were fed."""
        return self._frontier.size

    @property
    def root(self) -> bytes:
        """The root of the tree over them."""
        return self._frontier.root

    @property
    def tables(self) -> int:
        """How many tables were registered."""
        return len(self._tables)

    def feed(self, raw: bytes) -> list[Finding]:
        """Check the next entry; return what is wrong with it."""
        index, leaf = self.size, leaf_hash(raw)
        self._frontier.append(leaf)
        try:
            entry = parse_entry(raw)
        except MalformedError as error:
            return [Finding(Check.ENTRY, index, str(error))]
        self.counts[entry.type] += 1
        placed = Placed(index, raw, entry, leaf)
        findings = []
        if entry.time < self.last_time:
            findings.append(Finding(Check.TIME, index, f"{self.last_time - entry.time} ms before the entry before it"))
        self.last_time = max(self.last_time, entry.time)
        if isinstance(entry, HandEntry):
            return findings + self._at_table(placed, entry)
        return findings + self._of_the_log(placed, entry)

    # --- Entries of the log itself ---

    def _of_the_log(self, placed: Placed, entry: Entry) -> list[Finding]:
        try:
            match entry:
                case KeyEntry():
                    if entry.old != self.key.public_key:
                        return [Finding(Check.KEY, placed.index, "the old key is not the log's key")]
                    entry.verify(self.origin)
                    self.key = NoteKey(self.origin, entry.new)
                case AuditEntry():
                    if entry.last >= placed.index:
                        return [Finding(Check.VERDICT, placed.index, "it covers entries that were not there yet")]
                    entry.verify()
                    self.outcomes[f"audit {entry.verdict}"] += 1
                case IntegrityEntry():
                    self.outcomes[f"{entry.kind} integrity check {entry.results[1]}"] += 1
        except ProofError as error:
            return [Finding(Check.KEY if isinstance(entry, KeyEntry) else Check.VERDICT, placed.index, str(error))]
        return []

    # --- Entries of a table ---

    def _at_table(self, placed: Placed, entry: HandEntry) -> list[Finding]:
        table = self._tables.get(entry.table)
        if isinstance(entry, TableEntry):
            if table:
                return [Finding(Check.TABLE, placed.index, "registered a second time", entry.table)]
            self._tables[entry.table] = _Table(placed, entry, placed.leaf)
            return []
        if table is None:
            return [Finding(Check.TABLE, placed.index, "not registered", entry.table)]
        findings = []
        if entry.prev != table.prev:
            findings.append(Finding(Check.CHAIN, placed.index, "prev is not the table's entry before", entry.table))
        table.prev = placed.leaf
        match entry:
            case ReserveEntry():
                return findings + self._reserved(table, placed, entry)
            case PromiseEntry():
                seqs = range(entry.first, entry.first + len(entry.promises))
                return findings + [each for seq in seqs for each in self._step(table, placed, seq)]
            case SealEntry() | DrawEntry():
                return findings + self._in_order(table, placed, entry.seq) + self._step(table, placed, entry.seq)
            case CloseEntry():
                return findings + self._closed(table, placed, entry)

    def _reserved(self, table: _Table, placed: Placed, entry: ReserveEntry) -> list[Finding]:
        findings = []
        if entry.first != table.last_reserved + 1:
            text = f"reserved from {entry.first} where {table.last_reserved + 1} is next"
            findings.append(Finding(Check.SEQUENCE, placed.index, text, entry.table, entry.first))
        if len(set(entry.commitments)) != len(entry.commitments):
            findings.append(Finding(Check.SEQUENCE, placed.index, "one commitment for two hands", entry.table))
        for seq in range(max(entry.first, table.last_reserved + 1), entry.first + len(entry.commitments)):
            table.hands[seq] = ProvenHand(self.origin, table.placed, placed, seq)
            table.last_reserved = seq
        return findings

    def _in_order(self, table: _Table, placed: Placed, seq: int) -> list[Finding]:
        """Check that hand ``seq`` is its table's lowest unclosed one and has not expired."""
        if seq != table.last_closed + 1:
            text = f"hand {table.last_closed + 1} is not closed yet"
            return [Finding(Check.SEQUENCE, placed.index, text, table.terms.table, seq)]
        if seq in table.hands and placed.entry.time > table.expires_ms():
            return [Finding(Check.DEADLINE, placed.index, "the hand had expired", table.terms.table, seq)]
        return []

    def _step(self, table: _Table, placed: Placed, seq: int) -> list[Finding]:
        """Take the entry into its hand; a hand with a finding is not looked into any more, only closed."""
        hand = table.hands.get(seq)
        where = (table.terms.table, seq)
        if hand is None:
            state = "closed" if seq <= table.last_closed else "not reserved"
            return [Finding(Check.STEP, placed.index, f"the hand is {state}", *where)]
        if where in self._spoilt:
            return []
        try:
            hand.taken(placed)
        except (Unproven, MalformedError, StreamExhaustedError) as error:
            self._spoilt.add(where)
            return [Finding(_CHECK_OF.get(type(error), Check.MEMBERS), placed.index, str(error), *where)]
        return []

    def _closed(self, table: _Table, placed: Placed, entry: CloseEntry) -> list[Finding]:
        seq = entry.seq
        if entry.reason != "expired":
            findings = self._in_order(table, placed, seq) if entry.outcome != "lost" else []
        elif seq == table.last_closed + 1 and seq in table.hands and entry.time < table.expires_ms():
            text = "closed as expired before its time was up"
            findings = [Finding(Check.DEADLINE, placed.index, text, entry.table, seq)]
        else:
            findings = []
        findings += self._step(table, placed, seq)
        if table.hands.pop(seq, None):
            self.outcomes[f"hand {entry.outcome}"] += 1
        self._spoilt.discard((entry.table, seq))
        if seq > table.last_closed:
            table.last_closed, table.last_closed_ms = seq, entry.time
        return findings

    # --- At the end ---

    def unclosed(self) -> list[Unclosed]:
        """Return the lowest unclosed hand of every table that has one: no other can be overdue."""
        return [
            Unclosed(table, lowest, watched.hands[lowest].state, watched.expires_ms())
            for table, watched in self._tables.items()
            if (lowest := watched.last_closed + 1) in watched.hands
        ]

    def overdue(self) -> list[Finding]:
        """Return hands that should have been closed long before the log's last entry."""
        return [
            Finding(Check.OVERDUE, self.size - 1, "not closed long after its expiry", unclosed.table, unclosed.seq)
            for unclosed in self.unclosed()
            if unclosed.expires_ms + OVERDUE_GRACE_MS < self.last_time
        ]
