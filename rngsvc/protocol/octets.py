"""The few ways in which `rs1` turns numbers and bytes into bytes: big-endian integers and SHA-256.

Every other module of this package joins its fields with these, so that a page line such as
``H(0x13 || "rs1/cards" || u16 k || ...)`` reads the same in the code.
"""

import hashlib


def u8(value: int) -> bytes:
    """Return ``value`` (0..255) as one byte; OverflowError outside."""
    return value.to_bytes(1, "big")


def u16(value: int) -> bytes:
    """Return ``value`` (0..65535) as two bytes, big-endian; OverflowError outside."""
    return value.to_bytes(2, "big")


def u64(value: int) -> bytes:
    """Return ``value`` (0..2**64-1) as eight bytes, big-endian; OverflowError outside."""
    return value.to_bytes(8, "big")


def sha256(*parts: bytes) -> bytes:
    """Return H(part || part || ...), 32 bytes."""
    return hashlib.sha256(b"".join(parts)).digest()
