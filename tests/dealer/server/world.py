"""A card room in processes of its own, and players who know only what their streams show them."""

import asyncio
import contextlib
import json
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from dealer.cards import of_item
from dealer.own_seed import OwnSeed
from dealer.rooms import GAMES
from dealer.tokens import Identity, Role, make_token
from dealer.v1 import table_pb2, table_pb2_grpc
from rngsvc.protocol.card_seal import card_leaf

TIMEOUT_S = 60


def start(*command: str, environment: dict[str, str] | None = None) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a service and return it with its line of JSON."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, complaint = process.communicate(timeout=TIMEOUT_S)
        raise AssertionError(complaint)
    return process, json.loads(line)


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Stop a service and return what it wrote to stderr."""
    process.send_signal(signal.SIGCONT)
    process.send_signal(number)
    _, complaint = process.communicate(timeout=TIMEOUT_S)
    return complaint


@contextlib.contextmanager
def shuffle_service() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process, ready = start("rngsvc", "serve", "--ephemeral")
    try:
        yield process, ready
    finally:
        if process.poll() is None:
            stop(process)


class House:
    """A dealer on a SQLite file, which can be killed and started again."""

    def __init__(self, folder: Path, service: dict[str, Any]) -> None:
        self.key = secrets.token_bytes(32)
        key_file = folder / "token.key"
        key_file.touch(0o600)
        key_file.write_text(self.key.hex())
        self.log_key = service["log_key"]
        self.arguments = ["dealer", "serve"]
        for name, value in {
            "listen": "127.0.0.1:0",
            "http-operator": "127.0.0.1:0",
            "drain-s": "0",
            "rngsvc": service["grpc"],
            "log-key": self.log_key,
            "auditor-x25519": "07" * 32,
            "auditor-ed25519": "09" * 32,
            "store": f"sqlite:{folder / 'tables.sqlite3'}",
            "token-key": str(key_file),
        }.items():
            self.arguments += [f"--{name}", value]
        self.process: subprocess.Popen[str] | None = None
        self.address = ""
        self.ready: dict[str, Any] = {}
        self.complaints = ""

    def start(self) -> None:
        self.process, self.ready = start(*self.arguments)
        self.address = self.ready["grpc"]

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.complaints += stop(self.process, number)
        return self.process.returncode

    def token(self, name: str, role: Role = Role.PLAYER, life_s: int = 600) -> str:
        return make_token(self.key, Identity(name, role), int(time.time()) + life_s)


@contextlib.contextmanager
def house(folder: Path, service: dict[str, Any]) -> Iterator[House]:
    made = House(folder, service)
    made.start()
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.stop()


@contextlib.asynccontextmanager
async def stub(address: str, token: str = "") -> AsyncIterator[Any]:
    """A stub of TableService that sends ``token`` with every call."""
    async with grpc.aio.insecure_channel(address) as channel:
        yield _WithToken(table_pb2_grpc.TableServiceStub(channel), token)


class _WithToken:
    def __init__(self, inner: Any, token: str) -> None:
        self._inner = inner
        self._metadata = [("authorization", f"Bearer {token}")] if token else []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return lambda request, **kwargs: method(request, metadata=self._metadata, **kwargs)


def violations(error: grpc.aio.AioRpcError) -> list[tuple[str, str]]:
    """Return each field in the BadRequest of a rich status, with what is allowed."""
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    assert isinstance(details, bytes)
    found = []
    for packed in status_pb2.Status.FromString(details).details:
        request = error_details_pb2.BadRequest()
        if packed.Unpack(request):
            found += [(violation.field, violation.description) for violation in request.field_violations]
    return found


async def open_table(house: House, game: str) -> bytes:
    table = secrets.token_bytes(16)
    async with stub(house.address, house.token("floor", Role.OPERATOR)) as room:
        await room.CreateTable(table_pb2.CreateTableRequest(table=table, game=game))
    return table


class Player:
    """Watches a table and plays at random, verifying all that his stream shows him.

    ``seen`` is every message of his stream, ``items`` what was at which (hand, k, place) as he was shown it.
    """

    def __init__(self, house: House, name: str, table: bytes, game: str, seed: int) -> None:
        self.house = house
        self.name = name
        self.table = table
        self.rules = GAMES[game]
        self.reveals = True
        self.buy_in = self.rules.stakes[0].buy_in
        self.rng = random.Random(seed)
        self.seen: list[table_pb2.WatchResponse] = []
        self.items: dict[tuple[int, int, int], int] = {}
        self.cards: dict[tuple[int, int], int] = {}
        self.hands_over: set[int] = set()
        self.own_seeds: dict[int, OwnSeed] = {}
        self.revealed: set[int] = set()
        self._leaves: dict[int, list[str]] = {}
        self._receipt = ""
        self._hand = 0
        self._played: set[int] = set()
        self._done: set[tuple[str, int, int]] = set()

    async def play(self) -> None:
        """Watch and act until cancelled; again after a lost connection."""
        self._done.clear()
        async with stub(self.house.address, self.house.token(self.name)) as room:
            async for message in room.Watch(table_pb2.WatchRequest(table=self.table)):
                self.look(message)
                await self.respond(room, message.state)

    def look(self, message: table_pb2.WatchResponse) -> None:
        """Take in a message, checking each opening against the sealed leaves."""
        self.seen.append(message)
        state = message.state
        if state.hand != self._hand:
            self._hand, self.cards = state.hand, {}
        if message.receipt:
            self._receipt = message.receipt
            receipt = json.loads(message.receipt)
            if receipt["seq"] == state.hand:
                self._leaves = {each["k"]: each["leaves"] for each in receipt.get("shuffles", ())}
        for each in message.openings:
            assert card_leaf(each.k, each.place, each.item, each.salt).hex() == self._leaves[each.k][each.place]
            known = self.items.setdefault((state.hand, each.k, each.place), each.item)
            assert known == each.item, "a card that was seen stays what it is"
        mine = {seat.seat for seat in state.seats if seat.player == self.name}
        for written in message.events:
            event = json.loads(written.json)
            if event["event"] == "dealt" and event["seat"] in mine:
                card = event["cards"][0]
                self.cards[card["k"], card["p"]] = card["item"]
            elif event["event"] == "discarded" and event["seat"] in mine:
                for k, p in event.get("discards", ()):
                    del self.cards[k, p]
        if state.phase == table_pb2.PHASE_PLAYING:
            self._played.add(state.hand)
        # A slow stream may pass over a phase, so that a hand is over as well when a later one is there.
        ended = state.phase in (table_pb2.PHASE_CLOSING, table_pb2.PHASE_WAITING)
        self.hands_over |= {hand for hand in self._played if hand < state.hand + ended}

    async def respond(self, room: Any, state: table_pb2.TableState) -> None:
        """Give what is asked for."""
        hand = state.hand
        seated = any(seat.player == self.name for seat in state.seats)
        receipt = json.loads(self._receipt) if self._receipt else {}
        current = receipt.get("seq") == hand and seated
        if state.phase == table_pb2.PHASE_PROMISES and current and self._first("promise", hand):
            fresh = OwnSeed(self.name.encode(), self.house.log_key, self.table, hand)
            own = self.own_seeds.setdefault(hand, fresh)
            with contextlib.suppress(grpc.aio.AioRpcError):  # the window may have closed meanwhile
                await room.PromiseSeed(table_pb2.PromiseSeedRequest(table=self.table, hand=hand, promise=own.promise))
        # Who came too late with his promise does not find it in the log, and has nothing to reveal.
        logged = current and hand in self.own_seeds and self.own_seeds[hand].promise.hex() in self._receipt
        if state.phase == table_pb2.PHASE_REVEALS and logged and self.reveals and self._first("reveal", hand):
            seed = self.own_seeds[hand].reveal(self._receipt.encode())
            with contextlib.suppress(grpc.aio.AioRpcError):
                await room.RevealSeed(table_pb2.RevealSeedRequest(table=self.table, hand=hand, seed=seed))
                self.revealed.add(hand)
        broke = [seat for seat in state.seats if seat.player == self.name and not seat.stack_cents and not seat.in_hand]
        if broke and self._first("top up", hand):
            with contextlib.suppress(grpc.aio.AioRpcError):  # perhaps it was done before the connection was lost
                await room.TopUp(
                    table_pb2.TopUpRequest(
                        table=self.table, amount_cents=self.buy_in, request_id=secrets.token_bytes(8)
                    )
                )
            await room.SitIn(table_pb2.SitInRequest(table=self.table, post=True))
        if state.choices and self._first("act", hand, state.decision):
            await room.Act(self.choose(state))

    def _first(self, what: str, hand: int, decision: int = 0) -> bool:
        new = (what, hand, decision) not in self._done
        self._done.add((what, hand, decision))
        return new

    def choose(self, state: table_pb2.TableState) -> table_pb2.ActRequest:
        choices = [c for c in state.choices if c.action != table_pb2.ACTION_FOLD or self.rng.random() < 0.2]
        choice = self.rng.choice(choices or list(state.choices))
        request = table_pb2.ActRequest(table=self.table, hand=state.hand, decision=state.decision, action=choice.action)
        if choice.action == table_pb2.ACTION_DISCARD:
            size = self.rules.deck_size(sum(seat.in_hand for seat in state.seats))
            thrown = self.rng.sample(sorted(self.cards.values()), self.rng.randint(1, choice.most_cards))
            request.cards.extend(of_item(item, size) for item in thrown)
        elif choice.highest_cents:
            request.to_cents = self.rng.randint(choice.lowest_cents, choice.highest_cents)
        return request

    async def history(self, hand: int) -> bytes:
        """Fetch the player's own history of a hand, with his own seed in its receipt."""
        async with stub(self.house.address, self.house.token(self.name)) as room:
            answer = await room.GetHistory(table_pb2.GetHistoryRequest(table=self.table, hand=hand))
        written = json.loads(answer.json)
        if hand in self.revealed:
            written["receipt"] = json.loads(self.own_seeds[hand].with_own(json.dumps(written["receipt"]).encode()))
        return json.dumps(written).encode()


