"""The fault table: each write of a whole evening fails in each way, and after a reload nothing that was answered is
lost, nothing is forked, no sequence number is skipped and no seed is used twice."""

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rngsvc.errors import Overloaded, ServiceError, SigningStopped, TryAgain
from rngsvc.monitor import Monitor
from rngsvc.ports import Store
from rngsvc.protocol.checkpoint import verify_checkpoint
from rngsvc.store.memory import MemoryStore
from rngsvc.store.sqlite import SqliteStore
from tests.rngsvc.service.world import ORIGIN, MemoryGuard, Play, World, audited, content, snapshot, table_id
from tests.simulation.faults import FAULTS, REFUSED, FaultyStore

ALICE = (b"seat-1", b"\x11" * 32)
ALICES_CHOICE = (b"seat-1", b"\x33" * 32)
Call = Callable[[], Awaitable[Any]]


def evening(world: World) -> list[tuple[str, Call]]:
    """Calls of every kind, in the order in which a game server makes them; each may be repeated at any time."""
    first, second, twin = (Play(world, table_id(number)) for number in (0, 1, 2))
    return [
        ("register", lambda: world.play(0)),
        ("register under escrow", lambda: world.play(1, mode="full", reveal="escrow")),
        ("reserve", lambda: first.reserve(1, 2)),
        ("reserve at the other table", lambda: second.reserve(1)),
        ("promise", lambda: first.promise(1, (ALICE,), (ALICE,))),
        ("seal", lambda: first.seal(1, 52, (ALICE,))),
        ("seal and open all", lambda: second.seal(1, 36)),
        ("open", lambda: first.open(1, 0, 0, 1, 2)),
        ("reshuffle", lambda: first.reshuffle(1, 1, (0, 2), (0, 50), (0, 51))),
        ("open the reshuffled", lambda: first.open(1, 1, 0)),
        ("close", lambda: first.close(1)),
        ("draw", lambda: first.draw(2, b"button", 8, 3)),
        ("close the draw", lambda: first.close(2)),
        ("close at the other table", lambda: second.close(1, "aborted", "misdeal")),
        ("reserve again", lambda: first.reserve(3, 2)),
        ("register a twin table", lambda: world.play(2, reveal="escrow", twin=True)),
        ("reserve two decks a hand", lambda: twin.reserve(1, 2)),
        ("promise choices", lambda: twin.promise_twin(1, [(*ALICE, ALICES_CHOICE[1])])),
        ("seal two decks", lambda: twin.seal(1, 52, (ALICE,))),
        ("choose", lambda: twin.choose(1, (ALICES_CHOICE,))),
        ("open the chosen", lambda: twin.open(1, 0, 0, 51)),
        ("close the chosen", lambda: twin.close(1)),
        ("close without a choice", lambda: twin.close(2, "aborted", "misdeal")),
    ]


async def answered(call: Call) -> Any:
    """Call until it is answered, as a client does; SigningStopped goes through."""
    while True:
        try:
            return await call()
        except SigningStopped:
            raise
        except TryAgain:
            continue


@dataclass
class Evening:
    """One run of the evening on a store with one fault."""

    world: World
    faults: list[FaultyStore]
    answers: dict[str, Any]

    @classmethod
    async def spent(cls, fault: str, at: int, make_store: Callable[[World], Store]) -> "Evening":
        """Play the evening through; where the service stops, start it anew without the fault and go on."""
        stores: list[FaultyStore] = []

        def wrapped(world: World) -> Store:
            stores.append(FaultyStore(make_store(world), fault, at if not stores else -1))
            return stores[-1]  # type: ignore[return-value]

        world = await World(make_store=wrapped).start()
        run = cls(world, stores, {})
        try:
            for name, call in evening(world):
                try:
                    answer = await answered(call)
                except SigningStopped:
                    # It stays stopped: nothing more is signed until somebody has looked and restarted it.
                    with pytest.raises(SigningStopped):
                        await call()
                    await world.restart()
                    run.check_answers_are_stored()
                    answer = await answered(call)
                if not isinstance(answer, Play):
                    run.answers[name] = content(answer)
            await run.check_all_is_there()
            await world.restart()
            await run.check_all_is_there()
        finally:
            await world.kill()
        return run

    def check_answers_are_stored(self) -> None:
        for answer in self.answers.values():
            match answer:
                case (int() as position, bytes() as entry):
                    assert self.world.disk.entries[position] == entry

    async def check_all_is_there(self) -> None:
        monitor = await audited(self.world)
        size = monitor.size
        for name, call in evening(self.world):
            answer = await call()
            if not isinstance(answer, Play):
                assert content(answer) == self.answers[name]
        assert self.world.log.size == size, "a repeat is not logged again"
        expected = {"table": 3, "reserve": 4, "promise": 2, "seal": 4, "choose": 1, "draw": 1, "close": 5}
        assert monitor.counts == expected


