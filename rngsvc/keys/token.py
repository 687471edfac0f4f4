"""Keys that never leave a PKCS#11 token: the log's Ed25519 key, and the AES-256 key that wraps data keys.

A token is opened and logged in to once a process. What it refuses later is an error of the call, on which the service
stops.
"""

import os
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import pkcs11
from pkcs11 import Attribute, KeyType, Mechanism, ObjectClass
from pkcs11.exceptions import NoSuchKey, PKCS11Error
from pkcs11.mechanisms import GCMParams
from pkcs11.util.ec import encode_named_curve_parameters

from rngsvc.keys.location import KeyUnavailable, TokenObject, read_secret
from rngsvc.keys.wrapping import KEY_BYTES
from rngsvc.ports import UnwrapRefused
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.signed_note import verify_ed25519

_NONCE_BYTES: Final = 12
_TAG_BITS: Final = 128
_KEY_ID_BYTES: Final = 8
# PKCS#11 3.0 has both ways to say Ed25519; a token may know only one of them.
_ED25519_PARAMETERS: Final = (encode_named_curve_parameters("1.3.101.112"), b"\x13\x0cedwards25519")
_NEVER_LEAVES: Final = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: False}

# python-pkcs11 initialises a library without telling it that there are threads (C_Initialize with no arguments), so
# that it need not lock anything: two sessions in two threads fail in SoftHSM. All calls go through here one by one.
_one_at_a_time: Final = threading.RLock()


@dataclass(frozen=True, slots=True)
class _Key:
    """A key in a token."""

    handle: Any

    @classmethod
    def find(cls, uri: str, kind: ObjectClass, environ: MutableMapping[str, str]) -> "_Key":
        """Find the key; KeyUnavailable also where the token would give it away."""
        place = TokenObject.parse(uri)
        key = cls(_session(place, environ).get_key(object_class=kind, label=place.label))
        if any(key.handle[attribute] != value for attribute, value in _NEVER_LEAVES.items()):
            raise KeyUnavailable(f"key {uri}: must be sensitive and not extractable")
        return key

    def sign(self, message: bytes) -> bytes:
        with _one_at_a_time:
            return bytes(self.handle.sign(message, mechanism=Mechanism.EDDSA))

    def encrypt(self, nonce: bytes, plaintext: bytes, context: bytes) -> bytes:
        with _one_at_a_time:
            return bytes(self.handle.encrypt(plaintext, **_gcm(nonce, context)))

    def decrypt(self, nonce: bytes, sealed: bytes, context: bytes) -> bytes:
        with _one_at_a_time:
            return bytes(self.handle.decrypt(sealed, **_gcm(nonce, context)))


