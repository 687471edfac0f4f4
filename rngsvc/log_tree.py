"""The log's Merkle tree as its writer holds it: the right edge in memory, everything older in full tiles.

Only complete subtrees are kept (`rngsvc.protocol.merkle` folds the rest), so a node never changes once it is there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rngsvc.ports import TileRow
from rngsvc.protocol.merkle import node_hash, root_of

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 1 << TILE_HEIGHT
# Nodes kept a level: the unfinished tile and the one before, so that fresh proofs never need a tile from the store.
_WINDOW: Final = 2 * TILE_WIDTH


def tile_of(level: int, number: int) -> tuple[int, int]:
    """Return (tile level, tile number) of the tile whose hashes give node ``number`` of tree level ``level``."""
    tile_level, rise = divmod(level, TILE_HEIGHT)
    return tile_level, (number << rise) >> TILE_HEIGHT


def node_in_tile(hashes: bytes, level: int, number: int) -> bytes:
    """Return a node from the ``hashes`` of its tile (`tile_of`); the tile may be a partial one that contains it."""
    rise = level % TILE_HEIGHT
    first = (number << rise) % TILE_WIDTH
    return root_of(hashes[32 * i : 32 * i + 32] for i in range(first, first + (1 << rise)))


@dataclass(frozen=True, slots=True)
class Mark:
    """A state of an `EdgeTree` to which it can go back."""

    size: int
    lengths: tuple[int, ...]


class EdgeTree:
    """The newest complete subtrees at every level of an append-only tree of ``size`` leaves.

    `edges` gives, for each tile level, the hashes of its unfinished tile (none for a new log).
    """

    def __init__(self, size: int = 0, edges: Mapping[int, Iterable[bytes]] | None = None) -> None:
        self.size = size
        self._levels: list[list[bytes]] = []
        self._bases: list[int] = []
        for level in range(size.bit_length()):
            tile_level, rise = divmod(level, TILE_HEIGHT)
            first_in_tile = (size >> (tile_level * TILE_HEIGHT)) & ~(TILE_WIDTH - 1)
            if rise == 0:
                nodes = list((edges or {}).get(tile_level, ()))
                assert len(nodes) == (size >> level) - first_in_tile, "the edge has one hash for each complete subtree"
            else:
                below = self._levels[level - 1]
                nodes = [node_hash(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)]
            self._levels.append(nodes)
            self._bases.append(first_in_tile >> rise)

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash and every subtree that it completes."""
        self.size += 1
        level, number, node = 0, self.size - 1, leaf
        while True:
            if level == len(self._levels):
                self._levels.append([])
                self._bases.append(0)
            nodes = self._levels[level]
            nodes.append(node)
            if number % 2 == 0:
                return
            node = node_hash(nodes[-2], node)
            level, number = level + 1, number // 2

    def node(self, level: int, number: int) -> bytes:
        """Return the complete subtree ``number`` of ``level``; KeyError where it is older than the window."""
        offset = number - self._bases[level]
        if offset < 0:
            raise KeyError((level, number))
        return self._levels[level][offset]

    def partial_tile(self, tile_level: int, number: int, width: int) -> bytes:
        """Return the first ``width`` hashes of a tile that lies in the window; KeyError where it does not."""
        level = tile_level * TILE_HEIGHT
        if level >= len(self._levels):
            raise KeyError((tile_level, number))
        first = number * TILE_WIDTH - self._bases[level]
        hashes = self._levels[level][first : first + width] if first >= 0 else []
        if len(hashes) < width:
            raise KeyError((tile_level, number))
        return b"".join(hashes)

    def tiles_since(self, size: int) -> list[TileRow]:
        """Return the tiles that became full since the tree had ``size`` leaves."""
        tiles = []
        for tile_level in range((len(self._levels) + TILE_HEIGHT - 1) // TILE_HEIGHT):
            shift = (tile_level + 1) * TILE_HEIGHT
            tiles += [
                TileRow(tile_level, number, self.partial_tile(tile_level, number, TILE_WIDTH))
                for number in range(size >> shift, self.size >> shift)
            ]
        return tiles

    def mark(self) -> Mark:
        """Return a mark of this moment for `back_to`."""
        return Mark(self.size, tuple(map(len, self._levels)))

    def back_to(self, mark: Mark) -> None:
        """Forget every leaf since ``mark``. Must come before the next `trim`."""
        self.size = mark.size
        del self._levels[len(mark.lengths) :]
        del self._bases[len(mark.lengths) :]
        for nodes, length in zip(self._levels, mark.lengths, strict=True):
            del nodes[length:]

    def trim(self) -> None:
        """Forget nodes that have left the window."""
        for level, nodes in enumerate(self._levels):
            # An even number goes, so that every kept node still has its left sibling.
            surplus = (len(nodes) - _WINDOW) & ~(TILE_WIDTH - 1)
            if surplus > 0:
                del nodes[:surplus]
                self._bases[level] += surplus
