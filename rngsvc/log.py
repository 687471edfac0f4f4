"""The log as everybody reads it: the newest head, entries, tiles and proofs.

The sequencer moves the head forward; all else only reads. Proofs come from the tree's edge in memory where they can,
else from full tiles of the store.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from rngsvc.errors import NotFound, Reason, TryAgain
from rngsvc.log_tree import TILE_HEIGHT, TILE_WIDTH, EdgeTree, node_in_tile, tile_of
from rngsvc.ports import Head, Store, StoreDamaged
from rngsvc.protocol.merkle import InclusionProver, NodeReader, consistency_proof, leaf_hash, root_from_nodes, root_of

_CACHED_TILES: Final = 4096  # 32 MiB


class Logged(NamedTuple):
    """An entry, its position, and its inclusion proof to the signed checkpoint."""

    position: int
    entry: bytes
    proof: tuple[bytes, ...]
    checkpoint: bytes


class Log:
    """Reads the log up to its newest head. `head` is None until the first commit.

    ``key_positions`` are those of its `key` entries; whoever logs one adds it.
    """

    def __init__(self, store: Store, head: Head | None, tree: EdgeTree) -> None:
        self._store = store
        self.head = head
        self.tree = tree
        self.key_positions: list[int] = []
        self._prover: InclusionProver | None = None
        self._grown = asyncio.Event()
        self._is_ending = False
        self._tiles: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    @classmethod
    async def load(cls, store: Store, head: Head | None) -> "Log":
        """Return the log of ``store`` with the tree's edge rebuilt from entries and full tiles.

        Raises StoreDamaged if the store does not have as many as its head says.
        """
        log = cls(store, head, EdgeTree())
        if head:
            log.key_positions = await store.key_entries()
            first = head.size & ~(TILE_WIDTH - 1)
            edges = {0: [leaf_hash(entry) for entry in await store.entries(first, head.size)]}
            if len(edges[0]) != head.size - first:
                raise StoreDamaged(
                    f"the store's head is at {head.size} entries, the store ends at {first + len(edges[0])}"
                )
            tile_level = 1
            while complete := head.size >> (tile_level * TILE_HEIGHT):
                numbers = range(complete & ~(TILE_WIDTH - 1), complete)
                edges[tile_level] = [_tile_root(await log._full_tile(tile_level - 1, number)) for number in numbers]
                tile_level += 1
            log.tree = EdgeTree(head.size, edges)
        return log

    def advance(self, head: Head, prover: InclusionProver | None) -> None:
        """Move to ``head``, whose commit is durable; ``prover`` is for its tree if that has grown."""
        self.head = head
        if prover:
            self._prover = prover
            self._grown.set()
            self._grown = asyncio.Event()

    async def grown(self) -> None:
        """Wait until the log has more entries than now; TryAgain once it will not grow any more in this process."""
        self.check_goes_on()
        await self._grown.wait()
        self.check_goes_on()

    def end(self) -> None:
        """Say that this process is stopping, so that nobody waits for it."""
        self._is_ending = True
        self._grown.set()

    def check_goes_on(self) -> None:
        """TryAgain if this process is stopping: what could last long has no place in it any more."""
        if self._is_ending:
            raise TryAgain(Reason.STARTING_OR_STOPPING, "the service is stopping; go on at the restarted one")

    @property
    def size(self) -> int:
        """How many entries the newest checkpoint covers."""
        return self.head.size if self.head else 0

    # --- Proofs ---

    async def logged(self, position: int, entry: bytes | None = None, head: Head | None = None) -> Logged:
        """Return the entry at ``position`` with its proof to the checkpoint of ``head``, by default the newest.

        NotFound past the log's end. Passing one head proves several entries by the same checkpoint.
        """
        head = head or self.head
        if head is None or position >= head.size:
            raise NotFound(Reason.UNKNOWN_INDEX, f"index: the log has {self.size} entries, counted from 0")
        if entry is None:
            entry = (await self._store.entries(position, position + 1))[0]
        proof = self._fast_proof(position) if head is self.head else None
        if proof is None:
            proof = await self._prove(partial(_inclusion, position, head.size))
        return Logged(position, entry, tuple(proof), head.checkpoint)

    async def key_entries(self, head: Head) -> list[Logged]:
        """Return the changes of the log's key, each proven by the checkpoint of ``head``."""
        return [await self.logged(position, head=head) for position in self.key_positions]

    async def entries_at(self, positions: Sequence[int]) -> dict[int, bytes]:
        """Return the entries at ``positions``, each the very one that the tree has; StoreDamaged if one is another."""
        entries = await self._store.entries_at(positions)
        for position, entry in zip(positions, entries, strict=True):
            if leaf_hash(entry) != await self._node(0, position):
                raise StoreDamaged(f"entry {position} is not the one that was logged")
        return dict(zip(positions, entries, strict=True))

    async def root(self, size: int) -> bytes:
        """Return the root of the first ``size`` entries."""

        def build(node: NodeReader) -> list[bytes]:
            return [root_from_nodes(size, node)]

        (root,) = await self._prove(build)
        return root

    async def inclusion(self, position: int, size: int) -> list[bytes]:
        """Return the proof that ``position`` is in the tree of the first ``size`` entries."""
        return await self._prove(partial(_inclusion, position, size))

    async def consistency(self, old: int, new: int) -> list[bytes]:
        """Return the proof that the tree of ``new`` entries begins with that of ``old``."""
        return await self._prove(partial(consistency_proof, old, new))

    def _fast_proof(self, position: int) -> list[bytes] | None:
        """Return the proof if the window in memory has all of it."""
        try:
            if self._prover is None:
                self._prover = InclusionProver(self.size, self.tree.node)
            return self._prover.proof(position)
        except KeyError:
            return None

    async def _prove(self, build: Callable[[NodeReader], list[bytes]]) -> list[bytes]:
        """Run ``build(node)`` with all its nodes at hand: first a rehearsal, then the reads, then in earnest."""
        wanted: list[tuple[int, int]] = []

        def rehearse(level: int, number: int) -> bytes:
            wanted.append((level, number))
            return bytes(32)

        build(rehearse)
        nodes = {place: await self._node(*place) for place in wanted}
        return build(lambda level, number: nodes[level, number])

    async def _node(self, level: int, number: int) -> bytes:
        try:
            return self.tree.node(level, number)
        except KeyError:
            return node_in_tile(await self._full_tile(*tile_of(level, number)), level, number)

    # --- Tiles (C2SP tlog-tiles) ---

    async def tile(self, level: int, number: int, width: int = TILE_WIDTH) -> bytes:
        """Return the first ``width`` hashes of a tile; NotFound where the newest checkpoint does not cover them."""
        covered = self.size >> (level * TILE_HEIGHT)
        if not 1 <= width <= TILE_WIDTH or number * TILE_WIDTH + width > covered:
            raise NotFound(Reason.UNKNOWN_INDEX, f"the log has no tile {level}/{number} of width {width}")
        if (number + 1) * TILE_WIDTH <= covered:
            return (await self._full_tile(level, number))[: 32 * width]
        return self.tree.partial_tile(level, number, width)

    async def _full_tile(self, level: int, number: int) -> bytes:
        key = (level, number)
        if key not in self._tiles:
            try:
                self._tiles[key] = await self._store.tile(level, number)
            except KeyError:
                raise StoreDamaged(f"tile {level}/{number} is missing") from None
            if len(self._tiles) > _CACHED_TILES:
                self._tiles.popitem(last=False)
        else:
            self._tiles.move_to_end(key)
        return self._tiles[key]


def _inclusion(position: int, size: int, node: NodeReader) -> list[bytes]:
    return InclusionProver(size, node).proof(position)


def _tile_root(hashes: bytes) -> bytes:
    """Return the hash that a full tile gives to the tile above it."""
    return root_of(hashes[i : i + 32] for i in range(0, len(hashes), 32))
