"""Players for the demonstration: legal, lively, and with as much sense as one look at their own cards gives.

Their decisions come from a seeded generator, so that a demonstration can be watched again with the same decisions. No
card ever comes from it.
"""

import random
from collections import Counter

from dealer.actions import Act, Action, Choice
from dealer.house_rules import Form
from dealer.state import SHOWDOWN, Hand, NeedAction

_CHIP_CENTS = 100  # nobody raises to 9.59
NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana")


def decide(hand: Hand, need: NeedAction, rng: random.Random) -> Action:
    """Return what a demonstration player does now."""
    choices = {choice.act: choice for choice in need.choices}
    if need.street == SHOWDOWN:
        return Action(need.seat, Act.SHOW if rng.random() < 0.3 else Act.MUCK)
    if Act.DISCARD in choices:
        return _draw(hand, need.seat, choices[Act.DISCARD].highest)
    liking = _liking(hand, need.seat) + rng.uniform(-0.35, 0.35)
    aggressive = [choices[act] for act in (Act.RAISE, Act.BET, Act.COMPLETE) if act in choices]
    if aggressive and liking > 0.55:
        return _raise(need.seat, rng.choice(aggressive), rng)
    for act in (Act.CHECK, Act.BRING_IN):
        if act in choices:
            return Action(need.seat, act)
    if Act.CALL in choices and (liking > 0.15 or Act.FOLD not in choices):
        return Action(need.seat, Act.CALL)
    return Action(need.seat, Act.FOLD)


def _raise(seat: int, choice: Choice, rng: random.Random) -> Action:
    """Raise by the least amount, now and then by more where the game lets one choose."""
    if choice.lowest < choice.highest and rng.random() < 0.25:
        most = min(choice.highest, 3 * choice.lowest)
        return Action(seat, choice.act, rng.randrange(choice.lowest, most + 1, _CHIP_CENTS))
    return Action(seat, choice.act, choice.lowest)


def _liking(hand: Hand, seat: int) -> float:
    """Return how much a player likes his cards, about 0 to 1: his pairs, and how high his cards are."""
    ranks = Counter(card >> 2 for card in hand.cards(seat))
    suits = Counter(card & 3 for card in hand.cards(seat))
    pairs = sum(count - 1 for count in ranks.values())
    high = max(ranks) / 12
    return 0.25 * high + 0.3 * min(pairs, 2) + (0.2 if max(suits.values()) >= 4 else 0.0)


def _draw(hand: Hand, seat: int, most: int) -> Action:
    """Keep what is paired, or else the two highest cards."""
    assert hand.rules.form is Form.FIVE_CARD_DRAW, "stud has no draw"
    cards = hand.cards(seat)
    ranks = Counter(card >> 2 for card in cards)
    keep = [card for card in cards if ranks[card >> 2] > 1] or sorted(cards)[-2:]
    thrown = tuple(card for card in cards if card not in keep)[:most]
    return Action(seat, Act.DISCARD, cards=thrown) if thrown else Action(seat, Act.STAND_PAT)
