"""Faults that were reported against other poker engines, each as a small input and what our rules give.

The numbers are those of the list of reports that the project was given; where a test stands for a kind of fault it runs
more inputs than the one reported. Faults in hand values are in `test_ranking.py`, ruled by the same list.
"""

import random
from collections import Counter
from itertools import pairwise, permutations

import pytest

from dealer.actions import Act, Action, IllegalAction
from dealer.blinds import Chair, next_deal
from dealer.events import (
    Acted,
    CommunityCard,
    Dealt,
    Discarded,
    Post,
    Posted,
    Posting,
    Reshuffled,
    Returned,
    RoundOpened,
    Won,
)
from dealer.hand import apply, legal_actions, start, time_out
from dealer.house_rules import Form, HouseRules, OddChip, OddHalf, Stakes, Structure
from dealer.pot import Layer, halves, layers, shares
from dealer.rooms import GAMES, recorded
from dealer.showdown import settle
from dealer.state import SHOWDOWN, Hand, NeedAction
from rngsvc.protocol.derivation import permute
from tests.dealer.play import Shoe, at_random, call_down, dealt, offered, parse_all, play, script, stacked, third_street
from tests.scale import scaled

STUD = recorded.STUD
HIGH_LOW = recorded.STUD_HIGH_LOW
DRAW = recorded.FIVE_CARD_DRAW
STUD_STAKES = Stakes(name="20/40", ante=5, bring_in=5, small_bet=20, big_bet=40)
NO_LIMIT = Stakes(name="1/2", structure=Structure.NO_LIMIT, small_blind=1, big_blind=2)


def no_limit(
    stacks: dict[int, int], button: int, stakes: Stakes = NO_LIMIT, posts: list[Posting] | None = None
) -> Hand:
    return start(DRAW, stakes, list(stacks.items()), button=button, posts=posts)


def shoe(seed: int = 1) -> Shoe:
    return Shoe(random.Random(seed))


# --- Pots, odd chips, returns


@pytest.mark.rule("AL-4")
def test_report_1_the_remainder_of_a_split_never_vanishes() -> None:
    assert sorted(shares(101, [0, 1, 2]).values()) == [33, 34, 34]
    for total in range(200):
        for winners in range(1, 9):
            split = shares(total, list(range(winners)))
            assert sum(split.values()) == total
            assert max(split.values()) - min(split.values()) <= 1


@pytest.mark.rule("AL-4")
def test_report_3_in_draw_the_odd_chip_goes_to_the_first_winner_left_of_the_button() -> None:
    stakes = Stakes(name="8/16", small_bet=8, big_bet=16, small_blind=1, big_blind=8)
    posts = [Posting(1, Post.DEAD, 1), Posting(2, Post.SMALL_BLIND, 1), Posting(3, Post.BIG_BLIND, 8)]
    hand = start(DRAW, stakes, [(1, 100), (2, 8), (3, 100), (4, 8)], button=1, posts=posts)
    # Dealt from seat 2: seats 2 and 4 have ace, king, queen, jack and ten, seat 3 nothing.
    cards = "Ac 2c Ad 3c Kc 2d Kd 3d Qc 4c Qd 5d Jc 6d Jd 7d Th 8c Ts 9c"
    acts = "4 call, 1 fold, 2 call, 2 stand_pat, 3 stand_pat, 4 stand_pat"
    hand = script(hand, Shoe(random.Random(1), stacked(cards)), acts)
    won = {event.seat: event.amount for event in hand.events if isinstance(event, Won)}
    assert won == {2: 13, 4: 12}


def settle_tie(rules: HouseRules, total: int, hands: dict[int, str]) -> dict[int, int]:
    pot = Layer(total, tuple(sorted(hands)))
    settlement = settle(
        rules,
        rules.rankings(52),
        [pot],
        {i: parse_all(cards) for i, cards in hands.items()},
        aggressor=None,
        first_to_act=min(hands),
        rake=None,
    )
    paid: dict[int, int] = {}
    for award in settlement.awards:
        paid[award.position] = paid.get(award.position, 0) + award.amount
    return paid


