"""B1, B2, B3: what a sealed, logged and durable hand costs, against the same server's echo and the system's shuffle.

The server runs in a process of its own, as it is deployed; its CPU seconds are read from the kernel. Clients are plain
stubs, so that what is measured is the server. Echo is GetCheckpoint: a unary call of the same server that does nothing.
"""

from __future__ import annotations  # grpc's async stubs are types only

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
import uvloop

from benchmarks.ratio import Bar
from rngsvc.calls import Caller, CloseHand, RegisterTable, ReserveHands, SealShuffle
from rngsvc.config import load
from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from rngsvc.metrics import Metrics
from rngsvc.serve import start
from rngsvc.v1 import log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc

B1 = Bar("B1", "unary SealShuffle at 64 in flight / same server's unary echo (calls per second)", 0.5, 0.7)
B2 = Bar("B2", "batch seal, 100 hands a call / SystemRandom().shuffle of 52 (per CPU second)", 0.4, 1.0)
B3 = Bar("B3", "durable group commit at 64 in flight / one commit each (small entries per second)", 20, 40)

ROUNDS = 5
IN_FLIGHT = 64
TABLES = 1280
RESERVED = 64  # hands reserved ahead at each table


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """Run a server on loopback; yield its address and pid."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rngsvc", "serve", "--ephemeral"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())["grpc"], process.pid
    finally:
        process.terminate()
        process.wait(20)


def cpu_seconds(pid: int) -> float:
    """Return CPU seconds of all threads of a process, to the nanosecond."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


async def at_once(calls: list[Callable[[], Awaitable[object]]], in_flight: int) -> tuple[float, list[float]]:
    """Make all calls, so many at a time; return the wall seconds and each call's latency."""
    left = iter(calls)
    latencies: list[float] = []

    async def worker() -> None:
        for call in left:
            started = time.perf_counter()
            await call()
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return time.perf_counter() - started, latencies


class Tables:
    """Tables with reserved hands, and the next hand to seal at each."""

    def __init__(self, stub: shuffle_pb2_grpc.ShuffleServiceAsyncStub, count: int) -> None:
        self.stub = stub
        self.ids = [os.urandom(16) for _ in range(count)]
        self.seq = 0

    async def register(self) -> None:
        request = [
            shuffle_pb2.RegisterTableRequest(table=table, mode=shuffle_pb2.MODE_SHOE, reveal=shuffle_pb2.REVEAL_PUBLIC)
            for table in self.ids
        ]
        await at_once([partial(self.stub.RegisterTable, each) for each in request], IN_FLIGHT)
        for group in self.groups(256):
            await self.stub.BatchReserveHands(
                shuffle_pb2.BatchReserveHandsRequest(
                    tables=b"".join(group), first_seqs=[1] * len(group), count=RESERVED
                )
            )

    def groups(self, size: int) -> list[list[bytes]]:
        return [self.ids[i : i + size] for i in range(0, len(self.ids), size)]

    def next_seals(self) -> list[Callable[[], Awaitable[object]]]:
        self.seq += 1
        requests = [shuffle_pb2.SealShuffleRequest(table=t, seq=self.seq, item_count=52) for t in self.ids]
        return [partial(self.stub.SealShuffle, each) for each in requests]

    def next_batch_seals(self, size: int) -> list[Callable[[], Awaitable[object]]]:
        self.seq += 1
        requests = [
            shuffle_pb2.BatchSealShuffleRequest(tables=b"".join(g), seqs=[self.seq] * len(g), item_count=52)
            for g in self.groups(size)
        ]
        return [partial(self.stub.BatchSealShuffle, each) for each in requests]

    async def close_all(self) -> None:
        for group in self.groups(256):
            answer = await self.stub.BatchCloseHand(
                shuffle_pb2.BatchCloseHandRequest(
                    tables=b"".join(group), seqs=[self.seq] * len(group), outcome=shuffle_pb2.OUTCOME_COMPLETE
                )
            )
            assert not answer.failures, answer.failures[0]


