"""Random calls, legal and illegal, one by one and many at once, with restarts between: the service does what the plain
model says, an illegal call changes nothing, a repeat gives the same bytes, and the log audits clean at the end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from rngsvc.errors import ServiceError
from rngsvc.shuffles import Openings
from tests.rngsvc.service.model import CHOICES, SEEDS, Model, Verdict
from tests.rngsvc.service.world import Play, World, content, running, snapshot
from tests.scale import scaled

TTL_S = 60
TERMS: list[dict[str, Any]] = [
    {"mode": "shoe", "reveal": "public"},
    {"mode": "full", "reveal": "public"},
    {"mode": "shoe", "reveal": "escrow"},
    {"mode": "full", "reveal": "public", "twin": True},
    {"mode": "shoe", "reveal": "escrow", "twin": True},
]


@dataclass
class Driver:
    """Makes calls at a table and compares with its model."""

    world: World
    rng: Random
    play: Play
    model: Model
    answers: dict[Any, Any] = field(default_factory=dict)
    items: dict[tuple[int, int, int], tuple[int, bytes]] = field(default_factory=dict)
    made: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    verdicts: list[tuple[str, Verdict]] = field(default_factory=list)

    def some_call(self) -> tuple[str, tuple[Any, ...]]:
        """Return a call's name and arguments, likely to be near what is legal."""
        rng, model = self.rng, self.model
        if self.made and rng.random() < 0.15:
            return rng.choice(self.made)
        seq = rng.choice([model.closed + 1] * 6 + [model.closed, model.closed + 2, rng.randint(1, 12)]) or 1
        hand = model.hand(seq)
        given = {
            who: seed if rng.random() < 0.97 else b"\xee" * 32
            for who, seed in SEEDS.items()
            if rng.random() < (0.6 if hand and who in hand.promised else 0.03)
        }
        k = len(hand.sizes) if hand else 0
        match rng.choice("rrppsssshhhhoooooooccccd" + ("tttt" if model.twin else "t")):
            case "r":
                first = len(model.hands) + 1 if rng.random() < 0.7 else rng.randint(1, 12)
                return "reserve", (first, rng.choice([1, 1, 2, 3]))
            case "p":
                groups = tuple(
                    tuple(who for who in SEEDS if rng.random() < 0.5) for _ in range(rng.choice([1, 1, 2, 3]))
                )
                return "promise", (seq, *groups)
            case "s":
                return "seal", (seq, rng.choice([5, 5, 5, 1, 52]), given)
            case "t":
                return "choose", (
                    seq,
                    {who: CHOICES[who] if given[who] == SEEDS[who] else b"\xee" * 32 for who in given},
                )
            case "h":
                wanted = {(rng.randrange(max(k, 1)), rng.randrange(6)) for _ in range(rng.randint(1, 3))}
                at = k if rng.random() < 0.85 else rng.randint(1, 4)
                return "reshuffle", (seq, max(at, 1 + max(j for j, _ in wanted)), tuple(sorted(wanted)))
            case "o":
                places = tuple(sorted({rng.randrange(6) for _ in range(rng.randint(1, 3))}))
                return "open", (seq, rng.randrange(max(k, 1) + 1), places)
            case "c":
                return "close", (seq, *rng.choice([("complete", None), ("aborted", "misdeal")]))
            case _:
                return "draw", (seq, b"button", rng.choice([8, 9]), rng.choice([1, 2]), given)

    def calling(self, name: str, arguments: tuple[Any, ...]) -> Callable[[], Any]:
        play = self.play
        match name:
            case "promise":
                first, *groups = arguments
                if self.model.twin:
                    rows = [[(who, SEEDS[who], CHOICES[who]) for who in group] for group in groups]
                    return lambda: play.promise_twin(first, *rows)
                hands = [tuple((who, SEEDS[who]) for who in group) for group in groups]
                return lambda: play.promise(first, *hands)
            case "choose":
                seq, given = arguments
                return lambda: play.choose(seq, tuple(given.items()))
            case "seal":
                seq, n, given = arguments
                return lambda: play.seal(seq, n, tuple(given.items()))
            case "draw":
                *rest, given = arguments
                return lambda: play.draw(*rest, tuple(given.items()))
            case "reshuffle":
                seq, k, locations = arguments
                return lambda: play.reshuffle(seq, k, *locations)
            case "open":
                seq, k, places = arguments
                return lambda: play.open(seq, k, *places)
            case _:
                return lambda: getattr(play, name)(*arguments)  # type: ignore[no-any-return]

    def judge(self, name: str, arguments: tuple[Any, ...], result: object) -> Verdict:
        """Compare a call's result with what the model says of it."""
        verdict: Verdict = getattr(self.model, name)(self.world.clock.ms, *arguments)
        self.verdicts.append((name, verdict))
        if verdict is Verdict.REFUSED:
            assert isinstance(result, ServiceError), (name, arguments, result)
            return verdict
        assert not isinstance(result, BaseException), (name, arguments, result)
        if verdict is Verdict.NEW:
            self.made.append((name, arguments))
        if isinstance(result, Openings):
            self.remember(arguments[0], result)
        elif verdict is Verdict.NEW:
            self.answers[name, repr(arguments)] = content(result)
        else:
            assert content(result) == self.answers[name, repr(arguments)]
        if openings := getattr(result, "openings", None):
            self.remember(arguments[0], openings)
        return verdict

    def remember(self, seq: int, openings: Openings) -> None:
        """What was once said to lie at a place lies there for ever."""
        for i, (place, item) in enumerate(zip(openings.places, openings.items, strict=True)):
            salt = openings.salts[16 * i : 16 * i + 16]
            assert self.items.setdefault((seq, openings.k, place), (item, salt)) == (item, salt)