@pytest.mark.rule("AL-4")
def test_report_3_in_stud_by_suit_it_goes_to_the_highest_card_of_the_winning_five() -> None:
    rules = GAMES["limit_stud"]
    assert rules.odd_chip is OddChip.HIGH_CARD_BY_SUIT
    # Both have A-K-Q-J-9; suits as LS-3: clubs < hearts < diamonds < spades.
    low, high = "Ah Kd Qs Jc 9h 2d 3c", "Ad Kc Qh Jd 9c 2s 3h"
    assert settle_tie(rules, 25, {0: low, 1: high}) == {0: 12, 1: 13}
    assert settle_tie(rules, 25, {0: high, 1: low}) == {0: 13, 1: 12}
    # A card beside the winning five does not count: the ace of spades here plays in neither straight.
    assert settle_tie(rules, 25, {0: "Tc 9d 8h 7s 6c As 2d", 1: "Td 9c 8s 7h 6d 2c 2s"}) == {0: 12, 1: 13}


@pytest.mark.rule("LS-12")
def test_report_3_the_odd_chip_between_the_halves_goes_to_high() -> None:
    assert halves(101, OddHalf.HIGH) == (51, 50)
    assert halves(101, OddHalf.LOW) == (50, 51)
    high, low = "Kc Kd Kh 9s 9d 2c 3d", "8c 7d 5h 4s 2d Tc Jd"
    assert settle_tie(HIGH_LOW, 101, {0: low, 1: high}) == {1: 51, 0: 50}


@pytest.mark.rule("AL-20")
def test_report_5_a_layer_whose_contributors_all_folded_goes_to_the_pot_below() -> None:
    """P1, P2 all-in for 20; P3 and P4 in for 60; P3 folds, then P4, who is alone with chips, is folded out of turn."""
    assert layers([20, 20, 60, 60], [0] * 4, [0, 1]) == [(160, (0, 1))]
    for inside in ([0], [1], [0, 1, 2], [0, 3], [2], [0, 1, 2, 3]):
        assert sum(pot.total for pot in layers([20, 20, 60, 60], [0] * 4, inside)) == 160


@pytest.mark.rule("AL-20")
def test_pots_are_what_was_paid_whoever_folded() -> None:
    rng = random.Random(20)
    for _ in range(scaled(2_000, 100_000)):
        players = rng.randint(2, 8)
        paid = [rng.randint(1, 12) for _ in range(players)]
        dead = [rng.choice([0, 0, 0, 3]) for _ in range(players)]
        inside = sorted(rng.sample(range(players), rng.randint(1, players)))
        pots = layers(paid, dead, inside)
        assert sum(pot.total for pot in pots) == sum(paid) + sum(dead)
        assert len({pot.members for pot in pots}) == len(pots)
        assert pots[0].members == tuple(inside)
        for pot, above in pairwise(pots):
            assert set(above.members) < set(pot.members)


@pytest.mark.rule("P7-7")
@pytest.mark.rule("AL-13")
def test_report_7_an_all_in_player_keeps_the_pot_already_built() -> None:
    stakes = Stakes(name="10/20", bring_in=2, small_bet=10, big_bet=20)
    hand = start(STUD, stakes, [(1, 10), (2, 100), (3, 100)])
    order = third_street("2c Kd Qh", "Ac 2d 2h Ad 3d 3h", "4c 6c 7d Qs 4d 8h 9h Js 4s Tc 3c 8c 5d 5h 5s 6d")
    hand = script(hand, Shoe(random.Random(3), order), "1 complete, 2 call, 3 call")
    assert hand.street_name == "fourth"
    first = hand.awaits.seat
    other = 5 - first
    hand = script(hand, Shoe(random.Random(3), order), f"{first} check, {other} check")
    first = hand.awaits.seat
    other = 5 - first
    hand = script(hand, Shoe(random.Random(3), order), f"{first} bet, {other} call")
    assert hand.pots() == [("main", 30, (1, 2, 3)), ("side-1", 40, (2, 3))]
    hand = play(hand, Shoe(random.Random(3), order), call_down)
    assert hand.pots() == [("main", 30, (1, 2, 3)), ("side-1", 40, (2, 3))]
    won = {event.pot: (event.seat, event.amount) for event in hand.events if isinstance(event, Won)}
    assert won == {"main": (1, 30), "side-1": (3, 40)}


