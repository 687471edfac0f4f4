"""The log's signing keys: which one is in force, who signs a checkpoint, and the change from one key to the next.

A change is an entry of the log that both keys have signed. From the checkpoint that covers it on the new key signs,
and for `OLD_KEY_MS` the old one too, so that whoever knows only the old key has that long to follow.
"""

from dataclasses import dataclass

from rngsvc.log import Log
from rngsvc.ports import Signer
from rngsvc.protocol.checkpoint import Checkpoint, verify_checkpoint
from rngsvc.protocol.entries import OLD_KEY_MS, KeyEntry, parse_entry
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.sequencer import Batch


class KeysRefused(Exception):
    """The keys that are configured are not those that the log needs now, or the log's changes of key do not hold."""


@dataclass(slots=True)
class LogKeys:
    """The keys of the log ``origin``: ``signer`` is to sign it, ``previous`` signed it before.

    ``changes`` are the log's `key` entries in order, each verified.
    """

    origin: str
    signer: Signer
    previous: Signer | None
    changes: list[KeyEntry]
    _first: bytes

    @classmethod
    async def load(cls, origin: str, log: Log, signer: Signer, previous: Signer | None, now_ms: int) -> "LogKeys":
        """Read the changes that ``log`` holds. Raises KeysRefused unless signer and previous are the right ones."""
        changes = await _changes(origin, log)
        keys = cls(origin, signer, previous, changes, changes[0].old if changes else signer.public_key)
        head = log.head
        if head and not changes and previous and _has_signed(origin, previous, head.checkpoint):
            keys._first = previous.public_key
        keys._check(max(now_ms, head.time if head else 0))
        return keys

    @property
    def first(self) -> NoteKey:
        """The log's first key, which everybody is given."""
        return NoteKey(self.origin, self._first)

    @property
    def current(self) -> NoteKey:
        """The key in force."""
        return NoteKey(self.origin, self.changes[-1].new if self.changes else self._first)

    @property
    def configured(self) -> list[NoteKey]:
        """The keys that this service can sign with."""
        signers = [self.signer, *([self.previous] if self.previous else ())]
        return [NoteKey(self.origin, each.public_key) for each in signers]

    @property
    def change_is_due(self) -> bool:
        """Whether ``signer`` is not in force yet: `change` makes it so."""
        return self.current.public_key != self.signer.public_key

    def change(self, batch: Batch) -> int:
        """A step of the sequencer: log the change to ``signer``; return the position of its entry."""
        assert self.previous, "checked: the key in force is the one or the other"
        old, new = self.previous.public_key, self.signer.public_key
        message = KeyEntry.signed_bytes(self.origin, old, new)
        sigs = (self.previous.sign(message), self.signer.sign(message))
        entry = KeyEntry(time=batch.time, old=old, new=new, sigs=sigs)
        position, _ = batch.append(entry.type, entry.encode())
        self.changes.append(entry)
        batch.undo.append(self._undo_change)
        return position

    def _undo_change(self) -> None:
        self.changes.pop()

    def sign(self, size: int, root: bytes, time_ms: int) -> bytes:
        """Return the checkpoint whose last entry has ``time_ms``, signed by each key that must sign it, as a note."""
        note = SignedNote(Checkpoint(self.origin, size, root).text, ())
        for each in self._signers(time_ms):
            note = note.with_signature(NoteKey(self.origin, each.public_key), each.sign)
        return note.encode().encode()

    def _signers(self, time_ms: int) -> list[Signer]:
        if not self.change_is_due:
            return [self.signer, *([self.previous] if self.previous and self._old_key_signs(time_ms) else ())]
        assert self.previous, "checked: the key in force is the one or the other"
        return [self.previous]

    def _old_key_signs(self, time_ms: int) -> bool:
        return bool(self.changes) and time_ms <= self.changes[-1].time + OLD_KEY_MS

    def _check(self, now_ms: int) -> None:
        current, previous = self.current.public_key, self.previous.public_key if self.previous else None
        if current not in (self.signer.public_key, previous):
            raise KeysRefused(
                f"the log's key is {current.hex()}; signing_key is {self.signer.public_key.hex()}, previous_signing_key"
                f" {previous.hex() if previous else 'not set'}: one of them must be the log's"
            )
        if self.change_is_due and any(self.signer.public_key == each.old for each in self.changes):
            raise KeysRefused(f"signing_key {self.signer.public_key.hex()} was replaced before and cannot come back")
        if not self.change_is_due and self._old_key_signs(now_ms) and previous != self.changes[-1].old:
            raise KeysRefused(
                f"previous_signing_key must be {self.changes[-1].old.hex()}: for 30 days after a change checkpoints"
                " carry the old key's signature too"
            )


async def _changes(origin: str, log: Log) -> list[KeyEntry]:
    changes: list[KeyEntry] = []
    for position, raw in (await log.entries_at(log.key_positions)).items():
        try:
            entry = parse_entry(raw)
            if not isinstance(entry, KeyEntry):
                raise ProofError("is of another type")
            if changes and entry.old != changes[-1].new:
                raise ProofError("does not follow the key before it")
            entry.verify(origin)
        except (MalformedError, ProofError) as error:
            raise KeysRefused(f"the log's key entry {position}: {error}") from None
        changes.append(entry)
    return changes


def _has_signed(origin: str, signer: Signer, note: bytes) -> bool:
    try:
        verify_checkpoint(note.decode(), origin, [NoteKey(origin, signer.public_key)])
    except (UnicodeDecodeError, MalformedError, ProofError):
        return False
    return True
