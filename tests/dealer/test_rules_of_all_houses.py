"""The readings that all houses share, and those of their fields that a house may set otherwise."""

import random
from dataclasses import replace

import pytest

from dealer.actions import Act, Action
from dealer.events import Acted, Raked, Reshuffled, Returned, Shown, Voided, Won
from dealer.hand import apply, start, void
from dealer.house_rules import (
    AfterShortAllIn,
    DrawOrder,
    HouseRules,
    Rake,
    SeventhStreetFirst,
    ShortStub,
    Stakes,
    Structure,
)
from dealer.pot import layers, rakes
from dealer.rooms import GAMES
from dealer.showdown import settle
from dealer.state import Hand, NeedAction
from dealer.stud import board_value
from tests.dealer.play import Shoe, at_random, call_down, dealt, offered, parse_all, play, script, third_street
from tests.dealer.test_rules_of_draw import all_draw_five
from tests.dealer.test_rules_of_stud import CASINO_CLUB, POKER777, STAKES, STUD_HOUSES, Table, acted, table
from tests.scale import scaled

LIMIT = Stakes(name="100/200", ante=10, bring_in=30, small_bet=100, big_bet=200)


def on_fifth(stacks: list[int], rules: HouseRules = CASINO_CLUB) -> Table:
    """Fifth street of three players with big bets of 200; each has 40 less than his stack by then. Seat 1 is first."""
    order = third_street("Ad Kd Qh", then="2c Ac 9h 8h 2d Th 7h 6h")
    hand = Table(rules, order, stacks, LIMIT)
    return hand.to("fifth")


@pytest.mark.rule("AL-1")
def test_a_short_bring_in_leaves_the_others_owing_the_full_one() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh", stacks=[2, 500, 500]).play("1 bring_in")
    assert acted(hand.hand) == [(1, "bring_in", 1)]
    assert hand.offered == ["2: fold", "2: call 3", "2: complete 5"]
    lone = table(CASINO_CLUB, "2c Kd", stacks=[2, 500]).play("1 bring_in")
    assert lone.offered == ["2: fold", "2: call 1"]


# Each row: the stacks of seats 1 to 3 on fifth street, the acts, and what the next player may do. The bet is 200.
HALF_BETS = [
    (
        "half or more is a raise, and the next adds a full bet to the total",
        "1 bet, 2 raise 300",
        ["call 300", "raise 500"],
    ),
    ("585 over 400 is a raise: 785 next", "1 bet, 2 call, 3 raise 400, 1 raise 585", ["call 585", "raise 785"]),
    (
        "less than half is none: who has not acted may raise to the full level",
        "1 bet, 2 raise 260",
        ["call 260", "raise 400"],
    ),
    ("less than half: who has acted may only call", "1 bet, 2 raise 260, 3 call", ["call 260"]),
    ("a short bet of less than half: the bet is completed", "1 check, 2 bet 60", ["call 60", "raise 200"]),
    ("and who has checked may only call it", "1 check, 2 bet 60, 3 call", ["call 60"]),
    ("after the cap nobody raises, not even all-in", "1 bet, 2 raise 400, 3 raise 600, 1 raise 800", ["call 800"]),
]


@pytest.mark.rule("AL-2")
@pytest.mark.parametrize(("claim", "acts", "expected"), HALF_BETS, ids=[row[0] for row in HALF_BETS])
def test_short_all_ins_in_fixed_limit(claim: str, acts: str, expected: list[str]) -> None:
    # Whoever raises to less than a full level has exactly that much.
    stacks = {1: 5000, 2: 5000, 3: 5000}
    for act in acts.split(", "):
        seat, _, *total = act.split()
        if total and int(total[0]) % 200:
            stacks[int(seat)] = 40 + int(total[0])
    hand = on_fifth(list(stacks.values())).play(acts)
    assert [line.split(": ")[1] for line in hand.offered][1:] == expected


@pytest.mark.rule("AL-2")
def test_several_short_all_ins_add_up_and_reopen_for_who_has_acted() -> None:
    order = third_street("Ad Kd Qh Js", then="2c Ac 9h 8h 7h 2d Th 5h 6h 4c")
    hand = Table(CASINO_CLUB, order, [5000, 40 + 260, 40 + 320, 5000], LIMIT).to("fifth")
    hand.play("1 bet, 2 raise 260")
    alone = hand.hand
    hand.play("3 call, 4 call")
    assert hand.offered == ["1: fold", "1: call 260"]
    hand.hand = alone
    hand.play("3 raise 320, 4 call")
    assert hand.offered == ["1: fold", "1: call 320", "1: raise 520"]