@pytest.mark.rule("AL-3")
def test_report_9_an_unmatched_bet_goes_back_before_the_showdown_and_wins_nothing() -> None:
    hand = no_limit({1: 200, 2: 40}, button=1)
    cards = "Ac 2c Ad 3c Ah 4d As 5d Kc 7d"  # seat 2, left of the button, is dealt first
    hand = script(hand, Shoe(random.Random(1), stacked(cards)), "1 raise 100, 2 call, 2 stand_pat, 1 stand_pat")
    back = [event for event in hand.events if isinstance(event, Returned)]
    won = [event for event in hand.events if isinstance(event, Won)]
    assert back == [Returned(1, 60)]
    assert hand.events.index(back[0]) < hand.events.index(won[0])
    assert won == [Won(2, "main", "", 80)]
    assert hand.net() == {2: 40, 1: -40}


@pytest.mark.rule("LS-12")
def test_report_11_high_and_low_are_found_pot_by_pot_among_its_own_players() -> None:
    pots = layers([30, 80, 80], [0] * 3, [0, 1, 2])
    hands = {
        0: parse_all("Ac2d3h4s5cKdQh"),
        1: parse_all("KhKs9d7c6s4d2h"),
        2: parse_all("Ah8d7h3c2sJcJd"),
    }
    settlement = settle(HIGH_LOW, HIGH_LOW.rankings(52), pots, hands, aggressor=None, first_to_act=0, rake=None)
    paid = {(award.pot, award.position, award.side): award.amount for award in settlement.awards}
    assert paid == {(0, 0, "high"): 45, (0, 0, "low"): 45, (1, 1, "high"): 50, (1, 2, "low"): 50}


# --- All-in raises and the end of a round


@pytest.mark.rule("AL-2")
def test_report_13_an_all_in_below_a_full_raise_does_not_reopen() -> None:
    hand = no_limit({1: 200, 2: 19, 3: 200, 4: 200}, button=1)
    hand = script(hand, shoe(), "4 raise 16, 1 call, 2 raise 19, 3 call")
    assert offered(hand) == ["4: fold", "4: call 19"]
    assert hand.awaits.choices[1].adds == 3
    hand = script(hand, shoe(), "4 call")
    assert offered(hand) == ["1: fold", "1: call 19"]


@pytest.mark.rule("AL-2")
def test_who_has_not_acted_may_raise_over_a_short_all_in_and_that_reopens() -> None:
    hand = no_limit({1: 200, 2: 19, 3: 200, 4: 200}, button=1)
    hand = script(hand, shoe(), "4 raise 16, 1 fold, 2 raise 19")
    assert offered(hand) == ["3: fold", "3: call 19", "3: raise 33..200"]
    hand = script(hand, shoe(), "3 raise 33")
    assert offered(hand) == ["4: fold", "4: call 33", "4: raise 47..200"]


@pytest.mark.rule("AL-2")
def test_short_all_ins_that_reach_a_full_raise_together_reopen_for_whom_they_do() -> None:
    stakes = Stakes(name="5/10", structure=Structure.NO_LIMIT, small_blind=5, big_blind=10)
    hand = start(DRAW, stakes, [(1, 1000), (2, 160), (3, 230), (4, 1000), (5, 1000)], button=5)
    hand = script(hand, shoe(), "3 fold, 4 raise 100, 5 call, 1 fold, 2 raise 160")
    assert offered(hand) == ["4: fold", "4: call 160"]
    stakes_hand = start(DRAW, stakes, [(1, 160), (2, 1000), (3, 1000), (4, 1000), (5, 230)], button=5)
    # 100, all-in 160, called by seat 2, all-in 230: for seat 3 that is 130 more, for seat 2 only 70.
    hand = script(stakes_hand, shoe(), "3 raise 100, 4 fold, 5 call, 1 raise 160, 2 call")
    assert offered(hand) == ["3: fold", "3: call 160"]


@pytest.mark.rule("AL-2")
def test_report_15_who_can_more_than_call_but_not_raise_in_full_may_go_all_in() -> None:
    hand = no_limit({1: 200, 2: 200, 3: 29}, button=3)
    hand = script(hand, shoe(), "3 call, 1 call, 2 check, 1 stand_pat, 2 stand_pat, 3 stand_pat, 1 bet 22, 2 fold")
    assert offered(hand) == ["3: fold", "3: call 22", "3: raise 27"]
    hand = no_limit({1: 200, 2: 200, 3: 31}, button=3)
    hand = script(hand, shoe(), "3 call, 1 call, 2 check, 1 stand_pat, 2 stand_pat, 3 stand_pat, 1 bet 22, 2 fold")
    assert offered(hand) == ["3: fold", "3: call 22", "3: raise 29"]


