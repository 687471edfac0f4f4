"""Tables as the service holds them: terms, sequence numbers, and every hand that is not closed.

A table is an immutable record; the sequencer replaces it whole once a batch is durable. Closed hands are not kept: they
are folded from the store when somebody asks (`Tables.closed_hand`). So memory grows with open hands, not with the log.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import iter_unpack, pack
from types import MappingProxyType
from typing import Final, NamedTuple

from rngsvc.hand import (
    Chosen,
    Closed,
    Drawn,
    Event,
    Hand,
    IllegalStep,
    Opened,
    Promised,
    Reserved,
    Sealed,
    Step,
    replay,
)
from rngsvc.log import Log
from rngsvc.ports import StepRow, Store, StoreDamaged
from rngsvc.protocol.entries import (
    ChooseEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.merkle import leaf_hash

RESERVE: Final = "reserve"  # the kind of a hand's first stored step; the others are `hand.Event`s
_IDLE_TABLES_KEPT: Final = 20_000


class Table(NamedTuple):
    """One table. ``prev`` is the leaf hash of its newest entry.

    ``open_hand`` is the one that was sealed or drawn from and is not closed yet. ``waiting`` has the others by seq, as
    they were reserved and promised; what stands there of the open and of closed hands is out of date (see `hand`).
    """

    id: bytes
    owner: str
    position: int
    terms: TableEntry
    prev: bytes
    last_reserved: int = 0
    last_closed: int = 0
    last_closed_ms: int = 0
    waiting: Mapping[int, Hand] = MappingProxyType({})
    open_hand: Hand | None = None

    def hand(self, seq: int) -> Hand | None:
        """Return an unclosed hand; None if there is none of that number."""
        if self.open_hand and self.open_hand.seq == seq:
            return self.open_hand
        return self.waiting.get(seq) if seq > self.last_closed else None

    @property
    def unclosed(self) -> int:
        """How many hands are not closed."""
        return self.last_reserved - self.last_closed

    @property
    def ttl_ms(self) -> int:
        """How long its lowest unclosed hand may stay so, in ms."""
        return self.terms.ttl * 1000

    def expires_ms(self) -> int | None:
        """Step 8: when the lowest unclosed hand expires; None if all are closed."""
        hand = self.hand(self.last_closed + 1)
        if hand is None:
            return None
        return max(hand.reserved.time, self.last_closed_ms, hand.started_ms) + self.ttl_ms

    def with_waiting(self, changed: Sequence[Hand], prev: bytes) -> "Table":
        """Return the table after hands were reserved or promised by the entry whose leaf hash is ``prev``."""
        waiting = {seq: hand for seq, hand in self.waiting.items() if seq > self.last_closed}
        waiting.update((hand.seq, hand) for hand in changed)
        return self._replace(prev=prev, last_reserved=max(self.last_reserved, changed[-1].seq), waiting=waiting)

    def with_open(self, hand: Hand, prev: bytes | None = None) -> "Table":
        """Return the table with its open hand in a new state and, if an entry was logged, its leaf hash."""
        # Written out, and without a touch of the other hands: every seal comes here, and they lie far apart in memory.
        return Table(
            self.id,
            self.owner,
            self.position,
            self.terms,
            prev or self.prev,
            self.last_reserved,
            self.last_closed,
            self.last_closed_ms,
            self.waiting,
            hand,
        )

    def without(self, hand: Hand, prev: bytes) -> "Table":
        """Return the table after ``hand``, its lowest unclosed one, has been closed."""
        assert hand.seq == self.last_closed + 1, "hands are closed in order"
        assert hand.closed, "only a closed hand leaves"
        return self._replace(
            prev=prev,
            last_closed=hand.seq,
            last_closed_ms=hand.closed.time,
            waiting=self.waiting if hand.seq < self.last_reserved else {},
            open_hand=None,
        )


class Tables:
    """The tables in memory. Those with unclosed hands stay; others are forgotten when not asked for in a while."""

    def __init__(self, store: Store, log: Log) -> None:
        self._store = store
        self._log = log
        self._busy: dict[bytes, Table] = {}
        self._idle: OrderedDict[bytes, Table] = OrderedDict()

    def get(self, table: bytes) -> Table | None:
        """Return the table if it is in memory."""
        return self._busy.get(table) or self._idle.get(table)

    def put_all(self, tables: Iterable[Table]) -> None:
        """Take in tables whose new state is durable."""
        for table in tables:
            self._busy.pop(table.id, None)
            self._idle.pop(table.id, None)
            if table.unclosed:
                self._busy[table.id] = table
            else:
                self._idle[table.id] = table
        while len(self._idle) > _IDLE_TABLES_KEPT:
            self._idle.popitem(last=False)

    def with_unclosed_hands(self) -> list[Table]:
        """Return the tables that have unclosed hands."""
        return list(self._busy.values())

    @property
    def unclosed_hands(self) -> int:
        """How many hands are not closed."""
        return sum(table.unclosed for table in self._busy.values())

    async def load_unclosed(self) -> None:
        """At start: take in every table that has unclosed hands."""
        for table in await self._store.tables_with_unclosed_hands():
            await self.load(table)

    async def load(self, table: bytes) -> Table | None:
        """Return the table, from the store if need be; None if it is not registered.

        Raises StoreDamaged where stored steps and logged entries do not make the life of a hand.
        """
        if known := self.get(table):
            return known
        row = await self._store.table(table)
        if row is None:
            return None
        last_reserved, last_closed = await self._store.sequence(table)
        # The last closed hand too: its close is the newest time, and the newest entry if no other follows.
        steps = await self._store.steps(table, max(1, last_closed), last_reserved + 1)
        positions = sorted({row.position, *(step.position for step in steps if step.position is not None)})
        entries = await self._entries(table, positions)
        hands = {hand.seq: hand for hand in _fold(steps, entries)}
        closed = hands.pop(last_closed, None)
        terms = entries[row.position].entry
        if not isinstance(terms, TableEntry):
            raise StoreDamaged(f"entry {row.position} does not register table {table.hex()}")
        lowest = hands.get(last_closed + 1)
        loaded = Table(
            id=table,
            owner=row.owner,
            position=row.position,
            terms=terms,
            prev=entries[positions[-1]].leaf,
            last_reserved=last_reserved,
            last_closed=last_closed,
            last_closed_ms=closed.closed.time if closed and closed.closed else 0,
            waiting=hands,
            open_hand=lowest if lowest and (lowest.shuffles or lowest.drawn) else None,
        )
        # Somebody else may have loaded it, and a batch may have changed it, while we read.
        if known := self.get(table):
            return known
        self.put_all([loaded])
        return loaded

    async def closed_hand(self, table: bytes, seq: int) -> Hand | None:
        """Return a closed hand from the store; None if there is none of that number."""
        steps = await self._store.steps(table, seq, seq + 1)
        positions = sorted({step.position for step in steps if step.position is not None})
        return next(iter(_fold(steps, await self._entries(table, positions))), None)

    async def _entries(self, table: bytes, positions: Sequence[int]) -> "dict[int, _Placed]":
        try:
            entries = {
                at: _Placed(leaf_hash(raw), parse_entry(raw))
                for at, raw in (await self._log.entries_at(positions)).items()
            }
        except KeyError as missing:
            raise StoreDamaged(f"entry {missing} of table {table.hex()} is missing") from None
        for position, placed in entries.items():
            if getattr(placed.entry, "table", None) != table:
                raise StoreDamaged(f"entry {position} is not of table {table.hex()}")
        return entries


def rows(table: bytes, seq: int, n: int, step: Reserved | Step) -> StepRow:
    """Return ``step``, number ``n`` of hand ``seq``, as it is stored; kinds as plain strings, which bind fast."""
    match step:
        case Reserved():
            return StepRow(table, seq, n, RESERVE, step.position, step.secret)
        case Promised():
            return StepRow(table, seq, n, Event.PROMISE.value, step.position)
        case Sealed():
            kind = Event.RESHUFFLE if step.k else Event.SEAL_TWIN if step.twin else Event.SEAL
            return StepRow(table, seq, n, kind.value, step.position, step.secret, k=step.k)
        case Chosen():
            return StepRow(table, seq, n, Event.CHOOSE.value, step.position)
        case Drawn():
            return StepRow(table, seq, n, Event.DRAW.value, step.position, step.secret)
        case Closed():
            return StepRow(table, seq, n, Event.CLOSE.value, step.position)
        case Opened():
            places = pack(f">{len(step.places)}H", *step.places)
            return StepRow(table, seq, n, Event.OPEN.value, None, time=step.time, k=step.k, places=places)


@dataclass(frozen=True, slots=True)
class _Placed:
    """An entry and its leaf hash in the log's tree."""

    leaf: bytes
    entry: Entry


