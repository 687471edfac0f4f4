"""One caller's connection to one log: calls, and the rule by which he trusts checkpoints.

Every answer's signature and inclusion proofs are checked, always. That all checkpoints are of *one* append-only log
needs a further call each, so that there is a choice (`Consistency`).
"""

import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from rngsvc.client.calls import Caller
from rngsvc.client.errors import (
    AnswerMalformed,
    InvalidRequest,
    LogForked,
    LogRolledBack,
    NotFound,
    UnknownLogKey,
)
from rngsvc.client.log_view import (
    Logged,
    SignedCheckpoint,
    TableChain,
    TrustedLog,
    split_hashes,
)
from rngsvc.protocol.entries import HandEntry
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.merkle import verify_consistency
from rngsvc.v1 import audit_pb2_grpc, log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc

if TYPE_CHECKING:
    from rngsvc.v1.audit_pb2_grpc import AuditServiceAsyncStub
    from rngsvc.v1.log_pb2_grpc import LogServiceAsyncStub
    from rngsvc.v1.shuffle_pb2_grpc import ShuffleServiceAsyncStub

SAMPLE_INTERVAL_S: Final = 1.0


class Consistency(StrEnum):
    """When a new checkpoint is proven to continue the newest trusted one."""

    ALWAYS = "always"
    """Before the answer is used: one call more for each new checkpoint."""
    SAMPLED = "sampled"
    """At most once a second, whenever a smaller one comes, and always before a close or a restored hand is trusted.

    Entries seen in between are held by the `prev` chain of their table, or else proven again under the close's
    checkpoint, so that a fork shows at the latest when the hand ends.
    """
    OFF = "off"
    """Never. A fork shows only if one size is signed with two roots."""


