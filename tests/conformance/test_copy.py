"""A store is copied whole, from any kind to any kind, also while its writer goes on."""

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from rngsvc.audit import StoreFile
from rngsvc.ports import Store, StoreRefused
from rngsvc.store.copy import copy, from_sqlite, into_sqlite
from rngsvc.store.copy_postgres import from_postgres, into_postgres
from rngsvc.store.postgres import PostgresStore
from rngsvc.store.sqlite import SqliteStore
from tests.conformance.stores import Writer, everything, rows_of_everything
from tests.postgres import postgres

Opened = Callable[[], AbstractAsyncContextManager[Any]]
End = tuple[Callable[[], Store], Opened, Opened]


def sqlite_end(folder: Path, name: str) -> End:
    path = folder / f"{name}.sqlite3"
    return lambda: SqliteStore(path), lambda: from_sqlite(path), lambda: into_sqlite(path)


def postgres_end(_folder: Path, _name: str) -> End:
    address = postgres().address()
    return lambda: PostgresStore(address), lambda: from_postgres(address), lambda: into_postgres(address)


ENDS = {"sqlite": sqlite_end, "postgres": postgres_end}


@pytest.mark.parametrize("source", ENDS)
@pytest.mark.parametrize("destination", ENDS)
@pytest.mark.asyncio
async def test_a_copy_has_everything_and_the_same_head(tmp_path: Path, source: str, destination: str) -> None:
    handle, read, _ = ENDS[source](tmp_path, "first")
    copied, _, fill = ENDS[destination](tmp_path, "second")
    first, second = handle(), copied()
    await first.open()
    writer = Writer(first)
    await writer.commit(3, **rows_of_everything())
    await writer.commit(2500, kind="audit")
    before = await everything(first)
    async with read() as found, fill() as new:
        counts = await copy(found, new)
    assert counts == {
        "head": 1,
        "entry": 2503,
        "tile": 1,
        "card_table": 1,
        "step": 3,
        "data_key": 1,
        "sample": 1,
    }
    assert await second.open() == writer.head
    assert await everything(second) == before
    assert await second.tile(0, 0) == await first.tile(0, 0)
    # Both go on from here, each for itself.
    await Writer(second, writer.head).commit()
    await writer.commit()
    await first.close()
    await second.close()


@pytest.mark.asyncio
async def test_a_copy_in_sqlite_is_one_file_and_reading_it_leaves_nothing_beside_it(tmp_path: Path) -> None:
    first, copied = SqliteStore(tmp_path / "first"), tmp_path / "second" / "copy"
    copied.parent.mkdir()
    await first.open()
    await Writer(first).commit(3, **rows_of_everything())
    async with from_sqlite(tmp_path / "first") as found, into_sqlite(copied) as new:
        await copy(found, new)
    await first.close()
    beside = [copied.name, f"{copied.name}.lock"]
    assert sorted(os.listdir(copied.parent)) == beside
    assert copied.read_bytes()[18:20] == b"\x01\x01", "a file in WAL mode cannot be read where nothing can be written"
    assert StoreFile(copied).checkpoint()
    assert sorted(os.listdir(copied.parent)) == beside


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.asyncio
async def test_what_holds_a_log_already_is_not_written_over(tmp_path: Path, kind: str) -> None:
    handle, read, _ = ENDS[kind](tmp_path, "first")
    copied, _, fill = ENDS[kind](tmp_path, "second")
    first, second = handle(), copied()
    for store in (first, second):
        await store.open()
        await Writer(store).commit(3, **rows_of_everything())
    kept = await everything(second)
    await second.close()
    with pytest.raises(StoreRefused, match="holds a log already"):
        async with read() as found, fill() as new:
            await copy(found, new)
    again = copied()
    await again.open()
    assert await everything(again) == kept
    await first.close()
    await again.close()


@pytest.mark.asyncio
async def test_a_source_that_is_no_store_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreRefused, match=r"source: file is not a database"):
        async with from_sqlite(source) as found, into_sqlite(destination) as new:
            await copy(found, new)
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.asyncio
async def test_a_copy_taken_while_the_writer_goes_on_is_one_moment(tmp_path: Path, kind: str) -> None:
    handle, read, _ = ENDS[kind](tmp_path, "first")
    first = handle()
    await first.open()
    writer = Writer(first)
    await writer.commit(3, **rows_of_everything())
    writing = True

    async def write() -> None:
        while writing:
            await writer.commit(50)

    task = asyncio.create_task(write())
    for i in range(5):
        await asyncio.sleep(0.02)
        copied, _, fill = ENDS[kind](tmp_path, f"copy{i}")
        second = copied()
        async with read() as found, fill() as new:
            counts = await copy(found, new)
        head = await second.open()
        assert head
        assert counts["entry"] == head.size == len(await second.entries(0, 10**6))
        await second.close()
    writing = False
    await task
    await first.close()
