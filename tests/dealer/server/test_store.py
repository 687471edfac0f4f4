"""What a table does when its store fails: refused, stored but reported as failed, or gone."""

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dealer.card_room import CardRoom
from dealer.cashier import PlayMoney, Transfer, rack
from dealer.rooms.limit_stud import LIMIT_STUD
from dealer.store import FinishedHand, Store, StoredTable, StoreFailed, StoreHeld, StoreLost, StoreUnreachable
from dealer.store.location import Location, open_store
from dealer.store.memory import MemoryStore
from dealer.store.postgres import HEARTBEAT_S, UNANSWERED_S
from dealer.store.sqlite import SqliteStore
from dealer.table import Refused
from dealer.table_commands import SitOut, Stand
from dealer.table_live import LiveTable
from tests.dealer.server.cut import Wire
from tests.postgres import postgres

T = b"t" * 16
BUY_IN = LIMIT_STUD.stakes[0].buy_in


class Failing(MemoryStore):
    """Fails its next `append` when told to: refused, or stored and reported as failed."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = ""

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        fails, self.fails = self.fails, ""
        if fails != "refused":
            # Through JSON, as on a disk.
            super().append(table, json.loads(json.dumps(list(entries))), list(transfers))
        if fails:
            raise StoreFailed(fails)


def live_on(store: Store) -> LiveTable:
    cashier = PlayMoney(100_000, store.balances())

    async def register(_table: bytes) -> Any:
        raise AssertionError("nothing is dealt here")

    return LiveTable(store.table(T), LIMIT_STUD, LIMIT_STUD.stakes[0], store, cashier, register, lambda: 1_000)


def picture(live: LiveTable) -> dict[str, Any]:
    return live.table.written()


@pytest.mark.parametrize("failure", ["refused", "stored and reported as failed"])
def test_after_a_failed_write_the_table_is_what_is_stored(failure: str) -> None:
    store = Failing()
    store.create(T, "limit_stud", "1/2")
    live = live_on(store)
    live.sit("ann", 1, BUY_IN, b"1")
    steps: list[Callable[[], None]] = [
        lambda: live.sit("ben", 2, BUY_IN, b"2"),
        lambda: live.do(SitOut("ann")),
        lambda: live.do(Stand("ann")),
        lambda: live.top_up("ann", 5, b"3"),
    ]
    for step in steps:
        before = picture(live)
        store.fails = failure
        try:
            step()
        except StoreFailed:
            pass
        except Refused:
            continue
        else:
            raise AssertionError("the store failed")
        assert picture(live) == picture(live_on(store)), "memory and store agree before anybody is shown anything"
        if failure == "refused":
            assert picture(live) == before
        cashier = live._cashier
        assert isinstance(cashier, PlayMoney)
        assert {name: cashier.ledger.balance(name) for name in store.balances()} == store.balances()


def test_a_request_that_was_stored_is_known_again_after_a_restart() -> None:
    store = Failing()
    store.create(T, "limit_stud", "1/2")
    live_on(store).sit("ann", 1, BUY_IN, b"1")
    again = live_on(store)
    again.sit("ann", 1, BUY_IN, b"1")
    assert again.table.stack(1) == BUY_IN
    assert store.balances()[rack(T.hex())] == BUY_IN


def test_time_never_goes_back_at_a_table() -> None:
    store = MemoryStore()
    store.create(T, "limit_stud", "1/2")
    times = iter([5_000, 4_000, 6_000])

    async def register(_table: bytes) -> Any:
        raise AssertionError("nothing is dealt here")

    cashier = PlayMoney(1)
    live = LiveTable(store.table(T), LIMIT_STUD, LIMIT_STUD.stakes[0], store, cashier, register, lambda: next(times))
    assert [live.now_ms() for _ in range(3)] == [5_000, 5_000, 6_000]


# --- A store that cannot be read either


class Unreadable(Failing):
    """Fails a write, and the reading after it until it is well again."""

    ill = False

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        self.ill = bool(self.fails)
        super().append(table, entries, transfers)

    def table(self, table: bytes) -> StoredTable:
        if self.ill:
            raise StoreFailed("unreadable")
        return super().table(table)


@pytest.mark.parametrize("failure", ["refused", "stored and reported as failed"])
def test_a_table_that_cannot_be_loaded_again_is_shown_to_nobody_until_it_can(failure: str) -> None:
    async def story() -> None:
        store = Unreadable()
        room = CardRoom(store, None, (b"", b""), 100_000, lambda: 1_000)  # type: ignore[arg-type]  (nothing is dealt)
        live = room.open(T, "limit_stud", "1/2")
        live.sit("ann", 1, BUY_IN, b"1")
        version = live.version
        store.fails = failure
        with pytest.raises(StoreFailed):
            live.do(SitOut("ann"))
        for look in (lambda: room.table(T), room.tables, lambda: live.do(SitOut("ann")), room.imbalance_cents):
            with pytest.raises(StoreFailed):
                look()
        assert live.version == version, "nobody was woken to look"
        store.ill = False
        assert room.table(T).table.seats[1].sits_out is (failure != "refused")
        assert room.imbalance_cents() == 0
        await room.stop()

    asyncio.run(story())


# --- A store that is gone


VERBS: dict[str, Callable[[Store], None]] = {
    "create": lambda store: store.create(b"u" * 16, "limit_stud", "1/2"),
    "append": lambda store: store.append(T, [{"n": 1}], [Transfer("bank", "player:ann", 5)]),
    "finish": lambda store: store.finish(FinishedHand(T, 1, {1: "ann"}, "{}", "{}"), {"seq": 1}),
}


def taken_over(location: Location, lost: Callable[[str], object] = lambda _: None) -> Store:
    """Open a store as a standby does: the server may need a moment to see that a session has ended."""
    ends = time.monotonic() + 10
    while True:
        try:
            return open_store(location, lost)
        except StoreHeld:
            assert time.monotonic() < ends
            time.sleep(0.05)


def contents(store: Store) -> tuple[Any, ...]:
    return [list(each.journal) for each in store.tables()], store.table(T).snapshot, store.balances()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_wire_that_is_cut_in_a_commit_loses_the_store_and_the_write_is_whole_or_not_there(
    short_folder: Path, verb: str, when: str
) -> None:
    """`before`: refused; `after`: stored, but nobody is told."""
    wire = Wire(short_folder, postgres().address())
    lost: list[str] = []
    store = open_store(wire.location, lost.append)
    store.create(T, "limit_stud", "1/2")
    without = contents(store)
    wire.cut(when)
    with pytest.raises(StoreLost):
        VERBS[verb](store)
    for use in (*VERBS.values(), lambda store: store.tables()):
        with pytest.raises(StoreLost):
            use(store)
    assert len(lost) == 1, "its dealer is told once"
    assert lost[0], "and told why"
    store.close()
    again = taken_over(wire.location)
    assert (contents(again) != without) is (when == "after")
    if when == "before":
        VERBS[verb](again)
    once = contents(again)
    other = open_store(Location.parse(postgres().address()))
    other.create(T, "limit_stud", "1/2")
    VERBS[verb](other)
    assert once == contents(other)
    other.close()
    again.close()
    wire.close()


@pytest.fixture
def short_folder() -> Any:
    """A folder whose name is short enough for a socket, and which a server that is not root may enter."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_room_whose_store_is_lost_stops_and_has_shown_nothing_that_is_not_stored(short_folder: Path) -> None:
    async def story() -> None:
        wire = Wire(short_folder, postgres().address())
        store = open_store(wire.location)
        room = CardRoom(store, None, (b"", b""), 100_000, lambda: 1_000)  # type: ignore[arg-type]  (nothing is dealt)
        live = room.open(T, "limit_stud", "1/2")
        live.sit("ann", 1, BUY_IN, b"1")
        version = live.version
        wire.cut("before")
        with pytest.raises(StoreLost):
            live.do(Stand("ann"))
        with pytest.raises(StoreLost):
            room.table(T)
        assert live.version == version
        live._wake()  # whatever makes the table go on finds out
        async with asyncio.timeout(10):
            await room.stopped.wait()
        await room.stop()
        store.close()
        wire.close()

    asyncio.run(story())