def test_report_17_the_amount_to_call_after_a_short_all_in_is_known() -> None:
    hand = no_limit({1: 156, 2: 500, 3: 500}, button=3)
    hand = script(hand, shoe(), "3 fold, 1 call, 2 check, 1 stand_pat, 2 stand_pat, 1 bet 55, 2 raise 123, 1 raise 154")
    assert offered(hand) == ["2: fold", "2: call 154"]
    assert hand.awaits.choices[1].adds == 31


@pytest.mark.rule("AL-3")
@pytest.mark.rule("AL-12")
def test_report_19_with_one_stack_left_the_rest_is_dealt_and_nobody_is_asked() -> None:
    hand = start(STUD, STUD_STAKES, [(1, 25), (2, 500)])
    order = third_street("2c Kd")
    hand = script(hand, Shoe(random.Random(1), order), "1 complete, 2 call")
    assert hand.over or hand.awaits.street == SHOWDOWN
    streets = [event.street for event in hand.events if isinstance(event, Dealt)]
    assert [streets.count(street) for street in ("fourth", "fifth", "sixth", "seventh")] == [2, 2, 2, 2]
    assert not [event for event in hand.events if getattr(event, "act", None) is Act.CHECK]


@pytest.mark.rule("AL-1")
@pytest.mark.rule("PK-20")
def test_report_21_a_blind_that_is_all_in_does_not_close_the_round_early() -> None:
    stakes = Stakes(name="10/20", structure=Structure.NO_LIMIT, small_blind=10, big_blind=20)
    hand = start(DRAW, stakes, [(1, 1980), (2, 20)], button=1)
    hand = dealt(hand, shoe())
    assert offered(hand) == ["1: fold", "1: call 20"]
    assert hand.awaits.choices[1].adds == 10


@pytest.mark.rule("PK-3")
def test_report_23_the_big_blind_has_his_option() -> None:
    hand = no_limit({1: 100, 2: 100, 3: 100, 4: 100}, button=1)
    hand = script(hand, shoe(), "4 call, 1 call, 2 call")
    assert offered(hand) == ["3: fold", "3: check", "3: raise 4..100"]
    hand = script(hand, shoe(), "3 check")
    assert hand.awaits.street == "draw"


# --- Antes, blinds, button, bring-in


@pytest.mark.rule("AL-10")
def test_report_25_the_ante_is_no_part_of_a_bet() -> None:
    hand = start(STUD, STUD_STAKES, [(1, 500), (2, 500), (3, 500)])
    hand = script(hand, Shoe(random.Random(1), third_street("2c Kd Qh")), "1 bring_in, 2 complete")
    assert hand.events[-1].to == 20
    assert hand.net()[2] == -25


@pytest.mark.rule("AL-1")
def test_report_27_a_low_card_that_is_all_in_passes_the_bring_in_to_the_left() -> None:
    hand = start(STUD, STUD_STAKES, [(1, 500), (2, 5), (3, 500), (4, 500)])
    # Seat 2 has the lowest card, seat 4 the next lowest: seat 3 acts all the same.
    cards = Shoe(random.Random(1), third_street("Kd 2c Qh 3c"))
    hand = dealt(hand, cards)
    assert offered(hand) == ["3: fold", "3: bring_in 5", "3: complete 20"]
    hand = script(hand, cards, "3 fold")
    assert offered(hand) == ["4: fold", "4: bring_in 5", "4: complete 20"]
    hand = script(hand, cards, "4 fold")
    assert hand.awaits is None or hand.awaits.street == SHOWDOWN  # the last one with chips owes nothing


def test_report_29_raise_to_is_a_total() -> None:
    stakes = Stakes(name="2/4", small_bet=2, big_bet=4, small_blind=1, big_blind=2)
    hand = start(DRAW, stakes, [(1, 100), (2, 100)], button=2)
    hand = script(hand, shoe(), "2 call, 1 check, 1 stand_pat, 2 stand_pat")
    before = sum(total for _, total, _ in hand.pots())
    hand = script(hand, shoe(), "1 bet 4, 2 raise 8, 1 raise 12")
    assert [event.adds for event in hand.events[-3:]] == [4, 8, 8]
    assert sum(total for _, total, _ in hand.pots()) - before == 20


