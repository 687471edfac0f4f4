"""The cashier's ledger balances, whatever players bring and take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealer.cashier import BANK, RAKE, Ledger, NotEnough, PlayMoney, Transfer, rack, wallet
from dealer.house_rules import HouseRules
from dealer.rooms import GAMES

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
    with pytest.raises(AssertionError):
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


@pytest.mark.rule("P7-13")
@pytest.mark.parametrize("rules", GAMES.values(), ids=lambda rules: rules.name)
def test_no_rule_of_a_house_knows_what_money_it_is(rules: HouseRules) -> None:
    assert not [name for name in rules.__slots__ if "money" in name and "pot" not in name]


@pytest.mark.rule("AL-8")
def test_rake_has_an_account_of_its_own() -> None:
    ledger = Ledger()
    ledger.post(
        [Transfer(BANK, wallet("ann"), 100), Transfer(wallet("ann"), rack("t"), 100), Transfer(rack("t"), RAKE, 5)]
    )
    assert (ledger.balance(RAKE), ledger.balance(rack("t"))) == (5, 95)
