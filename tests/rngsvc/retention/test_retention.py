"""Secrets are destroyed when their hands are closed and audited, and not before; the log and its answers stay."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.commands.exit_codes import ExitCode
from rngsvc.errors import Reason
from rngsvc.keys.signing import SigningKey
from rngsvc.keys.wrapping import KeyEncryptionKey
from rngsvc.ports import Commit, Head, Store
from rngsvc.protocol.receipt import Receipt
from rngsvc.results import AuditVerdict
from rngsvc.retention import DAY_MS, carry_out, plan
from rngsvc.store.keys_postgres import keys_in_postgres
from rngsvc.store.keys_sqlite import keys_in_sqlite
from rngsvc.store.memory import MemoryStore
from rngsvc.store.postgres import PostgresStore
from rngsvc.store.sqlite import SqliteStore
from rngsvc.vault import FRESH_S, SecretLost, Vault
from rngsvc.web import public_receipt
from tests.postgres import postgres
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.service.world import AUDITOR_SIGNING, ORIGIN, START_MS, SeededEntropy, World, content, table_id

TODAY = START_MS // DAY_MS
ALICE = (b"seat-1", b"\x11" * 32)
STRANGER = SigningKey(Ed25519PrivateKey.from_private_bytes(b"stranger".ljust(32, b".")))
Opened = Callable[[], AbstractAsyncContextManager[Any]]


def in_sqlite(folder: Path) -> tuple[Callable[[], Store], Opened]:
    path = folder / "log.sqlite3"
    return lambda: SqliteStore(path), lambda: keys_in_sqlite(path)


def in_postgres(_folder: Path) -> tuple[Callable[[], Store], Opened]:
    address = postgres().address()
    return lambda: PostgresStore(address), lambda: keys_in_postgres(address)


KINDS = {"sqlite": in_sqlite, "postgres": in_postgres}


@asynccontextmanager
async def running(handle: Callable[[], Store]) -> AsyncIterator[World]:
    world = await World(make_store=lambda _world: handle()).start()
    try:
        yield world
    finally:
        await world.kill()


async def verdict(world: World, said: str = "pass", signer: SigningKey = AUDITOR_SIGNING, **span: int) -> None:
    """Log a verdict, over all that stands in the log if ``span`` does not say otherwise."""
    wanted = {"first": 0, "last": world.log.size - 1, **span}
    asked = AuditVerdict(**wanted, result=bytes(32), verdict=said, signer=signer.public_key)
    to_sign = await world.results.audit(asked)
    assert isinstance(to_sign, bytes)
    time_ms = json.loads(to_sign)["time"]
    await world.results.audit(replace(asked, time=time_ms, sig=signer.sign(to_sign)))


async def whole_hand(world: World, number: int = 0, seq: int = 1, **terms: Any) -> None:
    play = await world.play(number, **{"reveal": "escrow", **terms})
    await play.reserve(seq)
    await play.promise(seq, (ALICE,))
    await play.seal(seq, 52, (ALICE,))
    await play.open(seq, 0, 0, 1)
    await play.close(seq)


async def planned(opened: Opened, day: int = TODAY + 1) -> tuple[list[tuple[bytes, int, int]], list[str]]:
    async with opened() as keys:
        found = await plan(keys, day)
    return [(key.table, key.day, hands) for key, hands in found.doomed], [each.why for each in found.kept]


async def destroy(opened: Opened) -> int:
    async with opened() as keys:
        found = await plan(keys, TODAY + 1)
        return sum([len(gone) async for gone in carry_out(keys, [key for key, _ in found.doomed])])


Scene = Callable[[World], Any]


async def not_audited(world: World) -> None:
    await whole_hand(world)


async def audited_before_its_close(world: World) -> None:
    play = await world.play(0, reveal="escrow")
    await play.reserve(1)
    await play.seal(1)
    await verdict(world)
    await play.close(1)


async def audited_from_after_its_reservation(world: World) -> None:
    await whole_hand(world)
    await verdict(world, first=2)


async def failed_the_audit(world: World) -> None:
    await whole_hand(world)
    await verdict(world, "fail")


async def audited_by_a_stranger(world: World) -> None:
    await whole_hand(world)
    await verdict(world, signer=STRANGER)


async def one_hand_open(world: World) -> None:
    await whole_hand(world)
    play = await world.play(0, reveal="escrow")
    await play.reserve(2)
    await verdict(world)


async def one_hand_closed_later(world: World) -> None:
    await whole_hand(world)
    await verdict(world)
    await whole_hand(world, seq=2)


async def in_order(world: World) -> None:
    await whole_hand(world)
    await whole_hand(world, seq=2)
    await verdict(world)


async def public_and_audited_by_anybody(world: World) -> None:
    await whole_hand(world, reveal="public")
    await whole_hand(world, seq=2, reveal="public")
    await verdict(world, signer=STRANGER)


KEPT: list[tuple[Scene, str]] = [
    (not_audited, "1 of 1 hands without a passing verdict of the table's auditor"),
    (audited_before_its_close, "1 of 1 hands without a passing verdict of the table's auditor"),
    (audited_from_after_its_reservation, "1 of 1 hands without a passing verdict of the table's auditor"),
    (failed_the_audit, "1 of 1 hands without a passing verdict of the table's auditor"),
    (audited_by_a_stranger, "1 of 1 hands without a passing verdict of the table's auditor"),
    (one_hand_open, "1 of 2 hands not closed"),
    (one_hand_closed_later, "1 of 2 hands without a passing verdict of the table's auditor"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scene", "why"), KEPT, ids=[scene.__name__ for scene, _ in KEPT])
@pytest.mark.asyncio
async def test_what_is_not_closed_and_audited_is_kept(tmp_path: Path, kind: str, scene: Scene, why: str) -> None:
    handle, opened = KINDS[kind](tmp_path)
    async with running(handle) as world:
        await scene(world)
        assert await planned(opened) == ([], [why])
        assert await destroy(opened) == 0
        assert await world.store.data_key(table_id(0), TODAY)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scene", [in_order, public_and_audited_by_anybody])
@pytest.mark.asyncio
async def test_what_is_closed_and_audited_goes_and_planning_it_changes_nothing(
    tmp_path: Path, kind: str, scene: Scene
) -> None:
    handle, opened = KINDS[kind](tmp_path)
    async with running(handle) as world:
        await scene(world)
        assert await planned(opened) == ([(table_id(0), TODAY, 2)], [])
        assert await planned(opened, TODAY) == ([], []), "days before, not the day itself"
        assert await world.store.data_key(table_id(0), TODAY)
        assert await destroy(opened) == 1
        assert await world.store.data_key(table_id(0), TODAY) is None
        assert await planned(opened) == ([], [])


@pytest.mark.asyncio
async def test_each_day_and_table_is_judged_by_its_own_hands(tmp_path: Path) -> None:
    handle, opened = in_sqlite(tmp_path)
    async with running(handle) as world:
        for day in range(4):
            for number in range(3):
                # Table 2 keeps the hand of the third day open; on the last day nobody audits.
                play = await world.play(number, reveal="escrow", ttl_s=2_592_000)
                await play.reserve(day + 1)
                if number != 2 or day < 2:
                    await play.close(day + 1, "aborted", "caller")
            if day == 2:
                await verdict(world)
            world.clock.ms += DAY_MS
        doomed, kept = await planned(opened, TODAY + 4)
        tables = sorted(map(table_id, range(3)))
        audited = [(table, day) for table in tables for day in range(3) if (table, day) != (table_id(2), 2)]
        assert doomed == [(table, TODAY + day, 1) for table, day in audited]
        assert sorted(kept) == [
            "1 of 1 hands not closed",
            "1 of 1 hands not closed",
            *["1 of 1 hands without a passing verdict of the table's auditor"] * 2,
        ]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.asyncio
async def test_afterwards_what_needs_no_secret_is_said_again_and_what_needs_one_is_refused(
    tmp_path: Path, restarted: bool
) -> None:
    handle, opened = in_sqlite(tmp_path)
    async with running(handle) as world:
        now = [0.0]
        world.service.secrets.vault._seconds = lambda: now[0]
        play = await world.play(0, reveal="escrow")
        reserved = await play.reserve(1)
        promised = await play.promise(1, (ALICE,))
        sealed = await play.seal(1, 52, (ALICE,))
        await play.open(1, 0, 0, 1)
        await play.reshuffle(1, 1, (0, 5), (0, 6))
        closed = await play.close(1)
        await verdict(world)
        assert await destroy(opened) == 1
        assert content(await play.seal(1, 52, (ALICE,))) == content(sealed), "still in memory"
        if restarted:
            await world.restart()
        else:
            now[0] = FRESH_S
        assert content(await play.reserve(1)) == content(reserved)
        assert content(await play.promise(1, (ALICE,))) == content(promised)
        assert content(await play.close(1)) == content(closed)
        size = world.log.size
        for call in (
            play.seal(1, 52, (ALICE,)),
            play.open(1, 0, 0),
            play.reshuffle(1, 1, (0, 5), (0, 6)),
            world.service.opened_hand(table_id(0), 1),
        ):
            refused = await world.refused(Reason.SEED_LOST, call, "its data key was destroyed")
            assert refused.message.startswith("seq: ")
        assert world.log.size == size
        shown = await world.service.public_hand(table_id(0), 1)
        assert shown.leaves is None
        Receipt.parse(json.dumps(public_receipt(shown, ORIGIN, table_id(0).hex(), 1)))
        await play.reserve(2)
        await play.seal(2)
        await play.close(2)


@pytest.mark.asyncio
async def test_nothing_of_a_destroyed_key_is_left_in_the_files_of_sqlite(tmp_path: Path) -> None:
    handle, opened = in_sqlite(tmp_path)
    async with running(handle) as world:
        await in_order(world)
        wrapped = await world.store.data_key(table_id(0), TODAY)
        assert wrapped
        files = [tmp_path / name for name in ("log.sqlite3", "log.sqlite3-wal")]
        assert any(wrapped in file.read_bytes() for file in files)
        await destroy(opened)
        assert not any(wrapped in file.read_bytes() for file in files)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.asyncio
async def test_broken_off_the_next_run_does_the_rest(tmp_path: Path, kind: str) -> None:
    handle, opened = KINDS[kind](tmp_path)
    async with running(handle) as world:
        for number in range(3):
            await whole_hand(world, number)
        await verdict(world)
        async with opened() as keys:
            found = await plan(keys, TODAY + 1)
            gone = carry_out(keys, [key for key, _ in found.doomed[:1]])
            assert len(await anext(gone)) == 1
            await gone.aclose()
        assert len((await planned(opened))[0]) == 2
        assert await destroy(opened) == 2


@pytest.mark.asyncio
async def test_a_data_key_is_looked_at_again_every_ten_minutes_but_unwrapped_only_if_it_changed() -> None:
    now = [0.0]
    store, kek = MemoryStore(), KeyEncryptionKey(bytes(32))
    unwrapped = []

    class Counting(KeyEncryptionKey):
        def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
            unwrapped.append(wrapped)
            return super().unwrap(wrapped, context)

    await store.open()
    writer = Vault(ORIGIN, kek, store, SeededEntropy())
    await writer.load(table_id(0), 1)
    row = writer.ensure(table_id(0), 1)
    assert row
    sealed = writer.seal(table_id(0), 1, b"seed", b"")
    await store.commit(Commit(None, Head(0, sha256().digest(), b"", 0), data_keys=[row]))
    vault = Vault(ORIGIN, Counting(bytes(32)), store, SeededEntropy(), lambda: now[0])
    for now[0] in (0.0, FRESH_S - 1, FRESH_S, 3 * FRESH_S):
        await vault.load(table_id(0), 1)
        assert vault.unseal(table_id(0), 1, sealed, b"") == b"seed"
    assert len(unwrapped) == 1
    store._disk.data_keys.clear()
    await vault.load(table_id(0), 1)
    assert vault.unseal(table_id(0), 1, sealed, b"") == b"seed"
    now[0] = 4 * FRESH_S
    await vault.load(table_id(0), 1)
    with pytest.raises(SecretLost, match="destroyed"):
        vault.unseal(table_id(0), 1, sealed, b"")


# --- The command ---


async def a_store(folder: Path) -> None:
    handle, _ = in_sqlite(folder)
    async with running(handle) as world:
        await whole_hand(world, 0)
        await verdict(world)
        await whole_hand(world, 1)


def test_without_yes_nothing_is_destroyed_and_with_it_each_key_is_logged(tmp_path: Path) -> None:
    asyncio.run(a_store(tmp_path))
    command = ["store", "destroy-secrets", f"sqlite:{tmp_path / 'log.sqlite3'}", "--before", "2026-11-01"]
    key = {"table": table_id(0).hex(), "day": "2026-09-21"}
    kept = {"table": table_id(1).hex(), "day": "2026-09-21"}
    why = "1 of 1 hands without a passing verdict of the table's auditor"
    ran = rngsvc(*command)
    assert ran.code == ExitCode.CHECK_FAILED
    assert f"{key['day']} table {key['table']}: 1 hands, closed and audited" in ran.stdout
    assert f"{kept['day']} table {kept['table']}: kept, {why}" in ran.stdout
    assert "1 data keys of 1 hands would be destroyed; --yes does it" in ran.stdout
    assert rngsvc(*command, "--json").json == {"would_destroy": [key], "hands": 1, "kept": [{**kept, "why": why}]}
    ran = rngsvc(*command, "--yes", "--json")
    assert ran.json == {"destroyed": [key], "hands": 1, "kept": [{**kept, "why": why}]}
    assert "1 data keys are kept" in ran.stderr
    line = json.loads(ran.stderr.splitlines()[0])
    assert line.pop("timestamp")
    assert line == {**key, "event": "data key destroyed", "level": "warning"}
    assert rngsvc(*command, "--yes", "--json").json["destroyed"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--before", "2999-01-01"], "--before: must not lie in the future"),
        (["--before", "yesterday"], "--before"),
        ([], "--before"),
    ],
)
def test_days_to_come_and_what_is_no_day_are_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    ran = rngsvc("store", "destroy-secrets", f"sqlite:{tmp_path / 'log.sqlite3'}", *arguments)
    assert ran.code == ExitCode.USAGE
    assert message in ran.stderr


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite3").write_bytes(b"no database" * 1000)
    ran = rngsvc("store", "destroy-secrets", f"sqlite:{tmp_path / 'log.sqlite3'}", "--before", "2026-01-01")
    assert ran.code == ExitCode.USAGE
    assert "log.sqlite3: file is not a database" in ran.stderr
