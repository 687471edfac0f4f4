"""Ed25519 signing keys: the log's, and an auditor's."""

import os
from collections.abc import MutableMapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from rngsvc.keys.location import KeyUnavailable, read_secret


class SigningKey:
    """An Ed25519 private key (RFC 8032) in this process's memory.

    `public_key` is the raw 32-byte public key.
    """

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._private_key = private_key
        self.public_key = private_key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"<SigningKey, public key {self.public_key.hex()}>"

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature over `message`."""
        return self._private_key.sign(message)

    @classmethod
    def load(cls, uri: str, environ: MutableMapping[str, str] = os.environ) -> "SigningKey":
        """Return the key at `uri`: an unencrypted PEM PKCS#8 Ed25519 private key.

        Raises:
            KeyUnavailable: it cannot be read, or is something else.
        """
        pem = read_secret(uri, environ)
        try:
            private_key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # Not chained: what the parser has to say about a secret stays unsaid.
            raise KeyUnavailable(f"key {uri}: must be an unencrypted PEM (PKCS#8) private key") from None
        if not isinstance(private_key, Ed25519PrivateKey):
            raise KeyUnavailable(f"key {uri}: must be an Ed25519 key")
        return cls(private_key)
