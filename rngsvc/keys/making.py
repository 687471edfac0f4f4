"""New keys, each in a new file that nobody else can read. Nothing is ever overwritten."""

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from rngsvc.keys.location import KeyUnavailable, read_secret
from rngsvc.keys.signing import SigningKey
from rngsvc.keys.wrapping import KEY_BYTES, KeyEncryptionKey
from rngsvc.protocol.cosignature import CosignerKey
from rngsvc.protocol.signed_note import NoteKey

_PEM_END = b"-----END PRIVATE KEY-----\n"


def make_signing_key(path: Path, origin: str) -> NoteKey:
    """Write a new signing key for the log `origin`; return its public part, whose `vkey` is given to verifiers.

    Raises:
        KeyUnavailable: the file exists or cannot be written.
        MalformedError: `origin` cannot name a key.
    """
    private_key = Ed25519PrivateKey.generate()
    public = NoteKey(origin, private_key.public_key().public_bytes_raw())
    write_secret(path, _pem(private_key))
    return public


def make_witness_key(path: Path, name: str) -> CosignerKey:
    """Write a new signing key for the witness `name`; return its public part, whose `vkey` stands in policies.

    Raises:
        KeyUnavailable: the file exists or cannot be written.
        MalformedError: `name` cannot name a key.
    """
    private_key = Ed25519PrivateKey.generate()
    public = CosignerKey(name, private_key.public_key().public_bytes_raw())
    write_secret(path, _pem(private_key))
    return public


def make_key_encryption_key(path: Path) -> KeyEncryptionKey:
    """Write a new key-encryption key, in hex.

    Raises:
        KeyUnavailable: the file exists or cannot be written.
    """
    key = os.urandom(KEY_BYTES)
    write_secret(path, key.hex().encode() + b"\n")
    return KeyEncryptionKey(key)


@dataclass(frozen=True, slots=True, repr=False)
class AuditorKeys:
    """An auditor's private keys: `opening` for the escrowed seeds of closed hands, `signing` for his reports."""

    opening: X25519PrivateKey
    signing: SigningKey

    @property
    def public_keys(self) -> tuple[bytes, bytes]:
        """Return the raw X25519 and Ed25519 public keys, as a `table` entry lists them."""
        return self.opening.public_key().public_bytes_raw(), self.signing.public_key

    @classmethod
    def load(cls, uri: str) -> "AuditorKeys":
        """Return the pair at `uri`: two PEM blocks, X25519 first, then Ed25519.

        Raises:
            KeyUnavailable: it cannot be read, or is something else.
        """
        first, separator, second = read_secret(uri).partition(_PEM_END)
        try:
            opening = load_pem_private_key(first + separator, password=None)
            signing = load_pem_private_key(second, password=None)
        except (ValueError, TypeError):
            raise KeyUnavailable(f"key {uri}: must be two unencrypted PEM (PKCS#8) private keys") from None
        if not isinstance(opening, X25519PrivateKey) or not isinstance(signing, Ed25519PrivateKey):
            raise KeyUnavailable(f"key {uri}: must be an X25519 key and then an Ed25519 key")
        return cls(opening, SigningKey(signing))


def make_auditor_keys(path: Path) -> AuditorKeys:
    """Write a new auditor's pair into one file.

    Raises:
        KeyUnavailable: the file exists or cannot be written.
    """
    opening, signing = X25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    write_secret(path, _pem(opening) + _pem(signing))
    return AuditorKeys(opening, SigningKey(signing))


def write_secret(path: Path, content: bytes) -> None:
    """Write a new file of mode 0600, durably.

    Raises:
        KeyUnavailable: the file exists or cannot be written; then nothing is left of it.
    """
    write_new(path, content, 0o600)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet, durably.

    Raises:
        KeyUnavailable: the file exists or cannot be written; then nothing is left of it.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise KeyUnavailable(f"{path}: exists already, and keys are never overwritten; name another file") from None
    except OSError as error:
        raise KeyUnavailable(f"{path}: {error.strerror}") from None
    try:
        with os.fdopen(file, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise KeyUnavailable(f"{path}: {error.strerror}") from None


def _pem(key: Ed25519PrivateKey | X25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
