"""Steps 4 and 9: from a hand's seed to a byte stream, and from the stream to an order or to numbers.

Nothing here is random: the same seed and context always give the same order. The byte rule (`fisher_yates`) takes its
bytes from any stream, so that it can be proved uniform by feeding it every possible string. Page: `hand-protocol.md`.
"""

from collections.abc import Callable, Sequence
from struct import pack, unpack
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rngsvc.protocol.commitment import HASH_BYTES, MAX_ITEMS, MAX_SHUFFLES, SEED_BYTES
from rngsvc.protocol.errors import MalformedError, StreamExhaustedError
from rngsvc.protocol.octets import sha256, u16, u64

STREAM_BYTES: Final = 65_536  # one Generate request, 2**19 bits: the most that SP 800-90A allows
MAX_DRAWS: Final = 1024
MAX_MODULUS: Final = 2**53 - 1
MAX_PURPOSE_BYTES: Final = 64

# The largest multiple of m that a draw of one or two bytes reaches; index m, where 0 is never asked for.
_BYTE_LIMITS: Final = (0, *(256 - 256 % m for m in range(1, 257)))
_PAIR_LIMITS: Final = (0, *(65_536 - 65_536 % m for m in range(1, MAX_ITEMS + 1)))

Refill = Callable[[int], bytes]
"""Gives the next that many bytes of a stream; raises StreamExhaustedError when there are no more."""

# AES-256 under the zero key of the counters 1, 2 and 3: what CTR_DRBG's Instantiate adds to its seed.
_INSTANTIATE: Final = int.from_bytes(
    Cipher(algorithms.AES256(bytes(32)), modes.ECB())  # noqa: S305  (the block cipher itself, as the mechanism says)
    .encryptor()
    .update(b"".join(i.to_bytes(16, "big") for i in (1, 2, 3))),
    "big",
)


