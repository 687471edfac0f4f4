"""A card room's store is copied whole, from any kind to any kind, also while its dealer goes on."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dealer.cashier import BANK, Transfer, rack, wallet
from dealer.store import COPIED, FinishedHand, StoreFailed, StoreHeld
from dealer.store.copy import _end, copy
from dealer.store.location import Location, open_store
from tests.conformance.test_dealer_store import T, U, everything
from tests.postgres import postgres
from tests.scale import scaled

ENDS: dict[str, Callable[[Path, str], Location]] = {
    "sqlite": lambda folder, name: Location.parse(f"sqlite:{folder / name}.sqlite3"),
    "postgres": lambda _folder, _name: Location.parse(postgres().address()),
}


def fill(location: Location) -> None:
    store = open_store(location)
    store.create(T, "limit_stud", "1/2")
    store.create(U, "casino_club", "1-2")
    for number in range(1_200):
        store.append(T, [{"n": number}], [Transfer(BANK, wallet(f"p{number}"), 5)] if number % 100 == 0 else [])
    store.append(U, [{"n": 1}], [Transfer(wallet("p0"), rack("u"), 2)])
    for hand in range(1, 4):
        store.finish(FinishedHand(U, hand, {1: "ann", 4: "ben"}, '{"ü": 1}', "{}"), {"seq": hand})
    store.append(U, [{"n": 2}, {"n": 3}], [])
    store.close()


@pytest.mark.parametrize("source", ENDS)
@pytest.mark.parametrize("destination", ENDS)
def test_a_copy_has_everything_and_goes_on_in_the_same_order(tmp_path: Path, source: str, destination: str) -> None:
    first, second = ENDS[source](tmp_path, "first"), ENDS[destination](tmp_path, "second")
    fill(first)
    assert copy(first, second) == {"tables": 2, "journal": 1_202, "ledger": 13, "accounts": 14, "hands": 3}
    whole, copied = open_store(first), open_store(second)
    assert everything(copied) == everything(whole)
    copied.append(T, [{"n": 1_200}], [Transfer(BANK, wallet("p0"), 1)])
    assert [entry["n"] for entry in copied.table(T).journal] == list(range(1_201))
    whole.close()
    copied.close()


@pytest.mark.parametrize("kind", ENDS)
def test_what_holds_tables_already_is_not_written_over(tmp_path: Path, kind: str) -> None:
    first, second = ENDS[kind](tmp_path, "first"), ENDS[kind](tmp_path, "second")
    fill(first)
    store = open_store(second)
    store.create(T, "casino_club", "1-2")
    kept = everything(store)
    with pytest.raises(StoreFailed, match=r"another dealer holds"):
        copy(first, second)
    store.close()
    with pytest.raises(StoreFailed, match="holds tables already"):
        copy(first, second)
    store = open_store(second)
    assert everything(store) == kept
    store.close()


@pytest.mark.parametrize("kind", ENDS)
def test_a_copy_taken_while_the_dealer_goes_on_is_one_moment(tmp_path: Path, kind: str) -> None:
    first = ENDS[kind](tmp_path, "first")
    fill(first)
    begun, done = threading.Event(), threading.Event()

    def deal() -> None:
        store = open_store(first)
        begun.set()
        number = 0
        while not done.is_set():
            # Journal and ledger say the same in every commit.
            store.append(U, [{"paid": number}], [Transfer(BANK, wallet("ann"), 1)])
            number += 1
        store.close()

    dealer = threading.Thread(target=deal)
    dealer.start()
    assert begun.wait(30)
    try:
        for number in range(scaled(3, 30)):
            second = ENDS[kind](tmp_path, f"copy{number}")
            copy(first, second)
            store = open_store(second)
            paid = [entry for entry in store.table(U).journal if "paid" in entry]
            assert len(paid) == store.balances().get(wallet("ann"), 0)
            assert sum(store.balances().values()) == 0
            for each in store.tables():
                assert each.journal[-1] == COPIED, "hands that were being played are not played on from here"
            store.append(U, [{"n": 4}], [])
            assert store.table(U).journal[-1] == {"n": 4}
            store.close()
    finally:
        done.set()
        dealer.join()


@pytest.mark.parametrize("kind", ENDS)
def test_a_store_that_nobody_uses_is_held_until_it_is_copied(tmp_path: Path, kind: str) -> None:
    first = ENDS[kind](tmp_path, "first")
    fill(first)
    refused = []

    async def hold() -> None:
        async with _end(first, writes=False) as end:
            assert not end.is_used
            with pytest.raises(StoreHeld):
                open_store(first)
            refused.append(True)

    asyncio.run(hold())
    assert refused
    open_store(first).close()


def dealer(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dealer", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_the_command_copies_and_names_what_is_wrong(tmp_path: Path) -> None:
    first, second = ENDS["sqlite"](tmp_path, "first"), ENDS["postgres"](tmp_path, "")
    fill(first)
    done = dealer("store", "copy", first, second, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["journal"] == 1_202
    back = dealer("store", "copy", second, f"sqlite:{tmp_path / 'back.sqlite3'}")
    assert back.stdout == "2 tables, 3 hands, 13 entries of the ledger copied\n"
    (tmp_path / "none").write_bytes(b"no database" * 500)
    for source, destination, why in (
        (f"sqlite:{tmp_path / 'none'}", f"sqlite:{tmp_path / 'new'}", "file is not a database"),
        (f"sqlite:{tmp_path / 'missing'}", f"sqlite:{tmp_path / 'new'}", "unable to open database file"),
        ("memory:", f"sqlite:{tmp_path / 'new'}", "memory: cannot be copied"),
        (first, "tables.sqlite3", "must be sqlite:PATH"),
        (first, second, "holds tables already"),
        ("postgresql://a:secret@h/d", first, "must hold no password"),
    ):
        refused = dealer("store", "copy", source, destination)
        assert refused.returncode == 2
        assert why in refused.stderr
        assert "Traceback" not in refused.stderr
    assert not (tmp_path / "new").exists()
