"""Twin mode: the promise of a choice, and the choice between two sealed decks. The page is `twin-mode.md`.

Each deck is committed, derived and sealed by the functions of every other hand; what is new is who decides which one
is played: the contributors, with secrets that the service cannot know while it seals.
"""

from collections.abc import Sequence
from typing import Final

from rngsvc.protocol.commitment import (
    HASH_BYTES,
    MAX_CONTRIBUTION_BYTES,
    MAX_CONTRIBUTORS,
    MIN_CONTRIBUTION_BYTES,
    check_contributor,
    check_hand,
)
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.octets import sha256, u64

MIN_CHOICE_BYTES: Final = MIN_CONTRIBUTION_BYTES
MAX_CHOICE_BYTES: Final = MAX_CONTRIBUTION_BYTES

_NO_CHOICE: Final = bytes(HASH_BYTES)  # stands for H(choice) of a contributor who gave none


def promise_choice(origin: str, table: bytes, seq: int, contributor: bytes, choice: bytes) -> bytes:
    """Return Q, by which ``contributor`` (id, 1..64 bytes) promises his ``choice`` (32..64 bytes) for one hand."""
    check_hand(table, seq)
    check_contributor(contributor)
    _check_choice(choice)
    return sha256(b"\x15", b"rs1/choice", sha256(origin.encode("ascii")), table, u64(seq), sha256(contributor), choice)


def choice_digest(contexts: tuple[bytes, bytes], roots: tuple[bytes, bytes], choices: Sequence[bytes | None]) -> bytes:
    """Return D of the two decks' HC_0 and R_0, deck 0 first, and each contributor's choice; None if he gave none."""
    for name, pair in (("contexts", contexts), ("roots", roots)):
        if any(len(value) != HASH_BYTES for value in pair):
            raise MalformedError(name, f"must be {HASH_BYTES} bytes each")
    if len(choices) > MAX_CONTRIBUTORS:
        raise MalformedError("choices", f"must be 0..{MAX_CONTRIBUTORS} of them")
    hashes = []
    for choice in choices:
        if choice is not None:
            _check_choice(choice)
        hashes.append(_NO_CHOICE if choice is None else sha256(choice))
    return sha256(b"\x17", b"rs1/twin", contexts[0], roots[0], contexts[1], roots[1], *hashes)


def played_deck(digest: bytes) -> int:
    """Return 0 or 1, the deck that D tells to play: the lowest bit of its last byte."""
    return digest[-1] & 1


def _check_choice(choice: bytes) -> None:
    if not MIN_CHOICE_BYTES <= len(choice) <= MAX_CHOICE_BYTES:
        raise MalformedError("choice", f"must be {MIN_CHOICE_BYTES}..{MAX_CHOICE_BYTES} bytes")
