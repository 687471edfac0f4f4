"""Upgrade and rollback, as docs/deploy.md has it: real services on stores of every earlier and of a later schema."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from rngsvc.commands.exit_codes import ExitCode
from rngsvc.store.copy import COLUMNS
from rngsvc.store.migrations import migrations_after
from tests.drills.account import Account
from tests.drills.players import Players, check_log
from tests.postgres import Postgres
from tests.simulation.process import ServerProcess

LATEST = {kind: len(migrations_after(kind, 0)) for kind in ("sqlite", "postgres")}


class SqliteStore:
    """A store's file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "log.sqlite3"
        self.flag = f"--store=sqlite:{self.file}"

    def make_older(self, version: int) -> None:
        """Put everything into a store that a program of that schema has made."""
        new = self.file.with_name("log.sqlite3")
        self.file = self.file.rename(self.file.with_name("newer.sqlite3"))
        with closing(sqlite3.connect(new, isolation_level=None)) as older:
            older.execute("PRAGMA journal_mode=WAL")
            for each in migrations_after("sqlite", 0)[:version]:
                older.executescript(each.sql)
            older.execute(f"PRAGMA user_version = {version}")
            older.execute("ATTACH ? AS newer", [str(self.file)])
            for table, columns in COLUMNS.items():
                names = ", ".join(columns)
                older.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM newer.{table}")
        self.file = new

    def make_newer(self) -> None:
        """Let a program of the next schema have been here."""
        with closing(sqlite3.connect(self.file, isolation_level=None)) as store:
            store.execute("CREATE TABLE of_the_future (x)")
            store.execute(f"PRAGMA user_version = {LATEST['sqlite'] + 1}")

    def version(self) -> int:
        with closing(sqlite3.connect(self.file)) as store:
            (version,) = store.execute("PRAGMA user_version").fetchone()
        return int(version)


class PostgresStore:
    """A schema in a PostgreSQL of the test's own."""

    def __init__(self, server: Postgres) -> None:
        self.address, _, self.schema = server.address().partition("&schema=")
        self.flag = f"--store={self.address}&schema={self.schema}"

    def _do(self, work: Callable[[asyncpg.Connection], Awaitable[int | None]]) -> int:
        async def connected() -> int:
            connection = await asyncpg.connect(self.address)
            try:
                return await work(connection) or 0
            finally:
                await connection.close()

        return asyncio.run(connected())

    def make_older(self, version: int) -> None:
        """Put everything into a schema that a program of that version has made."""

        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(f"ALTER SCHEMA {self.schema} RENAME TO newer")
            await connection.execute(f"CREATE SCHEMA {self.schema}; SET search_path = {self.schema}")
            await connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            for each in migrations_after("postgres", 0)[:version]:
                await connection.execute(each.sql)
                await connection.execute("INSERT INTO schema_version VALUES ($1)", each.number)
            for table, columns in COLUMNS.items():
                names = ", ".join(columns)
                await connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM newer.{table}")
            await connection.execute("DROP SCHEMA newer CASCADE")

        self._do(work)

    def make_newer(self) -> None:
        """Let a program of the next version have been here."""

        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(f"INSERT INTO {self.schema}.schema_version VALUES ({LATEST['postgres'] + 1})")

        self._do(work)

    def version(self) -> int:
        return self._do(
            lambda connection: connection.fetchval(f"SELECT max(version) FROM {self.schema}.schema_version")
        )


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.remove()


def store_of(kind: str, folder: Path, database: Postgres) -> SqliteStore | PostgresStore:
    return SqliteStore(folder) if kind == "sqlite" else PostgresStore(database)


EARLIER = [(kind, version) for kind, latest in LATEST.items() for version in range(1, latest)]


@pytest.mark.parametrize(("kind", "version"), EARLIER)
def test_a_store_of_an_earlier_version_is_migrated_at_the_start_and_keeps_everything(
    kind: str, version: int, tmp_path: Path, database: Postgres
) -> None:
    store = store_of(kind, tmp_path, database)
    account = Account()
    with ServerProcess(tmp_path, (store.flag,)) as server:
        with Players(server.ready["grpc"], server.ready["log_key"], count=2) as players:
            players.play(hands=20)
        assert server.terminate() == ExitCode.OK
        store.make_older(version)
        assert store.version() == version
        server.flags = (*server.flags, f"--listen={server.ready['grpc']}")
        server.start()
        assert store.version() == LATEST[kind]
        players.check_told(account)
        with Players(server.ready["grpc"], server.ready["log_key"], count=2) as more:
            more.play(hands=20)
        check_log(account, server.ready["http"], server.ready["log_key"])
        assert server.terminate() == ExitCode.OK


@pytest.mark.parametrize("kind", LATEST)
def test_after_a_migration_the_version_before_refuses_to_start_and_changes_nothing(
    kind: str, tmp_path: Path, database: Postgres
) -> None:
    store = store_of(kind, tmp_path, database)
    with ServerProcess(tmp_path, (store.flag,)) as server:
        assert server.terminate() == ExitCode.OK
        store.make_newer()
        before = store.version()
        assert server.launch().ended(60) == ExitCode.STOPPED
        assert f"has schema {LATEST[kind] + 1}, this version knows up to {LATEST[kind]}" in server.log_text
        assert "Traceback" not in server.log_text
        assert store.version() == before == LATEST[kind] + 1
