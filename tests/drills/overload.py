"""Ten times as many calls at once as may wait: the rest is refused with a time to come back, and nothing breaks."""

from __future__ import annotations  # grpc's async stubs are types only

import asyncio
import os
import random
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

from rngsvc.client.calls import failure_of
from rngsvc.v1 import shuffle_pb2, shuffle_pb2_grpc
from tests.drills.account import Account
from tests.drills.figures import metric, resident_mib
from tests.drills.players import check_log
from tests.scale import scaled
from tests.simulation.process import ServerProcess

LIMIT = 64
SECONDS = scaled(4, 60)
GROWTH_MIB = scaled(32, 96)
ACCEPTED_S = 5.0


@dataclass
class Load:
    """What callers were told: seconds of each call that was accepted, waits that were asked for, anything else."""

    accepted_s: list[float] = field(default_factory=list)
    retry_after_s: list[float | None] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    def p(self, percent: int) -> float:
        """Return a percentile of the accepted calls, in ms."""
        return statistics.quantiles(self.accepted_s, n=100)[percent - 1] * 1e3


async def caller(stub: shuffle_pb2_grpc.ShuffleServiceAsyncStub, load: Load, until: float) -> None:
    """Register one table after the other, each a log entry; wait when asked to, as a decent caller does."""
    while time.monotonic() < until:
        request = shuffle_pb2.RegisterTableRequest(
            table=os.urandom(16), mode=shuffle_pb2.MODE_SHOE, reveal=shuffle_pb2.REVEAL_PUBLIC
        )
        started = time.monotonic()
        try:
            await stub.RegisterTable(request, timeout=30)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                load.other.append(f"{error.code().name}: {error.details()}")
                continue
            wish = failure_of(error).retry_after_s
            load.retry_after_s.append(wish)
            await asyncio.sleep((wish or 0.0) * (1 + random.random()))
        else:
            load.accepted_s.append(time.monotonic() - started)


async def put_on(address: str, in_flight: int, seconds: float) -> Load:
    """Make so many calls at once for so long, over eight connections."""
    load, until = Load(), time.monotonic() + seconds
    channels = [grpc.aio.insecure_channel(address, options=[("drill.connection", i)]) for i in range(8)]
    stubs = [shuffle_pb2_grpc.ShuffleServiceStub(channel) for channel in channels]
    await asyncio.gather(*(caller(stubs[i % len(stubs)], load, until) for i in range(in_flight)))
    for channel in channels:
        await channel.close()
    return load


class Watch:
    """Looks at queue and memory while the load is on."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.queue, self.memory_mib = 0.0, 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)

    def _run(self) -> None:
        assert self._server.process
        while not self._stop.wait(0.2):
            self.queue = max(self.queue, metric(self._server.ready["operator"], "rngsvc_queue"))
            self.memory_mib = max(self.memory_mib, resident_mib(self._server.process.pid))


def run(folder: Path, account: Account) -> None:
    with ServerProcess(folder, (f"--queue-limit={LIMIT}",)) as server:
        assert server.process
        address = server.ready["grpc"]
        before = asyncio.run(put_on(address, LIMIT // 4, 2.0))
        at_rest_mib = resident_mib(server.process.pid)
        account.saw(f"{LIMIT // 4} calls at once: p50 {before.p(50):.0f} ms, p99 {before.p(99):.0f} ms")
        with Watch(server) as watch:
            load = asyncio.run(put_on(address, 10 * LIMIT, SECONDS))
        account.did(f"made {10 * LIMIT} calls at once for {SECONDS} s, where {LIMIT} may wait")
        account.saw(f"{len(load.accepted_s)} accepted, {len(load.retry_after_s)} refused")
        account.check("calls above the limit are refused: RESOURCE_EXHAUSTED", load.retry_after_s)
        told = all(wish and wish > 0 for wish in load.retry_after_s)
        account.check("each refusal says when to come back (RetryInfo)", told, load.retry_after_s[:5])
        account.check("nothing else happened to any call", not load.other, load.other[:3])
        account.check(f"never more than {LIMIT} waited", watch.queue <= LIMIT, watch.queue)
        bounded = load.p(99) < ACCEPTED_S * 1e3
        latency = f"p50 {load.p(50):.0f} ms, p99 {load.p(99):.0f} ms"
        account.check(f"what is accepted is answered soon, {latency}", bounded, f"allowed: {ACCEPTED_S} s")
        growth = watch.memory_mib - at_rest_mib
        account.check(f"memory grew by {growth:.0f} MiB, at most {GROWTH_MIB}", growth < GROWTH_MIB)
        after = asyncio.run(put_on(address, LIMIT // 4, 2.0))
        account.saw(f"the old load again: p50 {after.p(50):.0f} ms, p99 {after.p(99):.0f} ms")
        recovered = not after.retry_after_s and not after.other and after.p(50) < load.p(50) / 2
        account.check("it has recovered at once", recovered, f"{len(after.retry_after_s)} refused, {after.other[:3]}")
        check_log(account, server.ready["http"], server.ready["log_key"])
        account.check("SIGTERM ends it with exit code 0", server.terminate() == 0)
