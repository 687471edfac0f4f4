"""Destroying what is not needed any more: the data keys of hands that are closed and audited.

A data key belongs to one table and one UTC day, and goes when every hand that the table reserved on that day may go: it
is closed, and a passing verdict in the log, signed by its table's auditor, covers it from its reservation to its close.
Tables without an auditor need a passing verdict of anybody. The escrowed seeds in the log are not touched: they are
public for ever.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rngsvc.ports import DataKeyRow
from rngsvc.protocol.entries import AuditEntry, TableEntry, parse_entry
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.vault import day_of

DAY_MS: Final = 86_400_000
_AT_ONCE: Final = 200


class Hands(Protocol):
    """What a store, which may be in use, tells of its hands and keys."""

    async def data_keys_before(self, day: int) -> list[DataKeyRow]:
        """Return the rows of all days before ``day``, by (table, day)."""

    async def size(self) -> int:
        """Return how many entries the log has."""

    async def entry(self, position: int) -> bytes:
        """Return the entry at ``position``."""

    async def audits(self) -> list[tuple[int, bytes]]:
        """Return position and bytes of every `audit` entry."""

    async def table_position(self, table: bytes) -> int:
        """Return the position of a table's `table` entry."""

    def lives(self, table: bytes) -> AsyncIterator[tuple[int, int | None]]:
        """Yield where each hand of a table was reserved, and where it was closed (None: it is open), by sequence."""

    async def destroy(self, rows: Sequence[DataKeyRow]) -> int:
        """Delete the rows durably, all at once, and overwrite what they held; return how many there were."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A data key that may not go yet, and why."""

    key: DataKeyRow
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What may be destroyed, with how many hands each key has, and what must stay."""

    doomed: tuple[tuple[DataKeyRow, int], ...]
    kept: tuple[Kept, ...]


async def plan(store: Hands, before_day: int) -> Plan:
    """Look at all data keys of days before ``before_day`` (days since 1970); nothing is changed."""
    keys = await store.data_keys_before(before_day)
    days = _Days(store, await store.size())
    verdicts = await _verdicts(store)
    doomed: list[tuple[DataKeyRow, int]] = []
    kept: list[Kept] = []
    for table in sorted({key.table for key in keys}):
        own = [key for key in keys if key.table == table]
        hands = await _hands_by_day(store, days, table, {key.day for key in own})
        auditor = await _auditor(store, table)
        covering = [each for each in verdicts if auditor in (None, each.signer)]
        for key in own:
            why = _why_kept(hands[key.day], covering, audited=auditor is not None)
            if why:
                kept.append(Kept(key, why))
            else:
                doomed.append((key, len(hands[key.day])))
    return Plan(tuple(doomed), tuple(kept))


async def carry_out(store: Hands, doomed: Sequence[DataKeyRow]) -> AsyncIterator[Sequence[DataKeyRow]]:
    """Destroy the keys, some at a time, and yield what is gone for good; broken off, the next run does the rest."""
    for first in range(0, len(doomed), _AT_ONCE):
        some = doomed[first : first + _AT_ONCE]
        await store.destroy(some)
        yield some


def _why_kept(hands: Sequence[tuple[int, int | None]], covering: "Sequence[_Verdict]", *, audited: bool) -> str:
    unclosed = sum(1 for _, closed in hands if closed is None)
    if unclosed:
        return f"{unclosed} of {len(hands)} hands not closed"
    uncovered = sum(
        1
        for reserved, closed in hands
        if not any(each.first <= reserved and closed is not None and closed <= each.last for each in covering)
    )
    whose = "the table's auditor" if audited else "an auditor"
    return f"{uncovered} of {len(hands)} hands without a passing verdict of {whose}" if uncovered else ""


@dataclass(frozen=True, slots=True)
class _Verdict:
    first: int
    last: int
    signer: bytes


async def _verdicts(store: Hands) -> list[_Verdict]:
    """Return what passing verdicts cover; one that does not hold covers nothing."""
    found = []
    for position, raw in await store.audits():
        try:
            entry = parse_entry(raw)
            assert isinstance(entry, AuditEntry), "the store lists these only"
            entry.verify()
        except (MalformedError, ProofError):
            continue
        if entry.verdict == "pass" and entry.last < position:
            found.append(_Verdict(entry.first, entry.last, entry.signer))
    return found


async def _auditor(store: Hands, table: bytes) -> bytes | None:
    """Return the Ed25519 key of a table's auditor, None if it has none."""
    terms = parse_entry(await store.entry(await store.table_position(table)))
    assert isinstance(terms, TableEntry), "the store says where it stands"
    return terms.auditor[1] if terms.auditor else None


async def _hands_by_day(
    store: Hands, days: "_Days", table: bytes, wanted: set[int]
) -> dict[int, list[tuple[int, int | None]]]:
    first = {day: await days.first_position(day) for day in wanted}
    end = {day: await days.first_position(day + 1) for day in wanted}
    hands: dict[int, list[tuple[int, int | None]]] = {day: [] for day in wanted}
    ordered = sorted(wanted)
    starts = [first[day] for day in ordered]
    async for reserved, closed in store.lives(table):
        at = bisect_left(starts, reserved + 1) - 1
        if at >= 0 and reserved < end[ordered[at]]:
            hands[ordered[at]].append((reserved, closed))
    return hands


class _Days:
    """Where in the log a day begins. Times never go back, so it is searched for, not read."""

    def __init__(self, store: Hands, size: int) -> None:
        self._store = store
        self._size = size
        self._known: dict[int, int] = {}

    async def first_position(self, day: int) -> int:
        """Return the position of the first entry of ``day`` or later; the log's size if there is none."""
        if day not in self._known:
            low, high = 0, self._size
            while low < high:
                middle = (low + high) // 2
                if day_of(parse_entry(await self._store.entry(middle)).time) < day:
                    low = middle + 1
                else:
                    high = middle
            self._known[day] = low
        return self._known[day]
