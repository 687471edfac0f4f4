"""The life of a hand through the client, against a real service."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from rngsvc.client import Client, Close, Hand, SyncClient, Table, errors
from rngsvc.keys.making import AuditorKeys
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.entries import CloseEntry
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.verify import Outcome, verify
from tests.rngsvc.conftest import RunningService

CONTRIBUTORS = {b"seat-1": bytes([1]) * 32, b"seat-2": bytes([2]) * 48, b"seat-3": bytes([3]) * 64}


@pytest_asyncio.fixture
async def client(service: RunningService) -> AsyncIterator[Client]:
    async with await Client.connect(service.grpc, log_key=service.log_key, consistency="always") as client:
        yield client


def promises(hand: Hand) -> dict[bytes, bytes]:
    origin, table = hand.proven.origin, hand.table.id
    return {name: promise(origin, table, hand.seq, name, seed) for name, seed in CONTRIBUTORS.items()}


async def dealt(table: Table) -> Hand:
    """A hand with three contributors, one of them absent, a reshuffle and openings of both shuffles."""
    hand = await table.reserve()
    await hand.promise(promises(hand))
    await hand.seal(52, {name: CONTRIBUTORS[name] for name in (b"seat-1", b"seat-3")})
    await hand.open(0, range(10))
    await hand.reshuffle([(0, 0), (0, 1), (0, 50), (0, 51)])
    await hand.open(1, [0, 3])
    return hand


def check(hand: Hand, service: RunningService, **kwargs: object) -> set[str]:
    """Verify the hand's receipt offline; return the steps that were not shown."""
    report = verify(hand.receipt(**kwargs), service.log_key).require()  # type: ignore[arg-type]
    return {step.id for step in report.steps if step.outcome is Outcome.NOT_SHOWN}


@pytest.mark.asyncio
async def test_a_hand_from_reserve_to_receipt(client: Client, service: RunningService) -> None:
    table = await client.register_table(os.urandom(16))
    hand = await dealt(table)
    assert hand.state == "sealed"
    assert sorted(hand.openings) == [*((0, p) for p in range(10)), (1, 0), (1, 3)]
    again = {hand.openings[1, p].item for p in (0, 3)}
    assert again.isdisjoint(hand.openings[0, p].item for p in range(2, 10)), "an opened live card is not in the stub"
    close = await hand.close()
    assert (close.outcome, close.reason, hand.state) == ("complete", None, "closed")
    assert close.seeds == (CONTRIBUTORS[b"seat-1"], b"", CONTRIBUTORS[b"seat-3"])
    own = (b"seat-3", CONTRIBUTORS[b"seat-3"])
    assert check(hand, service, own=own) == {"history"}


@pytest.mark.asyncio
async def test_a_players_receipt_holds_only_what_he_may_see(client: Client, service: RunningService) -> None:
    hand = await dealt(await client.register_table(os.urandom(16)))
    await hand.close()
    seen = [(0, 2), (0, 5)]
    receipt = hand.receipt(seen=seen)
    others = [each for location, each in hand.openings.items() if location not in seen]
    assert not any(each.salt.hex().encode() in receipt for each in others)
    assert all(hand.openings[location].salt.hex().encode() in receipt for location in seen)
    with pytest.raises(ValueError, match="was not opened"):
        hand.receipt(seen=[(0, 30)])


@pytest.mark.asyncio
async def test_in_mode_full_every_card_comes_with_the_seal(client: Client, service: RunningService) -> None:
    table = await client.register_table(os.urandom(16), mode="full")
    hand = await table.reserve()
    await hand.seal(36)
    assert sorted(each.item for each in hand.openings.values()) == list(range(36))
    await hand.reshuffle((0, p) for p in range(20))
    await hand.close("aborted", "misdeal")
    check(hand, service)


@pytest.mark.asyncio
async def test_under_escrow_only_the_auditor_rederives(client: Client, service: RunningService) -> None:
    auditor = AuditorKeys.load(f"file:{service.auditor_keys}")
    table = await client.register_table(os.urandom(16), reveal="escrow", auditor=auditor.public_keys)
    hand = await dealt(table)
    close = await hand.close()
    assert close.seed is None
    assert check(hand, service) == {"own", "derivation", "history"}
    opened = await client.audit.open_hand(table.id, hand.seq)
    assert opened.seeds == close.seeds
    assert len(opened.rederive(auditor.opening)) == 48
    with pytest.raises(ValueError, match="auditor"):
        opened.rederive()


@pytest.mark.asyncio
async def test_a_lost_hand_has_nothing_to_rederive(client: Client, service: RunningService) -> None:
    hand = await dealt(await client.register_table(os.urandom(16)))
    close = await hand.close("lost", "seed_lost")
    assert (close.seed, close.escrow) == (None, None)
    with pytest.raises(errors.RevealMismatch, match="lost"):
        (await client.audit.open_hand(hand.table.id, hand.seq)).rederive()


