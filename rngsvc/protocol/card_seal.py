"""Step 5: the seal that fixes every card of a shuffle before the first one is shown.

Each place gets its own salted leaf, so that opening one card tells nothing about the others; the root is one flat hash
over all leaves, which the holder of the leaf list checks without paths. Page: `hand-protocol.md`.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256 as _sha256
from struct import unpack
from typing import Final

from rngsvc.protocol.commitment import MAX_ITEMS, MAX_SHUFFLES
from rngsvc.protocol.derivation import hkdf_sha512
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.octets import sha256, u16

SALT_BYTES: Final = 16

_U16: Final = tuple(u16(value) for value in range(MAX_ITEMS))


def salts(seed: bytes, context: bytes, k: int, n: int) -> bytes:
    """Step 5. Return the ``n`` salts of shuffle ``k``, 16 bytes each, place 0 first; ``context`` is HC_k."""
    return hkdf_sha512(seed, context, b"rs1/salt" + u16(k), SALT_BYTES * n)


def card_leaf(k: int, p: int, item: int, salt: bytes) -> bytes:
    """Step 5. Return the leaf of ``item`` at place ``p`` of shuffle ``k``: what an opening is checked against."""
    if len(salt) != SALT_BYTES:
        raise MalformedError("salt", f"must be {SALT_BYTES} bytes")
    return sha256(b"\x00", b"rs1/card", u16(k), u16(p), u16(item), salt)


def seal(k: int, order: Sequence[int], salts: bytes) -> list[bytes]:
    """Step 5. Return the leaf of every place, place 0 first: ``card_leaf(k, p, order[p], salts[16*p : 16*p + 16])``."""
    n = len(order)
    salt_of = unpack("16s" * n, salts)
    # The busiest line of the service: one hash a card, its fields joined without a call per card.
    return [
        _sha256(prefix + _U16[item] + salt).digest()
        for prefix, item, salt in zip(_place_prefixes(k), order, salt_of, strict=False)
    ]


def cards_root(k: int, leaves: Sequence[bytes]) -> bytes:
    """Step 5. Return R_k, the root over all leaves of shuffle ``k``."""
    return sha256(b"\x13", b"rs1/cards", u16(k), u16(len(leaves)), *leaves)


@lru_cache(maxsize=MAX_SHUFFLES)
def _place_prefixes(k: int) -> tuple[bytes, ...]:
    """Return what a leaf of shuffle ``k`` begins with, for every possible place."""
    return tuple(b"\x00" + b"rs1/card" + u16(k) + u16(p) for p in range(MAX_ITEMS))
