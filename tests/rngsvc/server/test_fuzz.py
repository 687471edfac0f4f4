"""Rubbish and near misses at every method: the right kind of status, nothing changed by a refused call, no crash, and a
planted seed in no line of a log, no error and no metric.

The first hand's seed is known, and so is a contributor's; both are searched for in everything but answers that leaves
the process.
"""

import asyncio
import base64
import copy
import io
import logging
from collections.abc import Iterator
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from prometheus_client import generate_latest

from rngsvc import logs
from rngsvc.config import LogFormat, LogLevel
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.twin import promise_choice
from rngsvc.v1 import shuffle_pb2
from tests.rngsvc.server.rpc import ALICE, METHODS, Rpc, a_request, serving
from tests.rngsvc.service.world import ORIGIN, SeededEntropy, snapshot, table_id
from tests.scale import scaled

REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
PLANTED = bytes(range(7, 55))  # 48 bytes: a hand's seed
GIVEN = ALICE[1][:16] + b"a seed that alice gave, and nobody else."[:32]
CHOICE = b"a choice of alice's that decides, between two decks, once"
INTEGERS = [0, 1, 2, 3, 15, 16, 51, 52, 53, 1019, 1020, 1021, 2**31, 2**32 - 1, 2**53 - 1, 2**53, 2**63, 2**64 - 1]
UNSIGNED_32 = {FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_ENUM}


class PlantedEntropy(SeededEntropy):
    """Gives the planted seed to the first hand of table 0, which is the first that is reserved."""

    def generate(self, count: int) -> bytes:
        drawn = super().generate(count)
        if count >= 48 and not any(PLANTED in given for given in self.given[:-1]):
            drawn = PLANTED + drawn[48:]
            self.given[-1] = drawn
        return drawn


def mutate(message: Any, rng: Random) -> None:
    """Change one field of `message`, or of a message in it, in some way that a careless client could."""
    descriptor = rng.choice(message.DESCRIPTOR.fields or [None])
    if descriptor is None:
        return
    name = descriptor.name
    repeated = descriptor.is_repeated
    if repeated and rng.random() < 0.5:
        column = getattr(message, name)
        match rng.randrange(4):
            case 0:
                message.ClearField(name)
            case 1 if len(column):
                del column[rng.randrange(len(column))]
            case 2 if len(column):
                column.extend([column[0]] * rng.choice([1, 20, 300]))
            case 3 if len(column) > 1:
                kept = list(column)
                rng.shuffle(kept)
                message.ClearField(name)
                getattr(message, name).extend(kept)
        return
    if descriptor.message_type:
        inner = getattr(message, name)
        mutate((rng.choice(inner) if inner else inner.add()) if repeated else inner, rng)
        return
    value = value_of(descriptor, rng)
    if repeated:
        getattr(message, name).append(value)
    else:
        setattr(message, name, value)


def value_of(descriptor: Any, rng: Random) -> object:
    if descriptor.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice(
            [b"", table_id(0), table_id(9), rng.randbytes(rng.choice([1, 15, 16, 31, 32, 33, 64, 65, 5000]))]
        )
    if descriptor.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(["", "misdeal", "expired", "x" * 5000, "\x00", "é"])
    if descriptor.type == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    number = rng.choice([*INTEGERS, rng.randrange(64)])
    return (
        number % 2**31
        if descriptor.type == FieldDescriptor.TYPE_ENUM
        else number % (2**32 if descriptor.type in UNSIGNED_32 else 2**64)
    )


def rubbish(rng: Random, good: Message) -> bytes:
    """Bytes that may or may not be a message."""
    raw = bytearray(good.SerializeToString())
    match rng.randrange(4):
        case 0:
            return rng.randbytes(rng.choice([0, 1, 2, 10, 100, 1000]))
        case 1 if raw:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        case 2 if raw:
            del raw[rng.randrange(len(raw)) :]
        case _:
            raw += rng.randbytes(rng.randrange(1, 20))
    return bytes(raw)


def too_long(method: str, message: Message) -> bool:
    """Whether the call would rightly go on for ever or for very long."""
    name = method.rpartition("/")[2]
    if name == "StreamEntries":
        return bool(message.follow)  # type: ignore[attr-defined]
    if name == "Sample":
        request: Any = message
        return max(request.bits.byte_count, request.numbers.count * 8, request.shuffles.count * 100) > 100_000
    return False


