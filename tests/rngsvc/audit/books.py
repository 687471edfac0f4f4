"""Logs in memory that an audit can read, made by the real service or written by hand."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.entries import NO_PREVIOUS, Entry, HandEntry, TableEntry, parse_entry
from rngsvc.protocol.merkle import inclusion_proof, leaf_hash, root_of
from rngsvc.protocol.receipt import LoggedEntry
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tiles import WIDTH, Tile, encode_bundle
from rngsvc.protocol.tlog_proof import TlogProof
from tests.rngsvc.service.world import World

SEEDS = ((b"anna", bytes([1]) * 32), (b"ben", bytes([2]) * 32))


@dataclass
class Book:
    """Entries, and the key that signs for them. It is a `LogSource`: every tile is made when it is asked for."""

    key: NoteKey
    signer: SigningKey
    entries_raw: list[bytes] = field(default_factory=list)

    @property
    def leaves(self) -> list[bytes]:
        return [leaf_hash(raw) for raw in self.entries_raw]

    def note(self, size: int | None = None) -> str:
        """Return the signed checkpoint of the first ``size`` entries."""
        leaves = self.leaves[:size]
        return Checkpoint(self.key.name, len(leaves), root_of(leaves)).sign(self.key, self.signer.sign)

    def checkpoint(self) -> str:
        return self.note()

    def entries(self, tile: Tile) -> list[bytes]:
        return self.entries_raw[WIDTH * tile.index : WIDTH * tile.index + tile.width]

    def hashes(self, tile: Tile) -> bytes:
        assert tile.level is not None
        span = WIDTH**tile.level
        first = tile.index * WIDTH
        leaves = self.leaves
        return b"".join(root_of(leaves[i * span : (i + 1) * span]) for i in range(first, first + tile.width))

    def until(self, size: int) -> "Book":
        """Return the book as it stood with ``size`` entries."""
        return replace(self, entries_raw=self.entries_raw[:size])

    def write(self, folder: Path) -> Path:
        """Write the log as the files of C2SP tlog-tiles."""
        size = len(self.entries_raw)
        files = {"checkpoint": self.note().encode()}
        level, hashes = 0, self.leaves
        while hashes:
            for index in range((len(hashes) + WIDTH - 1) // WIDTH):
                tile = Tile.covering(level, index, size)
                files[tile.path] = b"".join(hashes[WIDTH * index : WIDTH * (index + 1)])
                if level == 0:
                    bundle = Tile.covering(None, index, size)
                    files[bundle.path] = encode_bundle(self.entries(bundle))
            hashes = [root_of(hashes[i : i + WIDTH]) for i in range(0, len(hashes) - WIDTH + 1, WIDTH)]
            level += 1
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder

    def logged(self, index: int) -> LoggedEntry:
        """Return an entry with its proof."""
        leaves = self.leaves
        hashes = inclusion_proof(index, len(leaves), lambda k, i: root_of(leaves[i << k : (i + 1) << k]))
        proof = TlogProof(index, tuple(hashes), self.note()).encode()
        return LoggedEntry(entry=self.entries_raw[index].decode(), proof=proof)

    def parsed(self) -> Iterator[tuple[int, Entry]]:
        return enumerate(map(parse_entry, self.entries_raw))

    def rewritten(self, change: Callable[[Entry], Sequence[Entry]]) -> "Book":
        """Return the book with each entry replaced by what ``change`` makes of it, and the tables' chains made good."""
        book = Book(self.key, self.signer)
        prev: dict[bytes, bytes] = {}
        for raw in self.entries_raw:
            for entry in change(parse_entry(raw)):
                if isinstance(entry, HandEntry) and not isinstance(entry, TableEntry):
                    entry = replace(entry, prev=prev.get(entry.table, NO_PREVIOUS))  # noqa: PLW2901
                book.entries_raw.append(entry.encode())
                if isinstance(entry, HandEntry):
                    prev[entry.table] = leaf_hash(book.entries_raw[-1])
        return book


def book_of(world: World) -> Book:
    """Return what a world's service has logged."""
    return Book(world.note_key, world.signing_key, list(world.disk.entries))


async def evening(hands: int = 6) -> Book:
    """Let the real service log an evening: a start check, tables of every kind, every way that a hand can go."""
    world = await World().start()
    await world.results.start(b"self-tests")
    for number in range(4):
        play = await world.play(
            number, mode=("shoe", "full")[number % 2], reveal=("public", "escrow")[number // 2], ttl_s=3600
        )
        await play.reserve(1, hands)
        for seq in range(1, hands + 1):
            world.clock.advance(60)
            if seq % 5 == 4:
                await play.close(seq, "aborted", "players_left")
                continue
            contributions = SEEDS if seq % 2 else ()
            if contributions:
                await play.promise(seq, contributions)
            if seq % 5 == 3:
                await play.draw(seq, contributions=contributions[:1])
                await play.close(seq)
                continue
            await play.seal(seq, (52, 36, 32)[seq % 3], contributions)
            if number % 2 == 0:
                await play.open(seq, 0, 0, 1, 2)
            await play.reshuffle(seq, 1, (0, 0), (0, 4), (0, 9))
            await play.close(seq)
        await play.reserve(hands + 1, 3)
        await play.promise(hands + 1, SEEDS, (), SEEDS)
        if number != 3:
            await play.seal(hands + 1, 52, SEEDS)
    await world.kill()
    return book_of(world)
