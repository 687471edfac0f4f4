"""Data keys wrapped under the key-encryption key: they unwrap where they were wrapped and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rngsvc import ports
from rngsvc.errors import Reason, TryAgain
from rngsvc.keys.wrapping import KeyEncryptionKey
from rngsvc.ports import UnwrapRefused
from rngsvc.store.memory import MemoryStore
from rngsvc.vault import Vault
from tests.scale import scaled

KEY = b"\x07" * 32
OTHER = b"\x08" * 32
TABLE = bytes(range(16))


class FixedEntropy:
    def generate(self, count: int) -> bytes:
        return bytes(count)


def test_it_is_the_key_encryption_key_that_the_service_asks_for() -> None:
    asked_for: ports.KeyEncryptionKey = KeyEncryptionKey(KEY)
    assert asked_for.unwrap(asked_for.wrap(b"d" * 32, b"table and day"), b"table and day") == b"d" * 32


@given(data_key=st.binary(max_size=64), context=st.binary(max_size=100))
def test_what_is_wrapped_unwraps_again_also_after_a_restart(data_key: bytes, context: bytes) -> None:
    wrapped = KeyEncryptionKey(KEY).wrap(data_key, context)
    assert len(wrapped) == len(data_key) + 36
    assert KeyEncryptionKey(KEY).unwrap(wrapped, context) == data_key


def test_each_flipped_bit_is_noticed() -> None:
    key = KeyEncryptionKey(KEY)
    wrapped = key.wrap(b"d" * 32, b"context")
    for at in range(8 * len(wrapped)):
        changed = bytearray(wrapped)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(UnwrapRefused):
            key.unwrap(bytes(changed), b"context")


def test_another_context_is_refused() -> None:
    key = KeyEncryptionKey(KEY)
    with pytest.raises(UnwrapRefused, match="for another context, or has been changed"):
        key.unwrap(key.wrap(b"d" * 32, b"table 1"), b"table 2")


def test_the_wrong_key_is_named_by_its_id() -> None:
    ours, other = KeyEncryptionKey(KEY), KeyEncryptionKey(OTHER)
    with pytest.raises(
        UnwrapRefused, match=f"under key {ours.key_id.hex()}, the configured one is {other.key_id.hex()}"
    ):
        other.unwrap(ours.wrap(b"d" * 32, b"context"), b"context")


@pytest.mark.parametrize("length", [0, 7, 8, 19, 20, 35])
def test_what_is_too_short_is_refused(length: int) -> None:
    key = KeyEncryptionKey(KEY)
    with pytest.raises(UnwrapRefused):
        key.unwrap(key.wrap(b"", b"context")[:length], b"context")


def test_the_same_data_key_is_never_wrapped_to_the_same_bytes() -> None:
    key, n = KeyEncryptionKey(KEY), scaled(2_000, 200_000)
    assert len({key.wrap(b"d" * 32, b"context") for _ in range(n)}) == n


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_encryption_key_has_32_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="key: 32 bytes allowed"):
        KeyEncryptionKey(bytes(length))


def test_the_key_does_not_show_in_its_text() -> None:
    key = KeyEncryptionKey(KEY)
    assert repr(key) == f"<KeyEncryptionKey {key.key_id.hex()}>"
    assert "07" * 4 not in repr(key)


class AwayNowAndThen(KeyEncryptionKey):
    """A key in a token that does not always answer."""

    away = False

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        if self.away:
            raise RuntimeError("the token was pulled out")
        return super().unwrap(wrapped, context)


@pytest.mark.asyncio
async def test_a_key_that_cannot_be_used_now_is_no_lost_seed() -> None:
    store, kek = MemoryStore(), AwayNowAndThen(KEY)
    await store.open()
    before = Vault("cardroom.example/rng", kek, store, FixedEntropy())
    await before.load(TABLE, 1)
    row = before.ensure(TABLE, 1)
    assert row
    head = ports.Head(0, bytes(32), b"", 0)
    await store.commit(ports.Commit(None, head, data_keys=[row]))
    sealed = before.seal(TABLE, 1, b"seed", b"context")

    kek.away = True
    after = Vault("cardroom.example/rng", kek, store, FixedEntropy())
    with pytest.raises(TryAgain) as refused:
        await after.load(TABLE, 1)
    assert refused.value.reason is Reason.KEY_UNAVAILABLE
    kek.away = False
    await after.load(TABLE, 1)
    assert after.unseal(TABLE, 1, sealed, b"context") == b"seed"
