"""What the SQLite store does beyond the conformance suite: how it is durable, private, migrated, and how it refuses."""

# ruff: noqa: ASYNC240 - a test has nothing else to do while it reads a file.

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import import_module, resources
from pathlib import Path

import pytest
import pytest_asyncio

import rngsvc.store
from rngsvc.ports import Commit, HeadMoved, StoreRefused, TableRow, TileRow
from rngsvc.store.sqlite import SqliteStore
from tests.conformance.stores import PLACES, TABLE, Writer, entries, everything, head, rows_of_everything, step
from tests.scale import scaled


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite3"


@pytest_asyncio.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


def test_the_conformance_suite_knows_every_store() -> None:
    modules = [import_module(f"rngsvc.store.{path.stem}") for path in Path(rngsvc.store.__path__[0]).glob("*.py")]
    stores = {name for module in modules for name in vars(module) if name.endswith("Store")} - {"Store", "WitnessStore"}
    assert stores == {"MemoryStore", "SqliteStore", "PostgresStore"}
    assert len(stores) == len(PLACES)


# --- Durable and private ---


@pytest.mark.parametrize(
    ("pragma", "expected"),
    # 2 is FULL; 4000 pages of 4 KiB bound the write-ahead log.
    [("journal_mode", "wal"), ("synchronous", 2), ("wal_autocheckpoint", 4000)],
)
@pytest.mark.asyncio
async def test_the_writer_has_a_write_ahead_log_that_is_synced_at_each_commit(
    store: SqliteStore, pragma: str, expected: object
) -> None:
    assert store._write_connection
    assert store._write_connection.execute(f"PRAGMA {pragma}").fetchone() == (expected,)


@pytest.mark.asyncio
async def test_the_reader_cannot_write(store: SqliteStore) -> None:
    assert store._read_connection
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._read_connection.execute("DELETE FROM entry")


@pytest.mark.asyncio
async def test_nobody_else_can_read_any_file_of_the_store(store: SqliteStore, path: Path) -> None:
    await Writer(store).commit(3, **rows_of_everything())
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert files == dict.fromkeys(["log.sqlite3", "log.sqlite3-wal", "log.sqlite3-shm", "log.sqlite3.lock"], 0o600)


@pytest.mark.asyncio
async def test_another_process_reads_whole_commits_while_the_writer_goes_on(store: SqliteStore, path: Path) -> None:
    writer = Writer(store)
    await writer.commit(5)
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        for _ in range(scaled(50, 1000)):
            await writer.commit(5)
            count, size = reader.execute("SELECT (SELECT count(*) FROM entry), (SELECT size FROM head)").fetchone()
            assert count == size
            assert writer.head
            assert count == writer.head.size
    finally:
        reader.close()


# --- Migrations ---


MIGRATIONS = resources.files("rngsvc.store") / "migrations" / "sqlite"


def migrations() -> list[str]:
    return sorted(each.name for each in MIGRATIONS.iterdir() if each.name.endswith(".sql"))


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [int(name.partition("_")[0]) for name in migrations()] == list(range(1, len(migrations()) + 1))


@pytest.mark.parametrize("version", range(len(migrations()) + 1))
@pytest.mark.asyncio
async def test_a_store_of_every_older_schema_is_brought_up_to_date(path: Path, version: int) -> None:
    older = sqlite3.connect(path, isolation_level=None)
    for name in migrations()[:version]:
        older.executescript((MIGRATIONS / name).read_text())
    older.execute(f"PRAGMA user_version = {version}")
    older.close()
    store = SqliteStore(path)
    assert await store.open() is None
    await Writer(store).commit(3, **rows_of_everything())
    await store.close()
    brought_up = sqlite3.connect(path)
    assert brought_up.execute("PRAGMA user_version").fetchone() == (len(migrations()),)
    brought_up.close()


@pytest.mark.asyncio
async def test_a_store_of_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    newer = sqlite3.connect(path, isolation_level=None)
    newer.execute("CREATE TABLE of_the_future (x)")
    newer.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    newer.close()
    store = SqliteStore(path)
    with pytest.raises(StoreRefused, match=f"schema {len(migrations()) + 1}, this version knows up to"):
        await store.open()
    await store.close()
    newer = sqlite3.connect(path)
    assert newer.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("of_the_future",)]
    newer.close()


# --- What cannot be taken ---


