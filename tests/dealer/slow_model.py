"""A second, slow model of what no outside engine has: written from the rule sheet alone, chip by chip and card by card.

It sees what players did (events of forced money, acts, protection, discards) and works out the rest by itself: which
places are dealt to whom and what is shuffled again, the pots, who wins them, and every odd chip. It shares no code with
the dealer but the names of events.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from dealer.actions import Act
from dealer.events import Acted, Discarded, Post, Posted, RoundOpened

Pot = tuple[int, tuple[int, ...]]


# --- chips


def pots_and_return(paid: Mapping[int, int], dead: int, folded: set[int]) -> tuple[list[Pot], dict[int, int]]:
    """Lay the chips in rows, one of each player's a row; a row belongs to those in it who have not folded.

    A row of a single player at the top that has not folded was never called and goes back to him (AL-3). A row whose
    players all folded falls to the row below (AL-20). Rows with the same owners are one pot. Dead money lies lowest.
    Rows of the same players are laid in one go.
    """
    rows: list[tuple[int, set[int], set[int]]] = []
    below = 0
    for level in sorted(set(paid.values()) - {0}):
        players = {seat for seat, chips in paid.items() if chips >= level}
        rows.append((level - below, players, players - folded))
        below = level
    back: Counter[int] = Counter()
    while rows and len(rows[-1][1]) == 1 and rows[-1][2]:
        height, (seat,), _ = rows.pop()
        back[seat] += height
    pots: list[tuple[int, set[int]]] = []
    for height, players, owners in rows:
        chips = height * len(players)
        if not owners or (pots and pots[-1][1] == owners):
            assert pots, "the lowest row has an owner"
            pots[-1] = (pots[-1][0] + chips, pots[-1][1])
        else:
            pots.append((chips, owners))
    pots[0] = (pots[0][0] + dead, pots[0][1])
    return [(total, tuple(sorted(owners))) for total, owners in pots], dict(back)


def settle_chips(events: Sequence[object]) -> tuple[list[Pot], dict[int, int], dict[int, int]]:
    """Return the pots, what each seat paid for good and what came back to each, street by street."""
    paid: Counter[int] = Counter()
    back: Counter[int] = Counter()
    dead = 0
    folded: set[int] = set()
    pots: list[Pot] = []
    streets = dict.fromkeys(event.street for event in events if isinstance(event, Acted | RoundOpened))
    for street in [None, *streets]:
        for event in events:
            if isinstance(event, Posted) and street is None:
                if event.post is Post.DEAD:
                    dead += event.amount
                else:
                    paid[event.seat] += event.amount
            elif isinstance(event, Acted) and event.street == street:
                paid[event.seat] += event.adds
                if event.act is Act.FOLD:
                    # A fold that was kept for a turn that never came: what nobody called of his bet went back before.
                    over = paid[event.seat] - max(chips for seat, chips in paid.items() if seat != event.seat)
                    if over > 0:
                        back[event.seat] += over
                        paid[event.seat] -= over
                    folded.add(event.seat)
        if street is not None:  # forced money may still be called
            pots, returned = pots_and_return(paid, dead, folded)
            back.update(returned)
            paid.subtract(returned)
    return pots, dict(paid), {seat: chips for seat, chips in back.items() if chips}


# --- cards: rank 2..14, suit 0..3


def high(
    five: Sequence[int], *, lowest: int = 2, flush_first: bool = False, royal_low: bool = False
) -> tuple[int, ...]:
    """Value five cards by a table of classes; ``lowest`` is the deck's lowest rank."""
    ranks = sorted((card // 4 + 2 for card in five), reverse=True)
    counts = sorted(((ranks.count(rank), rank) for rank in set(ranks)), reverse=True)
    shape = tuple(count for count, _ in counts)
    order = tuple(rank for _, rank in counts)
    flush = len({card % 4 for card in five}) == 1
    top = 0
    if shape == (1, 1, 1, 1, 1):
        if ranks[0] - ranks[4] == 4:
            top = ranks[0]
        elif ranks == [14, lowest + 3, lowest + 2, lowest + 1, lowest]:
            top = lowest + 3
    flush_class, full_class = (7, 6) if flush_first else (6, 7)
    if flush and top:
        return (9, 14 if royal_low and ranks[0] == 14 else top)
    if shape == (4, 1):
        return (8, *order)
    if shape == (3, 2):
        return (full_class, *order)
    if flush:
        return (flush_class, *ranks)
    if top:
        return (5, top)
    classes = {(3, 1, 1): 4, (2, 2, 1): 3, (2, 1, 1, 1): 2, (1, 1, 1, 1, 1): 1}
    return (classes[shape], *order)


def low(five: Sequence[int]) -> tuple[int, ...] | None:
    """Value five cards as an eight-or-better low; greater is better, None does not qualify."""
    ranks = sorted({1 if card // 4 == 12 else card // 4 + 2 for card in five}, reverse=True)
    return tuple(-rank for rank in ranks) if len(ranks) == 5 and ranks[0] <= 8 else None


def best(cards: Sequence[int], value: object) -> tuple[int, ...] | None:
    """Return the best value of any five of the cards."""
    assert callable(value)
    values = [found for five in combinations(cards, 5) if (found := value(five)) is not None]
    return max(values, default=None)


def highest_of_winning_five(cards: Sequence[int], value: object, suits: str, *, ace_low: bool) -> list[tuple[int, int]]:
    """Return the winning five by rank and the house's suits, highest first; of equal fives the one of higher suits."""
    assert callable(value)
    goal = best(cards, value)
    placed = []
    for five in combinations(cards, 5):
        if value(five) == goal:
            ranks = [
                (1 if ace_low and card // 4 == 12 else card // 4 + 2, suits.index("cdhs"[card % 4])) for card in five
            ]
            placed.append(sorted(ranks, reverse=True))
    return max(placed)


# --- places


def stud_places(seats: Sequence[int], acts: Sequence[Acted]) -> list[tuple[object, ...]]:
    """Return, in order, ("dealt", seat, k, p), ("burnt", k, p), ("all", k, p) and ("shuffle", k, locations)."""
    story: list[tuple[object, ...]] = []
    alive = list(seats)
    story += [("dealt", seats[p % len(seats)], 0, p) for p in range(3 * len(seats))]
    p = 3 * len(seats)
    burns = []
    for street, after in (("fourth", "third"), ("fifth", "fourth"), ("sixth", "fifth"), ("seventh", "sixth")):
        folds = {act.seat for act in acts if act.street == after and act.act is Act.FOLD}
        alive = [seat for seat in alive if seat not in folds]
        if len(alive) == 1:
            return story
        left = 52 - p
        if street != "seventh" or left >= len(alive) + 1:
            story.append(("burnt", 0, p))
            burns.append((0, p))
            story += [("dealt", seat, 0, p + 1 + n) for n, seat in enumerate(alive)]
            p += 1 + len(alive)
        elif len(burns) + left >= len(alive):
            story.append(("shuffle", 1, tuple(sorted(burns + [(0, place) for place in range(p, 52)]))))
            story += [("dealt", seat, 1, n) for n, seat in enumerate(alive)]
        else:
            story.append(("shuffle", 1, tuple(burns)))
            story.append(("all", 1, 0))
    return story


def draw_places(seats: Sequence[int], deck: int, discards: Sequence[Discarded]) -> list[tuple[object, ...]]:
    """Return the places of a draw hand as `stud_places` does; ``discards`` name locations, in the order of drawing."""
    story: list[tuple[object, ...]] = [("dealt", seats[p % len(seats)], 0, p) for p in range(5 * len(seats))]
    stub = [(0, p) for p in range(5 * len(seats), deck)]
    thrown: list[tuple[int, tuple[int, int]]] = []
    k = 0
    for event in discards:
        thrown += [(event.seat, (location.k, location.p)) for location in event.locations]
        for _ in event.locations:
            if not stub:
                again = tuple(sorted(location for seat, location in thrown if seat != event.seat))
                thrown = [(seat, location) for seat, location in thrown if seat == event.seat]
                k += 1
                story.append(("shuffle", k, again))
                stub = [(k, p) for p in range(len(again))]
            story.append(("dealt", event.seat, *stub.pop(0)))
    return story
