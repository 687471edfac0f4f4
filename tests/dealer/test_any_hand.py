"""Any hand at all: random legal ones to the end, random acts against the list of legal ones, and refusals."""

import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealer.actions import Act, Action, Choice, IllegalAction
from dealer.betting import Betting
from dealer.events import Acted, CommunityCard, FoldKept, Protected, Reshuffled
from dealer.hand import WrongCards, act, apply, legal_actions, reshuffled, start, supply, time_out
from dealer.history import Reader, history, replay
from dealer.house_rules import HouseRules
from dealer.rooms import GAMES
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards, NeedShuffle
from dealer.stub import Location
from tests.dealer.play import Shoe, at_random, dealt
from tests.scale import scaled

RULES = list(GAMES.values())


def any_start(rules: HouseRules, rng: random.Random) -> Hand:
    """A first deal: any number of players, any seats, stacks from one chip up."""
    players = rng.randint(rules.fewest_players, rules.most_players)
    stakes = rng.choice(rules.stakes)
    seats = sorted(rng.sample(range(1, 11), players))
    most = rng.choice([stakes.big_bet, 10 * stakes.big_bet, 100 * stakes.big_bet])
    stacks = [(seat, rng.randint(1, most)) for seat in seats]
    return start(rules, stakes, stacks, button=rng.choice([0, *seats]))


def any_step(hand: Hand, shoe: Shoe, rng: random.Random) -> Hand:
    """One step of any kind: cards, an act, a time-out, or where the house takes it a fold out of turn."""
    need = hand.awaits
    if hand.rules.fold_out_of_turn and hand.settlement is None and rng.random() < 0.02:
        turn = hand.position[need.seat] if isinstance(need, NeedAction) else None
        others = [i for i in hand.betting.active if i != turn and i not in hand.kept_folds]
        if others:
            return apply(hand, Action(hand.seats[rng.choice(others)], Act.FOLD))
    if not isinstance(need, NeedAction):
        return shoe.answer(hand)
    if rng.random() < 0.03:
        return time_out(hand, protection_left=rng.random() < 0.8)
    return apply(hand, at_random(rng)(hand, need))


def every_card_lies_somewhere_once(hand: Hand) -> None:
    """Counted here from the piles and locations, not from the engine's own sums."""
    held = [card for down, up in zip(hand.down, hand.up, strict=True) for card in (*down, *up)]
    thrown = [card for card, location in hand.where.items() if location in {place for place, _ in hand.discards}]
    known = [*held, *hand.community, *thrown]
    assert len(known) == len(set(known))
    assert set(known) == set(hand.where)
    locations = [*hand.where.values(), *hand.burns]
    assert len(locations) == len(set(locations))
    assert len(known) + len(hand.burns) + hand.stub.left + hand.stub.set_aside == hand.deck_size


