"""Samples: all three kinds against a computation of the test's own from the same generator bytes."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from hashlib import sha256

import pytest
import pytest_asyncio

from rngsvc.errors import Reason, SigningStopped, TryAgain
from rngsvc.protocol.entries import SampleEntry, parse_entry
from rngsvc.sampling import MAX_CHUNK_BYTES, SampleRequest, Totals
from tests.reference import rs1
from tests.rngsvc.service.world import World, running

pytestmark = pytest.mark.asyncio

SAMPLE_ID = bytes(range(16))


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with running() as world:
        yield world


async def sampled(world: World, request: SampleRequest) -> tuple[list[bytes], Totals]:
    """The whole sample, its digest checked against its data."""
    logged = await world.sampler.begin(request)
    totals = Totals()
    chunks = [chunk async for chunk in world.sampler.chunks(request, totals)]
    await world.sampler.end(logged, request, totals)
    assert totals.bytes == sum(map(len, chunks))
    assert totals.digest.digest() == sha256(b"".join(chunks)).digest()
    row = await world.store.sample(request.sample_id)
    assert row
    assert row.sha256 == totals.digest.digest()
    return chunks, totals


@pytest.mark.parametrize("count", [1, 2, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3_000_000])
async def test_bits_are_the_generators_very_output(world: World, count: int) -> None:
    chunks, totals = await sampled(world, SampleRequest(SAMPLE_ID, "bits", count))
    assert b"".join(chunks) == b"".join(world.entropy.given)
    assert (totals.items, totals.words_read, totals.words_refused) == (count, 0, 0)
    assert all(1 <= len(chunk) <= MAX_CHUNK_BYTES for chunk in chunks)


@pytest.mark.parametrize("modulus", [1, 2, 8, 10**6, 2**53 - 1])
@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 20_000])
async def test_numbers_follow_the_word_rule_of_a_draw(world: World, modulus: int, count: int) -> None:
    chunks, totals = await sampled(world, SampleRequest(SAMPLE_ID, "numbers", count, modulus=modulus))
    data = b"".join(chunks)
    stream = b"".join(world.entropy.given)
    words = [int.from_bytes(stream[i : i + 8], "big") for i in range(0, len(stream), 8)]
    limit = 2**64 - 2**64 % modulus
    expected, read = [], 0
    while len(expected) < count:
        if words[read] < limit:
            expected.append(words[read] % modulus)
        read += 1
    assert [int.from_bytes(data[i : i + 8], "big") for i in range(0, len(data), 8)] == expected
    assert (totals.items, totals.words_read, totals.words_refused) == (count, read, read - count)
    assert all(len(chunk) % 8 == 0 for chunk in chunks)


async def test_refused_words_are_counted(world: World) -> None:
    """No modulus below 2^53 refuses more than one word in 2^11; a generator of all ones shows the branch."""

    class Ones:
        calls = 0

        def generate(self, count: int) -> bytes:
            self.calls += 1
            return b"\xff" * count if self.calls == 1 else bytes(count)

    world.sampler.entropy = Ones()
    chunks, totals = await sampled(world, SampleRequest(SAMPLE_ID, "numbers", 10, modulus=3))
    assert b"".join(chunks) == bytes(80)
    assert totals.words_refused == 4096
    assert totals.words_read == 4106


@pytest.mark.parametrize("n", [1, 2, 36, 52, 256, 257, 1020])
@pytest.mark.parametrize("count", [1, 31, 33, 100])
async def test_decks_are_permuted_each_from_a_fresh_seed_as_in_play(world: World, n: int, count: int) -> None:
    chunks, totals = await sampled(world, SampleRequest(SAMPLE_ID, "shuffles", count, n=n))
    data, width = b"".join(chunks), 1 if n <= 256 else 2
    size = n * width
    decks = [
        [int.from_bytes(data[at + width * i : at + width * (i + 1)], "big") for i in range(n)]
        for at in range(0, len(data), size)
    ]
    seeds = b"".join(world.entropy.given)
    words = 0
    for number, deck in enumerate(decks):
        context = sha256(b"rs1/sample" + SAMPLE_ID + number.to_bytes(8, "big")).digest()
        if number < 5:
            order, used = rs1.shuffle(seeds[48 * number : 48 * (number + 1)], context, 0, list(range(n)))
            assert deck == order
            words += used // width
        assert sorted(deck) == list(range(n))
    assert len(decks) == totals.items == count
    assert totals.words_read - totals.words_refused == count * (n - 1)
    if count == 1:
        assert totals.words_read == words
    assert all(len(chunk) % size == 0 for chunk in chunks)
    assert len({seeds[48 * i : 48 * (i + 1)] for i in range(count)}) == count


async def test_the_request_is_logged_before_the_first_byte(world: World) -> None:
    request = SampleRequest(SAMPLE_ID, "bits", 100)
    logged = await world.sampler.begin(request)
    assert not world.entropy.given
    entry = parse_entry(logged.entry)
    assert isinstance(entry, SampleEntry)
    assert (entry.id, entry.kind, entry.count) == (SAMPLE_ID, "bits", 100)


async def test_a_sample_id_is_used_once_for_ever_also_by_two_at_once(world: World) -> None:
    request = SampleRequest(SAMPLE_ID, "bits", 100)
    results = await asyncio.gather(*(world.sampler.begin(request) for _ in range(5)), return_exceptions=True)
    assert sum(not isinstance(result, Exception) for result in results) == 1
    await world.restart()
    await world.refused(Reason.OTHER_CONTENT, world.sampler.begin(request), "sample_id")
    other = SampleRequest(SAMPLE_ID, "shuffles", 1, n=52)
    await world.refused(Reason.OTHER_CONTENT, world.sampler.begin(other), "sample_id")


async def test_a_broken_off_sample_has_no_digest(world: World) -> None:
    request = SampleRequest(SAMPLE_ID, "bits", 10_000_000)
    await world.sampler.begin(request)
    async for _ in world.sampler.chunks(request, Totals()):
        break
    row = await world.store.sample(SAMPLE_ID)
    assert row
    assert row.sha256 == b""


async def test_a_generator_that_fails_in_a_sample_stops_the_service(world: World) -> None:
    play = await world.play()
    request = SampleRequest(SAMPLE_ID, "shuffles", 1000, n=52)
    await world.sampler.begin(request)
    world.entropy.failing = True
    with pytest.raises(SigningStopped):
        async for _ in world.sampler.chunks(request, Totals()):
            pass
    with pytest.raises(SigningStopped):
        await play.reserve(1)


async def test_play_goes_on_between_any_two_slices_of_a_sample(world: World) -> None:
    """A slice is about 2 ms of work; whatever is ready runs before the next one."""
    plays = [await world.play(number) for number in range(10)]
    request = SampleRequest(SAMPLE_ID, "shuffles", 100_000, n=52)
    await world.sampler.begin(request)
    totals = Totals()

    async def sample() -> None:
        async for _ in world.sampler.chunks(request, totals):
            pass

    sampling = asyncio.create_task(sample())
    for play in plays:
        before = totals.items
        await play.reserve(1)
        await play.seal(1)
        await play.close(1)
        # Three calls, each within a few passes of the event loop.
        assert totals.items - before < 32 * 150
    assert not sampling.done()
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)


async def test_of_many_samples_one_slice_is_made_between_two_moments_of_play(world: World) -> None:
    requests = [SampleRequest(bytes([i]) * 16, "numbers", 10**9, modulus=8) for i in range(8)]
    totals = [Totals() for _ in requests]

    async def sample(request: SampleRequest, total: Totals) -> None:
        await world.sampler.begin(request)
        async for _ in world.sampler.chunks(request, total):
            pass

    sampling = [asyncio.create_task(sample(*each)) for each in zip(requests, totals, strict=True)]
    while not all(total.items for total in totals):  # noqa: ASYNC110 - one pass of the loop is what is counted
        await asyncio.sleep(0)
    for _ in range(50):
        before = sum(total.items for total in totals)
        await asyncio.sleep(0)
        assert sum(total.items for total in totals) - before <= 4096
    for task in sampling:
        task.cancel()
    await asyncio.gather(*sampling, return_exceptions=True)


async def test_all_samples_together_keep_to_the_rate(world: World) -> None:
    world.sampler.bytes_per_s = 4_000_000
    started = time.monotonic()
    requests = [SampleRequest(bytes([i]) * 16, "bits", 500_000) for i in range(4)]
    await asyncio.gather(*(sampled_plainly(world, request) for request in requests))
    assert time.monotonic() - started > 0.9 * 4 * 500_000 / 4_000_000


async def sampled_plainly(world: World, request: SampleRequest) -> None:
    await world.sampler.begin(request)
    async for _ in world.sampler.chunks(request, Totals()):
        pass


async def test_a_sample_ends_when_the_service_stops(world: World) -> None:
    request = SampleRequest(SAMPLE_ID, "bits", 1 << 40)
    await world.sampler.begin(request)
    chunks = world.sampler.chunks(request, Totals())
    await anext(chunks)
    world.log.end()
    with pytest.raises(TryAgain):
        await anext(chunks)


async def test_a_sample_is_no_play(world: World) -> None:
    """Sample and hand never share a byte of the generator."""
    play = await world.play()
    await sampled(world, SampleRequest(SAMPLE_ID, "bits", 1000))
    await play.reserve(1)
    given = world.entropy.given
    assert len({hashlib.sha256(piece).digest() for piece in given}) == len(given)
