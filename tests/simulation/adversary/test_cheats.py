"""Every way to cheat that the threat model names, carried out against the shipped code, and who catches it how.

A cheat is caught with certainty, in the hand in which it happens; only giving up bad hands is a matter of numbers
(`test_dropped_hands.py`), and who lies at a twin table is caught as often as the bit falls (`test_twin_mode.py`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rngsvc.calls import PromiseSeeds
from rngsvc.monitor import OVERDUE_GRACE_MS
from rngsvc.protocol.card_seal import card_leaf, cards_root, salts, seal
from rngsvc.protocol.commitment import commit, hand_context
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.entries import (
    CloseEntry,
    Entry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
)
from rngsvc.protocol.receipt import Opening, SealedShuffle
from tests.rngsvc.audit.books import SEEDS, Book, book_of
from tests.rngsvc.service.world import CASINO, ORIGIN, Play, World
from tests.simulation.adversary.judges import Shown, judged, receipt, receipt_from, shown_by
from tests.simulation.adversary.services import (
    Forgetful,
    Grinding,
    Swapping,
    Tardy,
    Unasking,
    bend_secrets,
    bend_service,
)

ANNA = SEEDS[0]
HOUR_S = 3600


async def opened_for_business(**terms: Any) -> tuple[World, Play]:
    world = await World().start()
    await world.results.start(b"self-tests")
    return world, await world.play(1, ttl_s=HOUR_S, **terms)


async def seated(**terms: Any) -> tuple[World, Play]:
    """A table with hand 1 reserved and promised."""
    world, play = await opened_for_business(**terms)
    await play.reserve(1)
    await play.promise(1, SEEDS)
    return world, play


def opened_by(answer: Any) -> list[Opening]:
    return [
        Opening(k=answer.k, p=p, item=item, salt=answer.salts[16 * i : 16 * i + 16])
        for i, (p, item) in enumerate(zip(answer.places, answer.items, strict=True))
    ]


# --- Honest ---


async def nothing() -> Shown:
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    cards = opened_by(await play.open(1, 0, 0, 1))
    await play.close(1)
    return await shown_by(world, await receipt(world, play.table, 1, ANNA, cards))


# --- Another seed ---


def grinding(reveal: str, *, reveals_other: bool) -> Callable[[], Awaitable[Shown]]:
    async def cheat() -> Shown:
        world, play = await seated(reveal=reveal)
        bend_secrets(world, Grinding, reveals_other=reveals_other)
        await play.seal(1, 52, SEEDS)
        cards = opened_by(await play.open(1, 0, 0))
        assert cards[0].item >= 48, "the cheat has his ace"
        await play.close(1)
        return await shown_by(world, await receipt(world, play.table, 1, ANNA, cards))

    return cheat


async def commits_again_after_the_contributions() -> Shown:
    """A second reserve for the hand, once every seed is known; everything after it follows from the second seed."""
    world, play = await seated()
    leaves = (await play.seal(1, 52, SEEDS)).contribution_leaves
    await play.close(1)
    await world.kill()
    seed = bytes(48)
    commitment = commit(play.table, 1, seed)
    shuffle: list[SealedShuffle] = []

    def change(entry: Entry) -> list[Entry]:
        match entry:
            case SealEntry():
                assert entry.cr
                assert entry.pre
                hc = hand_context(ORIGIN, play.table, 1, commitment, entry.cr, entry.pre)
                order, used = permute(seed, hc, 0, range(52))
                sealed = seal(0, order, salts(seed, hc, 0, 52))
                shuffle.append(SealedShuffle(k=0, n=52, leaves=tuple(sealed)))
                again = ReserveEntry(time=entry.time, table=play.table, prev=b"", first=1, commitments=(commitment,))
                return [again, replace(entry, hc=hc, root=cards_root(0, sealed), used=used)]
            case CloseEntry():
                return [replace(entry, seed=seed)]
        return [entry]

    book = book_of(world).rewritten(change)
    return Shown(book, [receipt_from(book, play.table, 1, leaves, shuffle)])


# --- Another card ---


async def swaps_a_card_mid_hand() -> Shown:
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    honest = opened_by(await play.open(1, 0, 0, 1))
    bend_service(world, Swapping)
    swapped = opened_by(await replace(play, world=world).open(1, 0, 2))
    await play.close(1)
    return await shown_by(world, await receipt(world, play.table, 1, ANNA, [*honest, *swapped]))


async def swaps_a_card_and_its_leaf() -> Shown:
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    (card,) = opened_by(await play.open(1, 0, 0))
    await play.close(1)
    another = replace(card, item=(card.item + 1) % 52)
    held = await receipt(world, play.table, 1, ANNA, [another])
    assert held.shuffles
    leaves = (card_leaf(0, 0, another.item, another.salt), *held.shuffles[0].leaves[1:])
    return await shown_by(world, replace(held, shuffles=(replace(held.shuffles[0], leaves=leaves),)))


async def seals_the_hand_again() -> Shown:
    """After the first cards another order is sealed for the same shuffle."""
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    await play.open(1, 0, 0)
    await play.close(1)
    await world.kill()

    def change(entry: Entry) -> list[Entry]:
        return [entry, replace(entry, root=bytes(32))] if isinstance(entry, SealEntry) else [entry]

    return Shown(book_of(world).rewritten(change))


# --- A sequence number again ---


async def reserves_a_number_again() -> Shown:
    """Hand 1 was played and closed; then a second hand 1 is reserved and played."""
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    await play.close(1)
    await world.kill()
    again = await World(clock=world.clock, entropy=world.entropy).start()
    twin = await again.play(1, ttl_s=HOUR_S)
    await twin.reserve(1)
    await twin.seal(1)
    await twin.close(1)
    await again.kill()
    first, second = book_of(world), book_of(again)
    # The second life of hand 1 behind the first, without its table entry; chain and signature are made good.
    book = Book(first.key, first.signer, [*first.entries_raw, *second.entries_raw[1:]])
    return Shown(book.rewritten(lambda entry: [entry]))


async def leaves_a_hand_out() -> Shown:
    """A hand that went badly vanishes from the log before anybody else has seen it."""
    world, play = await seated()
    await play.reserve(2)
    await play.seal(1, 52, SEEDS)
    await play.close(1)
    await play.seal(2)
    await play.close(2)
    await world.kill()

    def change(entry: Entry) -> list[Entry]:
        of_hand_1 = getattr(entry, "seq", 0) == 1 or getattr(entry, "first", 0) == 1
        return [] if of_hand_1 else [entry]

    return Shown(book_of(world).rewritten(change))


# --- Late ---


async def reveals_late() -> Shown:
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    bend_service(world, Tardy)
    world.clock.advance(HOUR_S + 1)
    await play.close(1)
    return await shown_by(world, await receipt(world, play.table, 1, ANNA))


async def never_reveals() -> Shown:
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    held = await receipt(world, play.table, 1, ANNA)
    world.clock.advance(HOUR_S + OVERDUE_GRACE_MS // 1000 + 1)
    await world.results.start(b"still running")
    return await shown_by(world, held)


async def deals_on_after_the_expiry() -> Shown:
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    bend_service(world, Tardy)
    world.clock.advance(HOUR_S + 1)
    await play.reshuffle(1, 1, (0, 0), (0, 1))
    await play.close(1)
    return await shown_by(world, await receipt(world, play.table, 1, ANNA))


# --- Contributions ---


async def replays_a_promise() -> Shown:
    """Anna's promise and seed of hand 1 stand again in hand 2, for which she gave nothing new."""
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    await play.close(1)
    await play.reserve(2)
    old = next(entry for _, entry in book_of(world).parsed() if isinstance(entry, PromiseEntry))
    await world.service.promise(CASINO, PromiseSeeds(play.table, 2, old.promises))
    bend_secrets(world, Unasking)
    await play.seal(2, 52, SEEDS)
    await play.close(2)
    return await shown_by(world, await receipt(world, play.table, 2, ANNA))


