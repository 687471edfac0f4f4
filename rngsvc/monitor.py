"""Checks a log from outside, entry by entry: entries in, findings out.

Pure and in constant memory but for what is open: a closed hand is forgotten. It trusts nothing that the service holds
beside the log. What needs secrets (that an escrowed seed gives its deck) is left to the auditor who has the key.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Final, Protocol

from rngsvc.abort_rate import AbortLimit
from rngsvc.findings import Check, Finding
from rngsvc.frontier import Frontier
from rngsvc.protocol.entries import (
    AuditEntry,
    ChooseEntry,
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
from rngsvc.protocol.merkle import leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tiles import HASH_BYTES
from rngsvc.proven_hand import (
    ChoiceMismatch,
    ContextMismatch,
    ContributionMismatch,
    Placed,
    ProvenHand,
    RevealMismatch,
    StepMismatch,
    TwinMismatch,
    Unproven,
    entry_of,
)
from rngsvc.saved_audit import SavedAudit, SavedEntry, SavedTable, in_log_order
from rngsvc.self_checks import SelfChecks

# The service closes what has expired in its next round; only much later is it a fault.
OVERDUE_GRACE_MS: Final = 600_000

_CHECK_OF: Final[dict[type[Exception], Check]] = {
    StepMismatch: Check.STEP,
    ContextMismatch: Check.CONTEXT,
    ContributionMismatch: Check.CONTEXT,
    ChoiceMismatch: Check.CHOICE,
    TwinMismatch: Check.TWIN,
    RevealMismatch: Check.REVEAL,
    StreamExhaustedError: Check.REVEAL,
}


@dataclass(frozen=True, slots=True)
class Unclosed:
    """A hand that is open or reserved, and when it expires (ms since 1970 UTC); only the lowest of a table does."""

    table: bytes
    seq: int
    state: str
    expires_ms: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How many hands of a table that were promised, sealed or drawn are closed, and how many of them were given up.

    Under ``p_value`` stands how likely as many are by chance, where that is too unlikely; else None.
    """

    table: bytes
    closed: int
    given_up: int
    p_value: float | None