def _fold(steps: Sequence[StepRow], entries: "Mapping[int, _Placed]") -> list[Hand]:
    """Return the hands whose stored steps these are, ordered by (seq, n)."""
    hands: list[Hand] = []
    for seq, rows_of_hand in groupby(steps, key=lambda row: row.seq):
        first, *later = rows_of_hand
        if [first.n, *(row.n for row in later)] != list(range(1 + len(later))):
            raise StoreDamaged(f"hand {seq} of table {first.table.hex()}: steps are missing")
        try:
            hands.append(replay(seq, _reserved(first, entries), [_step(row, entries) for row in later]))
        # What `advance` takes for granted of the service's own steps must be checked of stored ones.
        except (IllegalStep, AssertionError) as illegal:
            raise StoreDamaged(f"hand {seq} of table {first.table.hex()}: {illegal}") from None
    return hands


def _reserved(row: StepRow, entries: "Mapping[int, _Placed]") -> Reserved:
    placed = entries.get(-1 if row.position is None else row.position)
    if placed and isinstance(placed.entry, ReserveEntry):
        entry, number = placed.entry, row.seq - placed.entry.first
        if 0 <= number < len(entry.commitments) and row.position is not None:
            commitment, *twin = entry.commitments_of(row.seq)
            return Reserved(row.position, entry.time, placed.leaf, commitment, row.secret, *twin)
    raise StoreDamaged(f"hand {row.seq} of table {row.table.hex()}: its first step does not name its reservation")


