"""Checkpoints (C2SP tlog-checkpoint): the size and root of a log's tree, signed as a note.

Our logs write no extension lines, so that the three lines are all there is and anything more is refused.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import (
    NoteKey,
    SignedNote,
    Signer,
    base64_bytes,
    base64_text,
    check_key_name,
    sign,
)

MAX_SIZE: Final = 2**53 - 1

_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


def parse_decimal(text: str, field: str) -> int:
    """Return the number 0..2**53-1 that ``text`` spells without leading zeros; MalformedError naming ``field``."""
    if not _DECIMAL.fullmatch(text) or int(text) > MAX_SIZE:
        raise MalformedError(field, "must be a decimal number 0..2**53-1 without leading zeros")
    return int(text)


@dataclass(frozen=True)
class Checkpoint:
    """A log called ``origin`` had ``size`` entries, and its tree the ``root`` (32 bytes)."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """Return the three lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64_text(self.root)}\n"

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """Read the three lines; MalformedError names the one that is wrong."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3]:
            raise MalformedError("checkpoint", "must be three lines: origin, size and root")
        check_key_name(lines[0], "checkpoint.origin")
        size = parse_decimal(lines[1], "checkpoint.size")
        root = base64_bytes(lines[2], "checkpoint.root")
        if len(root) != 32:
            raise MalformedError("checkpoint.root", "must be 32 bytes")
        return cls(lines[0], size, root)

    def sign(self, key: NoteKey, signer: Signer) -> str:
        """Return the checkpoint as a note signed by ``key``."""
        return sign(self.text, key, signer)


def verify_checkpoint(note: str, origin: str, keys: Iterable[NoteKey]) -> Checkpoint:
    """Return the checkpoint in ``note`` if it is of the log ``origin`` and one of ``keys`` has signed it.

    Raises MalformedError or ProofError.
    """
    checkpoint = Checkpoint.parse(SignedNote.parse(note).verified(keys))
    if checkpoint.origin != origin:
        raise ProofError(f"the checkpoint is of the log {checkpoint.origin}, not {origin}")
    return checkpoint