@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_that_fails_loses_forks_and_repeats_nothing(fault: str) -> None:
    at = 0
    while True:
        run = asyncio.run(Evening.spent(fault, at, lambda world: MemoryStore(world.disk)))
        if not run.faults[0].hit:
            break
        assert bool(run.world.stops) == (fault != REFUSED)
        at += 1
    assert at >= 23, "every call of the evening is a write of its own"


@pytest.mark.asyncio
async def test_a_refused_write_leaves_the_service_running_and_its_caller_told_to_try_again() -> None:
    world = World(make_store=lambda world: FaultyStore(MemoryStore(world.disk), REFUSED, 1))  # type: ignore[arg-type,return-value]
    await world.start()
    play = await world.play()
    with pytest.raises(TryAgain, match="the store refused the write"):
        await play.reserve(1)
    assert not world.disk.data_keys
    assert world.log.size == 1
    await play.reserve(1)
    await audited(world)
    await world.kill()


def test_a_refused_write_fails_every_call_of_its_batch_and_none_is_half_done() -> None:
    async def run(at: int) -> bool:
        faulty: list[FaultyStore] = []

        def wrapped(world: World) -> Store:
            faulty.append(FaultyStore(MemoryStore(world.disk), REFUSED, at))
            return faulty[-1]  # type: ignore[return-value]

        world = await World(make_store=wrapped).start()
        plays = [await answered(lambda n=n: world.play(n)) for n in range(8)]  # type: ignore[misc]
        for step in (
            lambda play: play.reserve(1),
            lambda play: play.promise(1, (ALICE,)),
            lambda play: play.seal(1, 52, (ALICE,)),
            lambda play: play.open(1, 0, 7),
            lambda play: play.close(1),
        ):
            await asyncio.gather(*(answered(lambda play=play, step=step: step(play)) for play in plays))  # type: ignore[misc]
        monitor = await audited(world)
        assert monitor.counts["close"] == 8
        await world.kill()
        return faulty[0].hit

    at = 0
    while asyncio.run(run(at)):
        at += 1
    assert at > 8


# --- Other ports that fail ---


async def stopped_by(world: World, call: Call) -> None:
    """The call is answered with SigningStopped, and from then on every call is."""
    with pytest.raises(SigningStopped):
        await call()
    with pytest.raises(SigningStopped):
        await world.play(77)
    assert len(world.stops) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("at", range(6))
