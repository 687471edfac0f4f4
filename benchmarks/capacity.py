"""B9 and what a log costs as it grows: `python -m benchmarks.capacity [HANDS...]`, at each of so many logged hands.

A hand here is three log entries, as a room plays it: reserved by itself, sealed with 52 items, twenty places opened in
four calls, closed with its seed. A hundred tables play at once, in batch calls; then a few hands are played with single
calls. Stores are SQLite, and PostgreSQL with ``--store postgres``.

``--json FILE`` adds what was measured to a file; ``--plan FILE`` prints the tables of docs/capacity.md from it, in
which the rows beyond the measured ones are calculated.
"""

from __future__ import annotations  # grpc's async stubs are types only

import argparse
import asyncio
import json
import math
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import grpc
import uvloop

from benchmarks.ratio import Bar
from benchmarks.service import cpu_seconds
from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from rngsvc.v1 import log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc

B9 = Bar("B9", "server's memory at the first mark / at the last, ten times the hands later (flat: near 1)", 0.8, 0.95)

MARKS = (1_000, 10_000)
TABLES = 100
ORIGIN = "capacity.example/rng"
SINGLE_HANDS = 40
PROOFS = 200
DAYS_A_YEAR = 365.25


@dataclass(frozen=True)
class Mark:
    """What was measured at ``hands`` logged hands.

    ``_us`` and ``start_cpu_s`` are CPU time of the server, the audit's rate is by its own CPU time: other work on the
    machine changes these little. ``_ms`` are medians of what a caller waits, one call at a time.
    """

    store: str
    hands: int
    entries: int
    log_bytes: int
    store_bytes: int
    memory_mib: float
    start_cpu_s: float
    batch_hand_us: float
    single_hand_us: float
    seal_ms: float
    proof_ms: float
    consistency_ms: float
    audit_entries_per_cpu_s: float


# --- Measuring ---


class Server:
    """A service on a store, ended with the context."""

    def __init__(self, folder: Path, store: str) -> None:
        if not (folder / "log.key").exists():
            make_signing_key(folder / "log.key", ORIGIN)
            make_key_encryption_key(folder / "seeds.key")
        settings = {
            "origin": ORIGIN,
            "signing-key": f"file:{folder / 'log.key'}",
            "key-encryption-key": f"file:{folder / 'seeds.key'}",
            "store": store,
            "listen": "127.0.0.1:0",
            "http-public": "127.0.0.1:0",
            "http-operator": "127.0.0.1:0",
            "log-level": "error",
        }
        command = [sys.executable, "-m", "rngsvc", "serve", *(f"--{name}={value}" for name, value in settings.items())]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.ready: dict[str, str] = json.loads(self._process.stdout.readline())
        self.pid = self._process.pid
        self.start_cpu_s = cpu_seconds(self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)

    def memory_mib(self) -> float:
        """Return its resident memory."""
        (line,) = [each for each in Path(f"/proc/{self.pid}/status").read_text().splitlines() if "VmRSS" in each]
        return int(line.split()[1]) / 1024


async def register(stub: shuffle_pb2_grpc.ShuffleServiceAsyncStub, tables: Sequence[bytes]) -> None:
    """Register tables, one call each."""
    p = shuffle_pb2
    for table in tables:
        await stub.RegisterTable(
            p.RegisterTableRequest(table=table, mode=p.MODE_SHOE, reveal=p.REVEAL_PUBLIC, ttl_s=30 * 86_400)
        )


class Play:
    """A hundred tables, hand after hand."""

    def __init__(self) -> None:
        self.ids = [os.urandom(16) for _ in range(TABLES)]
        self.seq = 0

    async def batch(self, stub: shuffle_pb2_grpc.ShuffleServiceAsyncStub) -> None:
        """Play one hand at each table, in seven calls."""
        self.seq += 1
        p, tables, seqs = shuffle_pb2, b"".join(self.ids), [self.seq] * TABLES
        await stub.BatchReserveHands(p.BatchReserveHandsRequest(tables=tables, first_seqs=seqs, count=1))
        await stub.BatchSealShuffle(p.BatchSealShuffleRequest(tables=tables, seqs=seqs, item_count=52))
        for first in range(0, 20, 5):
            await stub.BatchOpenCards(
                p.BatchOpenCardsRequest(
                    tables=tables,
                    seqs=seqs,
                    ks=[0] * TABLES,
                    place_counts=[5] * TABLES,
                    places=[*range(first, first + 5)] * TABLES,
                )
            )
        closed = await stub.BatchCloseHand(
            p.BatchCloseHandRequest(tables=tables, seqs=seqs, outcome=p.OUTCOME_COMPLETE)
        )
        assert not closed.failures, closed.failures[0]


