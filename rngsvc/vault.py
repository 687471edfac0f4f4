"""Secrets at rest: hand seeds and contributed seeds are stored only sealed (AES-256-GCM, random nonces).

There is one data key per table and UTC day, wrapped by the key-encryption key. Destroying a day's wrapped keys destroys
that day's secrets (`rngsvc.retention`). All secrets of a hand use the day of its reservation.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from struct import pack
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rngsvc.errors import Reason, TryAgain
from rngsvc.ports import DataKeyRow, Entropy, KeyEncryptionKey, Store, UnwrapRefused

DATA_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_DAY_MS: Final = 86_400_000
_KEYS_KEPT: Final = 20_000
FRESH_S: Final = 600.0
"""How long a data key is used without a look at the store: what was destroyed there is forgotten as soon."""


class SecretLost(Exception):
    """A secret cannot be unsealed: its data key was destroyed, or the key-encryption key is another."""


class KeyNotLoaded(Exception):
    """The data key is not in memory; `Vault.load` it first."""


def day_of(time_ms: int) -> int:
    """Return the UTC day, counted from 1970, of a time in ms."""
    return time_ms // _DAY_MS


def data_key_context(origin: str, table: bytes, day: int) -> bytes:
    """Return what binds a wrapped data key to its place, so that no other can be put there."""
    return b"rs1/data-key" + sha256(origin.encode()).digest() + table + pack(">Q", day)


@dataclass(slots=True)
class _Known:
    """A data key as the store had it (``wrapped``, None: it has none) at ``seen``, in seconds of the vault's clock.

    ``key`` is text where the key that the store has cannot be used: why.
    """

    key: AESGCM | str | None
    wrapped: bytes | None
    seen: float


class Vault:
    """Seals and unseals with the data keys in memory; `load` brings them there."""

    def __init__(
        self,
        origin: str,
        kek: KeyEncryptionKey,
        store: Store,
        entropy: Entropy,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._origin = origin
        self._kek = kek
        self._store = store
        self._entropy = entropy
        self._seconds = seconds
        self._keys: OrderedDict[tuple[bytes, int], _Known] = OrderedDict()  # by when they were last seen

    async def load(self, table: bytes, day: int) -> None:
        """Bring the data key of that table and day into memory, or learn that there is none that can be used.

        TryAgain while the key-encryption key cannot be used.
        """
        before = self._keys.get((table, day))
        if before and self._seconds() - before.seen < FRESH_S:
            return
        wrapped = await self._store.data_key(table, day)
        if self._keys.get((table, day)) is not before:
            return  # a batch made it, or another call saw it, while we read
        if before and before.wrapped == wrapped:
            self._keep(table, day, before.key, wrapped)
        else:
            self._keep(table, day, self._unwrap(table, day, wrapped) if wrapped else None, wrapped)

    def ensure(self, table: bytes, day: int) -> DataKeyRow | None:
        """Have a data key for that table and day; return the row to store if it is a new one.

        SecretLost if there is one that cannot be used: a second one would shut the first one's secrets off for good.
        """
        if self._known(table, day):
            return None
        data_key = self._entropy.generate(DATA_KEY_BYTES)
        row = DataKeyRow(table, day, self._kek.wrap(data_key, data_key_context(self._origin, table, day)))
        self._keep(table, day, AESGCM(data_key), row.wrapped)
        return row

    def forget(self, row: DataKeyRow) -> None:
        """Forget a new data key whose row was not stored."""
        self._keys.pop((row.table, row.day), None)

    def seal(self, table: bytes, day: int, secret: bytes, context: bytes) -> bytes:
        """Return nonce || ciphertext; ``context`` must be shown again to unseal."""
        key = self._known(table, day)
        if key is None:
            raise SecretLost("there is no data key for that table and day")
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + key.encrypt(nonce, secret, context)

    def unseal(self, table: bytes, day: int, sealed: bytes, context: bytes) -> bytes:
        """Return the secret; SecretLost if it cannot be had, KeyNotLoaded if its key must be loaded first."""
        key = self._known(table, day)
        if key is None:
            raise SecretLost("its data key was destroyed")
        try:
            return key.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
        except InvalidTag:
            raise SecretLost("it does not unseal: the store was altered") from None

    def _known(self, table: bytes, day: int) -> AESGCM | None:
        try:
            key = self._keys[table, day].key
        except KeyError:
            raise KeyNotLoaded from None
        if isinstance(key, str):
            raise SecretLost(key)
        return key

    def _keep(self, table: bytes, day: int, key: AESGCM | str | None, wrapped: bytes | None) -> None:
        now = self._seconds()
        self._keys[table, day] = _Known(key, wrapped, now)
        self._keys.move_to_end((table, day))
        # Twice as long: a call that has just found its key fresh must still find it when its batch runs.
        while len(self._keys) > _KEYS_KEPT or next(iter(self._keys.values())).seen < now - 2 * FRESH_S:
            self._keys.popitem(last=False)

    def _unwrap(self, table: bytes, day: int, wrapped: bytes) -> AESGCM | str:
        try:
            return AESGCM(self._kek.unwrap(wrapped, data_key_context(self._origin, table, day)))
        except UnwrapRefused:
            return "its data key does not unwrap"
        except Exception as error:
            # A token that does not answer must not look like a lost seed.
            raise TryAgain(Reason.KEY_UNAVAILABLE, "the key-encryption key cannot be used now") from error