async def seated(house: House, game: str, names: list[str], *, seed: int = 1) -> list[Player]:
    """Open a table and have players sit at it."""
    table = await open_table(house, game)
    players = [Player(house, name, table, game, seed + n) for n, name in enumerate(names)]
    for number, player in enumerate(players):
        async with stub(house.address, house.token(player.name)) as room:
            await room.Sit(
                table_pb2.SitRequest(
                    table=table, seat=number + 1, amount_cents=player.buy_in, request_id=secrets.token_bytes(8)
                )
            )
    return players


async def all_in(players: list[Player]) -> None:
    """Have everybody say that he plays."""
    for player in players:
        async with stub(player.house.address, player.house.token(player.name)) as room:
            await room.SitIn(table_pb2.SitInRequest(table=player.table, post=True))


async def until_over(players: list[Player], hands: int) -> None:
    """Have all play until everybody has seen the end of so many more hands."""
    before = {player.name: len(player.hands_over) for player in players}
    playing = [asyncio.create_task(player.play()) for player in players]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while any(len(player.hands_over) < before[player.name] + hands for player in players):
                await asyncio.sleep(0.02)
                for task in playing:
                    if task.done():
                        task.result()
    finally:
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)


async def play_hands(players: list[Player], hands: int) -> None:
    """Have everybody say that he plays, and all play so many hands."""
    await all_in(players)
    await until_over(players, hands)
