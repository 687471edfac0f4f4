"""One table: seats, chips, button, clocks, and the hand that is being played. No I/O; the time comes as an argument.

`Table.do` takes a command and the time, or refuses it and changes nothing. In between the table says what it waits for:
players, a drawn button, cards (``hand.awaits``), or the next deadline. The rules are those of `docs/table.md`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from dealer import clocks
from dealer.actions import Act, Action
from dealer.blinds import Blinds, Deal, Owes, next_deal, owed_on_sitting_down
from dealer.clocks import Turn
from dealer.events import Protected
from dealer.hand import apply, reshuffled, start, supply, time_out, void
from dealer.house_rules import AntePosting, Button, BuyIn, HouseRules, Stakes
from dealer.seats import Seat
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards, NeedShuffle
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
    SitIn,
    SitOut,
    Stand,
    Supply,
    Tick,
    TopUp,
    Void,
)


class Refused(Exception):
    """The table does not take the command as it stands now; nothing has changed.

    ``field`` is what is wrong, by its name at the interface, ``allowed`` what may be.
    """

    def __init__(self, field: str, allowed: str) -> None:
        super().__init__(f"{field}: {allowed}")
        self.field = field
        self.allowed = allowed


class OutOfBounds(Refused):
    """The field has a value that this house never takes, however the table stands; nothing has changed."""


class Status(Enum):
    """Whether a table takes players: it does; it plays its last hand; it is closed and empty."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class CashOut(NamedTuple):
    """Chips that leave the table: a player's, or the house's rake (``player`` is None)."""

    player: str | None
    amount: int


class Delayed(NamedTuple):
    """Cards cannot be had since ``since_ms``, and why (AL-22)."""

    since_ms: int
    why: str