async def one_hand(stub: shuffle_pb2_grpc.ShuffleServiceAsyncStub, table: bytes) -> float:
    """Play a table's first hand, in seven single calls; return the seconds of its seal."""
    p = shuffle_pb2
    await stub.ReserveHands(p.ReserveHandsRequest(table=table, first_seq=1, count=1))
    started = time.perf_counter()
    await stub.SealShuffle(p.SealShuffleRequest(table=table, seq=1, item_count=52))
    seal_s = time.perf_counter() - started
    for first in range(0, 20, 5):
        await stub.OpenCards(p.OpenCardsRequest(table=table, seq=1, k=0, places=range(first, first + 5)))
    await stub.CloseHand(p.CloseHandRequest(table=table, seq=1, outcome=p.OUTCOME_COMPLETE))
    return seal_s


async def median_ms(calls: Iterator[Callable[[], Awaitable[Any]]]) -> float:
    """Make calls one after the other; return the median time in ms."""
    times = []
    for call in calls:
        started = time.perf_counter()
        await call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


async def grow(server: Server, play: Play, hands: int) -> dict[str, float]:
    """Play until so many ``hands`` are logged; return what that took."""
    async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
        stub = shuffle_pb2_grpc.ShuffleServiceStub(channel)
        if not play.seq:
            await register(stub, play.ids)
        before, first = cpu_seconds(server.pid), play.seq
        while play.seq * TABLES < hands:
            await play.batch(stub)
        between = cpu_seconds(server.pid)
        tables = [os.urandom(16) for _ in range(SINGLE_HANDS)]
        await register(stub, tables)
        at_single = cpu_seconds(server.pid)
        seals = [await one_hand(stub, table) for table in tables]
        after = cpu_seconds(server.pid)
        return {
            "batch_hand_us": (between - before) / ((play.seq - first) * TABLES) * 1e6,
            "single_hand_us": (after - at_single) / SINGLE_HANDS * 1e6,
            "seal_ms": statistics.median(seals) * 1e3,
        }


async def proofs(server: Server, size: int) -> dict[str, float]:
    """Ask for proofs at random places of the log."""
    async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
        stub, p = log_pb2_grpc.LogServiceStub(channel), log_pb2
        places = [random.randrange(size) for _ in range(PROOFS)]
        return {
            "proof_ms": await median_ms(partial(stub.GetProof, p.GetProofRequest(index=i)) for i in places),
            "consistency_ms": await median_ms(
                partial(stub.GetConsistencyProof, p.GetConsistencyProofRequest(old_size=i + 1)) for i in places
            ),
        }


class Place(Protocol):
    """Where stores lie."""

    def address(self, name: str) -> str:
        """Return the address of a store by name."""

    def size(self, name: str) -> tuple[int, int, int]:
        """Return entries, their bytes, and the bytes of the whole store."""