def test_report_31_heads_up_with_one_blind_the_other_acts_first() -> None:
    stakes = Stakes(name="1/2", structure=Structure.NO_LIMIT, ante=1, small_blind=1, big_blind=2)
    for button, (poster, other) in ((1, (2, 1)), (2, (2, 1)), (1, (1, 2)), (2, (1, 2))):
        posts = [Posting(1, Post.ANTE, 1), Posting(2, Post.ANTE, 1), Posting(poster, Post.BIG_BLIND, 2)]
        hand = dealt(no_limit({1: 50, 2: 50}, button, stakes, posts), shoe())
        assert hand.awaits.seat == other


@pytest.mark.rule("PK-11")
@pytest.mark.rule("PK-19")
def test_report_35_a_newcomers_live_post_acts_in_its_turn_and_may_check() -> None:
    posts = [Posting(2, Post.SMALL_BLIND, 5), Posting(3, Post.BIG_BLIND, 10), Posting(5, Post.LIVE_POST, 10)]
    stakes = Stakes(name="5/10", structure=Structure.NO_LIMIT, small_blind=5, big_blind=10)
    hand = dealt(no_limit({1: 100, 2: 100, 3: 100, 4: 100, 5: 100}, 1, stakes, posts), shoe())
    assert hand.awaits.seat == 4
    hand = script(hand, shoe(), "4 call")
    assert offered(hand) == ["5: fold", "5: check", "5: raise 20..100"]


# --- Deals, draws, shuffles


def test_report_37_folded_cards_are_not_in_the_stub() -> None:
    hand = start(STUD, STUD_STAKES, [(seat, 500) for seat in range(1, 5)])
    hand = script(hand, Shoe(random.Random(1), third_street("2c Kd Qh Js")), "1 bring_in, 2 fold")
    assert hand.stub.left == 40
    assert len(hand.where) == 12


@pytest.mark.rule("AL-5")
def test_report_41_a_timeout_checks_if_it_is_free_else_folds() -> None:
    hand = no_limit({1: 100, 2: 100, 3: 100}, button=1)
    hand = time_out(dealt(hand, shoe()))
    assert hand.events[-1].act is Act.FOLD
    hand = script(hand, shoe(), "2 call")
    hand = time_out(hand)
    assert [event.act for event in hand.events if hasattr(event, "act")][-1] is Act.CHECK
    hand = time_out(time_out(dealt(hand, shoe())))
    drew = [len(event.cards) for event in hand.events if hasattr(event, "locations")]
    assert drew == [0, 0]


@pytest.mark.rule("AL-5")
@pytest.mark.rule("CC-12")
def test_report_41_a_bring_in_that_times_out_is_posted() -> None:
    rules = GAMES["casino_club"]
    hand = start(rules, rules.stakes[0], [(1, 500), (2, 500)])
    hand = time_out(dealt(hand, Shoe(random.Random(1), third_street("2c Kd"))))
    assert (hand.events[-1].act, hand.events[-1].adds) == (Act.BRING_IN, 50)


# --- kinds of which the list shows one


def test_every_order_of_all_in_stacks_pays_the_best_hand_of_each_pot() -> None:
    """Reports 5 to 11 as a kind: three all-ins of every order, each player with the best hand in turn."""
    stakes = Stakes(name="5/10", structure=Structure.NO_LIMIT, small_blind=5, big_blind=10)
    for stacks in permutations((30, 70, 150)):
        hand = start(DRAW, stakes, list(enumerate(stacks, 1)), button=3)
        hand = script(hand, shoe(7), f"3 raise {stacks[2]}") if stacks[2] > 10 else hand
        while isinstance(hand.awaits, NeedAction) and hand.awaits.street == "predraw":
            choice = hand.awaits.choices[-1]
            hand = dealt(apply(hand, Action(hand.awaits.seat, choice.act, choice.highest or None)), shoe(7))
        hand = play(hand, shoe(7), call_down)
        assert sum(hand.betting.stacks) == 250
        assert [total for _, total, _ in hand.pots()] == [90, 80]


