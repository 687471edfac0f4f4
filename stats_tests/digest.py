"""The digest of a sample: a Merkle root over blocks at fixed places, so that segments can be hashed apart."""

from typing import Final, Self

from rngsvc.protocol.merkle import leaf_hash, root_of
from stats_tests.accumulator import Items, State, StateValue
from stats_tests.samples import to_bytes

BLOCK_BYTES: Final = 1 << 16
"""About this much of the sample is one leaf: as many whole items as fit, at least one."""


class SampleDigest:
    """Leaves of the whole blocks of a segment, and its bytes before the first and after the last of them.

    A leaf is SHA-256(0x00 || block) and a node SHA-256(0x01 || left || right), as in RFC 6962; items are in the
    binary format of their kind. Block i holds items i*b to (i+1)*b - 1 of the whole sample.
    """

    def __init__(self, width: int, start: int) -> None:
        """Begin an empty segment of items of `width` bytes at item `start`."""
        self._width = width
        self._block = max(1, BLOCK_BYTES // width) * width
        self.start = start
        self.end = start
        self._head = b""
        self._leaves = bytearray()
        self._tail = b""

    def update(self, items: Items) -> None:
        """Take the items that follow."""
        self._append(to_bytes(items))
        self.end += len(items)

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends."""
        if following.start != self.end:
            raise ValueError(
                f"segments do not adjoin: one ends at item {self.end}, the next begins at {following.start}"
            )
        self._append(following._head)
        if len(following._head) == following._head_bytes():
            # Now this segment ends at the edge of a block.
            self._leaves += following._leaves
            self._tail = following._tail
        self.end = following.end

    def root(self) -> bytes:
        """Return the root over the segment's blocks, a part block at either end included; 32 bytes."""
        leaves = [bytes(self._leaves[i : i + 32]) for i in range(0, len(self._leaves), 32)]
        if self._head:
            leaves.insert(0, leaf_hash(self._head))
        if self._tail:
            leaves.append(leaf_hash(self._tail))
        return root_of(leaves)

    def to_state(self) -> dict[str, StateValue]:
        """Return bounds, leaves and open ends."""
        return {
            "start": self.start,
            "end": self.end,
            "head": self._head.hex(),
            "leaves": self._leaves.hex(),
            "tail": self._tail.hex(),
        }

    def load(self, state: State) -> None:
        """Replace the segment by the one that `state` tells of; ValueError if it is none."""
        match state:
            case {"start": int(start), "end": int(end), "head": str(head), "leaves": str(leaves), "tail": str(tail)}:
                pass
            case _:
                raise ValueError("sample digest: expected start, end, head, leaves and tail")
        self.start, self.end = start, end
        self._head, self._leaves, self._tail = bytes.fromhex(head), bytearray.fromhex(leaves), bytes.fromhex(tail)
        held = len(self._head) + len(self._leaves) // 32 * self._block + len(self._tail)
        if held != (end - start) * self._width:
            raise ValueError("sample digest: blocks and ends do not add up to the segment")

    def _head_bytes(self) -> int:
        """Return how many bytes of a long segment lie before its first whole block."""
        return -self.start * self._width % self._block

    def _append(self, raw: bytes) -> None:
        missing = self._head_bytes() - len(self._head)
        if missing > 0:
            self._head += raw[:missing]
            raw = raw[missing:]
        held = self._tail + raw
        whole = len(held) // self._block * self._block
        for at in range(0, whole, self._block):
            self._leaves += leaf_hash(held[at : at + self._block])
        self._tail = held[whole:]
