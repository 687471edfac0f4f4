"""Steps 1, 2, 3 and 7: commitment, promises, contributions and the contexts that bind a hand together.

Pure functions of bytes. Type bytes 0x10..0x14 keep the hashes of different meanings apart; 0x00 and 0x01 belong to
Merkle trees. The page is `hand-protocol.md` beside this file.
"""

from collections.abc import Sequence
from typing import Final

from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.merkle import leaf_hash
from rngsvc.protocol.octets import sha256, u8, u16, u64

TABLE_BYTES: Final = 16
SEED_BYTES: Final = 48
HASH_BYTES: Final = 32
MAX_SEQ: Final = 2**53 - 1
MAX_ITEMS: Final = 1020
MAX_SHUFFLES: Final = 16  # k = 0..15: the shuffle and at most fifteen reshuffles
MAX_HANDS_A_RESERVE: Final = 64
MAX_HANDS_A_PROMISE: Final = 64
MAX_CONTRIBUTORS: Final = 16
MAX_CONTRIBUTOR_ID_BYTES: Final = 64
MIN_CONTRIBUTION_BYTES: Final = 32
MAX_CONTRIBUTION_BYTES: Final = 64
MIN_TTL_S: Final = 60
MAX_TTL_S: Final = 2_592_000
DEFAULT_TTL_S: Final = 86_400

_NO_SEED: Final = bytes(HASH_BYTES)  # stands for H(seed) of an absent contributor


def commit(table: bytes, seq: int, seed: bytes) -> bytes:
    """Step 1. Return C, the commitment to the 48-byte hand ``seed`` of hand ``seq`` at ``table`` (16 bytes)."""
    check_hand(table, seq)
    if len(seed) != SEED_BYTES:
        raise MalformedError("seed", f"must be {SEED_BYTES} bytes")
    return sha256(b"\x10", b"rs1/seed", table, u64(seq), seed)


def promise(origin: str, table: bytes, seq: int, contributor: bytes, seed: bytes) -> bytes:
    """Step 2. Return P, by which ``contributor`` (id, 1..64 bytes) promises ``seed`` (32..64 bytes) for one hand.

    ``origin`` is the log's name; with it the promise is worth nothing in another log.
    """
    check_hand(table, seq)
    check_contributor(contributor)
    _check_contribution(seed)
    return sha256(b"\x11", b"rs1/promise", sha256(origin.encode("ascii")), table, u64(seq), sha256(contributor), seed)


def contribution_leaf(i: int, contributor: bytes, seed: bytes | None) -> bytes:
    """Step 2. Return the Merkle leaf hash of contributor number ``i``; ``seed`` None says that he is absent."""
    check_contributor(contributor)
    if not 0 <= i < MAX_CONTRIBUTORS:
        raise MalformedError("i", f"must be 0..{MAX_CONTRIBUTORS - 1}")
    if seed is None:
        seed_hash = _NO_SEED
    else:
        _check_contribution(seed)
        seed_hash = sha256(seed)
    return leaf_hash(b"rs1/contribution" + u8(i) + sha256(contributor) + seed_hash)


def hand_context(
    origin: str, table: bytes, seq: int, commitment: bytes, contributions_root: bytes, pre: bytes
) -> bytes:
    """Step 3. Return HC_0.

    ``contributions_root`` is CR (`merkle.root_of` the contribution leaves, `merkle.EMPTY_ROOT` without any), ``pre``
    the leaf hash of the hand's promise entry, or of its reserve entry when nobody promised.
    """
    check_hand(table, seq)
    for name, value in (("commitment", commitment), ("contributions_root", contributions_root), ("pre", pre)):
        if len(value) != HASH_BYTES:
            raise MalformedError(name, f"must be {HASH_BYTES} bytes")
    origin_hash = sha256(origin.encode("ascii"))
    return sha256(b"\x12", b"rs1/hand", origin_hash, table, u64(seq), commitment, contributions_root, pre)


def reshuffle_context(
    previous_context: bytes, previous_root: bytes, k: int, locations: Sequence[tuple[int, int]]
) -> bytes:
    """Step 7. Return HC_k from HC_{k-1}, R_{k-1} and the ``locations`` (j, p) whose items are shuffled again.

    Raises MalformedError unless 1 <= k <= 15, every j < k, and the 1..1020 locations ascend strictly by j, then p.
    Whether a location exists and was not named before is the hand's business (`rngsvc.protocol.verify` checks it).
    """
    if not 1 <= k < MAX_SHUFFLES:
        raise MalformedError("k", f"must be 1..{MAX_SHUFFLES - 1}")
    if not 1 <= len(locations) <= MAX_ITEMS:
        raise MalformedError("locations", f"must be 1..{MAX_ITEMS} of them")
    before = (-1, -1)
    for j, p in locations:
        if not (0 <= j < k and 0 <= p < MAX_ITEMS and before < (j, p)):
            raise MalformedError("locations", f"must ascend strictly by shuffle, then place, with shuffles below {k}")
        before = (j, p)
    named = b"".join(u16(j) + u16(p) for j, p in locations)
    return sha256(b"\x14", b"rs1/reshuffle", previous_context, previous_root, u16(k), u16(len(locations)), named)


def check_hand(table: bytes, seq: int) -> None:
    """Raise MalformedError unless these can name a hand."""
    if len(table) != TABLE_BYTES:
        raise MalformedError("table", f"must be {TABLE_BYTES} bytes")
    if not 1 <= seq <= MAX_SEQ:
        raise MalformedError("seq", "must be 1..2**53-1")


def check_contributor(contributor: bytes) -> None:
    """Raise MalformedError unless this can be a contributor's id."""
    if not 1 <= len(contributor) <= MAX_CONTRIBUTOR_ID_BYTES:
        raise MalformedError("contributor", f"must be 1..{MAX_CONTRIBUTOR_ID_BYTES} bytes")


def _check_contribution(seed: bytes) -> None:
    if not MIN_CONTRIBUTION_BYTES <= len(seed) <= MAX_CONTRIBUTION_BYTES:
        raise MalformedError("seed", f"must be {MIN_CONTRIBUTION_BYTES}..{MAX_CONTRIBUTION_BYTES} bytes")
