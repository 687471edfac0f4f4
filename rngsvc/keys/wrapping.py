"""The key-encryption key: wraps the data keys under which secrets are stored, and nothing else."""

import os
from base64 import b64decode
from collections.abc import MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rngsvc.keys.location import KeyUnavailable, read_secret
from rngsvc.ports import UnwrapRefused

KEY_BYTES: Final = 32

KEY_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12


class IdentifiedKey(Protocol):
    """A key-encryption key, here or in a token, with the id that stands in front of all that it wraps."""

    key_id: bytes

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """See `rngsvc.ports.KeyEncryptionKey`."""

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """See `rngsvc.ports.KeyEncryptionKey`."""


def wrapped_by(wrapped: bytes, key: IdentifiedKey) -> bool:
    """Say whether ``wrapped`` names ``key``."""
    return wrapped[:KEY_ID_BYTES] == key.key_id


@dataclass(frozen=True, slots=True)
class ChangingKey:
    """The key-encryption key while it is changed: wraps with the new one, unwraps with the one that is named."""

    new: IdentifiedKey
    previous: IdentifiedKey

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Return ``data_key`` wrapped by the new key."""
        return self.new.wrap(data_key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the data key in ``wrapped``; as its key does."""
        return (self.previous if wrapped_by(wrapped, self.previous) else self.new).unwrap(wrapped, context)


class KeyEncryptionKey:
    """An AES-256-GCM key.

    `key_id`, 8 bytes, tells keys apart and stands in front of everything that the key wraps, so that the wrong key is
    told from changed bytes.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"key: {KEY_BYTES} bytes allowed, got {len(key)}")
        self.key_id = sha256(b"rngsvc/key-encryption key id/1" + key).digest()[:KEY_ID_BYTES]
        self._cipher = AESGCM(key)

    def __repr__(self) -> str:
        return f"<KeyEncryptionKey {self.key_id.hex()}>"

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Return `data_key` encrypted for `context`: key_id || nonce || ciphertext || tag, 36 bytes longer."""
        # Random nonces are safe for 2^32 wraps (SP 800-38D, 8.3): one a table and day, that is never reached.
        nonce = os.urandom(_NONCE_BYTES)
        return self.key_id + nonce + self._cipher.encrypt(nonce, data_key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the data key in `wrapped`.

        Raises:
            UnwrapRefused: it was wrapped under another key, for another context, or has been changed.
        """
        key_id, nonce, sealed = wrapped[:8], wrapped[8:20], wrapped[20:]
        if key_id != self.key_id:
            raise UnwrapRefused(
                f"the data key was wrapped under key {key_id.hex()}, the configured one is {self.key_id.hex()}"
            )
        try:
            return self._cipher.decrypt(nonce, sealed, context)
        except (InvalidTag, ValueError):
            raise UnwrapRefused("the data key was wrapped for another context, or has been changed") from None

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
        except ValueError:
            raise KeyUnavailable(f"key {uri}: must be {KEY_BYTES} bytes, written in hex or in base64") from None
