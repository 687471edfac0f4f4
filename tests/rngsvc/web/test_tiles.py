"""Every tile of many sizes of log over HTTP, against a tree that the test builds from the entries alone."""

from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any, cast

import pytest

from rngsvc.log import Log
from rngsvc.log_tree import EdgeTree
from rngsvc.ports import Head
from rngsvc.protocol.merkle import root_from_nodes
from rngsvc.protocol.tiles import Tile, parse_bundle
from rngsvc.service import Service
from rngsvc.store.memory import Disk, MemoryStore
from rngsvc.web import public_app
from tests.rngsvc.web.http import get
from tests.scale import scaled

pytestmark = pytest.mark.asyncio
WIDTH = 256


def entry(position: int) -> bytes:
    return b'{"entry":%d}' % position


def hash_levels(size: int) -> list[list[bytes]]:
    """The hashes of every tile level of a tree of ``size`` leaves: level k+1 has one for each 256 of level k."""

    def subtree(hashes: list[bytes]) -> bytes:
        while len(hashes) > 1:
            hashes = [sha256(b"\x01" + hashes[i] + hashes[i + 1]).digest() for i in range(0, len(hashes), 2)]
        return hashes[0]

    levels = [[sha256(b"\x00" + entry(position)).digest() for position in range(size)]]
    while len(levels[-1]) >= WIDTH:
        below = levels[-1]
        whole = len(below) // WIDTH
        levels.append([subtree(below[WIDTH * i : WIDTH * (i + 1)]) for i in range(whole)])
    return levels


class GrowingLog:
    """A log that grows in batches as the sequencer makes it grow: tree, full tiles, trimming."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.log = Log(MemoryStore(self.disk), None, EdgeTree())
        self.app = public_app(cast("Service", None), self.log, MemoryStore(self.disk), "x.example", lambda: "", [])

    def grow_to(self, size: int) -> None:
        tree, before = self.log.tree, self.log.size
        for position in range(before, size):
            tree.append(sha256(b"\x00" + entry(position)).digest())
            self.disk.entries.append(entry(position))
        self.disk.tiles.update({(tile.level, tile.number): tile.hashes for tile in tree.tiles_since(before)})
        self.log.advance(Head(size, root_from_nodes(size, tree.node), b"checkpoint %d" % size, 0), None)
        tree.trim()

    async def reload(self) -> None:
        """Load it from the store, as after a restart."""
        self.log = await Log.load(MemoryStore(self.disk), self.log.head)
        self.app = public_app(cast("Service", None), self.log, MemoryStore(self.disk), "x.example", lambda: "", [])

    async def served(self, tile: Tile) -> bytes | None:
        answer = await get(self.app, f"/{tile.path}")
        if answer.status == 404:
            return None
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        return answer.body


async def check_tiles(growing: GrowingLog, levels: list[list[bytes]], widths: Callable[[int], list[int]]) -> int:
    """Compare every tile that a log of this size has, and say that it has no other; return how many there are."""
    size, compared = growing.log.size, 0
    for level, hashes in enumerate([*levels, []]):
        count = size >> (8 * level)
        for index in range(count // WIDTH + 2):
            there = min(WIDTH, max(0, count - WIDTH * index))
            for width in widths(there):
                body = await growing.served(Tile(level, index, width))
                if width <= there:
                    compared += 1
                    assert body == b"".join(hashes[WIDTH * index : WIDTH * index + width]), (size, level, index, width)
                else:
                    assert body is None, (size, level, index, width)
    for index in range(size // WIDTH + 2):
        there = min(WIDTH, max(0, size - WIDTH * index))
        for width in widths(there):
            body = await growing.served(Tile(None, index, width))
            if width <= there:
                first = WIDTH * index
                assert body
                assert parse_bundle(body) == [entry(position) for position in range(first, first + width)]
            else:
                assert body is None
    return compared


async def test_every_tile_of_every_size_up_to_600_is_served_and_no_other() -> None:
    growing, levels, rng = GrowingLog(), hash_levels(600), Random(1)

    def widths(there: int) -> list[int]:
        """The tile as it is, as it was before, as it is not yet, and whole."""
        return sorted({each for each in (there, rng.randint(1, max(there, 1)), there + 1, WIDTH) if 1 <= each <= WIDTH})

    for size in range(1, 601):
        growing.grow_to(size)
        if size % scaled(7, 1) == 0 or size % WIDTH in {0, 1, 255}:
            assert await check_tiles(growing, levels, widths)
        if size % 97 == 0:
            await growing.reload()
            await check_tiles(growing, levels, widths)


@pytest.mark.parametrize("size", [255, 256, 257, 511, 512, 600])
async def test_every_earlier_width_of_a_partial_tile_is_still_served(size: int) -> None:
    growing, levels = GrowingLog(), hash_levels(size)
    growing.grow_to(size)
    assert await check_tiles(growing, levels, lambda _there: list(range(1, WIDTH + 1))) >= size


async def test_tiles_at_the_boundaries_of_a_third_level() -> None:
    growing, rng = GrowingLog(), Random(2)
    sizes = [65_535, 65_536, 65_537, 65_791, 65_792, 66_000]
    levels = hash_levels(sizes[-1])

    def widths(there: int) -> list[int]:
        return sorted({each for each in (there, rng.randint(1, max(there, 1)), there + 1) if 1 <= each <= WIDTH})

    for size in sizes:
        while growing.log.size < size:
            growing.grow_to(min(size, growing.log.size + 1000))
        await check_tiles(growing, levels, widths)
        await growing.reload()
        await check_tiles(growing, levels, widths)
    assert await growing.served(Tile(2, 0, 1)) == levels[2][0]


ODD_PATHS = [
    "/tile/0/0",
    "/tile/0/00",
    "/tile/0/0000",
    "/tile/00/000",
    "/tile/-1/000",
    "/tile/64/000",
    "/tile/x/000",
    "/tile/0/x000/000",
    "/tile/0/000/",
    "/tile/0/000.p/0",
    "/tile/0/000.p/01",
    "/tile/0/000.p/256",
    "/tile/0/000.p/-1",
    "/tile/0/000.p/1e1",
    "/tile/0/000.p",
    "/tile/0/" + "x999/" * 200 + "999",
    "/tile/0/" + "9" * 5000,
    "/tile/entries/000.p/257",
    "/tile/Entries/000",
    "/tile/0/٠٠٠",
    "/tile/0/%D9%A0%D9%A0%D9%A0",
    "/tile/0/000%00",
    "/tile/../checkpoint",
    "/tile/",
    "/tile",
    "/",
    "//tile/0/000",
]


@pytest.mark.parametrize("path", ODD_PATHS)
async def test_only_the_one_spelling_of_a_tile_is_served(path: str) -> None:
    growing = GrowingLog()
    growing.grow_to(300)
    assert (await get(growing.app, "/tile/0/000")).status == 200
    assert (await get(growing.app, path)).status == 404


async def test_an_empty_log_has_neither_checkpoint_nor_tile() -> None:
    growing: Any = GrowingLog()
    for path in ("/checkpoint", "/tile/0/000", "/tile/0/000.p/1", "/tile/entries/000.p/1"):
        assert (await get(growing.app, path)).status == 404
    growing.grow_to(1)
    answer = await get(growing.app, "/checkpoint")
    assert (answer.status, answer.body) == (200, b"checkpoint 1")
    assert answer.headers["cache-control"] == "no-cache"
