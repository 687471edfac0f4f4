"""Between protobuf messages and the dealer's records: every bound of the proto's comments is checked here, once."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from dealer.actions import Act, Choice
from dealer.blinds import Owes
from dealer.cards import NAMES
from dealer.clocks import Turn
from dealer.history import visible_events
from dealer.state import Hand, NeedAction
from dealer.stub import Location
from dealer.table import Status
from dealer.table_commands import Play
from dealer.table_live import LiveTable, Phase
from dealer.v1 import table_pb2
from rngsvc.client import Opening
from rngsvc.protocol.commitment import HASH_BYTES, MAX_CONTRIBUTION_BYTES, MAX_SEQ, MIN_CONTRIBUTION_BYTES, TABLE_BYTES

MAX_PAGE: Final = 1_000
_DEFAULT_PAGE: Final = 100
_MAX_REQUEST_ID: Final = 64

_PHASES: Final = {
    Phase.WAITING: table_pb2.PHASE_WAITING,
    Phase.PROMISES: table_pb2.PHASE_PROMISES,
    Phase.REVEALS: table_pb2.PHASE_REVEALS,
    Phase.PLAYING: table_pb2.PHASE_PLAYING,
    Phase.CLOSING: table_pb2.PHASE_CLOSING,
}
_STATUSES: Final = {
    Status.OPEN: table_pb2.TABLE_STATUS_OPEN,
    Status.CLOSING: table_pb2.TABLE_STATUS_CLOSING,
    Status.CLOSED: table_pb2.TABLE_STATUS_CLOSED,
}
_OWES: Final = {
    Owes.NOTHING: table_pb2.OWES_UNSPECIFIED,
    Owes.NEWCOMER: table_pb2.OWES_NEWCOMER,
    Owes.MISSED_SMALL: table_pb2.OWES_MISSED_SMALL,
    Owes.MISSED_BIG: table_pb2.OWES_MISSED_BIG,
}
ACTIONS: Final = {
    Act.FOLD: table_pb2.ACTION_FOLD,
    Act.CHECK: table_pb2.ACTION_CHECK,
    Act.CALL: table_pb2.ACTION_CALL,
    Act.BRING_IN: table_pb2.ACTION_BRING_IN,
    Act.COMPLETE: table_pb2.ACTION_COMPLETE,
    Act.BET: table_pb2.ACTION_BET,
    Act.RAISE: table_pb2.ACTION_RAISE,
    Act.DISCARD: table_pb2.ACTION_DISCARD,
    Act.STAND_PAT: table_pb2.ACTION_STAND_PAT,
    Act.SHOW: table_pb2.ACTION_SHOW,
    Act.MUCK: table_pb2.ACTION_MUCK,
}
_ACTS: Final = {number: act for act, number in ACTIONS.items()}
_WITH_TOTAL: Final = (Act.CALL, Act.BRING_IN, Act.COMPLETE, Act.BET, Act.RAISE)


class InvalidField(Exception):
    """A field of a request is malformed: its name as in the proto, and what is allowed."""

    def __init__(self, field: str, allowed: str) -> None:
        super().__init__(f"{field}: {allowed}")
        self.field = field
        self.allowed = allowed


# --- Requests ---


def table_id(value: bytes, field: str = "table") -> bytes:
    """Return a table's id."""
    if len(value) != TABLE_BYTES:
        raise InvalidField(field, f"must be {TABLE_BYTES} bytes")
    return value


def hand_number(value: int) -> int:
    """Return a hand's sequence number; 0 is none."""
    if value > MAX_SEQ:
        raise InvalidField("hand", f"must be at most {MAX_SEQ}")
    return value


def request_id(player: str, value: bytes) -> bytes:
    """Return what names a player's request in the room: two players may choose the same id."""
    if not 1 <= len(value) <= _MAX_REQUEST_ID:
        raise InvalidField("request_id", f"must be 1..{_MAX_REQUEST_ID} bytes")
    return player.encode() + b"/" + value


def amount(value: int) -> int:
    """Return an amount of cents."""
    if not 1 <= value <= MAX_SEQ:
        raise InvalidField("amount_cents", f"must be 1..{MAX_SEQ}")
    return value


def page_size(value: int) -> int:
    """Return how many tables are wanted."""
    if value > MAX_PAGE:
        raise InvalidField("page_size", f"must be at most {MAX_PAGE}")
    return value or _DEFAULT_PAGE


def promised(value: bytes) -> bytes:
    """Return a promise."""
    if len(value) != HASH_BYTES:
        raise InvalidField("promise", f"must be {HASH_BYTES} bytes")
    return value


def seed(value: bytes) -> bytes:
    """Return a player's own seed."""
    if not MIN_CONTRIBUTION_BYTES <= len(value) <= MAX_CONTRIBUTION_BYTES:
        raise InvalidField("seed", f"must be {MIN_CONTRIBUTION_BYTES}..{MAX_CONTRIBUTION_BYTES} bytes")
    return value


