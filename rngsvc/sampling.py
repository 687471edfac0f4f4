"""Samples for statistical tests: fresh output of the production path, never used for play.

Bits are the generator's output; numbers follow the word rule of a draw; decks are permuted from fresh 48-byte seeds by
the very functions of play. What is asked is logged before the first byte; the digest of what was sent is kept, so
that a report can be tied to it.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from struct import Struct, pack
from time import monotonic
from typing import Final

from rngsvc.errors import Reason, Refused, SigningStopped
from rngsvc.log import Log, Logged
from rngsvc.ports import Entropy, SampleRow, Store
from rngsvc.protocol.commitment import SEED_BYTES
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.entries import SampleEntry
from rngsvc.sequencer import Batch, Sequencer

MAX_CHUNK_BYTES: Final = 1 << 20
SAMPLE_ID_BYTES: Final = 16
_DECKS_A_SLICE: Final = 32  # about 2 ms: how long play may wait for the event loop
_WORDS_A_SLICE: Final = 4096
_BITS_A_SLICE: Final = 65_536


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """``count`` of ``kind``: bytes of "bits", "numbers" below ``modulus``, or "shuffles" of ``n`` items."""

    sample_id: bytes
    kind: str
    count: int
    modulus: int = 0
    n: int = 0


@dataclass(slots=True)
class Totals:
    """What a sample has come to."""

    bytes: int = 0
    items: int = 0
    words_read: int = 0
    words_refused: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)


@dataclass(slots=True)
class Sampler:
    """Makes samples. ``bytes_per_s`` bounds what all of them take together."""

    store: Store
    log: Log
    sequencer: Sequencer
    entropy: Entropy
    bytes_per_s: int
    _beginning: set[bytes] = field(default_factory=set)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _paid_until: float = 0.0

    async def begin(self, request: SampleRequest) -> Logged:
        """Log the request. Refused if a sample of that id was begun before: its bytes cannot be made again."""
        used = Refused(Reason.OTHER_CONTENT, "sample_id: was used before; every sample has an id of its own")
        if request.sample_id in self._beginning:
            raise used
        self._beginning.add(request.sample_id)
        try:
            if await self.store.sample(request.sample_id):
                raise used
            position, entry = await self.sequencer.submit(partial(_begin, request))
        finally:
            self._beginning.discard(request.sample_id)
        return await self.log.logged(position, entry)

    async def chunks(self, request: SampleRequest, totals: Totals) -> AsyncIterator[bytes]:
        """Yield the data in chunks of whole items, and add them up in ``totals``."""
        slices = self._until_doubt(_SLICES[request.kind](request, self.entropy, totals))
        chunk = bytearray()
        while (piece := await self._next_slice(slices)) is not None:
            if len(chunk) + len(piece) > MAX_CHUNK_BYTES:
                yield self._sent(chunk, totals)
                chunk.clear()
            chunk += piece
        if chunk:
            yield self._sent(chunk, totals)

    async def _next_slice(self, slices: Iterator[bytes]) -> bytes | None:
        """Return the next slice, None at the end, in its turn.

        All samples together make one slice between two moments of play: everything that is ready runs before the next
        one, and the rate is kept to.
        """
        self.log.check_goes_on()
        async with self._turn:
            piece = next(slices, None)
            if piece is None:
                return None
            now = monotonic()
            self._paid_until = max(self._paid_until, now) + len(piece) / self.bytes_per_s
            ahead = self._paid_until - now
            await asyncio.sleep(ahead if ahead > 0.01 else 0)
        return piece

    async def end(self, logged: Logged, request: SampleRequest, totals: Totals) -> None:
        """Store the digest of what was sent, so that a result can be checked against it."""
        row = SampleRow(request.sample_id, logged.position, totals.digest.digest())
        await self.sequencer.submit(lambda batch: batch.samples.append(row))

    def _until_doubt(self, slices: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the slices on; a generator that fails here would fail under the next hand too, so signing stops."""
        try:
            yield from slices
        except Exception as error:
            self.sequencer.stop(f"{type(error).__name__} in a sample: {error}")
            raise SigningStopped(str(error)) from error

    def _sent(self, chunk: bytearray, totals: Totals) -> bytes:
        totals.bytes += len(chunk)
        totals.digest.update(chunk)
        return bytes(chunk)


def _begin(request: SampleRequest, batch: Batch) -> tuple[int, bytes]:
    entry = SampleEntry(time=batch.time, id=request.sample_id, kind=request.kind, count=request.count)
    raw = entry.encode()
    position, _ = batch.append(entry.type, raw)
    batch.samples.append(SampleRow(request.sample_id, position))
    return position, raw


def _bits(request: SampleRequest, entropy: Entropy, totals: Totals) -> Iterator[bytes]:
    while totals.items < request.count:
        piece = entropy.generate(min(_BITS_A_SLICE, request.count - totals.items))
        totals.items += len(piece)
        yield piece


def _numbers(request: SampleRequest, entropy: Entropy, totals: Totals) -> Iterator[bytes]:
    """Step 9's word rule: 8-byte words, those past the last whole multiple of the modulus skipped."""
    limit = 2**64 - 2**64 % request.modulus
    words = Struct(f">{_WORDS_A_SLICE}Q")
    while totals.items < request.count:
        drawn = words.unpack(entropy.generate(words.size))
        wanted = request.count - totals.items
        values: list[int] = []
        for word in drawn:
            if len(values) == wanted:
                break
            totals.words_read += 1
            if word < limit:
                values.append(word % request.modulus)
            else:
                totals.words_refused += 1
        totals.items += len(values)
        yield pack(f">{len(values)}Q", *values)


def _shuffles(request: SampleRequest, entropy: Entropy, totals: Totals) -> Iterator[bytes]:
    """Step 4 for each deck, from a fresh seed; the context names the sample and the deck."""
    items = range(request.n)
    width = 1 if request.n <= 256 else 2
    row = Struct(f">{request.n}{'B' if width == 1 else 'H'}")
    while totals.items < request.count:
        decks = min(_DECKS_A_SLICE, request.count - totals.items)
        seeds = entropy.generate(SEED_BYTES * decks)
        rows = []
        for i in range(decks):
            seed = seeds[SEED_BYTES * i : SEED_BYTES * (i + 1)]
            context = sha256(b"rs1/sample" + request.sample_id + (totals.items + i).to_bytes(8, "big")).digest()
            order, used = permute(seed, context, 0, items)
            totals.words_read += used // width
            totals.words_refused += used // width - (request.n - 1)
            rows.append(row.pack(*order))
        totals.items += decks
        yield b"".join(rows)


_SLICES: Final[dict[str, Callable[[SampleRequest, Entropy, Totals], Iterator[bytes]]]] = {
    "bits": _bits,
    "numbers": _numbers,
    "shuffles": _shuffles,
}
