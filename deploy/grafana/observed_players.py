"""Players at a real dealer, so that its figures move: they call, raise a little, and now and then think too long."""

import asyncio
import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import grpc

from dealer.rooms import GAMES
from dealer.tokens import Identity, Role, make_token
from dealer.v1 import table_pb2, table_pb2_grpc

_LIKED: Final = ("CHECK", "CALL", "BRING_IN", "STAND_PAT", "MUCK")
_BOLD: Final = ("COMPLETE", "BET", "RAISE")
_THINKING_S: Final = 0.05
_TOO_LONG_S: Final = 60.0
_SEATS: Final = 4


async def play_at_a_dealer(address: str, token_key: bytes, tables: int, seconds: float) -> None:
    """Open ``tables`` tables of all games in turns, one after the other, and play until the time is over."""
    begin = time.monotonic()
    games = list(GAMES)
    async with grpc.aio.insecure_channel(address) as channel, asyncio.TaskGroup() as group:
        stub: Any = table_pb2_grpc.TableServiceStub(channel)
        for number in range(tables):
            begins = begin + seconds * 0.6 * number / tables
            group.create_task(_table(stub, token_key, number, games[number % len(games)], begins, begin + seconds))


def _as(name: str, token_key: bytes, role: Role = Role.PLAYER) -> Sequence[tuple[str, str]]:
    return [("authorization", f"Bearer {make_token(token_key, Identity(name, role), int(time.time()) + 3600)}")]


async def _table(stub: Any, token_key: bytes, number: int, game: str, begins: float, ends: float) -> None:
    await asyncio.sleep(max(0.0, begins - time.monotonic()))
    table = secrets.token_bytes(16)
    floor = _as("floor", token_key, Role.OPERATOR)
    await stub.CreateTable(table_pb2.CreateTableRequest(table=table, game=game), metadata=floor)
    players = [_Player(stub, f"p{number}-{seat}", token_key, table, game, seat) for seat in range(1, _SEATS + 1)]
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, ends - time.monotonic())):
            await asyncio.gather(*(player.play() for player in players))


class _Player:
    def __init__(self, stub: Any, name: str, token_key: bytes, table: bytes, game: str, seat: int) -> None:
        self._stub = stub
        self._name = name
        self._metadata = _as(name, token_key)
        self._table = table
        self._seat = seat
        self._buy_in = GAMES[game].stakes[0].buy_in
        self._rng = random.Random(name)  # noqa: S311  (a player's whims, no card)
        self._done: tuple[int, int] = (0, -1)
        self._back_in = 0

    async def _call(self, method: str, **fields: Any) -> None:
        request = getattr(table_pb2, f"{method}Request")(table=self._table, **fields)
        await getattr(self._stub, method)(request, metadata=self._metadata)

    async def play(self) -> None:
        """Sit down, and act whenever asked."""
        await self._call("Sit", seat=self._seat, amount_cents=self._buy_in, request_id=secrets.token_bytes(8))
        await self._call("SitIn", post=True)
        watching = self._stub.Watch(table_pb2.WatchRequest(table=self._table), metadata=self._metadata)
        async for message in watching:
            try:
                await self._respond(message.state)
            except grpc.aio.AioRpcError as error:  # what he wanted came too late
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                    raise

    async def _respond(self, state: table_pb2.TableState) -> None:
        (me,) = [seat for seat in state.seats if seat.player == self._name]
        if not me.in_hand and self._back_in != state.hand and (me.sits_out or not me.stack_cents):
            self._back_in = state.hand
            if not me.stack_cents:
                await self._call("TopUp", amount_cents=self._buy_in, request_id=secrets.token_bytes(8))
            await self._call("SitIn", post=True)
        if state.choices and self._done != (state.hand, state.decision):
            self._done = (state.hand, state.decision)
            await asyncio.sleep(_TOO_LONG_S if self._rng.random() < 1 / 500 else self._rng.expovariate(1 / _THINKING_S))
            choice = self._chosen({table_pb2.Action.Name(each.action): each for each in state.choices})
            to_cents = choice.lowest_cents if choice.highest_cents else 0
            await self._call("Act", hand=state.hand, decision=state.decision, action=choice.action, to_cents=to_cents)

    def _chosen(self, choices: dict[str, table_pb2.Choice]) -> table_pb2.Choice:
        bold = _BOLD if self._rng.random() < 0.15 else ()
        for name in (*bold, *_LIKED):
            if f"ACTION_{name}" in choices:
                return choices[f"ACTION_{name}"]
        return next(iter(choices.values()))
