"""Pots: how what was paid divides into layers, who may win each, the house's rake, and chips that do not divide."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from dealer.house_rules import OddHalf, Rake


class Layer(NamedTuple):
    """One pot: ``members`` are the positions that may win it, in order from the dealer's left."""

    total: int
    members: tuple[int, ...]

    def name(self, index: int) -> str:
        """Return how the pot is called: main, side-1, side-2, from the bottom."""
        return "main" if index == 0 else f"side-{index}"


def layers(paid: Sequence[int], dead: Sequence[int], inside: Sequence[int]) -> list[Layer]:
    """Return the pots, main pot first; ``inside`` are the positions that have not folded.

    Each level that somebody still in has paid closes a layer (P7-7, AL-10). Layers whose members would be the same are
    one, and what only folded players paid goes to the pot below (AL-20). Dead money is in the main pot.
    """
    levels = sorted({paid[i] for i in inside})
    pots: list[Layer] = []
    below = 0
    for level in levels:
        top = level if level < levels[-1] else max(paid)
        total = sum([min(amount, top) - below for amount in paid if amount > below])
        if not pots:
            total += sum(dead)
        pots.append(Layer(total, tuple([i for i in inside if paid[i] >= level])))
        below = level
    return pots


def rakes(rake: Rake | None, totals: Sequence[int]) -> list[int]:
    """Return what the house takes of each pot; all together the percentage rounded down, at most the cap (AL-8)."""
    if rake is None:
        return [0] * len(totals)
    taken = [0]
    pot = 0
    for total in totals:
        pot += total
        taken.append(min(rake.cap, pot * rake.basis_points // 10_000))
    return [after - before for before, after in pairwise(taken)]


def shares(total: int, winners: Sequence[int]) -> dict[int, int]:
    """Split chips among winners in the order of their claim to an odd chip, at most one each (AL-4)."""
    each, odd = divmod(total, len(winners))
    return {i: each + (place < odd) for place, i in enumerate(winners)}


def halves(total: int, odd_half: OddHalf) -> tuple[int, int]:
    """Split a pot for high and low; the odd chip goes to the half that the house names (LS-12)."""
    less = total // 2
    match odd_half:
        case OddHalf.HIGH:
            return total - less, less
        case OddHalf.LOW:
            return less, total - less
