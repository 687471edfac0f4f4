"""A change of the key-encryption key: every stored data key is wrapped anew, and what it protects stays as it is.

Each data key is replaced for itself, if it is still what was read. So it may be done beside a running service that
knows both keys, and be broken off anywhere: what is left is done by the next run. Until none is left, both keys are
needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from rngsvc.keys.wrapping import KEY_ID_BYTES, ChangingKey, wrapped_by
from rngsvc.ports import DataKeyRow, UnwrapRefused
from rngsvc.vault import data_key_context

_AT_ONCE: Final = 200


class DataKeys(Protocol):
    """The wrapped data keys of a store that may be in use."""

    async def count(self) -> int:
        """Return how many rows there are."""

    async def data_keys(self, after: DataKeyRow | None, limit: int) -> list[DataKeyRow]:
        """Return the next ``limit`` rows by (table, day)."""

    async def exchange(self, changes: Sequence[tuple[DataKeyRow, DataKeyRow]]) -> int:
        """Replace each row that is still the first of a pair by the second, durably, all at once; return how many."""


@dataclass(slots=True)
class Rewrapped:
    """How many data keys were wrapped anew, were so before, and cannot be unwrapped by either key.

    ``named`` are the ids of the keys that the latter ask for, in hex.
    """

    done: int = 0
    before: int = 0
    refused: int = 0
    named: set[str] = field(default_factory=set)


async def rewrap(
    store: DataKeys, origin: str, keys: ChangingKey, progress: Callable[[int, int], None] = lambda _seen, _all: None
) -> Rewrapped:
    """Wrap every data key under ``keys.new``; whatever ``keys.previous`` cannot unwrap stays as it is."""
    counts = Rewrapped()
    total = await store.count()
    last: DataKeyRow | None = None
    seen = 0
    while rows := await store.data_keys(last, _AT_ONCE):
        changes = []
        for row in rows:
            if wrapped_by(row.wrapped, keys.new):
                counts.before += 1
                continue
            context = data_key_context(origin, row.table, row.day)
            try:
                data_key = keys.unwrap(row.wrapped, context)
            except UnwrapRefused:
                counts.refused += 1
                counts.named.add(row.wrapped[:KEY_ID_BYTES].hex())
                continue
            changes.append((row, DataKeyRow(row.table, row.day, keys.wrap(data_key, context))))
        if changes:
            counts.done += await store.exchange(changes)
        last, seen = rows[-1], seen + len(rows)
        progress(seen, max(seen, total))
    return counts
