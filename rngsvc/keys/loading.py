"""Keys from wherever the configuration says that they lie: a file, the environment, or a PKCS#11 token."""

import os
from collections.abc import MutableMapping
from types import ModuleType

from rngsvc.keys.location import KeyUnavailable, is_in_token
from rngsvc.keys.signing import SigningKey
from rngsvc.keys.wrapping import ChangingKey, IdentifiedKey, KeyEncryptionKey
from rngsvc.ports import Signer


def load_signer(uri: str, environ: MutableMapping[str, str] = os.environ) -> Signer:
    """Return the Ed25519 signing key at `uri`. Raises KeyUnavailable."""
    if is_in_token(uri):
        signer: Signer = token_keys().TokenSigningKey(uri, environ)
        return signer
    return SigningKey.load(uri, environ)


def load_key_encryption_key(uri: str, environ: MutableMapping[str, str] = os.environ) -> IdentifiedKey:
    """Return the key-encryption key at `uri`. Raises KeyUnavailable."""
    if is_in_token(uri):
        key: IdentifiedKey = token_keys().TokenKeyEncryptionKey(uri, environ)
        return key
    return KeyEncryptionKey.load(uri, environ)


def load_changing_key(uri: str, previous: str, environ: MutableMapping[str, str] = os.environ) -> ChangingKey:
    """Return the key-encryption key at `uri` and the one before. Raises KeyUnavailable, also if they are the same."""
    changing = ChangingKey(load_key_encryption_key(uri, environ), load_key_encryption_key(previous, environ))
    if changing.new.key_id == changing.previous.key_id:
        raise KeyUnavailable(f"key {previous}: is the key at {uri}, not the one before it")
    return changing


def token_keys() -> ModuleType:
    """Return `rngsvc.keys.token`; KeyUnavailable without the extra that it needs."""
    try:
        from rngsvc.keys import token  # noqa: PLC0415  (python-pkcs11 is an extra)
    except ImportError:
        raise KeyUnavailable("pkcs11: needs the extra: pip install 'sealed-shoe[hsm]'") from None
    return token
