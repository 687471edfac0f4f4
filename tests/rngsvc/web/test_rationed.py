"""What strangers ask for is rationed: a flood of questions is refused or waits, and play does not wait for it."""

import asyncio
import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rngsvc.client import SyncClient, SyncTable
from rngsvc.errors import Overloaded
from rngsvc.rationed import Bodies, Ration
from rngsvc.web import public_app
from tests.rngsvc.conftest import RunningService, serve_ephemeral
from tests.rngsvc.service.world import ORIGIN, running
from tests.rngsvc.web.http import get
from tests.scale import scaled


@pytest.mark.parametrize(("share", "least_s"), [(0.5, 0.05), (0.1, 0.45), (0.05, 0.95)])
@pytest.mark.asyncio
async def test_work_gets_its_share_of_the_time_and_no_more(share: float, least_s: float) -> None:
    cpu_s = [0.0]
    ration = Ration(share, cpu_s=lambda: cpu_s[0])
    began = time.monotonic()
    for _ in range(6):
        async with ration.turn():
            cpu_s[0] += 0.01
    assert least_s * 0.99 <= time.monotonic() - began < least_s + 2


@pytest.mark.asyncio
async def test_work_that_fails_is_charged_too_and_one_runs_at_a_time() -> None:
    cpu_s = [0.0]
    ration = Ration(0.1, cpu_s=lambda: cpu_s[0])
    inside = 0

    async def fail() -> None:
        nonlocal inside
        async with ration.turn():
            inside += 1
            assert inside == 1
            cpu_s[0] += 0.005
            await asyncio.sleep(0)
            inside -= 1
            raise LookupError

    began = time.monotonic()
    said = await asyncio.gather(*(fail() for _ in range(4)), return_exceptions=True)
    assert [type(each) for each in said] == [LookupError] * 4
    assert time.monotonic() - began >= 3 * 0.045 * 0.99


@pytest.mark.asyncio
async def test_who_comes_when_enough_wait_is_refused_after_a_moment_and_the_others_are_served() -> None:
    ration = Ration(0.5, waiting_limit=3, hold_s=0.2, held_limit=2, cpu_s=lambda: 0.0)
    door = asyncio.Event()
    refused_after: list[float] = []

    async def ask() -> None:
        began = time.monotonic()
        try:
            async with ration.turn():
                await door.wait()
        except Overloaded:
            refused_after.append(time.monotonic() - began)

    asking = [asyncio.create_task(ask()) for _ in range(8)]
    await asyncio.sleep(0.4)
    assert ration.waiting == 3
    door.set()
    await asyncio.gather(*asking)
    assert ration.waiting == 0
    assert len(refused_after) == 5
    assert sorted(after >= 0.2 for after in refused_after) == [False, False, False, True, True]


@pytest.mark.asyncio
async def test_who_leaves_while_he_waits_takes_no_place() -> None:
    ration = Ration(cpu_s=lambda: 0.0)
    async with ration.turn():
        waiting = asyncio.create_task(ration.turn().__aenter__())
        await asyncio.sleep(0.01)
        assert ration.waiting == 2
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert ration.waiting == 1
    async with ration.turn():
        pass


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60))
def test_bodies_never_hold_more_than_they_may_and_the_newest_stays(puts: list[tuple[int, int]]) -> None:
    bodies = Bodies(320)
    for seq, size in puts:
        bodies.put(("t", seq), bytes(size))
        held = [body for i in range(10) if (body := bodies._kept.get(("t", i))) is not None]
        assert sum(map(len, held)) == bodies._bytes <= 320
        assert size > 20 or bodies.get(("t", seq)) == bytes(size)


@pytest.mark.asyncio
async def test_a_flood_gets_429_and_when_to_come_again() -> None:
    answers: list[str] = []
    async with running() as world:
        play = await world.play(0)
        await play.reserve(1, 40)
        for seq in range(1, 41):
            await play.seal(seq)
            await play.close(seq)
        app = public_app(world.service, world.log, world.store, ORIGIN, lambda: "", [], answers.append)
        paths = [f"/hands/{play.table.hex()}/{1 + i % 40}" for i in range(120)]
        said = await asyncio.gather(*(get(app, path) for path in paths))
        assert {answer.status for answer in said} == {200, 429}
        for answer in said:
            if answer.status == 429:
                assert int(answer.headers["retry-after"]) >= 1
                assert json.loads(answer.body)["reason"] == "OVERLOADED"
        assert sum(answer.status == 200 for answer in said) == 64 == answers.count("derived")
        assert answers.count("refused") == 56
        again = await get(app, paths[0])
        assert answers[-1] == "kept"
        assert again.headers["cache-control"] == "public, max-age=60"
        assert again.body in {answer.body for answer in said}


# --- A real service ---


@pytest.fixture
def flooded() -> Iterator[RunningService]:
    yield from serve_ephemeral()


FLOOD = 16


def ask_until(stop: threading.Event, service: RunningService, paths: list[str], statuses: list[int]) -> None:
    """Ask for one hand after another on one connection."""
    host = service.http.removeprefix("http://")
    while not stop.is_set():
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            for path in paths:
                if stop.is_set():
                    break
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
        finally:
            connection.close()


def latencies(table: SyncTable, hands: int) -> list[float]:
    taken = []
    for _ in range(hands):
        hand = table.reserve()
        began = time.perf_counter()
        hand.seal(52)
        taken.append(time.perf_counter() - began)
        hand.close()
    return taken


@pytest.mark.timeout(240)
def test_plays_latency_does_not_suffer_from_a_flood(flooded: RunningService) -> None:
    hands = scaled(60, 600)
    with SyncClient.connect(flooded.grpc, log_key=flooded.log_key) as client:
        # Open hands are answered anew each time; 1020 items make the answer as dear as it gets.
        tables = [client.register_table(i.to_bytes(16, "big")) for i in range(20)]
        for table in tables:
            table.reserve().seal(1020)
        paths = [f"/hands/{table.id.hex()}/1" for table in tables]
        playing = client.register_table(bytes(15) + b"\xff")
        latencies(playing, 10)
        quiet = latencies(playing, hands)
        stop, statuses = threading.Event(), list[int]()
        asking = [threading.Thread(target=ask_until, args=(stop, flooded, paths, statuses)) for _ in range(FLOOD * 5)]
        for thread in asking:
            thread.start()
        try:
            time.sleep(1)
            busy = latencies(playing, hands)
        finally:
            stop.set()
            for thread in asking:
                thread.join()
    assert statuses.count(429) > FLOOD
    assert statuses.count(200) > 1
    figures: Callable[[list[float]], str] = lambda s: f"{1000 * statistics.median(s):.1f}/{1000 * max(s):.1f} ms"
    print(f"median/max of a seal: quiet {figures(quiet)}, flooded {figures(busy)}; {len(statuses)} questions")
    assert statistics.median(busy) < 2 * statistics.median(quiet) + 0.010
