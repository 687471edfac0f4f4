"""Every rule of the hand protocol's steps 0 to 9 at the service itself: one test a rule, named by it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from rngsvc.calls import RegisterTable, ReserveHands
from rngsvc.errors import Reason, Refused
from rngsvc.hand import State
from rngsvc.protocol.entries import (
    CloseEntry,
    DrawEntry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.escrow import escrow_info, open_seed
from rngsvc.sequencer import Limits
from tests.rngsvc.service.world import (
    AUDITOR,
    AUDITOR_KEYS,
    CASINO,
    CLUB,
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

ALICE = (b"seat-1", b"\x11" * 32)
BOB = (b"seat-3", b"\x22" * 64)
DAY_S = 86_400
TTL_S = 3_600


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with running() as world:
        yield world


@pytest_asyncio.fixture
async def play(world: World) -> Play:
    return await world.play(ttl_s=TTL_S)


async def sealed(play: Play, seq: int = 1, n: int = 52) -> Play:
    """Reserve and seal a hand."""
    await play.reserve(seq)
    await play.seal(seq, n)
    return play


# --- Step 0: tables ---


TERMS: dict[str, dict[str, Any]] = {
    "mode": {"mode": "full"},
    "reveal": {"reveal": "escrow", "auditor": AUDITOR_KEYS},
    "ttl": {"ttl_s": 61},
}


@pytest.mark.parametrize("other", TERMS.values(), ids=TERMS)
async def test_a_tables_terms_are_fixed_for_ever(world: World, other: dict[str, Any]) -> None:
    terms = {"mode": "shoe", "reveal": "public", "ttl_s": 60}

    async def register() -> Any:
        return await world.service.register(CASINO, RegisterTable(table_id(1), **terms))  # type: ignore[arg-type]

    await world.repeated(register)
    again = RegisterTable(table_id(1), **{**terms, **other})  # type: ignore[arg-type]
    await world.refused(Reason.OTHER_CONTENT, world.service.register(CASINO, again), "table")


async def test_new_auditor_keys_mean_a_new_table(world: World) -> None:
    await world.play(reveal="escrow")
    other = RegisterTable(table_id(0), "shoe", "escrow", DAY_S, (AUDITOR_KEYS[0], bytes(32)))
    await world.refused(Reason.OTHER_CONTENT, world.service.register(CASINO, other))


async def test_a_table_entry_says_what_was_registered(world: World) -> None:
    await world.play(3, mode="full", reveal="escrow", ttl_s=77)
    entry = parse_entry(world.disk.entries[-1])
    assert isinstance(entry, TableEntry)
    assert (entry.table, entry.mode, entry.reveal, entry.ttl) == (table_id(3), "full", "escrow", 77)
    assert entry.auditor == AUDITOR_KEYS
    assert entry.time == world.clock.ms


CALLS: dict[str, Callable[[Play], Awaitable[object]]] = {
    "reserve": lambda play: play.reserve(2),
    "promise": lambda play: play.promise(1, ()),
    "seal": lambda play: play.seal(1),
    "reshuffle": lambda play: play.reshuffle(1, 1, (0, 1)),
    "open": lambda play: play.open(1, 0, 1),
    "close": lambda play: play.close(1, "aborted", "misdeal"),
    "draw": lambda play: play.draw(1),
    "get": lambda play: play.world.service.hand(play.caller, play.table, 1),
    "list": lambda play: play.world.service.hands(play.caller, play.table, 0, 10),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_game_server_acts_on_its_own_tables_only(
    world: World, play: Play, call: Callable[[Play], Awaitable[object]]
) -> None:
    await sealed(play)
    await world.refused(Reason.NOT_YOUR_TABLE, call(Play(world, play.table, CLUB)))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_every_call_on_an_unknown_table_is_not_found(
    world: World, play: Play, call: Callable[[Play], Awaitable[object]]
) -> None:
    await world.refused(Reason.UNKNOWN_TABLE, call(Play(world, table_id(99), CASINO)))


async def test_a_table_of_another_caller_is_not_registered_again(world: World, play: Play) -> None:
    await world.refused(
        Reason.NOT_YOUR_TABLE,
        world.service.register(CLUB, RegisterTable(play.table, "shoe", "public", TTL_S)),
    )


async def test_an_operator_may_act_on_every_table(world: World, play: Play) -> None:
    by_operator = Play(world, play.table, OPERATOR)
    await by_operator.reserve(1)
    await by_operator.seal(1)
    await by_operator.open(1, 0, 0)
    await by_operator.close(1)


# --- Step 1: reserving ---


@pytest.mark.parametrize(
    ("reserved", "first", "count", "reason"),
    [
        (0, 2, 1, Reason.OUT_OF_SEQUENCE),
        (3, 5, 1, Reason.OUT_OF_SEQUENCE),
        (3, 2**53 - 1, 1, Reason.OUT_OF_SEQUENCE),
        (3, 1, 2, Reason.OTHER_CONTENT),
        (3, 2, 1, Reason.OTHER_CONTENT),
        (3, 1, 4, Reason.OTHER_CONTENT),
        (3, 3, 2, Reason.OTHER_CONTENT),
    ],
)
async def test_sequence_numbers_have_no_gap_and_no_second_use(
    world: World, play: Play, reserved: int, first: int, count: int, reason: Reason
) -> None:
    if reserved:
        await play.reserve(1, reserved)
    await world.refused(reason, play.reserve(first, count), str(reserved + 1))


async def test_each_reserved_hand_has_a_commitment_to_a_seed_of_its_own(world: World, play: Play) -> None:
    await play.reserve(1, 64)
    await play.reserve(65, 64)
    commitments = [
        commitment
        for raw in world.disk.entries
        if isinstance(entry := parse_entry(raw), ReserveEntry)
        for commitment in entry.commitments
    ]
    assert len(set(commitments)) == len(commitments) == 128


async def test_a_table_has_at_most_1024_unclosed_hands(world: World, play: Play) -> None:
    for first in range(1, 1024, 64):
        await play.reserve(first, 64)
    await world.refused(Reason.TOO_MANY_OPEN_HANDS, play.reserve(1025, 1), "1024")
    await play.close(1, "aborted", "caller")
    await play.reserve(1025, 1)
    await world.refused(Reason.TOO_MANY_OPEN_HANDS, play.reserve(1026, 1), "1024")


# --- Step 2: promises ---


async def test_one_promise_entry_serves_many_hands_also_during_an_earlier_one(world: World, play: Play) -> None:
    await play.reserve(1, 64)
    await play.reserve(65, 1)
    await play.seal(1)
    logged = await play.promise(2, *[(ALICE, BOB)] * 64)
    entry = parse_entry(logged.entry)
    assert isinstance(entry, PromiseEntry)
    assert (entry.first, len(entry.promises)) == (2, 64)


ALREADY: dict[str, Callable[[Play], Awaitable[object]]] = {
    "promised": lambda play: play.promise(2, (BOB,)),
    "sealed": lambda play: play.seal(1),
    "drawn": lambda play: play.draw(1),
    "closed": lambda play: play.close(1, "aborted", "caller"),
}


@pytest.mark.parametrize("state", ALREADY)
async def test_each_hand_is_promised_once_before_its_seal_draw_or_close(world: World, play: Play, state: str) -> None:
    await play.reserve(1, 2)
    await ALREADY[state](play)
    reason = Reason.WRONG_STATE
    await world.refused(reason, play.promise(1, (ALICE,), (ALICE,)))
    if state != "promised":
        await world.refused(reason, play.promise(1, (ALICE,)))
        await play.promise(2, (ALICE,))


@pytest.mark.parametrize(("first", "count"), [(3, 1), (1, 3), (2, 2)])
async def test_promises_come_after_the_reserve(world: World, play: Play, first: int, count: int) -> None:
    await play.reserve(1, 2)
    await world.refused(Reason.UNKNOWN_HAND, play.promise(first, *[(ALICE,)] * count), "1..2")


async def test_promises_too_large_for_an_entry_are_refused_and_fit_when_split(world: World, play: Play) -> None:
    crowd = tuple((bytes([65 + i]) * 64, bytes([i]) * 32) for i in range(16))
    await play.reserve(1, 64)
    await world.refused(Reason.ENTRY_TOO_LARGE, play.promise(1, *[crowd] * 64), "split")
    await play.promise(1, *[crowd] * 16)
    await play.promise(17, *[crowd] * 16)


async def test_a_promise_of_nobody_is_a_promise(world: World, play: Play) -> None:
    await play.reserve(1)
    await play.promise(1, ())
    assert (await world.service.hand(CASINO, play.table, 1)).hand.state is State.PROMISED
    await world.refused(Reason.OTHER_CONTENT, play.promise(1, (ALICE,)))
    await play.seal(1)


MISMATCHES = {
    "another seed": ((ALICE[0], b"\x12" * 32),),
    "another seed beside a good one": (ALICE, (BOB[0], b"\x23" * 64)),
    "an unknown id": ((b"seat-2", b"\x11" * 32),),
    "an unknown id beside good ones": (ALICE, (b"seat-2", b"\x11" * 32), BOB),
    "the seed of another": ((ALICE[0], BOB[1]), (BOB[0], ALICE[1])),
    "a longer seed": ((ALICE[0], b"\x11" * 33),),
}


@pytest.mark.parametrize("given", MISMATCHES.values(), ids=MISMATCHES)
async def test_a_seed_that_was_not_promised_refuses_the_whole_call(
    world: World, play: Play, given: tuple[tuple[bytes, bytes], ...]
) -> None:
    await play.reserve(1)
    await play.promise(1, (ALICE, BOB))
    await world.refused(Reason.SEED_MISMATCH, play.seal(1, 52, given), "contributions")
    await world.refused(Reason.SEED_MISMATCH, play.draw(1, contributions=given), "contributions")
    await play.seal(1, 52, (ALICE, BOB))
    # A repeat with seeds that were not promised is no repeat.
    await world.refused(Reason.SEED_MISMATCH, play.seal(1, 52, given))


async def test_seeds_for_a_hand_without_promises_are_refused(world: World, play: Play) -> None:
    await play.reserve(1)
    await world.refused(Reason.SEED_MISMATCH, play.seal(1, 52, (ALICE,)), "promised nothing")


@pytest.mark.parametrize(("given", "absent"), [((ALICE, BOB), ()), ((ALICE,), (1,)), ((BOB,), (0,)), ((), (0, 1))])
async def test_a_promised_id_that_is_not_given_is_listed_absent(
    play: Play, given: tuple[tuple[bytes, bytes], ...], absent: tuple[int, ...]
) -> None:
    await play.reserve(1)
    promised = await play.promise(1, (ALICE, BOB))
    shuffled = await play.seal(1, 52, given)
    entry = parse_entry(shuffled.logged.entry)
    assert isinstance(entry, SealEntry)
    assert entry.absent == absent
    assert promised.position < shuffled.logged.position
    close = parse_entry((await play.close(1)).entry)
    assert isinstance(close, CloseEntry)
    assert close.seeds == tuple(seed if (who, seed) in given else b"" for who, seed in (ALICE, BOB))


# --- Steps 4 to 6: sealing and opening ---


async def test_sealing_needs_every_lower_hand_closed(world: World, play: Play) -> None:
    await play.reserve(1, 3)
    await world.refused(Reason.LOWER_HAND_OPEN, play.seal(2), "hand 1")
    await world.refused(Reason.LOWER_HAND_OPEN, play.draw(2), "hand 1")
    await play.seal(1)
    await world.refused(Reason.LOWER_HAND_OPEN, play.seal(2), "hand 1")
    await play.close(1)
    await play.seal(2)


async def test_hands_are_closed_in_order(world: World, play: Play) -> None:
    await play.reserve(1, 2)
    await world.refused(Reason.LOWER_HAND_OPEN, play.close(2, "aborted", "caller"), "hand 1")
    await play.close(1, "aborted", "caller")
    await play.close(2, "aborted", "caller")


@pytest.mark.parametrize("n", [1, 2, 32, 36, 52, 256, 257, 1020])
async def test_a_seal_shuffles_any_number_of_items(play: Play, n: int) -> None:
    await play.reserve(1)
    shuffled = await play.seal(1, n)
    assert len(shuffled.leaves) == n
    opened = await play.open(1, 0, *range(n))
    assert sorted(opened.items) == list(range(n))
    await play.close(1)


async def test_an_opening_is_all_or_nothing(world: World, play: Play) -> None:
    await sealed(play)
    await world.refused(Reason.LOCATION_NAMED, play.open(1, 0, 0, 1, 52), "52")
    await world.refused(Reason.LOCATION_NAMED, play.open(1, 1, 0), "shuffle 1")
    await play.reshuffle(1, 1, (0, 50), (0, 51))
    await world.refused(Reason.LOCATION_NAMED, play.open(1, 0, 0, 1, 50), "50")
    view = await world.service.hand(CASINO, play.table, 1)
    assert not view.hand.opened


async def test_only_what_was_not_open_is_recorded_with_the_logs_time(world: World, play: Play) -> None:
    await sealed(play)
    times = []
    for places in ((0, 1), (1, 2), (0, 1, 2), (2, 7)):
        world.clock.advance(1)
        times.append(world.clock.ms)
        await play.open(1, 0, *places)
    close = parse_entry((await play.close(1)).entry)
    assert isinstance(close, CloseEntry)
    assert close.opened == ((times[0], 0, (0, 1)), (times[1], 0, (2,)), (times[3], 0, (7,)))


async def test_in_mode_full_all_openings_come_with_the_seal_and_none_is_listed(world: World) -> None:
    play = await world.play(1, mode="full")
    await play.reserve(1)
    shuffled = await world.repeated(lambda: play.seal(1))
    assert shuffled.openings
    assert sorted(shuffled.openings.items) == list(range(52))
    before = snapshot(world.disk)
    assert await play.open(1, 0, 3) == await play.open(1, 0, 3)
    assert snapshot(world.disk) == before
    second = await play.reshuffle(1, 1, (0, 3), (0, 9))
    assert second.openings
    assert set(second.openings.items) == {shuffled.openings.items[3], shuffled.openings.items[9]}
    close = parse_entry((await play.close(1)).entry)
    assert isinstance(close, CloseEntry)
    assert close.opened is None


async def test_opening_more_than_the_close_could_list_is_refused(world: World, play: Play) -> None:
    await sealed(play, n=1020)
    refused = []
    for k in range(16):
        if k:
            await play.reshuffle(1, k, *[(k - 1, place) for place in range(1020)])
        for first in range(0, 1020, 60):
            try:
                await play.open(1, k, *range(first, first + 60))
            except Refused as error:
                refused.append((k, error.reason))
    assert refused[0][0] > 10
    assert {reason for _, reason in refused} == {Reason.ENTRY_TOO_LARGE}
    await world.refused(Reason.ENTRY_TOO_LARGE, play.open(1, 15, *range(1020)))
    # What was opened can still be asked for, and the hand can be closed.
    await play.open(1, 0, 5)
    close = await play.close(1)
    assert len(close.entry) <= 65_535
    assert len(close.entry) > 60_000


# --- Step 7: reshuffles ---


async def test_fifteen_reshuffles_and_no_more(world: World, play: Play) -> None:
    await sealed(play)
    for k in range(1, 16):
        await play.reshuffle(1, k, *[(0, place) for place in (3 * k, 3 * k + 1)])
    view = await world.service.hand(CASINO, play.table, 1)
    assert len(view.hand.shuffles) == 16
    await play.close(1)


@pytest.mark.parametrize(
    ("k", "locations", "reason"),
    [
        (1, [(0, 52)], Reason.LOCATION_NAMED),
        (2, [(0, 1)], Reason.OUT_OF_SEQUENCE),
        (3, [(2, 0)], Reason.OUT_OF_SEQUENCE),
    ],
)
async def test_a_reshuffle_names_what_is_there_and_is_the_next_one(
    world: World, play: Play, k: int, locations: list[tuple[int, int]], reason: Reason
) -> None:
    await sealed(play)
    await world.refused(reason, play.reshuffle(1, k, *locations))


async def test_a_closed_hand_of_many_chained_reshuffles_is_derived_again_in_no_time(world: World, play: Play) -> None:
    """Each shuffle once, not once for every location that names it: that would be 52^15 derivations."""
    await sealed(play)
    for k in range(1, 16):
        await play.reshuffle(1, k, *[(k - 1, place) for place in range(52)])
    leaves = (await world.service.public_hand(play.table, 1)).leaves
    assert leaves
    await play.close(1)
    assert (await world.service.public_hand(play.table, 1)).leaves == leaves
    await world.restart()
    assert (await world.service.opened_hand(play.table, 1)).leaves == leaves
    again = await play.reshuffle(1, 15, *[(14, place) for place in range(52)])
    assert tuple(again.leaves) == leaves[15]


async def test_a_location_is_named_at_most_once_and_opened_cards_may_be_named(world: World, play: Play) -> None:
    await sealed(play)
    seen = await play.open(1, 0, 0, 1)
    first = await play.reshuffle(1, 1, (0, 0), (0, 1), (0, 2))
    await world.refused(Reason.LOCATION_NAMED, play.reshuffle(1, 2, (0, 1)), "(0, 1)")
    await play.reshuffle(1, 2, (0, 3), (1, 0))
    await world.refused(Reason.LOCATION_NAMED, play.open(1, 1, 0), "0 was named")
    # Opened before it was named: the repeat is answered.
    assert await play.open(1, 0, 0, 1) == seen
    rest = await play.open(1, 1, 1, 2)
    assert len(first.leaves) == 3
    assert len(set(rest.items)) == 2


# --- Step 8: closing ---


@pytest.mark.parametrize("state", ["reserved", "promised"])
async def test_a_hand_that_was_not_played_is_not_complete(world: World, play: Play, state: str) -> None:
    await play.reserve(1)
    if state == "promised":
        await play.promise(1, (ALICE,))
    await world.refused(Reason.WRONG_STATE, play.close(1), state)
    close = parse_entry((await play.close(1, "aborted", "players_left")).entry)
    assert isinstance(close, CloseEntry)
    assert close.seeds is None
    assert close.seed is not None


async def test_under_public_the_seed_is_in_the_close_and_under_escrow_for_the_auditor_only(world: World) -> None:
    for number, reveal in enumerate(("public", "escrow")):
        play = await world.play(number, reveal=reveal)
        reserved = parse_entry((await play.reserve(1)).entry)
        assert isinstance(reserved, ReserveEntry)
        await play.seal(1)
        close = parse_entry((await world.repeated(lambda play=play: play.close(1))).entry)  # type: ignore[misc]
        assert isinstance(close, CloseEntry)
        if reveal == "public":
            assert close.seed in [given[:48] for given in world.entropy.given]
            assert close.escrow is None
        else:
            assert close.seed is None
            assert close.escrow
            info = escrow_info(ORIGIN, play.table, 1, reserved.commitments[0])
            assert open_seed(close.escrow, AUDITOR, info) in [given[:48] for given in world.entropy.given]


async def test_only_an_operator_declares_a_hand_lost(world: World, play: Play) -> None:
    await sealed(play)
    await world.refused(Reason.WRONG_ROLE, play.close(1, "lost", "seed_lost"), "operator")
    close = parse_entry((await Play(world, play.table, OPERATOR).close(1, "lost", "seed_lost")).entry)
    assert isinstance(close, CloseEntry)
    assert (close.outcome, close.seed, close.escrow) == ("lost", None, None)


# --- Step 8: expiry ---


async def expire(world: World) -> int:
    return await world.service.close_expired(world.clock.now_ms())


@pytest.mark.parametrize("state", ["reserved", "promised", "sealed", "opened", "drawn"])
async def test_an_overdue_hand_is_closed_with_its_reveal_and_refuses_every_call(
    world: World, play: Play, state: str
) -> None:
    await play.reserve(1)
    if state == "promised":
        await play.promise(1, (ALICE,))
    elif state == "drawn":
        await play.draw(1)
    elif state in {"sealed", "opened"}:
        await play.seal(1)
        if state == "opened":
            await play.open(1, 0, 5)
    world.clock.advance(TTL_S - 0.001)
    assert await expire(world) == 0
    world.clock.advance(0.001)
    if state == "opened":
        await world.refused(Reason.EXPIRED, play.open(1, 0, 5, 6))
        assert (await play.open(1, 0, 5)).places == (5,)
    elif state != "drawn":
        legal = {"reserved": play.promise(1, (BOB,)), "promised": play.seal(1), "sealed": play.reshuffle(1, 1, (0, 1))}
        for each, call in legal.items():
            if each == state:
                await world.refused(Reason.EXPIRED, call)
            else:
                call.close()
    await world.refused(Reason.EXPIRED, play.close(1, "aborted", "caller"))
    assert await expire(world) == 1
    assert await expire(world) == 0
    close = parse_entry(world.disk.entries[-1])
    assert isinstance(close, CloseEntry)
    assert (close.outcome, close.reason, close.time) == ("aborted", "expired", world.clock.ms)
    assert close.seed is not None


async def test_hands_expire_one_after_the_other_each_its_ttl_after_the_close_before(world: World, play: Play) -> None:
    await play.reserve(1, 3)
    for seq in (1, 2, 3):
        world.clock.advance(TTL_S - 1)
        assert await expire(world) == 0
        world.clock.advance(1)
        assert await expire(world) == 1, seq
        await world.restart()
    assert await expire(world) == 0
    closes = [entry for raw in world.disk.entries if isinstance(entry := parse_entry(raw), CloseEntry)]
    assert [close.seq for close in closes] == [1, 2, 3]


async def test_the_ttl_runs_anew_from_the_seal_and_from_the_draw(world: World, play: Play) -> None:
    await play.reserve(1, 2)
    world.clock.advance(TTL_S - 1)
    await play.seal(1)
    world.clock.advance(TTL_S - 1)
    await play.open(1, 0, 0)
    assert await expire(world) == 0
    # An opening does not prolong it.
    world.clock.advance(1)
    assert await expire(world) == 1
    world.clock.advance(TTL_S - 1)
    await play.draw(2)
    world.clock.advance(TTL_S - 1)
    assert await expire(world) == 0
    world.clock.advance(1)
    assert await expire(world) == 1


async def test_a_hand_says_when_it_expires_if_it_is_the_lowest(world: World, play: Play) -> None:
    await play.reserve(1, 2)
    service = world.service
    assert (await service.hand(CASINO, play.table, 1)).expires_ms == world.clock.ms + 1000 * TTL_S
    assert (await service.hand(CASINO, play.table, 2)).expires_ms == 0
    world.clock.advance(10)
    await play.close(1, "aborted", "caller")
    assert (await service.hand(CASINO, play.table, 1)).expires_ms == 0
    assert (await service.hand(CASINO, play.table, 2)).expires_ms == world.clock.ms + 1000 * TTL_S


async def test_expiry_is_the_same_after_a_restart(world: World, play: Play) -> None:
    await play.reserve(1, 2)
    world.clock.advance(100)
    await play.seal(1)
    world.clock.advance(100)
    await play.close(1)
    before = (await world.service.hand(CASINO, play.table, 2)).expires_ms
    await world.restart()
    assert (await world.service.hand(CASINO, play.table, 2)).expires_ms == before
    world.clock.ms = before - 1
    assert await expire(world) == 0
    world.clock.ms = before
    assert await expire(world) == 1


async def test_many_tables_expire_in_one_sweep(world: World) -> None:
    plays = [await world.play(number, ttl_s=60) for number in range(300)]
    await asyncio.gather(*(play.reserve(1) for play in plays))
    world.clock.advance(60)
    before = len(world.guard.seen) if world.guard else 0
    assert await expire(world) == 300
    assert world.guard
    assert len(world.guard.seen) - before == 2, "as many batches as need be, not one a hand"


async def test_calls_for_many_hands_fill_a_batch_by_their_hands(world: World) -> None:
    """Nothing else runs while a batch is made; so 64 calls of 256 hands are many batches, and one call is never cut."""
    world.limits = Limits(batch=4)
    await world.restart()
    tables = [(await world.play(number)).table for number in range(13)]
    assert world.guard
    before = len(world.guard.seen)
    calls = [tables[0:2], tables[2:4], tables[4:6], tables[6:13]]
    await asyncio.gather(
        *(world.service.reserve(CASINO, [ReserveHands(table, 1, 1) for table in some]) for some in calls)
    )
    sizes = [int(note.split(b"\n")[1]) for note in world.guard.seen[before - 1 :]]
    assert [after - earlier for earlier, after in pairwise(sizes)] == [4, 2, 7]


# --- Step 9: draws ---


async def test_a_hand_is_sealed_or_drawn_never_both(world: World, play: Play) -> None:
    await play.reserve(1, 2)
    await play.draw(1)
    await world.refused(Reason.WRONG_STATE, play.seal(1))
    await world.refused(Reason.WRONG_STATE, play.open(1, 0, 0))
    await world.refused(Reason.WRONG_STATE, play.reshuffle(1, 1, (0, 0)))
    await play.close(1)
    await play.seal(2)
    await world.refused(Reason.WRONG_STATE, play.draw(2))


async def test_a_draw_counts_as_the_open_hand(world: World, play: Play) -> None:
    await play.reserve(1, 2)
    await play.draw(1)
    await world.refused(Reason.LOWER_HAND_OPEN, play.seal(2))
    await world.refused(Reason.LOWER_HAND_OPEN, play.draw(2))


@pytest.mark.parametrize(("modulus", "count"), [(1, 1), (1, 1024), (8, 3), (2**53 - 1, 1024), (2**53 - 1, 1)])
async def test_a_draw_gives_so_many_numbers_below_its_modulus(play: Play, modulus: int, count: int) -> None:
    await play.reserve(1)
    await play.promise(1, (ALICE,))
    numbers = await play.draw(1, b"~" * 64, modulus, count, (ALICE,))
    assert len(numbers.values) == count
    assert all(0 <= value < modulus for value in numbers.values)
    entry = parse_entry(numbers.logged.entry)
    assert isinstance(entry, DrawEntry)
    assert entry.values == numbers.values
    await play.close(1)


# --- Repeats ---


async def life(play: Play) -> None:
    """One table's whole history, with a call of each kind."""
    await play.reserve(1, 2)
    await play.promise(1, (ALICE, BOB))
    await play.seal(1, 52, (ALICE,))
    await play.open(1, 0, 0, 1)
    await play.reshuffle(1, 1, (0, 1), (0, 2))
    await play.open(1, 1, 0)
    await play.close(1)
    await play.draw(2, b"button", 8, 2)
    await play.close(2, "aborted", "misdeal")