def hkdf_sha512(key_material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """Return ``length`` bytes of HKDF-SHA-512 (RFC 5869), at most 255 * 64."""
    return HKDF(SHA512(), length, salt, info).derive(key_material)


class ByteStream:
    """The bytes of one CTR_DRBG Generate request, computed only as far as somebody asks.

    SP 800-90A, CTR_DRBG with AES-256 and no derivation function: Instantiate with ``seed48`` (48 bytes), then one
    Generate of 65,536 bytes.
    """

    def __init__(self, seed48: bytes) -> None:
        key_and_v = (int.from_bytes(seed48, "big") ^ _INSTANTIATE).to_bytes(SEED_BYTES, "big")
        first_counter = (int.from_bytes(key_and_v[32:], "big") + 1) % 2**128
        self._cipher: CipherContext = Cipher(
            algorithms.AES256(key_and_v[:32]), modes.CTR(first_counter.to_bytes(16, "big"))
        ).encryptor()
        self._left = STREAM_BYTES

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes, fewer at the very end; StreamExhaustedError when none is left."""
        count = min(count, self._left)
        if not count:
            raise StreamExhaustedError(f"the {STREAM_BYTES} bytes of this derivation are used up")
        self._left -= count
        return self._cipher.update(bytes(count))


def byte_stream(seed48: bytes, length: int) -> bytes:
    """Step 4. Return the first ``length`` (0..65536) bytes of the stream that ``seed48`` (48 bytes) gives."""
    if len(seed48) != SEED_BYTES:
        raise MalformedError("seed48", f"must be {SEED_BYTES} bytes")
    if not 0 <= length <= STREAM_BYTES:
        raise MalformedError("length", f"must be 0..{STREAM_BYTES}")
    return ByteStream(seed48).take(length) if length else b""


def permute(seed: bytes, context: bytes, k: int, items: Sequence[int]) -> tuple[list[int], int]:
    """Step 4. Return the order into which shuffle ``k`` brings ``items``, and how many stream bytes it used.

    ``seed`` is the hand's 48 bytes, ``context`` HC_k, ``items`` the input list (1..1020 item numbers). The order's
    place 0 is dealt first. Raises MalformedError, or StreamExhaustedError (less likely than any hardware fault).
    """
    if len(seed) != SEED_BYTES:
        raise MalformedError("seed", f"must be {SEED_BYTES} bytes")
    if len(context) != HASH_BYTES:
        raise MalformedError("context", f"must be {HASH_BYTES} bytes")
    if not 0 <= k < MAX_SHUFFLES:
        raise MalformedError("k", f"must be 0..{MAX_SHUFFLES - 1}")
    n = len(items)
    if not 1 <= n <= MAX_ITEMS:
        raise MalformedError("items", f"must be 1..{MAX_ITEMS} of them")
    if min(items) < 0 or max(items) >= MAX_ITEMS:
        raise MalformedError("items", f"must be 0..{MAX_ITEMS - 1} each")
    item_list = pack(f">{n}H", *items)
    seed48 = hkdf_sha512(seed, context, b"rs1/shuffle" + u16(k) + u16(n) + sha256(item_list), SEED_BYTES)
    return fisher_yates(items, ByteStream(seed48).take)


def fisher_yates(items: Sequence[int], refill: Refill) -> tuple[list[int], int]:
    """Step 4's byte rule. Return the shuffled list and the number of bytes it used of the stream behind ``refill``.

    A draw is one byte up to 256 items, two bytes for a longer list. For i = n-1 down to 1, with m = i+1: the first draw
    below the largest multiple of m is reduced modulo m to j, and places i and j swap; draws above it are passed over.
    Not `draw % m` alone: 256 is no multiple of 52, so low places would come up more often.
    """
    order = list(items)
    m = len(order)
    width, limits = (1, _BYTE_LIMITS) if m <= 256 else (2, _PAIR_LIMITS)
    # Few draws are passed over (52 items: 2.6 on average), so that one request is nearly always enough.
    ahead = (m + m // 4) * width
    used = 0
    while m > 1:
        chunk = refill(ahead)
        for draw in chunk if width == 1 else unpack(f">{len(chunk) // 2}H", chunk):
            used += width
            if draw < limits[m]:
                j = draw % m
                m -= 1
                order[m], order[j] = order[j], order[m]
                if m == 1:
                    break
    return order, used


def draw_numbers(seed: bytes, context: bytes, purpose: bytes, modulus: int, count: int) -> list[int]:
    """Step 9. Return ``count`` (1..1024) numbers 0..modulus-1, with repetition, each equally likely.

    ``purpose`` (1..64 ASCII bytes) says what they are for, ``modulus`` is 1..2**53-1. Raises MalformedError or
    StreamExhaustedError.
    """
    if len(seed) != SEED_BYTES:
        raise MalformedError("seed", f"must be {SEED_BYTES} bytes")
    if len(context) != HASH_BYTES:
        raise MalformedError("context", f"must be {HASH_BYTES} bytes")
    if not (1 <= len(purpose) <= MAX_PURPOSE_BYTES and purpose.isascii()):
        raise MalformedError("purpose", f"must be 1..{MAX_PURPOSE_BYTES} ASCII bytes")
    if not 1 <= modulus <= MAX_MODULUS:
        raise MalformedError("modulus", "must be 1..2**53-1")
    if not 1 <= count <= MAX_DRAWS:
        raise MalformedError("count", f"must be 1..{MAX_DRAWS}")
    info = b"rs1/draw" + u16(count) + u64(modulus) + sha256(purpose)
    return words_below(modulus, count, ByteStream(hkdf_sha512(seed, context, info, SEED_BYTES)).take)


def words_below(modulus: int, count: int, refill: Refill) -> list[int]:
    """Step 9's word rule: 8-byte words of the stream behind ``refill``, those past the last whole multiple skipped."""
    limit = 2**64 - 2**64 % modulus
    values: list[int] = []
    while len(values) < count:
        chunk = refill(8 * (count - len(values)))
        values += [word % modulus for word in unpack(f">{len(chunk) // 8}Q", chunk) if word < limit]
    return values
