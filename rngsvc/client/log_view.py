"""What one caller holds of the log: the newest checkpoint that he trusts, and what follows from it.

Bytes come in, a verdict goes out; nothing here calls the service. `TrustedLog` is for the whole log, `TableChain` for
one table's entries.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from rngsvc.client.errors import AnswerMalformed, CheckpointRejected, InclusionUnproven, LogForked
from rngsvc.protocol.checkpoint import verify_checkpoint
from rngsvc.protocol.entries import HandEntry, parse_entry
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import leaf_hash, verify_inclusion
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tlog_proof import TlogProof
from rngsvc.proven_hand import Placed

HASH_BYTES: Final = 32
_REMEMBERED_NOTES: Final = 64


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint whose signature is verified: the signed ``note``, and what it says."""

    note: str
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Logged(Placed):
    """An entry that is proven to stand at its place in the tree of ``checkpoint``.

    ``proof`` are the hashes from its leaf's sibling upwards.
    """

    proof: tuple[bytes, ...]
    checkpoint: SignedCheckpoint

    @property
    def proof_text(self) -> str:
        """The proof as a C2SP tlog-proof text, which anybody can check offline."""
        return TlogProof(self.index, self.proof, self.checkpoint.note).encode()


def split_hashes(joined: bytes, what: str) -> tuple[bytes, ...]:
    """Return the 32-byte hashes that ``joined`` consists of; AnswerMalformed if it does not."""
    if len(joined) % HASH_BYTES:
        raise AnswerMalformed(f"{what}: must be whole hashes of {HASH_BYTES} bytes")
    return tuple(joined[i : i + HASH_BYTES] for i in range(0, len(joined), HASH_BYTES))


class TrustedLog:
    """One log under the ``keys`` that may sign for it (all of its origin's name), and its newest trusted checkpoint.

    Safe for several threads.
    """

    def __init__(self, keys: Iterable[NoteKey]) -> None:
        self._keys = tuple(keys)
        names = {key.name for key in self._keys}
        if len(names) != 1:
            raise ValueError("log_key: must be one or more keys of one log")
        self.origin = names.pop()
        self.newest: SignedCheckpoint | None = None
        self._lock = Lock()
        # One batch of the service answers many calls with one checkpoint.
        self._verified: OrderedDict[str, SignedCheckpoint] = OrderedDict()

    def checkpoint(self, note: str) -> SignedCheckpoint:
        """Return what ``note`` says once its signature is verified.

        Raises CheckpointRejected, or LogForked if it has another root than the newest trusted one of its size.
        """
        with self._lock:
            known = self._verified.get(note)
        if known is None:
            try:
                found = verify_checkpoint(note, self.origin, self._keys)
            except (MalformedError, ProofError) as error:
                raise CheckpointRejected(f"the checkpoint is refused: {error}") from error
            known = SignedCheckpoint(note, found.size, found.root)
            with self._lock:
                self._verified[note] = known
                if len(self._verified) > _REMEMBERED_NOTES:
                    self._verified.popitem(last=False)
        held = self.newest
        if held is not None and held.size == known.size and held.root != known.root:
            raise LogForked(f"two signed trees of {known.size} entries", held.note, note)
        return known

    def logged(self, index: int, raw: bytes, proof: bytes, checkpoint: SignedCheckpoint) -> Logged:
        """Return the entry ``raw`` once it is shown to be number ``index`` under ``checkpoint``.

        Raises AnswerMalformed or InclusionUnproven.
        """
        hashes = split_hashes(proof, "proof")
        leaf = leaf_hash(raw)
        try:
            verify_inclusion(leaf, index, checkpoint.size, hashes, checkpoint.root)
        except ProofError as error:
            raise InclusionUnproven(f"entry {index}: {error}") from error
        try:
            entry = parse_entry(raw)
        except MalformedError as error:
            raise AnswerMalformed(f"entry {index} is in the log but is none: {error}") from error
        return Logged(index, raw, entry, leaf, hashes, checkpoint)

    def advance(self, held: SignedCheckpoint | None, offered: SignedCheckpoint) -> bool:
        """Trust ``offered`` from now on, unless another checkpoint than ``held`` is trusted by now; say whether."""
        with self._lock:
            if self.newest is not held:
                return False
            self.newest = offered
            return True


class TableChain:
    """One table's entries as a caller saw them, held together by their `prev` members.

    An entry names the leaf hash of the table's entry before it. So whoever has shown one entry to be in the trusted
    log has shown all those that lead to it, whatever checkpoints they were first seen under. ``loose`` are entries
    after which the chain was broken for this caller, since others have written at the table meanwhile.
    """

    def __init__(self) -> None:
        self.head: Logged | None = None
        self.loose: list[Logged] = []

    def add(self, logged: Logged, entry: HandEntry) -> None:
        """Take in an entry of this table. Raises LogForked if its index was shown with another entry before."""
        for known in (self.head, *self.loose):
            if known is not None and known.index == logged.index:
                if known.leaf != logged.leaf:
                    raise LogForked(
                        f"two different entries {logged.index}", known.checkpoint.note, logged.checkpoint.note
                    )
                return
        if self.head is None or entry.prev == self.head.leaf:
            self.head = logged
        elif logged.index < self.head.index:
            self.loose.append(logged)  # the answer to a repeated call
        else:
            self.loose.append(self.head)
            self.head = logged
