"""Cosignatures (C2SP tlog-cosignature, Ed25519): a witness says when he saw a checkpoint continue what he saw before.

A cosignature stands in the checkpoint's note as one more signature line, of type 0x04, whose bytes are the time and the
signature over time and text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.octets import u64
from rngsvc.protocol.signed_note import NoteKey, Signature, SignedNote, Signer, verify_ed25519

COSIGNATURE_V1: Final = 0x04  # the signature type byte
MAX_TIME_S: Final = 2**63 - 1


@dataclass(frozen=True)
class CosignerKey(NoteKey):
    """A witness: his name and raw Ed25519 public key. Never a log's own key."""

    signature_type: ClassVar = COSIGNATURE_V1


def cosigned_bytes(text: str, time_s: int) -> bytes:
    """Return what a witness signs: ``text`` is the checkpoint's three lines, ``time_s`` seconds since 1970."""
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def cosign(text: str, key: CosignerKey, signer: Signer, time_s: int) -> Signature:
    """Return the signature line by which ``key`` cosigns the checkpoint ``text`` at ``time_s`` (above 0)."""
    if not 0 < time_s <= MAX_TIME_S:
        raise MalformedError("time_s", f"must be 1..{MAX_TIME_S}")
    return Signature(key.name, key.key_id, u64(time_s) + signer(cosigned_bytes(text, time_s)))


def cosignatures(note: SignedNote, keys: Iterable[CosignerKey]) -> dict[CosignerKey, int]:
    """Return which of ``keys`` have cosigned ``note``, and when (seconds since 1970).

    Lines of other keys are ignored; a wrong one of a known key raises ProofError.
    """
    known = {(key.name, key.key_id): key for key in keys}
    found = {}
    for line in note.signatures:
        key = known.get((line.name, line.key_id))
        if key is None:
            continue
        time_s = int.from_bytes(line.signature[:8], "big")
        if len(line.signature) != 8 + 64 or not 0 < time_s <= MAX_TIME_S:
            raise ProofError(f"the cosignature of {key.name} is not a time and an Ed25519 signature")
        message = cosigned_bytes(note.text, time_s)
        verify_ed25519(key.public_key, line.signature[8:], message, f"the cosignature of {key.name}")
        found[key] = time_s
    return found
