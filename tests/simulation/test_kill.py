"""`kill -9` of the real server at 64 calls in flight: every answer that a client got is there and the same afterwards.

A client here is a worker with a table of its own that plays hand after hand; it keeps every answered call and the one
that was never answered. After the restart it makes all of them again.
"""

import asyncio
import os
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from rngsvc.commands.exit_codes import ExitCode
from rngsvc.monitor import Monitor
from rngsvc.protocol.checkpoint import verify_checkpoint
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.entries import ReserveEntry, parse_entry
from rngsvc.protocol.twin import promise_choice
from rngsvc.v1 import log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc
from tests.scale import scaled
from tests.simulation.process import ORIGIN, ServerProcess

WORKERS = 64
ALICE = (b"seat-1", b"\x11" * 32)
ALICES_CHOICE = b"\x33" * 32
BROKEN_OFF = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


def content(answer: Message) -> bytes:
    """The answer without its proof and checkpoint, which may be newer at a repeat."""
    shown = type(answer)()
    shown.CopyFrom(answer)
    if "logged" in shown.DESCRIPTOR.fields_by_name and shown.HasField("logged"):
        shown.logged.proof = b""  # type: ignore[attr-defined]
        shown.logged.checkpoint = ""  # type: ignore[attr-defined]
    return shown.SerializeToString(deterministic=True)


@dataclass
class Worker:
    """Plays at one table; ``answered`` are (method, request, content), ``in_flight`` the call without an answer.

    Every other table is a twin table.
    """

    table: bytes
    seq: int = 0
    answered: list[tuple[str, Message, bytes]] = field(default_factory=list)
    in_flight: tuple[str, Message] | None = None

    @property
    def twin(self) -> bool:
        return bool(self.table[0] & 1)

    async def call(self, stub: Any, method: str, request: Message) -> Any:
        self.in_flight = (method, request)
        answer = await getattr(stub, method)(request, timeout=20)
        self.answered.append((method, request, content(answer)))
        self.in_flight = None
        return answer

    async def register(self, stub: Any) -> None:
        request = shuffle_pb2.RegisterTableRequest(
            table=self.table, mode=shuffle_pb2.MODE_SHOE, reveal=shuffle_pb2.REVEAL_PUBLIC, twin=self.twin
        )
        await self.call(stub, "RegisterTable", request)

    async def play(self, stub: Any) -> None:
        """Play hands until the server is gone."""
        with pytest.raises(grpc.aio.AioRpcError) as broken_off:
            await self.play_on(stub)
        assert broken_off.value.code() in BROKEN_OFF, broken_off.value

    async def play_on(self, stub: Any) -> None:
        while True:
            self.seq += 1
            await self.play_hand(stub, self.seq)

    async def play_hand(self, stub: Any, seq: int) -> None:
        p, table = shuffle_pb2, self.table
        who, seed = ALICE
        await self.call(stub, "ReserveHands", p.ReserveHandsRequest(table=table, first_seq=seq, count=1))
        promised = p.Promise(contributor=who, promise=promise(ORIGIN, table, seq, who, seed))
        if self.twin:
            promised.choice_promise = promise_choice(ORIGIN, table, seq, who, ALICES_CHOICE)
        hands = [p.HandPromises(promises=[promised])]
        await self.call(stub, "PromiseSeeds", p.PromiseSeedsRequest(table=table, first_seq=seq, hands=hands))
        given = [p.Contribution(contributor=who, seed=seed)]
        if seq % 5 == 0 and not self.twin:
            draw = p.DrawNumbersRequest(
                table=table, seq=seq, purpose=b"button", modulus=8, count=1, contributions=given
            )
            await self.call(stub, "DrawNumbers", draw)
        else:
            seal = p.SealShuffleRequest(table=table, seq=seq, item_count=52, contributions=given)
            await self.call(stub, "SealShuffle", seal)
            if self.twin:
                choices = [p.Choice(contributor=who, choice=ALICES_CHOICE)]
                await self.call(stub, "ChooseTwin", p.ChooseTwinRequest(table=table, seq=seq, choices=choices))
            for start in range(0, 12, 4):
                places = range(start, start + 1 + (seq + start) % 4)
                await self.call(stub, "OpenCards", p.OpenCardsRequest(table=table, seq=seq, k=0, places=places))
            locations = [p.Location(k=0, place=place) for place in range(20, 52)]
            await self.call(stub, "Reshuffle", p.ReshuffleRequest(table=table, seq=seq, k=1, locations=locations))
        close = p.CloseHandRequest(table=table, seq=seq, outcome=p.OUTCOME_COMPLETE)
        await self.call(stub, "CloseHand", close)

    async def repeat_everything(self, stub: Any) -> None:
        """Every answered call is answered the same; the one without an answer is answered now."""
        for method, request, said in self.answered:
            again = await getattr(stub, method)(request, timeout=60)
            assert content(again) == said, (method, request)
        if self.in_flight:
            await self.call(stub, *self.in_flight)


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
        yield shuffle_pb2_grpc.ShuffleServiceStub(channel)


