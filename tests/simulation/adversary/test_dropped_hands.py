"""A service that gives up the hands that it does not like: after how many hands is it caught, and how surely?

It knows its seed and, once they are given, every contribution; so it sees the deck before it seals, and may give the
hand up instead. Every entry is right, and only the number of hands given up tells. The power of the exact test follows
from the binomial distribution; nights with the real service must agree with it.
"""

from dataclasses import dataclass

import pytest
from scipy.stats import binom

from rngsvc.abort_rate import AbortLimit
from rngsvc.audit import Audit
from rngsvc.findings import Check
from rngsvc.hand_secrets import HandSecrets
from rngsvc.protocol.commitment import hand_context
from tests.rngsvc.audit.books import SEEDS, book_of
from tests.rngsvc.service.world import SeededEntropy, World
from tests.scale import scaled

LIMIT = AbortLimit()


def least_found(hands: int, tests: int = 2) -> int:
    """How many of ``hands`` must be given up to be found: one table is two tests, the table and the log."""
    return next(x for x in range(hands + 2) if LIMIT.exceeded(x, hands, tests) is not None or x == hands + 1)


def power(hands: int, dropped: float) -> float:
    """The probability that a service that drops this share is found in ``hands`` hands of one table."""
    return float(binom.sf(least_found(hands) - 1, hands, dropped))


@dataclass(frozen=True)
class Row:
    """A service that drops ``dropped`` of its hands, and after how many it is found with 50 % and 99 %."""

    dropped: float
    half: int
    surely: int


ROWS = [
    Row(0.02, 3000, 9000),
    Row(0.05, 160, 540),
    Row(0.10, 50, 170),
    Row(0.25, 16, 50),
    Row(0.50, 8, 24),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.dropped:.0%}")
def test_after_so_many_hands_it_is_found(row: Row) -> None:
    assert power(row.half, row.dropped) >= 0.5
    assert power(row.surely, row.dropped) >= 0.99


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed for the reader; the test above asserts it."""
    with capsys.disabled():
        print(f"\ngives up bad hands; allowed {LIMIT.rate:.0%}, significance {LIMIT.significance}, one table")
        print("  share given up   found after (P >= 0.5)   (P >= 0.99)   P found in 100 hands")
        for row in ROWS:
            print(f"  {row.dropped:>14.0%}   {row.half:>22}   {row.surely:>11}   {power(100, row.dropped):.4f}")


@pytest.mark.parametrize("hands", [1, 10, 100, 1000])
def test_an_honest_room_at_the_allowed_rate_is_hardly_ever_suspected(hands: int) -> None:
    assert power(hands, LIMIT.rate) <= LIMIT.significance / 2


# --- The real service, bent: it looks at the deck first ---


async def night(number: int, hands: int, good_first_items: int) -> tuple[int, bool]:
    """Play so many hands at one table and drop those whose first card does not suit; return the drops, and if found."""
    world = await World(entropy=SeededEntropy(b"night %d" % number)).start()
    await world.results.start(b"self-tests")
    play = await world.play(number)
    dropped = 0
    for seq in range(1, hands + 1):
        await play.reserve(seq)
        await play.promise(seq, SEEDS)
        hand = world.service.tables.get(play.table).hand(seq)  # type: ignore[union-attr]
        given = world.service.secrets.given(play.table, hand, SEEDS)
        context = hand_context(world.note_key.name, play.table, seq, hand.reserved.commitment, given.root, hand.pre)
        deck = HandSecrets.deal(world.service.secrets, play.table, hand, 0, context, range(52))
        if deck.order[0] >= good_first_items:
            dropped += 1
            await play.close(seq, "aborted", "misdeal")
        else:
            assert list((await play.seal(seq, 52, SEEDS)).leaves) == deck.leaves, "it saw the deck before it sealed"
            await play.close(seq)
    await world.kill()
    audited = Audit(world.note_key).run(book_of(world))
    assert not audited.log_faults
    assert {each.check for each in audited.findings} <= {Check.ABORTS}
    return dropped, not audited.passed


@pytest.mark.asyncio
async def test_nights_of_a_dropping_service_are_found_as_often_as_computed() -> None:
    """It drops every hand whose first card is one of thirteen: a quarter."""
    hands, nights, share = 16, scaled(25, 400), 0.25
    found = 0
    for number in range(nights):
        dropped, is_found = await night(number, hands, 39)
        assert is_found is (dropped >= least_found(hands)), "the audit finds exactly what the test's limit says"
        found += is_found
    low, high = binom.ppf([1e-6, 1 - 1e-6], nights, power(hands, share))
    assert low <= found <= high


@pytest.mark.asyncio
async def test_nights_of_an_honest_service_pass() -> None:
    for number in range(scaled(3, 30)):
        assert await night(1000 + number, 16, 52) == (0, False)