async def unary_and_batch(address: str, pid: int) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        tables = Tables(shuffle_pb2_grpc.ShuffleServiceStub(channel), TABLES)
        log = log_pb2_grpc.LogServiceStub(channel)
        await tables.register()
        echo = [partial(log.GetCheckpoint, log_pb2.GetCheckpointRequest())] * TABLES

        rates, cpu_ratios, echo_us, seal_us = [], [], [], []
        for _ in range(ROUNDS):
            before = cpu_seconds(pid)
            echo_wall, _ = await at_once(echo, IN_FLIGHT)
            between = cpu_seconds(pid)
            seal_wall, _ = await at_once(tables.next_seals(), IN_FLIGHT)
            after = cpu_seconds(pid)
            await tables.close_all()
            rates.append(echo_wall / seal_wall)
            cpu_ratios.append((between - before) / (after - between))
            echo_us.append((between - before) / TABLES * 1e6)
            seal_us.append((after - between) / TABLES * 1e6)
        B1.report(
            rates,
            f"server CPU a call: echo {statistics.median(echo_us):.0f} us, seal {statistics.median(seal_us):.0f} us"
            f" (CPU ratio {statistics.median(cpu_ratios):.2f})",
        )
        for in_flight in (1, 16, 64):
            calls = tables.next_seals()
            measured = 64 * max(4, in_flight // 4)
            _, latencies = await at_once(calls[:measured], in_flight)
            await at_once(calls[measured:], IN_FLIGHT)  # every table goes on to its next hand
            await tables.close_all()
            cuts = statistics.quantiles(latencies, n=100)
            print(
                f"    latency at {in_flight:2} in flight: p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms"
                f"   ({measured} calls)"
            )

        batch_rates, floors = [], []
        for _ in range(3 * ROUNDS):
            calls = tables.next_batch_seals(100)
            before = cpu_seconds(pid)
            await at_once(calls, 4)
            batch_rates.append(TABLES / (cpu_seconds(pid) - before))
            await tables.close_all()
            floors.append(system_random_rate())
        B2.report(
            [rate / floor for rate, floor in zip(batch_rates, floors, strict=True)],
            f"{statistics.median(batch_rates):.0f} hands per CPU second of the server; floor"
            f" {statistics.median(floors):.0f} shuffles",
        )


def system_random_rate() -> float:
    """Return shuffles of 52 per CPU second by `random.SystemRandom`."""
    deck = list(range(52))
    shuffle = random.SystemRandom().shuffle
    started = time.process_time()
    for _ in range(4000):
        shuffle(deck)
    return 4000 / (time.process_time() - started)


async def group_commit() -> None:
    """B3, in process: the real sequencer and a real SQLite file, batches of one against batches as they come."""
    one_by_one = [await commit_rates(1, passes=4) for _ in range(ROUNDS)]
    grouped = [await commit_rates(1024, passes=32) for _ in range(ROUNDS)]
    small, seals = ([many[i] / one[i] for many, one in zip(grouped, one_by_one, strict=True)] for i in (0, 1))
    B3.report(
        small,
        f"{statistics.median(rate for rate, _ in grouped):.0f}/s grouped, "
        f"{statistics.median(rate for rate, _ in one_by_one):.0f}/s one by one;"
        f" whole seals, with derivation and hashing, {statistics.median(seals):.1f} times",
    )


async def commit_rates(batch_limit: int, passes: int) -> tuple[float, float]:
    """Return small entries and whole seals a second, with at most ``batch_limit`` of them in one commit.

    A small log entry stands for a hand whose cost is the commit alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        make_signing_key(Path(folder, "log.key"), "bench.example/rng")
        make_key_encryption_key(Path(folder, "seeds.key"))
        flags = {
            "origin": "bench.example/rng",
            "signing_key": f"file:{folder}/log.key",
            "key_encryption_key": f"file:{folder}/seeds.key",
            "store": f"sqlite:{folder}/log.sqlite3",
            "batch_limit": str(batch_limit),
        }
        core = await start(load(flags, {}).settings, Metrics(), asyncio.Event())
        small = partial(core.sequencer.submit, lambda batch: batch.append("integrity", b"x" * 300))
        count = 128 * passes
        wall, _ = await at_once([small] * count, IN_FLIGHT)

        caller = Caller("bench", is_operator=True)
        ids = [os.urandom(16) for _ in range(IN_FLIGHT)]
        terms = [RegisterTable(table, "shoe", "public", 86_400) for table in ids]
        await at_once([partial(core.service.register, caller, each) for each in terms], IN_FLIGHT)
        await core.service.reserve(caller, [ReserveHands(table, 1, 64) for table in ids])
        sealed_s = 0.0
        for seq in range(1, passes + 1):
            calls = [partial(core.service.seal, caller, [SealShuffle(table, seq, 52)]) for table in ids]
            sealed_s += (await at_once(calls, IN_FLIGHT))[0]
            await core.service.close(caller, [CloseHand(table, seq, "complete") for table in ids])
        await core.sequencer.drain()
        await core.store.close()
    return count / wall, passes * IN_FLIGHT / sealed_s


def main() -> None:
    """Run all three."""
    with server() as (address, pid):
        uvloop.run(unary_and_batch(address, pid))
    uvloop.run(group_commit())


if __name__ == "__main__":
    main()