@pytest.mark.timeout(0 if scaled(0, 1) else 300)
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_random_hands_end_with_all_chips_and_cards_and_replay_to_the_same_bytes(rules: HouseRules) -> None:
    rng = random.Random(rules.name)
    for number in range(scaled(300, 200_000)):
        hand = any_start(rules, rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        chips = sum(hand.start_stacks)
        while not hand.over:
            hand = any_step(hand, shoe, rng)
            assert sum(hand.betting.stacks) + hand.betting.in_the_middle == chips
            assert min(hand.betting.stacks) >= 0
            if number % 20 == 0:
                every_card_lies_somewhere_once(hand)
        every_card_lies_somewhere_once(hand)
        assert sum(hand.net().values()) == 0
        written = history(hand, Reader.HOUSE)
        assert history(replay(written, rules), Reader.HOUSE) == written


def test_random_hands_reach_what_is_rare() -> None:
    """The test above is worth little if its hands never get into the corners."""
    rng = random.Random(5)
    seen: Counter[str] = Counter()
    for _ in range(scaled(600, 20_000)):
        rules = rng.choice(RULES)
        hand = any_start(rules, rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        while not hand.over:
            hand = any_step(hand, shoe, rng)
        assert hand.settlement is not None
        pots = len(hand.settlement.pots)
        seen["three pots"] += pots >= 3
        seen["low wins"] += any(award.side == "low" for award in hand.settlement.awards)
        for kind in (Reshuffled, CommunityCard, Protected, FoldKept):
            seen[kind.__name__] += any(isinstance(event, kind) for event in hand.events)
    assert min(seen[name] for name in ("three pots", "low wins", "Reshuffled", "Protected", "FoldKept")) >= 3, seen


def is_among(choices: tuple[Choice, ...], action: Action, hand: Hand) -> bool:
    """Say whether the list of legal acts has this one: the claim that `apply` is held against."""
    same = [choice for choice in choices if choice.act is action.act]
    if not same:
        return False
    if action.act is Act.DISCARD:
        different = set(action.cards)
        fits = same[0].lowest <= len(action.cards) <= same[0].highest and len(different) == len(action.cards)
        return fits and different <= set(hand.cards(action.seat)) and action.to is None
    if action.cards:
        return False
    if action.to is None:
        return len(same) == 1 and same[0].lowest == same[0].highest
    return any(choice.lowest <= action.to <= choice.highest for choice in same)


def any_action(hand: Hand, rng: random.Random) -> Action:
    """Any act by anyone, near the legal ones more often than not."""
    need = hand.awaits
    seat = need.seat if isinstance(need, NeedAction) and rng.random() < 0.8 else rng.choice([*hand.seats, 0, 11])
    kind = rng.choice(list(Act))
    to = None
    if rng.random() < 0.6:
        near = [bound for choice in legal_actions(hand) for bound in (choice.lowest, choice.highest)] or [0]
        to = rng.choice(near) + rng.choice([-1, 0, 0, 0, 1, rng.randint(-500, 500)])
    cards: tuple[int, ...] = ()
    if rng.random() < (0.9 if kind is Act.DISCARD else 0.05):
        pool = [*hand.cards(seat), *range(0, 52, 7)] if seat in hand.seats else list(range(52))
        cards = (
            tuple(rng.choices(pool, k=rng.randint(0, 6))) if rng.random() < 0.5 else tuple(pool[: rng.randint(0, 5)])
        )
    return Action(seat, kind, to, cards)


def attributes(thing: Hand | Betting) -> list[str]:
    """Names of all that an object holds, which its compiled twin lists elsewhere than in a dictionary."""
    return sorted(getattr(thing, "__mypyc_attrs__", None) or vars(thing))


def everything_in(hand: Hand) -> dict[str, object]:
    """All that a hand holds, copied deep enough to notice any change."""
    found: dict[str, object] = {}
    for thing in (hand, hand.betting):
        for name in attributes(thing):
            value = getattr(thing, name)
            if not isinstance(value, Betting):
                found[f"{type(thing).__name__}.{name}"] = value.copy() if isinstance(value, list | dict) else value
    return found


def test_a_copy_has_everything_and_shares_nothing_that_changes() -> None:
    rng = random.Random(8)
    for rules in RULES:
        hand = any_start(rules, rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        while not hand.over:
            again = hand.copy()
            assert attributes(again) == attributes(hand)
            assert attributes(again.betting) == attributes(hand.betting)
            changed = {name for name in attributes(hand) if isinstance(getattr(hand, name), list)}
            assert not [name for name in changed if getattr(again, name) is getattr(hand, name)]
            before = everything_in(hand)
            hand = any_step(hand, shoe, rng)
            assert {**everything_in(again), "Betting.offers": None} == {**before, "Betting.offers": None}


def same_as_listed(hand: Hand, action: Action) -> bool:
    """Check `apply` and `act` against the list of legal acts; return whether the act was legal."""
    need = hand.awaits
    legal = isinstance(need, NeedAction) and need.seat == action.seat and is_among(need.choices, action, hand)
    before = everything_in(hand)
    refusal = None
    try:
        after = apply(hand, action)
    except IllegalAction as refused:
        refusal = refused
    if refusal is None:
        kept = isinstance(after.events[-1], FoldKept) and len(after.events) == len(hand.events) + 1
        assert legal or (hand.rules.fold_out_of_turn and kept), f"{action} is not listed and was taken"
    else:
        assert not legal, f"{action} is listed and refused: {refusal}"
        assert refusal.legal == legal_actions(hand)
        with pytest.raises(IllegalAction):
            act(hand, action)  # in place too a refused act changes nothing
    assert everything_in(hand) == before
    return legal


@pytest.mark.rule("AL-7")
@pytest.mark.timeout(0 if scaled(0, 1) else 300)
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.name)
def test_an_act_is_taken_exactly_if_it_is_listed_and_a_refused_one_changes_nothing(rules: HouseRules) -> None:
    rng = random.Random(f"acts {rules.name}")
    refused = taken = 0
    while refused < scaled(600, 20_000):
        hand = any_start(rules, rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        while not hand.over:
            for _ in range(2):
                if same_as_listed(hand, any_action(hand, rng)):
                    taken += 1
                else:
                    refused += 1
            hand = any_step(hand, shoe, rng)
    assert taken > refused // 20


@settings(max_examples=scaled(40, 2000), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 60), game=st.sampled_from(RULES))
def test_every_listed_act_is_taken_at_its_bounds(seed: int, steps: int, game: HouseRules) -> None:
    rng = random.Random(seed)
    hand = any_start(game, rng)
    shoe = Shoe(rng, deck_size=hand.deck_size)
    for _ in range(steps):
        if hand.over:
            return
        hand = any_step(hand, shoe, rng)
    hand = dealt(hand, shoe)
    if not isinstance(hand.awaits, NeedAction):
        return
    for choice in hand.awaits.choices:
        if choice.act is Act.DISCARD:
            for count in range(choice.lowest, choice.highest + 1):
                for cards in combinations(hand.cards(hand.awaits.seat), count):
                    assert same_as_listed(hand, Action(hand.awaits.seat, choice.act, None, cards))
            continue
        for to in {choice.lowest, choice.highest} if choice.highest else {None}:
            assert same_as_listed(hand, Action(hand.awaits.seat, choice.act, to))
        if choice.act in (Act.BET, Act.RAISE, Act.COMPLETE):
            after = apply(hand, Action(hand.awaits.seat, choice.act, choice.lowest))
            acted = after.events[len(hand.events)]
            assert isinstance(acted, Acted)
            assert (acted.act, acted.adds, acted.to) == (choice.act, choice.adds, choice.lowest)


@pytest.mark.rule("PK-4")
def test_all_31_discards_and_standing_pat_are_legal() -> None:
    rules = GAMES["pokerkings"]
    hand = start(rules, rules.stakes[0], [(1, 900), (2, 900)], button=1)
    shoe = Shoe(random.Random(1), deck_size=32)
    while not (isinstance(hand.awaits, NeedAction) and hand.awaits.street == "draw"):
        hand = any_step(hand, shoe, random.Random(3))
    own = hand.cards(hand.awaits.seat)
    throws = [cards for count in range(1, 6) for cards in combinations(own, count)]
    assert len(throws) == 31
    for cards in throws:
        after = apply(hand, Action(hand.awaits.seat, Act.DISCARD, cards=cards))
        assert set(after.cards(hand.awaits.seat)) == set(own) - set(cards)
    assert apply(hand, Action(hand.awaits.seat, Act.STAND_PAT)).cards(hand.awaits.seat) == own


def test_mucking_a_loser_changes_nothing_for_the_others() -> None:
    """Award by pot among its own players: whether losers show or muck moves no chip."""
    rng = random.Random(46)
    for _ in range(scaled(200, 5_000)):
        hand = any_start(rng.choice(RULES), rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        while not hand.over and not (isinstance(hand.awaits, NeedAction) and hand.awaits.street == SHOWDOWN):
            hand = any_step(hand, shoe, rng)
        stacks = hand.betting.stacks.copy()
        while isinstance(hand.awaits, NeedAction):
            hand = apply(hand, Action(hand.awaits.seat, rng.choice([Act.SHOW, Act.MUCK])))
        assert hand.betting.stacks == stacks


def test_wrong_cards_are_refused_and_change_nothing() -> None:
    rules = GAMES["casino_club"]
    hand = start(rules, rules.stakes[0], [(1, 900), (2, 900)])
    for cards in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 52], [1, 2, 3, 4, 5, -1]):
        before = everything_in(hand)
        with pytest.raises(WrongCards, match="cards:"):
            supply(hand, cards)
        assert everything_in(hand) == before
    with pytest.raises(WrongCards, match="does not wait for one"):
        reshuffled(hand)
    hand = supply(hand, [0, 4, 8, 12, 16, 20])
    with pytest.raises(WrongCards, match="does not wait for any"):
        supply(hand, [])
    while not isinstance(hand.awaits, NeedCards):
        hand = apply(hand, Action(hand.awaits.seat, hand.awaits.choices[-2].act))
    with pytest.raises(WrongCards, match="already lie elsewhere"):
        supply(hand, [20, 21])
    draw = GAMES["pokerkings"]
    hand = start(draw, draw.stakes[0], [(1, 900), (2, 900)], button=1)
    with pytest.raises(WrongCards, match="deck of 32"):
        supply(hand, list(range(10)))


@pytest.mark.parametrize(
    "stacks",
    [[(1, 0), (2, 5)], [(1, 5), (1, 5)], [(0, 5), (1, 5)], [(1, -5), (2, 5)]],
    ids=["no chip", "the same seat", "seat 0", "less than no chip"],
)
def test_a_hand_with_impossible_stacks_does_not_start(stacks: list[tuple[int, int]]) -> None:
    rules = GAMES["casino_club"]
    with pytest.raises(ValueError, match="stacks: each seat"):
        start(rules, rules.stakes[0], stacks)


def test_a_reshuffle_names_locations_and_no_card() -> None:
    assert set(NeedShuffle._fields) == {"k", "locations"}
    assert set(Location._fields) == {"k", "p"}
