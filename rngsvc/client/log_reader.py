"""Reads the log itself: its newest checkpoint, single entries, and runs of entries of any length."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from rngsvc.client.connection import Connection
from rngsvc.client.errors import AnswerMalformed, InclusionUnproven
from rngsvc.client.log_view import Logged, SignedCheckpoint, split_hashes
from rngsvc.frontier import Frontier
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.merkle import leaf_hash, verify_consistency
from rngsvc.v1 import log_pb2


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive ``entries`` (bytes, not parsed), the first at position ``first``, all under ``checkpoint``."""

    first: int
    entries: tuple[bytes, ...]
    checkpoint: SignedCheckpoint


class LogReader:
    """What anyone may read of the log; `Client.log`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def checkpoint(self) -> SignedCheckpoint:
        """Return the newest checkpoint, which continues all that were trusted before."""
        return await self._connection.newest()

    async def entry(self, index: int) -> Logged:
        """Return the entry at ``index`` with its proof."""
        return await self._connection.entry(index)

    async def consistency(self, old_size: int, new_size: int = 0) -> tuple[bytes, ...]:
        """Return the hashes that prove the tree of ``old_size`` a beginning of that of ``new_size`` (0: the newest).

        They are checked only by whoever holds both roots (`rngsvc.protocol.merkle.verify_consistency`).
        """
        request = log_pb2.GetConsistencyProofRequest(old_size=old_size, new_size=new_size)
        service = self._connection.log_service
        answer = await self._connection.caller.repeatable(service.GetConsistencyProof, request)
        return split_hashes(answer.proof, "proof")

    async def key_entries(self) -> tuple[Logged, ...]:
        """Return the changes of the log's key, in log order."""
        await self.checkpoint()
        return self._connection.log.key_entries

    async def entries(self, first: int = 0, end: int = 0, *, follow: bool = False) -> AsyncIterator[Run]:
        """Give the entries at ``first`` .. ``end`` - 1, where 0 means up to the newest.

        With ``follow`` the stream stays open for what comes after. Each run is shown to stand at its place under a
        signed checkpoint before it is given. Memory stays constant.
        """
        held = self._connection.log.newest
        frontier = await self._frontier(first)
        request = log_pb2.StreamEntriesRequest(first=first, end=end, follow=follow)
        async for message in self._connection.caller.stream(self._connection.log_service.StreamEntries, request):
            if message.first != frontier.size or not message.entries:
                raise AnswerMalformed(f"first: must be {frontier.size}, with at least one entry")
            for entry in message.entries:
                frontier.append(leaf_hash(entry))
            checkpoint = await self._connection.checkpoint(message.checkpoint)
            await self._check(frontier, checkpoint)
            await self._connection.see(checkpoint)
            yield Run(message.first, tuple(message.entries), checkpoint)
        due = end or (held.size if held else 0)
        if not follow and frontier.size < due:
            raise AnswerMalformed(f"entries: must reach {due}, but break off at {frontier.size}")

    async def _frontier(self, first: int) -> Frontier:
        """Return the tree of the entries before ``first``; it is proven with the first run that follows it."""
        if first == 0:
            return Frontier()
        request = log_pb2.GetProofRequest(index=first - 1, tree_size=first)
        answer = await self._connection.caller.repeatable(self._connection.log_service.GetProof, request)
        # The last leaf of a tree has only left siblings: the peaks of the tree before it, the smallest first.
        peaks = split_hashes(answer.logged.proof, "proof")[::-1]
        if len(peaks) != (first - 1).bit_count():
            raise AnswerMalformed(f"proof: must be {(first - 1).bit_count()} hashes")
        frontier = Frontier(first - 1, peaks)
        frontier.append(leaf_hash(answer.logged.entry))
        return frontier

    async def _check(self, frontier: Frontier, checkpoint: SignedCheckpoint) -> None:
        if frontier.size > checkpoint.size:
            raise AnswerMalformed(f"checkpoint: must contain the {frontier.size} entries sent so far")
        if frontier.size == checkpoint.size:
            proof: tuple[bytes, ...] = ()
        else:
            proof = await self.consistency(frontier.size, checkpoint.size)
        try:
            verify_consistency(frontier.size, frontier.root, checkpoint.size, checkpoint.root, proof)
        except ProofError as error:
            raise InclusionUnproven(f"the entries up to {frontier.size} are not those of the log: {error}") from error