def test_a_database_that_goes_away_while_the_store_is_opened_cannot_be_reached_and_nothing_was_lost(
    short_folder: Path,
) -> None:
    """A standby goes on waiting; it would be wrong to tell it that it had a store and lost it."""
    wire = Wire(short_folder, postgres().address())
    lost: list[str] = []
    for when in ("before", "after"):
        wire.cut(when)  # the first commit makes the layout
        with pytest.raises(StoreUnreachable):
            taken_over(wire.location, lost.append)
    store = taken_over(wire.location, lost.append)
    store.create(T, "limit_stud", "1/2")
    store.close()
    wire.close()
    assert lost == []
    with pytest.raises(StoreUnreachable):
        open_store(wire.location)


def test_a_wire_that_carries_nothing_any_more_is_noticed(short_folder: Path) -> None:
    """As after a cut network: nobody closes anything, there is only silence."""
    import threading

    wire = Wire(short_folder, postgres().address())
    lost = threading.Event()
    store = open_store(wire.location, lambda _: lost.set())
    wire.cut("silently")
    assert lost.wait(HEARTBEAT_S + UNANSWERED_S + 5)
    with pytest.raises(StoreLost):
        store.tables()
    wire.close()
    store.close()


def test_an_idle_session_that_is_cut_is_noticed(short_folder: Path) -> None:
    import threading

    wire = Wire(short_folder, postgres().address())
    lost = threading.Event()
    store = open_store(wire.location, lambda _: lost.set())

    async def cut() -> None:
        import asyncpg

        db = await asyncpg.connect(wire.location.uri)
        await db.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        await db.close()

    asyncio.run(cut())
    assert lost.wait(10)
    store.close()
    wire.close()