def play(player: str, request: table_pb2.ActRequest) -> Play:
    """Return the action of an `ActRequest`."""
    act = _ACTS.get(request.action)
    if act is None:
        raise InvalidField("action", f"must be one of {', '.join(map(table_pb2.Action.Name, _ACTS))}")
    if request.to_cents > MAX_SEQ:
        raise InvalidField("to_cents", f"must be at most {MAX_SEQ}")
    if request.to_cents and act not in _WITH_TOTAL:
        raise InvalidField("to_cents", f"must be 0 for {table_pb2.Action.Name(request.action)}")
    if act is not Act.DISCARD and request.cards:
        raise InvalidField("cards", "must be empty but for ACTION_DISCARD")
    if any(card >= len(NAMES) for card in request.cards) or len(set(request.cards)) < len(request.cards):
        raise InvalidField("cards", f"must be different codes 0..{len(NAMES) - 1}")
    to = request.to_cents or None
    return Play(player, hand_number(request.hand), request.decision, act, to, tuple(request.cards))


# --- Answers ---


def summary(live: LiveTable) -> table_pb2.TableSummary:
    """Return a table as a lobby shows it."""
    return table_pb2.TableSummary(
        table=live.id,
        game=live.rules.name,
        title=live.rules.title,
        stakes=live.stakes.name,
        seats=live.rules.most_players,
        players=len(live.table.seats),
        buy_in_cents=live.stakes.buy_in,
        status=_STATUSES[live.status],
    )


def state(live: LiveTable, player: str) -> table_pb2.TableState:
    """Return a table at this moment, as ``player`` may see it."""
    table = live.table
    hand = table.hand if table.playing else None
    asked = hand.awaits if hand and isinstance(hand.awaits, NeedAction) else None
    his_turn = asked is not None and table.seats[asked.seat].player == player
    in_hand = hand.seats if hand else ()
    return table_pb2.TableState(
        time_ms=live.now_ms(),
        phase=_PHASES[live.phase],
        hand=live.seq if live.phase in (Phase.PROMISES, Phase.REVEALS) else table.number,
        seats=[
            table_pb2.SeatState(
                seat=number,
                player=seat.player,
                stack_cents=table.stack(number),
                sits_out=seat.sits_out,
                owes=_OWES[seat.owes],
                connected=seat.connected,
                in_hand=number in in_hand,
            )
            for number, seat in sorted(table.seats.items())
        ],
        button=hand.button if hand else 0,
        street=hand.street_name if hand else "",
        pots=_pots(hand) if hand else [],
        decision=table.turns,
        turn=_turn(table.turn) if asked else None,
        choices=_choices(asked.choices) if asked and his_turn else [],
        delay=live.delay,
        window_ends_ms=live.window_ends_ms,
        status=_STATUSES[live.status],
    )


def _pots(hand: Hand) -> list[table_pb2.Pot]:
    return [table_pb2.Pot(name=name, total_cents=total, seats=seats) for name, total, seats in hand.pots()]


def _turn(turn: Turn | None) -> table_pb2.Turn | None:
    return turn and table_pb2.Turn(seat=turn.seat, timer_ms=turn.timer_ms, deadline_ms=turn.deadline_ms)


def _choices(choices: Iterable[Choice]) -> list[table_pb2.Choice]:
    return [
        table_pb2.Choice(action=ACTIONS[each.act], most_cards=each.highest)
        if each.act is Act.DISCARD
        else table_pb2.Choice(
            action=ACTIONS[each.act],
            lowest_cents=each.lowest,
            highest_cents=each.highest,
            adds_cents=each.adds,
        )
        for each in choices
    ]


class View:
    """One watcher's stream: what he has been sent, so that `next` gives the rest."""

    def __init__(self, live: LiveTable, player: str) -> None:
        self._live = live
        self._player = player
        self._hand = -1
        self._events = 0
        self._openings: set[Location] = set()
        self._receipt = -1
        self._state: table_pb2.TableState | None = None

    def next(self) -> table_pb2.WatchResponse | None:
        """Return the table now, and what is new to the watcher; None if nothing is.

        That something happened which he may not know of, such as a fold that is kept (P7-6), must not show either.
        """
        live = self._live
        hand = live.table.hand
        if live.table.number != self._hand:
            self._hand, self._events, self._openings = live.table.number, 0, set()
        events: Sequence[object] = ()
        if hand is not None:
            events = visible_events(hand, live.viewer(self._player), self._events)
            self._events = len(hand.events)
        openings = [(at, each) for at, each in live.openings_for(self._player) if at not in self._openings]
        self._openings.update(at for at, _ in openings)
        receipt = live.receipt if live.receipt_version != self._receipt else ""
        self._receipt = live.receipt_version
        now = state(live, self._player)
        timeless = table_pb2.TableState()
        timeless.CopyFrom(now)
        timeless.time_ms = 0
        if not (events or openings or receipt) and timeless == self._state:
            return None
        self._state = timeless
        return table_pb2.WatchResponse(
            state=now,
            events=[table_pb2.HandEvent(json=json.dumps(event, separators=(",", ":"))) for event in events],
            openings=[_opening(each) for _, each in openings],
            receipt=receipt,
        )


def _opening(opening: Opening) -> table_pb2.Opening:
    return table_pb2.Opening(k=opening.k, place=opening.place, item=opening.item, salt=opening.salt)