class Table:
    """A table of one game at one stake. Change it by `do` only; read it freely."""

    def __init__(self, rules: HouseRules, stakes: Stakes) -> None:
        self.rules = rules
        self.stakes = stakes
        self.seats: dict[int, Seat] = {}
        # An operator has closed it, for good.
        self.is_closed = False
        self.last_blinds: Blinds | None = None
        self.drawn_button: int | None = None
        self.protections: dict[str, tuple[str, int]] = {}
        # The hand that is being played, or the last one until the next begins.
        self.number = 0
        self.hand: Hand | None = None
        self.outcome = ""
        self.turn: Turn | None = None
        self.acts: list[Play | None] = []
        self.delayed: Delayed | None = None
        # What goes to the cashier; whoever stores it takes it away.
        self.cash_outs: list[CashOut] = []
        self._chips = 0
        self._before: tuple[Blinds | None, Mapping[int, Owes]] = (None, {})

    # --- reading

    @property
    def playing(self) -> bool:
        """Say whether a hand is being played."""
        return self.hand is not None and not self.hand.over

    @property
    def turns(self) -> int:
        """The number of the present decision of this hand, counted from 0."""
        return len(self.acts)

    @property
    def status(self) -> Status:
        """Say whether the table takes players."""
        if not self.is_closed:
            return Status.OPEN
        return Status.CLOSING if self.seats else Status.CLOSED

    def seat_of(self, player: str) -> Seat:
        """Return a player's seat. Raises Refused."""
        for seat in self.seats.values():
            if seat.player == player:
                return seat
        raise Refused("table", f"must be one at which {player} has a seat")

    def repeats(self, command: Play) -> bool:
        """Say whether an action was carried out in this hand already, so that its sender may send it again (AL-7)."""
        if self.hand is None or command.hand != self.number:
            return False
        if command in self.acts[command.turn : command.turn + 1]:
            return True
        if command.act is not Act.FOLD or not self.playing:
            return False
        return command.player in [self.seats[self.hand.seats[n]].player for n in self.hand.kept_folds]

    def stack(self, seat: int) -> int:
        """Return the chips in front of a seat now."""
        return self.hand.stack(seat) if self.hand and self._in_hand(seat) else self.seats[seat].stack

    def must_draw_button(self) -> tuple[int, ...]:
        """Return the seats among which the shuffle service is to draw the first button; empty if it need not."""
        ready = tuple(sorted(seat.seat for seat in self.seats.values() if seat.ready))
        needs = self.rules.button is Button.MOVES and self.last_blinds is None and self.drawn_button not in ready
        return ready if needs and len(ready) >= self.rules.fewest_players and not self.playing else ()

    def next_deal(self) -> Deal | None:
        """Return the hand that would begin now; None while one is played or too few are ready (AL-21)."""
        if self.playing or self.must_draw_button():
            return None
        chairs = [self.seats[number].chair for number in sorted(self.seats)]
        return next_deal(self.rules, self.stakes, chairs, self.last_blinds, self.drawn_button)

    def next_deadline_ms(self) -> int | None:
        """Return when `Tick` will next have something to do."""
        if self.delayed and self.playing:
            return self.delayed.since_ms + 1000 * self.rules.void_after_s
        return self.turn.deadline_ms if self.turn else None

    def _in_hand(self, seat: int) -> bool:
        return self.playing and self.hand is not None and seat in self.hand.seats

    # --- changing

    def do(self, command: Command, now_ms: int) -> None:  # noqa: C901, PLR0912  (one arm for each command)
        """Carry a command out. Raises Refused or IllegalAction and then changes nothing."""
        match command:
            case Sit():
                self._sit(command)
            case TopUp():
                self._top_up(command)
            case Stand(player):
                self._stand(self.seat_of(player), now_ms)
            case SitOut(player):
                self._sit_out(self.seat_of(player), now_ms)
            case SitIn():
                self._sit_in(command)
            case Disconnected(player):
                self.seat_of(player).connected = False
            case Connected(player):
                self._connected(self.seat_of(player), now_ms)
            case Play():
                self._play(command, now_ms)
            case Tick():
                self._tick(now_ms)
            case DrawButton(seat):
                assert seat in self.must_draw_button(), "the button is drawn among those who are ready"
                self.drawn_button = seat
            case Close():
                self._close()
            case Begin(number):
                self._begin(number, now_ms)
            case Supply(cards):
                self._dealt(supply(self._waiting_for(NeedCards), cards), now_ms)
            case Reshuffle():
                self._dealt(reshuffled(self._waiting_for(NeedShuffle)), now_ms)
            case Delay(why):
                self.delayed = Delayed(self.delayed.since_ms if self.delayed else now_ms, why)
            case Void(why):
                assert self.hand is not None, "a hand that is being played becomes void"
                self._go_on(void(self.hand, why), now_ms)
        self._count_chips()

    def _waiting_for(self, kind: type[NeedCards | NeedShuffle]) -> Hand:
        assert self.hand is not None, "cards come to a hand"
        assert isinstance(self.hand.awaits, kind), "cards come when they are asked for"
        return self.hand

    def _count_chips(self) -> None:
        """Stop if a chip appeared or vanished."""
        on_table = sum(seat.stack for seat in self.seats.values())
        assert on_table + sum(out.amount for out in self.cash_outs) == self._chips, "a chip appeared or vanished"

    def take_cash_outs(self) -> list[CashOut]:
        """Take what goes to the cashier."""
        taken, self.cash_outs = self.cash_outs, []
        self._chips -= sum(out.amount for out in taken)
        return taken

    # --- coming and going

    def may_sit(self, command: Sit) -> None:
        """Raise Refused if a player cannot take that seat with so many chips, whether he has them or not."""
        player, number, amount = command
        if not 1 <= number <= self.rules.most_players:
            raise OutOfBounds("seat", f"must be 1..{self.rules.most_players}")
        buy_in = self.stakes.buy_in
        match self.rules.buy_in:
            case BuyIn.AT_LEAST_THE_TABLES_AMOUNT:
                if amount < buy_in:
                    raise OutOfBounds("amount_cents", f"must be at least {buy_in}")
            case BuyIn.THE_TABLES_AMOUNT:
                if amount != buy_in:
                    raise OutOfBounds("amount_cents", f"must be {buy_in}")
        if self.is_closed:
            raise Refused("table", "must be an open one, this one is closed")
        if any(seat.player == player for seat in self.seats.values()):
            raise Refused("table", f"must be one at which {player} has no seat yet")
        if number in self.seats:
            free = [str(n) for n in range(1, self.rules.most_players + 1) if n not in self.seats]
            raise Refused("seat", f"must be a free one: {', '.join(free) or 'there is none'}")

    def _sit(self, command: Sit) -> None:
        self.may_sit(command)
        player, number, amount = command
        # CC-1: he is not in before he has said "I play".
        must_say = self.rules.ante_posting is AntePosting.BY_DEFAULT_UNLESS_TURNED_OFF
        self.seats[number] = Seat(number, player, amount, owed_on_sitting_down(self.rules), sits_out=must_say)
        self._chips += amount

    def _top_up(self, command: TopUp) -> None:
        seat = self.seat_of(command.player)
        if not 1 <= command.amount <= self.stakes.buy_in:
            raise OutOfBounds("amount_cents", f"must be 1..{self.stakes.buy_in}")
        if self._in_hand(seat.seat):
            raise Refused("table", "must be between two hands for chips to be added")  # AL-13
        room = self.stakes.buy_in - seat.stack
        if command.amount > room:
            raise Refused(
                "amount_cents",
                f"must be 1..{room}, up to the buy-in" if room > 0 else "must be none, the stack is full",
            )
        seat.stack += command.amount
        self._chips += command.amount

    def _stand(self, seat: Seat, now_ms: int) -> None:
        seat.leaving = seat.sits_out = True
        if self._in_hand(seat.seat):
            self._folds_in_turn(seat, now_ms)
        else:
            self._clear_seat(seat)

    def _sit_out(self, seat: Seat, now_ms: int) -> None:
        seat.sits_out = True
        if self._in_hand(seat.seat):
            self._folds_in_turn(seat, now_ms)

    def _folds_in_turn(self, seat: Seat, now_ms: int) -> None:
        """AL-15: who leaves or sits out in a hand folds when his turn comes; all-in he stays to the end."""
        seat.folds = True
        assert self.hand is not None, "he is in it"
        self._go_on(self.hand, now_ms)

    def _close(self) -> None:
        """Have everybody leave; who is in a hand plays it to its end first."""
        self.is_closed = True
        for seat in list(self.seats.values()):
            seat.leaving = seat.sits_out = True
            if not self._in_hand(seat.seat):
                self._clear_seat(seat)

    def _clear_seat(self, seat: Seat) -> None:
        if seat.stack:
            self.cash_outs.append(CashOut(seat.player, seat.stack))
        del self.seats[seat.seat]

    def _sit_in(self, command: SitIn) -> None:
        seat = self.seat_of(command.player)
        if seat.leaving:
            raise Refused("table", f"must be one that {seat.player} is not leaving")
        if not command.every_hand and self.rules.ante_posting is not AntePosting.BY_DEFAULT_UNLESS_TURNED_OFF:
            raise OutOfBounds("ask_each_hand", "must be false: this house posts every ante")
        seat.sits_out = False
        seat.posts = command.post
        seat.asks_each_hand = not command.every_hand

    def _connected(self, seat: Seat, now_ms: int) -> None:
        was_away = not seat.connected
        seat.connected = True
        if was_away and self.turn and self.turn.seat == seat.seat:
            self.turn = clocks.reconnected(self.rules.clock, self.turn, now_ms)

    # --- a hand

    def _begin(self, number: int, now_ms: int) -> None:
        deal = self.next_deal()
        assert deal is not None, "the caller has asked whether a hand can begin"
        self._before = (self.last_blinds, {seat.seat: seat.owes for seat in self.seats.values()})
        for seat in self.seats.values():
            seat.owes = deal.owes[seat.seat]
            seat.folds = False
        stacks = [(seat, self.seats[seat].stack) for seat in deal.dealt]
        hand = start(self.rules, self.stakes, stacks, button=deal.button, posts=deal.posts)
        self.last_blinds = deal.blinds
        self.number = number
        self.outcome = ""
        self.acts = []
        self.delayed = None
        self._go_on(hand, now_ms)

    def _dealt(self, hand: Hand, now_ms: int) -> None:
        self.delayed = None
        self._go_on(hand, now_ms)

    def _go_on(self, hand: Hand, now_ms: int) -> None:
        """Take the hand as it is now: act for those who are gone, ask the next player, or end it."""
        while isinstance(hand.awaits, NeedAction) and self.seats[hand.awaits.seat].folds:
            hand = apply(hand, _absent(hand.awaits))
            self.acts.append(None)
        was_asked = (self.turn, self.hand.awaits if self.hand else None)
        self.hand = hand
        if isinstance(hand.awaits, NeedAction):
            same = was_asked[0] is not None and was_asked[1] is hand.awaits
            if not same:
                self.turn = clocks.asked(self.rules.clock, hand.awaits.seat, hand.awaits.street, now_ms)
            return
        self.turn = None
        if hand.over:
            self._end(hand)

    def _end(self, hand: Hand) -> None:
        """Pay the stacks and let those go who have left; the money moved in the hand already (AL-19)."""
        self.outcome = "aborted" if hand.settlement is None else "complete"
        self.delayed = None
        if self.outcome == "aborted":
            # AL-22: as if the hand had not been; button and debts too.
            self.last_blinds, owes = self._before
            for seat in self.seats.values():
                seat.owes = owes.get(seat.seat, seat.owes)
        for number in hand.seats:
            self.seats[number].stack = hand.stack(number)
        if hand.raked:
            self.cash_outs.append(CashOut(None, hand.raked))
        for seat in list(self.seats.values()):
            if seat.seat in hand.seats:
                seat.folds = False
                if seat.asks_each_hand or seat.stack == 0:
                    seat.sits_out = True
            if seat.leaving:
                self._clear_seat(seat)

    def _play(self, command: Play, now_ms: int) -> None:
        seat = self.seat_of(command.player)
        if self.hand is None or (self.hand.over and command.hand != self.number):
            raise Refused("hand", "must be one that is being played, and none is")
        if command.hand != self.number:
            raise Refused("hand", f"must be the one that is being played, {self.number}")
        if self.repeats(command):
            return
        if not self.playing or not self._in_hand(seat.seat):
            raise Refused("hand", f"must be one that {seat.player} is in and that is not over")
        if command.turn != self.turns:
            raise Refused("decision", f"must be the present one, {self.turns}")
        if self.turn and self.turn.seat == seat.seat and self.turn.is_out(now_ms):
            raise Refused("decision", "must be one for which there is time left")
        action = Action(seat.seat, command.act, command.to, command.cards)
        hand = apply(self.hand, action)
        if isinstance(self.hand.awaits, NeedAction) and self.hand.awaits.seat == seat.seat:
            self.acts.append(command)
        self._go_on(hand, now_ms)

    def _tick(self, now_ms: int) -> None:
        if self.delayed and self.playing and now_ms >= self.delayed.since_ms + 1000 * self.rules.void_after_s:
            assert self.hand is not None, "it is being played"
            self._go_on(void(self.hand, self.delayed.why), now_ms)
        elif self.turn and self.turn.is_out(now_ms):
            self._out_of_time(self.turn, now_ms)

    def _out_of_time(self, turn: Turn, now_ms: int) -> None:
        assert self.hand is not None, "a turn is a hand's"
        seat = self.seats[turn.seat]
        need = self.hand.awaits
        assert isinstance(need, NeedAction), "a turn is a player's"
        day = datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat()
        used_on, used = self.protections.get(seat.player, (day, 0))
        used = used if used_on == day else 0
        limit = self.rules.protections_per_day
        hand = time_out(self.hand, protection_left=limit is None or used < limit)
        if any(isinstance(event, Protected) for event in hand.events[len(self.hand.events) :]):
            self.protections[seat.player] = (day, used + 1)
        if need.street != SHOWDOWN:
            seat.sits_out = True  # AL-5: from the next hand on
        self.acts.append(None)
        self._go_on(hand, now_ms)

    # --- kept between hands

    def written(self) -> dict[str, Any]:
        """Return the table between two hands as a JSON object."""
        assert not self.playing, "in a hand the journal is what is kept"
        assert not self.cash_outs, "what goes to the cashier is taken before"
        return {
            "seats": [seat.written() for seat in self.seats.values()],
            "is_closed": self.is_closed,
            "last_blinds": self.last_blinds
            and [self.last_blinds.button, self.last_blinds.small, self.last_blinds.bigs],
            "drawn_button": self.drawn_button,
            "protections": {player: list(used) for player, used in self.protections.items()},
            "number": self.number,
            "outcome": self.outcome,
        }

    @classmethod
    def read(cls, rules: HouseRules, stakes: Stakes, written: Mapping[str, Any]) -> "Table":
        """Return the table that `written` gave."""
        table = cls(rules, stakes)
        table.seats = {each["seat"]: Seat.read(each) for each in written["seats"]}
        # A snapshot of before tables could be closed does not say.
        table.is_closed = written.get("is_closed", False)
        if written["last_blinds"]:
            button, small, bigs = written["last_blinds"]
            table.last_blinds = Blinds(button, small, tuple(bigs))
        table.drawn_button = written["drawn_button"]
        table.protections = {player: (day, used) for player, (day, used) in written["protections"].items()}
        table.number = written["number"]
        table.outcome = written["outcome"]
        table._chips = sum(seat.stack for seat in table.seats.values())
        return table


def _absent(need: NeedAction) -> Action:
    """Return what is done for a player who is gone: fold; before that the bring-in that he owes (AL-14, AL-15)."""
    acts = {choice.act for choice in need.choices}
    for act in (Act.FOLD, Act.BRING_IN, Act.STAND_PAT, Act.MUCK):
        if act in acts:
            return Action(need.seat, act)
    raise AssertionError("one of these is always possible")
