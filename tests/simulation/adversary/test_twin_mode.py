"""A service that lies at a twin table: after how many hands does the public catch it, and how surely?

It seals one deck in an order of its own beside an honest one. Which is opened whole it cannot know, as long as one
contributor is honest: it is caught when the bit opens the false one. With colluding contributors who speak last it has
several bits to pick from; it can also refuse to write a choice that it does not like. All of it follows from the page
(`twin-mode.md`), and nights with the shipped service, bent in one place, must agree with that.
"""

import math
from dataclasses import dataclass
from itertools import chain, combinations

import pytest
from scipy.stats import binom

from rngsvc.abort_rate import AbortLimit
from rngsvc.audit import Audit, Audited
from rngsvc.findings import Check
from rngsvc.monitor import TwinCount
from rngsvc.protocol.entries import SealEntry, parse_entry
from rngsvc.protocol.twin import choice_digest, played_deck
from tests.rngsvc.audit.books import book_of
from tests.rngsvc.service.world import ORIGIN, Play, SeededEntropy, World
from tests.scale import scaled
from tests.simulation.adversary.judges import judged, receipt, shown_by
from tests.simulation.adversary.services import PassingOver, Stacking, bend_secrets

STACKED = 1  # the number of the false deck; the service puts it where it likes, which changes nothing

Contributor = tuple[bytes, bytes, bytes]


def anna(seq: int) -> Contributor:
    """The honest contributor of a hand: fresh secrets each time."""
    return b"anna", b"anna's seed %20d" % seq + bytes(16), b"anna's choice %20d" % seq + bytes(16)


def colluder(seq: int, number: int) -> Contributor:
    who = b"ben-%d" % number
    return who, b"%s's seed %20d" % (who, seq) + bytes(16), b"%s's choice %20d" % (who, seq) + bytes(16)


# --- What the page says ---


def caught_in_a_hand(colluders: int) -> float:
    """All 2^a bits open the false deck."""
    return 2.0 ** -(2**colluders)


def hands_until(probability: float, a_hand: float) -> int:
    return math.ceil(math.log1p(-probability) / math.log1p(-a_hand)) if a_hand < 1 else 1


@dataclass(frozen=True)
class Row:
    """A lie, which check catches it, how likely in one hand, and after how many hands with 50 % and 99 %."""

    lie: str
    caught_by: str
    a_hand: float
    half: int
    surely: int


LIMIT = AbortLimit()
ROWS = [
    Row("one false deck, all others honest or silent", "anybody: twin", caught_in_a_hand(0), 1, 7),
    Row("one false deck, 1 colluder speaks last", "anybody: twin", caught_in_a_hand(1), 3, 17),
    Row("one false deck, 2 colluders speak last", "anybody: twin", caught_in_a_hand(2), 11, 72),
    Row("two false decks", "anybody: twin", 1.0, 1, 1),
    Row("leaves out an honest choice", "player: choice", 1.0, 1, 1),
]
WITHHOLDS = Row("one false deck, refuses the choice that opens it", "anybody: aborts", 0.5, 8, 24)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.lie)
def test_after_so_many_hands_it_is_caught(row: Row) -> None:
    assert (hands_until(0.5, row.a_hand), hands_until(0.99, row.a_hand)) == (row.half, row.surely)


def found_among(hands: int) -> float:
    """The probability that a service that refuses half its choices has given up too many of ``hands`` hands."""
    least = next(x for x in range(hands + 2) if LIMIT.exceeded(x, hands, 2) is not None or x == hands + 1)
    return float(binom.sf(least - 1, hands, WITHHOLDS.a_hand))