@pytest.mark.rule("AL-2")
def test_a_house_may_count_the_next_raise_from_the_full_level_instead() -> None:
    rules = replace(CASINO_CLUB, after_short_all_in=AfterShortAllIn.FULL_LEVEL)
    hand = on_fifth([40 + 585, 5000, 5000], rules).play("1 bet, 2 call, 3 raise 400, 1 raise 585")
    assert hand.offered[-1] == "2: raise 800"


@pytest.mark.rule("AL-2")
@pytest.mark.parametrize(
    ("stack", "total", "offer"),
    [
        # The completion adds 70 to the bring-in of 30: 35 more is half of it.
        (10 + 65, 65, ["call 65", "raise 165"]),
        (10 + 64, 64, ["call 64", "complete 100"]),
    ],
)
def test_a_short_completion_is_measured_against_what_it_adds_to_the_bring_in(
    stack: int, total: int, offer: list[str]
) -> None:
    hand = Table(CASINO_CLUB, third_street("2c Kd Qh"), [5000, stack, 5000], LIMIT).play(
        f"1 bring_in, 2 complete {total}"
    )
    assert [line.split(": ")[1] for line in hand.offered][1:] == offer
    hand.play("3 call")
    reopened = "raise 165" in offer
    assert (len(hand.offered) == 3) is reopened


@pytest.mark.rule("AL-3")
def test_no_player_is_asked_when_one_has_chips_and_owes_nothing() -> None:
    hand = Table(CASINO_CLUB, third_street("2c Kd Qh"), [200, 100, 100], LIMIT)
    hand.play("1 bring_in, 2 complete 90, 3 call, 1 call")
    assert not [event for event in hand.hand.events if isinstance(event, Acted) and event.street != "third"]
    assert [len(hand.hand.cards(seat)) for seat in (1, 2, 3)] == [7, 7, 7]


@pytest.mark.rule("AL-8")
@pytest.mark.parametrize(
    ("totals", "points", "cap", "taken"),
    [
        ([1000], 500, 10_000, [50]),
        ([1019], 500, 10_000, [50]),  # rounded down
        ([1000], 500, 30, [30]),  # at most the cap a hand
        ([90, 90], 500, 10_000, [4, 5]),  # together 5 % of 180, rounded down once
        ([1000, 1000], 500, 70, [50, 20]),
        ([7], 500, 10_000, [0]),
    ],
)
def test_the_rake_is_a_percentage_of_the_whole_pot_with_a_cap(
    totals: list[int], points: int, cap: int, taken: list[int]
) -> None:
    assert rakes(Rake(points, cap), totals) == taken
    assert rakes(None, totals) == [0] * len(totals)


@pytest.mark.rule("AL-8")
def test_uncalled_bets_and_hands_that_end_in_the_first_round_are_not_raked() -> None:
    rules = replace(CASINO_CLUB, rake=Rake(5000, 100))
    hand = table(rules, "2c Kd Qh").play("1 bring_in, 2 complete, 3 fold, 1 fold")
    assert hand.hand.raked == 0, "half of nine would be four"
    rules = replace(CASINO_CLUB, rake=Rake(1000, 100))
    hand = table(rules, "2c Kd Qh").to("fifth")
    first = hand.hand.awaits.seat
    hand.play(f"{first} bet")
    while isinstance(hand.hand.awaits, NeedAction) and hand.hand.awaits.street == "fifth":
        hand.play(f"{hand.hand.awaits.seat} fold")
    # Three antes of 1 and three bring-ins of 3 make 12; the bet of 10 went back.
    assert [event for event in hand.hand.events if isinstance(event, Raked)] == [Raked("main", 1)]
    assert sum(hand.hand.net().values()) == -1
    assert all(game.rake is None for game in GAMES.values())


@pytest.mark.rule("AL-10")
def test_a_stack_not_above_the_ante_is_all_in_for_it_and_the_rest_is_a_side_pot() -> None:
    stakes = replace(STAKES, ante=4)
    hand = Table(CASINO_CLUB, third_street("Kd 2c Qh"), [3, 500, 500], stakes)
    assert hand.hand.pots() == [("main", 9, (1, 2, 3)), ("side-1", 2, (2, 3))]
    hand.play("2 bring_in, 3 call")
    assert hand.hand.pots() == [("main", 9, (1, 2, 3)), ("side-1", 8, (2, 3))]


@pytest.mark.rule("AL-11")
def test_if_the_high_hand_is_all_in_the_next_to_its_left_with_chips_acts() -> None:
    # Seat 1 shows an ace and is all-in for the bring-in; seat 3 has the next best board, seat 2 sits to the left.
    hand = table(CASINO_CLUB, "Ac 2c Kh", then="4c Ah 5c Kd", stacks=[4, 500, 500]).to("fourth")
    assert hand.hand.first_to_act == 0
    assert hand.hand.awaits.seat == 2


