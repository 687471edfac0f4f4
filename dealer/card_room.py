"""The card room: all tables of one dealer, over one store, one cashier and one shuffle service."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable
from typing import Any

import structlog

from dealer.cashier import BANK, OutOfBalance, PlayMoney, rack
from dealer.history import Reader, history, open_locations, replay
from dealer.house_rules import HouseRules, Stakes
from dealer.rooms import GAMES
from dealer.shufflers import register
from dealer.store import Store, StoreDoubted, StoredTable, StoreLost
from dealer.table import OutOfBounds, Refused
from dealer.table_live import Decision, LiveTable
from rngsvc.client import Client, Table

_log = structlog.get_logger("dealer.card_room")


class UnknownTable(Exception):
    """There is no such table, or no such closed hand at it."""


class CardRoom:
    """Opens tables and keeps them going. `stopped` is set when a table met a defect: then everything must stop.

    ``auditor`` are the raw X25519 and Ed25519 public keys of the tables' auditor; ``clock`` gives ms since 1970;
    ``decided`` is told of each decision at any table. Raises StoreFailed.
    """

    def __init__(
        self,
        store: Store,
        service: Client,
        auditor: tuple[bytes, bytes],
        grant: int,
        clock: Callable[[], int],
        decided: Callable[[Decision], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._service = service
        self._auditor = auditor
        self._clock = clock
        self._decided = decided
        self._live: dict[bytes, LiveTable] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.stopped = asyncio.Event()
        try:
            self._cashier = PlayMoney(grant, store.balances())
        except OutOfBalance as error:
            raise StoreDoubted(str(error)) from error

    def start(self) -> None:
        """Let all stored tables go on."""
        for stored in self._store.tables():
            self._go_on(stored)

    async def stop(self) -> None:
        """Stop all tables where they are; what happened is stored."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def open(self, table: bytes, game: str, stakes_name: str) -> LiveTable:
        """Open a table, or return it as it is if it was opened with the same terms. Raises Refused, StoreFailed."""
        rules = GAMES.get(game)
        if rules is None:
            raise OutOfBounds("game", f"must be one of {', '.join(GAMES)}")
        stakes = stakes_of(rules, stakes_name or rules.stakes[0].name)
        try:
            self._store.create(table, game, stakes.name)
        except ValueError as error:
            raise Refused("table", "must be a new one: this one was opened with another game or stakes") from error
        return self._live.get(table) or self._go_on(self._store.table(table))

    def _go_on(self, stored: StoredTable) -> LiveTable:
        rules = GAMES[stored.game]
        stakes = stakes_of(rules, stored.stakes)
        live = LiveTable(stored, rules, stakes, self._store, self._cashier, self._register, self._clock, self._decided)
        self._live[stored.table] = live
        task = asyncio.create_task(live.run())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return live

    async def _register(self, table: bytes) -> Table:
        return await register(self._service, table, self._auditor)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, StoreLost):  # of which the store itself has told
            _log.critical("a table met a defect", exc_info=error)
        self.stopped.set()

    async def drain(self) -> None:
        """Begin no new hand; return when all that are being played are over and closed."""
        for live in self._live.values():
            live.finish()
        for live in self._live.values():
            while live.in_hand:
                await live.changes(live.version)

    def table(self, table: bytes) -> LiveTable:
        """Return a table as it is stored. Raises UnknownTable, StoreFailed."""
        try:
            live = self._live[table]
        except KeyError:
            raise UnknownTable("table: there is none with this id") from None
        live.refresh()
        return live

    def tables(self) -> list[LiveTable]:
        """Return all tables, by id. Raises StoreFailed."""
        return [self.table(table) for table in sorted(self._live)]

    @property
    def live(self) -> Collection[LiveTable]:
        """All tables as they are in memory, for figures: what anybody is shown comes from `table`."""
        return self._live.values()

    def now_ms(self) -> int:
        """Return the time by the room's clock."""
        return self._clock()

    def imbalance_cents(self) -> int:
        """Return how far the stored ledger is out; 0 is in order. Raises StoreFailed.

        Its accounts must add up to nothing, none but the bank's may be overdrawn, and each table's account must hold
        what lies in front of its players.
        """
        balances = self._store.balances()
        overdrawn = sum(-amount for name, amount in balances.items() if amount < 0 and name != BANK)
        tables = {rack(live.id.hex()): sum(seat.stack for seat in live.table.seats.values()) for live in self.tables()}
        wrong = sum(abs(balances.get(name, 0) - chips) for name, chips in tables.items())
        return abs(sum(balances.values())) + overdrawn + wrong

    def history(self, table: bytes, number: int, player: str) -> tuple[int, str]:
        """Return a closed hand's number and its history with receipt as ``player`` may see it (CC-15).

        Raises UnknownTable.
        """
        self.table(table)
        try:
            finished = self._store.finished(table, number)
        except KeyError:
            raise UnknownTable("hand: it is not closed, or there is none with this number") from None
        written = json.loads(finished.history)
        hand = replay(written, GAMES[written["game"]])
        viewer = next((seat for seat, name in finished.players.items() if name == player), Reader.BYSTANDER)
        seen = open_locations(hand, viewer)
        assert seen is not None, "only the house sees everything"
        receipt = _cut(json.loads(finished.receipt), seen)
        return finished.hand, json.dumps(history(hand, viewer, names=finished.players, receipt=receipt))


def _cut(receipt: dict[str, Any], seen: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return a receipt without the openings that its reader may not see."""
    allowed = set(seen)
    openings = [each for each in receipt.get("openings", ()) if (each["k"], each["p"]) in allowed]
    rest = {name: value for name, value in receipt.items() if name != "openings"}
    return {**rest, "openings": openings} if openings else rest


def stakes_of(rules: HouseRules, name: str) -> Stakes:
    """Return a game's stakes by their name. Raises OutOfBounds."""
    for stakes in rules.stakes:
        if stakes.name == name:
            return stakes
    raise OutOfBounds("stakes", f"must be one of {', '.join(stakes.name for stakes in rules.stakes)}")