async def one_call(world: World, driver: Driver) -> None:
    name, arguments = driver.some_call()
    before = snapshot(world.disk)
    (result,) = await asyncio.gather(driver.calling(name, arguments)(), return_exceptions=True)
    if driver.judge(name, arguments, result) is not Verdict.NEW:
        assert snapshot(world.disk) == before, (name, arguments)


async def many_at_once(drivers: list[Driver], rng: Random) -> None:
    """Calls that arrive together are carried out in order of arrival, most of them in one batch."""
    chosen = [(driver, *driver.some_call()) for driver in rng.choices(drivers, k=rng.randint(2, 12))]
    results = await asyncio.gather(
        *(driver.calling(name, arguments)() for driver, name, arguments in chosen), return_exceptions=True
    )
    for (driver, name, arguments), result in zip(chosen, results, strict=True):
        driver.judge(name, arguments, result)


async def play_it(seed: int, steps: int) -> list[tuple[str, Verdict]]:
    rng = Random(seed)
    async with running() as world:
        drivers = []
        for number, terms in enumerate(TERMS):
            play = await world.play(number, ttl_s=TTL_S, **terms)
            drivers.append(Driver(world, rng, play, Model(terms["mode"], 1000 * TTL_S, "twin" in terms)))
        for _ in range(steps):
            match rng.randrange(40):
                case 0:
                    await world.restart()
                case 1 | 2:
                    world.clock.advance(rng.choice([1, 10, TTL_S]))
                case 3:
                    closed = await world.service.close_expired(world.clock.now_ms())
                    assert closed == sum(driver.model.sweep(world.clock.ms) for driver in drivers)
                case 4 | 5 | 6 | 7:
                    await many_at_once(drivers, rng)
                case _:
                    await one_call(world, rng.choice(drivers))
        assert not world.sequencer.stopped
        return [verdict for driver in drivers for verdict in driver.verdicts]


@pytest.mark.parametrize("seed", range(scaled(12, 400)))
def test_the_service_does_what_the_model_says(seed: int) -> None:
    asyncio.run(play_it(seed, scaled(250, 600)))


def test_the_random_calls_reach_every_verdict_of_every_call() -> None:
    """A driver that never comes to a legal reshuffle would show nothing about reshuffles."""
    seen = {verdict for seed in range(4) for verdict in asyncio.run(play_it(seed, 400))}
    names = ("reserve", "promise", "seal", "choose", "draw", "reshuffle", "open", "close")
    assert seen == {(name, verdict) for name in names for verdict in Verdict}
