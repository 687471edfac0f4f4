"""A table that an operator closes: its hand is played to its end, all chips go home, also over `kill -9`."""

import asyncio
import contextlib
import random
import signal
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest

from dealer.cashier import rack, wallet
from dealer.rooms import GAMES
from dealer.tokens import Role
from dealer.v1 import table_pb2
from tests.dealer.server import world
from tests.scale import scaled

NAMES = ["ann", "ben", "cleo"]
GRANT = 100_000
OPEN, CLOSING, CLOSED = table_pb2.TABLE_STATUS_OPEN, table_pb2.TABLE_STATUS_CLOSING, table_pb2.TABLE_STATUS_CLOSED


async def close(house: world.House, table: bytes) -> table_pb2.TableSummary:
    async with world.stub(house.address, house.token("floor", Role.OPERATOR)) as room:
        return (await room.CloseTable(table_pb2.CloseTableRequest(table=table))).table


async def listed(house: world.House, table: bytes) -> table_pb2.TableSummary:
    async with world.stub(house.address, house.token("zoe")) as room:
        answer = await room.ListTables(table_pb2.ListTablesRequest(page_size=1_000))
    return next(each for each in answer.tables if each.table == table)


async def until_closed(house: world.House, players: list[world.Player]) -> None:
    """Have all play until nobody sits there any more."""
    playing = [asyncio.create_task(player.play()) for player in players]
    async with asyncio.timeout(world.TIMEOUT_S):
        while (await listed(house, players[0].table)).status != CLOSED:  # noqa: ASYNC110  (the lobby tells nobody)
            await asyncio.sleep(0.002)
        # Closed means that the last hand can be had, too.
        async with world.stub(house.address, house.token("zoe")) as room:
            newest = (await room.GetHistory(table_pb2.GetHistoryRequest(table=players[0].table))).hand
            async for message in room.Watch(table_pb2.WatchRequest(table=players[0].table)):
                assert newest == message.state.hand
                break
    for task in playing:
        task.cancel()
    await asyncio.gather(*playing, return_exceptions=True)


async def in_a_hand(player: world.Player) -> None:
    """Wait until a player sees a turn."""
    while not (player.seen and player.seen[-1].state.HasField("turn")):  # noqa: ASYNC110  (the player tells nobody)
        await asyncio.sleep(0.01)


async def seen(player: world.Player, status: int) -> None:
    """Wait until a player has been told that the table has a status."""
    while player.seen[-1].state.status != status:  # noqa: ASYNC110  (the player tells nobody)
        await asyncio.sleep(0.01)


def check_ledger(path: Path, table: bytes, players: list[str]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        balances = dict(db.execute("SELECT name, balance FROM accounts").fetchall())
    assert sum(balances.values()) == 0
    assert balances[rack(table.hex())] == 0, "no chip is left behind"
    assert sum(balances[wallet(player)] for player in players) == GRANT * len(players)


@pytest.mark.parametrize("game", sorted(GAMES))
def test_the_hand_is_played_to_its_end_and_then_everybody_has_his_chips(
    tmp_path: Path, service: dict[str, Any], game: str
) -> None:
    async def story(house: world.House) -> bytes:
        players = await world.seated(house, game, NAMES)
        bystander = world.Player(house, "zoe", players[0].table, game, 0)
        watching = asyncio.create_task(bystander.play())
        await world.all_in(players)
        table = players[0].table
        assert (await listed(house, table)).status == OPEN
        looking = [asyncio.create_task(player.play()) for player in players]
        await asyncio.wait_for(in_a_hand(bystander), world.TIMEOUT_S)
        status = (await close(house, table)).status
        assert status in (CLOSING, CLOSED), "the hand may have ended meanwhile"
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        await until_closed(house, players)
        again = await close(house, table)
        assert (again.status, again.players) == (CLOSED, 0)
        async with asyncio.timeout(world.TIMEOUT_S):
            await seen(bystander, CLOSED)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        hands = {message.state.hand for message in bystander.seen if message.state.status != OPEN}
        assert len(hands) == 1, "no hand was dealt after it"
        async with world.stub(house.address, house.token("ann")) as room:
            sit = table_pb2.SitRequest(
                table=table, seat=1, amount_cents=GAMES[game].stakes[0].buy_in, request_id=b"once more"
            )
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await room.Sit(sit)
            assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert [field for field, _ in world.violations(refusal.value)] == ["table"]
        return table

    with world.house(tmp_path, service) as house:
        table = asyncio.run(story(house))
        house.stop()
    check_ledger(tmp_path / "tables.sqlite3", table, NAMES)


def test_a_table_closed_before_its_first_hand_gives_all_chips_back_at_once(
    tmp_path: Path, service: dict[str, Any]
) -> None:
    async def story(house: world.House) -> bytes:
        players = await world.seated(house, "casino_club", NAMES)
        assert (await close(house, players[0].table)).status == CLOSED
        return players[0].table

    with world.house(tmp_path, service) as house:
        table = asyncio.run(story(house))
        house.stop()
    check_ledger(tmp_path / "tables.sqlite3", table, NAMES)


@pytest.mark.parametrize("game", ["limit_stud", "pokerkings"])
def test_a_dealer_killed_while_a_table_closes_goes_on_closing_it(
    tmp_path: Path, service: dict[str, Any], game: str
) -> None:
    rng = random.Random(game)

    async def until_killed(house: world.House, players: list[world.Player]) -> None:
        playing = [asyncio.create_task(player.play()) for player in players]
        await world.all_in(players)
        await asyncio.sleep(rng.uniform(0, 0.5))
        closing = asyncio.create_task(close(house, players[0].table))
        await asyncio.sleep(rng.choice([0.0, 0.01, rng.uniform(0, 0.2)]))
        house.stop(signal.SIGKILL)
        await asyncio.gather(closing, *playing, return_exceptions=True)

    async def to_the_end(house: world.House, players: list[world.Player]) -> None:
        await close(house, players[0].table)
        await until_closed(house, players)

    for n in range(scaled(1, 40)):
        folder = tmp_path / str(n)
        folder.mkdir()
        with world.house(folder, service) as house:
            players = asyncio.run(world.seated(house, game, NAMES, seed=10 * n))
            asyncio.run(until_killed(house, players))
            house.start()
            asyncio.run(to_the_end(house, players))
            house.stop(signal.SIGKILL)
            house.start()
            assert asyncio.run(listed(house, players[0].table)).status == CLOSED
            house.stop()
        check_ledger(folder / "tables.sqlite3", players[0].table, NAMES)
