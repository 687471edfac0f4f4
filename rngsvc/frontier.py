"""A Merkle tree that only grows, in the memory of its right edge: for readers who follow a whole log.

The tree is that of `rngsvc.protocol.merkle`; a log of a billion entries needs thirty hashes.
"""

from collections.abc import Iterable

from rngsvc.protocol.merkle import EMPTY_ROOT, node_hash


class Frontier:
    """The roots of the complete subtrees that the first ``size`` leaves consist of, the largest first.

    ``peaks`` are those of a tree that is not empty to begin with, one for each bit that is set in ``size``.
    """

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"peaks: a tree of {size} leaves has {size.bit_count()} of them")

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        node = leaf
        full = self.size
        while full & 1:
            node = node_hash(self.peaks.pop(), node)
            full >>= 1
        self.peaks.append(node)
        self.size += 1

    @property
    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root