async def replays_a_seed_under_a_new_promise() -> Shown:
    """The close of hand 1 shows every seed; the service promises Anna's again, in her name. She promised another."""
    world, play = await seated()
    await play.seal(1, 52, SEEDS)
    await play.close(1)
    await play.reserve(2)
    await play.promise(2, SEEDS)
    await play.seal(2, 52, SEEDS)
    await play.close(2)
    return await shown_by(world, await receipt(world, play.table, 2, (b"anna", b"what Anna really promised".ljust(32))))


async def loses_a_contribution() -> Shown:
    """Anna gave her seed in time, and is listed as absent: the order without it suited better."""
    world, play = await seated()
    bend_secrets(world, Forgetful)
    await play.seal(1, 52, SEEDS)
    await play.close(1)
    return await shown_by(world, await receipt(world, play.table, 1, ANNA))


async def puts_another_contribution_in_its_place() -> Shown:
    world, play = await seated()
    bend_secrets(world, Unasking)
    await play.seal(1, 52, ((b"anna", bytes([9]) * 32), SEEDS[1]))
    await play.close(1)
    return await shown_by(world, await receipt(world, play.table, 1, ANNA))


@dataclass(frozen=True)
class Cheat:
    """A cheat, and every check of the shipped code that it fails."""

    title: str
    carry_out: Callable[[], Awaitable[Shown]]
    caught_by: frozenset[str]