@pytest.mark.rule("AL-7")
@pytest.mark.parametrize("game", list(GAMES))
def test_an_illegal_act_changes_nothing_and_names_the_legal_ones(game: str) -> None:
    rules = GAMES[game]
    players = rules.most_players
    stakes = rules.stakes[0]
    shoe = Shoe(random.Random(2), deck_size=rules.deck_size(players))
    hand = dealt(start(rules, stakes, [(seat, 5000) for seat in range(1, players + 1)], button=1), shoe)
    legal = {choice.act for choice in legal_actions(hand)}
    before = hand.awaits, list(hand.events)
    chips = hand.betting.stacks.copy()
    for seat in (*hand.seats, 99):
        for act in Act:
            if seat == hand.awaits.seat and act in legal:
                continue
            if rules.fold_out_of_turn and act is Act.FOLD and seat in hand.seats and seat != hand.awaits.seat:
                continue
            with pytest.raises(IllegalAction) as refused:
                apply(hand, Action(seat, act, 100 if act in (Act.BET, Act.RAISE) else None))
            assert f"seat {hand.awaits.seat} may: " in str(refused.value)
            assert refused.value.legal == legal_actions(hand)
            assert (hand.awaits, hand.events) == before
            assert hand.betting.stacks == chips


def test_a_community_card_is_dealt_once_and_to_nobody() -> None:
    rules = GAMES["casino_club"]
    hand = play(start(rules, rules.stakes[0], [(seat, 5000) for seat in range(1, 9)]), shoe(8), call_down)
    assert sum(isinstance(event, CommunityCard) for event in hand.events) == 1


# --- each report's kind, over random hands of every game


def random_hand(rng: random.Random, game: str) -> Hand:
    """Return a hand that was played by anybody to its end, stacks from one chip up, perhaps with posts of newcomers."""
    rules = GAMES[game]
    stakes = rng.choice(rules.stakes)
    players = rng.randint(rules.fewest_players, rules.most_players)
    unit = stakes.small_bet
    stacks = [(seat, rng.choice([rng.randint(1, 4 * unit), 50 * unit])) for seat in range(1, players + 1)]
    button = rng.randint(1, players) if rules.form is Form.FIVE_CARD_DRAW else 0
    begun = start(rules, stakes, stacks, button=button)
    return play(begun, Shoe(rng, deck_size=begun.deck_size), rng.choice([call_down, at_random(rng), at_random(rng)]))


@pytest.mark.parametrize("game", list(GAMES))
def test_kind_of_reports_9_25_and_29_each_chip_is_counted_once(game: str) -> None:
    """What an act adds is its total less what lay on the street; antes are no part of it; the sums are the pots."""
    rng = random.Random(f"chips {game}")
    for _ in range(scaled(150, 10_000)):
        hand = random_hand(rng, game)
        on_street: dict[int, int] = {}
        put_in = dict.fromkeys(hand.seats, 0)
        for event in hand.events:
            match event:
                case Posted(seat, post, amount, _):
                    put_in[seat] += amount
                    if post not in (Post.ANTE, Post.DEAD):
                        on_street[seat] = on_street.get(seat, 0) + amount
                case RoundOpened(street, _) if street not in ("third", "predraw"):
                    on_street = {}
                case Acted(_, seat, act, adds, to, _) if act not in (Act.FOLD, Act.CHECK):
                    assert to == on_street.get(seat, 0) + adds
                    on_street[seat] = to
                    put_in[seat] += adds
                case Returned(seat, amount):
                    put_in[seat] -= amount
                    # Report 9: nobody is left in for more than another put in.
                    assert put_in[seat] == max(other for who, other in put_in.items() if who != seat)
                case Won():
                    break
                case _:
                    pass
        assert sum(total for _, total, _ in hand.pots()) == sum(put_in.values())
        won = dict.fromkeys(hand.seats, 0)
        for event in hand.events:
            if isinstance(event, Won):
                won[event.seat] += event.amount
        assert hand.net() == {seat: won[seat] - put_in[seat] for seat in hand.seats}


