"""Calls of somebody who wants to do harm: whatever he sends, each refusal is one clear error, and nothing has changed.

The room runs in this process, and its clock stands still, so that all that it keeps can be looked at after each call.
"""

import asyncio
import contextlib
import json
import random
import secrets
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import grpc
import pytest

from dealer.card_room import CardRoom
from dealer.demo_service import child_service
from dealer.server import MAX_REQUEST_BYTES, MOST_STREAMS_A_PLAYER, TableServicer, add_to
from dealer.state import NeedAction
from dealer.store.memory import MemoryStore
from dealer.table_live import LiveTable
from dealer.tokens import Identity, Role, make_token
from dealer.v1 import table_pb2
from rngsvc.client import Client
from tests.dealer.server import world
from tests.scale import scaled

Code = grpc.StatusCode
METHODS = {method.name: method for method in table_pb2.DESCRIPTOR.services_by_name["TableService"].methods}
IDLE, PLAYING, CLOSED = (bytes([n]) * 16 for n in (1, 2, 3))
FOREVER = 2**40


class Room(NamedTuple):
    """A room with three tables: nobody is ready, a hand is being played, closed."""

    address: str
    key: bytes
    store: MemoryStore
    tables: CardRoom

    def token(self, player: str, role: Role = Role.PLAYER, expires_s: int = FOREVER) -> str:
        return make_token(self.key, Identity(player, role), expires_s)

    def picture(self) -> str:
        """Return all that the room keeps: journals, ledger, and what would be shown of each table.

        But for who is connected: that a stream has ended is noticed some time after it.
        """
        tables = [
            (*each[1:4], [entry for entry in each.journal if entry.get("do") not in ("Connected", "Disconnected")])
            for each in self.store.tables()
        ]
        shown = [(live.table.status.value, live.given_promises, live.given_seeds) for live in self.tables.tables()]
        return json.dumps([tables, self.store.balances(), shown], default=repr, sort_keys=True)


@contextlib.asynccontextmanager
async def open_room() -> AsyncIterator[Room]:
    async with child_service() as service:
        client = await Client.connect(service.address, log_key=service.log_key)
        store, key = MemoryStore(), secrets.token_bytes(32)
        room = CardRoom(store, client, service.auditor.public_keys, 100_000, lambda: 1_800_000_000_000)
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_REQUEST_BYTES)])
        add_to(server, TableServicer(room, key))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        for table, game in ((IDLE, "casino_club"), (PLAYING, "limit_stud"), (CLOSED, "pokerkings")):
            live = room.open(table, game, "")
            for seat, player in enumerate(("ben", "cleo"), start=1):
                live.sit(player, seat, live.stakes.buy_in, f"{player} {game}".encode())
        room.table(CLOSED).close()
        try:
            await asked(room.table(PLAYING))
            yield Room(f"127.0.0.1:{port}", key, store, room)
        finally:
            await server.stop(None)
            await room.stop()
            await client.close()


async def asked(live: LiveTable) -> tuple[str, str]:
    """Wait until a player is asked; return his name and another's."""
    async with asyncio.timeout(world.TIMEOUT_S):
        while not (live.table.hand and isinstance(live.table.hand.awaits, NeedAction)):
            await live.changes(live.version)
    seats = live.table.seats
    names = [seats[live.table.hand.awaits.seat].player, *(seat.player for seat in seats.values())]
    return names[0], next(name for name in names if name != names[0])


async def outcome(call: Any) -> grpc.aio.AioRpcError | None:
    """Make a call, of a stream its first answer; return its error."""
    try:
        await (anext(aiter(call)) if hasattr(call, "__aiter__") else call)
    except grpc.aio.AioRpcError as error:
        return error
    finally:
        call.cancel()
    return None


def filled(name: str, rng: random.Random) -> Any:
    """Return a request of a method in which any field has any value, most of them at an edge of what is allowed."""
    request = getattr(table_pb2, METHODS[name].input_type.name)()
    for field in request.DESCRIPTOR.fields:
        value = any_value(field, rng)
        if field.is_repeated:
            getattr(request, field.name).extend(value)
        else:
            setattr(request, field.name, value)
    return request


