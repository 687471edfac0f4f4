"""The status says what the log and the hands are, with a clock that the test moves."""

from typing import Any

import pytest

from rngsvc.cosigning import Cosigned, Cosigner
from rngsvc.daily_runs import LogAudit
from rngsvc.protocol.policy import NO_WITNESSES
from rngsvc.self_checks import DAILY_WITHIN_MS
from rngsvc.status import MAX_AGE_MS, Board
from tests.rngsvc.service.world import ORIGIN, START_MS, World, running, table_id


def board(world: World) -> Board:
    return Board(world.service, world.results, Cosigner(world.log, NO_WITNESSES, 1), LogAudit(START_MS))


async def hands(world: World) -> dict[str, Any]:
    read: dict[str, Any] = (await board(world).read())["hands"]
    return read


@pytest.mark.asyncio
async def test_of_an_empty_log_there_is_nothing_to_say() -> None:
    async with running() as world:
        read = await board(world).read()
        assert read["signing"] == {"able": True, "why": ""}
        assert read["log"] == {"origin": ORIGIN, "size": 0, "time": None}
        assert read["witnesses"] == {"cosigned_size": 0, "each": []}
        assert read["integrity"]["entries"] == []
        assert not read["integrity"]["daily_overdue"]
        assert read["hands"] == {"in_play": 0, "waiting": 0, "overdue": 0, "open": [], "closed": []}
        assert read["read_at"] == START_MS


@pytest.mark.asyncio
async def test_hands_are_waiting_then_in_play_then_overdue_then_closed() -> None:
    async with running() as world:
        play = await world.play(ttl_s=60)
        await play.reserve(1, 2)
        seen = await hands(world)
        assert (seen["in_play"], seen["waiting"], seen["overdue"]) == (0, 2, 0)
        world.clock.advance(30)
        await play.seal(1)
        expires = world.clock.ms + 60_000
        expected = {"table": table_id(0).hex(), "seq": 1, "state": "sealed", "expires": expires, "overdue": False}
        seen = await hands(world)
        assert (seen["in_play"], seen["waiting"], seen["open"]) == (1, 1, [expected])
        world.clock.advance(71)
        seen = await hands(world)
        assert (seen["overdue"], seen["open"]) == (1, [expected | {"overdue": True}])
        await world.service.close_expired(world.clock.ms)
        seen = await hands(world)
        (closed,) = seen["closed"]
        assert (closed["seq"], closed["outcome"], closed["reason"]) == (1, "aborted", "expired")
        assert (seen["in_play"], seen["waiting"], seen["overdue"]) == (0, 1, 0)


@pytest.mark.asyncio
async def test_the_most_urgent_hands_and_the_newest_closes_are_listed() -> None:
    async with running() as world:
        for number in range(30):
            play = await world.play(number)
            await play.reserve(1, 2)
            await play.close(1, "aborted", "caller")
            world.clock.advance(1)
        seen = await hands(world)
        assert (len(seen["open"]), len(seen["closed"]), seen["waiting"]) == (20, 20, 30)
        assert [each["table"] for each in seen["open"][:2]] == [table_id(0).hex(), table_id(1).hex()]
        assert [each["table"] for each in seen["closed"][:2]] == [table_id(29).hex(), table_id(28).hex()]


@pytest.mark.asyncio
async def test_checks_are_listed_newest_first_and_a_missing_daily_one_is_noticed() -> None:
    async with running() as world:
        await world.results.start(b"self-tests")
        world.clock.ms += DAILY_WITHIN_MS
        assert not (await board(world).read())["integrity"]["daily_overdue"]
        world.clock.ms += 1
        assert (await board(world).read())["integrity"]["daily_overdue"]
        await world.results._integrity("daily", bytes(32), "fail")
        read = (await board(world).read())["integrity"]
        assert not read["daily_overdue"]
        assert [(each["kind"], each["verdict"], each["index"]) for each in read["entries"]] == [
            ("daily", "fail", 1),
            ("start", "pass", 0),
        ]


@pytest.mark.asyncio
async def test_strangers_that_ask_again_at_once_get_what_was_read_before() -> None:
    async with running() as world:
        one = board(world)
        first = await one.read()
        await world.results.start(b"")
        assert await one.read() is first
        world.clock.ms += MAX_AGE_MS
        assert (await one.read())["log"]["size"] == 1
        world.clock.ms -= 60_000  # a clock that goes back does not keep an old answer alive
        await world.results.start(b"")
        assert (await one.read())["log"]["size"] == 2


@pytest.mark.asyncio
async def test_a_stopped_signer_says_why() -> None:
    async with running() as world:
        world.sequencer.stop("the tree and the store disagree")
        assert (await board(world).read())["signing"] == {"able": False, "why": "the tree and the store disagree"}


@pytest.mark.asyncio
async def test_how_far_the_log_is_cosigned_is_told() -> None:
    async with running() as world:
        one = board(world)
        one.cosigner.newest = Cosigned(3, "note")
        assert (await one.read())["witnesses"] == {"cosigned_size": 3, "each": []}
