"""Calls that are wrong, repeated, or not for their caller: the right status, and nothing has changed."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dealer.tokens import Identity, Role, make_token
from dealer.v1 import table_pb2
from tests.dealer.server import world

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
        "CloseTable": table_pb2.CloseTableRequest(table=table),
        "ListTables": table_pb2.ListTablesRequest(),
        "Sit": table_pb2.SitRequest(table=table, seat=1, amount_cents=2000, request_id=b"1"),
        "TopUp": table_pb2.TopUpRequest(table=table, amount_cents=1, request_id=b"1"),
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
FOR_OPERATORS = {"CreateTable", "CloseTable"}


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
            await room.Sit(table_pb2.SitRequest(table=table, seat=1, amount_cents=2_000, request_id=b"1"))
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await anext(stream)
            assert failure.value.code() is Code.UNAUTHENTICATED

    run(story)


def test_players_open_no_tables_and_operators_do_not_play(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("ann")) as room:
            for name in FOR_OPERATORS:
                assert await code_of(getattr(room, name)(requests(T)[name])) is Code.PERMISSION_DENIED
        async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as room:
            await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club"))
            for name, request in requests(T).items():
                if name not in FOR_EVERYBODY | FOR_OPERATORS:
                    assert await code_of(getattr(room, name)(request)) is Code.PERMISSION_DENIED

    run(story)


def test_an_unknown_table_or_hand_is_not_found(house: world.House) -> None:
    async def story() -> None:
        async with (
            world.stub(house.address, house.token("floor", Role.OPERATOR)) as floor,
            world.stub(house.address, house.token("ann")) as room,
        ):
            for name, request in requests(secrets.token_bytes(16)).items():
                if name not in {"CreateTable", "ListTables"}:
                    call = getattr(floor if name in FOR_OPERATORS else room, name)
                    assert await code_of(call(request)) is Code.NOT_FOUND
            table = await world.open_table(house, "casino_club")
            assert await code_of(room.GetHistory(table_pb2.GetHistoryRequest(table=table))) is Code.NOT_FOUND

    run(story)


CREATE, SIT, TOP_UP, SIT_IN = (
    table_pb2.CreateTableRequest,
    table_pb2.SitRequest,
    table_pb2.TopUpRequest,
    table_pb2.SitInRequest,
)
ACT, PROMISE, REVEAL = table_pb2.ActRequest, table_pb2.PromiseSeedRequest, table_pb2.RevealSeedRequest
BET, CALL, DISCARD = table_pb2.ACTION_BET, table_pb2.ACTION_CALL, table_pb2.ACTION_DISCARD
# What no state of the table could make right: call, request, the field that is named and what is said of it.
INVALID: list[tuple[str, Any, str, str]] = [
    ("CreateTable", CREATE(table=b"x", game="casino_club"), "table", "must be 16 bytes"),
    (
        "CreateTable",
        CREATE(table=bytes(16), game="bingo"),
        "game",
        "must be one of casino_club, poker777, ",
    ),
    ("CreateTable", CREATE(table=bytes(16), game="casino_club", stakes="7-9"), "stakes", "must be one of 1-2, 2-4, "),
    ("CloseTable", table_pb2.CloseTableRequest(table=bytes(17)), "table", "must be 16 bytes"),
    ("Sit", SIT(table=b"x", seat=1, amount_cents=1, request_id=b"1"), "table", "must be 16 bytes"),
    ("Sit", SIT(table=T, seat=99, amount_cents=2_000, request_id=b"1"), "seat", "must be 1..8"),
    ("Sit", SIT(table=T, seat=0, amount_cents=2_000, request_id=b"1"), "seat", "must be 1..8"),
    ("Sit", SIT(table=T, seat=1, amount_cents=0, request_id=b"1"), "amount_cents", "must be 1..9007199254740991"),
    ("Sit", SIT(table=T, seat=1, amount_cents=2**53, request_id=b"1"), "amount_cents", "must be 1..9007199254740991"),
    ("Sit", SIT(table=T, seat=1, amount_cents=1_999, request_id=b"1"), "amount_cents", "must be at least 2000"),
    ("Sit", SIT(table=T, seat=1, amount_cents=2_000), "request_id", "must be 1..64 bytes"),
    ("Sit", SIT(table=T, seat=1, amount_cents=2_000, request_id=bytes(65)), "request_id", "must be 1..64 bytes"),
    ("TopUp", TOP_UP(table=T, amount_cents=0, request_id=b"1"), "amount_cents", "must be 1..9007199254740991"),
    ("TopUp", TOP_UP(table=T, amount_cents=1), "request_id", "must be 1..64 bytes"),
    ("Stand", table_pb2.StandRequest(), "table", "must be 16 bytes"),
    ("SitOut", table_pb2.SitOutRequest(), "table", "must be 16 bytes"),
    ("SitIn", table_pb2.SitInRequest(), "table", "must be 16 bytes"),
    ("PromiseSeed", PROMISE(table=T, promise=bytes(31)), "promise", "must be 32 bytes"),
    ("PromiseSeed", PROMISE(table=T, hand=2**64 - 1, promise=bytes(32)), "hand", "must be at most 9007199254740991"),
    ("RevealSeed", REVEAL(table=T, seed=bytes(31)), "seed", "must be 32..64 bytes"),
    ("RevealSeed", REVEAL(table=T, seed=bytes(65)), "seed", "must be 32..64 bytes"),
    ("RevealSeed", REVEAL(table=T, hand=2**63, seed=bytes(32)), "hand", "must be at most 9007199254740991"),
    ("Act", ACT(table=T), "action", "must be one of ACTION_FOLD, ACTION_CHECK, "),
    ("Act", ACT(table=T, action=99), "action", "must be one of ACTION_FOLD, ACTION_CHECK, "),
    ("Act", ACT(table=T, action=BET, to_cents=2**53), "to_cents", "must be at most 9007199254740991"),
    ("Act", ACT(table=T, action=DISCARD, to_cents=3, cards=[1]), "to_cents", "must be 0 for ACTION_DISCARD"),
    ("Act", ACT(table=T, action=BET, cards=[1]), "cards", "must be empty but for ACTION_DISCARD"),
    ("Act", ACT(table=T, action=DISCARD, cards=[52]), "cards", "must be different codes 0..51"),
    ("Act", ACT(table=T, action=DISCARD, cards=[7, 7]), "cards", "must be different codes 0..51"),
    ("Act", ACT(table=T, action=CALL, hand=2**64 - 1), "hand", "must be at most 9007199254740991"),
    ("ListTables", table_pb2.ListTablesRequest(page_size=1001), "page_size", "must be at most 1000"),
    ("ListTables", table_pb2.ListTablesRequest(after=b"x"), "after", "must be 16 bytes"),
    ("Watch", table_pb2.WatchRequest(table=b"x"), "table", "must be 16 bytes"),
    ("GetHistory", table_pb2.GetHistoryRequest(table=b"x"), "table", "must be 16 bytes"),
    ("GetHistory", table_pb2.GetHistoryRequest(table=T, hand=2**64 - 1), "hand", "must be at most 9007199254740991"),
]


@pytest.mark.parametrize(("name", "request_", "field", "allowed"), INVALID)
def test_a_field_that_could_never_be_right_is_named_with_what_is_allowed(
    house: world.House, name: str, request_: Any, field: str, allowed: str
) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as floor:
            await floor.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club"))
            async with world.stub(house.address, house.token("ann")) as room:
                call = getattr(floor if name in FOR_OPERATORS else room, name)(request_)
                with pytest.raises(grpc.aio.AioRpcError) as failure:
                    await (anext(aiter(call)) if name == "Watch" else call)
        assert failure.value.code() is Code.INVALID_ARGUMENT
        ((told, description),) = world.violations(failure.value)
        assert told == field
        assert description.startswith(allowed)
        assert failure.value.details() == f"{field}: {description}"

    run(story)


def test_what_only_one_house_refuses_is_invalid_there(house: world.House) -> None:
    async def story() -> None:
        stud = await world.open_table(house, "limit_stud")
        draw = await world.open_table(house, "pokerkings")
        async with world.stub(house.address, house.token("una")) as room:
            await room.Sit(SIT(table=stud, seat=1, amount_cents=2_000, request_id=b"1"))
            for call, field in (
                (room.SitIn(SIT_IN(table=stud, ask_each_hand=True)), "ask_each_hand"),
                (room.TopUp(TOP_UP(table=stud, amount_cents=2_001, request_id=b"2")), "amount_cents"),
                (room.Sit(SIT(table=draw, seat=6, amount_cents=8_000, request_id=b"3")), "seat"),
                (room.Sit(SIT(table=draw, seat=1, amount_cents=7_999, request_id=b"4")), "amount_cents"),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as failure:
                    await call
                assert failure.value.code() is Code.INVALID_ARGUMENT
                assert [told for told, _ in world.violations(failure.value)] == [field]

    run(story)


def test_a_table_is_opened_once_with_its_terms(house: world.House) -> None:
    async def story() -> None:
        async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as room:
            first = await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club"))
            assert await room.CreateTable(table_pb2.CreateTableRequest(table=T, game="casino_club")) == first
            for game, stakes in (("limit_stud", ""), ("casino_club", "2-4")):
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
            sit = table_pb2.SitRequest(table=table, seat=3, amount_cents=40_000, request_id=b"sit")
            await room.Sit(sit)
            await room.Sit(sit)
            other = table_pb2.SitRequest(table=table, seat=4, amount_cents=40_000, request_id=b"sit")
            assert await code_of(room.Sit(other)) is Code.FAILED_PRECONDITION
            state = (await anext(aiter(room.Watch(table_pb2.WatchRequest(table=table))))).state
            assert [(seat.seat, seat.stack_cents) for seat in state.seats] == [(3, 40_000)]
            await room.Stand(table_pb2.StandRequest(table=table))
            # Had the repeat moved chips, there were not as many left.
            await room.Sit(table_pb2.SitRequest(table=table, seat=1, amount_cents=100_000, request_id=b"again"))
            await room.Stand(table_pb2.StandRequest(table=table))
            too_much = table_pb2.SitRequest(table=table, seat=1, amount_cents=100_001, request_id=b"more")
            assert await code_of(room.Sit(too_much)) is Code.FAILED_PRECONDITION

    run(story)


def test_two_players_may_choose_the_same_request_id(house: world.House) -> None:
    async def story() -> None:
        table = await world.open_table(house, "casino_club")
        for seat, player in enumerate(("ann", "ben"), 1):
            async with world.stub(house.address, house.token(player)) as room:
                sit = table_pb2.SitRequest(table=table, seat=seat, amount_cents=40_000, request_id=b"1")
                await room.Sit(sit)
                await room.Sit(sit)
        async with world.stub(house.address, house.token("ann")) as room:
            state = (await anext(aiter(room.Watch(table_pb2.WatchRequest(table=table))))).state
            assert [(seat.seat, seat.stack_cents) for seat in state.seats] == [(1, 40_000), (2, 40_000)]

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
