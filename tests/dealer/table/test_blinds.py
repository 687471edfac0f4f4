"""Button, blinds and debts between hands: one scenario a rule, and all against a second model."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from dealer.blinds import Blinds, Chair, Deal, Owes, next_deal
from dealer.events import Post
from dealer.rooms.pokerkings import POKERKINGS
from tests.reference import dealer_table as page
from tests.scale import scaled

STAKES = POKERKINGS.stakes[0]
SMALL, BIG = STAKES.small_blind, STAKES.big_blind


@dataclass
class Game:
    """Hands of a five-seat table, as text: ``1 2 3*`` are three ready seats, of which the last wants to post."""

    last: Blinds | None = None
    owes: dict[int, Owes] = field(default_factory=dict)

    def hand(self, ready: str, away: str = "", drawn: int | None = None) -> str:
        """Play one hand; return it as ``button/small/bigs``, dealt seats, and what is owed afterwards."""
        posts = {int(word.strip("*")) for word in ready.split() if word.endswith("*")}
        at_table = [int(word.strip("*")) for word in ready.split()]
        chairs = [Chair(seat, True, self.owes.get(seat, Owes.NEWCOMER), seat in posts) for seat in at_table]
        chairs += [Chair(int(seat), False, self.owes.get(int(seat), Owes.NEWCOMER)) for seat in away.split()]
        deal = next_deal(POKERKINGS, STAKES, sorted(chairs), self.last, drawn)
        assert deal is not None
        self.last, self.owes = deal.blinds, dict(deal.owes)
        return written(deal)


def written(deal: Deal) -> str:
    assert deal.blinds is not None
    assert deal.posts is not None
    button, small, bigs = deal.blinds
    words = [f"{button}/{small or '-'}/{'+'.join(map(str, bigs))}", "dealt " + " ".join(map(str, sorted(deal.dealt)))]
    live = [f"live {each.seat}" for each in deal.posts if each.post is Post.LIVE_POST]
    dead = [f"dead {each.seat}" for each in deal.posts if each.post is Post.DEAD]
    owed = [f"{owes.value} {seat}" for seat, owes in sorted(deal.owes.items()) if owes is not Owes.NOTHING]
    return ", ".join([*words, *live, *dead, *owed])


# A title, who draws the first button, and the hands: who is ready, who is away, and what comes of it.
Hands = list[tuple[str, str, str]]
SCENARIOS: list[tuple[str, int, Hands]] = [
    (
        "PK-2, PK-10, PK-14: button, small and big blind go round",
        1,
        [
            ("1 2 3 4", "", "1/2/3, dealt 1 2 3 4"),
            ("1 2 3 4", "", "2/3/4, dealt 1 2 3 4"),
            ("1 2 3 4", "", "3/4/1, dealt 1 2 3 4"),
        ],
    ),
    (
        "PK-2, PK-10: between two the button is the small blind and passes each hand",
        5,
        [("2 5", "", "5/5/2, dealt 2 5"), ("2 5", "", "2/2/5, dealt 2 5"), ("2 5", "", "5/5/2, dealt 2 5")],
    ),
    (
        "PK-11: a newcomer left of the blinds posts a live big blind",
        1,
        [("1 2 3 4", "", "1/2/3, dealt 1 2 3 4"), ("1* 2 3 4 5*", "", "2/3/4, dealt 1 2 3 4 5, live 5")],
    ),
    (
        "PK-11: or waits until he is the big blind",
        1,
        [
            ("1 2 3 4", "", "1/2/3, dealt 1 2 3 4"),
            ("1 2 3 4 5", "", "2/3/4, dealt 1 2 3 4, new 5"),
            ("1 2 3 4 5", "", "3/4/5, dealt 1 2 3 4 5"),
        ],
    ),
    (
        "PK-11: a newcomer between the button and the blinds waits until the button has passed",
        1,
        [
            ("1 2 4 5", "", "1/2/4, dealt 1 2 4 5"),
            ("1 2 3* 4 5", "", "2/4/5, dealt 1 2 4 5, new 3"),
            ("1 2 3* 4 5", "", "4/5/1, dealt 1 2 3 4 5, live 3"),
        ],
    ),
    (
        "PK-12, PK-19: a missed big blind is marked ML; coming back costs a dead small and a live big blind",
        1,
        [
            ("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"),
            ("1 2 3 5", "4", "2/3/5, dealt 1 2 3 5, ML 4"),
            ("1 2 3 4* 5", "", "3/5/1, dealt 1 2 3 5, ML 4"),
            ("1 2 3 4* 5", "", "5/1/2, dealt 1 2 3 4 5, live 4, dead 4"),
        ],
    ),
    (
        "PK-12, PK-17: or nothing, for who waits for his big blind",
        1,
        [
            ("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"),
            ("1 2 3 5", "4", "2/3/5, dealt 1 2 3 5, ML 4"),
            ("1 2 3 4 5", "", "3/5/1, dealt 1 2 3 5, ML 4"),
            ("1 2 3 4 5", "", "5/1/2, dealt 1 2 3 5, ML 4"),
            ("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 5, ML 4"),
            ("1 2 3 4 5", "", "2/3/4, dealt 1 2 3 4 5"),
        ],
    ),
    (
        "PK-13: a missed small blind is marked MS, two post big blinds, and the first of them has the next button",
        1,
        [
            ("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"),
            ("1 2 4 5", "3", "2/-/4+5, dealt 1 2 4 5, MS 3"),
            ("1 2 4 5", "3", "4/5/1, dealt 1 2 4 5, MS 3"),
        ],
    ),
    (
        "PK-13, PK-19: who missed the small blind comes back for a dead small blind once the button has passed",
        1,
        [
            ("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"),
            ("1 2 4 5", "3", "2/-/4+5, dealt 1 2 4 5, MS 3"),
            ("1 2 3* 4 5", "", "4/5/1, dealt 1 2 3 4 5, dead 3"),
        ],
    ),
    (
        "PK-17: MS becomes ML when the big blind passes again, and never more is owed",
        1,
        [
            ("1 2 3 4", "", "1/2/3, dealt 1 2 3 4"),
            ("1 2 4", "3", "2/-/4+1, dealt 1 2 4, MS 3"),
            ("1 2 4", "3", "4/1/2, dealt 1 2 4, MS 3"),
            ("1 2 4", "3", "1/2/4, dealt 1 2 4, ML 3"),
            ("1 2 4", "3", "2/4/1, dealt 1 2 4, ML 3"),
            ("1 2 4", "3", "4/1/2, dealt 1 2 4, ML 3"),
            ("1 2 4", "3", "1/2/4, dealt 1 2 4, ML 3"),
            ("1 2 3* 4", "", "2/4/1, dealt 1 2 4, ML 3"),
            ("1 2 3* 4", "", "4/1/2, dealt 1 2 3 4, live 3, dead 3"),
        ],
    ),
    (
        "PK-15: three to two: no one is the big blind twice running",
        1,
        [("1 2 3", "", "1/2/3, dealt 1 2 3"), ("1 3", "2", "3/3/1, dealt 1 3"), ("1 3", "2", "1/1/3, dealt 1 3")],
    ),
    (
        "PK-15: two to three: the last small blind has the button, the newcomer is the big blind",
        1,
        [("1 2", "", "1/1/2, dealt 1 2"), ("1 2 3", "", "1/2/3, dealt 1 2 3")],
    ),
    (
        "PK-15: two to three: a newcomer between button and blind waits",
        1,
        [
            ("1 3", "", "1/1/3, dealt 1 3"),
            ("1 2* 3", "", "3/3/1, dealt 1 3, new 2"),
            ("1 2 3", "", "3/1/2, dealt 1 2 3"),
        ],
    ),
    (
        "PK-16: the last small blind gone: the button goes to the last big blind",
        1,
        [
            ("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"),
            ("1 3 4 5", "", "3/4/5, dealt 1 3 4 5"),
            ("1 3 4 5", "", "4/5/1, dealt 1 3 4 5"),
        ],
    ),
    (
        "PK-16: also if he only sits out; having posted his blinds he owes nothing",
        1,
        [("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"), ("1 3 4 5", "2", "3/4/5, dealt 1 3 4 5")],
    ),
    (
        "PK-16: small and big blind gone together: the next active player has the button",
        1,
        [("1 2 3 4 5", "", "1/2/3, dealt 1 2 3 4 5"), ("1 4 5", "", "4/5/1, dealt 1 4 5")],
    ),
    (
        "PK-18: fewer than two free of marks: all is forgiven",
        1,
        [
            ("1 2 3 4", "", "1/2/3, dealt 1 2 3 4"),
            ("1 2 3", "4", "2/3/1, dealt 1 2 3, ML 4"),
            ("1 4", "2 3", "1/1/4, dealt 1 4"),
        ],
    ),
    (
        "PK-18: heads-up leaves no marks",
        1,
        [("1 2 3", "", "1/2/3, dealt 1 2 3"), ("1 2", "3", "2/2/1, dealt 1 2"), ("1 2", "3", "1/1/2, dealt 1 2")],
    ),
]


@pytest.mark.rule("PK-2")
@pytest.mark.rule("PK-10")
@pytest.mark.rule("PK-11")
@pytest.mark.rule("PK-12")
@pytest.mark.rule("PK-13")
@pytest.mark.rule("PK-14")
@pytest.mark.rule("PK-15")
@pytest.mark.rule("PK-16")
@pytest.mark.rule("PK-17")
@pytest.mark.rule("PK-18")
@pytest.mark.rule("PK-19")
@pytest.mark.parametrize(
    ("drawn", "hands"), [pytest.param(drawn, hands, id=title) for title, drawn, hands in SCENARIOS]
)
def test_blinds_go_as_the_page_says(drawn: int, hands: Hands) -> None:
    game = Game()
    for number, (ready, away, expected) in enumerate(hands):
        assert game.hand(ready, away, None if number else drawn) == expected, f"hand {number + 1}"


@pytest.mark.rule("PK-11")
@pytest.mark.rule("PK-12")
@pytest.mark.rule("PK-13")
@pytest.mark.rule("PK-15")
@pytest.mark.rule("PK-16")
@pytest.mark.rule("PK-17")
@pytest.mark.rule("PK-18")
@pytest.mark.rule("PK-19")
@pytest.mark.parametrize("block", range(10))
def test_a_second_model_agrees_on_random_tables(block: int) -> None:
    each = scaled(300, 10_000)
    for number in range(block * each, (block + 1) * each):
        play_one_random_table(random.Random(number))


def play_one_random_table(rng: random.Random) -> None:
    seats = rng.choice((3, 4, 5, 5))
    last: Blinds | None = None
    owes: dict[int, Owes] = {}
    ready: dict[int, bool] = {}
    for _ in range(12):
        for seat in range(1, seats + 1):
            if seat not in owes and rng.random() < 0.5:
                owes[seat], ready[seat] = Owes.NEWCOMER, True
            elif seat in owes and rng.random() < 0.1:
                del owes[seat], ready[seat]
            elif seat in owes and rng.random() < 0.25:
                ready[seat] = not ready[seat]
        chairs = [Chair(seat, ready[seat], owes[seat], rng.random() < 0.5) for seat in sorted(owes)]
        present = [chair.seat for chair in chairs if chair.ready]
        drawn = rng.choice(present) if last is None and present else None
        deal = next_deal(POKERKINGS, STAKES, chairs, last, drawn)
        rows = [page.Row(chair.seat, chair.ready, chair.owes.value, chair.posts) for chair in chairs]
        expected = page.next_hand(rows, last and (last.button, last.small, list(last.bigs)), seats, drawn)
        if expected is None:
            assert deal is None
            continue
        assert deal is not None
        assert deal.blinds is not None
        assert deal.posts is not None
        assert tuple(deal.blinds) == (expected.button, expected.small, tuple(expected.bigs)), (last, chairs)
        assert set(deal.dealt) == expected.dealt, (last, chairs)
        assert {seat: debt.value for seat, debt in deal.owes.items()} == expected.debts, (last, chairs)
        kinds = {Post.SMALL_BLIND: "small", Post.BIG_BLIND: "big", Post.LIVE_POST: "live", Post.DEAD: "dead"}
        assert {(each.seat, kinds[each.post]) for each in deal.posts} == expected.money, (last, chairs)
        check_what_always_holds(deal, last)
        last, owes = deal.blinds, dict(deal.owes)


def check_what_always_holds(deal: Deal, last: Blinds | None) -> None:
    assert deal.blinds is not None
    assert deal.posts is not None
    owed = Counter(dict.fromkeys(deal.dealt, 0))
    for posting in deal.posts:
        assert posting.seat in deal.dealt
        owed[posting.seat] += posting.amount
    # PK-17: never more than one small dead and one big live.
    assert max(owed.values()) <= SMALL + BIG
    for seat in deal.dealt:
        # PK-19: of a short stack the live part is taken first.
        kinds = [posting.post for posting in deal.posts if posting.seat == seat]
        assert kinds[:1] != [Post.DEAD] or len(kinds) == 1
    assert not any(deal.owes[seat] is not Owes.NOTHING for seat in deal.dealt)
    assert deal.blinds.button in deal.dealt
    assert len(deal.blinds.bigs) == (2 if deal.blinds.small is None else 1)
    if len(deal.dealt) == 2 and last is not None and len(last.bigs) == 1:
        assert deal.blinds.bigs != last.bigs, "PK-15"
