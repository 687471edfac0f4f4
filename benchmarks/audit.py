"""How fast a stranger audits a log: `python -m benchmarks.audit [ENTRIES]`; the bar is a million in ten minutes.

A valid log is written as a folder of tiles, and the shipped audit reads it from there in a process of its own. Tables
take turns; one in five reveals publicly, so that its shuffles are derived again, the others under escrow.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.ratio import Bar
from rngsvc.protocol.card_seal import cards_root, salts, seal
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.commitment import commit, contribution_leaf, hand_context, promise
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.entries import (
    NO_PREVIOUS,
    CloseEntry,
    HandEntry,
    IntegrityEntry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
)
from rngsvc.protocol.merkle import leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tiles import WIDTH, Tile, encode_bundle

AUDIT = Bar("AUDIT", "entries audited in ten minutes / a million", 1.0, 4.0)

ENTRIES = 100_000
TABLES = 100
PLAYERS = (b"seat-1", b"seat-2", b"seat-3")
START_MS = 1_790_000_000_000
DAY_MS = 86_400_000
ORIGIN = "benchmark.example/log"


class _Table:
    """A table whose hands are valid; under escrow roots and ciphertexts are noise, as they are to a stranger."""

    def __init__(self, number: int) -> None:
        self.id = sha256(b"table %d" % number).digest()[:16]
        self.public = number % 5 == 0
        self.prev = NO_PREVIOUS
        self.seq = 0

    def registered(self, now: int) -> bytes:
        terms: dict[str, object] = (
            {"reveal": "public"} if self.public else {"reveal": "escrow", "auditor": (b"x" * 32,) * 2}
        )
        return self._log(TableEntry, now, mode="shoe", ttl=86_400, **terms)

    def hand(self, now: int) -> Iterator[bytes]:
        """Give the entries of the next hand: reserve, promise, seal, close."""
        self.seq += 1
        seed = os.urandom(48)
        commitment = commit(self.id, self.seq, seed)
        yield self._log(ReserveEntry, now, first=self.seq, commitments=(commitment,))
        given = {player: os.urandom(32) for player in PLAYERS}
        promises = tuple((who, promise(ORIGIN, self.id, self.seq, who, given[who])) for who in PLAYERS)
        yield self._log(PromiseEntry, now, first=self.seq, promises=(promises,))
        pre = self.prev
        cr = root_of([contribution_leaf(i, who, given[who]) for i, who in enumerate(PLAYERS)])
        hc = hand_context(ORIGIN, self.id, self.seq, commitment, cr, pre)
        root, used = os.urandom(32), 53
        if self.public:
            order, used = permute(seed, hc, 0, range(52))
            root = cards_root(0, seal(0, order, salts(seed, hc, 0, 52)))
        sealed = {"k": 0, "n": 52, "hc": hc, "root": root, "used": used, "cr": cr, "absent": (), "pre": pre}
        yield self._log(SealEntry, now, seq=self.seq, **sealed)
        opened = tuple((now, 0, tuple(range(first, first + 6))) for first in range(0, 24, 6))
        reveal = {"seed": seed} if self.public else {"escrow": os.urandom(96)}
        seeds = tuple(given.values())
        yield self._log(CloseEntry, now, seq=self.seq, outcome="complete", opened=opened, seeds=seeds, **reveal)

    def _log(self, kind: type[HandEntry], now: int, **members: object) -> bytes:
        raw = kind(time=now, table=self.id, prev=self.prev, **members).encode()  # type: ignore[arg-type]
        self.prev = leaf_hash(raw)
        return raw


def valid_log(size: int) -> Iterator[bytes]:
    """Give ``size`` entries of a log without fault."""
    now, checked = START_MS, START_MS
    check = IntegrityEntry(time=now, kind="start", code=bytes(32), results=(bytes(32), "pass"))

    def entries() -> Iterator[bytes]:
        nonlocal now, checked
        yield check.encode()
        tables = [_Table(i) for i in range(TABLES)]
        for table in tables:
            yield table.registered(now)
        while True:
            for table in tables:
                now += 500
                if now > checked + DAY_MS:
                    checked = now
                    yield IntegrityEntry(time=now, kind="daily", code=bytes(32), results=(bytes(32), "pass")).encode()
                yield from table.hand(now)

    yield from islice(entries(), size)


def write_log(folder: Path, size: int) -> NoteKey:
    """Write a valid log as tiles; return its key."""
    private = Ed25519PrivateKey.generate()
    key = NoteKey(ORIGIN, private.public_key().public_bytes_raw())

    def write(tile: Tile, content: bytes) -> None:
        path = folder / tile.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    hashes: list[bytes] = []
    bundle: list[bytes] = []
    for raw in valid_log(size):
        bundle.append(raw)
        hashes.append(leaf_hash(raw))
        if len(bundle) == WIDTH or len(hashes) == size:
            write(Tile.covering(None, (len(hashes) - 1) // WIDTH, size), encode_bundle(bundle))
            bundle = []
    root = root_of(hashes)
    level = 0
    while hashes:
        groups = [hashes[i : i + WIDTH] for i in range(0, len(hashes), WIDTH)]
        for index, group in enumerate(groups):
            write(Tile(level, index, len(group)), b"".join(group))
        hashes = [root_of(group) for group in groups if len(group) == WIDTH]
        level += 1
    (folder / "checkpoint").write_text(Checkpoint(ORIGIN, size, root).sign(key, private.sign))
    return key


def peak_mib(pid: int) -> float:
    """Return a process's largest memory so far, 0 once it is gone."""
    # Not rusage: what this process had when it started the other one would count there.
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def main(size: int = ENTRIES) -> None:
    """Print the rate for a log of ``size`` entries, and the memory beside that for a tenth of it."""
    peaks = {}
    for part in (size // 10, size):
        with tempfile.TemporaryDirectory() as folder:
            key = write_log(Path(folder), part)
            command = [sys.executable, "-m", "rngsvc", "audit", folder, "--log-key", key.vkey, "--json"]
            started = time.perf_counter()
            before = os.times()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            while process.poll() is None:
                peaks[part] = peak_mib(process.pid) or peaks.get(part, 0.0)
                time.sleep(0.1)
            wall = time.perf_counter() - started
            after = os.times()
            assert process.returncode == 0, "the audit of a valid log passes"
    rate = size / wall
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    memory = ", ".join(f"{peak:.0f} MiB at {part} entries" for part, peak in peaks.items())
    AUDIT.report([rate * 600 / 1_000_000], f"{rate:.0f} entries/s ({size / cpu:.0f} per CPU second); peak {memory}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