REPEATS: dict[str, Callable[[Play], Awaitable[object]]] = {
    "register": lambda play: play.world.service.register(CASINO, RegisterTable(play.table, "shoe", "public", TTL_S)),
    "reserve": lambda play: play.reserve(1, 2),
    "promise": lambda play: play.promise(1, (ALICE, BOB)),
    "seal": lambda play: play.seal(1, 52, (ALICE,)),
    "open": lambda play: play.open(1, 0, 0, 1),
    "open a part": lambda play: play.open(1, 0, 1),
    "reshuffle": lambda play: play.reshuffle(1, 1, (0, 1), (0, 2)),
    "open a reshuffle": lambda play: play.open(1, 1, 0),
    "close": lambda play: play.close(1),
    "draw": lambda play: play.draw(2, b"button", 8, 2),
    "close a draw": lambda play: play.close(2, "aborted", "misdeal"),
}

OTHERS: dict[str, tuple[Callable[[Play], Awaitable[object]], Reason]] = {
    "reserve fewer": (lambda play: play.reserve(1, 1), Reason.OTHER_CONTENT),
    "promise of another": (lambda play: play.promise(1, (BOB,)), Reason.OTHER_CONTENT),
    "promise for more hands": (lambda play: play.promise(1, (ALICE, BOB), ()), Reason.OTHER_CONTENT),
    "promise for a drawn hand": (lambda play: play.promise(2, (BOB,)), Reason.WRONG_STATE),
    "seal of more items": (lambda play: play.seal(1, 53, (ALICE,)), Reason.OTHER_CONTENT),
    "seal with more seeds": (lambda play: play.seal(1, 52, (ALICE, BOB)), Reason.OTHER_CONTENT),
    "seal without seeds": (lambda play: play.seal(1, 52), Reason.OTHER_CONTENT),
    "seal of the drawn hand": (lambda play: play.seal(2), Reason.WRONG_STATE),
    "open one more place": (lambda play: play.open(1, 0, 0, 1, 3), Reason.WRONG_STATE),
    "open a shuffle that is not there": (lambda play: play.open(1, 2, 0), Reason.WRONG_STATE),
    "open in the drawn hand": (lambda play: play.open(2, 0, 0), Reason.WRONG_STATE),
    "reshuffle others": (lambda play: play.reshuffle(1, 1, (0, 1), (0, 3)), Reason.OTHER_CONTENT),
    "reshuffle once more": (lambda play: play.reshuffle(1, 2, (0, 5)), Reason.WRONG_STATE),
    "close otherwise": (lambda play: play.close(1, "aborted", "misdeal"), Reason.OTHER_CONTENT),
    "close for another reason": (lambda play: play.close(2, "aborted", "caller"), Reason.OTHER_CONTENT),
    "draw another purpose": (lambda play: play.draw(2, b"seats", 8, 2), Reason.OTHER_CONTENT),
    "draw another modulus": (lambda play: play.draw(2, b"button", 9, 2), Reason.OTHER_CONTENT),
    "draw more": (lambda play: play.draw(2, b"button", 8, 3), Reason.OTHER_CONTENT),
    "draw from the sealed hand": (lambda play: play.draw(1), Reason.WRONG_STATE),
    "seal what is not reserved": (lambda play: play.seal(3), Reason.UNKNOWN_HAND),
}


