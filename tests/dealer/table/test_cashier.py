"""The cashier's ledger balances, whatever players bring and take."""

import ast
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dealer
from dealer.cashier import BANK, RAKE, Cashier, Ledger, NotEnough, OutOfBalance, PlayMoney, Transfer, rack, wallet
from dealer.house_rules import HouseRules, Rake
from dealer.rooms import GAMES
from dealer.state import NeedAction, NeedCards, NeedShuffle
from dealer.store.memory import MemoryStore
from dealer.table_commands import Begin, DrawButton, Play, Reshuffle, SitIn, Supply, Tick
from dealer.table_live import LiveTable
from tests.dealer.play import at_random
from tests.scale import scaled

GRANT = 10_000


def test_a_player_is_given_his_play_money_once() -> None:
    cashier = PlayMoney(GRANT)
    assert cashier.balance("ann") == GRANT
    cashier.post(cashier.brings("ann", "t", 4_000))
    cashier.post(cashier.brings("ann", "t", 6_000))
    assert cashier.balance("ann") == 0
    with pytest.raises(NotEnough):
        cashier.brings("ann", "t", 1)
    cashier.post(cashier.takes("ann", "t", 10_000))
    assert cashier.balance("ann") == GRANT


def test_nothing_moves_before_it_is_posted() -> None:
    cashier = PlayMoney(GRANT)
    cashier.brings("ann", "t", GRANT)
    assert cashier.balance("ann") == GRANT


def test_a_restarted_cashier_gives_nobody_twice() -> None:
    cashier = PlayMoney(GRANT)
    cashier.post(cashier.brings("ann", "t", GRANT))
    again = PlayMoney(GRANT, {BANK: -GRANT, wallet("ann"): 0, rack("t"): GRANT})
    assert again.balance("ann") == 0
    assert again.balance("ben") == GRANT


@pytest.mark.parametrize("balances", [{"player:ann": 1}, {BANK: 5, "player:ann": -5}])
def test_a_ledger_that_does_not_balance_stops(balances: dict[str, int]) -> None:
    with pytest.raises(OutOfBalance, match="does not balance"):
        Ledger(balances)


@given(st.lists(st.tuples(st.sampled_from(["ann", "ben"]), st.integers(1, 9_000), st.booleans())))
def test_any_sequence_of_bringing_and_taking_balances(moves: list[tuple[str, int, bool]]) -> None:
    cashier = PlayMoney(GRANT)
    on_table = dict.fromkeys(("ann", "ben"), 0)
    for player, amount, brings in moves:
        if brings and cashier.balance(player) >= amount:
            cashier.post(cashier.brings(player, "t", amount))
            on_table[player] += amount
        elif not brings and on_table[player] >= amount:
            cashier.post(cashier.takes(player, "t", amount))
            on_table[player] -= amount
        assert cashier.ledger.balance(rack("t")) == sum(on_table.values())
        assert all(cashier.balance(each) + on_table[each] == GRANT for each in on_table)


class RealMoney:
    """A cashier who pays out of what was deposited, and gives nothing away."""

    def __init__(self, deposits: dict[str, int]) -> None:
        self.ledger = Ledger(
            {BANK: -sum(deposits.values()), **{wallet(player): amount for player, amount in deposits.items()}}
        )

    def brings(self, player: str, table: str, amount: int) -> list[Transfer]:
        if self.ledger.balance(wallet(player)) < amount:
            raise NotEnough(player, self.ledger.balance(wallet(player)))
        return [Transfer(wallet(player), rack(table), amount)]

    def takes(self, player: str, table: str, amount: int) -> list[Transfer]:
        return [Transfer(rack(table), wallet(player), amount)] if amount else []

    def post(self, transfers: Iterable[Transfer]) -> None:
        self.ledger.post(transfers)

    def load(self, balances: Mapping[str, int]) -> None:
        self.ledger = Ledger(balances)


NAMES = ("ann", "ben", "cleo")
DEPOSIT = 1_000_000


def evening(rules: HouseRules, cashier: Cashier, seed: int) -> tuple[list[object], list[object], dict[str, int]]:
    """Play some hands, out of time now and then; return what the table kept, what happened, and who has what."""
    rng = random.Random(seed)
    store, at = MemoryStore(), bytes(16)
    stakes = rules.stakes[0]
    store.create(at, rules.name, stakes.name)
    now = 1_800_000_000_000
    live = LiveTable(store.table(at), rules, stakes, store, cashier, lambda _: None, lambda: now)
    for seat, player in enumerate(NAMES, 1):
        live.sit(player, seat, stakes.buy_in, player.encode())
        live.do(SitIn(player))
    events: list[object] = []
    for number in range(1, 5):
        for seat in list(live.table.seats.values()):
            live.do(SitIn(seat.player))
        if drawn := live.table.must_draw_button():
            live.do(DrawButton(drawn[0]))
        if live.table.next_deal() is None:
            break
        live.do(Begin(number))
        while live.table.playing:
            hand = live.table.hand
            assert hand is not None
            match hand.awaits:
                case NeedCards() as need:
                    deck = [card for card in range(52 - hand.deck_size, 52) if card not in hand.where]
                    live.do(Supply(tuple(rng.sample(deck, len(need.to_open())))))
                case NeedShuffle():
                    live.do(Reshuffle())
                case NeedAction(seat=seat) as need if rng.random() < 0.9:
                    action = at_random(rng)(hand, need)
                    name = live.table.seats[seat].player
                    live.do(Play(name, number, live.table.turns, action.act, action.to, action.cards))
                case _:
                    now += 40_000
                    live.do(Tick())
        assert live.table.hand is not None
        events += live.table.hand.events
    live.close()
    balances = store.balances()
    return [*store.table(at).journal], events, {player: balances[wallet(player)] for player in NAMES}


@pytest.mark.rule("P7-13")
@pytest.mark.parametrize("rules", GAMES.values(), ids=lambda rules: rules.name)
def test_play_money_and_real_money_are_played_by_the_same_rules(rules: HouseRules) -> None:
    """The same decisions give the same events, the same journal and the same gains, whoever the cashier is."""
    raked = replace(rules, rake=Rake(basis_points=500, cap=300))
    for seed in range(scaled(3, 200)):
        play_money = evening(raked, PlayMoney(DEPOSIT), seed)
        deposits = dict.fromkeys(NAMES, DEPOSIT)
        journal, events, gains = evening(raked, RealMoney(deposits), seed)
        assert play_money[:2] == (journal, events)
        assert play_money[2] == {player: DEPOSIT + gain for player, gain in gains.items()}
        assert sum(gains.values()) <= 0


@pytest.mark.rule("P7-13")
def test_nothing_that_decides_about_a_hand_knows_the_cashier() -> None:
    """Only who keeps the books does, or tells a caller of them; a rule that asks what money it is must import it."""
    package = Path(dealer.__file__).parent
    books = {"card_room", "table_live", "store", "server", "observed"}
    for path in sorted(package.rglob("*.py")):
        (name, *_) = path.relative_to(package).with_suffix("").parts
        assert name in books or "dealer.cashier" not in imported(path), path


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.rule("AL-8")
def test_rake_has_an_account_of_its_own() -> None:
    ledger = Ledger()
    ledger.post(
        [Transfer(BANK, wallet("ann"), 100), Transfer(wallet("ann"), rack("t"), 100), Transfer(rack("t"), RAKE, 5)]
    )
    assert (ledger.balance(RAKE), ledger.balance(rack("t"))) == (5, 95)