def test_after_so_many_hands_a_service_that_withholds_the_choice_is_found() -> None:
    assert found_among(WITHHOLDS.half) >= 0.5
    assert found_among(WITHHOLDS.surely) >= 0.99


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed for the reader; the tests around it assert every row."""
    with capsys.disabled():
        print(f"\n{'lie at a twin table':<52} {'caught by':<18} P in a hand   hands (P >= 0.5)   (P >= 0.99)")
        for row in (*ROWS, WITHHOLDS):
            print(f"{row.lie:<52} {row.caught_by:<18} {row.a_hand:>11.4f}   {row.half:>16}   {row.surely:>11}")
        print("nobody chooses: the service knows the bit, and checkers say that the hand proves nothing")


# --- The shipped service, bent: nights of play ---


async def lying(number: int) -> tuple[World, Play]:
    world = await World(entropy=SeededEntropy(b"twin night %d" % number)).start()
    await world.results.start(b"self-tests")
    play = await world.play(number, reveal="escrow", twin=True)
    bend_secrets(world, Stacking, stacked=set())
    return world, play


def deck_played(sealed: SealEntry, by: list[Contributor], giving: set[bytes]) -> int:
    """What everybody can work out who knows the choices: which deck is played if these give theirs."""
    decks = sealed.deck(0), sealed.deck(1)
    given = [choice if who in giving else None for who, _, choice in by]
    return played_deck(choice_digest((decks[0].hc, decks[1].hc), (decks[0].root, decks[1].root), given))


async def hand(world: World, play: Play, seq: int, colluders: int) -> tuple[bool, list[tuple[bytes, bytes]]]:
    """Play up to the choice; return whether the lie will be caught, and the choices that the liars let happen."""
    by = [anna(seq), *(colluder(seq, i) for i in range(colluders))]
    await play.reserve(seq)
    await play.promise_twin(seq, by)
    await play.seal(seq, 52, tuple((who, seed) for who, seed, _ in by))
    sealed = parse_entry(world.disk.entries[-1])
    assert isinstance(sealed, SealEntry)
    names = [who for who, _, _ in by[1:]]
    ways = [
        {b"anna", *some} for some in chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
    ]
    way = next((way for way in ways if deck_played(sealed, by, way) == STACKED), ways[-1])
    caught = deck_played(sealed, by, way) != STACKED
    return caught, [(who, choice) for who, _, choice in by if who in way]


async def audited(world: World) -> Audited:
    await world.kill()
    result = Audit(world.note_key).run(book_of(world))
    assert not result.log_faults
    return result


@pytest.mark.parametrize("colluders", [0, 1, 2])
@pytest.mark.asyncio
async def test_nights_of_a_lying_service_are_caught_as_often_as_computed(colluders: int) -> None:
    world, play = await lying(colluders)
    hands = scaled(40, 1000)
    expected = set()
    for seq in range(1, hands + 1):
        caught, choices = await hand(world, play, seq, colluders)
        if caught:
            expected.add(seq)
        await play.choose(seq, tuple(choices))
        await play.close(seq)
    result = await audited(world)
    assert {finding.check for finding in result.findings} <= {Check.TWIN}
    assert {finding.seq for finding in result.findings} == expected, "exactly the opened false decks are found"
    low, high = binom.ppf([1e-6, 1 - 1e-6], hands, caught_in_a_hand(colluders))
    assert low <= len(expected) <= high
    (count,) = result.twin.values()
    others = hands - len(expected)
    assert (count.decided, count.unchosen, count.choices) == (others, 0, others * (1 + colluders))
    assert (count.missing > 0) is (colluders > 0), "what colluders kept back is in the log, and counted"


@pytest.mark.asyncio
async def test_a_service_that_withholds_the_choice_is_never_caught_lying_but_gives_up_half_its_hands() -> None:
    world, play = await lying(10)
    hands = scaled(24, 200)
    withheld = 0
    for seq in range(1, hands + 1):
        caught, choices = await hand(world, play, seq, 0)
        if caught:
            withheld += 1
            await play.close(seq, "aborted", "caller")
        else:
            await play.choose(seq, tuple(choices))
            await play.close(seq)
    result = await audited(world)
    assert result.twin == {play.table: TwinCount(hands - withheld, 0, withheld, hands - withheld, 0)}
    assert {finding.check for finding in result.findings} == {Check.ABORTS}
    low, high = binom.ppf([1e-6, 1 - 1e-6], hands, 0.5)
    assert low <= withheld <= high


@pytest.mark.asyncio
async def test_two_false_decks_are_always_caught() -> None:
    world, play = await lying(11)
    secrets = world.service.secrets
    assert isinstance(secrets, Stacking)
    for seq in range(1, 6):
        by = [anna(seq)]
        await play.reserve(seq)
        await play.promise_twin(seq, by)
        table = world.service.tables.get(play.table)
        assert table
        unsealed = table.hand(seq)
        assert unsealed
        secrets.stacked.update(secrets.seeds(play.table, unsealed))
        await play.seal(seq, 52, tuple((who, seed) for who, seed, _ in by))
        await play.choose(seq, tuple((who, choice) for who, _, choice in by))
        await play.close(seq)
    result = await audited(world)
    assert [finding.check for finding in result.findings] == [Check.TWIN] * 5


@pytest.mark.asyncio
async def test_who_was_passed_over_sees_it_in_his_own_file_and_nobody_else_can() -> None:
    world = await World().start()
    await world.results.start(b"self-tests")
    play = await world.play(1, twin=True)
    bend_secrets(world, PassingOver)
    who, seed, choice = anna(1)
    await play.reserve(1)
    await play.promise_twin(1, [anna(1), colluder(1, 1)])
    await play.seal(1, 52, ((who, seed), colluder(1, 1)[:2]))
    await play.choose(1, ((who, choice), colluder(1, 1)[::2]))
    await play.close(1)
    held = await receipt(world, play.table, 1, (who, seed, choice))
    assert judged(await shown_by(world, held)) == {"player: choice"}


@pytest.mark.asyncio
async def test_an_auditor_finds_the_false_deck_that_was_played_too() -> None:
    """Twin mode is for the public; the auditor needs no luck."""
    world, play = await lying(12)
    seq = 0
    for seq in range(1, 30):
        caught, choices = await hand(world, play, seq, 0)
        await play.choose(seq, tuple(choices))
        await play.close(seq)
        if not caught:
            break
    shown = await shown_by(world)
    found = judged(shown)
    assert "auditor: derivation" in found
    assert found <= {"auditor: derivation", "anybody: twin"}
    assert shown.book.key.name == ORIGIN