def row(title: str, carry_out: Callable[[], Awaitable[Shown]], *caught_by: str) -> Cheat:
    return Cheat(title, carry_out, frozenset(caught_by))


CHEATS = [
    row("plays fair", nothing),
    row("another seed, the committed one revealed to all", grinding("public", reveals_other=False),
        "anybody: reveal", "player: derivation"),
    row("another seed, and revealed to all", grinding("public", reveals_other=True),
        "anybody: reveal", "player: reveal"),
    row("another seed, the committed one in escrow", grinding("escrow", reveals_other=False), "auditor: derivation"),
    row("another seed, and in escrow", grinding("escrow", reveals_other=True), "auditor: escrow"),
    row("commits again after the contributions", commits_again_after_the_contributions,
        "anybody: sequence", "anybody: context", "player: context", "player: reveal"),
    row("swaps a card mid-hand", swaps_a_card_mid_hand, "player: openings", "player: items"),
    row("swaps a card and its leaf", swaps_a_card_and_its_leaf, "player: seals"),
    row("seals the hand again", seals_the_hand_again, "anybody: step"),
    row("reserves a sequence number again", reserves_a_number_again, "anybody: sequence", "anybody: step"),
    row("leaves a hand out of the log", leaves_a_hand_out, "anybody: sequence", "anybody: members"),
    row("reveals late", reveals_late, "anybody: deadline", "player: deadline"),
    row("never reveals", never_reveals, "anybody: overdue"),
    row("deals on after the expiry", deals_on_after_the_expiry, "anybody: deadline", "player: deadline"),
    row("replays a promise", replays_a_promise, "anybody: reveal", "player: own", "player: seeds"),
    row("replays a seed under a new promise", replays_a_seed_under_a_new_promise, "player: own"),
    row("loses a contribution", loses_a_contribution, "player: own"),
    row("puts another contribution in its place", puts_another_contribution_in_its_place,
        "anybody: reveal", "player: own", "player: seeds"),
]  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS, ids=[each.title for each in CHEATS])
@pytest.mark.asyncio
async def test_a_cheat_is_caught_at_once_by_the_checks_of_its_row(cheat: Cheat) -> None:
    assert judged(await cheat.carry_out()) == cheat.caught_by


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed for the reader; the test above asserts every row, `test_two_logs.py` the last one."""
    with capsys.disabled():
        print(f"\n{'cheat':<50} {'caught by':<70} probability")
        for each in CHEATS[1:]:
            print(f"{each.title:<50} {', '.join(sorted(each.caught_by)):<70} 1, in that hand")
        who = "witness: refuses to cosign, player: witnesses, client: LogForked"
        print(f"{'shows two logs':<50} {who:<70} 1, to who asks for a quorum or sees both")
