"""Calls that are wrong, repeated, or not for their caller: the right status, and nothing has changed."""

import asyncio
import random
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dealer.tokens import Identity, Role, make_token
from dealer.v1 import table_pb2
from tests.dealer.server import world
from tests.scale import scaled

Code = grpc.StatusCode
T = secrets.token_bytes(16)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, service: dict[str, Any]) -> Iterator[world.House]:
    """One room for all these calls; each test has tables of its own."""
    with world.house(tmp_path_factory.mktemp("room"), service) as made:
        yield made


async def code_of(call: Any) -> grpc.StatusCode:
    """Make a call that fails and return its status."""
    try:
        await (anext(aiter(call)) if hasattr(call, "__aiter__") else call)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return Code.OK


def run(story: Callable[[], Any]) -> None:
    asyncio.run(story())


def requests(table: bytes) -> dict[str, Any]:
    """Return a well-formed request of every call."""
    return {
        "CreateTable": table_pb2.CreateTableRequest(table=table, game="casino_club"),
        "ListTables": table_pb2.ListTablesRequest(),
        "Sit": table_pb2.SitRequest(table=table, seat=1, amount=2000, request_id=b"1"),
        "TopUp": table_pb2.TopUpRequest(table=table, amount=1, request_id=b"1"),
        "Stand": table_pb2.StandRequest(table=table),
        "SitOut": table_pb2.SitOutRequest(table=table),
        "SitIn": table_pb2.SitInRequest(table=table),
        "PromiseSeed": table_pb2.PromiseSeedRequest(table=table, hand=1, promise=bytes(32)),
        "RevealSeed": table_pb2.RevealSeedRequest(table=table, hand=1, seed=bytes(32)),
        "Act": table_pb2.ActRequest(table=table, hand=1, action=table_pb2.ACTION_FOLD),
        "Watch": table_pb2.WatchRequest(table=table),
        "GetHistory": table_pb2.GetHistoryRequest(table=table),
    }


FOR_EVERYBODY = {"ListTables", "Watch", "GetHistory"}


def test_every_call_of_the_interface_is_tried_here() -> None:
    (service,) = table_pb2.DESCRIPTOR.services_by_name.values()
    assert {method.name for method in service.methods} == set(requests(T))


def test_without_a_good_token_nothing_is_answered(house: world.House) -> None:
    now = 1_000
    bad = {
        "none": "",
        "nonsense": "abc",
        "no signature": house.token("ann").split(".")[0] + ".",
        "another key": make_token(secrets.token_bytes(32), Identity("ann"), 2**40),
        "expired": make_token(house.key, Identity("ann"), now),
        "other claims": f"{house.token('ben').split('.')[0]}.{house.token('ann').split('.')[1]}",
    }

    async def story() -> None:
        for token in bad.values():
            async with world.stub(house.address, token) as room:
                for name, request in requests(T).items():
                    assert await code_of(getattr(room, name)(request)) is Code.UNAUTHENTICATED

    run(story)


def test_a_stream_shows_nothing_more_once_its_token_has_expired(house: world.House) -> None:
    async def story() -> None:
        table = await world.open_table(house, "casino_club")
        async with (
            world.stub(house.address, house.token("ann", life_s=2)) as short,
            world.stub(house.address, house.token("ben")) as room,
        ):
            stream = aiter(short.Watch(table_pb2.WatchRequest(table=table)))
            await anext(stream)
            await asyncio.sleep(2)
            await room.Sit(table_pb2.SitRequest(table=table, seat=1, amount=2_000, request_id=b"1"))
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await anext(stream)
            assert failure.value.code() is Code.UNAUTHENTICATED

    run(story)


