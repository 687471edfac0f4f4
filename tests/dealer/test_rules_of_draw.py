"""PokerKings' Five Card Draw 7-A, rule by rule as its page has them: what the hand decides."""

import random

import pytest

from dealer.actions import Act, Action, IllegalAction
from dealer.events import Acted, Burned, Dealt, Discarded, Mucked, Post, Posted, Posting, Reshuffled, Shown, Won
from dealer.hand import apply, start
from dealer.house_rules import Stakes, Structure
from dealer.rooms import GAMES
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards, NeedShuffle
from dealer.stub import Location
from dealer.stud import Face
from tests.dealer.play import Shoe, call_down, dealt, offered, play, script, stacked
from tests.scale import scaled

RULES = GAMES["pokerkings"]
FIXED = Stakes(name="10/20", small_bet=10, big_bet=20, small_blind=5, big_blind=10)
POT = Stakes(name="5/10", structure=Structure.POT_LIMIT, small_blind=5, big_blind=10)
NO = Stakes(name="5/10", structure=Structure.NO_LIMIT, small_blind=5, big_blind=10)


def table(players: int, *, stakes: Stakes = FIXED, button: int = 1, chips: int = 500) -> Hand:
    return start(RULES, stakes, [(seat, chips) for seat in range(1, players + 1)], button=button)


def shoe(hand: Hand, order: list[int] | None = None) -> Shoe:
    return Shoe(random.Random(2), order, deck_size=hand.deck_size)


@pytest.mark.rule("PK-1")
@pytest.mark.rule("DK-3")
@pytest.mark.parametrize(("players", "cards"), [(2, 32), (3, 32), (4, 32), (5, 36)])
def test_sevens_to_aces_and_with_five_players_the_sixes_too(players: int, cards: int) -> None:
    hand = table(players)
    assert hand.deck_size == hand.stub.size == cards
    order = shoe(hand)
    hand = dealt(hand, order)
    assert min(hand.where) >= 52 - cards
    for wrong in (1, 6):
        with pytest.raises(ValueError, match=r"dealt to 2\.\.5"):
            table(wrong)


@pytest.mark.rule("PK-1")
def test_the_stakes_are_of_all_three_limits_and_the_blinds_half_and_whole_of_the_lower() -> None:
    assert {stakes.structure for stakes in RULES.stakes} == set(Structure)
    for stakes in RULES.stakes:
        assert stakes.small_blind * 2 == stakes.big_blind == stakes.small_bet


@pytest.mark.rule("PK-2")
@pytest.mark.parametrize(
    ("players", "button", "small", "big", "first"),
    [(2, 1, 1, 2, 1), (2, 2, 2, 1, 2), (3, 1, 2, 3, 1), (4, 3, 4, 1, 2), (5, 5, 1, 2, 3)],
)
def test_blinds_sit_left_of_the_button_and_heads_up_the_button_is_the_small_blind(
    players: int, button: int, small: int, big: int, first: int
) -> None:
    hand = table(players, button=button)
    posted = [(event.seat, event.post) for event in hand.events if isinstance(event, Posted)]
    assert posted == [(small, Post.SMALL_BLIND), (big, Post.BIG_BLIND)]
    assert dealt(hand, shoe(hand)).awaits.seat == first


@pytest.mark.rule("PK-3")
def test_five_are_dealt_down_one_at_a_time_from_the_buttons_left() -> None:
    need = table(3, button=2).awaits
    assert isinstance(need, NeedCards)
    assert [place.seat for place in need.places] == [3, 1, 2] * 5
    assert {place.face for place in need.places} == {Face.DOWN}


@pytest.mark.rule("PK-3")
def test_left_of_the_big_blind_starts_and_may_not_check_and_four_bets_include_the_blind() -> None:
    hand = table(4)
    cards = shoe(hand)
    hand = dealt(hand, cards)
    assert offered(hand) == ["4: fold", "4: call 10", "4: raise 20"]
    hand = script(hand, cards, "4 raise, 1 raise, 2 raise")
    assert offered(hand) == ["3: fold", "3: call 40"]


@pytest.mark.rule("PK-4")
@pytest.mark.rule("AL-12")
def test_each_in_turn_throws_away_none_to_five_and_has_his_new_cards_before_the_next_is_asked() -> None:
    hand = table(3)
    cards = shoe(hand)
    hand = script(hand, cards, "1 call, 2 call, 3 check")
    assert offered(hand) == ["2: stand_pat", "2: discard 1..5"]
    before = hand.cards(2)
    hand = dealt(apply(hand, Action(2, Act.DISCARD, cards=before)), cards)
    assert len(hand.cards(2)) == 5
    assert not set(hand.cards(2)) & set(before)
    assert offered(hand)[0] == "3: stand_pat"
    hand = script(hand, cards, "3 stand_pat")
    assert hand.awaits.seat == 1
    thrown = [event for event in hand.events if isinstance(event, Discarded)]
    assert [(event.seat, len(event.cards)) for event in thrown] == [(2, 5), (3, 0)]


