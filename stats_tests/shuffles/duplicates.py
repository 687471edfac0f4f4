"""Whether any deck comes twice: the one test that sees a shuffler with too few seeds.

It must remember every deck. It keeps 16 bytes of each, in sorted runs that go to disk when they grow, so memory stays
constant; disk does not.
"""

import hashlib
import math
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from stats_tests.accumulator import Items, State, StateValue
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.result import Result, not_applicable

DIGEST_BYTES: Final = 16
RUN_LENGTH: Final = 1 << 18
"""Digests held in memory before they go to disk."""
LARGEST_EXPECTATION: Final = 1e-3
"""Repeats expected of perfect shuffles beyond which a repeat says nothing (small decks)."""

# Two big-endian halves, so that the order of numbers is the order of the digests' bytes.
Digests = NDArray[np.uint64]


class DuplicateDecks:
    """Accumulator of deck digests over a segment of the sample."""

    def __init__(self, test: str, n: int, start: int) -> None:
        """Begin an empty segment of decks of n cards at deck `start`."""
        self._test = test
        self._n = n
        self.start = start
        self.end = start
        self._fresh: list[Digests] = []
        self._runs: list[Digests] = []
        # What a loaded state says, until its digests are read; without them it can be judged, but not added to.
        self._said: dict[str, StateValue] | None = None

    def update(self, items: Items) -> None:
        """Take the decks that follow."""
        assert self._said is None, "only a segment whose digests are there can grow"
        row_bytes = items.shape[1] * items.itemsize if len(items) else 1
        raw = np.ascontiguousarray(items).tobytes()
        digests = b"".join(
            hashlib.blake2b(raw[at : at + row_bytes], digest_size=DIGEST_BYTES).digest()
            for at in range(0, len(raw), row_bytes)
        )
        self._take(digests)
        self.end += len(items)

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends."""
        if following.start != self.end:
            raise ValueError(
                f"segments do not adjoin: one ends at item {self.end}, the next begins at {following.start}"
            )
        assert self._said is None, "only a segment whose digests are there can grow"
        assert following._said is None, "only a segment whose digests are there can be joined"
        self._fresh += following._fresh
        self._runs += following._runs
        self.end = following.end
        self._spill_if_large()

    def results(self) -> tuple[Result, ...]:
        """Return one result: how often a deck equals an earlier one."""
        decks = self.end - self.start
        pairs = decks * (decks - 1) / 2
        log_mean = (math.log(pairs) if pairs else -math.inf) - math.lgamma(self._n + 1)
        null = "Poisson with mean N(N-1)/(2 n!)"
        if log_mean > math.log(LARGEST_EXPECTATION):
            return (not_applicable(self._test, null, "perfect shuffles of so few cards repeat", {"decks": decks}),)
        repeats = self.repeats()
        # The Poisson tail is below its first term times 1 + mean; the mean is next to nothing.
        log_p = 0.0 if repeats == 0 else min(0.0, repeats * log_mean - math.lgamma(repeats + 1))
        return (
            Result(
                test=self._test,
                null=null,
                statistic=float(repeats),
                log_p=log_p,
                details={"decks": decks, "log10_of_mean": log_mean / math.log(10) if pairs else -999.0},
            ),
        )

    def repeats(self) -> int:
        """Return the number of decks that equal an earlier deck of the segment."""
        if self._said is not None:
            assert isinstance(self._said["repeats"], int), "checked when it was loaded"
            return self._said["repeats"]
        count, last = 0, None
        for part in self._in_order():
            if len(part):
                count += int((part[1:] == part[:-1]).all(axis=1).sum())
                if last is not None and bool((part[0] == last).all()):
                    count += 1
                last = part[-1]
        return count

    def to_state(self) -> dict[str, StateValue]:
        """Return the segment's bounds, its repeats and the SHA-256 of the digests that `write_digests` writes."""
        if self._said is not None:
            return dict(self._said)
        digest = hashlib.sha256()
        for part in self._in_order():
            digest.update(_to_bytes(part))
        return {
            "start": self.start,
            "end": self.end,
            "digests_sha256": digest.hexdigest(),
            "repeats": self.repeats(),
        }

    def load(self, state: State) -> None:
        """Replace the segment by what `state` says of it. `read_digests` must follow before anything is added.

        Raises:
            ValueError: the state is not one of this test's.
        """
        match state:
            case {"start": int(start), "end": int(end), "digests_sha256": str(digest), "repeats": int(repeats)} if (
                0 <= start <= end and 0 <= repeats <= end - start
            ):
                self.start, self.end = start, end
                self._said = {"start": start, "end": end, "digests_sha256": digest, "repeats": repeats}
            case _:
                raise ValueError("state: expected start, end, digests_sha256 and repeats")
        self._fresh, self._runs = [], []

    def write_digests(self, file: BinaryIO) -> None:
        """Write the sorted digests, 16 bytes a deck."""
        file.writelines(_to_bytes(part) for part in self._in_order())

    def read_digests(self, file: BinaryIO) -> None:
        """Read what `write_digests` wrote for the state that was loaded.

        Raises:
            ValueError: the file ends early, or its digests are not those of the state.
        """
        said, self._said = self._said, None
        assert said is not None, "read after a state was loaded"
        missing = (self.end - self.start) * DIGEST_BYTES
        while missing:
            raw = file.read(min(missing, RUN_LENGTH * DIGEST_BYTES))
            if len(raw) % DIGEST_BYTES or not raw:
                raise ValueError(f"state file ends {missing} bytes early")
            self._take(raw)
            missing -= len(raw)
        if self.to_state() != said:
            raise ValueError("state file: the deck digests are not those that the state names")

    def _take(self, raw: bytes) -> None:
        self._fresh.append(np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2))
        self._spill_if_large()

    def _spill_if_large(self) -> None:
        if sum(map(len, self._fresh)) >= RUN_LENGTH:
            self._runs.append(_to_disk(_sorted(np.concatenate(self._fresh))))
            self._fresh = []

    def _in_order(self) -> Iterator[Digests]:
        """Yield all digests, sorted, in parts of limited size: those that share their leading bits."""
        runs = [*self._runs]
        if self._fresh:
            runs.append(_sorted(np.concatenate(self._fresh)))
        bits = max(0, (sum(map(len, runs)) // RUN_LENGTH).bit_length())
        bounds = [part << (64 - bits) for part in range(1 << bits)]
        cuts = [[*np.searchsorted(run[:, 0], np.array(bounds, dtype=np.uint64)).tolist(), len(run)] for run in runs]
        for part in range(len(bounds)):
            pieces = [run[cut[part] : cut[part + 1]] for run, cut in zip(runs, cuts, strict=True)]
            if pieces:
                yield _sorted(np.concatenate(pieces))


def _sorted(digests: Digests) -> Digests:
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    return digests[order]


def _to_disk(run: Digests) -> Digests:
    """Return the run as read from an unnamed file, which goes when the last view of it does."""
    with tempfile.TemporaryFile(prefix="deck-digests-") as file:
        run.tofile(file)
        file.flush()
        return np.memmap(file, dtype=np.uint64, mode="r", shape=run.shape)


def _to_bytes(digests: Digests) -> bytes:
    return digests.astype(">u8").tobytes()


def _make(setting: Setting, start: int) -> DuplicateDecks:
    return DuplicateDecks("shuffles.duplicates", setting.size, start)


ENTRIES: Final = (
    Entry(
        id="shuffles.duplicates",
        title="No deck comes twice",
        clauses=("R02", "R08", "R11"),
        kind=Kind.SHUFFLES,
        null="Poisson with mean N(N-1)/(2 n!), which is nil for 52 cards: one repeat is fatal",
        source="birthday problem; 128-bit BLAKE2b digests",
        minimal=lambda _setting: 1000,
        make=_make,
        parameters={"digest_bytes": DIGEST_BYTES},
    ),
)