@pytest.mark.parametrize("call", REPEATS.values(), ids=REPEATS)
async def test_a_repeat_long_after_the_close_gives_the_same_answer(
    world: World, play: Play, call: Callable[[Play], Awaitable[object]]
) -> None:
    await life(play)
    await world.repeated(lambda: call(play))


@pytest.mark.parametrize(("call", "reason"), OTHERS.values(), ids=OTHERS)
async def test_other_content_under_the_same_key_is_refused_also_after_a_restart(
    world: World, play: Play, call: Callable[[Play], Awaitable[object]], reason: Reason
) -> None:
    await life(play)
    await world.refused(reason, call(play))
    await world.restart()
    await world.refused(reason, call(play))


async def test_each_call_repeated_at_once_gives_the_answer_of_the_first(world: World, play: Play) -> None:
    """The repeat comes while the hand is still open, from a client that lost the answer."""

    async def twice(call: Callable[[], Awaitable[Any]]) -> Any:
        return await world.repeated(call)

    await twice(lambda: play.reserve(1, 2))
    await twice(lambda: play.promise(1, (ALICE, BOB)))
    await twice(lambda: play.seal(1, 52, (ALICE,)))
    await twice(lambda: play.open(1, 0, 0, 1))
    await twice(lambda: play.reshuffle(1, 1, (0, 1), (0, 2)))
    await twice(lambda: play.open(1, 1, 0))
    await twice(lambda: play.close(1))
    await twice(lambda: play.draw(2, b"button", 8, 2))
    await twice(lambda: play.close(2, "aborted", "misdeal"))


async def test_a_repeat_past_the_expiry_is_answered(world: World, play: Play) -> None:
    await play.reserve(1)
    answers = [await play.seal(1), await play.open(1, 0, 3)]
    world.clock.advance(TTL_S)
    assert [content(each) for each in (await play.seal(1), await play.open(1, 0, 3))] == list(map(content, answers))
    assert await expire(world) == 1
    assert [content(each) for each in (await play.seal(1), await play.open(1, 0, 3))] == list(map(content, answers))


# --- Step 3 and the entries' order: prev, time ---


async def test_times_in_the_log_never_go_back(world: World, play: Play) -> None:
    await play.reserve(1)
    world.clock.advance(-59)
    logged = await play.seal(1)
    entry = parse_entry(logged.logged.entry)
    assert isinstance(entry, SealEntry)
    assert entry.time == world.clock.ms + 59_000
    await audited(world)