@pytest.mark.rule("PK-4")
@pytest.mark.rule("AL-7")
def test_a_discard_is_of_ones_own_cards_and_final() -> None:
    hand = table(3)
    cards = shoe(hand)
    hand = script(hand, cards, "1 call, 2 call, 3 check")
    own, other = hand.cards(2), hand.cards(3)
    for wrong in ((other[0],), (own[0], own[0]), (), (own[0], other[0])):
        with pytest.raises(IllegalAction, match="discarded"):
            apply(hand, Action(2, Act.DISCARD, cards=wrong))
    with pytest.raises(IllegalAction, match="a discard has no total"):
        apply(hand, Action(2, Act.DISCARD, to=1, cards=own[:1]))
    hand = dealt(apply(hand, Action(2, Act.DISCARD, cards=own[:1])), cards)
    with pytest.raises(IllegalAction, match="not that seat's turn"):
        apply(hand, Action(2, Act.DISCARD, cards=own[1:2]))


def all_draw_five(hand: Hand, need: NeedAction) -> Action:
    if need.street == "draw":
        return Action(need.seat, Act.DISCARD, cards=hand.cards(need.seat))
    return call_down(hand, need)


@pytest.mark.rule("PK-5")
@pytest.mark.rule("DK-4")
def test_five_players_drawing_five_use_up_the_stub_and_two_reshuffles_of_others_discards() -> None:
    for seed in range(scaled(50, 2000)):
        hand = table(5)
        hand = play(hand, Shoe(random.Random(seed), deck_size=36), all_draw_five)
        shuffles = [event for event in hand.events if isinstance(event, Reshuffled)]
        assert [event.k for event in shuffles] == [1, 2]
        # 36 - 25 = 11 undealt: seats 2 and 3 take ten, seat 4 the last one and four of ten discards, seat 5 five of the
        # six left, seat 1 the last one and four of the ten that seats 4 and 5 threw away.
        assert [len(event.locations) for event in shuffles] == [10, 10]
        for event in shuffles:
            assert all(location.k < event.k for location in event.locations)
        drawn = [event for event in hand.events if isinstance(event, Dealt) and event.street == "draw"]
        assert [event.k for event in drawn] == [0] * 11 + [1] * 10 + [2] * 4
        assert all(len(hand.cards(seat)) == 5 for seat in hand.seats)


@pytest.mark.rule("PK-5")
@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_nobody_gets_his_own_discards_of_this_draw_nor_a_folded_hands_cards_back(players: int) -> None:
    rng = random.Random(players)
    for _ in range(scaled(100, 5000)):
        hand = table(players)
        folder = rng.choice([None, *range(1, players + 1)])

        def choose(hand: Hand, need: NeedAction, folder: int | None = folder) -> Action:
            if need.street == "draw":
                count = rng.choice([0, 3, 4, 5, 5, 5])
                cards = tuple(rng.sample(hand.cards(need.seat), count))
                return Action(need.seat, Act.DISCARD if cards else Act.STAND_PAT, cards=cards)
            if need.seat == folder and need.street == "predraw":
                return Action(need.seat, Act.FOLD)
            return call_down(hand, need)

        hand = play(hand, Shoe(rng, deck_size=hand.deck_size), choose)
        for event in hand.events:
            if isinstance(event, Discarded):
                own = set(event.locations)
                later = hand.events[hand.events.index(event) :]
                until = next((n for n, e in enumerate(later[1:], 1) if isinstance(e, Discarded)), len(later))
                named = {location for e in later[:until] if isinstance(e, Reshuffled) for location in e.locations}
                assert not own & named
        folded = {event.seat for event in hand.events if isinstance(event, Acted) and event.act is Act.FOLD}
        reshuffled = {loc for event in hand.events if isinstance(event, Reshuffled) for loc in event.locations}
        dealt_to = {(event.k, event.p): event.seat for event in hand.events if isinstance(event, Dealt)}
        thrown = {loc for event in hand.events if isinstance(event, Discarded) for loc in event.locations}
        assert reshuffled <= thrown
        assert not {loc for loc in reshuffled if dealt_to[loc] in folded and loc not in thrown}