@pytest.mark.parametrize("game", list(GAMES))
def test_kind_of_reports_19_and_21_who_owes_is_asked_and_who_cannot_gain_is_not(game: str) -> None:
    rng = random.Random(f"asked {game}")
    for _ in range(scaled(100, 5_000)):
        rules = GAMES[game]
        stakes = rules.stakes[0]
        players = rng.randint(rules.fewest_players, rules.most_players)
        stacks = [(seat, rng.randint(1, 6 * stakes.small_bet)) for seat in range(1, players + 1)]
        button = rng.randint(1, players) if rules.form is Form.FIVE_CARD_DRAW else 0
        hand = start(rules, stakes, stacks, button=button)
        cards, choose = Shoe(rng, deck_size=hand.deck_size), at_random(rng)
        while not hand.over:
            need, betting = hand.awaits, hand.betting
            if not isinstance(need, NeedAction):
                # A street is over: all who are in have put in the same, or are all-in for less.
                began = any(isinstance(event, RoundOpened) for event in hand.events)
                owing = began and [
                    i for i in betting.active if betting.paid[i] < max(betting.paid[j] for j in betting.inside)
                ]
                assert not owing
                hand = cards.answer(hand)
                continue
            if need.street not in (SHOWDOWN, "draw"):
                i = hand.position[need.seat]
                assert betting.stacks[i] > 0
                acts = {choice.act for choice in need.choices}
                others = [j for j in betting.active if j != i]
                assert others or acts & {Act.CALL, Act.BRING_IN}, "alone with chips he is asked only for what he owes"
            hand = apply(hand, choose(hand, need))


def test_kind_of_reports_23_and_35_whoever_has_chips_is_asked_before_the_draw() -> None:
    """Nobody raises: each is asked once, the blinds and live posts too, from the left of the true big blind on."""
    rng = random.Random(23)
    stakes = Stakes(name="5/10", structure=Structure.NO_LIMIT, small_blind=5, big_blind=10)
    for _ in range(scaled(300, 20_000)):
        players = rng.randint(2, 6)
        button = rng.randint(1, players)
        order = [(button + n) % players + 1 for n in range(players)]
        small, big = (order[0], order[1]) if players > 2 else (order[1], order[0])
        posts = [Posting(small, Post.SMALL_BLIND, 5), Posting(big, Post.BIG_BLIND, 10)]
        posts += [Posting(seat, Post.LIVE_POST, 10) for seat in order[2:] if rng.random() < 0.3]
        hand = dealt(no_limit(dict.fromkeys(range(1, players + 1), 100), button, stakes, posts), shoe())
        asked = []
        while hand.awaits.street == "predraw":
            asked.append(hand.awaits.seat)
            hand = dealt(apply(hand, call_down(hand, hand.awaits)), shoe())
        after = order.index(big) + 1
        assert asked == order[after:] + order[:after]


def test_kind_of_reports_13_15_and_17_a_raise_is_for_who_faces_a_full_one_or_has_not_acted() -> None:
    """A model of its own follows the acts and says who may raise, to what at least, and what a call costs."""
    rng = random.Random(13)
    short = 0
    for _ in range(scaled(400, 30_000)):
        players = rng.randint(2, 6)
        stacks = {seat: rng.choice([rng.randint(1, 60), rng.randint(1, 60), 400]) for seat in range(1, players + 1)}
        cards, choose = Shoe(rng), at_random(rng)
        hand = dealt(no_limit(stacks, 1), cards)
        street, level, least = "", 0, 2
        # What each had in front of him when he last acted on this street.
        acted: dict[int, int] = {}
        while isinstance(hand.awaits, NeedAction) and hand.awaits.street != SHOWDOWN:
            need = hand.awaits
            if need.street != "draw":
                if need.street != street:
                    street, acted, least = need.street, {}, 2
                    level = 2 if street == "predraw" else 0
                bets = {seat: hand.betting.bets[hand.position[seat]] for seat in hand.seats}
                others = {seat: total for seat, total in bets.items() if seat != need.seat}
                reach = [total + hand.stack(seat) for seat, total in others.items() if in_play(hand, seat)]
                bet, stack = bets[need.seat], hand.stack(need.seat)
                reopened = need.seat not in acted or level - acted[need.seat] >= least
                may = reopened and bet + stack > level and any(total > max(bets.values()) for total in reach)
                raises = [choice for choice in need.choices if choice.act in (Act.BET, Act.RAISE)]
                assert bool(raises) is may, (need, bets, acted, level, least)
                for choice in raises:
                    assert (choice.lowest, choice.highest) == (min(level + least, bet + stack), bet + stack)
                    short += choice.lowest < level + least
                # A lone opponent owes no more than the others bet; else all owe the level, short blind or not.
                most = max(total for seat, total in others.items() if inside(hand, seat))
                calls = [choice.adds for choice in need.choices if choice.act is Act.CALL]
                assert calls in ([], [min((level if reach else most) - bet, stack)])
            hand = apply(hand, choose(hand, need))
            event = next((each for each in reversed(hand.events) if isinstance(each, Acted)), None)
            if need.street != "draw" and event is not None:
                if event.act in (Act.BET, Act.RAISE):
                    least = max(least, event.to - level)
                    level = event.to
                acted[need.seat] = level
            hand = dealt(hand, cards)
    assert short > 20, "short all-ins were offered"


