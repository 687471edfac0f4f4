"""What `dealer.store.Store` promises, held against every store there is. A new store passes all of it unchanged."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dealer.cashier import BANK, RAKE, Transfer, rack, wallet
from dealer.store import FinishedHand, Store, StoreFailed, StoreHeld
from dealer.store.location import Location, open_store
from dealer.store.memory import MemoryStore
from tests.postgres import postgres
from tests.scale import scaled

T, U = b"t" * 16, b"u" * 16


@dataclass
class Place:
    """Where a store lies. `open` gives it, again after a restart too; without ``address`` it is this process's own."""

    address: str
    kept: Store | None = None

    def open(self) -> Store:
        if self.address:
            return open_store(Location.parse(self.address))
        self.kept = self.kept or MemoryStore()
        return self.kept

    def again(self, store: Store) -> Store:
        store.close() if self.address else None
        return self.open()


PLACES: dict[str, Callable[[Path], Place]] = {
    "memory": lambda _folder: Place(""),
    "sqlite": lambda folder: Place(f"sqlite:{folder / 'tables.sqlite3'}"),
    "postgres": lambda _folder: Place(postgres().address()),
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    store = place.open()
    yield store
    store.close()


def everything(store: Store, hands: int = 20) -> dict[str, Any]:
    """Return all that the verbs of a store give."""
    finished = []
    tables = [
        (each.table, each.game, each.stakes, each.snapshot and dict(each.snapshot), list(map(dict, each.journal)))
        for each in store.tables()
    ]
    for table, *_ in tables:
        for hand in range(hands):
            try:
                finished.append(store.finished(table, hand))
            except KeyError:
                finished.append(None)
    return {"tables": tables, "finished": finished, "balances": store.balances()}


# --- What is kept ---


def test_a_new_store_holds_nothing(store: Store) -> None:
    assert everything(store) == {"tables": [], "finished": [], "balances": {}}
    with pytest.raises(KeyError):
        store.table(T)
    with pytest.raises(KeyError):
        store.finished(T, 0)


def test_a_table_is_kept_with_its_journal_in_order(place: Place) -> None:
    store = place.open()
    store.create(U, "limit_stud", "1/2")
    store.create(T, "casino_club", "1-2")
    store.append(T, [{"n": 1}], [])
    store.append(U, [{"n": 2}], [])
    store.append(T, [{"n": 3}, {"n": 4}], [])
    store = place.again(store)
    store.append(T, [{"n": 5, "text": 'ü"\\\n\x00\u2028', "deep": [None, True, {"a": [2**53 - 1]}]}], [])
    store = place.again(store)
    assert [stored.table for stored in store.tables()] == [T, U]
    assert [entry["n"] for entry in store.table(T).journal] == [1, 3, 4, 5]
    assert store.table(T).journal[-1] == {"n": 5, "text": 'ü"\\\n\x00\u2028', "deep": [None, True, {"a": [2**53 - 1]}]}
    assert (store.table(T).game, store.table(T).stakes, store.table(T).snapshot) == ("casino_club", "1-2", None)
    assert store.tables() == [store.table(T), store.table(U)]
    store.close()


def test_a_table_is_created_once(store: Store) -> None:
    store.create(T, "casino_club", "1-2")
    store.create(T, "casino_club", "1-2")
    for terms in (("casino_club", "2-4"), ("limit_stud", "1-2")):
        with pytest.raises(ValueError, match="other terms"):
            store.create(T, *terms)
    assert [(each.game, each.stakes) for each in store.tables()] == [("casino_club", "1-2")]
    store.append(T, [{"n": 1}], [])  # a refusal leaves the store good


def test_a_finished_hand_takes_the_journals_place(place: Place) -> None:
    store = place.open()
    store.create(T, "casino_club", "1-2")
    store.create(U, "casino_club", "1-2")
    store.append(U, [{"n": 9}], [])
    store.append(T, [{"n": 1}], [])
    hand = FinishedHand(T, 7, {1: "ann", 3: "ben"}, '{"h": 1}', '{"r": 1}')
    store.finish(hand, {"seq": 7})
    store.finish(hand, {"seq": 7})
    store.finish(hand._replace(hand=9), {"seq": 9})
    store.append(T, [{"n": 2}], [])
    store = place.again(store)
    assert store.finished(T, 7) == hand
    assert store.finished(T, 0).hand == 9
    with pytest.raises(KeyError):
        store.finished(T, 8)
    with pytest.raises(KeyError):
        store.finished(U, 0)
    stored = store.table(T)
    assert (stored.snapshot, list(stored.journal)) == ({"seq": 9}, [{"n": 2}])
    assert list(store.table(U).journal) == [{"n": 9}], "another table's journal stays"
    store.close()


def test_the_ledger_is_kept_with_what_it_pays_for(place: Place) -> None:
    store = place.open()
    store.create(T, "casino_club", "1-2")
    store.append(T, [], [Transfer(BANK, wallet("ann"), 100), Transfer(wallet("ann"), rack("t"), 60)])
    store = place.again(store)
    store.append(T, [{"n": 1}], [Transfer(rack("t"), wallet("ann"), 10), Transfer(rack("t"), RAKE, 1)])
    store = place.again(store)
    assert store.balances() == {BANK: -100, wallet("ann"): 50, rack("t"): 49, RAKE: 1}
    store.close()


def test_any_store_keeps_what_the_one_in_memory_keeps(place: Place) -> None:
    """One seed's run of verbs on both, with a restart now and then."""
    rng = random.Random(6)
    store, model = place.open(), MemoryStore()
    names = [wallet("ann"), wallet("ben"), rack("t"), RAKE]
    for number in range(scaled(120, 2_000)):
        table = rng.choice([T, U, b"v" * 16])
        match rng.randrange(10):
            case 0:
                for each in (store, model):
                    each.create(table, "limit_stud", "1/2")
            case 1 if known(model, table):
                hand = FinishedHand(table, rng.randint(1, 15), {1: "ann"}, f'{{"n": {number}}}', "{}")
                for each in (store, model):
                    each.finish(hand, {"n": number})
            case 2:
                store = place.again(store)
            case _ if known(model, table):
                entries = [{"n": number, "i": i} for i in range(rng.randrange(3))]
                moved = [Transfer(rng.choice([BANK, *names]), rng.choice(names), rng.randint(1, 99)) for _ in entries]
                for each in (store, model):
                    each.append(table, entries, moved)
    assert everything(store) == everything(model)
    store.close()


def known(store: Store, table: bytes) -> bool:
    return any(each.table == table for each in store.tables())


# --- All or nothing ---


def test_a_write_that_the_store_refuses_leaves_no_part_of_itself(place: Place) -> None:
    """A table that does not exist has no journal; the ledger's part of the same write must not stay either."""
    if not place.address:
        pytest.skip("the store in memory knows no table but those it has")
    store = place.open()
    store.create(T, "casino_club", "1-2")
    store.append(T, [{"n": 1}], [Transfer(BANK, wallet("ann"), 100)])
    before = everything(store)
    with pytest.raises(StoreFailed):
        store.append(U, [{"n": 2}], [Transfer(BANK, wallet("ben"), 100)])
    with pytest.raises(StoreFailed):
        store.finish(FinishedHand(U, 1, {}, "{}", "{}"), {})
    assert everything(store) == before
    store.append(T, [{"n": 3}], [])  # it is still good
    store = place.again(store)
    assert [entry["n"] for entry in store.table(T).journal] == [1, 3]
    store.close()


# --- One dealer at a time ---


def test_a_second_dealer_is_refused_while_the_first_holds_the_store(place: Place) -> None:
    if not place.address:
        pytest.skip("this store lives and dies with its process")
    store = place.open()
    store.create(T, "casino_club", "1-2")
    with pytest.raises(StoreHeld):
        place.open()
    with pytest.raises(StoreHeld):
        place.open()
    script = f"from dealer.store.location import Location, open_store\nopen_store(Location.parse({place.address!r}))"
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert "StoreHeld" in done.stderr
    store.append(T, [{"n": 1}], [])
    store = place.again(store)
    assert list(store.table(T).journal) == [{"n": 1}]
    store.close()


def test_a_store_whose_dealer_was_killed_is_there_with_everything_that_was_answered(place: Place) -> None:
    if not place.address:
        pytest.skip("this store lives and dies with its process")
    script = f"""
import os, signal
from dealer.cashier import Transfer
from dealer.store.location import Location, open_store
store = open_store(Location.parse({place.address!r}))
store.create({T!r}, "casino_club", "1-2")
for n in range(50):
    store.append({T!r}, [{{"n": n}}], [Transfer("bank", "player:ann", 1)])
    print(n, flush=True)
    if n == 30:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    answered = [int(line) for line in done.stdout.split()]
    assert answered == list(range(31)), done.stderr
    store = place.open()
    assert [entry["n"] for entry in store.table(T).journal] == answered
    assert store.balances() == {BANK: -31, wallet("ann"): 31}
    store.close()


def test_a_store_of_a_later_layout_is_refused_and_left_alone(place: Place) -> None:
    import asyncio
    import contextlib
    import sqlite3

    import asyncpg

    if not place.address:
        pytest.skip("the store in memory has no layout")
    place.open().close()
    where = Location.parse(place.address)
    if where.path:
        with contextlib.closing(sqlite3.connect(where.path)) as db:
            db.execute("PRAGMA user_version = 99")
    else:

        async def advance() -> None:
            db = await asyncpg.connect(where.uri)
            await db.execute(f"INSERT INTO {where.schema}.layout VALUES (99)")
            await db.close()

        asyncio.run(advance())
    for _ in range(2):
        with pytest.raises(StoreFailed, match="layout 99, this dealer knows"):
            place.open()


def test_a_store_of_an_earlier_layout_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path) -> None:
    import contextlib
    import sqlite3

    from dealer.store.migrations import layout_changes

    path = tmp_path / "tables.sqlite3"
    (first, *later) = layout_changes("sqlite", 0)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(f"{first[1]} PRAGMA user_version = 1;")
        db.execute("INSERT INTO tables VALUES (?, 'limit_stud', '1/2', NULL)", (T,))
        db.executemany("INSERT INTO journal (table_id, entry) VALUES (?, ?)", [(T, '{"n": 1}'), (T, '{"n": 2}')])
        db.execute("INSERT INTO accounts VALUES ('bank', 0)")
        db.commit()
    store = open_store(Location(path))
    assert [entry["n"] for entry in store.table(T).journal] == [1, 2]
    assert store.balances() == {BANK: 0}
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1 + len(later),)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_layout_changes_are_numbered_from_one_without_a_gap(kind: str) -> None:
    from dealer.store.migrations import layout_changes

    changes = layout_changes(kind, 0)
    assert [number for number, _ in changes] == list(range(1, len(changes) + 1))
    assert layout_changes(kind, len(changes)) == []


# --- Where it lies


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:/var/lib/dealer/tables.sqlite3",
        "sqlite:tables.sqlite3",
        "memory:",
        "postgresql://dealer@db.example/cards?schema=room_2",
        "postgresql://dealer@db.example:5433/cards?sslmode=verify-full&schema=dealer",
        "postgresql://rngsvc@/postgres?host=/tmp/pg&schema=s1",
    ],
)
def test_an_address_is_read_and_written_back_the_same(text: str) -> None:
    assert str(Location.parse(text)) == text
    assert Location.parse("postgresql://dealer@db.example/cards").schema == "dealer"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", "must be sqlite:PATH, postgresql:"),
        ("sqlite:", "must be sqlite:PATH, postgresql:"),
        ("tables.sqlite3", "must be sqlite:PATH, postgresql:"),
        ("postgres://db/cards", "must be sqlite:PATH, postgresql:"),
        ("memory:x", "must be sqlite:PATH, postgresql:"),
        ("postgresql://a:b@db/cards", "must hold no password"),
        ("postgresql://a@db/cards?password=b", "must hold no password"),
        ("postgresql://a@db/cards?schema=Room", "schema: must be a lower-case identifier"),
        ("postgresql://a@db/cards?schema=a;b", "schema: must be a lower-case identifier"),
        ("postgresql://a@db/cards?schema=", "schema: must be a lower-case identifier"),
    ],
)
def test_what_is_no_address_is_refused_with_what_is_allowed_and_without_the_secret(text: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed) as refused:
        Location.parse(text)
    assert "b@" not in str(refused.value)