class Connection:
    """Calls one service and holds what is trusted of its log. ``clock`` gives seconds that only rise."""

    def __init__(
        self,
        caller: Caller,
        log: TrustedLog,
        consistency: Consistency = Consistency.SAMPLED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caller = caller
        self.log = log
        self.consistency = consistency
        self._clock = clock
        self._proved_at = -SAMPLE_INTERVAL_S
        channel = caller.transport.channel
        # One class serves both kinds of channel; the transport makes either kind's calls awaitable.
        self.shuffle_service: ShuffleServiceAsyncStub = shuffle_pb2_grpc.ShuffleServiceStub(channel)
        self.log_service: LogServiceAsyncStub = log_pb2_grpc.LogServiceStub(channel)
        self.audit_service: AuditServiceAsyncStub = audit_pb2_grpc.AuditServiceStub(channel)

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.log.origin

    # --- Entries ---

    async def logged(self, message: log_pb2.LoggedEntry) -> Logged:
        """Return the entry of an answer once it is proven to be in the log. Raises Unproven."""
        checkpoint = await self.checkpoint(message.checkpoint)
        logged = self.log.logged(message.index, message.entry, message.proof, checkpoint)
        await self.see(checkpoint)
        return logged

    async def logged_batch(self, batch: shuffle_pb2.BatchEntries, due: int) -> list[Logged]:
        """Return the ``due`` entries of a batch's answer once each is proven to be in the log."""
        if not len(batch.indexes) == len(batch.entries) == len(batch.proofs) == due:
            raise AnswerMalformed(f"logged: must have {due} indexes, entries and proofs")
        if not due:
            return []
        checkpoint = await self.checkpoint(batch.checkpoint)
        columns = zip(batch.indexes, batch.entries, batch.proofs, strict=True)
        found = [self.log.logged(index, entry, proof, checkpoint) for index, entry, proof in columns]
        await self.see(checkpoint)
        return found

    # --- Checkpoints ---

    async def checkpoint(self, note: str) -> SignedCheckpoint:
        """Return what ``note`` says once its signature is verified, by a changed key too if the log shows the change.

        Raises CheckpointRejected or another Unproven.
        """
        try:
            return self.log.checkpoint(note)
        except UnknownLogKey:
            await self._newest_note()
            return self.log.checkpoint(note)

    async def _newest_note(self) -> str:
        """Fetch the log's newest checkpoint, and follow the changes of the log's key that come with it."""
        answer = await self.caller.repeatable(self.log_service.GetCheckpoint, log_pb2.GetCheckpointRequest())
        self.log.follow(answer.checkpoint, [(each.index, each.entry, each.proof) for each in answer.key_entries])
        return answer.checkpoint

    async def newest(self) -> SignedCheckpoint:
        """Fetch the log's newest checkpoint and trust it if it continues what is trusted already.

        Raises LogRolledBack if it is smaller than one that was trusted before the question, LogForked, CallFailed.
        """
        held = self.log.newest
        offered = self.log.checkpoint(await self._newest_note())
        if held is not None and offered.size < held.size:
            raise LogRolledBack(
                f"the log has {offered.size} entries and had {held.size} before", held.note, offered.note
            )
        await self.see(offered, surely=True)
        return offered

    async def see(self, offered: SignedCheckpoint, *, surely: bool = False) -> None:
        """Take note of a checkpoint, and prove it as `Consistency` demands, or ``surely`` unless that is OFF."""
        held = self.log.newest
        if self.consistency is Consistency.OFF:
            if held is None or held.size < offered.size:
                self.log.advance(held, offered)
            return
        now = self._clock()
        if (
            surely
            or self.consistency is Consistency.ALWAYS
            or held is None
            or offered.size < held.size
            or now - self._proved_at >= SAMPLE_INTERVAL_S
        ):
            self._proved_at = now
            await self._prove(offered)

    async def _prove(self, offered: SignedCheckpoint) -> None:
        """Show that ``offered`` and the newest trusted checkpoint are of one log; trust it if it is larger."""
        while True:
            held = self.log.newest
            if held is not None and offered.size == held.size:
                if offered.root != held.root:
                    raise LogForked(f"two signed trees of {held.size} entries", held.note, offered.note)
                return
            if held is not None:
                await self._prove_pair(held, offered)
                if offered.size < held.size:
                    return
            # Another task may have trusted another checkpoint meanwhile; then ours is measured against that one.
            if self.log.advance(held, offered):
                return

    async def _prove_pair(self, held: SignedCheckpoint, offered: SignedCheckpoint) -> None:
        """Show that the smaller tree is a beginning of the larger one."""
        older, newer = sorted((held, offered), key=lambda each: each.size)
        if older.size == 0:
            return  # every tree continues the empty one
        request = log_pb2.GetConsistencyProofRequest(old_size=older.size, new_size=newer.size)
        try:
            answer = await self.caller.repeatable(self.log_service.GetConsistencyProof, request)
        except (InvalidRequest, NotFound) as error:
            raise LogRolledBack(
                f"the log cannot show {newer.size} entries, which it has signed: {error}", held.note, offered.note
            ) from error
        hashes = split_hashes(answer.proof, "proof")
        try:
            verify_consistency(older.size, older.root, newer.size, newer.root, hashes)
        except ProofError as error:
            raise LogForked(f"{older.size} to {newer.size} entries: {error}", held.note, offered.note) from error

    # --- Tables ---

    async def settle(self, chain: TableChain, close: Logged) -> None:
        """Show that everything seen of a table is in the trusted log, once one of its hands is closed."""
        if self.consistency is Consistency.OFF:
            return
        await self.see(close.checkpoint, surely=True)
        for earlier in [each for each in chain.loose if each.index < close.checkpoint.size]:
            again = await self.entry(earlier.index, close.checkpoint)
            if again.leaf != earlier.leaf:
                raise LogForked(
                    f"two different entries {earlier.index}", earlier.checkpoint.note, close.checkpoint.note
                )
            chain.loose.remove(earlier)

    async def entry(self, index: int, checkpoint: SignedCheckpoint | None = None) -> Logged:
        """Fetch the entry at ``index``, proven under the trusted ``checkpoint``, or under the log's newest one."""
        request = log_pb2.GetProofRequest(index=index, tree_size=checkpoint.size if checkpoint else 0)
        answer = await self.caller.repeatable(self.log_service.GetProof, request)
        if answer.logged.index != index:
            raise AnswerMalformed(f"index: must be {index}, as asked")
        if checkpoint is None:
            return await self.logged(answer.logged)
        return self.log.logged(index, answer.logged.entry, answer.logged.proof, checkpoint)


def chain_in(chain: TableChain, logged: Iterable[Logged]) -> None:
    """Add entries of one table to what was seen of it."""
    for each in logged:
        assert isinstance(each.entry, HandEntry), "checked before: these are a table's entries"
        chain.add(each, each.entry)
