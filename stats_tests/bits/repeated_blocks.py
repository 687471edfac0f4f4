"""Repetition over any distance: a rewound file, a generator that has come round, two instances in step.

Of all blocks of 16 bytes, at every byte offset, those are kept that begin with two zero bytes: one in 65,536. A stretch
of some 64 KiB that comes twice, however far apart, brings kept blocks twice. Memory is 16 bytes for each 64 KiB, the
only state in this package that grows with the sample.
"""

import math
from collections import Counter
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stats_tests.accumulator import Items, State, StateValue
from stats_tests.bits import tails
from stats_tests.bits.per_sequence import UNJUDGED
from stats_tests.result import Result, not_applicable


class RepeatedBlocks:
    """Accumulator of the kept blocks of the segment that begins at byte `start`."""

    ID: ClassVar = "bits.structure.repeated-blocks"
    BLOCK: ClassVar = 16
    MARK_BITS: ClassVar = 16

    def __init__(self, start: int) -> None:
        """Begin an empty segment."""
        self.start = start
        self.end = start
        self._kept: Counter[bytes] = Counter()
        # The ends that a block across a seam may need.
        self._head = b""
        self._tail = b""

    def update(self, items: Items) -> None:
        """Take the bytes that follow."""
        octets = items.tobytes()
        self._keep(self._tail + octets)
        self._extend(octets, len(octets))

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends."""
        if following.start != self.end:
            raise ValueError(
                f"segments do not adjoin: one ends at byte {self.end}, the next begins at {following.start}"
            )
        self._keep(self._tail + following._head)
        self._kept.update(following._kept)
        length = following.end - following.start
        if length < self.BLOCK:
            self._extend(following._head, length)
        else:
            self._extend(following._head, 0)
            self._tail = following._tail
            self.end = following.end

    def results(self) -> tuple[Result, ...]:
        """Judge the number of kept blocks that came before."""
        blocks = max(0, self.end - self.start - self.BLOCK + 1)
        if not blocks:
            return (not_applicable(self.ID, UNJUDGED, f"less than {self.BLOCK} bytes"),)
        pairs = math.comb(blocks, 2)
        # A pair is kept and equal with probability 2^-128 x 2^-16.
        mean = pairs * 2.0 ** -(8 * self.BLOCK + self.MARK_BITS)
        repeats = self._kept.total() - len(self._kept)
        return (
            Result(
                test=self.ID,
                null=f"Poisson, mean {mean:.3g}",
                statistic=repeats,
                log_p=tails.poisson_at_least(repeats, mean),
                details={"blocks": blocks, "kept": self._kept.total(), "repeats": repeats},
            ),
        )

    def to_state(self) -> dict[str, StateValue]:
        """Return the kept blocks in ascending order, how often each came, and the open ends."""
        blocks = sorted(self._kept)
        return {
            "start": self.start,
            "end": self.end,
            "blocks": b"".join(blocks).hex(),
            "counts": [self._kept[block] for block in blocks],
            "head": self._head.hex(),
            "tail": self._tail.hex(),
        }

    def load(self, state: State) -> None:
        """Replace the segment by the one that `state` tells of.

        Raises:
            ValueError: the state is not one of this test's.
        """
        match state:
            case {
                "start": int(start),
                "end": int(end),
                "blocks": str(blocks),
                "counts": list(counts),
                "head": str(head),
                "tail": str(tail),
            }:
                pass
            case _:
                raise ValueError("state: expected start, end, blocks, counts, head and tail")
        if not 0 <= start <= end:
            raise ValueError(f"state: a segment from byte {start} to {end} does not exist")
        kept, ends = bytes.fromhex(blocks), min(end - start, self.BLOCK - 1)
        if len(kept) != len(counts) * self.BLOCK or min(counts, default=1) < 1:
            raise ValueError(f"state.blocks: not {len(counts)} blocks of {self.BLOCK} bytes with positive counts")
        if len(bytes.fromhex(head)) != ends or len(bytes.fromhex(tail)) != ends:
            raise ValueError(f"state.head, state.tail: expected {ends} bytes each")
        self.start, self.end = start, end
        self._head, self._tail = bytes.fromhex(head), bytes.fromhex(tail)
        self._kept = Counter({kept[k * self.BLOCK : (k + 1) * self.BLOCK]: count for k, count in enumerate(counts)})

    def _keep(self, stretch: bytes) -> None:
        """Keep the marked blocks that lie wholly in a stretch."""
        octets: NDArray[np.uint8] = np.frombuffer(stretch, dtype=np.uint8)
        begins = len(stretch) - self.BLOCK + 1
        if begins <= 0:
            return
        for at in np.flatnonzero((octets[:begins] | octets[1 : begins + 1]) == 0).tolist():
            self._kept[stretch[at : at + self.BLOCK]] += 1

    def _extend(self, octets: bytes, length: int) -> None:
        """Go on by `length` bytes, which `octets` are the first and last of."""
        missing = self.BLOCK - 1 - len(self._head)
        self._head += octets[:missing]
        self._tail = (self._tail + octets[:length])[-(self.BLOCK - 1) :]
        self.end += length
