"""Every write of a hand fails twice: once refused, once stored but reported as failed. And a service that lies."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dealer.actions import Act
from dealer.card_room import CardRoom
from dealer.cashier import Ledger, PlayMoney, Transfer, rack
from dealer.demo_service import Service, child_service
from dealer.rooms.limit_stud import LIMIT_STUD
from dealer.state import NeedAction
from dealer.store import COPIED, FinishedHand, Store, StoreFailed
from dealer.store.location import Location, open_store
from dealer.store.memory import MemoryStore
from dealer.store.sqlite import SqliteStore
from dealer.table_commands import Play, Stand
from dealer.table_live import LiveTable
from rngsvc.client import Client, Unproven
from rngsvc.protocol.verify import verify
from tests.postgres import postgres
from tests.scale import scaled

T = b"t" * 16
BUY_IN = LIMIT_STUD.stakes[0].buy_in


class FailsAt:
    """A store that fails its ``at``-th write, before or after it is stored; everything goes through JSON."""

    def __init__(self, store: Store, at: int, *, stored: bool) -> None:
        self._store = store
        self.at = at
        self.stored = stored
        self.writes = 0
        self.failed = ""

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        with self._failing(f"append {entries}"):
            self._store.append(table, json.loads(json.dumps(list(entries))), list(transfers))

    def finish(self, hand: FinishedHand, snapshot: Mapping[str, Any]) -> None:
        with self._failing("finish"):
            self._store.finish(hand, json.loads(json.dumps(snapshot)))

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    @contextlib.contextmanager
    def _failing(self, what: str) -> Any:
        self.writes += 1
        fails = self.writes == self.at
        if fails:
            self.failed = what
            if not self.stored:
                raise StoreFailed("refused")
        yield
        if fails:
            raise StoreFailed("stored, but reported as failed")


async def play_one_hand(store: FailsAt, table: bytes, client: Client, service: Service) -> CardRoom:
    """Two players sit, play a hand and leave, each trying again what failed."""
    room = CardRoom(store, client, service.auditor.public_keys, 100_000, lambda: time.time_ns() // 1_000_000)
    live = await again(lambda: room.open(table, "limit_stud", ""))
    for seat, player in enumerate(("ann", "ben"), start=1):
        await again(lambda s=seat, p=player: live.sit(p, s, BUY_IN, p.encode()))
    rng = random.Random(store.at)
    async with asyncio.timeout(30):
        while not finished(store, table):
            hand = live.table.hand
            need = hand.awaits if hand and live.table.playing else None
            if isinstance(need, NeedAction):
                choice = rng.choice([each for each in need.choices if each.act is not Act.FOLD])
                name = live.table.seats[need.seat].player
                play = Play(name, live.table.number, live.table.turns, choice.act, choice.lowest or None)
                await again(lambda command=play: live.do(command))
            await asyncio.sleep(0)
    return room


def finished(store: Store, table: bytes) -> bool:
    try:
        return store.finished(table, 0).hand > 0
    except KeyError:
        return False


async def again(call: Any) -> Any:
    """Make a call, and once more if the store failed: every call may be repeated."""
    try:
        return call()
    except StoreFailed:
        await asyncio.sleep(0)
        return call()


STORES: dict[str, tuple[int, Callable[[Path, str], Store]]] = {
    # How many writes apart they fail in the small form, and a new store.
    "memory": (3, lambda _folder, _name: MemoryStore()),
    "sqlite": (9, lambda folder, name: SqliteStore(folder / name)),
    "postgres": (9, lambda _folder, _name: open_store(Location.parse(postgres().address()))),
}


@pytest.mark.parametrize("kind", STORES)
def test_a_hand_is_the_same_whichever_write_fails(tmp_path: Path, kind: str) -> None:
    every, new = STORES[kind]

    async def story() -> int:
        async with child_service() as service:
            client = await Client.connect(service.address, log_key=service.log_key)
            for at in range(1, 1_000, scaled(every, 1)):
                for stored in (False, True):
                    store = FailsAt(new(tmp_path, f"{at}-{stored}"), at, stored=stored)
                    table = random.Random(f"{at}{stored}").randbytes(16)
                    room = await play_one_hand(store, table, client, service)
                    _, document = room.history(table, 0, "ann")
                    verify(document, service.log_key).require()
                    await room.stop()
                    await check_what_is_stored(store, table, client, service)
                    store.close()
                    if not store.failed:
                        await client.close()
                        return at
        raise AssertionError("a hand is not as long as that")

    assert asyncio.run(story()) > 15, "every write of the hand was tried"


async def check_what_is_stored(store: FailsAt, table: bytes, client: Client, service: Service) -> None:
    """Load everything as a new process does, and count the chips."""
    balances = store.balances()
    Ledger(balances)
    room = CardRoom(store, client, service.auditor.public_keys, 100_000, lambda: 2**52)
    room.start()
    live = room.table(table)
    await room.stop()
    hand = live.table.hand
    in_pot = sum(total for _, total, _ in hand.pots()) if hand and live.table.playing and not hand.settlement else 0
    in_stacks = sum(live.table.stack(seat) for seat in live.table.seats)
    assert room.imbalance_cents() == 0
    assert in_stacks + in_pot == balances[rack(table.hex())] == 2 * BUY_IN, (store.at, store.stored, store.failed)


def test_after_one_answer_that_proves_nothing_the_service_is_asked_nothing_more() -> None:
    class Liar:
        """A table at a shuffle service whose answers do not hold."""

        asked = 0

        async def hand(self, seq: int) -> Any:
            self.asked += 1
            raise Unproven(f"hand {seq} is not in the log")

    async def story() -> None:
        liar = Liar()

        async def register(_table: bytes) -> Any:
            return liar

        store = MemoryStore()
        store.create(T, "limit_stud", "1/2")
        cashier = PlayMoney(100_000)
        live = LiveTable(
            store.table(T),
            LIMIT_STUD,
            LIMIT_STUD.stakes[0],
            store,
            cashier,
            register,
            lambda: time.time_ns() // 1_000_000,
        )
        life = asyncio.create_task(live.run())
        for seat, player in enumerate(("ann", "ben"), start=1):
            live.sit(player, seat, BUY_IN, player.encode())
        await asyncio.sleep(1)
        assert liar.asked == 1
        assert "proves nothing" in live.delay
        assert live.table.hand is None
        live.do(Stand("ann"))
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)

    asyncio.run(story())


def test_a_hand_that_an_older_copy_of_the_store_does_not_know_is_given_up_and_never_dealt_again() -> None:
    """Its cards may have been seen: the next hand has cards of its own, and chips are those of the copy."""

    async def story() -> None:
        async with child_service() as service:
            client = await Client.connect(service.address, log_key=service.log_key)

            def clock() -> int:
                return time.time_ns() // 1_000_000

            store = MemoryStore()
            room = CardRoom(store, client, service.auditor.public_keys, 100_000, clock)
            live = room.open(T, "limit_stud", "")
            live.sit("ann", 1, BUY_IN, b"1")
            copy = copied(store)
            live.sit("ben", 2, BUY_IN, b"2")
            async with asyncio.timeout(30):
                while live.table.turn is None:
                    await live.changes(live.version)
            await room.stop()

            restored = CardRoom(copy, client, service.auditor.public_keys, 100_000, clock)
            restored.start()
            live = restored.table(T)
            assert list(live.table.seats) == [1], "what came after the copy is not in it"
            live.sit("ben", 2, BUY_IN, b"3")
            async with asyncio.timeout(30):
                while live.table.turn is None:
                    await live.changes(live.version)
            assert live.table.number == 2
            first = await client.hand(T, 1)
            assert first.state == "closed"
            assert restored.imbalance_cents() == 0
            await restored.stop()
            await client.close()

    asyncio.run(story())


@pytest.mark.parametrize("goes_on", [False, True], ids=["the original ended there", "the original played on"])
def test_a_hand_that_was_being_played_when_a_copy_was_taken_is_void_there_and_every_chip_is_back(goes_on: bool) -> None:
    async def story() -> None:
        async with child_service() as service:
            client = await Client.connect(service.address, log_key=service.log_key)

            def clock() -> int:
                return time.time_ns() // 1_000_000

            store = MemoryStore()
            room = CardRoom(store, client, service.auditor.public_keys, 100_000, clock)
            live = room.open(T, "limit_stud", "")
            for seat, player in enumerate(("ann", "ben"), start=1):
                live.sit(player, seat, BUY_IN, player.encode())
            await until_asked(live)
            copy = copied(store)
            copy.append(T, [COPIED], [])
            if goes_on:
                for player in ("ann", "ben"):
                    live.do(Stand(player))
                async with asyncio.timeout(30):
                    while not finished(store, T):
                        await live.changes(live.version)
            await room.stop()

            restored = CardRoom(copy, client, service.auditor.public_keys, 100_000, clock)
            restored.start()
            live = restored.table(T)
            async with asyncio.timeout(30):
                while not finished(copy, T):
                    await live.changes(live.version)
            assert copy.finished(T, 0).hand == 1
            assert live.table.outcome == "aborted"
            assert [seat.stack for seat in live.table.seats.values()] == [BUY_IN, BUY_IN]
            assert restored.imbalance_cents() == 0
            await until_asked(live)
            assert live.table.number == 2, "the next hand is a new one, and is played"
            await restored.stop()

            again = CardRoom(copy, client, service.auditor.public_keys, 100_000, clock)
            again.start()
            assert again.table(T).table.playing, "after another start too"
            await again.stop()
            await client.close()

    asyncio.run(story())


async def until_asked(live: LiveTable) -> None:
    async with asyncio.timeout(30):
        while live.table.turn is None:
            await live.changes(live.version)


def copied(store: MemoryStore) -> MemoryStore:
    """Return a store with what another one holds now."""
    copy = MemoryStore()
    for each in store.tables():
        copy.create(each.table, each.game, each.stakes)
        copy.append(each.table, each.journal, [])
    for name, balance in store.balances().items():
        if balance > 0:
            copy.append(T, [], [Transfer("bank", name, balance)])
    return copy
