"""The log's read path (C2SP tlog-tiles): what its files are called and what stands in them.

A tile holds up to 256 consecutive hashes of every eighth level of the tree, an entry bundle up to 256 entries.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from rngsvc.protocol.entries import MAX_ENTRY_BYTES
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.merkle import NodeReader, root_of
from rngsvc.protocol.octets import u16

WIDTH: Final = 256
HASH_BYTES: Final = 32

_PATH: Final = re.compile(
    r"tile/(?P<level>entries|0|[1-9]|[1-5][0-9]|6[0-3])/(?P<index>(?:x[0-9]{3}/)*[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Tile:
    """Tile number ``index`` of tile level ``level`` (None: the entry bundle), ``width`` hashes (entries) wide."""

    level: int | None
    index: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """Return the file's path below the log's prefix."""
        digits = f"{self.index:03d}"
        groups = [digits[max(0, end - 3) : end].zfill(3) for end in range(len(digits), 0, -3)][::-1]
        name = "/".join([f"x{each}" for each in groups[:-1]] + groups[-1:])
        level = "entries" if self.level is None else str(self.level)
        return f"tile/{level}/{name}" + (f".p/{self.width}" if self.width < WIDTH else "")

    @classmethod
    def parse(cls, path: str) -> "Tile":
        """Read a path; MalformedError unless it is spelled exactly as `path` spells it."""
        found = _PATH.fullmatch(path)
        if found:
            level = None if found["level"] == "entries" else int(found["level"])
            index = int(found["index"].replace("x", "").replace("/", ""))
            tile = cls(level, index, int(found["width"] or WIDTH))
            if tile.path == path:
                return tile
        raise MalformedError("path", "must be tile/<level>/<index>[.p/<width>] as tlog-tiles spells it")

    @classmethod
    def covering(cls, level: int | None, index: int, size: int) -> "Tile":
        """Return the tile as it stands in a tree of ``size`` leaves; MalformedError if it is empty there."""
        width = min(WIDTH, (size >> 8 * (level or 0)) - WIDTH * index)
        if width <= 0:
            raise MalformedError("index", f"must be of a tile that a tree of {size} leaves has")
        return cls(level, index, width)


def nodes_from_tiles(size: int, read: Callable[[Tile], bytes]) -> NodeReader:
    """Return a node reader of the tree of ``size`` leaves over ``read``, which gives a tile's bytes."""

    def node(level: int, i: int) -> bytes:
        first = i << level % 8
        tile = Tile.covering(level // 8, first // WIDTH, size)
        hashes = read(tile)
        if len(hashes) != HASH_BYTES * tile.width:
            raise MalformedError(tile.path, f"must be {tile.width} hashes")
        start = first % WIDTH
        return root_of(hashes[HASH_BYTES * at : HASH_BYTES * (at + 1)] for at in range(start, start + (1 << level % 8)))

    return node


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    """Return an entry bundle: each entry after its length as u16."""
    return b"".join(u16(len(entry)) + entry for entry in entries)


def parse_bundle(bundle: bytes) -> list[bytes]:
    """Return the entries of a bundle; MalformedError if it breaks off or holds more than 256."""
    entries = []
    at = 0
    while at < len(bundle):
        length = int.from_bytes(bundle[at : at + 2], "big")
        entry = bundle[at + 2 : at + 2 + length]
        if len(bundle) < at + 2 or len(entry) != length:
            raise MalformedError("bundle", "must not break off within an entry")
        entries.append(entry)
        at += 2 + length
    if len(entries) > WIDTH:
        raise MalformedError("bundle", f"must hold at most {WIDTH} entries")
    return entries


assert MAX_ENTRY_BYTES == 0xFFFF, "an entry's length fits the bundle's u16"