@pytest.mark.rule("PK-5")
def test_no_card_is_burned_in_this_game() -> None:
    hand = play(table(5), Shoe(random.Random(1), deck_size=36), all_draw_five)
    assert not [event for event in hand.events if isinstance(event, Burned)]


@pytest.mark.rule("PK-5")
def test_the_reshuffle_is_asked_for_only_when_the_stub_is_used_up() -> None:
    hand = table(5)
    cards = Shoe(random.Random(1), deck_size=36)
    while not isinstance(hand.awaits, NeedShuffle):
        need = hand.awaits
        hand = apply(hand, all_draw_five(hand, need)) if isinstance(need, NeedAction) else cards.answer(hand)
    assert hand.stub.left == 0
    assert hand.awaits.locations == tuple(sorted(hand.awaits.locations))
    assert all(isinstance(location, Location) and location.k == 0 for location in hand.awaits.locations)


@pytest.mark.rule("PK-6")
def test_after_the_draw_the_first_left_of_the_button_checks_or_bets_the_big_bet_with_three_raises() -> None:
    hand = table(2)
    cards = shoe(hand)
    hand = script(hand, cards, "1 call, 2 check, 2 stand_pat, 1 stand_pat")
    assert offered(hand) == ["2: fold", "2: check", "2: bet 20"]
    hand = script(hand, cards, "2 bet, 1 raise, 2 raise, 1 raise")
    assert offered(hand) == ["2: fold", "2: call 80"]


@pytest.mark.rule("PK-6")
@pytest.mark.parametrize("stakes", [POT, NO], ids=["pot limit", "no limit"])
def test_without_a_fixed_limit_any_number_of_raises_is_allowed(stakes: Stakes) -> None:
    hand = table(2, stakes=stakes, chips=5000)
    cards = shoe(hand)
    hand = dealt(hand, cards)
    for _ in range(12):
        raising = hand.awaits.choices[-1]
        assert raising.act is Act.RAISE
        hand = apply(hand, Action(hand.awaits.seat, Act.RAISE, raising.lowest))


@pytest.mark.rule("PK-20")
def test_a_pot_limit_raise_is_the_call_and_the_pot_after_it_dead_money_included() -> None:
    hand = table(4, stakes=POT)
    hand = dealt(hand, shoe(hand))
    assert offered(hand)[-1] == "4: raise 20..35"
    hand = script(hand, shoe(hand), "4 raise 35")
    assert offered(hand)[-1] == "1: raise 60..120"
    posts = [Posting(2, Post.SMALL_BLIND, 5), Posting(3, Post.BIG_BLIND, 10), Posting(1, Post.DEAD, 5)]
    dead = start(RULES, POT, [(seat, 500) for seat in range(1, 5)], button=1, posts=posts)
    assert offered(dealt(dead, shoe(dead)))[-1] == "4: raise 20..40"


@pytest.mark.rule("PK-20")
@pytest.mark.rule("AL-1")
@pytest.mark.rule("AL-10")
def test_a_short_big_blind_is_all_in_and_the_others_owe_the_full_one() -> None:
    hand = start(RULES, NO, [(1, 500), (2, 500), (3, 4), (4, 500)], button=1)
    cards = shoe(hand)
    hand = dealt(hand, cards)
    assert offered(hand) == ["4: fold", "4: call 10", "4: raise 20..500"]
    hand = script(hand, cards, "4 fold, 1 fold")
    # Seat 2 has posted more than the lone opponent's four already: one chip goes back, nobody is asked to bet.
    assert hand.awaits.street == "draw"
    assert hand.pots() == [("main", 8, (2, 3))]


@pytest.mark.rule("PK-12")
@pytest.mark.rule("PK-19")
def test_a_returning_player_posts_dead_and_live_and_a_short_stack_pays_the_live_part_first() -> None:
    posts = [
        Posting(2, Post.SMALL_BLIND, 5),
        Posting(3, Post.BIG_BLIND, 10),
        Posting(1, Post.LIVE_POST, 10),
        Posting(1, Post.DEAD, 5),
    ]
    hand = start(RULES, NO, [(1, 500), (2, 500), (3, 500), (4, 500)], button=4, posts=posts)
    assert hand.betting.bets == [10, 5, 10, 0]
    assert hand.betting.dead == [5, 0, 0, 0]
    hand = start(RULES, NO, [(1, 12), (2, 500), (3, 500), (4, 500)], button=4, posts=posts)
    assert (hand.betting.bets[0], hand.betting.dead[0]) == (10, 2)


