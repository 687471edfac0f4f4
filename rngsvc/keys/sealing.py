"""Seeds sealed at rest: AES-256-GCM under a data key for each table and day, which a key-encryption key wraps.

A wrapped data key is stored by the service next to what it seals. Destroying it destroys a table's day.
"""

import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, MutableMapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rngsvc.keys.location import KeyUnavailable, read_secret
from rngsvc.ports import DataKeyRow

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 8
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
SEAL_OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES
"""How much longer the sealed bytes are than the plaintext."""

DATA_KEYS_REMEMBERED: Final = 4096

RandomBytes = Callable[[int], bytes]


class SealBroken(Exception):
    """Sealed bytes do not open: they, their place or their key are not the ones they were sealed with."""


class KeyEncryptionKey:
    """An AES-256 key that encrypts data keys and nothing else.

    `key_id`, 8 bytes, tells keys apart and stands in everything that the key wraps.
    """

    def __init__(self, key: bytes, random_bytes: RandomBytes = os.urandom) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"key: {KEY_BYTES} bytes allowed, got {len(key)}")
        self.key_id = sha256(b"rngsvc/key-encryption key id/1" + key).digest()[:KEY_ID_BYTES]
        self._cipher = AESGCM(key)
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        return f"<KeyEncryptionKey {self.key_id.hex()}>"

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Return `data_key` encrypted for `context`: key_id || nonce || ciphertext || tag."""
        nonce = self._random_bytes(NONCE_BYTES)
        return self.key_id + nonce + self._cipher.encrypt(nonce, data_key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the data key in `wrapped`.

        Raises:
            SealBroken: it was wrapped under another key, for another context, or has been changed.
        """
        key_id, sealed = wrapped[:KEY_ID_BYTES], wrapped[KEY_ID_BYTES:]
        if key_id != self.key_id:
            raise SealBroken(
                f"data key was wrapped under key {key_id.hex()}, the configured one is {self.key_id.hex()}"
            )
        return _decrypt(self._cipher, sealed, context, "data key")

    @classmethod
    def load(cls, uri: str, environ: MutableMapping[str, str] = os.environ) -> "KeyEncryptionKey":
        """Return the key at `uri`: 32 bytes as 64 hex digits or as 44 characters of base64.

        Raises:
            KeyUnavailable: it cannot be read, or is something else.
        """
        text = read_secret(uri, environ).strip()
        try:
            key = bytes.fromhex(text.decode("ascii")) if len(text) == 2 * KEY_BYTES else b64decode(text, validate=True)
            return cls(key)
        except (ValueError, Base64Error):
            raise KeyUnavailable(f"key {uri}: must be {KEY_BYTES} bytes, written in hex or in base64") from None


class SeedVault:
    """Seals and opens what must not lie in the store as it is.

    The service stores the data keys that `new_data_key` makes and hands them back as values. The vault remembers the
    last few thousand unwrapped, so that with a key-encryption key in a token only the first use of a day asks it.

    Args:
        key_encryption_key: wraps and unwraps data keys.
        origin: the log's name; a data key of another log does not open.
        random_bytes: for data keys and nonces.
    """

    def __init__(
        self, key_encryption_key: KeyEncryptionKey, origin: str, random_bytes: RandomBytes = os.urandom
    ) -> None:
        self._key_encryption_key = key_encryption_key
        self._origin_hash = sha256(origin.encode()).digest()
        self._random_bytes = random_bytes
        self._cipher = lru_cache(maxsize=DATA_KEYS_REMEMBERED)(self._unwrap)

    def new_data_key(self, table: bytes, day: int) -> DataKeyRow:
        """Return a fresh data key, wrapped, for the 16-byte `table` on `day`, counted from 1970 UTC."""
        wrapped = self._key_encryption_key.wrap(self._random_bytes(KEY_BYTES), self._context(table, day))
        return DataKeyRow(table, day, wrapped)

    def seal(self, data_key: DataKeyRow, plaintext: bytes, aad: bytes) -> bytes:
        """Return `plaintext` sealed, `SEAL_OVERHEAD_BYTES` longer; it opens only with the same `aad`.

        Raises:
            SealBroken: the data key does not unwrap.
        """
        # Random nonces are safe for 2^32 seals a key (SP 800-38D, 8.3); a table does not see so many hands in a day.
        nonce = self._random_bytes(NONCE_BYTES)
        return nonce + self._cipher(data_key).encrypt(nonce, plaintext, aad)

    def open(self, data_key: DataKeyRow, sealed: bytes, aad: bytes) -> bytes:
        """Return the plaintext of `sealed`.

        Raises:
            SealBroken: it was sealed with another data key or `aad`, or has been changed, or the key does not unwrap.
        """
        return _decrypt(self._cipher(data_key), sealed, aad, "seed")

    def _unwrap(self, data_key: DataKeyRow) -> AESGCM:
        context = self._context(data_key.table, data_key.day)
        return AESGCM(self._key_encryption_key.unwrap(data_key.wrapped, context))

    def _context(self, table: bytes, day: int) -> bytes:
        return b"rngsvc/data key/1" + self._origin_hash + table + day.to_bytes(4)


def _decrypt(cipher: AESGCM, sealed: bytes, aad: bytes, what: str) -> bytes:
    try:
        return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], aad)
    except (InvalidTag, ValueError):
        raise SealBroken(f"{what} does not open: it, its place or its key is not the one it was sealed with") from None
