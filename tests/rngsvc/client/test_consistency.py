"""One append-only log: when the client asks for proof of it, and what it makes of a log that is none."""

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from rngsvc.client import Client, Hand, errors
from rngsvc.client.log_view import TrustedLog
from rngsvc.protocol.entries import parse_entry
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.client.lying import Forger, Lie, lying_server
from tests.rngsvc.conftest import RunningService


async def played(client: Client) -> Hand:
    hand = await (await client.register_table(os.urandom(16))).reserve()
    await hand.seal(52)
    await hand.open(0, [0])
    await hand.close()
    return hand


def assert_evidence(error: errors.LogBroken, service: RunningService) -> None:
    """Both checkpoints are there and signed with the log's key: anybody can see that they contradict each other."""
    for note in (error.held, error.offered):
        TrustedLog([NoteKey.from_vkey(service.log_key)]).checkpoint(note)
    assert error.held != error.offered


@pytest.mark.asyncio
async def test_a_smaller_newest_checkpoint_is_a_rollback(service: RunningService) -> None:
    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key) as client,
    ):
        old = client.newest_checkpoint
        await played(client)

        def roll_back(answer: Any) -> None:
            answer.checkpoint = old.note

        lies["GetCheckpoint"] = roll_back
        with pytest.raises(errors.LogRolledBack) as raised:
            await client.log.checkpoint()
        assert_evidence(raised.value, service)


@pytest.mark.asyncio
async def test_a_log_that_lacks_what_an_earlier_run_saw_is_refused_at_the_start(service: RunningService) -> None:
    known = Forger(service).checkpoint(10**6, bytes(32))
    with pytest.raises(errors.LogRolledBack) as raised:
        await Client.connect(service.grpc, log_key=service.log_key, known_checkpoint=known)
    assert_evidence(raised.value, service)


@pytest.mark.asyncio
async def test_what_an_earlier_run_saw_is_continued(service: RunningService) -> None:
    async with await Client.connect(service.grpc, log_key=service.log_key) as client:
        known = client.newest_checkpoint.note
        await played(client)
    async with await Client.connect(service.grpc, log_key=service.log_key, known_checkpoint=known) as client:
        assert client.newest_checkpoint.note != known


@pytest.mark.asyncio
async def test_another_history_of_the_same_size_is_a_fork(service: RunningService) -> None:
    lies: dict[str, Lie] = {}
    forger = Forger(service)
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="off") as client,
    ):

        def fork(answer: Any) -> None:
            answer.checkpoint = forger.checkpoint(client.newest_checkpoint.size, bytes(32))

        lies["GetCheckpoint"] = fork
        with pytest.raises(errors.LogForked) as raised:
            await client.log.checkpoint()
        assert_evidence(raised.value, service)


@pytest.mark.asyncio
@pytest.mark.parametrize(("consistency", "noticed_at"), [("always", "seal"), ("sampled", "close"), ("off", "never")])
async def test_a_hand_in_a_forked_log_is_noticed_at_the_latest_at_its_close(
    service: RunningService, consistency: str, noticed_at: str
) -> None:
    """The seal stands in a log of its own, larger and signed; everything else is what the service logged."""
    lies: dict[str, Lie] = {}
    forger = Forger(service)

    def fork(answer: Any) -> None:
        entry = parse_entry(answer.logged.entry)
        index = answer.logged.index
        answer.logged.CopyFrom(forger.logged_at(replace(entry, time=entry.time + 1), index, index + 50))

    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency=consistency) as client,
    ):
        hand = await (await client.register_table(os.urandom(16))).reserve()
        # As if the last proof had just been made: otherwise the next one may be due by chance.
        client.connection._clock = lambda: client.connection._proved_at
        lies["SealShuffle"] = fork
        at = "seal"
        try:
            await hand.seal(52)
            at = "close"
            await hand.close()
            at = "never"
        except errors.LogBroken as error:
            assert_evidence(error, service)
        assert at == noticed_at


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("consistency", "proofs"),
    # Ten hands: table, reserve, seal and close each have a checkpoint of their own when nobody else plays.
    [("always", 40), ("sampled", 10), ("off", 0)],
)
async def test_what_certainty_costs(service: RunningService, consistency: str, proofs: int) -> None:
    calls: Counter[str] = Counter()
    async with (
        lying_server(service.grpc, {}, calls) as target,
        await Client.connect(target, log_key=service.log_key, consistency=consistency) as client,
    ):
        client.connection._clock = lambda: client.connection._proved_at
        for _ in range(10):
            await played(client)
    assert calls["GetConsistencyProof"] == proofs
    assert calls["GetProof"] == 0