@pytest.mark.asyncio
async def test_drawn_numbers_follow_from_the_seed_and_stand_in_the_receipt(
    client: Client, service: RunningService
) -> None:
    table = await client.register_table(os.urandom(16))
    hand = await table.reserve()
    await hand.promise(promises(hand))
    values = await hand.draw(b"button", 9, 6, CONTRIBUTORS)
    assert len(values) == 6
    assert all(value < 9 for value in values)
    await hand.close()
    assert check(hand, service) >= {"openings", "history"}


@pytest.mark.asyncio
async def test_every_step_may_be_repeated_and_gives_the_same(client: Client) -> None:
    identity = os.urandom(16)
    table = await client.register_table(identity)
    assert (await client.register_table(identity)).logged.index == table.logged.index
    hand = await table.reserve()
    await hand.promise(promises(hand))
    await hand.promise(promises(hand))
    first = await hand.seal(52, CONTRIBUTORS)
    assert (await hand.seal(52, CONTRIBUTORS)).leaves == first.leaves
    opened = await hand.open(0, [7, 3])
    assert [each.place for each in opened] == [3, 7]
    assert await hand.open(0, [3, 7]) == opened
    close = await hand.close()
    assert (await hand.close()).logged.index == close.logged.index


@pytest.mark.asyncio
async def test_other_content_under_the_same_key_is_refused(client: Client) -> None:
    table = await client.register_table(os.urandom(16))
    hand = await table.reserve()
    await hand.seal(52)
    with pytest.raises(errors.Refused) as raised:
        await hand.seal(51)
    assert raised.value.reason == "OTHER_CONTENT"
    assert hand.shuffles[0].n == 52
    with pytest.raises(ValueError, match="k: shuffle 1 is not sealed"):
        await hand.open(1, [0])


@pytest.mark.asyncio
async def test_a_request_out_of_range_names_its_field(client: Client) -> None:
    hand = await (await client.register_table(os.urandom(16))).reserve()
    with pytest.raises(errors.InvalidRequest) as raised:
        await hand.seal(1021)
    assert [each.field for each in raised.value.violations] == ["item_count"]
    with pytest.raises(errors.NotFound):
        await client.hand(os.urandom(16), 1)


@pytest.mark.asyncio
async def test_a_restarted_game_server_finds_its_hand_in_the_log_and_goes_on(
    client: Client, service: RunningService
) -> None:
    before = await dealt(await client.register_table(os.urandom(16)))
    async with await Client.connect(service.grpc, log_key=service.log_key) as other:
        table = await other.table(before.table.id)
        hand = await table.hand(before.seq)
        assert (hand.state, len(hand.shuffles)) == ("sealed", 2)
        assert hand.proven.opened_before == set(before.openings)
        with pytest.raises(ValueError, match="contributions"):
            await hand.open(0, [11])
        await hand.seal(52, {name: CONTRIBUTORS[name] for name in (b"seat-1", b"seat-3")})
        assert (await hand.reshuffle([(0, 0), (0, 1), (0, 50), (0, 51)], k=1)) == before.shuffles[1]
        (opening,) = await hand.open(0, [11])
        assert before.shuffles[0].leaves == hand.shuffles[0].leaves
        assert (await hand.open(1, [0]))[0] == before.openings[1, 0]
        close = await hand.close()
        assert isinstance(close.logged.entry, CloseEntry)
        assert [0, [11]] in [[k, list(places)] for _, k, places in close.logged.entry.opened or ()]
        assert await table.next_seq() == before.seq + 1
        assert opening.place == 11


@pytest.mark.asyncio
async def test_a_hand_without_contributions_needs_nothing_but_the_log_to_go_on(
    client: Client, service: RunningService
) -> None:
    table = await client.register_table(os.urandom(16))
    first = await table.reserve()
    await first.seal(52)
    (opening,) = await first.open(0, [4])
    async with await Client.connect(service.grpc, log_key=service.log_key) as other:
        hand = await other.hand(table.id, first.seq)
        assert await hand.open(0, [4]) == (opening,)
        await hand.close()
        check(hand, service)


@pytest.mark.asyncio
async def test_a_receipt_restores_what_the_log_does_not_hold(client: Client, service: RunningService) -> None:
    before = await dealt(await client.register_table(os.urandom(16)))
    kept = before.receipt()
    hand = await client.hand(before.table.id, before.seq)
    hand.restore(kept)
    assert hand.openings == before.openings
    assert hand.shuffles[1].leaves == before.shuffles[1].leaves
    await hand.open(0, [20])
    await hand.close()
    check(hand, service)
    salt = before.openings[0, 3].salt.hex().encode()
    foreign = (await dealt(await client.register_table(os.urandom(16)))).receipt()
    for changed, expected in (
        (kept.replace(salt, b"00" * 16), errors.OpeningMismatch),
        (kept.replace(b'"p": 3,', b'"p": 53,'), errors.OpeningMismatch),
        (kept.replace(before.shuffles[0].leaves[9].hex().encode(), b"00" * 32), errors.LeavesMismatch),  # type: ignore[index]
        (foreign, errors.EntryMismatch),
        (kept[:-9], MalformedError),
        (kept.replace(b"seq", b"s\xe9q"), MalformedError),
    ):
        other = await client.hand(before.table.id, before.seq)
        with pytest.raises(expected):
            other.restore(changed)