@pytest.mark.rule("AL-14")
@pytest.mark.parametrize("game", list(GAMES))
def test_fold_is_always_among_the_choices_but_for_an_owed_bring_in(game: str) -> None:
    rules = GAMES[game]
    rng = random.Random(game)
    for _ in range(scaled(50, 2_000)):
        players = rng.randint(2, rules.most_players)
        stakes = rng.choice(rules.stakes)
        hand = start(
            rules, stakes, [(seat, rng.randint(1, 9 * stakes.big_bet)) for seat in range(1, players + 1)], button=1
        )
        shoe = Shoe(rng, deck_size=hand.deck_size)
        choose = at_random(rng)
        while not hand.over:
            need = hand.awaits
            if not isinstance(need, NeedAction):
                hand = shoe.answer(hand)
                continue
            acts = {choice.act for choice in need.choices}
            if need.street not in ("draw", "showdown"):
                owner = hand.bring_in_due and hand.position[need.seat] == hand.low_card
                assert (Act.FOLD in acts) is not owner
            hand = apply(hand, choose(hand, need))


@pytest.mark.rule("AL-17")
def test_the_last_side_pot_is_settled_and_shown_first_the_main_pot_last() -> None:
    pots = layers([30, 80, 80, 120, 120], [0] * 5, [0, 1, 2, 3, 4])
    rules = CASINO_CLUB
    cards = [
        "Ac Ad Ah As 2c 3d 4h",
        "Kc Kd Kh 2d 3c 5h 6s",
        "Qc Qd 2h 3s 5d 7c 8s",
        "Jc Jd 4d 6c 8h 9s Ts",
        "9c 9d 4c 5s 6h 8d Th",
    ]
    hands = {i: parse_all(text) for i, text in enumerate(cards)}
    settlement = settle(rules, rules.rankings(52), pots, hands, aggressor=1, first_to_act=4, rake=None)
    assert [award.pot for award in settlement.awards] == [2, 1, 0]
    # Side pot 2: seats 3 and 4 from the first to act, 4; side pot 1: its bettor 1 first; the main pot's own last.
    assert [*settlement.must_show, *settlement.may_muck] == [3, 1, 0, 4, 2]


@pytest.mark.rule("AL-18")
@pytest.mark.parametrize("game", list(GAMES))
def test_a_hand_that_wins_any_part_of_a_contested_pot_is_shown(game: str) -> None:
    rules = GAMES[game]
    rng = random.Random(game)
    for _ in range(scaled(100, 5_000)):
        players = rng.randint(2, rules.most_players)
        stakes = rng.choice(rules.stakes)
        stacks = [(seat, rng.randint(1, 9 * stakes.big_bet)) for seat in range(1, players + 1)]
        hand = start(rules, stakes, stacks, button=1)
        hand = play(hand, Shoe(rng, deck_size=hand.deck_size), at_random(rng))
        if len(hand.betting.inside) > 1:
            winners = {event.seat for event in hand.events if isinstance(event, Won)}
            assert winners <= {event.seat for event in hand.events if isinstance(event, Shown)}


@pytest.mark.rule("AL-19")
def test_the_money_moves_before_anyone_is_asked_to_show() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh").to("seventh").check_round().hand
    assert isinstance(hand.awaits, NeedAction)
    assert hand.awaits.street == "showdown"
    assert sum(hand.betting.stacks) == 1500
    assert sum(hand.net().values()) == 0


@pytest.mark.rule("AL-22")
@pytest.mark.parametrize("game", list(GAMES))
def test_a_void_hand_gives_every_chip_back_wherever_it_stops(game: str) -> None:
    rules = GAMES[game]
    rng = random.Random(game)
    for _ in range(scaled(20, 500)):
        hand = start(rules, rules.stakes[0], [(seat, rng.randint(1, 3000)) for seat in range(1, 5)], button=2)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        choose = at_random(rng)
        while hand.settlement is None:
            called_off = void(hand, "no card")
            assert called_off.betting.stacks == list(hand.start_stacks)
            assert called_off.events[-1] == Voided("no card")
            assert called_off.over
            hand = apply(hand, choose(hand, hand.awaits)) if isinstance(hand.awaits, NeedAction) else shoe.answer(hand)


# --- fields that no house sets otherwise today


