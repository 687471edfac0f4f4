"""Sealed shuffles of open hands as the service holds them in memory: order, salts, leaves.

They are only a cache: every one can be derived again from the stored seed.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from rngsvc.protocol.card_seal import SALT_BYTES

_ITEMS_KEPT: Final = 500_000  # of all shuffles together; an item costs about 150 bytes


class Openings(NamedTuple):
    """Opened places of shuffle ``k``; ``salts`` has 16 bytes for each."""

    k: int
    places: tuple[int, ...]
    items: tuple[int, ...]
    salts: bytes


class Dealt(NamedTuple):
    """A derived shuffle: ``order`` (the item at each place), a salt and a leaf for each, the root over the leaves."""

    order: list[int]
    salts: bytes
    leaves: list[bytes]
    root: bytes
    used: int

    def openings(self, k: int, places: Sequence[int]) -> Openings:
        """Return what lies at ``places`` of this shuffle, which is the hand's number ``k``."""
        items = tuple(self.order[place] for place in places)
        salts = b"".join(self.salts[SALT_BYTES * place : SALT_BYTES * (place + 1)] for place in places)
        return Openings(k, tuple(places), items, salts)


class DealtCache:
    """The most recently used shuffles by (table, seq, k)."""

    def __init__(self) -> None:
        self._dealt: OrderedDict[tuple[bytes, int, int], Dealt] = OrderedDict()
        self._items = 0

    def get(self, key: tuple[bytes, int, int]) -> Dealt | None:
        """Return a shuffle that is still at hand."""
        dealt = self._dealt.get(key)
        if dealt:
            self._dealt.move_to_end(key)
        return dealt

    def put(self, key: tuple[bytes, int, int], dealt: Dealt) -> None:
        """Keep a shuffle as long as there is room."""
        self._drop(key)
        self._dealt[key] = dealt
        self._items += len(dealt.order)
        while self._items > _ITEMS_KEPT:
            self._drop(next(iter(self._dealt)))

    def forget(self, table: bytes, seq: int, shuffles: int) -> None:
        """Drop the shuffles of a hand that is closed."""
        for k in range(shuffles):
            self._drop((table, seq, k))

    def _drop(self, key: tuple[bytes, int, int]) -> None:
        dealt = self._dealt.pop(key, None)
        if dealt:
            self._items -= len(dealt.order)