class Sqlite:
    """Files of a folder. The write-ahead log beside a store in use is at most 16 MiB and is not counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def address(self, name: str) -> str:
        return f"sqlite:{self._folder / name}"

    def size(self, name: str) -> tuple[int, int, int]:
        file = self._folder / name
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            entries, log_bytes = connection.execute("SELECT count(*), sum(length(entry)) FROM entry").fetchone()
        return entries, log_bytes, file.stat().st_size


class Postgresql:
    """Schemas of a database, with their indexes."""

    def __init__(self) -> None:
        from tests.postgres import postgres

        self._server = postgres()

    def address(self, name: str) -> str:
        return self._server.address(name)

    def size(self, name: str) -> tuple[int, int, int]:
        return asyncio.run(self._size(name))

    async def _size(self, name: str) -> tuple[int, int, int]:
        import asyncpg

        connection = await asyncpg.connect(self._server.address(name).partition("&schema")[0])
        entries, log_bytes = await connection.fetchrow(f"SELECT count(*), sum(length(entry)) FROM {name}.entry")
        store_bytes = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = $1 AND c.relkind = 'r'",
            name,
        )
        await connection.close()
        return entries, int(log_bytes), int(store_bytes)


def command_cpu_s(*arguments: str) -> float:
    """Run an rngsvc command that must succeed; return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "rngsvc", *arguments], check=False, capture_output=True, text=True, timeout=7200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(store: str, marks: Sequence[int]) -> Iterator[Mark]:
    """Grow one log in one process, and look at it at each mark; start-up and audit are of a copy."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        place: Place = Sqlite(folder) if store == "sqlite" else Postgresql()
        play = Play()
        with Server(folder, place.address("growing")) as server:
            for hands in marks:
                grown = uvloop.run(grow(server, play, hands))
                entries, log_bytes, store_bytes = place.size("growing")
                asked = uvloop.run(proofs(server, entries))
                memory_mib = server.memory_mib()
                copy = f"copy{hands}"
                command_cpu_s("store", "copy", place.address("growing"), place.address(copy))
                with Server(folder, place.address(copy)) as second:
                    start_cpu_s = second.start_cpu_s
                    audit_cpu_s = command_cpu_s("audit", second.ready["http"], "--log-key", second.ready["log_key"])
                yield Mark(
                    store=store,
                    hands=play.seq * TABLES,
                    entries=entries,
                    log_bytes=log_bytes,
                    store_bytes=store_bytes,
                    memory_mib=memory_mib,
                    start_cpu_s=start_cpu_s,
                    audit_entries_per_cpu_s=entries / audit_cpu_s,
                    **grown,
                    **asked,
                )


# --- Calculating ---


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured_table(marks: Sequence[Mark]) -> str:
    """Return what was measured, as docs/capacity.md shows it."""
    heads = ["store", "hands", "log entries", "log, bytes a hand", "store, bytes a hand", "memory, MiB", "start, CPU s"]
    heads += ["CPU a hand, batch, us", "CPU a hand, single calls, us", "seal, ms", "proof, ms", "consistency, ms"]
    heads += ["audit, entries a CPU s"]
    return markdown(
        heads,
        [
            [
                each.store,
                f"{each.hands:,}",
                f"{each.entries:,}",
                f"{each.log_bytes / each.hands:,.0f}",
                f"{each.store_bytes / each.hands:,.0f}",
                f"{each.memory_mib:.0f}",
                f"{each.start_cpu_s:.1f}",
                f"{each.batch_hand_us:.0f}",
                f"{each.single_hand_us:.0f}",
                f"{each.seal_ms:.1f}",
                f"{each.proof_ms:.1f}",
                f"{each.consistency_ms:.1f}",
                f"{each.audit_entries_per_cpu_s:,.0f}",
            ]
            for each in marks
        ],
    )


def gigabytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"


def hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h"


def plan_table(marks: Sequence[Mark], sizes: Sequence[int] = (10**6, 10**7, 10**8, 10**9)) -> str:
    """Return what logs of ``sizes`` hands take, calculated from the largest mark of each store.

    Bytes and audit grow with the log; a proof grows with its logarithm; memory and start-up do not grow.
    """
    largest = {each.store: each for each in sorted(marks, key=lambda each: each.hands)}
    lite = largest["sqlite"]
    entries_a_hand = lite.entries / lite.hands
    heads = ["hands", "a year of", "log entries", "log", "SQLite", "PostgreSQL", "hashes in a proof"]
    heads += ["playing it, one core, batch", "single calls", "whole audit, one core"]
    rows = []
    for hands in sizes:
        entries = hands * entries_a_hand
        rows.append(
            [
                f"{hands:,}",
                f"{hands / (DAYS_A_YEAR * 86_400):.2f} hands/s",
                f"{entries:,.0f}",
                gigabytes(lite.log_bytes / lite.hands * hands),
                gigabytes(lite.store_bytes / lite.hands * hands),
                gigabytes(largest["postgres"].store_bytes / largest["postgres"].hands * hands)
                if "postgres" in largest
                else "-",
                f"{math.ceil(math.log2(entries))}",
                hours(lite.batch_hand_us / 1e6 * hands),
                hours(lite.single_hand_us / 1e6 * hands),
                hours(entries / lite.audit_entries_per_cpu_s),
            ]
        )
    return markdown(heads, rows)


# --- The command ---


def main(arguments: Sequence[str] = ()) -> None:
    """Measure, or print the plan; without arguments, as `python -m benchmarks` does, B9 at the small marks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity")
    parser.add_argument("hands", nargs="*", type=int, help="marks, a multiple of 100 each")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add what was measured to FILE")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="print the tables made from FILE")
    chosen = parser.parse_args(arguments)
    if chosen.plan:
        marks = read(chosen.plan)
        print(f"{measured_table(marks)}\n\n{plan_table(marks)}")
        return
    marks = []
    for mark in measure(chosen.store, sorted(chosen.hands) or MARKS):
        marks.append(mark)
        print(f"    {json.dumps(asdict(mark))}", flush=True)
        if chosen.json:
            add(chosen.json, mark)
    if len(marks) > 1:
        figures = ", ".join(f"{each.memory_mib:.0f} MiB at {each.hands:,} hands" for each in marks)
        B9.report([marks[0].memory_mib / marks[-1].memory_mib], figures)


def read(file: Path) -> list[Mark]:
    """Return what a file holds, by store and size."""
    marks = [Mark(**each) for each in json.loads(file.read_text())["marks"]]
    return sorted(marks, key=lambda each: (each.store != "sqlite", each.hands))


def add(file: Path, mark: Mark) -> None:
    """Put a mark into the file, in place of an older one of the same store and size."""
    marks = read(file) if file.exists() else []
    kept = [each for each in marks if (each.store, each.hands) != (mark.store, mark.hands)]
    content = {"measured": f"{datetime.now(UTC):%Y-%m-%d}", "marks": [asdict(each) for each in [*kept, mark]]}
    file.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