def test_fields_that_all_houses_set_alike_work_the_other_way_too() -> None:
    option = replace(CASINO_CLUB, bring_in_has_option=True)
    hand = table(option, "2c Kd Qh").play("1 bring_in, 2 call, 3 call")
    assert hand.offered == ["1: fold", "1: check", "1: complete 5"]

    counted = replace(POKER777, completion_is_a_raise=True)
    hand = table(counted, "2c Kd Qh").play("1 bring_in, 2 complete, 3 raise, 1 raise")
    assert hand.offered == ["2: fold", "2: call 15"]

    shut = replace(CASINO_CLUB, may_open_for_full_bet=False)
    assert table(shut, "2c Kd Qh").offered == ["1: bring_in 3"]

    forgets = replace(CASINO_CLUB, cap_outlives_folds=False)
    hand = table(forgets, "2c Kd Qh").play("1 bring_in, 2 complete, 3 raise, 1 raise, 2 raise, 3 fold")
    assert hand.offered == ["1: fold", "1: call 20", "1: raise 25"]

    falls = replace(CASINO_CLUB, open_pair_outlives_fold=False)
    hand = table(falls, "2c Kd Qh", then="4c 3c Ks 3h").to("fourth").play("2 fold")
    assert hand.offered[-1] == "3: bet 5"

    as_before = replace(CASINO_CLUB, seventh_street_first=SeventhStreetFirst.AS_ON_SIXTH)
    hand = table(as_before, "2c Kd Qh").to("sixth")
    first = hand.hand.awaits.seat
    assert hand.to("seventh").hand.awaits.seat == first

    at_once = replace(GAMES["pokerkings"], cards_at_a_time=5)
    need = start(at_once, at_once.stakes[0], [(1, 500), (2, 500)], button=1).awaits
    assert [place.seat for place in need.places] == [2] * 5 + [1] * 5

    stakes = Stakes(name="1/2", structure=Structure.NO_LIMIT, small_blind=1, big_blind=2)
    by_turn = replace(GAMES["pokerkings"], draw_order=DrawOrder.FROM_THE_FIRST_TO_ACT)
    hand = start(by_turn, stakes, [(seat, 500) for seat in range(1, 5)], button=1)
    hand = script(hand, Shoe(random.Random(1), deck_size=32), "4 call, 1 call, 2 call, 3 check")
    assert hand.awaits.seat == 4

    mixed = replace(GAMES["pokerkings"], short_stub=ShortStub.STUB_IS_SHUFFLED_IN)
    hand = start(mixed, stakes, [(seat, 500) for seat in range(1, 6)], button=5)
    hand = play(hand, Shoe(random.Random(1), deck_size=36), all_draw_five)
    shuffles = [len(event.locations) for event in hand.events if isinstance(event, Reshuffled)]
    assert shuffles == [1 + 10, 1 + 10]  # one card of the stub and ten discards, twice

    no_burn = replace(CASINO_CLUB, short_deck_counts_the_burn=False)
    hand = start(no_burn, STAKES, [(seat, 500) for seat in range(1, 8)])
    hand = play(hand, Shoe(random.Random(1)), call_down)
    assert hand.stub.k == 0
    assert hand.stub.left == 0
    assert len(hand.burns) == 3


@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_no_house_is_asked_for_by_name(rules: HouseRules) -> None:
    """The same rules under another name play the same hand: general code asks for rules, never for a room."""
    rng = random.Random(rules.name)
    for _ in range(scaled(10, 200)):
        seed = rng.random()
        hands = []
        for name in (rules.name, "another"):
            named = replace(rules, name=name, room=name, title=name)
            again = random.Random(seed)
            hand = start(named, STAKES, [(seat, 300) for seat in range(1, 7)])
            hands.append(play(hand, Shoe(again), at_random(again)).events)
        assert hands[0] == hands[1]


def test_board_values_of_one_length_are_a_total_order() -> None:
    rng = random.Random(1)
    boards = [tuple(rng.randrange(13) for _ in range(4)) for _ in range(500)]
    for one in boards[:50]:
        for other in boards:
            assert (board_value(one) == board_value(other)) is (sorted(one) == sorted(other))


def uncalled(hand: Hand) -> list[Returned]:
    return [event for event in hand.events if isinstance(event, Returned)]


@pytest.mark.rule("AL-3")
def test_an_ante_that_nobody_could_match_goes_back_too() -> None:
    stakes = replace(STAKES, ante=5)
    hand = Table(CASINO_CLUB, third_street("2c Kd"), [3, 500], stakes).hand
    assert uncalled(hand) == [Returned(2, 2)]
    assert hand.pots() == [("main", 6, (1, 2))]


def test_the_tests_own_offers_are_the_engines() -> None:
    hand = dealt(start(CASINO_CLUB, STAKES, [(1, 500), (2, 500)]), Shoe(random.Random(1), third_street("2c Kd")))
    hand = script(hand, Shoe(random.Random(1)), "1 complete")
    assert offered(hand) == ["2: fold", "2: call 5", "2: raise 10"]
    assert apply(hand, Action(2, Act.RAISE, 10)).events[-1].to == 10
