"""The life of a twin table's hand through the client, against a real service."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from rngsvc.client import Client, Hand, SyncClient, Table, errors
from rngsvc.keys.making import AuditorKeys
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.entries import SealEntry
from rngsvc.protocol.twin import promise_choice
from rngsvc.protocol.verify import Outcome, verify
from tests.rngsvc.conftest import RunningService

SEEDS = {b"seat-1": bytes([1]) * 32, b"seat-2": bytes([2]) * 64}
CHOICES = {b"seat-1": bytes([3]) * 32, b"seat-2": bytes([4]) * 64}


@pytest_asyncio.fixture
async def client(service: RunningService) -> AsyncIterator[Client]:
    async with await Client.connect(service.grpc, log_key=service.log_key, consistency="always") as client:
        yield client


def promised_by(origin: str, table: bytes, seq: int) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    return (
        {who: promise(origin, table, seq, who, seed) for who, seed in SEEDS.items()},
        {who: promise_choice(origin, table, seq, who, choice) for who, choice in CHOICES.items()},
    )


async def unchosen(table: Table) -> Hand:
    hand = await table.reserve()
    await hand.promise(*promised_by(hand.proven.origin, table.id, hand.seq))
    await hand.seal_twin(52, SEEDS)
    return hand


def not_checked(hand: Hand, service: RunningService, **kwargs: object) -> set[str]:
    report = verify(hand.receipt(**kwargs), service.log_key).require()  # type: ignore[arg-type]
    return {step.id for step in report.steps if step.outcome is not Outcome.CHECKED}


@pytest.mark.asyncio
async def test_a_hand_from_two_decks_to_a_receipt(client: Client, service: RunningService) -> None:
    table = await client.register_table(os.urandom(16), twin=True)
    hand = await unchosen(table)
    assert (hand.state, hand.shuffles, hand.choice) == ("unchosen", (), None)
    shuffle = await hand.choose(CHOICES)
    assert (hand.state, hand.shuffles) == ("sealed", (shuffle,))
    choice = hand.choice
    assert choice
    assert choice.given == 2
    entry = hand.proven.seal_entry.entry  # type: ignore[union-attr]
    assert isinstance(entry, SealEntry)
    other = entry.deck(1 - choice.deck)
    assert list(choice.order) == permute(choice.seed, other.hc, 0, range(52))[0]
    await hand.open(0, range(10))
    await hand.reshuffle([(0, 0), (0, 50), (0, 51)])
    await hand.open(1, [0])
    await hand.close()
    own = (b"seat-1", SEEDS[b"seat-1"], CHOICES[b"seat-1"])
    assert not_checked(hand, service, own=own) == {"history"}


@pytest.mark.asyncio
async def test_a_contributor_sees_both_decks_sealed_with_his_seed_before_he_gives_his_choice(
    client: Client, service: RunningService
) -> None:
    hand = await unchosen(await client.register_table(os.urandom(16), twin=True))
    report = verify(hand.receipt(own=(b"seat-1", SEEDS[b"seat-1"])), service.log_key).require()
    checked = {step.id for step in report.steps if step.outcome is Outcome.CHECKED}
    assert {"checkpoints", "inclusion", "promises", "contributions", "own", "context"} <= checked
    assert report.step("context").detail == "2 contexts"
    # A seal that passes his seed over, or promises that are not his: the steps that he waits for fail.
    stranger = verify(hand.receipt(own=(b"seat-1", bytes(32))), service.log_key)
    assert [step.id for step in stranger.failures] == ["own"]


@pytest.mark.asyncio
async def test_under_escrow_everybody_checks_one_deck_and_the_auditor_the_other(
    client: Client, service: RunningService
) -> None:
    auditor = AuditorKeys.load(f"file:{service.auditor_keys}")
    table = await client.register_table(os.urandom(16), reveal="escrow", auditor=auditor.public_keys, twin=True)
    hand = await unchosen(table)
    await hand.choose(CHOICES)
    await hand.close()
    assert not_checked(hand, service) == {"own", "openings", "items", "derivation", "history"}
    opened = await client.audit.open_hand(table.id, 1)
    assert opened.rederive(auditor.opening) != hand.choice.seed  # type: ignore[union-attr]


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.asyncio
async def test_a_hand_without_a_choice_reveals_both_decks(client: Client, service: RunningService, reveal: str) -> None:
    auditor = AuditorKeys.load(f"file:{service.auditor_keys}")
    keys = auditor.public_keys if reveal == "escrow" else None
    table = await client.register_table(os.urandom(16), reveal=reveal, auditor=keys, twin=True)
    hand = await unchosen(table)
    with pytest.raises(errors.Refused):
        await hand.close()
    close = await hand.close("aborted", "players_left")
    assert (close.twin_seed is None, close.twin_escrow is None) == (reveal == "escrow", reveal == "public")
    opened = await client.audit.open_hand(table.id, 1)
    assert len(opened.rederive(auditor.opening)) == 48
    assert {"choice", "twin"} <= not_checked(hand, service)


@pytest.mark.asyncio
async def test_a_hand_in_which_nobody_chose_is_told_as_proving_nothing(client: Client, service: RunningService) -> None:
    hand = await unchosen(await client.register_table(os.urandom(16), twin=True))
    await hand.choose()
    assert hand.choice
    assert hand.choice.given == 0
    await hand.close()
    assert "choice" in not_checked(hand, service)


@pytest.mark.asyncio
async def test_every_step_may_be_repeated_and_gives_the_same(client: Client) -> None:
    hand = await unchosen(await client.register_table(os.urandom(16), twin=True))
    await hand.seal_twin(52, SEEDS)
    shuffle = await hand.choose(CHOICES)
    await hand.seal_twin(52, SEEDS)
    assert (await hand.choose(CHOICES)).leaves == shuffle.leaves
    with pytest.raises(errors.Refused) as refused:
        await hand.choose({b"seat-1": CHOICES[b"seat-1"]})
    assert refused.value.reason == "OTHER_CONTENT"


@pytest.mark.asyncio
async def test_a_restarted_game_server_goes_on_before_and_after_the_choice(
    client: Client, service: RunningService
) -> None:
    hand = await unchosen(await client.register_table(os.urandom(16), twin=True))
    again = await client.hand(hand.table.id, 1)
    assert again.state == "unchosen"
    shuffle = await again.choose(CHOICES)
    third = await client.hand(hand.table.id, 1)
    assert (third.state, third.choice.deck) == ("sealed", again.choice.deck)  # type: ignore[union-attr]
    # The leaves are not in the log, but the choices are, so that the service says them again.
    assert [each.place for each in await third.open(0, [4, 5])] == [4, 5]
    assert [each.leaves for each in third.shuffles] == [shuffle.leaves]
    await third.close()
    assert not_checked(third, service) == {"own", "history", "contributions"}


@pytest.mark.asyncio
async def test_a_choice_that_was_not_promised_is_refused(client: Client) -> None:
    hand = await unchosen(await client.register_table(os.urandom(16), twin=True))
    with pytest.raises(errors.Refused) as refused:
        await hand.choose({b"seat-1": CHOICES[b"seat-2"]})
    assert refused.value.reason == "CHOICE_MISMATCH"
    with pytest.raises(ValueError, match="choice_promises"):
        await hand.promise({b"a": bytes(32)}, {b"b": bytes(32)})


@pytest.mark.asyncio
async def test_a_call_for_the_other_kind_of_table_is_a_usage_error_and_nothing_is_sent(client: Client) -> None:
    ordinary = await (await client.register_table(os.urandom(16))).reserve()
    twin = await (await client.register_table(os.urandom(16), twin=True)).reserve()
    size = (await client.log.checkpoint()).size
    for wrong, table in (
        (lambda: twin.seal(52), twin),
        (lambda: ordinary.seal_twin(52), ordinary),
        (ordinary.choose, ordinary),
        (lambda: client.seal_all([ordinary, twin], 52), twin),
        (lambda: client.seal_twin_all([twin, ordinary], 52), ordinary),
        (lambda: client.choose_all([twin, ordinary]), ordinary),
    ):
        with pytest.raises(ValueError, match=table.table.id.hex()):
            await wrong()  # type: ignore[operator]
    with pytest.raises(ValueError, match="one for each hand"):
        await client.seal_all([ordinary], 52, [{}, {}])
    assert (await client.log.checkpoint()).size == size
    # So each can go on as it should have begun.
    await ordinary.seal(52)
    await twin.seal_twin(52)
    with pytest.raises(ValueError, match="before it is chosen"):
        await twin.open(0, [0])


@pytest.mark.asyncio
async def test_a_word_that_is_none_of_those_allowed_is_a_usage_error_that_names_them(client: Client) -> None:
    with pytest.raises(ValueError, match="reveal: must be public or escrow, not 'secret'"):
        await client.register_table(os.urandom(16), reveal="secret")
    with pytest.raises(ValueError, match="mode: must be shoe or full"):
        await client.register_table(os.urandom(16), mode="shoes")
    table = await client.register_table(os.urandom(16))
    hand = await table.reserve()
    with pytest.raises(ValueError, match="outcome: must be complete or aborted or lost"):
        await hand.close("done")
    with pytest.raises(ValueError, match="state: must be"):
        _ = [each async for each in table.hands(state="done")]


@pytest.mark.asyncio
async def test_many_tables_in_one_call_and_one_refusal_stays_with_its_table(client: Client) -> None:
    tables = [await client.register_table(os.urandom(16), mode=mode, twin=True) for mode in ("shoe", "full", "shoe")]
    hands = [(await table.reserve()) for table in tables]
    assert await client.seal_twin_all(hands, 20) == [None] * 3
    await hands[2].close("aborted", "misdeal")
    first, second, refused = await client.choose_all(hands)
    assert [hand.state for hand in hands] == ["sealed", "sealed", "closed"]
    assert first == hands[0].shuffles[0]
    assert len(hands[1].openings) == 20
    assert second == hands[1].shuffles[0]
    assert isinstance(refused, errors.Refused)


def test_the_blocking_client_does_the_same(service: RunningService) -> None:
    with SyncClient.connect(service.grpc, log_key=service.log_key) as client:
        table = client.register_table(os.urandom(16), twin=True)
        hand, following = table.reserve_many(2)
        promises = [promised_by(client.origin, table.id, seq) for seq in (1, 2)]
        table.promise_many([hand, following], [p for p, _ in promises], [q for _, q in promises])
        hand.seal_twin(52, SEEDS)
        assert hand.choose(CHOICES) == hand.shuffles[0]
        assert hand.choice
        hand.open(0, [0])
        hand.close()
        assert client.seal_twin_all([following], 36, [SEEDS]) == [None]
        (shuffle,) = client.choose_all([following], [CHOICES])
        assert shuffle == following.shuffles[0]
