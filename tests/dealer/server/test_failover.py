"""Two real dealers and a real PostgreSQL: the standby goes on with the same cards and clocks, and players find it."""

import asyncio
import contextlib
import itertools
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import asyncpg
import grpc
import pytest

from dealer.card_room import CardRoom
from dealer.store.location import Location, open_store
from dealer.v1 import table_pb2, table_pb2_grpc
from tests.dealer.server import world
from tests.dealer.server.test_play import check_histories, settled
from tests.postgres import Postgres, postgres
from tests.scale import scaled

TAKEOVER_S = 10
STOPPED = 4
NAMES = ["ann", "ben", "cleo"]


class Node:
    """A dealer process; its line comes when it has the store and deals."""

    def __init__(self, arguments: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.ready: Queue[dict[str, Any]] = Queue()
        threading.Thread(target=self._wait_until_ready, daemon=True).start()

    def _wait_until_ready(self) -> None:
        assert self.process.stdout
        if line := self.process.stdout.readline():
            self.ready.put(json.loads(line))

    def end(self, number: int = signal.SIGKILL) -> tuple[int, str]:
        """End it; return its exit code and what it logged."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        _, logged = self.process.communicate(timeout=world.TIMEOUT_S)
        return self.process.returncode, logged


class Pair(world.House):
    """Two dealers on one store. Players have both addresses and find the one that answers."""

    def __init__(self, folder: Path, service: dict[str, Any], store: str) -> None:
        super().__init__(folder, service)
        self.store = store
        self._ports = [free_port(), free_port()]
        self._turns = itertools.cycle(self._ports)
        self.address = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self.nodes: list[Node] = []

    def node(self, *flags: str, standby: bool = True) -> Node:
        """Start a dealer on the next of the two ports."""
        more = [f"--store={self.store}", f"--listen=127.0.0.1:{next(self._turns)}", f"--standby={standby}", *flags]
        self.nodes.append(Node([*self.arguments, *more]))
        return self.nodes[-1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def pair(folder: Path, service: dict[str, Any], store: str = "") -> Iterator[Pair]:
    made = Pair(folder, service, store or postgres().address())
    try:
        yield made
    finally:
        for node in made.nodes:
            if node.process.poll() is None:
                node.end()


async def steadily(player: world.Player) -> None:
    """Watch and act as docs/card-room.md says: after UNAVAILABLE watch again, a little later each time."""
    pause_s = 0.2
    while True:
        seen = len(player.seen)
        try:
            await player.play()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        pause_s = 0.2 if len(player.seen) > seen else min(2 * pause_s, 5.0)
        await asyncio.sleep(pause_s)


@contextlib.asynccontextmanager
async def playing(players: list[world.Player]) -> Any:
    """Have players play; what goes wrong with one of them is raised."""
    tasks = [asyncio.create_task(steadily(player)) for player in players]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(true: Any, seconds: float = world.TIMEOUT_S) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110  (what is waited for tells nobody)
            await asyncio.sleep(0.02)


def money_is_all_there(store: str) -> None:
    """Load what is stored as a dealer does, and check ledger and tables against each other."""

    async def check() -> None:
        opened = open_store(Location.parse(store))
        room = CardRoom(opened, None, (b"", b""), 100_000, lambda: 2**52)  # type: ignore[arg-type]  (nothing is dealt)
        room.start()
        assert room.imbalance_cents() == 0
        assert sum(opened.balances().values()) == 0
        await room.stop()
        opened.close()

    asyncio.run(check())


@pytest.mark.timeout(0)
@pytest.mark.parametrize("game", ["limit_stud", "pokerkings"][: scaled(1, 2)])
def test_a_killed_dealer_is_followed_by_its_standby_again_and_again(
    tmp_path: Path, service: dict[str, Any], game: str
) -> None:
    rng = random.Random(game)
    takeovers = []

    async def story(both: Pair) -> None:
        players = await world.seated(both, game, NAMES)
        await world.all_in(players)
        async with playing(players):
            for _ in range(scaled(3, 20)):
                over = [len(player.hands_over) for player in players]
                standby = both.node()
                await asyncio.sleep(rng.uniform(0.2, 1.5))
                active = both.nodes[-2]
                killed = time.monotonic()
                await asyncio.to_thread(active.end)
                await asyncio.to_thread(standby.ready.get, timeout=TAKEOVER_S)
                takeovers.append(time.monotonic() - killed)
                # Everybody sees another hand end, at the dealer that took over.
                await until(lambda over=over: all(len(p.hands_over) > n for p, n in zip(players, over, strict=True)))
        await check_histories(players, await settled(players))

    with pair(tmp_path, service) as both:
        both.node().ready.get(timeout=world.TIMEOUT_S)
        asyncio.run(story(both))
        code, logged = both.nodes[-1].end(signal.SIGTERM)
        assert code == 0, logged
        assert "Traceback" not in logged
        money_is_all_there(both.store)
    print(f"takeovers: {', '.join(f'{seconds:.2f}' for seconds in takeovers)} s")


def test_the_standby_keeps_the_same_turn_cards_and_deadline(tmp_path: Path, service: dict[str, Any]) -> None:
    async def seen_by(player: world.Player) -> tuple[Any, ...]:
        """Return what a player is shown until somebody has to decide: turn, hand, events and openings."""
        events, openings = [], set()
        async with world.stub(player.house.address, player.house.token(player.name)) as room:
            async for message in room.Watch(table_pb2.WatchRequest(table=player.table)):
                state = message.state
                events += [each.json for each in message.events]
                openings |= {(each.k, each.place, each.item, each.salt) for each in message.openings}
                shown = [card for event in events for card in json.loads(event).get("cards", ()) if "item" in card]
                # After a restart openings are asked for again, and come a moment later than the events.
                if state.HasField("turn") and len(openings) == len(shown):
                    return state.turn, state.hand, state.decision, events, openings
        raise AssertionError("the stream has ended")

    async def story(both: Pair, first: Node, standby: Node) -> None:
        players = await world.seated(both, "limit_stud", NAMES[:2])
        before = [await seen_by(player) for player in players]
        await asyncio.to_thread(first.end)
        await asyncio.to_thread(standby.ready.get, timeout=TAKEOVER_S)
        for player, was in zip(players, before, strict=True):
            assert len(was[-1]) >= 2, "he has seen cards"
            assert await seen_by(player) == was

    with pair(tmp_path, service) as both:
        first = both.node()
        first.ready.get(timeout=world.TIMEOUT_S)
        standby = both.node()
        asyncio.run(story(both, first, standby))


def test_a_second_dealer_on_the_same_store_is_refused(tmp_path: Path, service: dict[str, Any]) -> None:
    with pair(tmp_path, service) as both:
        first = both.node(standby=False)
        first.ready.get(timeout=world.TIMEOUT_S)
        code, logged = both.node(standby=False).ended()
        assert code == STOPPED
        assert "another dealer holds the lock" in logged
        assert first.process.poll() is None


def test_a_dealer_whose_session_is_cut_deals_no_more_and_the_standby_goes_on(
    tmp_path: Path, service: dict[str, Any]
) -> None:
    async def story(both: Pair, first: Node, standby: Node) -> None:
        players = await world.seated(both, "limit_stud", NAMES)
        async with playing(players):
            await until(lambda: all(player.hands_over for player in players))
            await cut_sessions(both.store)
            code, logged = await asyncio.to_thread(first.ended)
            assert code == STOPPED
            (line,) = [json.loads(line) for line in logged.splitlines() if "the store is lost" in line]
            assert line["level"] == "critical"
            assert line["store"] == str(Location.parse(both.store))
            assert line["why"]
            assert "defect" not in logged
            await asyncio.to_thread(standby.ready.get, timeout=TAKEOVER_S)
            over = [len(player.hands_over) for player in players]
            await until(lambda: all(len(p.hands_over) > n for p, n in zip(players, over, strict=True)))
        await check_histories(players, await settled(players))

    with pair(tmp_path, service) as both:
        first = both.node()
        first.ready.get(timeout=world.TIMEOUT_S)
        standby = both.node()
        asyncio.run(story(both, first, standby))


async def cut_sessions(store: str) -> None:
    """End the sessions of all dealers, as an administrator can."""
    db = await asyncpg.connect(Location.parse(store).uri)
    ended = await db.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dealer'")
    await db.close()
    assert ended


def test_an_idle_dealer_notices_within_seconds_that_its_database_crashed_and_starts_again_with_it(
    tmp_path: Path, service: dict[str, Any]
) -> None:
    server = Postgres()
    try:
        with pair(tmp_path, service, server.address()) as both:
            first = both.node()
            first.ready.get(timeout=world.TIMEOUT_S)
            players = asyncio.run(world.seated(both, "casino_club", NAMES[:2]))  # they have not said that they play
            server.stop("immediate")
            code, logged = first.ended()
            assert code == STOPPED, logged
            again = both.node()  # as its supervisor does
            assert both.node(standby=False).ended()[0] == 3, "who is no standby says that it cannot be reached"
            assert again.ready.empty()
            server.start()
            again.ready.get(timeout=world.TIMEOUT_S)
            asyncio.run(world.play_hands(players, 1))
            again.end(signal.SIGTERM)
            money_is_all_there(both.store)
    finally:
        server.remove()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_backup_taken_while_hands_are_played_goes_on_and_deals_no_card_twice(
    tmp_path: Path, service: dict[str, Any], kind: str
) -> None:
    """Everything after the backup is lost, also hands that players have seen: their cards never come again."""
    backup = f"sqlite:{tmp_path / 'backup.sqlite3'}"
    copied: list[subprocess.CompletedProcess[str]] = []

    async def story(both: Pair) -> None:
        players = await world.seated(both, "limit_stud", NAMES)
        async with playing(players):
            await until(lambda: all(player.hands_over for player in players))
            command = [sys.executable, "-m", "dealer", "store", "copy", both.store, backup]
            copied.append(
                await asyncio.to_thread(
                    subprocess.run, command, check=False, capture_output=True, text=True, timeout=world.TIMEOUT_S
                )
            )
            over = [len(player.hands_over) for player in players]
            await until(lambda: all(len(p.hands_over) > n + 1 for p, n in zip(players, over, strict=True)))
        await asyncio.to_thread(both.nodes[-1].end)
        await asyncio.to_thread(money_is_all_there, backup)
        both.store = backup
        last = max(message.state.hand for player in players for message in player.seen)
        restored = both.node()
        await asyncio.to_thread(restored.ready.get, timeout=TAKEOVER_S)
        async with playing(players):
            # `Player.look` checks that what he once saw at a place of a hand is there for ever.
            await until(lambda: all(max(player.hands_over) > last for player in players))

    with pair(tmp_path, service, f"sqlite:{tmp_path / 'tables.sqlite3'}" if kind == "sqlite" else "") as both:
        both.node().ready.get(timeout=world.TIMEOUT_S)
        asyncio.run(story(both))
        assert copied[0].returncode == 0, copied[0].stderr
        code, logged = both.nodes[-1].end(signal.SIGTERM)
        assert code == 0, logged
        money_is_all_there(backup)


def test_the_pages_service_configuration_repeats_a_call_until_a_dealer_answers(
    tmp_path: Path, service: dict[str, Any]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "card-room.md").read_text()
    (written,) = re.findall(r"^```json\n(\{\"methodConfig.*?)^```$", page, re.MULTILINE | re.DOTALL)
    configuration = json.loads(written)
    assert configuration["methodConfig"][0]["name"] == [{"service": "dealer.v1.TableService"}]

    async def refused(both: Pair, options: list[tuple[str, str]]) -> float:
        """Return how long a call to nobody goes on."""
        began = time.monotonic()
        async with grpc.aio.insecure_channel(both.address, options=options) as channel:
            room: Any = table_pb2_grpc.TableServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await room.ListTables(table_pb2.ListTablesRequest(), timeout=30)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        return time.monotonic() - began

    with pair(tmp_path, service) as both:
        once = asyncio.run(refused(both, []))
        again = asyncio.run(refused(both, [("grpc.service_config", json.dumps(configuration))]))
    assert again > once, "it was tried again"
