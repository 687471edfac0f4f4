"""An independent witness (C2SP tlog-witness): checks that a log only grows, and cosigns.

It keeps, for each log that it is configured for, the newest checkpoint that it has cosigned, and cosigns another only
with a proof that this one continues. So a log that shows two histories finds no witness for the second. It knows
nothing of cards. Bytes in, an HTTP answer out; the state's one verb compares and swaps durably.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from rngsvc.protocol.checkpoint import Checkpoint, parse_decimal
from rngsvc.protocol.cosignature import CosignerKey, cosign
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import EMPTY_ROOT, verify_consistency
from rngsvc.protocol.signed_note import NoteKey, SignedNote, Signer, base64_bytes, base64_text

MAX_PROOF_LINES: Final = 63
MAX_REQUEST_BYTES: Final = 65_536
TEXT: Final = "text/plain; charset=utf-8"
SIZE: Final = "text/x.tlog.size"


@dataclass(frozen=True)
class Answer:
    """An HTTP status, body and content type."""

    status: int
    body: str
    content_type: str = TEXT


@dataclass(frozen=True)
class Seen:
    """The newest cosigned checkpoint of a log, as the note that proves it."""

    size: int
    root: bytes
    note: str


class State(Protocol):
    """What a witness remembers. It must survive everything, or the witness would cosign a fork."""

    def newest(self, origin: str) -> Seen | None:
        """Return the newest cosigned checkpoint of that log, None if there is none."""

    def swap(self, origin: str, old: Seen | None, new: Seen) -> bool:
        """Replace ``old`` by ``new`` durably if ``old`` is still the newest; say whether it was."""


class Witness:
    """A witness for the logs whose keys it is given, by origin; ``now_s`` gives seconds since 1970."""

    def __init__(
        self,
        key: CosignerKey,
        signer: Signer,
        logs: Mapping[str, Sequence[NoteKey]],
        state: State,
        now_s: Callable[[], int],
    ) -> None:
        self.key = key
        self._signer = signer
        self._logs = logs
        self._state = state
        self._now_s = now_s

    def add_checkpoint(self, body: bytes) -> Answer:
        """Answer a POST to add-checkpoint."""
        try:
            old_size, proof, note = parse_request(body)
            checkpoint = Checkpoint.parse(note.text)
        except MalformedError as error:
            return Answer(400, f"{error}\n")
        keys = self._logs.get(checkpoint.origin)
        if keys is None:
            return Answer(404, "this witness does not know the log\n")
        try:
            note.verified(keys)
        except (MalformedError, ProofError) as error:
            return Answer(403, f"{error}\n")
        if old_size > checkpoint.size:
            return Answer(400, "old: must not be above the checkpoint's size\n")
        return self._extend(old_size, proof, note, checkpoint)

    def _extend(self, old_size: int, proof: Sequence[bytes], note: SignedNote, checkpoint: Checkpoint) -> Answer:
        seen = self._state.newest(checkpoint.origin)
        if old_size != (seen.size if seen else 0):
            return Answer(409, f"{seen.size if seen else 0}\n", SIZE)
        try:
            _check_grows(seen, checkpoint, proof)
        except ProofError as error:
            return Answer(422, f"{error}\n")
        line = cosign(note.text, self.key, self._signer, self._now_s())
        by_log = tuple(each for each in note.signatures if self._is_log_line(checkpoint.origin, each.name, each.key_id))
        cosigned = SignedNote(note.text, (*by_log, line))
        # Remembered before it is said: a cosignature that we forgot would let the log take it back.
        if not self._state.swap(checkpoint.origin, seen, Seen(checkpoint.size, checkpoint.root, cosigned.encode())):
            newest = self._state.newest(checkpoint.origin)
            return Answer(409, f"{newest.size if newest else 0}\n", SIZE)
        return Answer(200, line.encode())

    def checkpoint(self, origin_hash: str) -> Answer:
        """Answer a GET of the newest cosigned checkpoint; ``origin_hash`` is SHA-256 of the origin in hex."""
        for origin in self._logs:
            if sha256(origin.encode()).hexdigest() == origin_hash:
                seen = self._state.newest(origin)
                if seen:
                    return Answer(200, seen.note)
        return Answer(404, "nothing cosigned for such a log\n")

    def _is_log_line(self, origin: str, name: str, key_id: bytes) -> bool:
        return any((name, key_id) == (key.name, key.key_id) for key in self._logs[origin])


def parse_request(body: bytes) -> tuple[int, list[bytes], SignedNote]:
    """Return old size, consistency proof and note of an add-checkpoint body; MalformedError names what is wrong."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise MalformedError("body", "must be UTF-8") from None
    head, blank, note = text.partition("\n\n")
    if not blank:
        raise MalformedError("body", "must have an empty line before the checkpoint")
    first, *lines = head.split("\n")
    if not first.startswith("old "):
        raise MalformedError("body", 'must begin with "old " and a size')
    if len(lines) > MAX_PROOF_LINES:
        raise MalformedError("proof", f"must be at most {MAX_PROOF_LINES} lines")
    proof = [base64_bytes(line, f"proof[{i}]") for i, line in enumerate(lines)]
    return parse_decimal(first.removeprefix("old "), "old"), proof, SignedNote.parse(note)


def request_body(old_size: int, proof: Sequence[bytes], note: str) -> bytes:
    """Return the body that asks a witness who has cosigned ``old_size`` entries to cosign ``note``."""
    lines = "".join(f"{base64_text(each)}\n" for each in proof)
    return f"old {old_size}\n{lines}\n{note}".encode()


def _check_grows(seen: Seen | None, checkpoint: Checkpoint, proof: Sequence[bytes]) -> None:
    """Raise ProofError unless ``checkpoint`` continues what was ``seen``."""
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise ProofError("an empty tree has another root")
    if seen is None or seen.size == 0:
        if proof:
            raise ProofError("from the empty tree the proof is empty")
        return
    verify_consistency(seen.size, seen.root, checkpoint.size, checkpoint.root, proof)
