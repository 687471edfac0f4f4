"""New keys: written so that they can be loaded, readable by nobody else, never over another file."""

import os
import stat
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x448 import X448PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import (
    AuditorKeys,
    make_auditor_keys,
    make_key_encryption_key,
    make_signing_key,
    write_new,
)
from rngsvc.keys.signing import SigningKey
from rngsvc.keys.wrapping import KeyEncryptionKey
from rngsvc.protocol.escrow import open_seed, seal_seed
from rngsvc.protocol.signed_note import NoteKey, sign, verify

ORIGIN = "cardroom.example/rng"
MAKERS: dict[str, Callable[[Path], object]] = {
    "signing key": lambda path: make_signing_key(path, ORIGIN),
    "key-encryption key": make_key_encryption_key,
    "auditor keys": make_auditor_keys,
}
each_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@each_maker
def test_a_new_key_is_readable_by_nobody_else_whatever_the_umask(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        make(tmp_path / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


@each_maker
def test_nothing_is_ever_overwritten(make: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "key").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("key", "link"):
        with pytest.raises(KeyUnavailable, match=f"{name}: exists already, and keys are never overwritten"):
            make(tmp_path / name)
    assert (tmp_path / "key").read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()


@each_maker
def test_a_folder_that_is_not_there_is_named(make: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match="none/key: No such file or directory"):
        make(tmp_path / "none" / "key")


@each_maker
def test_two_keys_are_never_the_same(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


@each_maker
def test_a_key_does_not_show_in_its_text(make: Callable[[Path], object], tmp_path: Path) -> None:
    made = make(tmp_path / "key")
    lines = (tmp_path / "key").read_text().splitlines()
    secrets = [line for line in lines if not line.startswith("-----")]
    assert secrets
    assert not any(secret in f"{made!r} {made}" for secret in secrets)


def test_nothing_is_left_of_a_key_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyUnavailable, match="key: No space left on device"):
        write_new(tmp_path / "key", b"secret", 0o600)
    assert list(tmp_path.iterdir()) == []


def test_a_signing_key_signs_notes_that_its_vkey_verifies(tmp_path: Path) -> None:
    public = make_signing_key(tmp_path / "key", ORIGIN)
    key = SigningKey.load(f"file:{tmp_path / 'key'}")
    assert key.public_key == public.public_key
    note = sign(f"{ORIGIN}\n0\n", public, key.sign)
    assert verify(note, [NoteKey.from_vkey(public.vkey)]) == f"{ORIGIN}\n0\n"
    assert public.vkey.startswith(f"{ORIGIN}+")


def test_openssl_reads_the_signing_key_and_signs_the_same(tmp_path: Path) -> None:
    make_signing_key(tmp_path / "key", ORIGIN)
    (tmp_path / "message").write_bytes(b"message")
    command = ["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", tmp_path / "key", "-in", tmp_path / "message"]
    try:
        signature = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout
    except FileNotFoundError:
        pytest.skip("no openssl command on this machine")
    assert signature == SigningKey.load(f"file:{tmp_path / 'key'}").sign(b"message")


def test_a_signing_key_comes_from_the_environment_too(tmp_path: Path) -> None:
    public = make_signing_key(tmp_path / "key", ORIGIN)
    environ = {"LOG_KEY": (tmp_path / "key").read_text()}
    assert SigningKey.load("env:LOG_KEY", environ).public_key == public.public_key


@pytest.mark.parametrize("spelling", ["hex", "hex without line end", "base64"])
def test_a_key_encryption_key_is_read_in_each_spelling(spelling: str, tmp_path: Path) -> None:
    made = make_key_encryption_key(tmp_path / "key")
    text = (tmp_path / "key").read_text()
    if spelling == "hex without line end":
        text = text.strip().upper()
    if spelling == "base64":
        text = b64encode(bytes.fromhex(text)).decode() + "\n"
    loaded = KeyEncryptionKey.load("env:KEY", {"KEY": text})
    assert loaded.key_id == made.key_id
    assert loaded.unwrap(made.wrap(b"d" * 32, b"context"), b"context") == b"d" * 32


def test_an_auditor_opens_an_escrow_and_signs_with_the_keys_that_a_table_lists(tmp_path: Path) -> None:
    x25519, ed25519 = make_auditor_keys(tmp_path / "auditor").public_keys
    auditor = AuditorKeys.load(f"file:{tmp_path / 'auditor'}")
    assert auditor.public_keys == (x25519, ed25519)
    assert open_seed(seal_seed(b"s" * 48, x25519, b"info"), auditor.opening, b"info") == b"s" * 48
    Ed25519PublicKey.from_public_bytes(ed25519).verify(auditor.signing.sign(b"report"), b"report")


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    other = X448PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_new(tmp_path / "x448", other, 0o600)
    write_new(tmp_path / "two", other + other, 0o600)
    make_auditor_keys(tmp_path / "auditor")
    make_signing_key(tmp_path / "signing", ORIGIN)
    for load, name, message in [
        (SigningKey.load, "x448", "must be an Ed25519 key"),
        (SigningKey.load, "auditor", "must be an Ed25519 key"),
        (AuditorKeys.load, "signing", "must be two unencrypted PEM"),
        (AuditorKeys.load, "two", "must be an X25519 key and then an Ed25519 key"),
    ]:
        with pytest.raises(KeyUnavailable, match=message):
            load(f"file:{tmp_path / name}")
