"""The port `Store`: what every store does, and what a table does when its store fails."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dealer.cashier import BANK, PlayMoney, Transfer, rack, wallet
from dealer.rooms.limit_stud import LIMIT_STUD
from dealer.store import FinishedHand, Store, StoreFailed
from dealer.store.memory import MemoryStore
from dealer.store.sqlite import SqliteStore
from dealer.table import Refused
from dealer.table_commands import SitOut, Stand
from dealer.table_live import LiveTable

T, U = b"t" * 16, b"u" * 16
BUY_IN = LIMIT_STUD.stakes[0].buy_in


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Store | None], Store]:
    """Return what gives the store, and gives it again after a restart."""

    def open_(before: Store | None) -> Store:
        if request.param == "memory":
            return before or MemoryStore()
        if before:
            before.close()
        return SqliteStore(tmp_path / "tables.sqlite3")

    return open_


def test_a_table_is_kept_with_its_journal_in_order(reopen: Callable[[Store | None], Store]) -> None:
    store = reopen(None)
    store.create(U, "limit_stud", "1/2")
    store.create(T, "casino_club", "1-2")
    store.append(T, [{"n": 1}], [])
    store.append(U, [{"n": 2}], [])
    store.append(T, [{"n": 3}, {"n": 4}], [])
    store = reopen(store)
    assert [stored.table for stored in store.tables()] == [T, U]
    assert list(store.table(T).journal) == [{"n": 1}, {"n": 3}, {"n": 4}]
    assert (store.table(T).game, store.table(T).stakes, store.table(T).snapshot) == ("casino_club", "1-2", None)
    with pytest.raises(KeyError):
        store.table(b"x" * 16)
    store.close()


def test_a_table_is_created_once(reopen: Callable[[Store | None], Store]) -> None:
    store = reopen(None)
    store.create(T, "casino_club", "1-2")
    store.create(T, "casino_club", "1-2")
    with pytest.raises(ValueError, match="other terms"):
        store.create(T, "casino_club", "2-4")
    assert len(store.tables()) == 1
    store.close()


def test_a_finished_hand_takes_the_journals_place(reopen: Callable[[Store | None], Store]) -> None:
    store = reopen(None)
    store.create(T, "casino_club", "1-2")
    store.append(T, [{"n": 1}], [])
    hand = FinishedHand(T, 7, {1: "ann", 3: "ben"}, '{"h": 1}', '{"r": 1}')
    store.finish(hand, {"seq": 7})
    store.finish(hand, {"seq": 7})
    store.finish(hand._replace(hand=9), {"seq": 9})
    store.append(T, [{"n": 2}], [])
    store = reopen(store)
    assert store.finished(T, 7) == hand
    assert store.finished(T, 0).hand == 9
    with pytest.raises(KeyError):
        store.finished(T, 8)
    with pytest.raises(KeyError):
        store.finished(U, 0)
    stored = store.table(T)
    assert (stored.snapshot, list(stored.journal)) == ({"seq": 9}, [{"n": 2}])
    store.close()


def test_the_ledger_is_kept_with_what_it_pays_for(reopen: Callable[[Store | None], Store]) -> None:
    store = reopen(None)
    store.create(T, "casino_club", "1-2")
    store.append(T, [], [Transfer(BANK, wallet("ann"), 100), Transfer(wallet("ann"), rack("t"), 60)])
    store.append(T, [], [Transfer(rack("t"), wallet("ann"), 10)])
    store = reopen(store)
    assert store.balances() == {BANK: -100, wallet("ann"): 50, rack("t"): 50}
    store.close()


def test_a_second_dealer_on_the_same_file_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "tables.sqlite3")
    store.create(T, "casino_club", "1-2")
    with pytest.raises(StoreFailed):
        SqliteStore(tmp_path / "tables.sqlite3")
    store.close()


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(tmp_path / "tables.sqlite3")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreFailed, match="99"):
        SqliteStore(tmp_path / "tables.sqlite3")


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
        version = live.version
        store.fails = failure
        try:
            step()
        except StoreFailed:
            pass
        except Refused:
            continue
        else:
            raise AssertionError("the store failed")
        assert live.version == version, "nobody was shown anything"
        assert picture(live) == picture(live_on(store)), "memory and store agree"
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