def in_play(hand: Hand, seat: int) -> bool:
    return hand.position[seat] in hand.betting.active


def inside(hand: Hand, seat: int) -> bool:
    return hand.position[seat] in hand.betting.inside


def test_kind_of_report_27_the_bring_in_goes_to_the_next_seat_with_chips() -> None:
    rng = random.Random(27)
    for _ in range(scaled(300, 20_000)):
        players = rng.randint(2, 8)
        stacks = [(seat, rng.choice([5, 500])) for seat in range(1, players + 1)]
        hand = dealt(start(STUD, STUD_STAKES, stacks), Shoe(rng))
        low = min(hand.seats, key=lambda seat: (hand.up[seat - 1][0] >> 2, hand.up[seat - 1][0] & 3))
        clockwise = [(low - 1 + n) % players + 1 for n in range(players)]
        with_chips = [seat for seat in clockwise if stacks[seat - 1][1] > 5]
        if len(with_chips) > 1:
            assert hand.awaits.seat == with_chips[0]
            assert Act.BRING_IN in {choice.act for choice in hand.awaits.choices}


@pytest.mark.rule("PK-2")
@pytest.mark.parametrize("active", [2, 3, 4, 5])
def test_report_33_who_sits_out_freezes_nothing_and_the_big_blind_goes_round(active: int) -> None:
    """In any row of as many hands as there are active players each is the big blind once, whoever sits out where."""
    rules = GAMES["pokerkings"]
    rng = random.Random(33)
    for _ in range(scaled(100, 5_000)):
        seats = rng.sample(range(1, 10), rng.randint(active, 9))
        playing = set(rng.sample(seats, active))
        chairs = [Chair(seat, seat in playing) for seat in sorted(seats)]
        last, bigs = None, []
        for number in range(2 + 3 * active):
            drawn = rng.choice(sorted(playing)) if number == 0 else None
            deal = next_deal(rules, rules.stakes[0], chairs, last, drawn)
            assert deal is not None
            assert deal.blinds is not None
            last = deal.blinds
            bigs += last.bigs
            chairs = [chair._replace(owes=deal.owes[chair.seat]) for chair in chairs]
            assert set(deal.dealt) == playing
        for first in range(len(bigs) - active + 1):
            assert set(bigs[first : first + active]) == playing


@pytest.mark.parametrize("game", list(GAMES))
def test_kind_of_report_37_a_card_is_in_one_place_and_a_folded_hands_card_never_comes_back(game: str) -> None:
    rng = random.Random(f"cards {game}")
    for _ in range(scaled(100, 8_000)):
        hand = random_hand(rng, game)
        held: dict[int, set[int]] = {seat: set() for seat in hand.seats}
        folded: set[int] = set()
        thrown: dict[object, int] = {}
        for event in hand.events:
            match event:
                case Dealt(_, seat, _, _, _, card):
                    assert card not in folded | set(thrown.values()) | set().union(*held.values())
                    held[seat].add(card)
                case CommunityCard(_, _, _, card):
                    assert card not in folded | set().union(*held.values())
                case Acted(_, seat, Act.FOLD, _, _, _):
                    folded |= held.pop(seat)
                case Discarded(seat, cards, locations):
                    held[seat] -= set(cards)
                    thrown |= dict(zip(locations, cards, strict=True))
                case Reshuffled(_, locations):
                    thrown = {at: card for at, card in thrown.items() if at not in locations}
                case _:
                    pass


def test_report_39_each_order_of_three_cards_is_dealt_as_often() -> None:
    orders = Counter(tuple(permute(number.to_bytes(48, "big"), bytes(32), 0, range(3))[0]) for number in range(60_000))
    assert len(orders) == 6
    assert all(abs(count - 10_000) <= 400 for count in orders.values())
