"""B5 and B6: hands per second of processor time, our engine against PokerKit.

B5 is Seven Card Stud, six players called down; B6 no-limit five-card draw, five players at random: any legal kind of
act with equal chance, folding only when facing a bet, a raise of any legal size, zero to three discards. Ours keeps the
full event log and counts chips and cards as it goes; PokerKit runs with all its automations. Each hand has a new random
deck; ours come from shuffles made beforehand, as they do from the shuffle service, while PokerKit makes its own, which
is about two per cent of its time.

Both forms that ship are timed: plain Python, and the wheel with compiled rules, built and installed for the run. The
bars are for the faster of them.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pokerkit import (
    Automation,
    BettingStructure,
    Deck,
    FixedLimitSevenCardStud,
    Mode,
    Opening,
    StandardHighHand,
    State,
    Street,
)

import dealer.hand
from benchmarks.compiled_wheel import NotBuilt, build, install
from benchmarks.ratio import Bar
from dealer.actions import Act, Action
from dealer.cards import of_item
from dealer.hand import act, deal, reshuffle, start
from dealer.house_rules import Stakes, Structure
from dealer.rooms.recorded import FIVE_CARD_DRAW, STUD
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards, NeedShuffle

BARS = (
    Bar("B5", "stud, 6 players called down: hands per CPU second, ours / PokerKit", 30, 80),
    Bar("B6", "no-limit draw, 5 players at random: hands per CPU second, ours / PokerKit", 10, 30),
)
ROUNDS = 7
CHIPS = 1000
STUD_STAKES = Stakes(name="10/20", ante=1, bring_in=2, small_bet=10, big_bet=20)
DRAW_STAKES = Stakes(name="5/10", structure=Structure.NO_LIMIT, small_blind=5, big_blind=10)
PASSIVE = frozenset({Act.CHECK, Act.CALL, Act.BRING_IN, Act.MUCK})

OneHand = Callable[[random.Random, list[int]], None]


def play(hand: Hand, deck: list[int], rng: random.Random, choose: Callable[[Hand, NeedAction], Action]) -> None:
    """Play a hand to its end in place; the shoe is opened street by street, as at a table."""
    size = hand.deck_size
    shuffles = [deck]
    while (need := hand.awaits) is not None:
        if isinstance(need, NeedAction):
            act(hand, choose(hand, need))
        elif isinstance(need, NeedCards):
            shuffle = shuffles[need.k]
            deal(hand, [of_item(shuffle[p], size) for p in need.opened])
        else:
            assert isinstance(need, NeedShuffle)
            shuffles.append(rng.sample([shuffles[k][p] for k, p in need.locations], len(need.locations)))
            reshuffle(hand)


def our_stud(rng: random.Random, deck: list[int]) -> None:
    """Check or call every bet."""

    def choose(_hand: Hand, need: NeedAction) -> Action:
        for choice in need.choices:
            if choice.act in PASSIVE:
                return Action(need.seat, choice.act)
        raise AssertionError("checking, calling or mucking is always possible")

    hand = start(STUD, STUD_STAKES, [(seat, CHIPS) for seat in range(1, 7)])
    play(hand, deck, rng, choose)
    assert sum(hand.betting.stacks) == 6 * CHIPS


def their_stud(_rng: random.Random, _deck: list[int]) -> None:
    """Check or call every bet in PokerKit."""
    state = FixedLimitSevenCardStud.create_state(tuple(Automation), True, 1, 2, 10, 20, CHIPS, 6)
    while state.status:
        if state.can_post_bring_in():
            state.post_bring_in()
        else:
            state.check_or_call()
    assert sum(state.stacks) == 6 * CHIPS


def our_draw(rng: random.Random, deck: list[int]) -> None:
    """Act at random."""

    def choose(hand: Hand, need: NeedAction) -> Action:
        seat, street, choices = need
        if street == SHOWDOWN:
            return Action(seat, Act.MUCK)
        if street == "draw":
            cards = tuple(rng.sample(hand.cards(seat), rng.randint(0, 3)))
            return Action(seat, Act.DISCARD if cards else Act.STAND_PAT, cards=cards)
        choice = rng.choice(choices[1:] if choices[1].act is Act.CHECK else choices)
        if choice.highest > choice.lowest:
            return Action(seat, choice.act, rng.randint(choice.lowest, choice.highest))
        return Action(seat, choice.act)

    hand = start(FIVE_CARD_DRAW, DRAW_STAKES, [(seat, CHIPS) for seat in range(1, 6)], button=5)
    play(hand, deck, rng, choose)
    assert sum(hand.betting.stacks) == 5 * CHIPS


def their_draw(rng: random.Random, _deck: list[int]) -> None:
    """Act at random in PokerKit."""
    state = State(
        tuple(Automation),
        Deck.STANDARD,
        (StandardHighHand,),
        (
            Street(False, (False,) * 5, 0, False, Opening.POSITION, 10, None),
            Street(True, (), 0, True, Opening.POSITION, 10, None),
        ),
        BettingStructure.NO_LIMIT,
        True,
        0,
        (5, 10),
        0,
        CHIPS,
        5,
        mode=Mode.CASH_GAME,
    )
    while state.status:
        i = state.stand_patter_or_discarder_index
        if i is not None:
            state.stand_pat_or_discard(rng.sample(list(state.hole_cards[i]), rng.randint(0, 3)))
            continue
        kinds = ["call"]
        if state.checking_or_calling_amount:
            kinds.append("fold")
        lowest = state.min_completion_betting_or_raising_to_amount
        highest = state.max_completion_betting_or_raising_to_amount
        if lowest is not None and highest is not None:
            kinds.append("raise")
        match rng.choice(kinds):
            case "call":
                state.check_or_call()
            case "fold":
                state.fold()
            case _:
                assert lowest is not None
                assert highest is not None
                state.complete_bet_or_raise_to(rng.randint(lowest, highest))
    assert sum(state.stacks) == 5 * CHIPS


def rate(one_hand: OneHand, hands: int, rng: random.Random) -> float:
    """Return hands per second of processor time."""
    decks = [rng.sample(range(52), 52) for _ in range(hands)]
    begun = time.process_time()
    for deck in decks:
        one_hand(rng, deck)
    return hands / (time.process_time() - begun)


class Timed(NamedTuple):
    """One game in one form of ours: the rounds' ratios, and the medians of both rates."""

    ratios: list[float]
    ours: float
    pokerkit: float