async def test_a_generator_that_fails_midway_stops_the_service_and_loses_nothing(at: int) -> None:
    world = await World().start()
    play = await world.play()
    for seq in range(1, at + 1):
        await play.reserve(seq)
    world.entropy.failing = True
    await stopped_by(world, lambda: play.reserve(at + 1))
    world.entropy.failing = False
    await world.restart()
    await play.reserve(at + 1)
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
@pytest.mark.parametrize("good_for", [0, 1])
async def test_a_generator_that_fails_within_a_reservation_leaves_nothing_of_it(good_for: int) -> None:
    """The first reservation of a day at a table takes its seeds, and then the day's data key."""
    world = await World().start()
    play = await world.play()
    before = snapshot(world.disk)
    world.entropy.good_for = good_for
    await stopped_by(world, lambda: play.reserve(1, 3))
    assert snapshot(world.disk) == before
    world.entropy.good_for = None
    await world.restart()
    await play.reserve(1, 3)
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
@pytest.mark.parametrize("when", ["sign", "guard"])
async def test_a_signer_or_head_guard_that_raises_stops_the_service_and_loses_nothing(when: str) -> None:
    class FailingGuard(MemoryGuard):
        failing = False

        def advance(self, checkpoint: bytes) -> None:
            if self.failing:
                raise OSError("no space left on device")
            super().advance(checkpoint)

    def no_signature(_message: bytes) -> bytes:
        raise RuntimeError("the token was pulled out")

    guard = FailingGuard()
    world = await World(guard=guard).start()
    play = await world.play()
    await play.reserve(1)
    stored = world.log.size
    if when == "sign":
        world.sign = no_signature
    else:
        guard.failing = True
    await stopped_by(world, lambda: play.seal(1))
    world.sign, guard.failing = None, False
    # What could not be signed is not stored; what could not be remembered is, and is answered after the restart.
    assert len(world.disk.entries) == stored + (when == "guard")
    await world.restart()
    await play.seal(1)
    assert world.log.size == stored + 1
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("back_s", "goes_on"), [(0.001, True), (59.999, True), (60, True), (60.001, False), (1e6, False)]
)
async def test_a_clock_that_goes_back_a_little_is_outwaited_and_more_stops_the_service(
    back_s: float, goes_on: bool
) -> None:
    world = await World().start()
    play = await world.play()
    await play.reserve(1)
    before = world.clock.ms
    world.clock.ms -= int(back_s * 1000)
    if not goes_on:
        await stopped_by(world, lambda: play.seal(1))
        # A restart does not help while the clock is wrong.
        await world.restart()
        with pytest.raises(SigningStopped):
            await play.seal(1)
        world.clock.ms = before
        await world.restart()
    await play.seal(1)
    await play.open(1, 0, 3)
    await play.close(1)
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
async def test_a_full_queue_refuses_and_what_waits_is_done() -> None:
    world = World()
    world.limits = replace(world.limits, queue=10)
    await world.start()
    plays = [await world.play(number) for number in range(30)]
    results = await asyncio.gather(*(play.reserve(1) for play in plays), return_exceptions=True)
    refused = [result for result in results if isinstance(result, Overloaded)]
    assert len(refused) == 20
    assert all(error.retry_after_s > 0 for error in refused)
    await asyncio.gather(*(play.reserve(1) for play in plays[:10]))
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
async def test_a_caller_who_leaves_before_his_batch_gets_nothing_sealed() -> None:
    world = await World().start()
    play = await world.play()
    leaving = asyncio.create_task(play.reserve(1))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    other = await world.play(1)
    await other.reserve(1)
    assert play.table not in world.disk.steps
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
async def test_draining_finishes_what_waits_and_refuses_what_comes() -> None:
    world = await World().start()
    plays = [await world.play(number) for number in range(20)]
    waiting = [asyncio.create_task(play.reserve(1)) for play in plays]
    await asyncio.sleep(0)
    await world.sequencer.drain()
    assert all(isinstance(result, object) for result in await asyncio.gather(*waiting))
    with pytest.raises(TryAgain):
        await plays[0].reserve(2)
    await audited(world)
    await world.kill()


# --- Disk full, for real ---


async def until_refused(world: World) -> tuple[list[tuple[int, bytes]], ServiceError]:
    """Reserve hands at one table after the other until there is no room; return what was answered, and the error."""
    acknowledged = []
    for number in range(10_000):
        try:
            play = await world.play(number)
            logged = await play.reserve(1, 64)
        except ServiceError as error:
            return acknowledged, error
        acknowledged.append((logged.position, logged.entry))
    raise AssertionError("the disk never became full")


async def check_acknowledged(world: World, acknowledged: list[tuple[int, bytes]]) -> None:
    """Every answered entry is where it was said to be, and the log that the store holds audits clean."""
    head = world.log.head
    assert head
    entries = await world.store.entries(0, head.size)
    assert all(entries[position] == entry for position, entry in acknowledged)
    monitor = Monitor(world.note_key)
    for raw in entries:
        assert monitor.feed(raw) == []
    assert monitor.root == head.root
    checkpoint = verify_checkpoint(head.checkpoint.decode(), ORIGIN, [world.note_key])
    assert (checkpoint.size, checkpoint.root) == (head.size, head.root)


@pytest.mark.asyncio
async def test_a_full_database_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    world = await World(make_store=lambda _world: SqliteStore(tmp_path / "log.sqlite3")).start()
    store = world.store
    assert isinstance(store, SqliteStore)
    assert store._write_connection
    store._write_connection.execute("PRAGMA max_page_count = 100")
    acknowledged, error = await until_refused(world)
    assert isinstance(error, TryAgain)
    assert acknowledged
    store._write_connection.execute("PRAGMA max_page_count = 1000000")
    await world.play(20_000)
    await check_acknowledged(world, acknowledged)
    await world.restart()
    await check_acknowledged(world, acknowledged)
    await world.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.asyncio
async def test_a_full_disk_loses_nothing_that_was_answered(small_disk: Path) -> None:
    world = await World(make_store=lambda _world: SqliteStore(small_disk / "log.sqlite3")).start()
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1_200_000))
    acknowledged, error = await until_refused(world)
    assert isinstance(error, (TryAgain, SigningStopped))
    assert acknowledged
    await world.kill()
    filler.unlink()
    await world.start()
    await check_acknowledged(world, acknowledged)
    await world.play(20_000)
    await check_acknowledged(world, acknowledged)
    await world.kill()
