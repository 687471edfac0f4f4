"""The deterministic random bit generators of NIST SP 800-90A Rev. 1: CTR_DRBG with AES-256, and HMAC_DRBG.

Pure mechanisms: entropy comes in as an argument, there is no clock, no I/O and no lock. When to reseed and where
entropy comes from is decided in `rngsvc.generator`. Security strength is 256 bits throughout.
"""

import hmac
from typing import Final, Literal, NoReturn, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC, CTR

STRENGTH_BYTES: Final = 32
"""Security strength, and so the least entropy input, in bytes."""

MOST_BYTES_PER_REQUEST: Final = 2**19 // 8
"""Most bytes that one `generate` may return (SP 800-90A, tables 2 and 3: 2^19 bits)."""

MOST_REQUESTS_PER_SEED: Final = 2**48
"""Most requests that one seed may answer (SP 800-90A, tables 2 and 3)."""

MOST_INPUT_BYTES: Final = 2**20
"""Most bytes of any input. The standard allows 2^35 bits; nothing here needs them, and this bound can be tested."""

_BLOCK: Final = 16
_KEY: Final = 32
_SEED: Final = _KEY + _BLOCK


class ReseedRequired(Exception):
    """The seed has answered as many requests as it may; nothing was generated."""


class Drbg(Protocol):
    """What both mechanisms can do once they are instantiated."""

    @property
    def requests_since_seed(self) -> int:
        """Return how many requests the present seed has answered."""

    def reseed(self, entropy: bytes, additional_input: bytes = b"") -> None:
        """Mix fresh `entropy` into the state and start counting requests anew."""

    def generate(self, n: int, additional_input: bytes = b"", *, fresh_entropy: bytes | None = None) -> bytes:
        """Return `n` bytes; with `fresh_entropy` the state is reseeded first (prediction resistance)."""