def steered(request: Any, rng: random.Random) -> Any:
    """Return the request, if need be another, that sets nothing going at a table: it would end some time later."""
    match request:
        case table_pb2.ActRequest(action=table_pb2.ACTION_BRING_IN | table_pb2.ACTION_COMPLETE):
            request.action = table_pb2.ACTION_CALL
        case table_pb2.CreateTableRequest() | table_pb2.CloseTableRequest() | table_pb2.StandRequest():
            request.table = rng.choice([CLOSED, request.table[:15]])
        case table_pb2.SitOutRequest() | table_pb2.SitInRequest():
            request.table = rng.choice([CLOSED, request.table[:15]])
        case _:
            pass
    return request


def any_value(field: Any, rng: random.Random) -> Any:
    if field.name in ("table", "after"):
        return rng.choice([IDLE, PLAYING, PLAYING, PLAYING, CLOSED, bytes(16), rng.randbytes(rng.randint(0, 40))])
    if field.name == "cards":
        return rng.choices([*range(60), 2**32 - 1], k=rng.choice([0, 0, 1, 5, 6, 300]))
    if field.name == "game":
        return rng.choice(["casino_club", "limit_stud", "bingo", "", "é\0", "x" * 1000])
    if field.name == "stakes":
        return rng.choice(["", "1-2", "1/2", "9-9", "\n"])
    if field.type == field.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 31, 32, 33, 64, 65, 300]))
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return rng.choice([*field.enum_type.values_by_number, 12, 99, -1])
    most = 2**64 - 1 if field.type == field.TYPE_UINT64 else 2**32 - 1
    return rng.choice([0, 0, 1, 1, 2, 3, 8, 9, 50, 2_000, 100_001, min(2**53, most), most // 2 + 1, most])


def test_whatever_is_sent_is_answered_or_refused_by_a_field_that_it_has_and_a_refusal_changes_nothing() -> None:
    rng = random.Random(7)

    async def story() -> dict[tuple[str, Code], int]:
        seen: dict[tuple[str, Code], int] = {}
        async with open_room() as room:
            tokens = [room.token("ann"), room.token("ben"), room.token("cleo"), room.token("floor", Role.OPERATOR)]
            for _ in range(scaled(1_200, 50_000)):
                name = rng.choice(list(METHODS))
                request = steered(filled(name, rng), rng)
                async with world.stub(room.address, rng.choice(tokens)) as stub:
                    before = room.picture()
                    error = await outcome(getattr(stub, name)(request))
                if error is not None:
                    assert room.picture() == before, (name, request)
                    check_error(error, request)
                code = Code.OK if error is None else error.code()
                seen[name, code] = seen.get((name, code), 0) + 1
            assert room.tables.imbalance_cents() == 0
        return seen

    seen = asyncio.run(story())
    assert {name for name, _ in seen} == set(METHODS)
    assert {code for _, code in seen} == {
        *(Code.OK, Code.INVALID_ARGUMENT, Code.PERMISSION_DENIED, Code.NOT_FOUND, Code.FAILED_PRECONDITION)
    }


def check_error(error: grpc.aio.AioRpcError, request: Any) -> None:
    """One clear error: its text, and the field with what is allowed where a field is at fault."""
    told = error.details()
    assert told
    assert len(told) < 600
    assert "\n" not in told
    violations = world.violations(error)
    if error.code() in (Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION):
        ((field, allowed),) = violations
        assert field in request.DESCRIPTOR.fields_by_name
        assert told in (allowed, f"{field}: {allowed}")
        assert field == "action" or allowed.startswith("must be "), told
    else:
        assert error.code() in (Code.PERMISSION_DENIED, Code.NOT_FOUND)
        assert violations == []


def test_no_token_but_ones_own_that_holds_is_good_for_anything() -> None:
    async def story() -> None:
        async with open_room() as room:
            claims, signature = room.token("ben").split(".")
            bad = [
                *("", "abc", f"{claims}.", f".{signature}", f"{claims}.{signature[:-2]}", f"{claims}.{signature}."),
                room.token("ben", expires_s=0),
                make_token(secrets.token_bytes(32), Identity("ben"), FOREVER),
                f"{room.token('ann').split('.')[0]}.{signature}",
                "x" * 5_000,
            ]
            rng = random.Random(3)
            before = room.picture()
            for token in bad:
                async with world.stub(room.address, token) as stub:
                    for name in METHODS:
                        error = await outcome(getattr(stub, name)(filled(name, rng)))
                        assert error is not None
                        assert error.code() is Code.UNAUTHENTICATED
                        assert room.key.hex() not in str(error.details())
            assert room.picture() == before

    asyncio.run(story())


def test_bytes_that_are_no_request_and_requests_that_are_too_large_change_nothing() -> None:
    rng = random.Random(5)

    async def story() -> None:
        async with open_room() as room, grpc.aio.insecure_channel(room.address) as channel:
            metadata = [("authorization", f"Bearer {room.token('ben')}")]
            before = room.picture()
            for name, method in METHODS.items():
                path = f"/dealer.v1.TableService/{name}"
                make = channel.unary_stream if method.server_streaming else channel.unary_unary
                raw = make(path, request_serializer=bytes, response_deserializer=bytes)
                for text in (b"\x0a\xff", b"\x0a", rng.randbytes(200), b"\x9a\x06" + b"\x80" * 11):
                    error = await outcome(raw(text, metadata=metadata))
                    assert error is not None
                    assert error.code() is Code.INVALID_ARGUMENT
                    assert error.details() == "the request is not a message of this call's kind"
                error = await outcome(raw(bytes(MAX_REQUEST_BYTES + 1), metadata=metadata))
                assert error is not None
                assert error.code() is Code.RESOURCE_EXHAUSTED
            assert room.picture() == before

    asyncio.run(story())


@pytest.mark.parametrize("house", ["limit_stud"])
def test_nobody_acts_for_another_and_a_repeat_counts_once(house: str) -> None:
    async def story() -> None:
        async with open_room() as room:
            live = room.tables.table(PLAYING)
            assert live.rules.name == house
            player, other = await asked(live)
            act = table_pb2.ActRequest(table=PLAYING, hand=live.table.number, action=table_pb2.ACTION_BRING_IN)
            before = room.picture()
            for name in (other, "ann"):
                async with world.stub(room.address, room.token(name)) as stub:
                    error = await outcome(stub.Act(act))
                assert error is not None
                assert error.code() is Code.FAILED_PRECONDITION
                assert room.picture() == before
            async with world.stub(room.address, room.token(player)) as stub:
                assert await outcome(stub.Act(act)) is None
                after = room.picture()
                assert after != before
                for _ in range(3):
                    assert await outcome(stub.Act(act)) is None
                assert room.picture() == after

    asyncio.run(story())


def test_a_request_id_is_good_for_one_request() -> None:
    async def story() -> None:
        async with open_room() as room, world.stub(room.address, room.token("ann")) as stub:
            sit = table_pb2.SitRequest(table=IDLE, seat=3, amount_cents=2_000, request_id=b"mine")
            await stub.Sit(sit)
            await stub.Sit(sit)
            after = room.picture()
            for other in (
                stub.Sit(table_pb2.SitRequest(table=IDLE, seat=4, amount_cents=2_000, request_id=b"mine")),
                stub.Sit(table_pb2.SitRequest(table=IDLE, seat=3, amount_cents=2_001, request_id=b"mine")),
                stub.TopUp(table_pb2.TopUpRequest(table=IDLE, amount_cents=1, request_id=b"mine")),
            ):
                error = await outcome(other)
                assert error is not None
                assert [field for field, _ in world.violations(error)] == ["request_id"]
            assert room.picture() == after
            # Another player's same id is another request.
            async with world.stub(room.address, room.token("dan")) as dan:
                await dan.Sit(table_pb2.SitRequest(table=IDLE, seat=4, amount_cents=2_000, request_id=b"mine"))

    asyncio.run(story())


def test_one_player_cannot_take_all_streams_and_those_that_end_are_free_again() -> None:
    async def story() -> None:
        async with open_room() as room, world.stub(room.address, room.token("ann")) as stub:
            watch = table_pb2.WatchRequest(table=IDLE)
            streams = [stub.Watch(watch) for _ in range(MOST_STREAMS_A_PLAYER)]
            for stream in streams:
                await anext(aiter(stream))
            error = await outcome(stub.Watch(watch))
            assert error is not None
            assert error.code() is Code.RESOURCE_EXHAUSTED
            async with world.stub(room.address, room.token("ben")) as other:
                assert await outcome(other.Watch(watch)) is None
            streams[0].cancel()
            async with asyncio.timeout(world.TIMEOUT_S):
                while await outcome(stub.Watch(watch)) is not None:  # noqa: ASYNC110  (its end is noticed later)
                    await asyncio.sleep(0.05)
            for stream in streams:
                stream.cancel()

    asyncio.run(story())