def timed(ours: OneHand, theirs: OneHand, *, our_hands: int, their_hands: int) -> Timed:
    """Time both in turns, so that what else the machine does weighs on both."""
    rng = random.Random(5)
    rate(ours, our_hands // 5, rng)
    rate(theirs, their_hands // 5, rng)
    rounds = [(rate(ours, our_hands, rng), rate(theirs, their_hands, rng)) for _ in range(ROUNDS)]
    medians = [statistics.median(rates) for rates in zip(*rounds, strict=True)]
    return Timed([our / their for our, their in rounds], *medians)


def here() -> tuple[Timed, Timed]:
    """Time B5 and B6 with the rules that this process has imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PokerKit warns when it folds a hand that could check
        return (
            timed(our_stud, their_stud, our_hands=600, their_hands=30),
            timed(our_draw, their_draw, our_hands=2000, their_hands=200),
        )


def in_the_wheel() -> tuple[Timed, Timed]:
    """Time B5 and B6 in another process, from the files of the installed wheel."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        environment = install(build(folder / "built"), folder / "installed")
        command = [sys.executable, "-m", "benchmarks.dealer_play"]
        run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True, timeout=900)
        answer = json.loads(run.stdout)
        assert Path(answer["hand"]).is_relative_to(folder), "the wheel's modules were not found"
        assert not answer["hand"].endswith(".py"), "the wheel's modules are not compiled"
        stud, draw = answer["timed"]
        return Timed(*stud), Timed(*draw)


def main() -> None:
    """Print both bars, each with both forms."""
    plain = here()
    try:
        compiled = in_the_wheel()
    except NotBuilt as missing:
        print(f"no compiled wheel: {missing}")
        for bar, each in zip(BARS, plain, strict=True):
            bar.report(each.ratios, f"plain Python: ours {each.ours:,.0f}, PokerKit {each.pokerkit:,.0f}")
        return
    for bar, was, now in zip(BARS, plain, compiled, strict=True):
        detail = f"the compiled wheel: ours {now.ours:,.0f}, PokerKit {now.pokerkit:,.0f}"
        in_plain = f"{statistics.median(was.ratios):.2f} ({min(was.ratios):.2f}..{max(was.ratios):.2f})"
        bar.report(now.ratios, f"{detail}; plain Python: ratio {in_plain}, ours {was.ours:,.0f}")


if __name__ == "__main__":
    print(json.dumps({"hand": dealer.hand.__file__, "timed": here()}))
