"""The store in memory: nothing is durable, everything else is as the port says."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dealer.cashier import Transfer
from dealer.store import FinishedHand, StoredTable


class MemoryStore:
    """`Store` for as long as the process lives."""

    def __init__(self) -> None:
        self._tables: dict[bytes, StoredTable] = {}
        self._hands: dict[tuple[bytes, int], FinishedHand] = {}
        self._balances: Counter[str] = Counter()

    def create(self, table: bytes, game: str, stakes: str) -> None:
        """Keep a new table."""
        known = self._tables.setdefault(table, StoredTable(table, game, stakes, None, ()))
        if (known.game, known.stakes) != (game, stakes):
            raise ValueError("table: exists with other terms")

    def tables(self) -> list[StoredTable]:
        """Return all tables."""
        return [self._tables[table] for table in sorted(self._tables)]

    def table(self, table: bytes) -> StoredTable:
        """Return one table."""
        return self._tables[table]

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        """Add to a table's journal and to the ledger."""
        known = self._tables[table]
        self._tables[table] = known._replace(journal=(*known.journal, *entries))
        for transfer in transfers:
            self._balances[transfer.debit] -= transfer.amount
            self._balances[transfer.credit] += transfer.amount

    def finish(self, hand: FinishedHand, snapshot: Mapping[str, Any]) -> None:
        """Keep a finished hand and the table's snapshot."""
        self._hands[hand.table, hand.hand] = hand
        self._tables[hand.table] = self._tables[hand.table]._replace(snapshot=snapshot, journal=())

    def finished(self, table: bytes, hand: int) -> FinishedHand:
        """Return a finished hand."""
        number = hand or max((n for at, n in self._hands if at == table), default=0)
        return self._hands[table, number]

    def balances(self) -> dict[str, int]:
        """Return the ledger's accounts."""
        return dict(self._balances)

    def close(self) -> None:
        """Forget everything."""
