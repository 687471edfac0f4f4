"""What is five-card draw's own: its two rounds, the blinds' places, and where drawn cards come from."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from dealer.actions import Act, Choice
from dealer.house_rules import DrawOrder, HeadsUpButton, HouseRules, ShortStub, Stakes, Structure
from dealer.stub import Location, Stub
from dealer.stud import Face, Street

# PK-3: five down, one at a time. The draw itself stands between the two rounds; no card is burned (PK-5).
STREETS: Final = (
    Street("predraw", False, (Face.DOWN,) * 5, big_bets=False),
    Street("postdraw", False, (), big_bets=True),
)
DRAW: Final = "draw"


def usual_blinds(rules: HouseRules, players: int) -> tuple[int, int]:
    """Return the positions, from the button's left, of the small and the big blind (PK-2)."""
    if players > 2:
        return 0, 1
    match rules.heads_up_button:
        case HeadsUpButton.SMALL_BLIND:
            return 1, 0
        case HeadsUpButton.BIG_BLIND:
            return 0, 1


def speaks_first(big_blinds: Sequence[int], players: int) -> int:
    """Return the position left of the big blind, of the farther one if there are two (PK-3, PK-13)."""
    return (max(big_blinds, default=players - 1) + 1) % players


def bet_sizes(rules: HouseRules, stakes: Stakes, street: Street) -> tuple[int, ...]:
    """Return what a bet or raise is in fixed limit, or the least it may be without one (PK-6, AL-2)."""
    match stakes.structure:
        case Structure.FIXED_LIMIT:
            return (stakes.big_bet if street.big_bets and rules.big_bets_after_the_draw else stakes.small_bet,)
        case Structure.POT_LIMIT | Structure.NO_LIMIT:
            return (stakes.big_blind,)


@lru_cache
def choices(most: int) -> tuple[Choice, ...]:
    """Return what a player may do on the draw: stand pat or throw away up to ``most`` cards (PK-4)."""
    return (Choice(Act.STAND_PAT), Choice(Act.DISCARD, 1, most))


def order(rules: HouseRules, inside: Sequence[int], first_to_act: int) -> tuple[int, ...]:
    """Return the positions still in, in the order of drawing (PK-4)."""
    match rules.draw_order:
        case DrawOrder.FROM_THE_BUTTONS_LEFT:
            return tuple(inside)
        case DrawOrder.FROM_THE_FIRST_TO_ACT:
            return tuple([i for i in inside if i >= first_to_act] + [i for i in inside if i < first_to_act])


def from_the_stub(rules: HouseRules, wanted: int, left: int) -> int:
    """Return how many cards come from the stub before it is reshuffled, none if it is reshuffled at once (PK-5)."""
    match rules.short_stub:
        case ShortStub.STUB_IS_USED_UP_FIRST:
            return min(wanted, left)
        case ShortStub.STUB_IS_SHUFFLED_IN:
            return wanted if wanted <= left else 0


def reshuffled(stub: Stub, discards: Sequence[tuple[Location, int]], drawing: int) -> tuple[Location, ...]:
    """Return what is shuffled: the discards but never the drawing player's own, and what is left of the stub (PK-5)."""
    return tuple(sorted([*stub.rest(), *(location for location, owner in discards if owner != drawing)]))
