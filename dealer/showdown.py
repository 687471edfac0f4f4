"""The end of a hand: who wins what, in which order hands are shown, and whose owner may keep his face down."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from dealer.house_rules import HouseRules, Muck, OddChip, Rake, ShowingOrder
from dealer.pot import Layer, halves, rakes, shares
from dealer.ranking import EightOrBetter, Ranking, Razz, low_rank
from dealer.stud import by_suit


class Award(NamedTuple):
    """Chips of one pot to one position; ``side`` is high or low where the pot is halved."""

    pot: int
    position: int
    side: str
    amount: int


class Settlement(NamedTuple):
    """Everything the cards decide. ``must_show`` (AL-18) and ``may_muck`` are in the order of showing."""

    pots: tuple[Layer, ...]
    rakes: tuple[int, ...]
    awards: tuple[Award, ...]
    must_show: tuple[int, ...]
    may_muck: tuple[int, ...]


def uncalled(total: int, winner: int, rake: Rake | None) -> Settlement:
    """Settle a hand that all others gave up: one pot to the last player in, who need not show (CC-14)."""
    (taken,) = rakes(rake, [total])
    pot = Layer(total, (winner,))
    return Settlement((pot,), (taken,), (Award(0, winner, "", total - taken),), (), (winner,))


def settle(
    rules: HouseRules,
    rankings: Sequence[Ranking],
    pots: Sequence[Layer],
    hands: Mapping[int, Sequence[int]],
    *,
    aggressor: int | None,
    first_to_act: int,
    rake: Rake | None,
) -> Settlement:
    """Settle a showdown between positions and their cards (a community card included)."""
    values = [{i: ranking(cards) for i, cards in hands.items()} for ranking in rankings]
    taken = rakes(rake, [pot.total for pot in pots])
    awards: list[Award] = []
    # AL-17: the last side pot is settled first, the main pot last.
    for index in range(len(pots) - 1, -1, -1):
        members = pots[index].members
        total = pots[index].total - taken[index]
        for side, amount, ranking, value in _sides(rules, total, rankings, values, members):
            best = max(v for i in members if (v := value[i]) is not None)
            winners = [i for i in members if value[i] == best]
            if len(winners) > 1:
                winners = _odd_chip_order(rules, ranking, winners, hands)
            awards += [Award(index, i, side, chips) for i, chips in _split(rules, amount, winners).items()]
    order = _showing_order(rules, pots, aggressor, first_to_act)
    winning = {award.position for award in awards}
    must_show: list[int] = []
    may_muck: list[int] = []
    for i in order:
        if i in winning or i == aggressor or not _may_muck(rules, values, i, must_show):
            must_show.append(i)
        else:
            may_muck.append(i)
    return Settlement(tuple(pots), tuple(taken), tuple(awards), tuple(must_show), tuple(may_muck))


def _sides(
    rules: HouseRules,
    total: int,
    rankings: Sequence[Ranking],
    values: Sequence[Mapping[int, int | None]],
    members: Sequence[int],
) -> list[tuple[str, int, Ranking, Mapping[int, int | None]]]:
    """Return the parts of one pot: all of it, or two halves if a member's low qualifies (LS-8, LS-12)."""
    if len(rankings) == 1:
        return [("", total, rankings[0], values[0])]
    high, low = rankings
    if all(values[1][i] is None for i in members):
        return [("high", total, high, values[0])]
    to_high, to_low = halves(total, rules.odd_half)
    return [("high", to_high, high, values[0]), ("low", to_low, low, values[1])]


def _split(rules: HouseRules, amount: int, winners: Sequence[int]) -> dict[int, int]:
    match rules.odd_chip:
        case OddChip.LEFT_OF_DEALER | OddChip.HIGH_CARD_BY_SUIT:
            return shares(amount, winners)
        case OddChip.ALL_TO_LEFT_OF_DEALER:
            each, odd = divmod(amount, len(winners))
            return {i: each + (odd if i == winners[0] else 0) for i in winners}


def _odd_chip_order(
    rules: HouseRules, ranking: Ranking, winners: Sequence[int], hands: Mapping[int, Sequence[int]]
) -> list[int]:
    match rules.odd_chip:
        case OddChip.LEFT_OF_DEALER | OddChip.ALL_TO_LEFT_OF_DEALER:
            return sorted(winners)
        case OddChip.HIGH_CARD_BY_SUIT:
            # Winners who share a community card as their highest go on to the next card, at last by seat.
            return sorted(winners, key=lambda i: [(-rank, -suit) for rank, suit in _five(rules, ranking, hands[i])])


def _five(rules: HouseRules, ranking: Ranking, cards: Sequence[int]) -> list[tuple[int, int]]:
    """Return the winning five by rank and suit, highest first; of equal fives the one with the highest suits."""
    low = isinstance(ranking, EightOrBetter | Razz)
    best = ranking(cards)
    fives = [five for five in combinations(cards, 5) if ranking(five) == best]
    placed = [
        sorted(((low_rank(card) if low else card >> 2, by_suit(rules, card)[1]) for card in five), reverse=True)
        for five in fives
    ]
    return max(placed)


def _showing_order(rules: HouseRules, pots: Sequence[Layer], aggressor: int | None, first_to_act: int) -> list[int]:
    """Return positions in the order of showing: pot by pot from the last side pot, clockwise in each (CC-13, AL-17)."""
    match rules.showing_order:
        case ShowingOrder.FROM_THE_FIRST_TO_ACT:
            otherwise = first_to_act
        case ShowingOrder.FROM_THE_DEALERS_LEFT:
            otherwise = 0
    order: dict[int, None] = {}
    for pot in reversed(pots):
        start = aggressor if aggressor in pot.members else otherwise
        assert start is not None, "a pot's order starts somewhere"
        order.update(dict.fromkeys(i for i in pot.members if i >= start))
        order.update(dict.fromkeys(i for i in pot.members if i < start))
    return list(order)


def _may_muck(rules: HouseRules, values: Sequence[Mapping[int, int | None]], i: int, shown: Sequence[int]) -> bool:
    match rules.muck:
        case Muck.IF_IT_CANNOT_WIN:
            return True
        case Muck.IF_WEAKER_THAN_ONE_SHOWN:
            return all(value[i] is None or any(_beats(value[j], value[i]) for j in shown) for value in values)


def _beats(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one > other)