@pytest.mark.asyncio
async def test_a_second_has_passed_so_the_next_checkpoint_is_proven(service: RunningService) -> None:
    calls: Counter[str] = Counter()
    now = 0.0
    async with (
        lying_server(service.grpc, {}, calls) as target,
        await Client.connect(target, log_key=service.log_key) as client,
    ):
        client.connection._clock = lambda: now
        now = client.connection._proved_at + 1.0
        table = await client.register_table(os.urandom(16))
        assert calls["GetConsistencyProof"] == 1
        await table.reserve()
        assert calls["GetConsistencyProof"] == 1
        now += 1.0
        await table.reserve()
        assert calls["GetConsistencyProof"] == 2


@pytest.mark.asyncio
async def test_entries_between_which_others_wrote_are_proven_again_at_the_close(service: RunningService) -> None:
    calls: Counter[str] = Counter()
    async with (
        lying_server(service.grpc, {}, calls) as target,
        await Client.connect(target, log_key=service.log_key) as client,
        await Client.connect(service.grpc, log_key=service.log_key) as other,
    ):
        table = await client.register_table(os.urandom(16))
        first, second = await table.reserve_many(2)
        theirs = await other.hand(table.id, first.seq)
        await theirs.seal(52)
        await theirs.close()
        await second.seal(52)
        assert [each.index for each in table.chain.loose] == [first.proven.reserve_entry.index]
        assert calls["GetProof"] == 0
        await second.close()
        assert calls["GetProof"] == 1
        assert not table.chain.loose


@pytest.mark.asyncio
async def test_the_wrong_log_key_is_refused_at_the_start(service: RunningService) -> None:
    stranger = NoteKey(service.origin, bytes(31) + b"\x01").vkey
    with pytest.raises(errors.CheckpointRejected):
        await Client.connect(service.grpc, log_key=stranger)
    # During a change of key either may have signed.
    async with await Client.connect(service.grpc, log_key=[stranger, service.log_key]) as client:
        assert client.origin == service.origin


@pytest.mark.parametrize(
    "keys", [[], [NoteKey("a.example/x", bytes(32)), NoteKey("b.example/x", bytes(32))]], ids=["none", "two logs"]
)
def test_a_client_follows_exactly_one_log(keys: list[NoteKey]) -> None:
    with pytest.raises(ValueError, match="log_key"):
        TrustedLog(keys)


@pytest.mark.asyncio
async def test_a_fork_between_two_answers_on_their_way_is_noticed(service: RunningService) -> None:
    """The forged checkpoint was read while its size was still to come, and is trusted only afterwards."""
    async with await Client.connect(service.grpc, log_key=service.log_key) as client:
        note = Forger(service).checkpoint(client.newest_checkpoint.size + 1, bytes(32))
        forged = client.connection.log.checkpoint(note)
        await client.register_table(os.urandom(16))
        await client.log.checkpoint()
        assert client.newest_checkpoint.size == forged.size
        with pytest.raises(errors.LogForked) as raised:
            await client.connection.see(forged, surely=True)
        assert_evidence(raised.value, service)


@pytest.mark.asyncio
async def test_one_place_with_two_entries_is_a_fork(service: RunningService) -> None:
    async with await Client.connect(service.grpc, log_key=service.log_key, consistency="off") as client:
        table = await client.register_table(os.urandom(16))
        table.chain.add(table.logged, table.terms)
        other = replace(table.terms, ttl=60)
        index = table.logged.index
        message = Forger(service).logged_at(other, index, index + 3)
        forged = await client.connection.logged(message)
        with pytest.raises(errors.LogForked) as raised:
            table.chain.add(forged, other)
        assert_evidence(raised.value, service)