class Onlooker:
    """Follows the log in the store's file from kill to kill, as a monitor outside does.

    What it has read before it does not read again: since its root grows from that, a log that had been forked or cut
    back in the meantime could not come to the same root.
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._monitor = Monitor(server.note_key)
        self._commitments: set[bytes] = set()

    def look(self) -> int:
        """Check what is new, entry by entry, the signed head, and that no commitment comes twice; return the size."""
        monitor, key = self._monitor, self._server.note_key
        connection = sqlite3.connect(f"{self._server.store.as_uri()}?mode=ro", uri=True)
        try:
            (size, root, note) = connection.execute("SELECT size, root, checkpoint FROM head").fetchone()
            new = connection.execute(
                "SELECT entry FROM entry WHERE position >= ? AND position < ? ORDER BY position", (monitor.size, size)
            ).fetchall()
        finally:
            connection.close()
        for (raw,) in new:
            assert list(monitor.feed(raw)) == []
            entry = parse_entry(raw)
            if isinstance(entry, ReserveEntry):
                assert self._commitments.isdisjoint(entry.commitments)
                self._commitments.update(entry.commitments)
        checkpoint = verify_checkpoint(note.decode(), ORIGIN, [key])
        assert (checkpoint.size, checkpoint.root) == (size, root) == (monitor.size, monitor.root)
        return monitor.size


@pytest.mark.timeout(scaled(300, 7200))
def test_kill_9_at_64_in_flight_loses_forks_and_repeats_nothing(tmp_path: Path) -> None:
    rng = Random(9)
    server = ServerProcess(tmp_path)
    workers = [Worker(rng.randbytes(16)) for _ in range(WORKERS)]

    async def until_killed(after_s: float) -> None:
        async with connected(server) as stub:
            playing = [asyncio.create_task(worker.play(stub)) for worker in workers]
            await asyncio.sleep(after_s)
            server.kill()
            await asyncio.gather(*playing)

    async def repeat() -> None:
        async with connected(server) as stub:
            await asyncio.gather(*(worker.repeat_everything(stub) for worker in workers))

    async def register() -> None:
        async with connected(server) as stub:
            await asyncio.gather(*(worker.register(stub) for worker in workers))

    with server:
        onlooker = Onlooker(server)
        asyncio.run(register())
        answered, size, in_flight = 0, 0, 0
        for _ in range(scaled(5, 200)):
            asyncio.run(until_killed(rng.uniform(0.02, 0.6)))
            in_flight += sum(worker.in_flight is not None for worker in workers)
            server.start()
            asyncio.run(repeat())
            grown = onlooker.look()
            assert grown > size
            size = grown
            answered += sum(len(worker.answered) for worker in workers)
            # The hand at which the server was killed is finished as a real client would, by going on from its answers.
            for worker in workers:
                worker.answered.clear()
            asyncio.run(finish(server, workers))
        assert server.terminate() == ExitCode.OK
    assert answered > 100
    assert in_flight > WORKERS, "most workers must have been waiting for an answer"


async def finish(server: ServerProcess, workers: list[Worker]) -> None:
    """Play each worker's hand from its beginning: what was done before is a repeat, the rest is new."""
    async with connected(server) as stub:
        await asyncio.gather(*(worker.play_hand(stub, worker.seq) for worker in workers if worker.seq))
        for worker in workers:
            worker.in_flight = None


def test_sigterm_answers_or_refuses_everything_in_flight_and_exits_0(tmp_path: Path) -> None:
    workers = [Worker(Random(i).randbytes(16)) for i in range(WORKERS)]

    async def until_terminated(server: ServerProcess) -> None:
        assert server.process
        async with connected(server) as stub:
            await asyncio.gather(*(worker.register(stub) for worker in workers))
            playing = [asyncio.create_task(worker.play(stub)) for worker in workers]
            await asyncio.sleep(1)
            os.kill(server.process.pid, 15)
            await asyncio.gather(*playing)

    with ServerProcess(tmp_path) as server:
        asyncio.run(until_terminated(server))
        assert server.terminate() == ExitCode.OK
        Onlooker(server).look()
        server.start()

        async def repeat() -> None:
            async with connected(server) as stub:
                await asyncio.gather(*(worker.repeat_everything(stub) for worker in workers))

        asyncio.run(repeat())
        assert server.terminate() == ExitCode.OK


async def to_the_end(stream: Any) -> None:
    while True:
        await stream.read()


def test_a_follower_of_the_log_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    async def follow(server: ServerProcess) -> float:
        async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
            stream = log_pb2_grpc.LogServiceStub(channel).StreamEntries(log_pb2.StreamEntriesRequest(follow=True))
            await stream.read()
            started = time.monotonic()
            assert server.process
            os.kill(server.process.pid, 15)
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await to_the_end(stream)
            assert ended.value.code() in BROKEN_OFF
            return time.monotonic() - started

    with ServerProcess(tmp_path) as server:
        assert asyncio.run(follow(server)) < 10
        assert server.terminate() == ExitCode.OK


def test_a_second_server_on_the_same_store_is_told_so_and_exits_4(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        second = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == ExitCode.STOPPED
        assert second.stdout == ""
        assert "another process holds log.sqlite3.lock" in second.stderr
        assert "Traceback" not in second.stderr
        assert server.terminate() == ExitCode.OK


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("UPDATE entry SET entry = x'7b7d' WHERE position = 0", "do not give the root"),
        ("DELETE FROM entry WHERE position = 0", "the store ends at"),
    ],
)
def test_an_altered_store_is_named_and_exits_4(tmp_path: Path, spoil: str, why: str) -> None:
    with ServerProcess(tmp_path) as server:
        assert server.terminate() == ExitCode.OK
        connection = sqlite3.connect(server.store)
        with connection:
            connection.execute(spoil)
        connection.close()
        refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == ExitCode.STOPPED
        assert why in refused.stderr
        assert "Traceback" not in refused.stderr