@dataclass(slots=True)
class TwinCount:
    """What became of a twin table's sealed hands, once they are closed; those with a finding are told as that.

    ``decided`` ones had a choice between their decks, ``by_nobody`` of them without any contributor's; ``unchosen``
    ones ended without. ``choices`` were promised in the decided ones, ``missing`` of them not given.
    """

    decided: int = 0
    by_nobody: int = 0
    unchosen: int = 0
    choices: int = 0
    missing: int = 0

    def add(self, hand: ProvenHand) -> None:
        """Count a hand that is closed now."""
        if hand.choice:
            self.decided += 1
            self.by_nobody += not hand.choice.given
            self.choices += len(hand.choice.choices)
            self.missing += len(hand.choice.choices) - hand.choice.given
        elif hand.seal_entry:
            self.unchosen += 1


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examiner made of a closed hand: one word for the statistics, and each check that failed with its text."""

    outcome: str
    faults: Sequence[tuple[Check, str]] = ()


class Examiner(Protocol):
    """Who can look into closed hands: an auditor with his keys."""

    def examine(self, hand: ProvenHand) -> Examined:
        """Look into a closed hand that is in order as far as the public can see."""


@dataclass(slots=True)
class _Table:
    """What is remembered of a table: its newest entry, its unclosed hands, and how many hands were given up."""

    placed: Placed
    terms: TableEntry
    prev: bytes
    last_reserved: int = 0
    last_closed: int = 0
    last_closed_ms: int = 0
    at_stake: int = 0
    given_up: int = 0
    hands: dict[int, ProvenHand] = field(default_factory=dict)
    spoilt: set[int] = field(default_factory=set)
    twin: TwinCount = field(default_factory=TwinCount)

    def expires_ms(self) -> int:
        """Step 8: when the lowest unclosed hand expires."""
        hand = self.hands[self.last_closed + 1]
        started = hand.start_entry or hand.reserve_entry
        return max(hand.reserve_entry.entry.time, self.last_closed_ms, started.entry.time) + 1000 * self.terms.ttl

    def saved(self) -> SavedTable:
        """Return the table as it is saved."""
        kept = [entry for hand in self.hands.values() for entry in hand.entries]
        return SavedTable(
            table=_saved(self.placed),
            prev=self.prev,
            last_reserved=self.last_reserved,
            last_closed=self.last_closed,
            last_closed_ms=self.last_closed_ms,
            at_stake=self.at_stake,
            given_up=self.given_up,
            unclosed=in_log_order(map(_saved, kept)),
            spoilt=tuple(sorted(self.spoilt)),
            twin=astuple(self.twin) if self.terms.twin else None,
        )

    @classmethod
    def restored(cls, saved: SavedTable, origin: str) -> "_Table":
        """Return the table that was saved; MalformedError or Unproven if it cannot have been."""
        placed = _restored(saved.table)
        terms = entry_of(placed, TableEntry)
        table = cls(placed, terms, saved.prev, saved.last_reserved, saved.last_closed, saved.last_closed_ms)
        table.at_stake, table.given_up, table.spoilt = saved.at_stake, saved.given_up, set(saved.spoilt)
        table.twin = TwinCount(*saved.twin or ())
        for each in map(_restored, saved.unclosed):
            if isinstance(each.entry, ReserveEntry):
                for seq in _seqs_of(each.entry):
                    if seq > saved.last_closed:
                        table.hands.setdefault(seq, ProvenHand(origin, placed, each, seq))
                continue
            for seq in _seqs_of(each.entry):
                try:
                    if seq in table.hands:
                        table.hands[seq].taken(each)
                except Unproven:
                    if seq not in table.spoilt:
                        raise
        return table


class Monitor:
    """Follows one log from its first entry; ``key`` is its first key and names its origin.

    After `feed` of every entry, `root` is to be compared with the signed checkpoint, whose key is `key` by then, and
    ``signs`` holds what is wrong with the service's checks of itself. An ``examiner`` looks into every closed hand too.
    """

    def __init__(self, key: NoteKey, examiner: Examiner | None = None) -> None:
        self.key = key
        self.replaced: list[bytes] = []
        self.key_since = 0
        self.origin = key.name
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.last_time = 0
        self.self_checks = SelfChecks()
        self.signs: list[Finding] = []
        self._examiner = examiner
        self._frontier = Frontier()
        self._tables: dict[bytes, _Table] = {}

    def saved_tables(self) -> tuple[SavedTable, ...]:
        """Return all tables as they are saved."""
        return tuple(table.saved() for table in self._tables.values())

    @classmethod
    def restored(cls, saved: SavedAudit, examiner: Examiner | None = None) -> "Monitor":
        """Return the monitor that had fed all that was audited; MalformedError or Unproven if there was none."""
        monitor = cls(NoteKey(saved.origin, saved.key), examiner)
        monitor.replaced = list(saved.replaced)
        monitor.key_since, monitor.last_time = saved.key_since, saved.last_time
        monitor.counts, monitor.outcomes = Counter(dict(saved.counts)), Counter(dict(saved.outcomes))
        monitor.self_checks = SelfChecks(
            started=bool(saved.start_checked),
            running_since=saved.running_since,
            late=bool(saved.daily_late),
            last_time=saved.last_time if saved.size else -1,
        )
        monitor._frontier = Frontier(saved.size, peaks_of(saved.size, saved.edge))
        for each in saved.tables:
            table = _Table.restored(each, saved.origin)
            monitor._tables[table.terms.table] = table
        return monitor

    @property
    def old_key(self) -> NoteKey | None:
        """The log's key before the one that it has, None if there was none."""
        return NoteKey(self.origin, self.replaced[-1]) if self.replaced else None

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
        self.signs += self.self_checks.feed(index, entry)
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
                    if entry.new in self.replaced:
                        return [Finding(Check.KEY, placed.index, "a key that was replaced comes back")]
                    self.replaced.append(entry.old)
                    self.key, self.key_since = NoteKey(self.origin, entry.new), entry.time
                case AuditEntry():
                    if entry.last >= placed.index:
                        return [Finding(Check.VERDICT, placed.index, "it covers entries that were not there yet")]
                    entry.verify()
                    known = any(entry.signer in (each.terms.auditor or ())[1:] for each in self._tables.values())
                    self.outcomes[f"audit {entry.verdict}{'' if known else ', by no auditor of a table'}"] += 1
                    if entry.verdict == "fail":
                        return [Finding(Check.VERDICT, placed.index, "an auditor says that the log fails")]
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
                return findings + [each for seq in _seqs_of(entry) for each in self._step(table, placed, seq)]
            case SealEntry() | ChooseEntry() | DrawEntry():
                findings += self._in_turn(table, placed, entry.seq) + self._in_time(table, placed, entry.seq)
                return findings + self._step(table, placed, entry.seq)
            case CloseEntry():
                return findings + self._closed(table, placed, entry)

    def _reserved(self, table: _Table, placed: Placed, entry: ReserveEntry) -> list[Finding]:
        findings = []
        if entry.first != table.last_reserved + 1:
            text = f"reserved from {entry.first} where {table.last_reserved + 1} is next"
            findings.append(Finding(Check.SEQUENCE, placed.index, text, entry.table, entry.first))
        unclosed = [commitment for hand in table.hands.values() for commitment in hand.commitments]
        new = [commitment for seq in _seqs_of(entry) for commitment in entry.commitments_of(seq)]
        if len({*unclosed, *new}) < len(unclosed) + len(new):
            findings.append(Finding(Check.SEQUENCE, placed.index, "one commitment for two hands", entry.table))
        for seq in _seqs_of(entry):
            if seq > table.last_reserved:
                try:
                    table.hands[seq] = ProvenHand(self.origin, table.placed, placed, seq)
                except Unproven as error:
                    findings.append(Finding(Check.MEMBERS, placed.index, str(error), entry.table, seq))
                table.last_reserved = seq
        return findings

    def _in_turn(self, table: _Table, placed: Placed, seq: int) -> list[Finding]:
        """Check that hand ``seq`` is its table's lowest unclosed one."""
        if seq == table.last_closed + 1:
            return []
        text = f"hand {table.last_closed + 1} is not closed yet"
        return [Finding(Check.SEQUENCE, placed.index, text, table.terms.table, seq)]

    def _in_time(self, table: _Table, placed: Placed, seq: int) -> list[Finding]:
        """Check that hand ``seq`` had not expired, if it is the lowest unclosed one: no other can."""
        if seq != table.last_closed + 1 or seq not in table.hands or placed.entry.time <= table.expires_ms():
            return []
        return [Finding(Check.DEADLINE, placed.index, "the hand had expired", table.terms.table, seq)]

    def _step(self, table: _Table, placed: Placed, seq: int) -> list[Finding]:
        """Take the entry into its hand; a hand with a finding is not looked into any more, only closed."""
        hand = table.hands.get(seq)
        where = (table.terms.table, seq)
        if hand is None:
            state = "closed" if seq <= table.last_closed else "not reserved"
            return [Finding(Check.STEP, placed.index, f"the hand is {state}", *where)]
        if seq in table.spoilt:
            return []
        try:
            hand.taken(placed)
        except (Unproven, MalformedError, StreamExhaustedError) as error:
            table.spoilt.add(seq)
            return [Finding(_CHECK_OF.get(type(error), Check.MEMBERS), placed.index, str(error), *where)]
        return []

    def _closed(self, table: _Table, placed: Placed, entry: CloseEntry) -> list[Finding]:
        seq = entry.seq
        findings = self._in_turn(table, placed, seq)
        # What is lost may be declared so at any time: the service itself could not close it when it expired.
        if entry.reason != "expired" and entry.outcome != "lost":
            findings += self._in_time(table, placed, seq)
        elif entry.reason == "expired" and not findings and seq in table.hands and entry.time < table.expires_ms():
            text = "closed as expired before its time was up"
            findings.append(Finding(Check.DEADLINE, placed.index, text, entry.table, seq))
        findings += self._step(table, placed, seq)
        hand = table.hands.pop(seq, None)
        if hand:
            self.outcomes[f"hand {entry.outcome}"] += 1
            if hand.promise_entry or hand.start_entry:
                table.at_stake += 1
                table.given_up += entry.outcome != "complete"
            if seq not in table.spoilt:
                table.twin.add(hand)
        if hand and hand.close and self._examiner:
            examined = self._examiner.examine(hand)
            self.outcomes[f"hand {examined.outcome}"] += 1
            findings += [Finding(check, placed.index, text, entry.table, seq) for check, text in examined.faults]
        if hand:
            # What was passed over is never closed: it had its finding, and is not waited for.
            table.hands = {higher: each for higher, each in table.hands.items() if higher > seq}
            table.spoilt = {higher for higher in table.spoilt if higher > seq}
            table.last_closed, table.last_closed_ms = seq, entry.time
        return findings

    # --- At the end ---

    def twin_tables(self) -> dict[bytes, TwinCount]:
        """Return what became of the sealed hands of each twin table."""
        return {table: watched.twin for table, watched in self._tables.items() if watched.terms.twin}

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

    def given_up(self, limit: AbortLimit, listed: int) -> tuple[list[GivenUp], list[Finding]]:
        """Return the ``listed`` tables that gave up most, and a finding for each that exceeds ``limit``.

        A hand counts once somebody promised a seed for it, or it was sealed or drawn: before that, nobody but the
        service had a part in it. Each table is tested, and the log as a whole.
        """
        at_stake = [table for table in self._tables.values() if table.at_stake]
        tests = len(at_stake) + 1
        rows = [
            GivenUp(each.terms.table, each.at_stake, each.given_up, limit.exceeded(each.given_up, each.at_stake, tests))
            for each in at_stake
        ]
        findings = [
            Finding(Check.ABORTS, self.size - 1, _too_many(row.given_up, row.closed, row.p_value, limit), row.table)
            for row in rows
            if row.p_value is not None
        ]
        given_up, closed = sum(row.given_up for row in rows), sum(row.closed for row in rows)
        p_value = limit.exceeded(given_up, closed, tests) if rows else None
        if p_value is not None:
            text = _too_many(given_up, closed, p_value, limit)
            findings.append(Finding(Check.ABORTS, self.size - 1, f"at all tables together {text}"))
        rows.sort(key=lambda row: (1.0 if row.p_value is None else row.p_value, -row.given_up, row.table))
        return rows[:listed], findings


