"""A table in virtual time: seats and chips, turns and clocks, lost connections, lost cards."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dealer.actions import Act, IllegalAction
from dealer.blinds import Owes
from dealer.cards import of_item
from dealer.events import Acted, Discarded, FoldKept, Mucked, Posted, Protected, Shown, Voided
from dealer.house_rules import HouseRules, Stakes
from dealer.rooms import GAMES
from dealer.rooms.casino_club import CASINO_CLUB
from dealer.rooms.limit_stud import LIMIT_STUD
from dealer.rooms.poker777 import POKER777
from dealer.rooms.pokerkings import POKERKINGS
from dealer.state import SHOWDOWN, NeedAction, NeedCards, NeedShuffle
from dealer.table import CashOut, Refused, Status, Table
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
    decode,
    encode,
)
from tests.dealer.play import stacked
from tests.reference import dealer_table as page
from tests.scale import scaled

NAMES = ("ann", "ben", "cleo", "dan", "eve", "finn", "gus", "hana")
START_MS = 1_800_000_000_000


class Game:
    """A table with a clock that is set by hand and a shoe in memory. ``at`` is in seconds since its start."""

    def __init__(self, rules: HouseRules, players: int = 3, *, stakes: Stakes | None = None, seed: int = 1) -> None:
        self.table = Table(rules, stakes or rules.stakes[0])
        self.rng = random.Random(seed)
        self.at = 0.0
        self.journal: list[dict[str, object]] = []
        self.cards: Sequence[int] | None = None
        self._shuffles: list[list[int]] = []
        for seat in range(1, players + 1):
            self.do(Sit(NAMES[seat - 1], seat, self.table.stakes.buy_in))
            self.do(SitIn(NAMES[seat - 1]))

    @property
    def now_ms(self) -> int:
        return START_MS + round(1000 * self.at)

    def do(self, command: Command) -> None:
        self.table.do(command, self.now_ms)
        self.journal.append(encode(command, self.now_ms))

    def begin(self) -> None:
        drawn = self.table.must_draw_button()
        if drawn:
            self.do(DrawButton(drawn[0]))
        self.do(Begin(self.table.number + 1))
        assert self.table.hand is not None
        size = self.table.hand.deck_size
        self._shuffles = [list(self.cards) if self.cards else self.rng.sample(range(size), size)]
        self.deal()

    def deal(self) -> None:
        """Give the hand all the cards that it waits for."""
        hand = self.table.hand
        while hand is not None and isinstance(hand.awaits, NeedCards | NeedShuffle):
            need = hand.awaits
            if isinstance(need, NeedCards):
                items = [self._shuffles[need.k][p] for p in need.to_open()]
                self.do(Supply(tuple(of_item(item, hand.deck_size) for item in items)))
            else:
                items = [self._shuffles[k][p] for k, p in need.locations]
                self.rng.shuffle(items)
                self._shuffles.append(items)
                self.do(Reshuffle())
            hand = self.table.hand

    @property
    def asked(self) -> NeedAction:
        assert self.table.hand is not None
        assert isinstance(self.table.hand.awaits, NeedAction)
        return self.table.hand.awaits

    def player(self, seat: int) -> str:
        return self.table.seats[seat].player

    def act(self, act: Act, to: int | None = None, cards: tuple[int, ...] = ()) -> None:
        """Have the player who is asked act."""
        self.do(Play(self.player(self.asked.seat), self.table.number, self.table.turns, act, to, cards))
        self.deal()

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.do(Tick())
        self.deal()

    def call_down(self) -> None:
        while self.table.playing:
            passive = (Act.CHECK, Act.CALL, Act.BRING_IN, Act.STAND_PAT, Act.MUCK)
            acts = {choice.act for choice in self.asked.choices}
            self.act(next(act for act in passive if act in acts))

    def events(self, kind: type) -> list[object]:
        assert self.table.hand is not None
        return [event for event in self.table.hand.events if isinstance(event, kind)]

    def last_act(self) -> Acted:
        event = self.events(Acted)[-1]
        assert isinstance(event, Acted)
        return event


def refused(game: Game, command: Command) -> str:
    """Return the field that a refusal names, after checking that nothing has changed."""
    before = picture(game.table)
    with pytest.raises(Refused) as refusal:
        game.table.do(command, game.now_ms)
    assert picture(game.table) == before
    return refusal.value.field


def picture(table: Table) -> object:
    """Everything that a command may change."""
    return (
        [seat.written() for seat in table.seats.values()],
        table.last_blinds,
        table.number,
        table.hand and list(table.hand.events),
        table.turn,
        list(table.acts),
        table.delayed,
        list(table.cash_outs),
    )


# --- seats and chips


@pytest.mark.rule("AL-21")
def test_a_hand_begins_with_two_players_ready() -> None:
    game = Game(LIMIT_STUD, 1)
    assert game.table.next_deal() is None
    game.do(Sit("ben", 2, game.table.stakes.buy_in))
    deal = game.table.next_deal()
    assert deal is not None
    assert deal.dealt == (1, 2)


@pytest.mark.rule("AL-21")
@pytest.mark.rule("LS-10")
def test_a_newcomer_in_stud_waits_for_the_next_hand_and_antes() -> None:
    game = Game(LIMIT_STUD, 2)
    game.begin()
    game.do(Sit("cleo", 3, game.table.stakes.buy_in))
    assert game.table.seats[3].owes is Owes.NOTHING, "the ante is all that he pays to come in"
    game.call_down()
    assert game.table.hand is not None
    assert game.table.hand.seats == (1, 2)
    game.begin()
    assert game.table.hand.seats == (1, 2, 3)
    assert [event.amount for event in game.events(Posted) if event.seat == 3] == [game.table.stakes.ante]  # type: ignore[attr-defined]


@pytest.mark.rule("CC-1")
@pytest.mark.parametrize(("amount", "fits"), [(1999, False), (2000, True), (5000, True)])
def test_the_buy_in_of_casino_club_is_the_tables_amount_at_least(amount: int, fits: bool) -> None:
    game = Game(CASINO_CLUB, 0)
    if fits:
        game.do(Sit("ann", 1, amount))
        assert game.table.stack(1) == amount
    else:
        assert refused(game, Sit("ann", 1, amount)) == "amount_cents"


@pytest.mark.rule("PK-1")
@pytest.mark.parametrize(("amount", "fits"), [(7999, False), (8000, True), (8001, False)])
def test_the_buy_in_of_pokerkings_is_fixed(amount: int, fits: bool) -> None:
    game = Game(POKERKINGS, 0)
    if fits:
        game.do(Sit("ann", 1, amount))
    else:
        assert refused(game, Sit("ann", 1, amount)) == "amount_cents"


@pytest.mark.rule("CC-1")
def test_the_ante_is_posted_once_a_player_has_said_that_he_plays() -> None:
    game = Game(CASINO_CLUB, 2)
    game.do(Sit("cleo", 3, 2000))
    game.begin()
    assert game.table.hand is not None
    assert game.table.hand.seats == (1, 2), "he has not said it yet"
    game.call_down()
    game.do(SitIn("cleo"))
    for _ in range(2):
        game.begin()
        assert 3 in game.table.hand.seats
        game.call_down()


@pytest.mark.rule("CC-1")
def test_who_turned_the_ante_off_says_so_for_each_hand() -> None:
    game = Game(CASINO_CLUB, 3)
    game.do(SitIn("cleo", every_hand=False))
    game.begin()
    assert game.table.hand is not None
    assert 3 in game.table.hand.seats
    game.call_down()
    game.begin()
    assert 3 not in game.table.hand.seats
    game.call_down()
    game.do(SitIn("cleo", every_hand=False))
    game.begin()
    assert 3 in game.table.hand.seats


def test_only_casino_club_asks_before_an_ante() -> None:
    assert refused(Game(LIMIT_STUD), SitIn("ann", every_hand=False)) == "ask_each_hand"


@pytest.mark.rule("AL-13")
def test_chips_are_added_between_hands_only_up_to_the_buy_in() -> None:
    game = Game(LIMIT_STUD, 2)
    assert refused(game, TopUp("ann", 1)) == "amount_cents", "the stack is full"
    game.begin()
    game.call_down()
    loser = min((1, 2), key=game.table.stack)
    name, room = game.player(loser), game.table.stakes.buy_in - game.table.stack(loser)
    assert refused(game, TopUp(name, room + 1)) == "amount_cents"
    game.begin()
    assert refused(game, TopUp(name, 1)) == "table"
    game.call_down()
    room = game.table.stakes.buy_in - game.table.stack(loser)
    if room > 0:
        game.do(TopUp(name, room))
        assert game.table.stack(loser) == game.table.stakes.buy_in


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (Sit("dan", 1, 2000), "seat"),
        (Sit("dan", 9, 2000), "seat"),
        (Sit("dan", 0, 2000), "seat"),
        (Sit("ann", 4, 2000), "table"),
        (Stand("dan"), "table"),
        (SitIn("dan"), "table"),
        (TopUp("ann", 0), "amount_cents"),
        (TopUp("ann", -5), "amount_cents"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(command: Command, field: str) -> None:
    assert refused(Game(LIMIT_STUD), command) == field


@pytest.mark.rule("AL-15")
def test_who_stands_between_hands_takes_his_chips() -> None:
    game = Game(LIMIT_STUD)
    game.do(Stand("ben"))
    assert game.table.take_cash_outs() == [CashOut("ben", game.table.stakes.buy_in)]
    assert sorted(game.table.seats) == [1, 3]


@pytest.mark.rule("AL-15")
@pytest.mark.parametrize("leave", [Stand, SitOut])
def test_who_leaves_in_a_hand_folds_when_his_turn_comes(leave: type[Stand] | type[SitOut]) -> None:
    game = Game(LIMIT_STUD, 3)
    game.begin()
    first = game.asked.seat
    later = first % 3 + 1
    game.do(leave(game.player(later)))
    assert not game.events(Acted), "not before his turn"
    game.act(Act.BRING_IN)
    assert (game.last_act().seat, game.last_act().act) == (later, Act.FOLD)
    game.call_down()
    assert (later in game.table.seats) == (leave is SitOut)
    deal = game.table.next_deal()
    assert deal is not None
    assert later not in deal.dealt, "no ante is owed in absence"


@pytest.mark.rule("AL-15")
def test_who_has_left_folds_although_a_check_would_be_free() -> None:
    game = Game(LIMIT_STUD, 3)
    game.begin()
    while game.asked.street == "third":
        game.act(Act.BRING_IN if Act.BRING_IN in {choice.act for choice in game.asked.choices} else Act.CALL)
    later = game.asked.seat % 3 + 1
    game.do(Stand(game.player(later)))
    game.act(Act.CHECK)
    assert (game.last_act().seat, game.last_act().act) == (later, Act.FOLD)


@pytest.mark.rule("AL-14")
@pytest.mark.rule("AL-15")
def test_the_low_cards_owner_who_leaves_posts_his_bring_in_first() -> None:
    game = Game(LIMIT_STUD, 3)
    game.begin()
    low = game.asked.seat
    game.do(Stand(game.player(low)))
    assert (game.last_act().seat, game.last_act().act) == (low, Act.BRING_IN)
    game.act(Act.COMPLETE)
    game.act(Act.CALL)
    assert (game.last_act().seat, game.last_act().act) == (low, Act.FOLD)


@pytest.mark.rule("AL-15")
def test_who_leaves_all_in_stays_to_the_end() -> None:
    stakes = LIMIT_STUD.stakes[0]
    game = Game(LIMIT_STUD, 2)
    game.table.seats[1].stack = stakes.ante  # he antes everything
    game.table._chips -= stakes.buy_in - stakes.ante
    game.begin()
    game.do(Stand("ann"))
    game.call_down()
    showing = [event.seat for event in game.events(Shown) + game.events(Mucked)]  # type: ignore[attr-defined]
    assert 1 in showing
    assert not [event for event in game.events(Acted) if event.seat == 1]  # type: ignore[attr-defined]
    assert 1 not in game.table.seats


def test_who_has_no_chips_left_sits_out_until_he_adds_some() -> None:
    game = Game(POKERKINGS, 2, stakes=POKERKINGS.stakes[-1])
    game.cards = None
    while all(game.table.stack(seat) for seat in (1, 2)):
        game.begin()
        while game.table.playing:
            choices = {choice.act: choice for choice in game.asked.choices}
            for act in (Act.RAISE, Act.BET):
                if act in choices:
                    game.act(act, choices[act].highest)
                    break
            else:
                game.act(next(a for a in (Act.CALL, Act.CHECK, Act.STAND_PAT, Act.MUCK) if a in choices))
    broke = next(seat for seat in (1, 2) if not game.table.stack(seat))
    assert game.table.next_deal() is None
    game.do(TopUp(game.player(broke), game.table.stakes.buy_in))
    assert game.table.next_deal() is None
    game.do(SitIn(game.player(broke)))
    assert game.table.next_deal() is not None


@pytest.mark.rule("PK-14")
def test_the_first_button_is_drawn_among_those_who_are_ready() -> None:
    game = Game(POKERKINGS, 4)
    game.do(SitOut("ben"))
    assert game.table.next_deal() is None
    assert game.table.must_draw_button() == (1, 3, 4)
    game.do(DrawButton(4))
    deal = game.table.next_deal()
    assert deal is not None
    assert (deal.button, deal.dealt) == (4, (1, 3, 4))
    assert not game.table.must_draw_button()


@pytest.mark.rule("AL-4")
def test_studs_dealer_sits_before_seat_one() -> None:
    game = Game(LIMIT_STUD, 3)
    for _ in range(2):
        game.begin()
        assert game.table.hand is not None
        assert (game.table.hand.button, game.table.hand.seats) == (0, (1, 2, 3))
        game.call_down()


# --- clocks


@pytest.mark.parametrize("house", sorted(GAMES))
@pytest.mark.rule("CC-12")
@pytest.mark.rule("P7-8")
@pytest.mark.rule("AL-5")
def test_each_house_gives_its_time(house: str) -> None:
    act, timer, _, _ = page.CLOCKS[house]
    game = Game(GAMES[house], 3)
    game.at = 100
    game.begin()
    turn = game.table.turn
    assert turn is not None
    assert (turn.timer_ms - game.now_ms, turn.deadline_ms - game.now_ms) == (1000 * act, 1000 * (act + timer))
    assert game.table.next_deadline_ms() == turn.deadline_ms


@pytest.mark.rule("AL-16")
def test_an_action_before_the_deadline_counts_and_at_the_deadline_it_is_late() -> None:
    game = Game(CASINO_CLUB)
    game.begin()
    game.at += 10
    name = game.player(game.asked.seat)
    assert refused(game, Play(name, 1, 0, Act.BRING_IN)) == "decision"
    game.at -= 0.001
    game.do(Tick())
    game.act(Act.BRING_IN)
    assert game.last_act().act is Act.BRING_IN


@pytest.mark.rule("CC-12")
@pytest.mark.rule("AL-5")
@pytest.mark.parametrize("rules", [CASINO_CLUB, LIMIT_STUD], ids=lambda rules: rules.name)
def test_out_of_time_a_bring_in_is_posted_a_free_check_is_made_and_a_bet_is_folded_to(rules: HouseRules) -> None:
    game = Game(rules, 3)
    seconds = page.CLOCKS[rules.name][0]
    game.begin()
    late = game.asked.seat
    game.pass_time(seconds)
    assert (game.last_act().seat, game.last_act().act) == (late, Act.BRING_IN)
    game.act(Act.COMPLETE)
    folder = game.asked.seat
    game.pass_time(seconds)
    assert (game.last_act().seat, game.last_act().act) == (folder, Act.FOLD)
    game.act(Act.CALL)
    checker = game.asked.seat
    game.pass_time(seconds)
    assert (game.last_act().seat, game.last_act().act) == (checker, Act.CHECK)
    game.call_down()
    assert {seat.seat for seat in game.table.seats.values() if seat.sits_out} == {late, folder, checker}


@pytest.mark.rule("AL-5")
def test_who_was_out_of_time_plays_on_if_he_says_so_before_the_next_hand() -> None:
    game = Game(CASINO_CLUB, 2)
    game.begin()
    name = game.player(game.asked.seat)
    game.pass_time(10)
    game.do(SitIn(name))
    game.call_down()
    assert game.table.next_deal() is not None


@pytest.mark.rule("AL-5")
def test_out_of_time_at_the_draw_a_player_stands_pat() -> None:
    game = Game(POKERKINGS, 3)
    game.begin()
    while Act.STAND_PAT not in {choice.act for choice in game.asked.choices}:
        game.act(Act.CALL if Act.CALL in {choice.act for choice in game.asked.choices} else Act.CHECK)
    drawer = game.asked.seat
    game.pass_time(30)
    event = game.events(Discarded)[-1]
    assert isinstance(event, Discarded)
    assert (event.seat, event.cards) == (drawer, ())


@pytest.mark.rule("AL-19")
def test_a_hand_not_shown_in_five_seconds_stays_down_and_that_is_no_absence() -> None:
    game = Game(CASINO_CLUB, 2)
    game.begin()
    game.act(Act.BRING_IN)
    game.act(Act.FOLD)
    assert game.asked.street == SHOWDOWN
    winner = game.asked.seat
    paid = game.table.stack(winner)
    game.pass_time(4.999)
    assert game.table.playing
    game.pass_time(0.001)
    assert not game.table.playing
    assert game.events(Mucked) == [Mucked(winner)]
    assert game.table.stack(winner) == paid, "the money moved at once"
    assert not game.table.seats[winner].sits_out


@pytest.mark.rule("P7-8")
def test_out_of_time_a_player_of_poker777_is_all_in_for_his_ante() -> None:
    game = Game(POKER777, 3)
    game.begin()
    game.act(Act.BRING_IN)
    late = game.asked.seat
    stack = game.table.stack(late)
    game.pass_time(29.999)
    assert not game.events(Protected)
    game.pass_time(0.001)
    assert game.events(Protected) == [Protected(late)]
    assert game.table.stack(late) == stack, "he keeps his stack"
    game.call_down()
    assert game.table.seats[late].sits_out
    assert game.table.protections == {game.player(late): ("2027-01-15", 1)}


@pytest.mark.rule("P7-8")
def test_on_the_bring_in_it_is_posted_before_the_protection() -> None:
    game = Game(POKER777, 3)
    game.begin()
    low = game.asked.seat
    game.pass_time(30)
    assert game.last_act().act is Act.BRING_IN
    assert game.events(Protected) == [Protected(low)]


@pytest.mark.rule("P7-14")
def test_protections_that_are_used_up_leave_check_or_fold_until_the_next_day() -> None:
    game = Game(replace(POKER777, protections_per_day=1), 3)
    for number, protections in enumerate((1, 0, 1)):
        game.at = 0 if number < 2 else 86_400
        for name in NAMES[:3]:
            game.do(SitIn(name))
        game.begin()
        game.act(Act.BRING_IN)
        # The same player each time: the others pay to wait for him.
        while game.asked.seat != 1 or Act.BRING_IN in {choice.act for choice in game.asked.choices}:
            acts = {choice.act for choice in game.asked.choices}
            game.act(Act.CALL if Act.CALL in acts else Act.CHECK)
        game.pass_time(30)
        assert len(game.events(Protected)) == protections
        game.call_down()


@pytest.mark.rule("P7-9")
@pytest.mark.rule("AL-16")
@pytest.mark.parametrize("house", ["casino_club", "poker777", "limit_stud", "pokerkings"])
@pytest.mark.parametrize(
    "back_at",
    [[], [0.0], [5.0], [9.999], [10.0], [29.999], [30.0], [35.0], [5.0, 12.0], [28.0, 45.0]],
    ids=lambda back_at: "back at " + " and ".join(map(str, back_at)) if back_at else "not back",
)
def test_coming_back_in_time_moves_the_deadline_once_where_the_house_says_so(house: str, back_at: list[float]) -> None:
    game = Game(GAMES[house], 3)
    game.begin()
    late = game.asked.seat
    expected = page.runs_out_at(house, 0.0, back_at)
    for at in back_at:
        if at < expected:
            game.at = at
            game.do(Disconnected(game.player(late)))
            game.do(Connected(game.player(late)))
    game.at = expected - 0.001
    game.do(Tick())
    assert game.table.turn is not None
    assert game.table.turns == 0, "a moment before"
    game.at = expected
    game.do(Disconnected(game.player(late)))
    game.do(Connected(game.player(late)))
    game.do(Tick())
    assert game.table.turns == 1, "back at the deadline is too late"


@pytest.mark.rule("CC-12")
@pytest.mark.rule("P7-8")
@pytest.mark.rule("P7-14")
@pytest.mark.rule("AL-5")
@pytest.mark.rule("AL-19")
@pytest.mark.parametrize("house", sorted(GAMES))
def test_a_second_model_agrees_on_who_is_out_of_time_when_and_what_becomes_of_him(house: str) -> None:
    for seed in range(scaled(60, 20_000)):
        rng = random.Random(f"{house}{seed}")
        limit = rng.choice((None, 0, 1))
        game = Game(replace(GAMES[house], protections_per_day=limit), rng.randint(2, 5), seed=seed)
        used: Counter[int] = Counter()
        game.begin()
        while game.table.playing:
            if rng.random() < 0.7:
                one_act(game, rng)
                continue
            let_time_run_out(game, rng, house, limit, used)


def let_time_run_out(game: Game, rng: random.Random, house: str, limit: int | None, used: Counter[int]) -> None:
    """Let the player who is asked lose his connection now and then, and at last his time; compare with the page."""
    need, began = game.asked, game.at
    hand = game.table.hand
    assert hand is not None
    asked_for = what_is_asked(need)
    back_at = sorted(round(rng.uniform(0, 60), 3) for _ in range(rng.randint(0, 3)))
    end = page.SHOW_S if asked_for == "to show" else page.runs_out_at(house, 0.0, back_at)
    for at in back_at:
        if at < end:
            game.at = began + at
            game.do(Disconnected(game.player(need.seat)))
            game.do(Connected(game.player(need.seat)))
    if asked_for == "to show" and any(at < page.SHOW_S for at in back_at) and page.CLOCKS[house][2]:
        end += page.CLOCKS[house][2]
    turns, told = game.table.turns, len(hand.events)
    game.at = began + end - 0.001
    game.do(Tick())
    assert game.table.turns == turns, "a moment before"
    all_in = game.table.stack(need.seat) <= game.table.stakes.bring_in
    game.at = began + end
    game.do(Tick())
    assert game.table.hand is not None
    happened = [name_of(event) for event in game.table.hand.events[told:] if seat_of(event) == need.seat]
    expected = page.out_of_time(house, limit is None or used[need.seat] < limit, asked_for)
    if expected == ["bring_in", "protected"] and (all_in or len(happened) == 1):
        expected = ["bring_in"]  # he is all-in for it, or nobody is left to bet against
    assert [each for each in happened if each in expected][: len(expected)] == expected, (asked_for, happened)
    used[need.seat] += "protected" in expected
    game.deal()


def what_is_asked(need: NeedAction) -> str:
    acts = {choice.act for choice in need.choices}
    if Act.MUCK in acts:
        return "to show"
    if Act.STAND_PAT in acts:
        return "to draw"
    if Act.BRING_IN in acts:
        return "the bring-in"
    return "a bet or nothing" if Act.CHECK in acts else "a bet to match"


def name_of(event: object) -> str:
    match event:
        case Acted(act=act):
            return act.value
        case Discarded(cards=()):
            return "stand_pat"
        case _:
            return type(event).__name__.lower()


def seat_of(event: object) -> int | None:
    return getattr(event, "seat", None)


@pytest.mark.rule("P7-9")
def test_connecting_without_having_been_away_gives_no_time() -> None:
    game = Game(POKER777, 3)
    game.begin()
    before = game.table.turn
    game.do(Connected(game.player(game.asked.seat)))
    assert game.table.turn == before


# --- acting


@pytest.mark.rule("P7-6")
def test_a_fold_out_of_turn_is_kept_and_may_be_sent_again() -> None:
    game = Game(POKER777, 4)
    game.begin()
    first = game.asked.seat
    waiting = (first + 1) % 4 + 1
    fold = Play(game.player(waiting), 1, 0, Act.FOLD)
    game.do(fold)
    before = picture(game.table)
    game.do(fold)
    assert picture(game.table) == before
    assert game.events(FoldKept) == [FoldKept(waiting)]
    assert game.asked.seat == first
    game.act(Act.BRING_IN)
    game.act(Act.CALL)
    assert (game.last_act().seat, game.last_act().act) == (waiting, Act.FOLD)


@pytest.mark.rule("AL-7")
def test_an_action_sent_twice_counts_once() -> None:
    game = Game(CASINO_CLUB, 3)
    game.begin()
    action = Play(game.player(game.asked.seat), 1, 0, Act.BRING_IN)
    game.do(action)
    before = picture(game.table)
    game.do(action)
    assert picture(game.table) == before


@pytest.mark.rule("AL-7")
def test_an_action_before_any_hand_is_told_that_none_is_being_played() -> None:
    game = Game(LIMIT_STUD)
    with pytest.raises(Refused, match="hand: must be one that is being played, and none is"):
        game.do(Play(game.player(1), 0, 0, Act.FOLD))


def test_an_action_for_another_decision_or_hand_is_refused() -> None:
    game = Game(CASINO_CLUB, 3)
    game.begin()
    name = game.player(game.asked.seat)
    other = game.player(game.asked.seat % 3 + 1)
    assert refused(game, Play(name, 2, 0, Act.BRING_IN)) == "hand"
    assert refused(game, Play(name, 1, 1, Act.BRING_IN)) == "decision"
    before = picture(game.table)
    for illegal in (Play(other, 1, 0, Act.CALL), Play(name, 1, 0, Act.FOLD), Play(name, 1, 0, Act.COMPLETE, 99)):
        with pytest.raises(IllegalAction) as refusal:
            game.table.do(illegal, game.now_ms)
        assert picture(game.table) == before
        assert "bring_in" in str(refusal.value), "the legal ones are named"
    game.act(Act.BRING_IN)
    assert refused(game, Play(game.player(game.asked.seat), 1, 0, Act.CALL)) == "decision", "an earlier one"


# --- the shuffle service is lost


@pytest.mark.rule("AL-22")
def test_while_cards_cannot_be_had_no_clock_runs_and_after_two_minutes_the_hand_is_void() -> None:
    game = Game(POKERKINGS, 3)
    game.do(DrawButton(1))
    before = picture(game.table)
    stacks = {seat: game.table.stack(seat) for seat in game.table.seats}
    game.do(Begin(1))
    game.do(Delay("unreachable"))
    assert game.table.turn is None
    game.at = 60
    game.do(Delay("unreachable still"))
    assert game.table.delayed is not None
    assert game.table.delayed.why == "unreachable still"
    game.at = 119.999
    game.do(Tick())
    assert game.table.playing
    game.at = 120
    game.do(Tick())
    assert not game.table.playing
    assert game.table.outcome == "aborted"
    assert game.events(Voided) == [Voided("unreachable still")]
    assert {seat: game.table.stack(seat) for seat in game.table.seats} == stacks
    # As if it had not been: button and debts too.
    assert before[:2] == picture(game.table)[:2]  # type: ignore[index]


@pytest.mark.rule("AL-22")
def test_cards_that_come_late_let_the_hand_go_on_with_full_time() -> None:
    game = Game(CASINO_CLUB, 2)
    game.do(Begin(1))
    game.do(Delay("unreachable"))
    game.at = 100
    game._shuffles = [list(range(52))]
    game.deal()
    assert game.table.delayed is None
    assert game.table.turn is not None
    assert game.table.turn.deadline_ms == game.now_ms + 10_000


@pytest.mark.rule("AL-22")
def test_chips_bet_on_earlier_streets_go_back_too() -> None:
    game = Game(CASINO_CLUB, 3)
    game.begin()
    stacks = dict.fromkeys((1, 2, 3), game.table.stakes.buy_in)
    game.act(Act.COMPLETE)
    game.do(Play(game.player(game.asked.seat), 1, 1, Act.CALL))
    game.do(Play(game.player(game.asked.seat), 1, 2, Act.CALL))
    game.do(Delay("unreachable"))
    game.at = 120
    game.do(Tick())
    assert {seat: game.table.stack(seat) for seat in game.table.seats} == stacks


# --- a table that is closed


def test_a_closed_table_sends_everybody_home_with_his_chips() -> None:
    game = Game(LIMIT_STUD, 3)
    game.do(Close())
    assert game.table.status is Status.CLOSED
    assert not game.table.seats
    buy_in = game.table.stakes.buy_in
    assert game.table.take_cash_outs() == [(name, buy_in) for name in NAMES[:3]]
    assert refused(game, Sit("dan", 1, buy_in)) == "table"
    assert refused(game, SitIn("ann")) == "table"


@pytest.mark.parametrize("house", sorted(GAMES))
def test_the_hand_of_a_table_that_is_being_closed_is_played_to_its_end(house: str) -> None:
    """Nobody is folded out of it; whoever is not in it goes at once, and no other hand follows."""
    game = Game(GAMES[house], 3, seed=4)
    game.do(SitOut("cleo"))
    game.begin()
    game.do(Close())
    assert game.table.status is Status.CLOSING
    assert [seat.player for seat in game.table.seats.values()] == ["ann", "ben"]
    (absent,) = game.table.take_cash_outs()
    assert absent.player == "cleo"
    assert refused(game, SitIn("ann")) == "table"
    game.call_down()
    assert game.events(Shown), "it came to a showdown"
    assert game.table.status is Status.CLOSED
    paid = game.table.take_cash_outs()
    assert sum(out.amount for out in paid) == 2 * game.table.stakes.buy_in
    assert game.table.next_deal() is None
    assert not game.table.must_draw_button()


def test_closing_twice_is_closing_once_and_is_kept_between_hands() -> None:
    game = Game(LIMIT_STUD, 2)
    game.do(Close())
    game.do(Close())
    assert len(game.table.take_cash_outs()) == 2
    again = Table.read(game.table.rules, game.table.stakes, game.table.written())
    assert again.status is Status.CLOSED
    older = {name: value for name, value in game.table.written().items() if name != "is_closed"}
    assert Table.read(game.table.rules, game.table.stakes, older).status is Status.OPEN


def test_a_void_hand_of_a_table_that_is_being_closed_gives_everything_back() -> None:
    game = Game(LIMIT_STUD, 2)
    game.begin()
    game.do(Close())
    hand = game.table.hand
    assert hand is not None
    game.act(Act.BRING_IN)
    game.do(Play(game.player(game.asked.seat), 1, game.table.turns, Act.CALL))
    game.do(Delay("away"))
    game.pass_time(game.table.rules.void_after_s)
    assert (game.table.outcome, game.table.status) == ("aborted", Status.CLOSED)
    assert {out.amount for out in game.table.take_cash_outs()} == {game.table.stakes.buy_in}


# --- everything together


@pytest.mark.parametrize("house", sorted(GAMES))
def test_random_tables_keep_their_chips_and_play_again_from_the_journal(house: str) -> None:
    for seed in range(scaled(6, 1_000)):
        game = Game(GAMES[house], 3, seed=seed)
        rng = random.Random(1000 + seed)
        for _ in range(8):
            wander(game, rng)
            if game.table.next_deal() is None and not game.table.must_draw_button():
                continue
            game.begin()
            while game.table.playing:
                one_step(game, rng)
        again = Table(game.table.rules, game.table.stakes)
        for written in game.journal:
            again.do(*decode(dict(written)))
        assert picture(again) == picture(game.table)
        game.table.take_cash_outs()
        kept = Table.read(game.table.rules, game.table.stakes, game.table.written())
        assert kept.written() == game.table.written()


def wander(game: Game, rng: random.Random) -> None:
    """Let players come, go and change their minds between two hands, as long as the table is open."""
    table = game.table
    if table.is_closed:
        return
    for name in NAMES[: table.rules.most_players]:
        seated = [seat for seat in table.seats.values() if seat.player == name]
        free = [n for n in range(1, table.rules.most_players + 1) if n not in table.seats]
        if not seated and free and rng.random() < 0.3:
            game.do(Sit(name, rng.choice(free), table.stakes.buy_in))
            game.do(SitIn(name, post=rng.random() < 0.5))
        elif seated and rng.random() < 0.1:
            game.do(Stand(name))
        elif seated and seated[0].stack == 0:
            game.do(TopUp(name, table.stakes.buy_in))
            game.do(SitIn(name))
        elif seated and rng.random() < 0.3:
            game.do(SitOut(name) if rng.random() < 0.5 else SitIn(name, post=rng.random() < 0.5))


def one_step(game: Game, rng: random.Random) -> None:
    """Let the player who is asked act, or time pass, or somebody leave."""
    chance = rng.random()
    if chance < 0.05:
        game.pass_time(rng.choice((1.0, 40.0)))
    elif chance < 0.08:
        present = [seat for seat in game.table.seats.values() if not seat.leaving]
        if present:
            name = rng.choice(present).player
            game.do(rng.choice((Stand, SitOut, Disconnected, Connected))(name))
            game.deal()
    elif chance < 0.083:
        game.do(Close())
    else:
        one_act(game, rng)


def one_act(game: Game, rng: random.Random) -> None:
    """Let the player who is asked do anything legal, folding seldom."""
    choices = [c for c in game.asked.choices if c.act is not Act.FOLD or rng.random() < 0.3] or [*game.asked.choices]
    choice = rng.choice(choices)
    assert game.table.hand is not None
    if choice.act is Act.DISCARD:
        cards = tuple(rng.sample(game.table.hand.cards(game.asked.seat), rng.randint(1, choice.highest)))
        game.act(choice.act, cards=cards)
    else:
        game.act(choice.act, rng.randint(choice.lowest, choice.highest) if choice.highest else None)


def test_a_stacked_deck_is_dealt_in_order() -> None:
    game = Game(CASINO_CLUB, 2)
    game.cards = stacked("2c 3c 4c 5c Ah Kh")
    game.begin()
    assert game.table.hand is not None
    assert game.table.hand.cards(1) == (0, 8, 50)


@pytest.mark.rule("P7-1")
def test_all_antes_are_in_before_the_first_card() -> None:
    from dealer.events import Dealt

    game = Game(POKER777, 4)
    game.begin()
    assert game.table.hand is not None
    kinds = [type(event) for event in game.table.hand.events if isinstance(event, Posted | Dealt)]
    assert kinds[:4] == [Posted] * 4
    assert Posted not in kinds[4:]


@pytest.mark.rule("AL-7")
@pytest.mark.parametrize("house", sorted(GAMES))
def test_any_command_is_carried_out_or_changes_nothing(house: str) -> None:
    rng = random.Random(house)
    refused_ones = 0
    for seed in range(scaled(4, 200)):
        game = Game(GAMES[house], 3, seed=seed)
        for _ in range(40):
            if not game.table.playing and (game.table.next_deal() or game.table.must_draw_button()):
                game.begin()
            for _ in range(5):
                command = any_command(game, rng)
                before = picture(game.table)
                chips = sum(game.table.stack(seat) for seat in game.table.seats)
                try:
                    game.do(command)
                except (Refused, IllegalAction):
                    refused_ones += 1
                    assert picture(game.table) == before, command
                    assert sum(game.table.stack(seat) for seat in game.table.seats) == chips
            game.deal()
            if game.table.playing:
                one_act(game, rng)
    assert refused_ones > 100


def any_command(game: Game, rng: random.Random) -> Command:
    """Return a command by anybody, of any content, fitting or not."""
    name = rng.choice((*NAMES[:4], "nobody"))
    number = rng.choice((-1, 0, 1, 2, 3, 7, 2000, 10**6))
    act = rng.choice([act for act in Act if act is not Act.FOLD] if rng.random() < 0.8 else list(Act))
    cards = tuple(rng.sample(range(52), rng.randint(0, 6)))
    play = Play(
        name, game.table.number + rng.choice((0, 0, 0, 1)), game.table.turns + rng.choice((0, 0, 0, -1, 1)), act
    )
    return rng.choice(
        (
            Sit(name, rng.randint(-1, 9), number),
            TopUp(name, number),
            SitIn(name, post=rng.random() < 0.5, every_hand=rng.random() < 0.8),
            SitOut(rng.choice((name, "nobody"))) if rng.random() < 0.2 else Connected(name),
            Disconnected(name),
            play,
            play._replace(to=number),
            play._replace(cards=cards),
            Tick(),
            Close() if rng.random() < 0.02 else Tick(),
        )
    )
