"""What one caller holds of the log: the newest checkpoint that he trusts, and what follows from it.

Bytes come in, a verdict goes out; nothing here calls the service. `TrustedLog` is for the whole log, `TableChain` for
one table's entries.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Final

from rngsvc.client.errors import AnswerMalformed, CheckpointRejected, InclusionUnproven, LogForked, UnknownLogKey
from rngsvc.protocol.checkpoint import Checkpoint, verify_checkpoint
from rngsvc.protocol.entries import Entry, HandEntry, KeyEntry, parse_entry
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import leaf_hash, verify_inclusion
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.tlog_proof import TlogProof
from rngsvc.proven_hand import Placed, entry_of

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
    """One log, its newest trusted checkpoint, and the key that must sign for it at each size.

    One of ``keys`` (all of its origin's name) is, or was, the log's key; `follow` leads from it to later ones.
    ``key_entries`` are the log's changes of key as far as they are known here, each proven. Safe for several threads.
    """

    def __init__(self, keys: Iterable[NoteKey]) -> None:
        self._keys = tuple(keys)
        names = {key.name for key in self._keys}
        if len(names) != 1:
            raise ValueError("log_key: must be one or more keys of one log")
        self.origin = names.pop()
        self.newest: SignedCheckpoint | None = None
        self.key_entries: tuple[Logged, ...] = ()
        self._lock = Lock()
        # One batch of the service answers many calls with one checkpoint.
        self._verified: OrderedDict[str, SignedCheckpoint] = OrderedDict()

    def checkpoint(self, note: str) -> SignedCheckpoint:
        """Return what ``note`` says once its signature is verified.

        Raises CheckpointRejected, UnknownLogKey if it is signed with a key that is not known yet, or LogForked if it
        has another root than the newest trusted one of its size.
        """
        with self._lock:
            known = self._verified.get(note)
        if known is None:
            try:
                found = self._verified_checkpoint(note)
            except UnknownLogKey:
                raise
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

    def _verified_checkpoint(self, note: str) -> Checkpoint:
        signed = SignedNote.parse(note)
        known = {key.key_id for key in (*self._keys, *(key for _, key in self._changes()))}
        for line in signed.signatures:
            # The old key's signature alone would do for somebody who does not look at the others.
            if line.name == self.origin and line.key_id not in known:
                raise UnknownLogKey(f"the checkpoint is signed with key {line.key_id.hex()}, which is not the log's")
        in_force = self._keys
        for index, key in self._changes():
            if index < Checkpoint.parse(signed.text).size:
                in_force = (key,)
        return verify_checkpoint(note, self.origin, in_force)

    def _changes(self) -> list[tuple[int, NoteKey]]:
        """Return the keys that the changes lead through, each with the index after which it is in force."""
        entries = [(each.index, entry_of(each, KeyEntry)) for each in self.key_entries]
        first = [(-1, NoteKey(self.origin, entry.old)) for _, entry in entries[:1]]
        return first + [(index, NoteKey(self.origin, entry.new)) for index, entry in entries]

    def follow(self, note: str, offered: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Take in the log's changes of key: (index, entry, inclusion proof) of each, all under the checkpoint ``note``.

        They lead from key to key, past one that is trusted, to the one that must have signed ``note``. Raises
        CheckpointRejected, InclusionUnproven, or LogForked if a change that is known is not among them.
        """
        if len(offered) <= len(self.key_entries):
            return
        try:
            newest = _newest_key(self.origin, [parse_entry(raw) for _, raw, _ in offered], self._keys)
            found = verify_checkpoint(note, self.origin, [newest])
        except (MalformedError, ProofError) as error:
            raise CheckpointRejected(f"the change of the log's key is refused: {error}") from error
        checkpoint = SignedCheckpoint(note, found.size, found.root)
        logged = tuple(self.logged(*each, checkpoint) for each in offered)
        if any(before.index >= after.index for before, after in pairwise(logged)):
            raise AnswerMalformed("key_entries: must be in log order")
        for known, same in zip(self.key_entries, logged, strict=False):
            if (known.index, known.leaf) != (same.index, same.leaf):
                raise LogForked(f"two different key entries {known.index}", known.checkpoint.note, note)
        with self._lock:
            self.key_entries = logged
            # What the old key has signed beyond the change counts no more.
            self._verified.clear()

    def key_entries_for(self, entries: Iterable[Logged]) -> tuple[Logged, ...]:
        """Return the changes of key without which nobody can check the signatures over ``entries``: all or none."""
        size = max((each.checkpoint.size for each in entries), default=0)
        return self.key_entries if any(each.index < size for each in self.key_entries) else ()

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


def _newest_key(origin: str, entries: Sequence[Entry], trusted: Sequence[NoteKey]) -> NoteKey:
    """Return the key that ``entries`` lead to; ProofError unless they are changes of key that follow each other."""
    keys: list[bytes] = []
    for entry in entries:
        if not isinstance(entry, KeyEntry):
            raise ProofError(f"a {entry.type} entry is none")
        if keys and entry.old != keys[-1]:
            raise ProofError("a key entry does not follow the key before it")
        entry.verify(origin)
        keys += [entry.new] if keys else [entry.old, entry.new]
    if not any(key.public_key in keys for key in trusted):
        raise ProofError("no key entry follows a key that is trusted")
    return NoteKey(origin, keys[-1])


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
