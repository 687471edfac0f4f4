"""A player's own entropy for one hand: promised blind, given only for a commitment that he has verified himself.

Nothing here trusts the dealer. The player pins the log's key and his own count of the table's hands; the document that
he is shown is checked by `rngsvc.protocol.verify`, offline. Steps 1 and 2 of the hand protocol.
"""

import json
import secrets
from typing import Final

from rngsvc.protocol.commitment import promise
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.verify import Outcome, verify

SEED_BYTES: Final = 32

# What a document of table, reserve and promise entries must show before a seed is worth giving. Other entries of the
# table may stand between them, so "chain" may end without a verdict; no step at all may fail.
_NEEDED: Final = ("document", "entries", "keys", "checkpoints", "inclusion")


class OwnSeed:
    """One player's fresh secret for hand ``seq`` at ``table``; ``log_key`` is the verifier key that he pins."""

    def __init__(self, contributor: bytes, log_key: str, table: bytes, seq: int) -> None:
        self.contributor = contributor
        self._log_key = log_key
        self._table = table
        self._seq = seq
        self._seed = secrets.token_bytes(SEED_BYTES)

    @property
    def promise(self) -> bytes:
        """What may be shown at once: 32 bytes that bind the player to his seed and tell nothing of it."""
        origin = NoteKey.from_vkey(self._log_key).name
        return promise(origin, self._table, self._seq, self.contributor, self._seed)

    def reveal(self, document: bytes) -> bytes:
        """Return the seed, once ``document`` shows the hand's reserve and this player's promise in the log.

        ``document`` is the hand's receipt so far, as the dealer hands it out. ProofError if it shows anything less.
        """
        report = verify(self.with_own(document), self._log_key).require()
        missing = [step for step in _NEEDED if report.step(step).outcome is not Outcome.CHECKED]
        # A promise that is another, or not there, fails the step "own"; more it cannot show before the seal.
        if missing or report.step("own").outcome is Outcome.FAILED:
            raise ProofError(f"the reserve and promise entries are not shown: {', '.join(missing)}")
        return self._seed

    def with_own(self, document: bytes) -> bytes:
        """Return a receipt of this hand with the holder's own id and seed in it, for his own files only.

        ProofError if the document is of another hand.
        """
        try:
            members = json.loads(document)
        except ValueError as error:
            raise ProofError(f"the document is no JSON: {error}") from error
        if (members.get("table"), members.get("seq")) != (self._table.hex(), self._seq):
            raise ProofError(f"the document is not of hand {self._seq} at table {self._table.hex()}")
        return json.dumps({**members, "own": {"id": self.contributor.hex(), "seed": self._seed.hex()}}).encode()
