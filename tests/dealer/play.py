"""A shoe in memory and a way to play a hand to its end, used by all tests of the rules."""

import random
from collections.abc import Callable, Sequence

from dealer.actions import Act, Action
from dealer.cards import of_item, parse
from dealer.hand import apply, reshuffled, supply
from dealer.state import Hand, NeedAction, NeedCards, NeedShuffle

Choose = Callable[[Hand, NeedAction], Action]


def parse_all(text: str) -> tuple[int, ...]:
    """Return the cards of a text such as ``"AhKd 7c"``, blanks ignored."""
    packed = text.replace(" ", "")
    return tuple(parse(packed[i : i + 2]) for i in range(0, len(packed), 2))


class Shoe:
    """Shuffles of one hand as the service would make them: the first given or random, later ones random."""

    def __init__(self, rng: random.Random, order: Sequence[int] | None = None, *, deck_size: int = 52) -> None:
        self.rng = rng
        items = list(order) if order is not None else rng.sample(range(deck_size), deck_size)
        self.shuffles = [items]
        self.deck_size = deck_size

    def answer(self, hand: Hand) -> Hand:
        """Give the hand the cards or the shuffle it waits for."""
        need = hand.awaits
        if isinstance(need, NeedCards):
            return supply(hand, [of_item(self.shuffles[need.k][p], self.deck_size) for p in need.to_open()])
        assert isinstance(need, NeedShuffle)
        items = [self.shuffles[k][p] for k, p in need.locations]
        self.rng.shuffle(items)
        self.shuffles.append(items)
        return reshuffled(hand)


def stacked(cards: str, *, deck_size: int = 52) -> list[int]:
    """Return a deck's items that begins with these cards; the rest follows from the highest card down."""
    first = parse_all(cards)
    rest = [card for card in range(51, 51 - deck_size, -1) if card not in first]
    return [card - 52 + deck_size for card in (*first, *rest)]


def play(hand: Hand, shoe: Shoe, choose: Choose) -> Hand:
    """Play a hand to its end."""
    while not hand.over:
        hand = apply(hand, choose(hand, hand.awaits)) if isinstance(hand.awaits, NeedAction) else shoe.answer(hand)
    return hand


def call_down(hand: Hand, need: NeedAction) -> Action:
    """Check or call, bring in, stand pat, and muck what need not be shown."""
    passive = (Act.CHECK, Act.CALL, Act.BRING_IN, Act.STAND_PAT, Act.MUCK)
    return next(Action(need.seat, choice.act) for choice in need.choices if choice.act in passive)


def at_random(rng: random.Random) -> Choose:
    """Return a player who does anything legal, folding seldom."""

    def choose(hand: Hand, need: NeedAction) -> Action:
        choices = [c for c in need.choices if c.act is not Act.FOLD or rng.random() < 0.3] or list(need.choices)
        choice = rng.choice(choices)
        if choice.act is Act.DISCARD:
            own = hand.cards(need.seat)
            return Action(need.seat, choice.act, cards=tuple(rng.sample(own, rng.randint(1, choice.highest))))
        if not choice.highest:
            return Action(need.seat, choice.act)
        return Action(need.seat, choice.act, rng.randint(choice.lowest, choice.highest))

    return choose


def script(hand: Hand, shoe: Shoe, acts: str) -> Hand:
    """Play written acts, ``"3 bring_in, 4 complete, 1 raise 20, 2 discard 7c8d"``, dealing as needed before each.

    A seat's number and its act; a total for bets and raises where more than one is possible. Afterwards the hand stands
    where it waits for the next player, or is over.
    """
    for line in filter(None, (part.strip() for part in acts.split(","))):
        seat, act, *rest = line.split()
        hand = dealt(hand, shoe)
        kind = Act(act)
        cards = parse_all(rest[0]) if kind is Act.DISCARD else ()
        to = int(rest[0]) if rest and not cards else None
        hand = apply(hand, Action(int(seat), kind, to, cards))
    return dealt(hand, shoe)


def dealt(hand: Hand, shoe: Shoe) -> Hand:
    """Give the hand all cards that it waits for."""
    while isinstance(hand.awaits, NeedCards | NeedShuffle):
        hand = shoe.answer(hand)
    return hand


def offered(hand: Hand) -> list[str]:
    """Return the legal acts of the player to act as text, such as ``["3: fold", "3: call 10", "3: raise 30"]``."""
    need = hand.awaits
    if not isinstance(need, NeedAction):
        return []
    lines = []
    for act, lowest, highest, _ in need.choices:
        amount = "" if not highest else f" {lowest}" if lowest == highest else f" {lowest}..{highest}"
        lines.append(f"{need.seat}: {act.value}{amount}")
    return lines


def third_street(doors: str, downs: str = "", then: str = "") -> list[int]:
    """Return a deck by its door cards in dealing order; down cards and those after the deal are given or any others."""
    up, later = parse_all(doors), parse_all(then)
    down = list(parse_all(downs))
    spare = [card for card in range(51, -1, -1) if card not in (*up, *down, *later)]
    while len(down) < 2 * len(up):
        down.append(spare.pop(len(spare) // 2))
    return [*down, *up, *later, *spare]
