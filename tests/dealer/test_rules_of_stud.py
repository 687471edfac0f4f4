"""The three stud houses, rule by rule as their pages have them."""

import random

import pytest

from dealer.actions import Act, IllegalAction
from dealer.cards import NAMES
from dealer.events import Acted, Burned, CommunityCard, Dealt, FoldKept, Mucked, Protected, Reshuffled, Shown, Won
from dealer.hand import apply, start, time_out
from dealer.house_rules import HouseRules, Stakes, TimeOut
from dealer.rooms import GAMES
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards
from dealer.stud import Face
from tests.dealer.play import Action, Shoe, call_down, dealt, offered, parse_all, play, script, third_street

CASINO_CLUB = GAMES["casino_club"]
POKER777 = GAMES["poker777"]
LIMIT_STUD = GAMES["limit_stud"]
HIGH_LOW = GAMES["limit_stud_high_low"]
STUD_HOUSES = [CASINO_CLUB, POKER777, LIMIT_STUD, HIGH_LOW]
# In whole units, so that the amounts below can be read: ante 1, bring-in 3, bets 5 and 10.
STAKES = Stakes(name="5/10", ante=1, bring_in=3, small_bet=5, big_bet=10)


class Table:
    """One hand with its shoe, for tests that look at it step by step."""

    def __init__(self, rules: HouseRules, order: list[int], stacks: list[int], stakes: Stakes = STAKES) -> None:
        self.shoe = Shoe(random.Random(1), order)
        self.hand = dealt(start(rules, stakes, list(enumerate(stacks, 1))), self.shoe)

    def play(self, acts: str) -> "Table":
        self.hand = script(self.hand, self.shoe, acts)
        return self

    def check_round(self) -> "Table":
        """Everybody checks, or calls what is bet, until the next street."""
        street = self.hand.street
        while isinstance(self.hand.awaits, NeedAction) and self.hand.street == street:
            if self.hand.awaits.street == SHOWDOWN:
                break
            self.hand = apply(self.hand, call_down(self.hand, self.hand.awaits))
        self.hand = dealt(self.hand, self.shoe)
        return self

    def to(self, street: str) -> "Table":
        while self.hand.street_name != street:
            self.check_round()
        return self

    def finish(self) -> Hand:
        self.hand = play(self.hand, self.shoe, call_down)
        return self.hand

    @property
    def offered(self) -> list[str]:
        return offered(self.hand)


def table(rules: HouseRules, doors: str, *, downs: str = "", then: str = "", stacks: list[int] | None = None) -> Table:
    """A hand with these door cards (and down cards); ``then`` are the cards after them, burns included."""
    return Table(rules, third_street(doors, downs, then), stacks or [500] * len(parse_all(doors)))


def acted(hand: Hand) -> list[tuple[int, str, int]]:
    return [(event.seat, event.act.value, event.to) for event in hand.events if isinstance(event, Acted)]


# --- players and the deal


@pytest.mark.rule("CC-1")
@pytest.mark.rule("P7-1")
@pytest.mark.rule("LS-1")
@pytest.mark.rule("AL-21")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_stud_is_dealt_to_two_to_eight_players_from_52_cards(rules: HouseRules) -> None:
    for players in range(12):
        seats = [(seat, 100) for seat in range(1, players + 1)]
        if 2 <= players <= 8:
            assert start(rules, STAKES, seats).deck_size == 52
        else:
            with pytest.raises(ValueError, match=r"dealt to 2\.\.8"):
                start(rules, STAKES, seats)


@pytest.mark.rule("DK-1")
@pytest.mark.rule("CC-2")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_third_street_is_one_down_one_down_one_up_from_the_dealers_left(rules: HouseRules) -> None:
    hand = start(rules, STAKES, [(7, 100), (2, 100), (5, 100)])
    need = hand.awaits
    assert isinstance(need, NeedCards)
    assert (need.k, hand.stub.place, hand.stub.size) == (0, 0, 52)
    faces = [Face.DOWN] * 6 + [Face.UP] * 3
    assert [(place.seat, place.face) for place in need.places] == list(zip([2, 5, 7] * 3, faces, strict=True))


