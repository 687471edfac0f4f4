"""Every rule of twin mode at the service itself: one test a rule, named by it. Each log is audited at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rngsvc.calls import ChooseTwin, RegisterTable, ReserveHands
from rngsvc.errors import Reason, ServiceError
from rngsvc.hand import State
from rngsvc.monitor import Monitor
from rngsvc.protocol.card_seal import card_leaf, cards_root, salts, seal
from rngsvc.protocol.commitment import commit
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.entries import (
    ChooseEntry,
    CloseEntry,
    Entry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.escrow import escrow_info, open_seed
from rngsvc.protocol.twin import choice_digest, played_deck
from tests.conformance.stores import PLACES
from tests.rngsvc.service.world import (
    AUDITOR,
    CASINO,
    OPERATOR,
    ORIGIN,
    Play,
    World,
    audited,
    content,
    running,
    snapshot,
    table_id,
)

pytestmark = pytest.mark.asyncio

ALICE = (b"seat-1", b"\x11" * 32, b"\x33" * 32)
BOB = (b"seat-3", b"\x22" * 64, b"\x44" * 64)
SEEDS = tuple((who, seed) for who, seed, _ in (ALICE, BOB))
CHOICES = tuple((who, choice) for who, _, choice in (ALICE, BOB))
TTL_S = 3_600


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with running() as world:
        yield world


@pytest_asyncio.fixture
async def play(world: World) -> Play:
    return await world.play(ttl_s=TTL_S, twin=True)


async def promised(play: Play, seq: int = 1) -> Play:
    await play.reserve(seq)
    await play.promise_twin(seq, (ALICE, BOB))
    return play


async def sealed(play: Play, seq: int = 1, n: int = 52) -> Play:
    await promised(play, seq)
    await play.seal(seq, n, SEEDS)
    return play


def drawn(world: World) -> bytes:
    """The random bytes of the largest batch so far: data keys are smaller."""
    return max(world.entropy.given, key=len)


def newest(world: World) -> Entry:
    return parse_entry(world.disk.entries[-1])


def of(world: World, kind: type[Any]) -> Any:
    return next(entry for entry in map(parse_entry, reversed(world.disk.entries)) if isinstance(entry, kind))


# --- Table, reserve, promise ---


async def test_twin_mode_is_a_term_of_the_table_for_ever(world: World, play: Play) -> None:
    entry = newest(world)
    assert isinstance(entry, TableEntry)
    assert entry.twin == 1
    ordinary = RegisterTable(table_id(0), "shoe", "public", TTL_S)
    await world.refused(Reason.OTHER_CONTENT, world.service.register(CASINO, ordinary))


async def test_each_hand_has_two_commitments_to_seeds_of_their_own(world: World, play: Play) -> None:
    await world.repeated(lambda: play.reserve(1, 3))
    entry = newest(world)
    assert isinstance(entry, ReserveEntry)
    assert entry.twin_commitments
    assert len({*entry.commitments, *entry.twin_commitments}) == 6
    given = drawn(world)
    for i, seq in enumerate(range(1, 4)):
        seeds = given[96 * i : 96 * i + 48], given[96 * i + 48 : 96 * i + 96]
        assert entry.commitments_of(seq) == tuple(commit(play.table, seq, seed) for seed in seeds)


async def test_an_ordinary_table_takes_half_the_randomness_and_has_no_second_commitments(world: World) -> None:
    ordinary = await world.play(1)
    await ordinary.reserve(1, 3)
    assert len(drawn(world)) == 3 * 48
    assert of(world, ReserveEntry).twin_commitments is None


async def test_ordinary_and_twin_tables_are_reserved_in_one_batch(world: World, play: Play) -> None:
    ordinary = await world.play(1)
    requests = [ReserveHands(table, 1, 2) for table in (ordinary.table, play.table)]
    answers = await world.service.reserve(CASINO, requests)
    assert not any(isinstance(each, ServiceError) for each in answers)
    assert len(drawn(world)) == 2 * 48 + 4 * 48


async def test_every_contributor_promises_a_choice_at_a_twin_table_and_none_elsewhere(world: World, play: Play) -> None:
    await play.reserve(1)
    await world.refused(Reason.TWIN_MODE, play.promise(1, SEEDS), "choice")
    ordinary = await world.play(1)
    await ordinary.reserve(1)
    await world.refused(Reason.TWIN_MODE, ordinary.promise_twin(1, (ALICE, BOB)), "choice")
    await world.repeated(lambda: play.promise_twin(1, (ALICE, BOB)))
    assert of(world, PromiseEntry).twin


# --- Seal ---


async def test_the_seal_shows_two_decks_and_neither_leaves_nor_items(world: World, play: Play) -> None:
    await promised(play)
    answer = await world.repeated(lambda: play.seal(1, 52, SEEDS))
    entry = newest(world)
    assert isinstance(entry, SealEntry)
    assert entry.twin_hc != entry.hc
    assert entry.twin_root != entry.root
    assert (list(answer.leaves), answer.openings) == ([], None)
    assert len(answer.contribution_leaves) == 2
    assert (await world.service.hand(CASINO, play.table, 1)).hand.state is State.UNCHOSEN


async def test_in_mode_full_nothing_is_opened_before_the_choice(world: World) -> None:
    play = await world.play(mode="full", twin=True)
    await promised(play)
    assert (await play.seal(1, 52, SEEDS)).openings is None
    answer = await play.choose(1, CHOICES)
    assert answer.openings
    assert sorted(answer.openings.items) == list(range(52))


CALLS: dict[str, Callable[[Play], Awaitable[object]]] = {
    "open": lambda play: play.open(1, 0, 0),
    "reshuffle": lambda play: play.reshuffle(1, 1, (0, 0)),
    "complete": lambda play: play.close(1),
}


@pytest.mark.parametrize("mode", ["shoe", "full"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_until_the_choice_nothing_is_opened_reshuffled_or_completed(
    world: World, mode: str, call: Callable[[Play], Awaitable[object]]
) -> None:
    play = await sealed(await world.play(mode=mode, twin=True))
    await world.refused(Reason.WRONG_STATE, call(play))
    await play.close(1, "aborted", "misdeal")
    with pytest.raises(ServiceError):
        await call(play)


async def test_a_twin_table_draws_no_numbers(world: World, play: Play) -> None:
    await promised(play)
    await world.refused(Reason.TWIN_MODE, play.draw(1, b"button", 8, 1, SEEDS), "twin")


# --- Choose ---


@pytest.mark.parametrize("choices", [CHOICES, CHOICES[:1], CHOICES[1:], ()])
async def test_the_choices_decide_and_the_other_decks_seed_is_shown(
    world: World, play: Play, choices: Sequence[tuple[bytes, bytes]]
) -> None:
    await sealed(play)
    answer = await world.repeated(lambda: play.choose(1, tuple(choices)))
    entry = newest(world)
    assert isinstance(entry, ChooseEntry)
    given = [dict(choices).get(who) for who, _ in CHOICES]
    assert entry.choices == tuple(choice or b"" for choice in given)
    both = [of(world, SealEntry).deck(deck) for deck in (0, 1)]
    digest = choice_digest((both[0].hc, both[1].hc), (both[0].root, both[1].root), given)
    assert entry.deck == played_deck(digest)
    other = both[1 - entry.deck]
    assert commit(play.table, 1, entry.seed) == of(world, ReserveEntry).commitments_of(1)[1 - entry.deck]
    order, used = permute(entry.seed, other.hc, 0, range(52))
    assert (cards_root(0, seal(0, order, salts(entry.seed, other.hc, 0, 52))), used) == (other.root, other.used)
    assert cards_root(0, answer.leaves) == both[entry.deck].root


async def test_both_decks_come_to_be_played(world: World, play: Play) -> None:
    decks = set()
    for seq in range(1, 12):
        await sealed(play, seq, 2)
        await play.choose(seq, CHOICES)
        decks.add(of(world, ChooseEntry).deck)
        await play.close(seq)
    assert decks == {0, 1}


async def test_who_was_absent_at_the_seal_may_still_choose(world: World, play: Play) -> None:
    await promised(play)
    await play.seal(1, 52, SEEDS[:1])
    await play.choose(1, CHOICES)
    assert of(world, SealEntry).absent == (1,)
    assert all(of(world, ChooseEntry).choices)


@pytest.mark.parametrize(
    "choices",
    [
        ((b"seat-1", b"\x34" * 32),),
        ((b"seat-2", b"\x33" * 32),),
        (CHOICES[0], (b"seat-3", b"\x33" * 32)),
        ((b"seat-1", ALICE[1]),),
    ],
    ids=["another", "a stranger's", "somebody else's", "the seed"],
)
async def test_a_choice_that_was_not_promised_refuses_the_whole_call(
    world: World, play: Play, choices: tuple[tuple[bytes, bytes], ...]
) -> None:
    await sealed(play)
    await world.refused(Reason.CHOICE_MISMATCH, play.choose(1, choices), "choices")


async def test_a_hand_is_chosen_in_once_after_its_seal(world: World, play: Play) -> None:
    await play.reserve(1)
    await world.refused(Reason.WRONG_STATE, play.choose(1, ()))
    await play.promise_twin(1, (ALICE, BOB))
    await world.refused(Reason.WRONG_STATE, play.choose(1, CHOICES))
    await play.seal(1, 52, SEEDS)
    await play.choose(1, CHOICES)
    await world.refused(Reason.OTHER_CONTENT, play.choose(1, CHOICES[:1]), "choices")
    await play.close(1)
    await world.refused(Reason.OTHER_CONTENT, play.choose(1, CHOICES[:1]), "choices")


async def test_there_is_no_choice_at_an_ordinary_table(world: World) -> None:
    ordinary = await world.play(1)
    await ordinary.reserve(1)
    await ordinary.seal(1)
    await world.refused(Reason.TWIN_MODE, ordinary.choose(1, ()), "twin")


# --- Then as any hand ---


async def test_from_the_choice_on_the_hand_is_an_ordinary_one(world: World, play: Play) -> None:
    await sealed(play)
    leaves = (await play.choose(1, CHOICES)).leaves
    opened = await play.open(1, 0, 0, 7)
    for i, place in enumerate(opened.places):
        salt = opened.salts[16 * i : 16 * i + 16]
        assert card_leaf(0, place, opened.items[i], salt) == leaves[place]
    await play.reshuffle(1, 1, (0, 1), (0, 2), (0, 3))
    await play.open(1, 1, 0)
    await play.close(1)
    close = newest(world)
    assert isinstance(close, CloseEntry)
    assert (close.twin_seed, close.twin_escrow) == (None, None)
    assert (
        commit(play.table, 1, close.seed or b"")
        == of(world, ReserveEntry).commitments_of(1)[of(world, ChooseEntry).deck]
    )


async def test_under_escrow_the_played_decks_seed_is_for_the_auditor_under_its_own_commitment(world: World) -> None:
    play = await sealed(await world.play(reveal="escrow", twin=True))
    await play.choose(1, CHOICES)
    await play.close(1)
    close, commitments = of(world, CloseEntry), of(world, ReserveEntry).commitments_of(1)
    commitment = commitments[of(world, ChooseEntry).deck]
    seed = open_seed(close.escrow, AUDITOR, escrow_info(ORIGIN, play.table, 1, commitment))
    assert commit(play.table, 1, seed) == commitment


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize("until", ["reserved", "promised", "sealed"])
async def test_a_hand_that_ends_before_its_choice_reveals_both_seeds(world: World, reveal: str, until: str) -> None:
    play = await world.play(reveal=reveal, twin=True)
    await {"reserved": lambda p: p.reserve(1), "promised": promised, "sealed": sealed}[until](play)
    await world.repeated(lambda: play.close(1, "aborted", "misdeal"))
    close, commitments = of(world, CloseEntry), of(world, ReserveEntry).commitments_of(1)
    seeds = (close.seed, close.twin_seed)
    if reveal == "escrow":
        seeds = tuple(
            open_seed(escrow, AUDITOR, escrow_info(ORIGIN, play.table, 1, commitment))
            for escrow, commitment in zip((close.escrow, close.twin_escrow), commitments, strict=True)
        )
    assert tuple(commit(play.table, 1, seed) for seed in seeds) == commitments


@pytest.mark.parametrize("chosen", [False, True])
async def test_an_overdue_hand_is_closed_by_the_service(world: World, play: Play, chosen: bool) -> None:
    await sealed(play)
    if chosen:
        await play.choose(1, CHOICES)
    world.clock.advance(TTL_S)
    if not chosen:
        await world.refused(Reason.EXPIRED, play.choose(1, CHOICES))
    assert await world.service.close_expired(world.clock.ms) == 1
    close = newest(world)
    assert isinstance(close, CloseEntry)
    assert (close.reason, close.twin_seed is None) == ("expired", chosen)


async def test_a_lost_hand_reveals_neither(world: World, play: Play) -> None:
    await sealed(play)
    await Play(world, play.table, OPERATOR).close(1, "lost", "seed_lost")
    close = newest(world)
    assert isinstance(close, CloseEntry)
    assert (close.seed, close.twin_seed) == (None, None)


# --- What others see, and what a crash leaves ---


async def test_the_public_sees_no_leaf_before_the_choice(world: World, play: Play) -> None:
    await sealed(play)
    shown = await world.service.public_hand(play.table, 1)
    assert shown.leaves == ()
    assert len(shown.contribution_leaves or ()) == 2
    await play.choose(1, CHOICES)
    assert [len(each) for each in (await world.service.public_hand(play.table, 1)).leaves or ()] == [52]


@pytest.mark.parametrize("chosen", [False, True])
async def test_an_auditor_gets_what_there_is_of_a_closed_hand(world: World, play: Play, chosen: bool) -> None:
    await sealed(play)
    if chosen:
        await play.choose(1, CHOICES)
    await play.close(1, "aborted", "misdeal")
    opened = await world.service.opened_hand(play.table, 1)
    assert [len(each) for each in opened.leaves] == ([52] if chosen else [])


async def test_seeds_are_stored_sealed_and_never_shown_before_their_time(world: World, play: Play) -> None:
    await sealed(play)
    seeds = [drawn(world)[:48], drawn(world)[48:96]]
    stored = repr(snapshot(world.disk)).encode()
    for secret in (*seeds, *(seed for _, seed in SEEDS), *(choice for _, choice in CHOICES)):
        assert secret.hex().encode() not in stored
        assert repr(secret)[2:-1].encode() not in stored


def life(play: Play) -> list[Callable[[], Awaitable[object]]]:
    """Every step of a hand, in order; each may be repeated at any time."""
    return [
        lambda: play.reserve(1),
        lambda: play.promise_twin(1, (ALICE, BOB)),
        lambda: play.seal(1, 52, SEEDS),
        lambda: play.choose(1, CHOICES),
        lambda: play.open(1, 0, 0, 1),
        lambda: play.reshuffle(1, 1, (0, 2), (0, 3)),
        lambda: play.open(1, 1, 0),
        lambda: play.close(1),
    ]


async def test_a_crash_at_every_step_leaves_the_hand_as_it_was(world: World, play: Play) -> None:
    """Restarted before and after each step, the service gives every answer of this life again."""
    steps = life(play)
    answers = []
    for step in steps:
        await world.restart()
        answers.append(content(await step()))
        await world.restart()
        await audited(world)
    before = snapshot(world.disk)
    for step, answer in zip(steps, answers, strict=True):
        assert content(await step()) == answer
    assert snapshot(world.disk) == before


@pytest.mark.parametrize("place", PLACES)
async def test_a_hand_lives_in_every_store_through_a_restart_between_all_its_steps(place: str, tmp_path: Path) -> None:
    handle = PLACES[place](tmp_path).handle
    world = await World(make_store=lambda _world: handle()).start()
    try:
        play = await world.play(twin=True)
        steps = life(play)
        answers = []
        for step in steps:
            await world.restart()
            answers.append(content(await step()))
        assert [content(await step()) for step in steps] == answers
        monitor = Monitor(world.note_key)
        assert not [finding for raw in await world.store.entries(0, world.log.size) for finding in monitor.feed(raw)]
        assert (monitor.counts["choose"], monitor.counts["close"]) == (1, 1)
        assert (await world.service.hands(CASINO, play.table, 0, 10))[0].kind == "close"
    finally:
        await world.kill()


async def test_many_tables_are_chosen_in_one_call_each_with_its_own_result(world: World, play: Play) -> None:
    others = [await world.play(number, ttl_s=TTL_S, twin=True) for number in (1, 2)]
    await sealed(play)
    await sealed(others[0], n=36)
    requests = [
        ChooseTwin(play.table, 1, CHOICES),
        ChooseTwin(others[1].table, 1, ()),
        ChooseTwin(others[0].table, 1, CHOICES),
    ]
    first, refused, second = await world.service.choose(CASINO, requests)
    assert isinstance(refused, ServiceError)
    assert refused.reason is Reason.UNKNOWN_HAND
    assert [len(each.leaves) for each in (first, second)] == [52, 36]  # type: ignore[union-attr]