class TokenSigningKey:
    """An Ed25519 key in a token; see `rngsvc.ports.Signer`."""

    def __init__(self, uri: str, environ: MutableMapping[str, str] = os.environ) -> None:
        """Find the key. Raises KeyUnavailable."""
        with _refusals(uri):
            self._key = _Key.find(uri, ObjectClass.PRIVATE_KEY, environ)
            place = TokenObject.parse(uri)
            public = _session(place, environ).get_key(object_class=ObjectClass.PUBLIC_KEY, label=place.label)
            # A DER octet string by the standard, the bare 32 bytes in some tokens.
            self.public_key = bytes(public[Attribute.EC_POINT])[-32:]
            try:
                verify_ed25519(self.public_key, self.sign(b"rngsvc/token self-test"), b"rngsvc/token self-test", "it")
            except ProofError:
                raise KeyUnavailable(f"key {uri}: private and public key do not belong together") from None

    def __repr__(self) -> str:
        return f"<TokenSigningKey, public key {self.public_key.hex()}>"

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature over ``message``."""
        return self._key.sign(message)


class TokenKeyEncryptionKey:
    """An AES-256-GCM key in a token; see `rngsvc.ports.KeyEncryptionKey`.

    What it wraps has the form of `rngsvc.keys.wrapping`; `key_id` follows from the key's CKA_ID.
    """

    def __init__(self, uri: str, environ: MutableMapping[str, str] = os.environ) -> None:
        """Find the key. Raises KeyUnavailable."""
        with _refusals(uri):
            self._key = _Key.find(uri, ObjectClass.SECRET_KEY, environ)
            named = bytes(self._key.handle[Attribute.ID])
            if not named:
                raise KeyUnavailable(f"key {uri}: must have an id (CKA_ID), by which it is told from other keys")
            self.key_id = sha256(b"rngsvc/token key id/1" + named).digest()[:_KEY_ID_BYTES]
            self._try_out()

    def __repr__(self) -> str:
        return f"<TokenKeyEncryptionKey {self.key_id.hex()}>"

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Return ``data_key`` encrypted for ``context``: key_id || nonce || ciphertext || tag, 36 bytes longer."""
        nonce = os.urandom(_NONCE_BYTES)
        return self.key_id + nonce + self._key.encrypt(nonce, data_key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """Return the data key in ``wrapped``.

        Raises:
            UnwrapRefused: it was wrapped under another key, for another context, or has been changed.
            PKCS11Error: the token fails; that says nothing about ``wrapped``.
        """
        key_id, nonce, sealed = wrapped[:8], wrapped[8:20], wrapped[20:]
        if key_id != self.key_id:
            raise UnwrapRefused(
                f"the data key was wrapped under key {key_id.hex()}, the configured one is {self.key_id.hex()}"
            )
        try:
            return self._key.decrypt(nonce, sealed, context)
        except PKCS11Error:
            # Tokens have different words for a wrong tag, some no better one than for their own failure: ask again.
            self._try_out()
            raise UnwrapRefused("the data key was wrapped for another context, or has been changed") from None

    def _try_out(self) -> None:
        """Raise PKCS11Error unless the token encrypts and decrypts with the key."""
        nonce, probe = os.urandom(_NONCE_BYTES), os.urandom(KEY_BYTES)
        sealed = self._key.encrypt(nonce, probe, b"")
        if self._key.decrypt(nonce, sealed, b"") != probe:
            raise PKCS11Error("the token does not decrypt what it encrypted")


def make_token_signing_key(uri: str, environ: MutableMapping[str, str] = os.environ) -> TokenSigningKey:
    """Make a new Ed25519 key in the token, which it never leaves.

    Raises:
        KeyUnavailable: there is a key of that label, or the token refuses.
    """
    with _refusals(uri):
        place = TokenObject.parse(uri)
        session = _unused(place, environ)
        for parameters in _ED25519_PARAMETERS:
            curve = session.create_domain_parameters(KeyType.EC_EDWARDS, {Attribute.EC_PARAMS: parameters}, local=True)
            try:
                curve.generate_keypair(
                    mechanism=Mechanism.EC_EDWARDS_KEY_PAIR_GEN,
                    label=place.label,
                    store=True,
                    private_template=_NEVER_LEAVES,
                )
                break
            except PKCS11Error:
                if parameters is _ED25519_PARAMETERS[-1]:
                    raise
    return TokenSigningKey(uri, environ)


def make_token_key_encryption_key(uri: str, environ: MutableMapping[str, str] = os.environ) -> TokenKeyEncryptionKey:
    """Make a new AES-256 key in the token, which it never leaves.

    Raises:
        KeyUnavailable: there is a key of that label, or the token refuses.
    """
    with _refusals(uri):
        place = TokenObject.parse(uri)
        _unused(place, environ).generate_key(
            KeyType.AES,
            8 * KEY_BYTES,
            id=os.urandom(_KEY_ID_BYTES),
            label=place.label,
            store=True,
            template=_NEVER_LEAVES,
        )
    return TokenKeyEncryptionKey(uri, environ)


def _unused(place: TokenObject, environ: MutableMapping[str, str]) -> pkcs11.Session:
    """Return a session of the token, once it is sure that nothing there has the key's label."""
    session = _session(place, environ)
    if any(session.get_objects({Attribute.LABEL: place.label})):
        raise KeyUnavailable(
            f"token {place.token}: has an object {place.label} already, and keys are never overwritten; name another"
        )
    return session


_sessions: dict[tuple[str, str], pkcs11.Session] = {}


def _session(place: TokenObject, environ: MutableMapping[str, str]) -> pkcs11.Session:
    """Return the session with the token, logged in to."""
    # Two keys may lie in one token, and its PIN in a variable that is taken out of the environment.
    known = (place.module, place.token)
    if known not in _sessions:
        pin = read_secret(place.pin_source, environ).decode("utf-8", "replace").strip()
        token = pkcs11.lib(place.module).get_token(token_label=place.token)
        _sessions[known] = token.open(rw=True, user_pin=pin)
    return _sessions[known]


def _gcm(nonce: bytes, context: bytes) -> dict[str, Any]:
    return {"mechanism": Mechanism.AES_GCM, "mechanism_param": GCMParams(nonce, context, _TAG_BITS)}


@contextmanager
def _refusals(uri: str) -> Iterator[None]:
    """Have the library to oneself, and turn what PKCS#11 says into KeyUnavailable."""
    try:
        with _one_at_a_time:
            yield
    except NoSuchKey:
        raise KeyUnavailable(f"key {uri}: there is no such key in the token") from None
    except ValueError as error:
        raise KeyUnavailable(f"key location: {error}") from None
    except (PKCS11Error, OSError) as error:
        why = str(error)
        raise KeyUnavailable(f"key {uri}: {type(error).__name__}{': ' + why if why else ''}") from None