def _step(row: StepRow, entries: "Mapping[int, _Placed]") -> Step:
    """Return a stored step as the record that it was made from."""
    if row.position is None:
        return Opened(row.time, row.k, tuple(place for (place,) in iter_unpack(">H", row.places)))
    placed = entries[row.position]
    match placed.entry:
        case PromiseEntry(first=first, promises=promises) if 0 <= row.seq - first < len(promises):
            return Promised(row.position, placed.leaf, promises[row.seq - first])
        case SealEntry(seq=row.seq) as entry:
            return Sealed(
                row.position,
                entry.time,
                entry.k,
                entry.n,
                entry.hc,
                entry.root,
                entry.inputs or (),
                entry.cr or b"",
                row.secret,
                (entry.twin_hc, entry.twin_root) if entry.twin_hc and entry.twin_root else None,
            )
        case ChooseEntry(seq=row.seq) as entry:
            return Chosen(row.position, entry.time, entry.deck)
        case DrawEntry(seq=row.seq) as entry:
            return Drawn(row.position, entry.time, entry.cr, row.secret)
        case CloseEntry(seq=row.seq) as entry:
            return Closed(row.position, entry.time)
        case _:
            raise StoreDamaged(f"entry {row.position} is no step of hand {row.seq} of table {row.table.hex()}")