@pytest.mark.asyncio
async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"no database, but long enough to look like one" * 100)
    store = SqliteStore(path)
    with pytest.raises(StoreRefused, match="not a database"):
        await store.open()
    await store.close()
    assert path.read_bytes().startswith(b"no database")


@pytest.mark.asyncio
async def test_a_database_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    """The dealer's store has numbered layouts too, so the number alone says nothing."""
    with sqlite3.connect(path) as other:
        other.executescript("CREATE TABLE accounts (player TEXT); PRAGMA user_version = 1;")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="no store of this service"):
        await SqliteStore(path).open()
    assert path.read_bytes() == before


@pytest.mark.asyncio
async def test_a_missing_folder_is_refused_by_name(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "log.sqlite3")
    with pytest.raises(StoreRefused, match="missing"):
        await store.open()
    await store.close()


@pytest.mark.asyncio
async def test_a_refused_store_can_be_taken_once_the_cause_is_gone(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    store = SqliteStore(path)
    with pytest.raises(StoreRefused):
        await store.open()
    path.unlink()
    assert await store.open() is None
    await Writer(store).commit()
    await store.close()


# --- Commits that fail ---


@pytest.mark.parametrize(
    "broken",
    [
        {"tables": [TableRow(TABLE, 0, "again")]},
        {"steps": [step(1, 0, "reserve", 0)]},
        {"tiles": [TileRow(0, 0, bytes(8192))]},
    ],
    ids=["table", "step", "tile"],
)
@pytest.mark.asyncio
async def test_a_commit_that_fails_half_way_leaves_nothing(
    store: SqliteStore, broken: dict[str, list[TableRow]]
) -> None:
    writer = Writer(store)
    await writer.commit(3, **rows_of_everything())
    before = await everything(store)
    with pytest.raises(StoreRefused):
        await writer.commit(5, **broken)
    assert await everything(store) == before
    await writer.commit(5)


@pytest.mark.asyncio
async def test_a_full_store_refuses_and_goes_on_when_there_is_room_again(store: SqliteStore) -> None:
    writer = Writer(store)
    await writer.commit(3, **rows_of_everything())
    before = await everything(store)
    connection = store._write_connection
    assert connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreRefused, match="full"):
        await writer.commit(5000)
    assert await everything(store) == before
    connection.execute("PRAGMA max_page_count = 1000000")
    await writer.commit(5000)


@pytest.mark.asyncio
async def test_a_writer_that_came_in_past_the_lock_is_noticed(store: SqliteStore, path: Path) -> None:
    """Whoever deletes the lock file gets past the lock; compare-and-swap is the second bar."""
    writer = Writer(store)
    await writer.commit()
    assert writer.head
    path.with_name("log.sqlite3.lock").unlink()
    intruder = SqliteStore(path)
    assert await intruder.open() == writer.head
    await intruder.commit(Commit(writer.head, head(2, 99), entries(1, 2)))
    with pytest.raises(HeadMoved):
        await writer.commit()
    assert await store.entries(0, 9) == [b"entry 0", b"entry 1"]
    await intruder.close()


@pytest.mark.asyncio
async def test_of_two_writers_at_once_exactly_one_commits(store: SqliteStore, path: Path) -> None:
    writer = Writer(store)
    await writer.commit()
    path.with_name("log.sqlite3.lock").unlink()
    intruder = SqliteStore(path)
    await intruder.open()
    expected = writer.head
    assert expected
    for size in range(1, scaled(20, 500)):
        next_head = replace(head(size + 1), time=size)
        results = await asyncio.gather(
            *(each.commit(Commit(expected, next_head, entries(size, size + 1))) for each in (store, intruder)),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == ["HeadMoved", "NoneType"]
        expected = next_head
    await intruder.close()


@pytest.mark.asyncio
async def test_closing_lets_a_commit_in_progress_come_to_its_end(store: SqliteStore, path: Path) -> None:
    writer = Writer(store)
    committing = asyncio.create_task(writer.commit(2000))
    await asyncio.sleep(0)
    await store.close()
    await committing
    again = SqliteStore(path)
    assert await again.open() == writer.head
    await again.close()


@pytest.mark.asyncio
async def test_a_missing_folder_is_told_once(tmp_path: Path) -> None:
    lock = tmp_path / "nowhere" / "log.sqlite3.lock"
    with pytest.raises(StoreRefused) as refused:
        await SqliteStore(tmp_path / "nowhere" / "log.sqlite3").open()
    assert str(refused.value) == f"{lock}: No such file or directory"
