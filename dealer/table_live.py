"""One table going on by itself: it waits for players, has shoes sealed, deals, runs clocks and keeps everything.

Each command and each step towards a hand is stored before anybody is shown what came of it. A table that is loaded
again from its journal is in the same place and asks the shuffle service for the same things again, so that a killed
dealer goes on with the same cards. Nothing here knows gRPC.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

import structlog

from dealer.cashier import RAKE, Cashier, Transfer, rack
from dealer.events import CommunityCard, Dealt
from dealer.history import Reader, Viewer, history, open_locations
from dealer.house_rules import HouseRules, Stakes
from dealer.shufflers import CardsLost, NotTrusted, SealedShoe
from dealer.state import Hand, NeedAction, NeedCards
from dealer.store import FinishedHand, Store, StoredTable, StoreFailed, StoreLost
from dealer.stub import Location
from dealer.table import Refused, Status, Table
from dealer.table_commands import (
    Begin,
    Close,
    Command,
    Connected,
    Delay,
    Disconnected,
    DrawButton,
    Play,
    Reshuffle,
    Sit,
    Supply,
    Tick,
    TopUp,
    Void,
    decode,
    encode,
)
from rngsvc import client
from rngsvc.protocol.commitment import promise

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 5.0
_REMEMBERED_REQUESTS: Final = 256
_BUTTON: Final = b"button"

_log = structlog.get_logger("dealer.table_live")


class Phase(Enum):
    """What a table is doing."""

    WAITING = "waiting"
    PROMISES = "promises"
    REVEALS = "reveals"
    PLAYING = "playing"
    CLOSING = "closing"


class Decision(NamedTuple):
    """A player's decision as the house counts it: how long it took, and whether the clock made it for him."""

    game: str
    seconds: float
    by_clock: bool


