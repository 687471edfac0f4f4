"""Mixed load for a while: nothing fails, memory stays flat, and the log that comes of it audits clean.

`python -m pytest -s tests/soak` prints the report: a minute of it, with PROVE=1 half an hour.
"""

import json
import secrets
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

import pytest

from rngsvc.client import Shuffles, SyncClient
from rngsvc.client.blocking import SyncHand
from rngsvc.client.errors import CallFailed
from rngsvc.protocol.commitment import promise
from tests.drills.figures import resident_mib
from tests.scale import scaled

SECONDS = scaled(60, 1800)
TABLES = 48
LOOKS = 20
# Flat means: in the last quarter of the run the process never needs so much more than it did in the second quarter. The
# caches are full by then, open hands are few, and what remains is the allocator's unrest.
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


class Load:
    """One kind of caller; keeps going until it is told to stop, and remembers what went wrong."""

    def __init__(self, service: dict[str, str], stop: threading.Event) -> None:
        self.service = service
        self.stop = stop
        self.hands = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
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

    @contextmanager
    def timed(self, method: str) -> Iterator[None]:
        """Note how long one call takes a caller, proofs included."""
        started = time.perf_counter()
        yield
        self.seconds[method].append(time.perf_counter() - started)


class ManyTables(Load):
    """A room: one step at many tables in one call."""

    def play(self, client: SyncClient) -> None:
        tables = [client.register_table(secrets.token_bytes(16)) for _ in range(TABLES)]
        while not self.stop.is_set():
            with self.timed("BatchReserveHands"):
                hands = [reserved[0] for reserved in client.reserve_all(tables) if not isinstance(reserved, CallFailed)]
            with self.timed("BatchSealShuffle"):
                client.seal_all(hands, 52)
            with self.timed("BatchOpenCards"):
                client.open_all([(hand, 0, range(10)) for hand in hands])
            with self.timed("BatchCloseHand"):
                client.close_all(hands)
            assert len(hands) == TABLES
            self.hands += len(hands)


class OneTable(Load):
    """A single table whose deck is reshuffled, hand by hand; one hand in four is a draw of numbers."""

    def play(self, client: SyncClient) -> None:
        with self.timed("RegisterTable"):
            table = client.register_table(secrets.token_bytes(16))
        while not self.stop.is_set():
            with self.timed("ReserveHands"):
                hand = table.reserve()
            given = {b"seat-1": secrets.token_bytes(32)}
            promises = {who: promise(client.origin, table.id, hand.seq, who, seed) for who, seed in given.items()}
            with self.timed("PromiseSeeds"):
                hand.promise(promises)
            if hand.seq % 4:
                self.deal(hand, given)
            else:
                with self.timed("DrawNumbers"):
                    hand.draw(b"button", 8, 1, given)
            with self.timed("CloseHand"):
                hand.close()
            self.hands += 1

    def deal(self, hand: SyncHand, given: dict[bytes, bytes]) -> None:
        with self.timed("SealShuffle"):
            hand.seal(32, given)
        with self.timed("OpenCards"):
            hand.open(0, range(25))
        with self.timed("Reshuffle"):
            hand.reshuffle((0, place) for place in range(10))
        hand.open(1, range(5))


class Reader(Load):
    """Somebody who looks at the log and at hands that are over."""

    def play(self, client: SyncClient) -> None:
        table = client.register_table(secrets.token_bytes(16))
        hand = table.reserve()
        hand.seal(52, {})
        hand.close()
        while not self.stop.is_set():
            with self.timed("GetCheckpoint"):
                held = client.log.checkpoint()
            with self.timed("GetProof"):
                client.log.entry(secrets.randbelow(held.size))
            with self.timed("GetHand"):
                client.hand(table.id, 1)
            with self.timed("ListHands"):
                assert len(list(table.hands())) == 1
            with self.timed("StreamEntries"):
                assert sum(len(run.entries) for run in client.log.entries(max(0, held.size - 100), held.size)) <= 100
            with self.timed("GetConsistencyProof"):
                client.log.consistency(1 + secrets.randbelow(held.size), held.size)
            time.sleep(0.05)


class Sampler(Load):
    """An auditor who takes samples while play goes on."""

    def play(self, client: SyncClient) -> None:
        while not self.stop.is_set():
            with self.timed("Sample"):
                assert sum(len(chunk) for chunk in client.audit.sample(Shuffles(52, 2000))) == 52 * 2000
            time.sleep(1)


def report(loads: list[Load]) -> str:
    """Return a line for each method: calls, and the times that half and all but one in a hundred took at most."""
    lines = [f"{'method':20}{'calls':>9}{'p50':>11}{'p99':>11}"]
    seconds = {method: times for load in loads for method, times in load.seconds.items() if len(times) > 1}
    for method, times in sorted(seconds.items()):
        cuts = statistics.quantiles(times, n=100)
        lines.append(f"{method:20}{len(times):9}{cuts[49] * 1e3:8.1f} ms{cuts[98] * 1e3:8.1f} ms")
    return "\n".join(lines)


@pytest.mark.timeout(0)
def test_under_mixed_load_memory_is_flat_and_nothing_fails() -> None:
    with service() as (ready, pid):
        stop = threading.Event()
        loads = [kind(ready, stop) for kind in (ManyTables, OneTable, Reader, Sampler)]
        for load in loads:
            load.thread.start()
        memory = []
        for _ in range(LOOKS):
            time.sleep(SECONDS / LOOKS)
            memory.append(resident_mib(pid))
        stop.set()
        for load in loads:
            load.thread.join(60)
            assert load.failure is None, load.failure
        hands = sum(load.hands for load in loads)
        grown = max(memory[3 * LOOKS // 4 :]) - max(memory[LOOKS // 4 : LOOKS // 2])
        print(f"\n{hands} hands in {SECONDS} s\n{report(loads)}")
        print(f"memory, MiB: {' '.join(f'{each:.0f}' for each in memory)}; {grown:+.1f} of at most {GROWTH_MIB}")
        assert hands > SECONDS
        assert grown < GROWTH_MIB
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
            timeout=scaled(600, 7200),
        )
        assert audited.returncode == 0, audited.stdout + audited.stderr