async def fuzz(rpc: Rpc, rng: Random) -> list[str]:
    """One call; return what it said if it failed."""
    method = rng.choice(list(METHODS))
    good = copy.deepcopy(a_request(method))
    if rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            mutate(good, rng)
        message = good.SerializeToString()
    else:
        message = rubbish(rng, good)
    try:
        if too_long(method, METHODS[method][1].FromString(message)):
            return []
    except Exception:  # noqa: BLE001 - no message at all: just what is wanted
        pass
    before = snapshot(rpc.world.disk)
    try:
        await rpc.raw(method, message)
    except grpc.aio.AioRpcError as error:
        if error.code() not in REFUSALS:
            raise AssertionError(f"{method} {message.hex()}: {error}") from error
        if snapshot(rpc.world.disk) != before:
            raise AssertionError(f"{method} {message.hex()}: refused, but something has changed") from error
        return [error.details() or "", error.debug_error_string(), str(error.trailing_metadata())]
    return []


def spellings(secret: bytes) -> list[bytes]:
    """Every way in which a secret could be written, by parts that no chance would give."""
    found = []
    for part in (secret[:16], secret[16:32], secret[-16:]):
        found += [part, part.hex().encode(), part.hex().upper().encode(), repr(part).encode()[2:-1]]
        found += [str(list(part)).encode()[1:-1], str(int.from_bytes(part, "big")).encode()]
    for encode in (base64.b64encode, base64.urlsafe_b64encode, base64.b32encode, base64.b85encode):
        found.append(encode(secret)[4:-8])
    return found


async def session(seed: int, calls: int) -> str:
    """Fuzz a server that holds a hand with planted seeds; return all that it said, but the answers.

    Every other session's table 0 is a twin table, whose planted seed is of one of two decks.
    """
    rng = Random(seed)
    said: list[str] = []
    async with serving(entropy=PlantedEntropy(seed.to_bytes(2, "big"))) as rpc:
        p = shuffle_pb2
        twin = seed % 2 == 1
        table = await rpc.hand(0, sealed=False, twin=twin)
        await rpc.hand(1, sealed=False)
        promised = p.Promise(contributor=b"alice", promise=promise(ORIGIN, table, 1, b"alice", GIVEN))
        if twin:
            promised.choice_promise = promise_choice(ORIGIN, table, 1, b"alice", CHOICE)
        await rpc.call(
            "PromiseSeeds",
            p.PromiseSeedsRequest(table=table, first_seq=1, hands=[p.HandPromises(promises=[promised])]),
        )
        given = [p.Contribution(contributor=b"alice", seed=GIVEN)]
        await rpc.call("SealShuffle", p.SealShuffleRequest(table=table, seq=1, item_count=52, contributions=given))
        assert any(PLANTED in each for each in rpc.world.entropy.given)
        for _ in range(calls):
            said += await fuzz(rpc, rng)
        assert not rpc.world.sequencer.stopped
        said.append(generate_latest(rpc.metrics.registry).decode())
        return "\n".join(said)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, at the level that says most."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers, root.level
    logs.configure(LogLevel.DEBUG, LogFormat.JSON, stream)
    yield stream
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.parametrize("seed", range(scaled(3, 50)))
def test_rubbish_is_refused_changes_nothing_and_shows_no_seed(seed: int, log: io.StringIO) -> None:
    said = asyncio.run(session(seed, scaled(1000, 2000)))
    everything = f"{said}\n{log.getvalue()}".encode()
    for secret in (PLANTED, GIVEN, CHOICE):
        for spelling in spellings(secret):
            assert spelling not in everything, spelling
    assert "internal error" not in log.getvalue()
    assert "Traceback" not in log.getvalue()


def test_the_search_finds_a_seed_in_every_spelling() -> None:
    for secret in (PLANTED, GIVEN):
        line = f"{secret.hex()} {secret!r} {list(secret)} {base64.b64encode(secret).decode()}".encode()
        assert sum(spelling in line for spelling in spellings(secret)) >= 9


def test_an_internal_error_with_a_seed_in_its_hands_writes_none(log: io.StringIO) -> None:
    """The worst case: an exception in whose frames the seed is a local variable."""

    async def run() -> str:
        async with serving() as rpc:
            await rpc.hand()

            async def failing(*_: object) -> None:
                held = PLANTED
                raise LookupError("told to") from ValueError(len(held))

            rpc.world.store.last_steps = failing  # type: ignore[assignment,method-assign]
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await rpc.call("ListHands", a_request("ListHands"))
            return f"{error.value.details()} {error.value.debug_error_string()}"

    everything = f"{asyncio.run(run())}\n{log.getvalue()}".encode()
    assert b"internal error" in everything
    assert b"LookupError" in everything
    for spelling in spellings(PLANTED):
        assert spelling not in everything