@pytest.mark.asyncio
async def test_promises_for_many_hands_go_into_one_entry(client: Client) -> None:
    table = await client.register_table(os.urandom(16))
    hands = await table.reserve_many(3)
    with pytest.raises(ValueError, match="consecutive"):
        await table.promise_many([hands[0], hands[2]], [{}, {}])
    await table.promise_many(hands, [promises(hand) for hand in hands])
    positions = {hand.proven.promise_entry.index for hand in hands if hand.proven.promise_entry}
    assert len(positions) == 1
    for hand in hands:
        await hand.seal(52, CONTRIBUTORS)
        await hand.close()


@pytest.mark.asyncio
async def test_many_tables_in_one_call_and_one_refusal_stays_with_its_table(
    client: Client, service: RunningService
) -> None:
    tables = [await client.register_table(os.urandom(16), mode=mode) for mode in ("shoe", "full", "shoe")]
    reserved = await client.reserve_all(tables, 2)
    hands = [pair[0] for pair in reserved if not isinstance(pair, errors.CallFailed)]
    await hands[2].seal(20)  # so that the batch asks for other content there
    for hand in hands[:2]:
        await hand.promise(promises(hand))
    sealed = await client.seal_all(hands, 52, [CONTRIBUTORS, CONTRIBUTORS, {}])
    assert [type(each).__name__ for each in sealed] == ["Shuffle", "Shuffle", "Refused"]
    assert len(hands[1].openings) == 52
    opened = await client.open_all([(hands[0], 0, [1, 0]), (hands[2], 0, [19])])
    assert [[each.place for each in places] for places in opened if not isinstance(places, errors.CallFailed)] == [
        [0, 1],
        [19],
    ]
    closed = await client.close_all([*hands[:2], reserved[2][1]])  # type: ignore[index]
    assert [isinstance(each, Close) for each in closed] == [True, True, False]
    refused = closed[2]
    assert isinstance(refused, errors.Refused)
    assert refused.reason == "LOWER_HAND_OPEN"
    for hand in hands[:2]:
        check(hand, service)


@pytest.mark.asyncio
async def test_the_next_number_is_found_whatever_it_is(client: Client) -> None:
    """The search asks a logarithmic number of questions; every small count is tried."""
    table = await client.register_table(os.urandom(16))
    for reserved in range(12):
        fresh = await client.register_table(table.id)
        assert await fresh.next_seq() == reserved + 1
        await table.reserve()


@pytest.mark.asyncio
async def test_a_tables_hands_are_listed_page_by_page(client: Client) -> None:
    table = await client.register_table(os.urandom(16))
    for _ in range(3):
        await table.reserve_many(64)
    first = await table.hand(1)
    await first.close("aborted", "caller")
    second = await table.hand(2)
    await second.seal(3)
    listed = [each async for each in table.hands()]
    assert [each.seq for each in listed] == list(range(1, 193))
    assert [each.state for each in listed[:3]] == ["closed", "sealed", "reserved"]
    assert [each.seq async for each in table.hands(state="sealed")] == [2]
    assert [each.seq async for each in table.hands(after_seq=190)] == [191, 192]


@pytest.mark.asyncio
async def test_somebody_elses_reserve_is_noticed_and_the_next_one_fits(client: Client) -> None:
    mine = await client.register_table(os.urandom(16))
    await mine.reserve()
    others = await client.register_table(mine.id)
    await others.reserve_many(2)
    with pytest.raises(errors.Refused):
        await mine.reserve_many(3)
    assert (await mine.reserve()).seq == 4


def test_the_blocking_client_does_the_same(service: RunningService) -> None:
    with SyncClient.connect(service.grpc, log_key=service.log_key) as client:
        table = client.register_table(os.urandom(16))
        hand, following = table.reserve_many(2)
        hand.promise(promises(hand.inner))
        hand.seal(52, CONTRIBUTORS)
        hand.open(0, [0, 1])
        hand.reshuffle([(0, 0), (0, 51)])
        assert client.hand(table.id, 1).state == "sealed"
        assert table.hand(1).open(1, [0]) == hand.open(1, [0])
        assert hand.close().outcome == "complete"
        assert len(following.draw(b"seats", 10, 3)) == 3
        following.close()
        assert check(hand.inner, service) == {"own", "history"}
        assert client.table(table.id).next_seq() == 3
        assert [each.state for each in table.hands()] == ["closed", "closed"]
        assert client.log.checkpoint().size == client.newest_checkpoint.size