class CtrDrbg:
    """CTR_DRBG with AES-256 (SP 800-90A, 10.2.1).

    With the derivation function (the default): `entropy` of at least 32 bytes, a `nonce` of at least 16 bytes; entropy,
    nonce, personalisation and additional input of any length up to `MOST_INPUT_BYTES`. Without it: `entropy` of exactly
    48 bytes that must be full entropy, no nonce, and at most 48 bytes of personalisation and of additional input.

    Raises:
        ValueError: an input has a length that is not allowed.
    """

    __slots__ = ("_derives", "_key", "_requests", "_v")

    def __init__(
        self, entropy: bytes, nonce: bytes = b"", personalisation: bytes = b"", *, derivation_function: bool = True
    ) -> None:
        self._derives = derivation_function
        self._check_entropy(entropy)
        if derivation_function:
            _check_length("nonce", nonce, STRENGTH_BYTES // 2, MOST_INPUT_BYTES)
        elif nonce:
            raise ValueError("nonce: CTR_DRBG without derivation function takes none")
        self._check_input("personalisation", personalisation)
        self._key = bytes(_KEY)
        self._v = 0
        self._update(self._seed_material(entropy + nonce, personalisation))
        self._requests = 0

    def __reduce__(self) -> NoReturn:
        _refuse_copies()

    @property
    def requests_since_seed(self) -> int:
        """Return how many requests the present seed has answered."""
        return self._requests

    def reseed(self, entropy: bytes, additional_input: bytes = b"") -> None:
        """Mix fresh `entropy` into the state and start counting requests anew (10.2.1.4).

        Raises:
            ValueError: an input has a length that is not allowed; the state is unchanged.
        """
        self._check_entropy(entropy)
        self._check_input("additional_input", additional_input)
        self._update(self._seed_material(entropy, additional_input))
        self._requests = 0

    def generate(self, n: int, additional_input: bytes = b"", *, fresh_entropy: bytes | None = None) -> bytes:
        """Return `n` bytes, 1 to `MOST_BYTES_PER_REQUEST` (10.2.1.5).

        With `fresh_entropy` the state is reseeded with it and `additional_input` first (prediction resistance).

        Raises:
            ReseedRequired: the seed has answered `MOST_REQUESTS_PER_SEED` requests.
            ValueError: `n` or an input has a length that is not allowed; the state is unchanged.
        """
        _check_request(n)
        self._check_input("additional_input", additional_input)
        if fresh_entropy is not None:
            self.reseed(fresh_entropy, additional_input)
            additional_input = b""  # 9.3.1, step 7.4: what the reseed has taken in is not used again.
        _check_seed_age(self._requests)
        update_with = bytes(_SEED)
        if additional_input:
            update_with = self._seed_material(b"", additional_input)
            self._update(update_with)
        # One run of the counter serves the output and, behind it, the update that hides what produced the output.
        output_bytes = -(-n // _BLOCK) * _BLOCK
        stream = self._keystream(output_bytes + _SEED)
        self._set_state(_xor(stream[output_bytes:], update_with))
        self._requests += 1
        return stream[:n]

    def _check_entropy(self, entropy: bytes) -> None:
        if self._derives:
            _check_length("entropy", entropy, STRENGTH_BYTES, MOST_INPUT_BYTES)
        else:
            _check_length("entropy", entropy, _SEED, _SEED)

    def _check_input(self, name: str, value: bytes) -> None:
        _check_length(name, value, 0, MOST_INPUT_BYTES if self._derives else _SEED)

    def _seed_material(self, entropy: bytes, other: bytes) -> bytes:
        if self._derives:
            return derive(entropy + other, _SEED)
        return _xor(entropy.ljust(_SEED, b"\0"), other.ljust(_SEED, b"\0"))

    def _update(self, seed_material: bytes) -> None:
        """CTR_DRBG_Update (10.2.1.2)."""
        self._set_state(_xor(self._keystream(_SEED), seed_material))

    def _set_state(self, key_and_v: bytes) -> None:
        self._key = key_and_v[:_KEY]
        self._v = int.from_bytes(key_and_v[_KEY:])

    def _keystream(self, n: int) -> bytes:
        """Encrypt V+1, V+2, ... The caller replaces V by what it makes of the last three blocks."""
        first = (self._v + 1) % 2 ** (8 * _BLOCK)
        return Cipher(AES256(self._key), CTR(first.to_bytes(_BLOCK))).encryptor().update(bytes(n))


def derive(inputs: bytes, n: int) -> bytes:
    """Return `n` bytes (up to 64) by Block_Cipher_df with AES-256 (SP 800-90A, 10.3.2)."""
    # Steps 2 to 5: S = L || N || input_string || 0x80, padded with zeros to whole blocks.
    s = len(inputs).to_bytes(4) + n.to_bytes(4) + inputs + b"\x80"
    s += bytes(-len(s) % _BLOCK)
    # Steps 7 to 9: BCC (10.3.3) is the last block of CBC encryption from a zero block.
    key = bytes(range(_KEY))
    chained = b"".join(
        Cipher(AES256(key), CBC(bytes(_BLOCK))).encryptor().update(i.to_bytes(4) + bytes(_BLOCK - 4) + s)[-_BLOCK:]
        for i in range(_SEED // _BLOCK)
    )
    # Steps 10 to 15: X, E(X), E(E(X)) ... is CBC encryption of zero blocks from X.
    return Cipher(AES256(chained[:_KEY]), CBC(chained[_KEY:])).encryptor().update(bytes(-(-n // _BLOCK) * _BLOCK))[:n]


class HmacDrbg:
    """HMAC_DRBG with SHA-256 or SHA-512 (SP 800-90A, 10.1.2).

    `entropy` of at least 32 bytes and a `nonce` of at least 16 bytes; all inputs up to `MOST_INPUT_BYTES`.

    Raises:
        ValueError: an input has a length that is not allowed.
    """

    __slots__ = ("_hash", "_key", "_requests", "_v")

    def __init__(
        self,
        entropy: bytes,
        nonce: bytes,
        personalisation: bytes = b"",
        *,
        hash_name: Literal["sha256", "sha512"] = "sha512",
    ) -> None:
        _check_length("entropy", entropy, STRENGTH_BYTES, MOST_INPUT_BYTES)
        _check_length("nonce", nonce, STRENGTH_BYTES // 2, MOST_INPUT_BYTES)
        _check_length("personalisation", personalisation, 0, MOST_INPUT_BYTES)
        self._hash: Literal["sha256", "sha512"] = hash_name
        size = {"sha256": 32, "sha512": 64}[hash_name]
        self._key = bytes(size)
        self._v = b"\x01" * size
        self._update(entropy + nonce + personalisation)
        self._requests = 0

    def __reduce__(self) -> NoReturn:
        _refuse_copies()

    @property
    def requests_since_seed(self) -> int:
        """Return how many requests the present seed has answered."""
        return self._requests

    def reseed(self, entropy: bytes, additional_input: bytes = b"") -> None:
        """Mix fresh `entropy` into the state and start counting requests anew (10.1.2.4).

        Raises:
            ValueError: an input has a length that is not allowed; the state is unchanged.
        """
        _check_length("entropy", entropy, STRENGTH_BYTES, MOST_INPUT_BYTES)
        _check_length("additional_input", additional_input, 0, MOST_INPUT_BYTES)
        self._update(entropy + additional_input)
        self._requests = 0

    def generate(self, n: int, additional_input: bytes = b"", *, fresh_entropy: bytes | None = None) -> bytes:
        """Return `n` bytes, 1 to `MOST_BYTES_PER_REQUEST` (10.1.2.5).

        With `fresh_entropy` the state is reseeded with it and `additional_input` first (prediction resistance).

        Raises:
            ReseedRequired: the seed has answered `MOST_REQUESTS_PER_SEED` requests.
            ValueError: `n` or an input has a length that is not allowed; the state is unchanged.
        """
        _check_request(n)
        _check_length("additional_input", additional_input, 0, MOST_INPUT_BYTES)
        if fresh_entropy is not None:
            self.reseed(fresh_entropy, additional_input)
            additional_input = b""  # 9.3.1, step 7.4: what the reseed has taken in is not used again.
        _check_seed_age(self._requests)
        if additional_input:
            self._update(additional_input)
        blocks, v = [], self._v
        for _ in range(-(-n // len(v))):
            v = self._hmac(v)
            blocks.append(v)
        self._v = v
        self._update(additional_input)
        self._requests += 1
        return b"".join(blocks)[:n]

    def _hmac(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, self._hash)

    def _update(self, provided: bytes) -> None:
        """HMAC_DRBG_Update (10.1.2.2)."""
        self._key = self._hmac(self._v + b"\x00" + provided)
        self._v = self._hmac(self._v)
        if provided:
            self._key = self._hmac(self._v + b"\x01" + provided)
            self._v = self._hmac(self._v)


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a) ^ int.from_bytes(b)).to_bytes(len(a))


def _check_length(name: str, value: bytes, least: int, most: int) -> None:
    if not least <= len(value) <= most:
        allowed = f"{least}" if least == most else f"{least} to {most}"
        raise ValueError(f"{name}: {allowed} bytes allowed, got {len(value)}")


def _check_request(n: int) -> None:
    if not 1 <= n <= MOST_BYTES_PER_REQUEST:
        raise ValueError(f"n: 1 to {MOST_BYTES_PER_REQUEST} bytes a request allowed, got {n}")


def _check_seed_age(requests: int) -> None:
    if requests >= MOST_REQUESTS_PER_SEED:
        raise ReseedRequired(f"the seed has answered {MOST_REQUESTS_PER_SEED} requests; reseed first")


def _refuse_copies() -> NoReturn:
    # Two generators with one state would give two hands the same seed.
    raise TypeError("a DRBG's state is never copied or sent to another process")