@pytest.mark.rule("PK-13")
@pytest.mark.rule("PK-19")
def test_with_two_big_blinds_first_is_left_of_the_farther_and_both_have_the_option() -> None:
    posts = [Posting(3, Post.BIG_BLIND, 10), Posting(4, Post.BIG_BLIND, 10)]
    hand = start(RULES, NO, [(seat, 500) for seat in range(1, 6)], button=1, posts=posts)
    cards = shoe(hand)
    hand = script(hand, cards, "5 call, 1 call, 2 call")
    assert offered(hand)[:2] == ["3: fold", "3: check"]
    hand = script(hand, cards, "3 check")
    assert offered(hand)[:2] == ["4: fold", "4: check"]


@pytest.mark.rule("PK-19")
def test_a_dead_small_blind_alone_is_no_live_bet() -> None:
    posts = [Posting(2, Post.SMALL_BLIND, 5), Posting(3, Post.BIG_BLIND, 10), Posting(4, Post.DEAD, 5)]
    hand = start(RULES, NO, [(seat, 500) for seat in range(1, 5)], button=1, posts=posts)
    hand = dealt(hand, shoe(hand))
    assert offered(hand)[:2] == ["4: fold", "4: call 10"]
    assert hand.awaits.choices[1].adds == 10


@pytest.mark.rule("PK-7")
def test_a_flush_beats_a_full_house_at_the_showdown() -> None:
    # Heads-up, seat 1 has the button: seat 2 is dealt first.
    hand = table(2)
    cards = Shoe(random.Random(1), stacked("7c Ks 9c Kd Jc Kh Qc 8d Ac 8s", deck_size=32), deck_size=32)
    hand = script(hand, cards, "1 call, 2 check, 2 stand_pat, 1 stand_pat")
    hand = play(hand, cards, call_down)
    assert [event.seat for event in hand.events if isinstance(event, Won)] == [2]


@pytest.mark.rule("PK-8")
@pytest.mark.rule("AL-4")
def test_the_suited_low_straight_is_a_royal_flush_and_ties_with_the_ace_high_one() -> None:
    hand = table(2)
    cards = Shoe(random.Random(1), stacked("Ac As 7c Ks 8c Qs 9c Js Tc Ts", deck_size=32), deck_size=32)
    hand = script(hand, cards, "1 call, 2 check, 2 stand_pat, 1 stand_pat")
    hand = play(hand, cards, call_down)
    assert {event.seat: event.amount for event in hand.events if isinstance(event, Won)} == {1: 10, 2: 10}


@pytest.mark.rule("PK-9")
def test_showing_and_mucking_are_as_everywhere() -> None:
    hand = table(3)
    cards = Shoe(random.Random(1), stacked("Ac 7c 9d Ad 8c 9h Ks 9c Jd Kd Tc Qh Qc Qd 8h", deck_size=32), deck_size=32)
    acts = "1 call, 2 call, 3 check, 2 stand_pat, 3 stand_pat, 1 stand_pat, 2 check, 3 check, 1 bet, 2 call, 3 call"
    hand = script(hand, cards, acts)
    ends = [(type(event).__name__, event.seat) for event in hand.events if isinstance(event, Shown | Mucked)]
    assert ends == [("Shown", 1), ("Shown", 2)]
    assert hand.awaits.street == SHOWDOWN
    assert offered(hand) == ["3: show", "3: muck"]


@pytest.mark.rule("PK-9")
def test_an_uncalled_winner_need_not_show() -> None:
    hand = table(3)
    hand = script(hand, shoe(hand), "1 raise, 2 fold, 3 fold")
    assert offered(hand) == ["1: show", "1: muck"]
    assert hand.net() == {1: 15, 2: -5, 3: -10}


@pytest.mark.rule("AL-11")
def test_after_the_draw_an_all_in_first_player_is_passed_over_to_the_left() -> None:
    hand = start(RULES, FIXED, [(1, 500), (2, 10), (3, 500)], button=1)
    cards = shoe(hand)
    hand = script(hand, cards, "1 call, 2 call, 3 check, 2 stand_pat, 3 stand_pat, 1 stand_pat")
    assert hand.awaits.seat == 3


@pytest.mark.rule("AL-3")
@pytest.mark.rule("AL-12")
def test_all_in_players_are_asked_to_draw() -> None:
    hand = start(RULES, NO, [(1, 40), (2, 500)], button=1)
    cards = shoe(hand)
    hand = script(hand, cards, "1 raise 40, 2 call")
    asked = []
    while isinstance(hand.awaits, NeedAction) and hand.awaits.street == "draw":
        asked.append(hand.awaits.seat)
        hand = dealt(apply(hand, Action(hand.awaits.seat, Act.STAND_PAT)), cards)
    assert asked == [2, 1]
    assert not [event for event in hand.events if isinstance(event, Acted) and event.street == "postdraw"]