class LiveTable:
    """A stored table and everything that happens to it. `run` is its life; the other methods answer callers.

    ``register`` gives the table at the shuffle service; ``clock`` the time in ms since 1970; ``decided`` is told of
    each decision.
    """

    def __init__(
        self,
        stored: StoredTable,
        rules: HouseRules,
        stakes: Stakes,
        store: Store,
        cashier: Cashier,
        register: Callable[[bytes], Any],
        clock: Callable[[], int],
        decided: Callable[[Decision], None] = lambda _: None,
    ) -> None:
        self.id = stored.table
        self.rules = rules
        self.stakes = stakes
        self._store = store
        self._cashier = cashier
        self._register = register
        self._clock = clock
        self._decided = decided
        self._now = 0
        # What is in memory may not be what is stored.
        self._stale = False
        self._no_new_hand = False
        self._at_service: client.Table | None = None
        self._shoe: SealedShoe | None = None
        self._distrust: NotTrusted | None = None
        self._changed = asyncio.Event()
        self._watchers: dict[str, int] = {}
        # Why the game does not go on before a hand; in a hand the table itself says it.
        self._delay = ""
        self.phase = Phase.WAITING
        self.window_ends_ms = 0
        self.version = 0
        self.receipt = ""
        self.receipt_version = 0
        self._load(stored)

    # --- what is kept

    def _load(self, stored: StoredTable) -> None:
        snapshot = stored.snapshot
        self.table = (
            Table.read(self.rules, self.stakes, snapshot["table"]) if snapshot else Table(self.rules, self.stakes)
        )
        self._last_seq: int = snapshot["seq"] if snapshot else 0
        self._requests: dict[str, dict[str, Any]] = dict(snapshot["requests"]) if snapshot else {}
        self.dealt: dict[str, int] = {}
        # The hand that is being prepared, played or closed at the shuffle service; 0 for none.
        self.seq = 0
        # For the first button a number is drawn instead, among these seats.
        self._draw_among: tuple[int, ...] = ()
        self._promises: dict[bytes, bytes] | None = None
        self._seeds: dict[bytes, bytes] | None = None
        self.given_promises: dict[bytes, bytes] = {}
        self.given_seeds: dict[bytes, bytes] = {}
        # The store is a copy, and its original may have dealt on: nobody here knows what players have seen of the hand.
        self._is_copy = False
        for entry in stored.journal:
            self._replay(entry)

    def _replay(self, entry: Mapping[str, Any]) -> None:
        if "note" in entry:
            self._noted(entry)
            return
        fields = dict(entry)
        request = fields.pop("request", None)
        command, now_ms = decode(fields)
        self._now = now_ms
        self._do(command, now_ms)
        if request is not None:
            self._requests[request] = fields | {"at": 0}
        self.table.take_cash_outs()

    def _noted(self, entry: Mapping[str, Any]) -> None:
        """Take a step towards a hand, or its end, that is stored by now."""
        match entry["note"]:
            case "reserve":
                self.seq, self._draw_among = entry["seq"], tuple(entry["draw"])
                self._promises = self._seeds = None
                self.given_promises, self.given_seeds = {}, {}
            case "promises":
                self._promises = _from_hex(entry["promises"])
            case "seeds":
                self._seeds = _from_hex(entry["seeds"])
            case "closed":
                self._last_seq, self.seq = entry["seq"], 0
            case "copied":
                self._is_copy = True
            case other:
                raise AssertionError(f"the journal has a note {other}")

    def _note(self, note: str, **fields: Any) -> None:
        self.refresh()
        entry = {"note": note, **fields}
        self._append([entry], [])
        self._noted(entry)

    def _append(self, entries: list[dict[str, Any]], transfers: list[Transfer]) -> None:
        try:
            self._store.append(self.id, entries, transfers)
        except StoreFailed:
            self._stale = True
            with contextlib.suppress(StoreFailed):
                self.refresh()
            raise
        self._cashier.post(transfers)

    def refresh(self) -> None:
        """Be what is stored, if a write has failed since. Raises StoreFailed; then nobody may be shown anything."""
        if self._stale:
            self._load(self._store.table(self.id))
            self._cashier.load(self._store.balances())
            self._stale = False
            self._wake()

    def do(self, command: Command, *, request: bytes = b"", transfers: Iterable[Transfer] = ()) -> None:
        """Carry a command out and keep it. A ``request`` or an action that was carried out before changes nothing.

        Raises Refused, IllegalAction, or StoreFailed; then nothing has changed.
        """
        self.refresh()
        if isinstance(command, Play) and self.table.repeats(command):
            return
        entry = encode(command, self.now_ms())
        key = request.hex()
        if key in self._requests:
            if self._requests[key] != entry | {"at": 0}:
                raise Refused("request_id", "must be a fresh one: it named another request before")
            return
        turn, turns = self.table.turn, self.table.turns
        self._do(command, entry["at"])
        self._append(
            [entry | ({"request": key} if key else {})],
            [*transfers, *self._cashed_out()],
        )
        if turn is not None and self.table.turns != turns:
            self._decided(Decision(self.rules.name, (entry["at"] - turn.asked_ms) / 1000, isinstance(command, Tick)))
        if key:
            self._requests[key] = entry | {"at": 0}
            while len(self._requests) > _REMEMBERED_REQUESTS:
                del self._requests[next(iter(self._requests))]
        self._wake()

    def _do(self, command: Command, now_ms: int) -> None:
        self.table.do(command, now_ms)
        if isinstance(command, Begin):
            assert self.table.hand is not None, "it has just begun"
            self._is_copy = False
            self.dealt = {self.table.seats[seat].player: seat for seat in self.table.hand.seats}

    def _cashed_out(self) -> list[Transfer]:
        table = self.id.hex()
        transfers: list[Transfer] = []
        for player, amount in self.table.take_cash_outs():
            if player is None:
                transfers.append(Transfer(rack(table), RAKE, amount))
            else:
                transfers += self._cashier.takes(player, table, amount)
        return transfers

    def now_ms(self) -> int:
        """Return the time; it never goes back at a table."""
        self._now = max(self._now, self._clock())
        return self._now

    # --- callers

    def sit(self, player: str, seat: int, amount: int, request: bytes) -> None:
        """Give a player a seat and his chips. Raises as `do`, and NotEnough."""
        self.refresh()
        command = Sit(player, seat, amount)
        if request.hex() not in self._requests:
            self.table.may_sit(command)
        self.do(command, request=request, transfers=self._brought(player, amount, request))
        if not self._watchers.get(player) and self.table.seat_of(player).connected:
            self.do(Disconnected(player))

    def top_up(self, player: str, amount: int, request: bytes) -> None:
        """Give a seated player more chips. Raises as `do`, and NotEnough."""
        self.do(TopUp(player, amount), request=request, transfers=self._brought(player, amount, request))

    def close(self) -> None:
        """Close the table for good; a repeat changes nothing. Raises StoreFailed."""
        self.refresh()
        if not self.table.is_closed:
            self.do(Close())

    def _brought(self, player: str, amount: int, request: bytes) -> list[Transfer]:
        """Return what the cashier books for chips that a player brings; nothing for a repeated request."""
        return [] if request.hex() in self._requests else self._cashier.brings(player, self.id.hex(), amount)

    def promise_seed(self, player: str, hand: int, promised: bytes) -> None:
        """Take a seated player's promise for the coming hand. Raises Refused."""
        self._in_window(player, hand, Phase.PROMISES, self._promises)
        if self.given_promises.setdefault(player.encode(), promised) != promised:
            raise Refused("promise", "must be the one that was given before")
        self._wake()

    def reveal_seed(self, player: str, hand: int, seed: bytes) -> None:
        """Take the seed that a player has promised. Raises Refused."""
        self._in_window(player, hand, Phase.REVEALS, self._seeds)
        assert self._at_service is not None, "the window opens after the reserve"
        origin = self._at_service.connection.origin
        if promise(origin, self.id, hand, player.encode(), seed) != (self._promises or {}).get(player.encode()):
            raise Refused("seed", "must be the promised one")
        self.given_seeds[player.encode()] = seed
        self._wake()

    def _in_window(self, player: str, hand: int, phase: Phase, noted: Mapping[bytes, bytes] | None) -> None:
        self.table.seat_of(player)
        if hand != self.seq or self._draw_among:
            raise Refused("hand", f"must be the coming one, {self.seq or 'and none is coming'}")
        if self.phase is not phase or noted is not None:
            raise Refused("hand", f"must be one for which {phase.value} are asked for now")

    def watches(self, player: str) -> None:
        """Count a watcher; a seated player is connected while he watches."""
        self._watchers[player] = self._watchers.get(player, 0) + 1
        self._connection(player, connected=True)

    def watches_no_more(self, player: str) -> None:
        """Count a watcher less."""
        self._watchers[player] -= 1
        if not self._watchers[player]:
            del self._watchers[player]
            self._connection(player, connected=False)

    def _connection(self, player: str, *, connected: bool) -> None:
        seated = [seat for seat in self.table.seats.values() if seat.player == player]
        if seated and seated[0].connected != connected:
            self.do(Connected(player) if connected else Disconnected(player))

    @property
    def delay(self) -> str:
        """Why the game does not go on; empty if it does."""
        return self.table.delayed.why if self.table.delayed and self.table.playing else self._delay

    def viewer(self, player: str) -> Viewer:
        """Return as what a player sees the hand of the table: his seat in it, or a bystander."""
        return self.dealt.get(player, Reader.BYSTANDER)

    def openings_for(self, player: str) -> list[tuple[Location, client.Opening]]:
        """Return the openings that a player may see while he watches: his own cards, and what lies open to all."""
        hand, shoe = self.table.hand, self._shoe
        if hand is None or shoe is None or shoe.seq != self.table.number:
            return []
        public = open_locations(hand, Reader.BYSTANDER) or set()
        seat = self.viewer(player)
        own = {Location(event.k, event.p) for event in hand.events if isinstance(event, Dealt) and event.seat == seat}
        # After a restart they become known one after the other.
        return [(location, shoe.openings[location]) for location in sorted(public | own) if location in shoe.openings]

    async def changes(self, seen: int) -> None:
        """Wait until there is something newer than version ``seen``."""
        while self.version == seen:
            await self._changed.wait()

    def _wake(self) -> None:
        self.version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait(self, until_ms: int | None) -> None:
        """Wait for a change, or until a time."""
        timeout_s = None if until_ms is None else max(0.0, (until_ms - self.now_ms()) / 1000)
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    # --- the life of a table

    async def run(self) -> None:
        """Let the table go on until cancelled. Only a defect, or a store that is lost, ends it with an exception."""
        pause_s = 0.0
        while True:
            try:
                self.refresh()
                for seat in list(self.table.seats.values()):
                    self._connection(seat.player, connected=seat.player in self._watchers)
                await self._pause(pause_s)
                await self._step()
            except StoreLost:
                raise
            except (CardsLost, StoreFailed) as error:
                if isinstance(error, NotTrusted) and self._distrust is None:
                    _log.critical("the table deals no more", table=self.id.hex(), hand=self.seq, exc_info=error)
                    self._distrust = error
                self._lost(str(error))
                pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            else:
                pause_s = 0.0
                if self._delay:
                    self._delay = ""
                    self._wake()

    def finish(self) -> None:
        """Begin no hand any more; the one that is being played goes on."""
        self._no_new_hand = True
        self._wake()

    @property
    def in_hand(self) -> bool:
        """Say whether a hand has begun that is not closed at the shuffle service yet."""
        return self.table.playing or (self.seq != 0 and self.table.number == self.seq)

    @property
    def status(self) -> Status:
        """Say whether the table takes players; it is closed only when the last hand's history can be had."""
        status = self.table.status
        return Status.CLOSING if status is Status.CLOSED and self.in_hand else status

    @property
    def distrusts(self) -> bool:
        """Say whether the shuffle service gave an answer that proves nothing, so that the table deals no more."""
        return self._distrust is not None

    def _lost(self, why: str) -> None:
        """Say why there are no cards (AL-22)."""
        self._shoe = None
        self._delay = why
        hand = self.table.hand
        if self.table.playing and hand is not None and not isinstance(hand.awaits, NeedAction):
            try:
                self.do(Delay(why))
            except StoreFailed:
                return
        self._wake()

    async def _pause(self, seconds: float) -> None:
        """Wait before trying again, but not beyond the time at which the hand is void."""
        end = self.now_ms() + int(1000 * seconds)
        while self.now_ms() < (until := min(end, self.table.next_deadline_ms() or end)):
            await self._wait(until)
        self._tick()

    def _tick(self) -> None:
        deadline = self.table.next_deadline_ms()
        if deadline is not None and self.now_ms() >= deadline:
            self.do(Tick())

    async def _step(self) -> None:
        """Do the next thing there is to do, once."""
        hand = self.table.hand
        if self.table.playing and hand is not None:
            self._enter(Phase.PLAYING)
            if self._is_copy or (await self._reserved()).state == "closed":
                # Its cards may have been seen, or can be opened no more.
                self.do(Void("the hand was given up after a loss"))
                return
            await self._sealed(hand)
            if self.table.hand is not hand:
                return
            if isinstance(hand.awaits, NeedAction):
                self._tick()
                if self.table.hand is hand:
                    await self._wait(self.table.next_deadline_ms())
            else:
                await self._deal(hand)
        elif self.seq and self.table.number == self.seq and hand is not None:
            self._enter(Phase.CLOSING)
            await self._close(hand)
        elif self._no_new_hand:
            self._enter(Phase.WAITING)
            await self._wait(None)
        elif self.seq and self._draw_among:
            await self._draw_button()
        elif self.seq:
            await self._prepare()
        elif self.table.next_deal() or self.table.must_draw_button():
            self._note("reserve", seq=self._last_seq + 1, draw=self.table.must_draw_button())
        else:
            self._enter(Phase.WAITING)
            await self._wait(None)

    def _enter(self, phase: Phase, window_ends_ms: int = 0) -> None:
        if (self.phase, self.window_ends_ms) != (phase, window_ends_ms):
            self.phase, self.window_ends_ms = phase, window_ends_ms
            self._wake()

    async def _reserved(self) -> SealedShoe:
        """Return the shoe of the hand that is noted, reserved at the shuffle service.

        After one answer that proves nothing the service is asked nothing more for this table, until a person has looked
        at it and started the dealer again.
        """
        if self._distrust is not None:
            raise self._distrust
        if self._at_service is None:
            self._at_service = await self._register(self.id)
        if self._shoe is None or self._shoe.seq != self.seq:
            self._shoe = await SealedShoe.at(self._at_service, self.seq)
        return self._shoe

    def _show_receipt(self, shoe: SealedShoe) -> None:
        receipt = shoe.receipt([]).decode("ascii")
        if receipt != self.receipt:
            self.receipt = receipt
            self.receipt_version += 1
            self._wake()

    async def _draw_button(self) -> None:
        """PK-14: the shuffle service draws the first button."""
        shoe = await self._reserved()
        if shoe.state in ("reserved", "drawn"):
            drawn = self._draw_among[await shoe.draw(_BUTTON, len(self._draw_among))]
            if drawn in self.table.must_draw_button():
                self.do(DrawButton(drawn))
        await self._leave(shoe, "complete")

    async def _leave(self, shoe: SealedShoe, outcome: str, reason: str = "players_left") -> None:
        """Close a hand in which no card was dealt."""
        if shoe.state != "closed":
            await shoe.close(outcome, "" if outcome == "complete" else reason)
        self._note("closed", seq=self.seq)

    # --- before the deal

    async def _prepare(self) -> None:
        """Have seeds promised, logged and revealed; then begin the hand."""
        shoe = await self._reserved()
        if shoe.state == "sealed":
            # A hand is sealed after it has begun here: so our store is an older copy, and its cards may have been seen.
            _log.error("a hand that the store does not know is given up", table=self.id.hex(), hand=self.seq)
            await self._leave(shoe, "aborted", "caller")
            return
        if shoe.state == "closed" or self.table.next_deal() is None:
            await self._leave(shoe, "aborted")
            return
        self._show_receipt(shoe)
        window_ms = 500 * self.rules.seed_window_s
        if self._promises is None:
            await self._window(Phase.PROMISES, window_ms, self.given_promises, self._present)
            self._note("promises", promises=_to_hex(self.given_promises))
        assert self._promises is not None, "noted above or before"
        if self._promises and shoe.state == "reserved":
            await shoe.promise(self._promises)
        self._show_receipt(shoe)
        if self._seeds is None:
            promises = self._promises
            await self._window(Phase.REVEALS, window_ms, self.given_seeds, lambda: set(promises))
            self._note("seeds", seeds=_to_hex(self.given_seeds))
        if self.table.next_deal() is None:
            await self._leave(shoe, "aborted")
        elif not self._no_new_hand:
            self.do(Begin(self.seq))

    def _present(self) -> set[bytes]:
        """Who can be expected to promise: ready players who watch."""
        return {seat.player.encode() for seat in self.table.seats.values() if seat.ready and seat.connected}

    async def _window(
        self, phase: Phase, length_ms: int, given: Mapping[bytes, bytes], expected: Callable[[], set[bytes]]
    ) -> None:
        """Wait until all whom one can expect have given theirs, or the window closes."""
        ends = self.now_ms() + length_ms
        self._enter(phase, ends)
        while not expected() <= set(given) and self.now_ms() < ends:
            await self._wait(ends)

    # --- the hand

    async def _sealed(self, hand: Hand) -> SealedShoe:
        """Return the hand's shoe, sealed; after a restart or a lost connection with all that was opened before."""
        shoe = await self._reserved()
        assert self._seeds is not None, "they are noted before the hand begins"
        if not shoe.knows_its_shuffle:
            await shoe.seal(hand.deck_size, self._seeds)
            await shoe.reopen(_opened(hand))
            self._show_receipt(shoe)
        return shoe

    async def _deal(self, hand: Hand) -> None:
        """Give the hand the cards or the shuffle that it waits for."""
        shoe = await self._sealed(hand)
        dealt = await shoe.answer(hand)
        if self.table.hand is None or self.table.hand.awaits is not hand.awaits:
            return  # meanwhile the hand was declared void
        if isinstance(hand.awaits, NeedCards):
            new = [event for event in dealt.events[len(hand.events) :] if isinstance(event, Dealt | CommunityCard)]
            self.do(Supply(tuple(event.card for event in new)))
        else:
            self._show_receipt(shoe)
            self.do(Reshuffle())

    async def _close(self, hand: Hand) -> None:
        """Close the hand at the shuffle service, and keep its history."""
        shoe = await self._reserved()
        aborted = self.table.outcome == "aborted"
        if shoe.roots:  # a hand can be void before it was sealed
            await self._sealed(hand)
        if shoe.state != "closed":
            await shoe.close(self.table.outcome, "rng_lost" if aborted else "")
        self._show_receipt(shoe)
        players = {seat: player for player, seat in self.dealt.items()}
        house = history(hand, Reader.HOUSE, names=players)
        finished = FinishedHand(self.id, self.seq, players, json.dumps(house), shoe.receipt().decode("ascii"))
        snapshot = {"table": self.table.written(), "seq": self.seq, "requests": self._requests}
        self._store.finish(finished, snapshot)
        self._last_seq, self.seq = self.seq, 0
        self._enter(Phase.WAITING)


def _opened(hand: Hand) -> list[Location]:
    """Return all locations that were opened in a hand so far."""
    return [Location(event.k, event.p) for event in hand.events if isinstance(event, Dealt | CommunityCard)]


def _to_hex(pairs: Mapping[bytes, bytes]) -> dict[str, str]:
    return {key.hex(): value.hex() for key, value in pairs.items()}


def _from_hex(pairs: Mapping[str, str]) -> dict[bytes, bytes]:
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in pairs.items()}