def test_players_open_no_tables_and_operators_do_not_play(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("ann")) as room:
            assert (
                await code_of(room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club")))
                is Code.PERMISSION_DENIED
            )
        async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as room:
            await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club"))
            for name, request in requests(T).items():
                if name not in FOR_EVERYBODY | {"CreateTable"}:
                    assert await code_of(getattr(room, name)(request)) is Code.PERMISSION_DENIED

    run(story)


def test_an_unknown_table_or_hand_is_not_found(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("ann")) as room:
            for name, request in requests(secrets.token_bytes(16)).items():
                if name not in {"CreateTable", "ListTables"}:
                    assert await code_of(getattr(room, name)(request)) is Code.NOT_FOUND
            table = await world.open_table(house, "casino_club")
            assert await code_of(room.GetHistory(table_pb2.GetHistoryRequest(table=table))) is Code.NOT_FOUND

    run(story)


MALFORMED: list[tuple[str, Any, str]] = [
    ("Sit", table_pb2.SitRequest(table=b"x", seat=1, amount=1, request_id=b"1"), "table"),
    ("Sit", table_pb2.SitRequest(table=T, seat=1, amount=0, request_id=b"1"), "amount"),
    ("Sit", table_pb2.SitRequest(table=T, seat=1, amount=2**53, request_id=b"1"), "amount"),
    ("Sit", table_pb2.SitRequest(table=T, seat=1, amount=1), "request_id"),
    ("Sit", table_pb2.SitRequest(table=T, seat=1, amount=1, request_id=bytes(65)), "request_id"),
    ("PromiseSeed", table_pb2.PromiseSeedRequest(table=T, promise=bytes(31)), "promise"),
    ("RevealSeed", table_pb2.RevealSeedRequest(table=T, seed=bytes(31)), "seed"),
    ("RevealSeed", table_pb2.RevealSeedRequest(table=T, seed=bytes(65)), "seed"),
    ("Act", table_pb2.ActRequest(table=T), "action"),
    ("Act", table_pb2.ActRequest(table=T, action=table_pb2.ACTION_BET, to=2**53), "to"),
    ("Act", table_pb2.ActRequest(table=T, action=table_pb2.ACTION_BET, cards=[1]), "cards"),
    ("Act", table_pb2.ActRequest(table=T, action=table_pb2.ACTION_DISCARD, cards=[52]), "cards"),
    ("ListTables", table_pb2.ListTablesRequest(page_size=1001), "page_size"),
    ("ListTables", table_pb2.ListTablesRequest(after=b"x"), "table"),
]


def test_a_malformed_field_is_named(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as room:
            await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club"))
        async with world.stub(house.address, house.token("ann")) as room:
            for name, request, field in MALFORMED:
                with pytest.raises(grpc.aio.AioRpcError) as failure:
                    await getattr(room, name)(request)
                assert failure.value.code() is Code.INVALID_ARGUMENT
                assert field in fields_named(failure.value)

    run(story)


def fields_named(error: grpc.aio.AioRpcError) -> list[str]:
    """Return the fields in the BadRequest of a rich status."""
    details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    names = []
    for packed in status_pb2.Status.FromString(details).details:
        found = error_details_pb2.BadRequest()
        if packed.Unpack(found):
            names += [violation.field for violation in found.field_violations]
    return names


def test_a_table_is_opened_once_with_its_terms(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as room:
            first = await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club"))
            assert await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club")) == first
            for game, stakes in (("limit_stud", ""), ("casino_club", "2-4"), ("bingo", ""), ("casino_club", "7-9")):
                request = table_pb2.CreateTableRequest(table=T, game=game, stakes=stakes)
                assert await code_of(room.CreateTable(request)) is Code.FAILED_PRECONDITION
            for n in range(3):
                await room.CreateTable(table_pb2.CreateTableRequest(table=bytes([n]) * 16, game="pokerkings"))
            page = await room.ListTables(table_pb2.ListTablesRequest(page_size=2))
            rest = await room.ListTables(table_pb2.ListTablesRequest(after=page.tables[-1].table))
            listed = [each.table for each in [*page.tables, *rest.tables]]
            assert len(page.tables) == 2
            assert listed == sorted(set(listed))
            assert {T, *(bytes([n]) * 16 for n in range(3))} <= set(listed)

    run(story)


def test_a_repeated_sit_or_top_up_moves_chips_once(house: world.House) -> None:
    async def story() -> None:
        table = await world.open_table(house, "casino_club")
        async with world.stub(house.address, house.token("ann")) as room:
            sit = table_pb2.SitRequest(table=table, seat=3, amount=40_000, request_id=b"sit")
            await room.Sit(sit)
            await room.Sit(sit)
            other = table_pb2.SitRequest(table=table, seat=4, amount=40_000, request_id=b"sit")
            assert await code_of(room.Sit(other)) is Code.FAILED_PRECONDITION
            state = (await anext(aiter(room.Watch(table_pb2.WatchRequest(table=table))))).state
            assert [(seat.seat, seat.stack) for seat in state.seats] == [(3, 40_000)]
            await room.Stand(table_pb2.StandRequest(table=table))
            # Had the repeat moved chips, there were not as many left.
            await room.Sit(table_pb2.SitRequest(table=table, seat=1, amount=100_000, request_id=b"again"))
            await room.Stand(table_pb2.StandRequest(table=table))
            too_much = table_pb2.SitRequest(table=table, seat=1, amount=100_001, request_id=b"more")
            assert await code_of(room.Sit(too_much)) is Code.FAILED_PRECONDITION

    run(story)


def test_two_players_may_choose_the_same_request_id(house: world.House) -> None:
    async def story() -> None:
        table = await world.open_table(house, "casino_club")
        for seat, player in enumerate(("ann", "ben"), 1):
            async with world.stub(house.address, house.token(player)) as room:
                sit = table_pb2.SitRequest(table=table, seat=seat, amount=40_000, request_id=b"1")
                await room.Sit(sit)
                await room.Sit(sit)
        async with world.stub(house.address, house.token("ann")) as room:
            state = (await anext(aiter(room.Watch(table_pb2.WatchRequest(table=table))))).state
            assert [(seat.seat, seat.stack) for seat in state.seats] == [(1, 40_000), (2, 40_000)]

    run(story)


def test_an_illegal_action_names_the_legal_ones(house: world.House) -> None:
    async def story() -> None:
        players = await world.seated(house, "limit_stud", ["ann", "ben"])
        by_name = {player.name: player for player in players}
        async with world.stub(house.address, house.token("ann")) as room:
            async for message in room.Watch(table_pb2.WatchRequest(table=players[0].table)):
                state = message.state
                if state.HasField("turn"):
                    break
            asked = next(seat.player for seat in state.seats if seat.seat == state.turn.seat)
        table, hand = by_name[asked].table, state.hand
        async with world.stub(house.address, house.token(asked)) as room:
            check = table_pb2.ActRequest(table=table, hand=hand, action=table_pb2.ACTION_CHECK)
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await room.Act(check)
            assert failure.value.code() is Code.FAILED_PRECONDITION
            assert "bring_in to 50" in str(failure.value.details())
            bring_in = table_pb2.ActRequest(table=table, hand=hand, action=table_pb2.ACTION_BRING_IN)
            await room.Act(bring_in)
            await room.Act(bring_in)

    run(story)


def test_random_requests_leave_the_room_as_it_was(house: world.House) -> None:
    rng = random.Random(1)
    allowed = {Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.NOT_FOUND, Code.PERMISSION_DENIED}

    async def story() -> None:
        await world.seated(house, "casino_club", ["ben", "cleo"])
        async with world.stub(house.address, house.token("ann")) as room:
            before = await room.ListTables(table_pb2.ListTablesRequest())
            for _ in range(scaled(400, 20_000)):
                name = rng.choice([each for each in requests(T) if each not in {"ListTables", "Watch"}])
                request = type(requests(T)[name])()
                for field in request.DESCRIPTOR.fields:
                    set_at_random(request, field, rng, before.tables[0].table)
                if name == "Sit" and request.seat > 2:
                    request.amount = 1
                assert await code_of(getattr(room, name)(request)) in allowed
            assert await room.ListTables(table_pb2.ListTablesRequest()) == before

    run(story)


def set_at_random(request: Any, field: Any, rng: random.Random, table: bytes) -> None:
    if field.name == "table":
        request.table = rng.choice([table, rng.randbytes(rng.randint(0, 40))])
    elif field.type == field.TYPE_BYTES:
        setattr(request, field.name, rng.randbytes(rng.choice([0, 1, 32, 48, 64, 65, 300])))
    elif field.type == field.TYPE_STRING:
        setattr(request, field.name, "".join(rng.choice("ab\0é ") for _ in range(rng.randint(0, 9))))
    elif field.type == field.TYPE_BOOL:
        setattr(request, field.name, rng.random() < 0.5)
    elif field.name == "cards":
        request.cards.extend(rng.choices(range(60), k=rng.randint(0, 6)))
    else:
        setattr(request, field.name, rng.choice([0, 1, 2, 3, 11, 52, 2**31 - 1]))


def test_an_oversized_request_is_refused(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("ann")) as room:
            request = table_pb2.RevealSeedRequest(table=T, seed=bytes(100_000))
            assert await code_of(room.RevealSeed(request)) is Code.RESOURCE_EXHAUSTED

    run(story)


def test_the_room_says_that_it_is_there(house: world.House) -> None:
    async def story() -> None:
        async with grpc.aio.insecure_channel(house.address) as channel:
            check = health_pb2.HealthCheckRequest(service="dealer.v1.TableService")
            answer = await health_pb2_grpc.HealthStub(channel).Check(check)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING

    run(story)


def test_told_to_stop_it_ends_cleanly_and_has_logged_no_defect(house: world.House) -> None:
    """The last test here: it closes the room."""
    assert house.stop() == 0
    assert "Traceback" not in house.complaints
    assert "defect" not in house.complaints
    assert house.key.hex() not in house.complaints
