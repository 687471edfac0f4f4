"""Step 8 under `escrow`: the hand's seed, encrypted to the table's auditor so that he alone can open it.

HPKE (RFC 9180), base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM; the info names the hand, there is no
associated data. Sealing draws an ephemeral key from the operating system, so that it is done once and stored.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from rngsvc.protocol.commitment import SEED_BYTES
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.octets import sha256, u64

ESCROW_BYTES: Final = 32 + SEED_BYTES + 16  # enc || ciphertext || tag

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def escrow_info(origin: str, table: bytes, seq: int, commitment: bytes) -> bytes:
    """Return the info that ties a ciphertext to one hand of one log."""
    return b"rs1/escrow" + sha256(origin.encode("ascii")) + table + u64(seq) + commitment


def seal_seed(seed: bytes, auditor: bytes, info: bytes) -> bytes:
    """Return enc || ct (96 bytes) of ``seed`` for the raw X25519 public key ``auditor``."""
    if len(seed) != SEED_BYTES:
        raise MalformedError("seed", f"must be {SEED_BYTES} bytes")
    try:
        return _SUITE.encrypt(seed, X25519PublicKey.from_public_bytes(auditor), info=info)
    except ValueError as error:
        raise MalformedError("auditor", "must be a raw X25519 public key that is no point of small order") from error


def open_seed(escrow: bytes, auditor: X25519PrivateKey, info: bytes) -> bytes:
    """Return the seed in ``escrow``; ProofError if this key and info do not open it."""
    if len(escrow) != ESCROW_BYTES:
        raise MalformedError("escrow", f"must be {ESCROW_BYTES} bytes")
    try:
        return _SUITE.decrypt(escrow, auditor, info=info)
    except (InvalidTag, ValueError) as error:
        raise ProofError("the escrow does not open with this key for this hand") from error
