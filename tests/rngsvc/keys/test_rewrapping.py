"""The key-encryption key is changed: nothing is lost at any point, and afterwards the old key opens nothing."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rngsvc.client import SyncClient
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys.loading import load_changing_key
from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import make_key_encryption_key
from rngsvc.keys.wrapping import ChangingKey, KeyEncryptionKey
from rngsvc.ports import DataKeyRow, Store, UnwrapRefused
from rngsvc.rewrapping import Rewrapped, rewrap
from rngsvc.store.keys_postgres import keys_in_postgres
from rngsvc.store.keys_sqlite import keys_in_sqlite
from rngsvc.store.postgres import PostgresStore
from rngsvc.store.sqlite import SqliteStore
from rngsvc.vault import data_key_context
from tests.conformance.stores import Writer
from tests.postgres import postgres
from tests.rngsvc.cli.command_line import rngsvc
from tests.scale import scaled
from tests.simulation.process import ORIGIN, ServerProcess

OLD, NEW = KeyEncryptionKey(b"\x07" * 32), KeyEncryptionKey(b"\x08" * 32)
CHANGING = ChangingKey(NEW, OLD)

Opened = Callable[[], AbstractAsyncContextManager[Any]]


def in_sqlite(folder: Path) -> tuple[Store, Opened]:
    return SqliteStore(folder / "log.sqlite3"), lambda: keys_in_sqlite(folder / "log.sqlite3")


def in_postgres(_folder: Path) -> tuple[Store, Opened]:
    address = postgres().address()
    return PostgresStore(address), lambda: keys_in_postgres(address)


KINDS = {"sqlite": in_sqlite, "postgres": in_postgres}


def data_key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def wrapped(key: KeyEncryptionKey, count: int) -> list[DataKeyRow]:
    """Data keys of three days of so many tables."""
    places = [(number.to_bytes(16, "big"), 20_000 + number % 3) for number in range(count)]
    return [
        DataKeyRow(table, day, key.wrap(data_key(number), data_key_context(ORIGIN, table, day)))
        for number, (table, day) in enumerate(places)
    ]


async def unwrapped(opened: Opened, key: Any, count: int) -> int:
    """Return how many of the data keys ``key`` unwraps, each to what it was."""
    async with opened() as store:
        rows = await store.data_keys(None, 10 * count)
    assert len(rows) == count
    good = 0
    for number, row in enumerate(rows):
        try:
            assert key.unwrap(row.wrapped, data_key_context(ORIGIN, row.table, row.day)) == data_key(number)
            good += 1
        except UnwrapRefused:
            pass
    return good


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.asyncio
async def test_every_data_key_is_wrapped_anew_beside_a_writer_that_goes_on(tmp_path: Path, kind: str) -> None:
    store, opened = KINDS[kind](tmp_path)
    await store.open()
    writer = Writer(store)
    await writer.commit(3, data_keys=wrapped(OLD, 450))
    seen: list[tuple[int, int]] = []
    async with opened() as keys:
        assert await rewrap(keys, ORIGIN, CHANGING, lambda *at: seen.append(at)) == Rewrapped(done=450)
        await writer.commit()
        assert await rewrap(keys, ORIGIN, CHANGING) == Rewrapped(before=450)
    assert seen[-1] == (450, 450)
    assert await unwrapped(opened, NEW, 450) == 450
    assert await unwrapped(opened, OLD, 450) == 0
    await store.close()


class PowerGone(Exception):
    """Nothing of ours is to catch it."""


class BreaksOff:
    """A store whose ``at``-th exchange fails: not begun, or done and not told."""

    def __init__(self, inner: Any, at: int, *, done: bool) -> None:
        self._inner, self._at, self._done = inner, at, done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def exchange(self, changes: Any) -> int:
        self._at -= 1
        if self._at < 0 and not self._done:
            raise PowerGone
        count: int = await self._inner.exchange(changes)
        if self._at < 0:
            raise PowerGone
        return count


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.asyncio
async def test_broken_off_anywhere_both_keys_are_needed_and_the_next_run_ends_it(
    tmp_path: Path, kind: str, at: int, done: bool
) -> None:
    store, opened = KINDS[kind](tmp_path)
    await store.open()
    await Writer(store).commit(3, data_keys=wrapped(OLD, 450))
    with pytest.raises(PowerGone):
        async with opened() as keys:
            await rewrap(BreaksOff(keys, at, done=done), ORIGIN, CHANGING)
    by_new = min(450, 200 * (at + done))
    assert await unwrapped(opened, NEW, 450) == by_new
    assert await unwrapped(opened, OLD, 450) == 450 - by_new
    assert await unwrapped(opened, CHANGING, 450) == 450
    async with opened() as keys:
        assert await rewrap(keys, ORIGIN, CHANGING) == Rewrapped(done=450 - by_new, before=by_new)
    assert await unwrapped(opened, NEW, 450) == 450
    await store.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.asyncio
async def test_a_data_key_of_another_key_or_another_place_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    store, opened = KINDS[kind](tmp_path)
    await store.open()
    good, foreign, moved = wrapped(OLD, 3)
    stranger = KeyEncryptionKey(b"\x09" * 32)
    foreign = foreign._replace(wrapped=wrapped(stranger, 2)[1].wrapped)
    moved = moved._replace(wrapped=good.wrapped)
    await Writer(store).commit(3, data_keys=[good, foreign, moved])
    async with opened() as keys:
        assert await rewrap(keys, ORIGIN, CHANGING) == Rewrapped(1, 0, 2, {stranger.key_id.hex(), OLD.key_id.hex()})
        rows = await keys.data_keys(None, 10)
    assert rows[1:] == [foreign, moved]
    await store.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.asyncio
async def test_a_row_that_was_changed_meanwhile_is_left_alone(tmp_path: Path, kind: str) -> None:
    store, opened = KINDS[kind](tmp_path)
    await store.open()
    (row,) = wrapped(OLD, 1)
    await Writer(store).commit(3, data_keys=[row])
    async with opened() as keys:
        assert await keys.exchange([(row._replace(wrapped=b"as it was before"), row._replace(wrapped=b"x"))]) == 0
        assert await keys.data_keys(None, 10) == [row]
    await store.close()


def test_the_key_before_must_be_another(tmp_path: Path) -> None:
    make_key_encryption_key(tmp_path / "seeds.key")
    place = f"file:{tmp_path / 'seeds.key'}"
    with pytest.raises(KeyUnavailable, match="not the one before"):
        load_changing_key(place, place)


# --- The command, beside a real service ---


def settings(server: ServerProcess, new: Path) -> list[object]:
    return [
        f"--origin={ORIGIN}",
        f"--signing-key=file:{server.folder / 'log.key'}",
        f"--key-encryption-key=file:{new}",
        f"--previous-key-encryption-key=file:{server.folder / 'seeds.key'}",
        f"--store=sqlite:{server.store}",
    ]


@pytest.mark.timeout(120)
def test_a_hand_is_played_on_through_a_change_of_key(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    table_id, new = os.urandom(16), tmp_path / "new.key"
    with server, SyncClient.connect(server.ready["grpc"], log_key=server.ready["log_key"]) as client:
        log_key = server.ready["log_key"]
        client.register_table(table_id).reserve().seal(52)
        server.terminate()
    make_key_encryption_key(new)
    both = ("--key-encryption-key=file:" + str(new), f"--previous-key-encryption-key=file:{tmp_path / 'seeds.key'}")
    with (
        replace(server, ready={}, flags=both) as changing,
        SyncClient.connect(changing.ready["grpc"], log_key=log_key) as client,
    ):
        assert len(client.table(table_id).hand(1).open(0, [0])) == 1
        ran = rngsvc("store", "rewrap", *settings(server, new), "--json")
        assert (ran.code, ran.json) == (ExitCode.OK, {"rewrapped": 1, "before": 0, "refused": 0, "refused_keys": []})
        assert len(client.table(table_id).hand(1).open(0, [1])) == 1
        changing.terminate()
    with (
        replace(server, ready={}, flags=both[:1]) as changed,
        SyncClient.connect(changed.ready["grpc"], log_key=log_key) as client,
    ):
        hand = client.table(table_id).hand(1)
        assert len(hand.open(0, [2])) == 1
        hand.close()
        changed.terminate()
    ran = rngsvc("store", "rewrap", *settings(server, new))
    assert "0 data keys wrapped anew, 1 were so before" in ran.stdout
    assert "once every node of this store runs with the new key, the old key may go" in ran.stdout


def test_kill_9_in_the_middle_loses_no_data_key(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    for name, byte in (("seeds.key", "07"), ("new.key", "08")):
        (tmp_path / name).write_text(byte * 32)
        (tmp_path / name).chmod(0o600)
    count, kills = scaled(20_000, 200_000), scaled(3, 20)

    def opened() -> AbstractAsyncContextManager[Any]:
        return keys_in_sqlite(server.store)

    async def fill() -> None:
        store = SqliteStore(server.store)
        await store.open()
        await Writer(store).commit(3, data_keys=wrapped(OLD, count))
        await store.close()

    asyncio.run(fill())
    command = [sys.executable, "-m", "rngsvc", "store", "rewrap", *map(str, settings(server, tmp_path / "new.key"))]
    for kill in range(1, kills + 1):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while by_new(server) < kill * count // (kills + 1):
                assert process.poll() is None
                time.sleep(0.002)
            process.kill()
        assert count // (kills + 1) <= by_new(server) < count
        assert asyncio.run(unwrapped(opened, CHANGING, count)) == count
    assert rngsvc("store", "rewrap", *settings(server, tmp_path / "new.key")).code == 0
    assert asyncio.run(unwrapped(opened, NEW, count)) == count


def by_new(server: ServerProcess) -> int:
    """Count what the new key has wrapped by the id in front of it."""
    with closing(sqlite3.connect(f"file:{server.store}?mode=ro", uri=True, timeout=10)) as store:
        ((count,),) = store.execute("SELECT count(*) FROM data_key WHERE substr(wrapped, 1, 8) = ?", (NEW.key_id,))
    return int(count)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("--previous-key-encryption-key", "previous_key_encryption_key: must name the key before"),
        ("--store", "log.sqlite3"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, left_out: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ServerProcess(tmp_path)
    make_key_encryption_key(tmp_path / "new.key")
    monkeypatch.chdir(tmp_path)
    given = [each for each in settings(server, tmp_path / "new.key") if not str(each).startswith(left_out + "=")]
    ran = rngsvc("store", "rewrap", *given, *(["--store=sqlite:log.sqlite3"] if left_out == "--store" else []))
    assert ran.code in {ExitCode.CONFIGURATION, ExitCode.USAGE}
    assert message in ran.stderr
