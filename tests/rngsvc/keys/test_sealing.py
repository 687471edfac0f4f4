"""Seeds sealed at rest: they open where they were sealed and nowhere else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rngsvc.keys.sealing import DATA_KEYS_REMEMBERED, SEAL_OVERHEAD_BYTES, KeyEncryptionKey, SealBroken, SeedVault
from rngsvc.ports import DataKeyRow
from tests.scale import scaled

TABLE = bytes(range(16))
ORIGIN = "cardroom.example/rng"
KEY = b"\x07" * 32


class Counted(KeyEncryptionKey):
    """Counts how often it is asked, as a token's owner would."""

    unwraps = 0

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        self.unwraps += 1
        return super().unwrap(wrapped, context)


def vault(key: bytes = KEY, origin: str = ORIGIN) -> SeedVault:
    return SeedVault(KeyEncryptionKey(key), origin)


@given(plaintext=st.binary(max_size=200), aad=st.binary(max_size=100), day=st.integers(0, 2**32 - 1))
def test_what_is_sealed_opens_again_also_after_a_restart(plaintext: bytes, aad: bytes, day: int) -> None:
    before = vault()
    data_key = before.new_data_key(TABLE, day)
    sealed = before.seal(data_key, plaintext, aad)
    assert len(sealed) == len(plaintext) + SEAL_OVERHEAD_BYTES
    assert before.open(data_key, sealed, aad) == vault().open(data_key, sealed, aad) == plaintext
    assert plaintext not in sealed or len(plaintext) < 4


@given(at=st.integers(0, 48 + SEAL_OVERHEAD_BYTES - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_does_not_open(at: int, bit: int) -> None:
    ours = vault()
    data_key = ours.new_data_key(TABLE, 1)
    sealed = bytearray(ours.seal(data_key, b"s" * 48, b"aad"))
    sealed[at] ^= 1 << bit
    with pytest.raises(SealBroken, match="seed does not open"):
        ours.open(data_key, bytes(sealed), b"aad")


@given(at=st.integers(0, 8 + 12 + 32 + 16 - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_of_a_wrapped_key_does_not_unwrap(at: int, bit: int) -> None:
    data_key = vault().new_data_key(TABLE, 1)
    wrapped = bytearray(data_key.wrapped)
    wrapped[at] ^= 1 << bit
    with pytest.raises(SealBroken, match="data key"):
        vault().seal(replace(data_key, wrapped=bytes(wrapped)), b"s", b"")


def test_it_opens_nowhere_else() -> None:
    ours = vault()
    data_key = ours.new_data_key(TABLE, 1)
    sealed = ours.seal(data_key, b"s" * 48, b"seq 7")
    for what, other, key, aad in [
        ("another hand", ours, data_key, b"seq 8"),
        ("another data key", ours, ours.new_data_key(TABLE, 1), b"seq 7"),
        ("another table", ours, replace(data_key, table=bytes(16)), b"seq 7"),
        ("another day", ours, replace(data_key, day=2), b"seq 7"),
        ("another log", vault(origin="other.example/rng"), data_key, b"seq 7"),
        ("another key-encryption key", vault(key=b"\x08" * 32), data_key, b"seq 7"),
    ]:
        with pytest.raises(SealBroken):
            pytest.fail(f"{what} opened: {other.open(key, sealed, aad)!r}")


def test_the_wrong_key_encryption_key_is_named_by_its_id() -> None:
    data_key = vault().new_data_key(TABLE, 1)
    ours, other = KeyEncryptionKey(KEY).key_id.hex(), KeyEncryptionKey(b"\x08" * 32).key_id.hex()
    with pytest.raises(SealBroken, match=f"wrapped under key {ours}, the configured one is {other}"):
        vault(key=b"\x08" * 32).seal(data_key, b"s", b"")


@pytest.mark.parametrize("sealed", [b"", b"x" * 11, b"x" * 12, b"x" * 27])
def test_what_is_too_short_does_not_open(sealed: bytes) -> None:
    ours = vault()
    data_key = ours.new_data_key(TABLE, 1)
    with pytest.raises(SealBroken):
        ours.open(data_key, sealed, b"")
    with pytest.raises(SealBroken):
        ours.open(DataKeyRow(TABLE, 1, sealed), b"s" * 60, b"")


def test_the_same_seed_is_never_sealed_to_the_same_bytes() -> None:
    ours = vault()
    data_key = ours.new_data_key(TABLE, 1)
    n = scaled(2_000, 200_000)
    assert len({ours.seal(data_key, b"s" * 48, b"") for _ in range(n)}) == n
    assert len({ours.new_data_key(TABLE, 1).wrapped for _ in range(200)}) == 200


def test_each_data_key_is_unwrapped_once_while_it_is_remembered() -> None:
    key = Counted(KEY)
    ours = SeedVault(key, ORIGIN)
    keys = [ours.new_data_key(TABLE, day) for day in range(DATA_KEYS_REMEMBERED + 1)]
    for data_key in keys[:-1] * 2:
        ours.seal(data_key, b"s", b"")
    assert key.unwraps == DATA_KEYS_REMEMBERED
    ours.seal(keys[-1], b"s", b"")  # One more than are remembered: the oldest is forgotten.
    ours.seal(keys[0], b"s", b"")
    assert key.unwraps == DATA_KEYS_REMEMBERED + 2


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_encryption_key_has_32_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="key: 32 bytes allowed"):
        KeyEncryptionKey(bytes(length))


def test_no_key_shows_in_a_text() -> None:
    key = KeyEncryptionKey(KEY)
    assert repr(key) == f"<KeyEncryptionKey {key.key_id.hex()}>"
    assert "07" * 4 not in repr(key)
