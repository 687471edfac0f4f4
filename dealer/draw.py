"""What is five-card draw's own: its two rounds, the blinds' places, and where drawn cards come from."""

from collections.abc import Sequence
from typing import Final

from dealer.events import Post
from dealer.house_rules import Stakes, Structure
from dealer.stub import Location
from dealer.stud import Face, Street

# PK-3: five down, one at a time. The draw itself stands between the two rounds; no card is burned (PK-5).
STREETS: Final = (
    Street("predraw", False, (Face.DOWN,) * 5, big_bets=False),
    Street("postdraw", False, (), big_bets=True),
)
DRAW: Final = "draw"

Posts = Sequence[tuple[int, Post]]


def usual_blinds(players: int) -> list[tuple[int, Post]]:
    """Return who posts, as positions from the button's left; heads-up the button is the small blind (PK-2)."""
    small, big = (1, 0) if players == 2 else (0, 1)
    return [(small, Post.SMALL_BLIND), (big, Post.BIG_BLIND)]


def speaks_first(posts: Posts, players: int) -> int:
    """Return the position left of the big blind, of the farther one if there are two (PK-3, PK-13)."""
    big_blinds = [i for i, post in posts if post is Post.BIG_BLIND]
    return (max(big_blinds, default=players - 1) + 1) % players


def bet_sizes(stakes: Stakes, street: Street) -> tuple[int, ...]:
    """Return what a bet or raise is in fixed limit, or the least it may be without one (PK-6, AL-2)."""
    match stakes.structure:
        case Structure.FIXED_LIMIT:
            return (stakes.big_bet if street.big_bets else stakes.small_bet,)
        case Structure.POT_LIMIT | Structure.NO_LIMIT:
            return (stakes.big_blind,)


def reshuffled_discards(discards: Sequence[tuple[Location, int]], drawing: int) -> tuple[Location, ...]:
    """Return the discards that are shuffled when the stub has run out: never the drawing player's own (PK-5)."""
    return tuple(sorted(location for location, owner in discards if owner != drawing))
