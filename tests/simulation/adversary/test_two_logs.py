"""One log for the players, another for everybody else, both properly signed: who notices, and when."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.audit import Audit
from rngsvc.client import Client, errors
from rngsvc.protocol.cosignature import CosignerKey
from rngsvc.protocol.entries import Entry, SealEntry
from rngsvc.protocol.merkle import consistency_proof, root_of
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.receipt import Receipt
from rngsvc.protocol.tlog_proof import TlogProof
from rngsvc.protocol.verify import verify
from rngsvc.saved_audit import SavedAudit
from rngsvc.witness import Seen, Witness, request_body
from tests.rngsvc.audit.books import SEEDS, Book, book_of
from tests.rngsvc.client.lying import Forger, Lie, lying_server
from tests.rngsvc.conftest import RunningService, serve_ephemeral
from tests.rngsvc.service.world import World
from tests.simulation.adversary.judges import receipt_from

WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(2, 34)))
WITNESS_KEY = CosignerKey("witness.example/w1", WITNESS.public_key().public_bytes_raw())


class Memory:
    """A witness's state."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}

    def newest(self, origin: str) -> Seen | None:
        return self.seen.get(origin)

    def swap(self, origin: str, old: Seen | None, new: Seen) -> bool:
        self.seen[origin] = new
        return True


async def two_logs() -> tuple[Book, Book, bytes]:
    """The same evening twice: in the second log, hand 1 was sealed with another root."""
    world = await World().start()
    play = await world.play(1)
    await play.reserve(1, 2)
    await play.promise(1, SEEDS)
    await play.seal(1, 52, SEEDS)
    await play.close(1)
    await play.seal(2)
    await play.close(2)
    await world.kill()

    def change(entry: Entry) -> list[Entry]:
        return [replace(entry, root=bytes(32))] if isinstance(entry, SealEntry) and entry.seq == 1 else [entry]

    book = book_of(world)
    return book, book.rewritten(change), play.table


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    yield from serve_ephemeral()


def witness_of(book: Book) -> Witness:
    logs = {book.key.name: [book.key]}
    return Witness(WITNESS_KEY, WITNESS.sign, logs, Memory(), lambda: 1_800_000_000)


def proof(book: Book, old: int) -> list[bytes]:
    leaves = book.leaves
    return consistency_proof(old, len(leaves), lambda k, i: root_of(leaves[i << k : (i + 1) << k]))


@pytest.mark.asyncio
async def test_a_witness_cosigns_one_of_two_logs_whatever_the_other_offers() -> None:
    book, fork, _ = await two_logs()
    witness = witness_of(book)
    first = book.until(5)
    assert witness.add_checkpoint(request_body(0, [], first.note())).status == 200
    assert witness.add_checkpoint(request_body(5, proof(book, 5), book.note())).status == 200
    size = len(book.entries_raw)
    longer = replace(fork, entries_raw=[*fork.entries_raw, fork.entries_raw[-1]])
    for old, hashes, note, status in (
        (0, [], fork.note(), 409),
        (5, proof(fork, 5), fork.note(), 409),
        (size, [], fork.note(), 422),
        (size, proof(longer, size), longer.note(), 422),
        (size, proof(longer, 5), longer.note(), 422),
    ):
        assert witness.add_checkpoint(request_body(old, hashes, note)).status == status


def under_newest(book: Book, receipt: Receipt, cosigned: str) -> Receipt:
    """The receipt with each proof under ``cosigned``, as `rngsvc log upgrade` leaves it."""
    entries = tuple(
        replace(each, proof=replace(TlogProof.parse(each.proof), checkpoint=cosigned).encode())
        for each in receipt.entries
    )
    return replace(receipt, entries=entries)


@pytest.mark.asyncio
async def test_a_player_who_asks_for_a_quorum_refuses_the_log_that_only_he_was_shown() -> None:
    book, fork, table = await two_logs()
    witness = witness_of(book)
    cosignature = witness.add_checkpoint(request_body(0, [], book.note())).body
    policy = Policy.parse(
        f"log {book.key.vkey}\nwitness w1 {WITNESS_KEY.vkey}\ngroup all all w1\nquorum all\n".encode()
    )
    mine = receipt_from(book, table, 2)
    witnessed = under_newest(book, mine, book.note() + cosignature)
    assert not verify(witnessed.encode(), book.key.vkey, policy=policy).failures

    theirs = receipt_from(fork, table, 2)
    for note in (fork.note(), fork.note() + cosignature):
        shown = under_newest(fork, theirs, note)
        report = verify(shown.encode(), fork.key.vkey, policy=policy)
        assert [step.id for step in report.failures] == ["witnesses"]
        assert not verify(under_newest(fork, theirs, fork.note()).encode(), fork.key.vkey).failures, "only they tell"


@pytest.mark.asyncio
async def test_whoever_looks_twice_sees_the_fork() -> None:
    """An audit that goes on, from one log to the other, at every size that the first may have had."""
    book, fork, _ = await two_logs()
    changed = next(i for i, entry in book.parsed() if isinstance(entry, SealEntry))
    for size in range(1, len(book.entries_raw) + 1):
        saved: list[SavedAudit] = []
        Audit(book.key, save=saved.append).run(book.until(size))
        audited = Audit(book.key, resume_from=saved[-1]).run(fork)
        assert bool(audited.evidence) is (size > changed)
        if audited.evidence:
            assert audited.evidence == [book.until(size).note(), fork.note()]


@pytest.mark.asyncio
async def test_a_client_that_is_shown_another_log_stops_with_both_checkpoints(service: RunningService) -> None:
    lies: dict[str, Lie] = {}
    forger = Forger(service)
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key) as client,
    ):
        await client.register_table(os.urandom(16))
        held = client.newest_checkpoint

        def fork(answer: Any) -> None:
            answer.checkpoint = forger.checkpoint(held.size, bytes(32))

        lies["GetCheckpoint"] = fork
        with pytest.raises(errors.LogForked) as raised:
            await client.log.checkpoint()
        assert (raised.value.held, raised.value.offered) == (held.note, forger.checkpoint(held.size, bytes(32)))