def test_a_file_of_something_else_is_no_dealers_store_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "log.sqlite3"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.executescript("CREATE TABLE head (size INTEGER); PRAGMA user_version = 2;")
    was = file.read_bytes()
    with pytest.raises(StoreFailed, match=r"log\.sqlite3: it is no dealer's store"):
        SqliteStore(file)
    assert file.read_bytes() == was


def test_a_seat_that_is_not_there_is_refused_before_the_money_is_looked_at() -> None:
    store = MemoryStore()
    store.create(T, "limit_stud", "1/2")
    with pytest.raises(Refused, match=r"seat: must be 1\.\."):
        live_on(store).sit("ann", 99, 10**9, b"request")


def test_a_disk_that_fails_loses_the_store_and_a_full_one_does_not(tmp_path: Path) -> None:
    """After an error of input or output nobody knows what the disk holds; a full one has certainly kept nothing."""
    store = SqliteStore(tmp_path / "tables.sqlite3")
    store.create(T, "limit_stud", "1/2")
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFailed) as full:
        store.append(T, [{"text": "x" * 100_000}], [])
    assert not isinstance(full.value, StoreLost)
    assert contents(store) == ([[]], None, {})
    store._db.execute("PRAGMA max_page_count = 100000")
    store.append(T, [{"n": 1}], [])
    store.close()
    torn = (tmp_path / "tables.sqlite3").read_bytes()
    (tmp_path / "tables.sqlite3").write_bytes(torn[:4096] + b"\xff" * (len(torn) - 4096))
    lost: list[str] = []
    again = SqliteStore(tmp_path / "tables.sqlite3", lost.append)
    for _ in range(2):
        with pytest.raises(StoreLost):
            again.append(T, [{"n": 2}], [])
        with pytest.raises(StoreLost):
            again.balances()
    assert len(lost) == 1, "its dealer is told once"
    assert lost[0], "and told why"
    again.close()
