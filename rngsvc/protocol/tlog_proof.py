"""Offline proofs of inclusion (C2SP tlog-proof): index, sibling hashes and the signed checkpoint in one text.

We write no `extra` line and refuse one: it is not authenticated, and nothing of ours would read it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rngsvc.protocol.checkpoint import Checkpoint, parse_decimal, verify_checkpoint
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.merkle import verify_inclusion
from rngsvc.protocol.signed_note import NoteKey, base64_bytes, base64_text

HEADER: Final = "c2sp.org/tlog-proof@v1"
MAX_HASHES: Final = 63


@dataclass(frozen=True)
class TlogProof:
    """Leaf number ``index`` is in the tree of ``checkpoint`` (a signed note); ``hashes`` rise from its sibling."""

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: str

    def encode(self) -> str:
        """Return the proof text."""
        hashes = "".join(f"{base64_text(each)}\n" for each in self.hashes)
        return f"{HEADER}\nindex {self.index}\n{hashes}\n{self.checkpoint}"

    @classmethod
    def parse(cls, text: str) -> "TlogProof":
        """Read a proof text strictly; the checkpoint in it is neither parsed nor verified yet."""
        head, blank, checkpoint = text.partition("\n\n")
        if not blank:
            raise MalformedError("proof", "must have an empty line before its checkpoint")
        lines = head.split("\n")
        if lines[0] != HEADER:
            raise MalformedError("proof", f'must begin with "{HEADER}"')
        if len(lines) < 2 or not lines[1].startswith("index "):
            raise MalformedError("proof", 'must have its "index" on the second line')
        index = parse_decimal(lines[1].removeprefix("index "), "proof.index")
        if len(lines) - 2 > MAX_HASHES:
            raise MalformedError("proof.hashes", f"must be at most {MAX_HASHES}")
        hashes = tuple(base64_bytes(line, f"proof.hashes[{i}]") for i, line in enumerate(lines[2:]))
        for i, each in enumerate(hashes):
            if len(each) != 32:
                raise MalformedError(f"proof.hashes[{i}]", "must be 32 bytes")
        return cls(index, hashes, checkpoint)

    def verify(self, leaf: bytes, origin: str, keys: Iterable[NoteKey]) -> Checkpoint:
        """Return the checkpoint once one of ``keys`` has signed it and the leaf hash ``leaf`` is shown to be in it.

        Raises MalformedError or ProofError.
        """
        checkpoint = verify_checkpoint(self.checkpoint, origin, keys)
        verify_inclusion(leaf, self.index, checkpoint.size, self.hashes, checkpoint.root)
        return checkpoint