@pytest.mark.rule("AL-9")
@pytest.mark.rule("CC-5")
@pytest.mark.rule("CC-7")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_one_card_is_burned_before_each_of_fourth_to_seventh_street(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh").finish()
    burned = [event.street for event in hand.events if isinstance(event, Burned)]
    assert burned == ["fourth", "fifth", "sixth", "seventh"]
    faces = {event.street: event.face for event in hand.events if isinstance(event, Dealt)}
    assert [faces[street] for street in burned] == [Face.UP, Face.UP, Face.UP, Face.DOWN]


# --- the bring-in


@pytest.mark.rule("CC-3")
@pytest.mark.rule("P7-2")
@pytest.mark.rule("LS-3")
@pytest.mark.parametrize(
    ("doors", "usual", "limit_stud"),
    [
        ("Ac 2s 3c Kd", 2, 2),  # the rank first, ace high
        ("2h 2d 2s Kd", 2, 1),  # clubs < diamonds < hearts < spades; limit_stud has hearts below diamonds
        ("2s 2h 2d 2c", 4, 4),
        ("3s 3d Kd Kc", 2, 2),
        ("As Ad Ah Ac", 4, 4),
    ],
)
def test_the_lowest_door_card_brings_in_and_only_equal_ranks_go_by_suit(
    doors: str, usual: int, limit_stud: int
) -> None:
    for rules in STUD_HOUSES:
        seat = limit_stud if rules.room == "limit_stud" else usual
        assert table(rules, doors).hand.awaits.seat == seat


@pytest.mark.rule("CC-4")
@pytest.mark.rule("P7-2")
@pytest.mark.rule("LS-3")
@pytest.mark.rule("AL-14")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_the_low_card_brings_in_or_opens_for_the_small_bet_but_does_not_fold(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh")
    assert hand.offered == ["1: bring_in 3", "1: complete 5"]
    hand.play("1 complete")
    assert hand.offered == ["2: fold", "2: call 5", "2: raise 10"]


@pytest.mark.rule("CC-4")
@pytest.mark.rule("LS-4")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_a_bring_in_that_is_only_called_gives_its_owner_no_option(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh").play("1 bring_in, 2 call, 3 call").hand
    assert hand.street_name == "fourth"


@pytest.mark.rule("CC-4")
@pytest.mark.rule("P7-3")
@pytest.mark.rule("LS-2")
@pytest.mark.rule("LS-4")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_a_completion_is_the_bet_and_three_raises_follow_it(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh").play("1 bring_in, 2 complete, 3 raise, 1 raise, 2 raise")
    assert acted(hand.hand)[-4:] == [(2, "complete", 5), (3, "raise", 10), (1, "raise", 15), (2, "raise", 20)]
    assert hand.offered == ["3: fold", "3: call 20"]


# --- who speaks first, and how much


@pytest.mark.rule("CC-5")
@pytest.mark.rule("P7-4")
@pytest.mark.rule("LS-5")
@pytest.mark.rule("AL-6")
@pytest.mark.parametrize(
    ("doors", "fourth", "first"),
    [
        ("2c Kd Qh", "4c 3c Ad 3h", 2),  # ace and king
        ("2c Kd Qh", "4c 2d Ad 3h", 1),  # a pair of deuces beats ace and king
        ("3c Kd Qh", "4c 4d 5d Qs", 3),
        ("7c 6d 5h", "2c 8c 7d 6h", 1),  # 8-7 against 7-6: straights to come do not count
    ],
)
def test_the_best_upcards_speak_first_from_fourth_street(doors: str, fourth: str, first: int) -> None:
    for rules in STUD_HOUSES:
        hand = table(rules, doors, then=fourth).to("fourth")
        assert hand.hand.awaits.seat == first
        assert f"{first}: check" in hand.offered


@pytest.mark.rule("CC-5")
@pytest.mark.rule("P7-4")
@pytest.mark.rule("LS-5")
def test_equal_upcards_go_to_the_dealers_left_or_by_the_highest_card_of_the_houses_suits() -> None:
    # Seats 1 to 3 have king and jack; the kings are of diamonds, hearts and spades.
    doors, then = "Kd Kh Ks 2c", "3c Jc Jd Jh 4c"
    for rules in (CASINO_CLUB, POKER777):
        assert table(rules, doors, then=then).to("fourth").hand.awaits.seat == 1
    for rules in (LIMIT_STUD, HIGH_LOW):
        assert table(rules, doors, then=then).to("fourth").hand.awaits.seat == 3
    # Hearts stand below diamonds in limit_stud.
    assert table(LIMIT_STUD, "Kd Kh 2c", then="3c Jc Jd 4c").to("fourth").hand.awaits.seat == 1


@pytest.mark.rule("AL-6")
def test_upcards_are_compared_by_how_they_pair_and_then_by_rank() -> None:
    from dealer.stud import board_value

    boards = ["Ac Kd Qh Js", "2c 2d Ah Ks", "3c 3d 2h 2s", "Kc Kd 3h 3s", "2c 2d 2h 3s", "3c 3d 3h 2s", "2c 2d 2h 2s"]
    values = [board_value(tuple(card >> 2 for card in parse_all(board))) for board in boards]
    assert values == sorted(values)
    assert len(set(values)) == len(values)
    # Straights and flushes do not count, and fewer cards never beat more of the same.
    ranks = [tuple(card >> 2 for card in parse_all(board)) for board in ("5c 4c 3c 2c", "6c 3d 2h 2s", "6c", "6c 2d")]
    assert board_value(ranks[0]) < board_value(ranks[1])
    assert board_value(ranks[2]) < board_value(ranks[3])


@pytest.mark.rule("CC-6")
@pytest.mark.rule("P7-4")
@pytest.mark.rule("LS-6")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_an_open_pair_on_fourth_allows_both_bets_and_a_big_one_stays(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh", then="4c 3c Ks 3h").to("fourth")
    assert hand.offered == ["2: fold", "2: check", "2: bet 5", "2: bet 10"]
    hand.play("2 check")  # anyone may, not only the pair's owner
    assert hand.offered == ["3: fold", "3: check", "3: bet 5", "3: bet 10"]
    hand.play("3 bet 5")
    assert hand.offered == ["1: fold", "1: call 5", "1: raise 10", "1: raise 15"]
    small = hand.hand
    hand.play("1 raise 15")
    assert hand.offered == ["2: fold", "2: call 15", "2: raise 25"]
    hand.hand = small
    hand.play("1 raise 10")
    assert hand.offered == ["2: fold", "2: call 10", "2: raise 15", "2: raise 20"]


@pytest.mark.rule("CC-6")
@pytest.mark.rule("LS-6")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_without_an_open_pair_fourth_street_has_the_small_bet_only(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh", then="4c 3c As 4h").to("fourth")
    assert hand.offered == ["2: fold", "2: check", "2: bet 5"]


@pytest.mark.rule("CC-6")
def test_the_open_pair_rule_outlives_the_pairs_fold_and_counts_all_in_players() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh", then="4c 3c Ks 3h").to("fourth").play("2 fold")
    assert hand.offered[-2:] == ["3: bet 5", "3: bet 10"]
    # Seat 2 is all-in for the bring-in that all called; its pair counts.
    hand = table(CASINO_CLUB, "2c Kd Qh", then="4c 3c Ks 3h", stacks=[500, 4, 500]).to("fourth")
    assert hand.hand.stack(2) == 0
    assert hand.offered[-2:] == ["3: bet 5", "3: bet 10"]


@pytest.mark.rule("CC-7")
@pytest.mark.rule("P7-5")
@pytest.mark.rule("LS-2")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
@pytest.mark.parametrize("street", ["fifth", "sixth", "seventh"])
def test_from_fifth_street_all_bets_are_big(rules: HouseRules, street: str) -> None:
    hand = table(rules, "2c Kd Qh", then="4c 3c Ks 3h").to(street)
    assert [line.split(": ")[1] for line in hand.offered] == ["fold", "check", "bet 10"]


@pytest.mark.rule("CC-7")
def test_on_seventh_street_the_best_four_upcards_still_in_speak_first() -> None:
    then = "4c 3c 5h Qs 4d 5c 9d 9h 4h 6c 8d 9s"
    hand = table(CASINO_CLUB, "2c Kd Qh", downs="2d 2h 2s Tc Td Th", then=then).to("sixth")
    assert hand.hand.awaits.seat == 3
    hand.play("3 check, 1 check, 2 bet, 3 fold, 1 call")
    assert (hand.hand.street_name, hand.hand.awaits.seat) == ("seventh", 2)


@pytest.mark.rule("CC-8")
def test_check_raise_is_allowed() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh", then="4c 3c As 4h").to("fourth").play("2 check, 3 bet, 1 fold")
    assert hand.offered == ["2: fold", "2: call 5", "2: raise 10"]


# --- caps


@pytest.mark.rule("CC-9")
def test_three_raises_among_three_and_no_limit_between_two() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh").play("1 bring_in, 2 complete, 3 fold")
    for total in range(10, 60, 5):
        seat = hand.hand.awaits.seat
        hand.play(f"{seat} raise {total}")
    hand = table(CASINO_CLUB, "2c Kd Qh").play("1 bring_in, 2 complete, 3 raise, 1 raise, 2 raise")
    assert hand.offered == ["3: fold", "3: call 20"]


@pytest.mark.rule("CC-9")
def test_coming_down_to_two_frees_the_raises_unless_the_cap_was_reached() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh").play("1 bring_in, 2 complete, 3 raise, 1 raise, 2 fold, 3 raise")
    assert hand.offered == ["1: fold", "1: call 20", "1: raise 25"]
    hand = table(CASINO_CLUB, "2c Kd Qh").play("1 bring_in, 2 complete, 3 raise, 1 raise, 2 raise, 3 fold")
    assert hand.offered == ["1: fold", "1: call 20"]


@pytest.mark.rule("CC-9")
def test_an_all_in_player_counts_as_in_the_hand() -> None:
    hand = table(CASINO_CLUB, "2c Kd Qh", stacks=[500, 500, 4])
    hand.play("1 bring_in, 2 complete, 3 call, 1 raise, 2 raise, 1 raise")
    assert hand.offered == ["2: fold", "2: call 20"]


@pytest.mark.rule("P7-3")
@pytest.mark.rule("LS-2")
@pytest.mark.parametrize("rules", [POKER777, LIMIT_STUD, HIGH_LOW], ids=lambda rules: rules.name)
def test_elsewhere_three_raises_are_the_most_between_two_as_well(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd").play("1 bring_in, 2 complete, 1 raise, 2 raise, 1 raise")
    assert hand.offered == ["2: fold", "2: call 20"]


# --- the deck runs short


@pytest.mark.rule("CC-10")
@pytest.mark.rule("DK-4")
def test_eight_dealt_and_four_left_are_served_from_exactly_burns_and_stub() -> None:
    def four_fold_on_sixth(hand: Hand, need: NeedAction) -> Action:
        if need.street == "sixth" and need.seat % 2:
            return Action(need.seat, Act.FOLD)
        return call_down(hand, need)

    rules = CASINO_CLUB
    hand = play(start(rules, STAKES, [(seat, 500) for seat in range(1, 9)]), Shoe(random.Random(5)), four_fold_on_sixth)
    (shuffle,) = [event for event in hand.events if isinstance(event, Reshuffled)]
    assert shuffle.k == 1
    assert len(shuffle.locations) == 1 + 3
    assert hand.stub.left == 0
    assert [event.seat for event in hand.events if isinstance(event, Dealt) and event.k == 1] == [2, 4, 6, 8]


@pytest.mark.rule("CC-11")
@pytest.mark.rule("P7-10")
@pytest.mark.rule("LS-11")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_the_community_card_is_everybodys_seventh_and_counts_for_who_is_first(rules: HouseRules) -> None:
    decided = 0
    for seed in range(12):
        hand = start(rules, STAKES, [(seat, 500) for seat in range(1, 9)])
        shoe = Shoe(random.Random(seed))
        while hand.street_name != "seventh" or not isinstance(hand.awaits, NeedAction):
            need = hand.awaits
            hand = apply(hand, call_down(hand, need)) if isinstance(need, NeedAction) else shoe.answer(hand)
        best = max(how_they_pair((*up, *hand.community)) for up in hand.up)
        assert how_they_pair((*hand.up[hand.first_to_act], *hand.community)) == best
        decided += how_they_pair(hand.up[hand.first_to_act]) < max(how_they_pair(up) for up in hand.up)
        hand = play(hand, shoe, call_down)
        assert all(len(hand.cards(seat)) == 6 for seat in hand.seats)
    assert decided, "in some of these hands it is the community card that makes another player the first"


def how_they_pair(cards: tuple[int, ...]) -> list[tuple[int, int]]:
    ranks = [card >> 2 for card in cards]
    return sorted(((ranks.count(rank), rank) for rank in set(ranks)), reverse=True)


@pytest.mark.rule("CC-11")
@pytest.mark.rule("P7-10")
@pytest.mark.rule("DK-4")
def test_folded_cards_and_the_last_of_the_stub_never_come_back() -> None:
    hand = play(start(POKER777, STAKES, [(seat, 500) for seat in range(1, 9)]), Shoe(random.Random(4)), call_down)
    (shuffle,) = [event for event in hand.events if isinstance(event, Reshuffled)]
    burned = [(event.k, event.p) for event in hand.events if isinstance(event, Burned)]
    assert list(shuffle.locations) == burned
    assert hand.stub.set_aside == 1
    (card,) = [event for event in hand.events if isinstance(event, CommunityCard)]
    assert card.k == 1


# --- folding, protection


@pytest.mark.rule("P7-6")
def test_a_fold_out_of_turn_is_kept_unseen_until_the_turn_comes() -> None:
    hand = table(POKER777, "2c Kd Qh Js")
    hand.hand = apply(hand.hand, Action(4, Act.FOLD))
    assert isinstance(hand.hand.events[-1], FoldKept)
    assert hand.hand.betting.inside == [0, 1, 2, 3]
    with pytest.raises(IllegalAction, match="has folded"):
        apply(hand.hand, Action(4, Act.FOLD))
    hand.play("1 bring_in, 2 call, 3 call")
    assert acted(hand.hand)[-1][:2] == (4, "fold")
    assert hand.hand.street_name == "fourth"


@pytest.mark.rule("P7-6")
def test_a_kept_fold_is_void_if_everyone_else_folds_first() -> None:
    hand = table(POKER777, "2c Kd Qh").play("1 complete")
    hand.hand = apply(hand.hand, Action(1, Act.FOLD))
    hand.play("2 fold, 3 fold")
    assert hand.hand.net()[1] == 2


@pytest.mark.rule("P7-6")
def test_a_kept_fold_counts_though_its_turn_never_comes() -> None:
    """Seat 3 is alone with chips: nobody is asked any more, and at the showdown he has folded."""
    shoe = Shoe(random.Random(1), third_street("2c Kd Qh"))
    hand = script(dealt(start(POKER777, STAKES, [(1, 6), (2, 6), (3, 500)]), shoe), shoe, "1 complete, 2 call")
    hand = apply(hand, Action(3, Act.CALL))
    assert isinstance(hand.awaits, NeedCards)
    hand = play(apply(hand, Action(3, Act.FOLD)), shoe, call_down)
    assert acted(hand)[-1] == (3, "fold", 0)
    assert 3 not in {event.seat for event in hand.events if isinstance(event, Shown | Mucked | Won)}


@pytest.mark.rule("P7-6")
def test_the_low_cards_owner_posts_his_bring_in_before_his_kept_fold() -> None:
    hand = start(POKER777, STAKES, [(1, 500), (2, 500), (3, 500)])
    shoe = Shoe(random.Random(1), third_street("2c Kd Qh"))
    hand = apply(hand, Action(1, Act.FOLD))  # while the cards are dealt
    hand = dealt(hand, shoe)
    assert acted(hand) == [(1, "bring_in", 3)]
    hand = script(hand, shoe, "2 complete, 3 call")
    assert (1, "fold", 3) in acted(hand)


@pytest.mark.rule("P7-6")
def test_an_all_in_player_cannot_fold_and_other_houses_take_no_fold_out_of_turn() -> None:
    hand = table(POKER777, "2c Kd Qh", stacks=[500, 500, 1])
    with pytest.raises(IllegalAction, match="all-in"):
        apply(hand.hand, Action(3, Act.FOLD))
    for rules in (CASINO_CLUB, LIMIT_STUD):
        with pytest.raises(IllegalAction, match="not that seat's turn"):
            apply(table(rules, "2c Kd Qh").hand, Action(3, Act.FOLD))


@pytest.mark.rule("P7-8")
def test_out_of_time_a_player_is_all_in_for_what_he_has_put_in_and_keeps_his_stack() -> None:
    hand = table(POKER777, "2c Kd Qh").play("1 bring_in, 2 complete, 3 call")
    hand.hand = dealt(time_out(hand.hand), hand.shoe)
    assert any(isinstance(event, Protected) for event in hand.hand.events)
    assert hand.hand.stack(1) == 500 - 1 - 3
    assert hand.hand.pots() == [("main", 3 * 4, (1, 2, 3)), ("side-1", 2 * 2, (2, 3))]
    finished = hand.finish()
    assert [event.seat for event in finished.events if isinstance(event, Dealt) and event.street == "seventh"] == [
        1,
        2,
        3,
    ]
    assert not [event for event in finished.events if isinstance(event, Acted) and event.seat == 1][1:]


@pytest.mark.rule("P7-8")
def test_protection_works_when_a_check_was_free_and_posts_an_owed_bring_in_first() -> None:
    hand = table(POKER777, "2c Kd Qh")
    after = time_out(hand.hand)
    assert acted(after) == [(1, "bring_in", 3)]
    assert after.betting.paid[0] == 4
    assert 0 not in after.betting.active
    hand.to("fourth")
    first = hand.hand.awaits.seat
    free = time_out(hand.hand)
    assert free.events[-1] == Protected(first)
    assert free.awaits.seat != first


@pytest.mark.rule("P7-8")
def test_nobody_is_protected_once_the_posted_bring_in_has_ended_the_hand() -> None:
    hand = table(POKER777, "2c Kd").play("2 fold")
    after = time_out(hand.hand)
    assert acted(after) == [(1, "bring_in", 3), (2, "fold", 0)]
    assert [event for event in after.events if isinstance(event, Protected | Won)] == [Won(1, "main", "", 2)]


@pytest.mark.rule("P7-14")
def test_without_protection_left_the_usual_time_out_holds_and_the_page_sets_no_number() -> None:
    assert POKER777.time_out is TimeOut.ALL_IN_PROTECTION
    assert POKER777.protections_per_day is None
    hand = table(POKER777, "2c Kd Qh").play("1 bring_in")
    assert acted(time_out(hand.hand, protection_left=False))[-1][:2] == (2, "fold")


@pytest.mark.rule("P7-8")
def test_a_player_without_money_in_the_pot_is_out_of_the_hand() -> None:
    no_ante = Stakes(name="5/10", bring_in=3, small_bet=5, big_bet=10)
    hand = Table(POKER777, third_street("2c Kd Qh"), [500] * 3, no_ante).play("1 bring_in")
    assert acted(time_out(hand.hand))[-1][:2] == (2, "fold")


# --- showdown

# Burn and one card to each of three: seat 3 keeps the best upcards, nobody improves.
QUIET = "4c 6c 7d Qs 4d 8h 9h Js 4s Tc 3c 8c 5d 5h 5s 6d"


def showdown_seats(hand: Hand) -> list[int]:
    return [event.seat for event in hand.events if isinstance(event, Shown | Mucked)]


@pytest.mark.rule("CC-13")
@pytest.mark.rule("P7-12")
@pytest.mark.rule("LS-7")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_the_last_bettor_or_raiser_on_the_river_shows_first_though_he_lost(rules: HouseRules) -> None:
    for bettor_wins in (False, True):
        hand = table(rules, "2c Kd Qh").to("seventh")
        first = hand.hand.awaits.seat
        order = [first, *[seat for seat in (1, 2, 3, 1, 2, 3)[first:] if seat != first][:2]]
        raiser = order[1] if bettor_wins else order[2]
        hand.play(f"{first} bet")
        while hand.hand.awaits.seat != raiser:
            hand.play(f"{hand.hand.awaits.seat} call")
        hand.play(f"{raiser} raise")
        assert showdown_seats(hand.finish())[0] == raiser


@pytest.mark.rule("CC-13")
@pytest.mark.rule("P7-12")
@pytest.mark.rule("LS-7")
@pytest.mark.parametrize(
    ("rules", "order"),
    [(CASINO_CLUB, [3, 2, 1]), (POKER777, [3, 2, 1]), (LIMIT_STUD, [1, 2, 3]), (HIGH_LOW, [1, 2, 3])],
)
def test_all_checked_the_first_to_act_or_the_first_left_of_the_dealer_comes_first(
    rules: HouseRules, order: list[int]
) -> None:
    """Seat 3 wins and is shown in any case; seat 2 is first to act, seat 1 left of the dealer: who is before the other?

    In limit_stud each hand is better than those shown before it, so all three must be shown.
    """
    hand = table(rules, "2c As Kd", downs="2d 2h Ad 3d 3h Ah", then=QUIET).to("seventh")
    assert hand.hand.awaits.seat == 2
    assert showdown_seats(hand.finish()) == order


@pytest.mark.rule("LS-7")
def test_in_limit_stud_a_hand_is_mucked_only_under_a_better_one_that_was_shown() -> None:
    downs = "2d 2h Ad 3d 3h Ah"
    hand = table(LIMIT_STUD, "2c Kd As", downs=downs, then=QUIET).finish()
    assert [event.seat for event in hand.events if isinstance(event, Shown)] == [1, 2, 3]
    others = table(CASINO_CLUB, "2c Kd As", downs=downs, then=QUIET).finish()
    assert [event.seat for event in others.events if isinstance(event, Shown)] == [3]


@pytest.mark.rule("CC-14")
@pytest.mark.rule("P7-12")
@pytest.mark.rule("AL-19")
@pytest.mark.parametrize("rules", STUD_HOUSES, ids=lambda rules: rules.name)
def test_who_wins_because_all_folded_chooses_whether_to_show(rules: HouseRules) -> None:
    hand = table(rules, "2c Kd Qh").play("1 bring_in, 2 complete, 3 fold, 1 fold")
    assert hand.offered == ["2: show", "2: muck"]
    assert hand.hand.net()[2] == 2 + 3 - 0  # the money has moved already: two antes and the bring-in
    assert hand.play("2 show").hand.events[-1].seat == 2
    assert hand.hand.over


@pytest.mark.rule("CC-14")
@pytest.mark.rule("AL-18")
def test_winners_and_the_last_bettor_are_shown_and_other_losers_choose() -> None:
    hand = (
        table(CASINO_CLUB, "2c Kd As", downs="2d 4h Ad 3d 7h Ah", then=QUIET)
        .to("seventh")
        .play("3 check, 1 bet, 2 call, 3 call")
    )
    shown = [event.seat for event in hand.hand.events if isinstance(event, Shown)]
    assert shown == [1, 3]  # the bettor lost, the winner only called
    assert hand.offered == ["2: show", "2: muck"]


@pytest.mark.rule("CC-16")
@pytest.mark.rule("P7-11")
@pytest.mark.rule("AL-4")
@pytest.mark.parametrize(
    ("rules", "won"), [(CASINO_CLUB, {1: 5, 2: 4}), (POKER777, {1: 5, 2: 4}), (LIMIT_STUD, {1: 4, 2: 5})]
)
def test_equal_hands_split_and_the_cards_speak(rules: HouseRules, won: dict[int, int]) -> None:
    """The pot is nine: the odd chip goes to the dealer's left, or to the ace of the better suit, seat 2's."""
    then = "2h Qh Qs 3h Jh Js 4h Th Ts 5h 6c 6d"
    hand = table(rules, "2c 7d 9h", downs="Ac Ad 8c Kc Kd 8d", then=then).play("1 bring_in, 2 call, 3 fold").finish()
    assert {event.seat: event.amount for event in hand.events if isinstance(event, Won)} == won


@pytest.mark.rule("LS-8")
@pytest.mark.rule("LS-11")
def test_high_low_splits_the_pot_and_each_side_has_its_own_five() -> None:
    # Seat 1 makes a wheel and a flush of the same seven; seat 2 has a pair.
    hand = table(HIGH_LOW, "5c Kd", downs="Ac Kh 2c Qs", then="9h 3c 9s 7d 4d 8d 6h Tc 8h Js Jc Jd").finish()
    won = [(event.seat, event.side, event.amount) for event in hand.events if isinstance(event, Won)]
    assert won == [(1, "high", 4), (1, "low", 4)]


@pytest.mark.rule("LS-8")
def test_without_a_qualifying_low_high_takes_all() -> None:
    hand = table(HIGH_LOW, "9c Kd", downs="Tc Kh Jc Qs", then="2h Qc 9s 3h 4d 8d 4h Td 8h 5h Jd Ks").finish()
    won = [(event.seat, event.side, event.amount) for event in hand.events if isinstance(event, Won)]
    assert won == [(2, "high", 8)]


@pytest.mark.rule("LS-12")
def test_nine_chips_with_two_equal_lows_are_five_and_two_and_two() -> None:
    from tests.dealer.test_reported_faults import settle_tie

    high = "Kc Kd Kh 9s 9d Jc Jd"
    lows = {0: "8c 7d 5h 4s 2d Tc 2h", 1: "8d 7c 5s 4h 2c Th 2s"}
    assert settle_tie(HIGH_LOW, 9, {**lows, 2: high}) == {2: 5, 0: 2, 1: 2}


# --- stakes


@pytest.mark.rule("CC-17")
@pytest.mark.rule("P7-1")
@pytest.mark.rule("LS-1")
@pytest.mark.rule("LS-3")
def test_the_stakes_tables() -> None:
    casino = {stakes.name: stakes for stakes in CASINO_CLUB.stakes}
    assert (casino["1-2"].small_bet, casino["20-40"].big_bet) == (100, 4000)
    for stakes in CASINO_CLUB.stakes:
        assert stakes.ante * 5 == stakes.small_bet == stakes.bring_in * 2 == stakes.big_bet // 2
    assert [(s.name, s.ante, s.bring_in) for s in POKER777.stakes] == [("1/2", 25, 50), ("3/6", 50, 150)]
    example = LIMIT_STUD.stakes[0]
    assert (example.name, example.ante, example.bring_in) == ("1/2", 20, 50)


@pytest.mark.rule("LS-1")
@pytest.mark.parametrize(("small_bet", "ante"), [(1, 1), (2, 1), (3, 1), (7, 1), (8, 2), (12, 2), (13, 3), (100, 20)])
def test_limit_studs_ante_is_a_fifth_to_the_nearest_unit_and_at_least_one(small_bet: int, ante: int) -> None:
    from dealer.rooms import limit_stud

    assert limit_stud._stakes(small_bet).ante == ante


def test_cards_in_these_tests_are_what_they_say() -> None:
    assert [NAMES[card] for card in third_street("2c Kd")[4:6]] == ["2c", "Kd"]