def _too_many(given_up: int, closed: int, p_value: float, limit: AbortLimit) -> str:
    return f"{given_up} of {closed} hands were given up; at a rate of {limit.rate:.2%} so many have p = {p_value:.2g}"


def peaks_of(size: int, edge: Sequence[bytes]) -> list[bytes]:
    """Return the peaks of a tree of ``size`` leaves, the largest first, from its partial tiles, leaves first."""
    peaks = []
    for level in reversed(range(len(edge))):
        hashes = [edge[level][i : i + HASH_BYTES] for i in range(0, len(edge[level]), HASH_BYTES)]
        for bit in reversed(range(8)):
            if size >> 8 * level >> bit & 1:
                peaks.append(root_of(hashes[: 1 << bit]))
                hashes = hashes[1 << bit :]
    return peaks


def _seqs_of(entry: Entry) -> range:
    """Return which hands of its table an entry is about."""
    match entry:
        case ReserveEntry():
            return range(entry.first, entry.first + len(entry.commitments))
        case PromiseEntry():
            return range(entry.first, entry.first + len(entry.promises))
        case SealEntry() | ChooseEntry() | DrawEntry() | CloseEntry():
            return range(entry.seq, entry.seq + 1)
        case _:
            return range(0)


def _saved(placed: Placed) -> SavedEntry:
    return SavedEntry(index=placed.index, entry=placed.raw.decode("ascii"))


def _restored(saved: SavedEntry) -> Placed:
    raw = saved.entry.encode("ascii")
    return Placed(saved.index, raw, parse_entry(raw), leaf_hash(raw))
