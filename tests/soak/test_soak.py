"""Mixed load for a while: nothing fails, memory stays flat, and the log that comes of it audits clean."""

import json
import secrets
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from rngsvc.client import SyncClient
from tests.scale import scaled

SECONDS = scaled(30, 1800)
TABLES = 48
# What a process may grow in the second half of the run: the caches are full by then, open hands are few.
GROWTH_MIB = 24


@contextmanager
def service() -> Iterator[tuple[dict[str, str], int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rngsvc", "serve", "--ephemeral"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.communicate(timeout=30)


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process is gone")


class Load:
    """One kind of caller; keeps going until it is told to stop, and remembers what went wrong."""

    def __init__(self, service: dict[str, str], stop: threading.Event) -> None:
        self.service = service
        self.stop = stop
        self.hands = 0
        self.latencies: list[float] = []
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            with SyncClient.connect(self.service["grpc"], log_key=self.service["log_key"], timeout_s=30) as client:
                self.play(client)
        except BaseException as error:  # noqa: BLE001  (told to the test)
            self.failure = error

    def play(self, client: SyncClient) -> None:
        raise NotImplementedError


class ManyTables(Load):
    """A room: one step at many tables in one call."""

    def play(self, client: SyncClient) -> None:
        tables = [client.register_table(secrets.token_bytes(16)) for _ in range(TABLES)]
        while not self.stop.is_set():
            hands = [reserved[0] for reserved in client.reserve_all(tables)]
            client.seal_all(hands, 52)
            client.open_all([(hand, 0, range(10)) for hand in hands])
            client.close_all(hands)
            self.hands += len(hands)


class OneTable(Load):
    """A single table whose deck is reshuffled, hand by hand."""

    def play(self, client: SyncClient) -> None:
        table = client.register_table(secrets.token_bytes(16))
        while not self.stop.is_set():
            hand = table.reserve()
            started = time.perf_counter()
            hand.seal(32, {})
            self.latencies.append(time.perf_counter() - started)
            hand.open(0, range(25))
            hand.reshuffle((0, place) for place in range(10))
            hand.open(1, range(5))
            hand.close()
            self.hands += 1


class Sampler(Load):
    """An auditor who takes samples while play goes on."""

    def play(self, client: SyncClient) -> None:
        from rngsvc.client import Shuffles

        while not self.stop.is_set():
            assert sum(len(chunk) for chunk in client.audit.sample(Shuffles(52, 2000))) == 52 * 2000
            time.sleep(1)


@pytest.mark.timeout(0)
def test_under_mixed_load_memory_is_flat_and_nothing_fails() -> None:
    with service() as (ready, pid):
        stop = threading.Event()
        loads: list[Load] = [ManyTables(ready, stop), OneTable(ready, stop), Sampler(ready, stop)]
        for load in loads:
            load.thread.start()
        memory = []
        for _ in range(20):
            time.sleep(SECONDS / 20)
            memory.append(resident_mib(pid))
        stop.set()
        for load in loads:
            load.thread.join(60)
            assert load.failure is None, load.failure
        hands = sum(load.hands for load in loads)
        cuts = statistics.quantiles(loads[1].latencies, n=100)
        print(
            f"{hands} hands in {SECONDS} s; seal p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms;"
            f" memory {memory[0]:.0f} MiB at first, {memory[9]:.0f} half way, {memory[-1]:.0f} at last"
        )
        assert hands > SECONDS
        assert memory[-1] - memory[9] < GROWTH_MIB
        with urlopen(f"{ready['operator']}/metrics", timeout=10) as answer:
            metrics = answer.read().decode()
        failed = [
            line
            for line in metrics.splitlines()
            if line.startswith("rngsvc_requests_total") and 'code="OK"' not in line
        ]
        assert not failed, failed
        audited = subprocess.run(
            [sys.executable, "-m", "rngsvc", "audit", ready["http"], "--log-key", ready["log_key"], "--json"],
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert audited.returncode == 0, audited.stdout + audited.stderr
