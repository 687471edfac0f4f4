"""Keys in a real PKCS#11 token (SoftHSM): they sign, wrap and unwrap there, and never come out."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pkcs11
import pytest
from pkcs11 import Attribute, KeyType, ObjectClass
from pkcs11.exceptions import AttributeSensitive

from rngsvc import ports
from rngsvc.client import SyncClient
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys import token
from rngsvc.keys.loading import load_changing_key, load_key_encryption_key, load_signer
from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from rngsvc.keys.wrapping import KeyEncryptionKey
from rngsvc.ports import UnwrapRefused
from rngsvc.protocol.signed_note import verify_ed25519
from rngsvc.protocol.verify import verify
from tests.rngsvc.keys.softhsm import CONFIGURATION, MODULE, PIN, SoftHsm
from tests.scale import scaled
from tests.test_docs import blocks, shell

TOKEN = "card room"
WRONG_PIN_TOKEN = "another"
ORIGIN = "cardroom.example/rng"


@pytest.fixture(scope="module")
def hsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHsm]:
    before = os.environ.get(CONFIGURATION)
    hsm = SoftHsm(tmp_path_factory.mktemp("hsm"))
    # The library, once loaded, does not look for tokens made later.
    hsm.make_token(TOKEN)
    hsm.make_token(WRONG_PIN_TOKEN)
    yield hsm
    if before is None:
        del os.environ[CONFIGURATION]


@pytest.fixture(scope="module")
def signer(hsm: SoftHsm) -> ports.Signer:
    token.make_token_signing_key(hsm.uri(TOKEN, "log key"))
    return load_signer(hsm.uri(TOKEN, "log key"))


@pytest.fixture(scope="module")
def kek(hsm: SoftHsm) -> ports.KeyEncryptionKey:
    token.make_token_key_encryption_key(hsm.uri(TOKEN, "seeds"))
    return load_key_encryption_key(hsm.uri(TOKEN, "seeds"))


def objects(**attributes: object) -> list[pkcs11.Object]:
    session = pkcs11.lib(str(MODULE)).get_token(token_label=TOKEN).open()
    return list(session.get_objects({Attribute[name]: value for name, value in attributes.items()}))


# --- Signing ---


def test_what_the_token_signs_another_implementation_verifies(signer: ports.Signer) -> None:
    for length in (0, 1, 200, 70_000):
        message = os.urandom(length)
        verify_ed25519(signer.public_key, signer.sign(message), message, "the signature")


def test_many_threads_may_sign_at_once(signer: ports.Signer) -> None:
    failures = []

    def sign_many(name: bytes) -> None:
        try:
            for i in range(scaled(50, 2_000)):
                message = b"%s %d" % (name, i)
                verify_ed25519(signer.public_key, signer.sign(message), message, "the signature")
        except Exception as error:  # noqa: BLE001  (told by the main thread)
            failures.append(error)

    threads = [threading.Thread(target=sign_many, args=(b"%d" % i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_private_key_does_not_come_out(signer: ports.Signer, kek: ports.KeyEncryptionKey) -> None:
    (private,) = objects(LABEL="log key", CLASS=ObjectClass.PRIVATE_KEY)
    (secret,) = objects(LABEL="seeds", CLASS=ObjectClass.SECRET_KEY)
    for key in (private, secret):
        assert not key[Attribute.EXTRACTABLE]
        assert key[Attribute.NEVER_EXTRACTABLE]
        with pytest.raises(AttributeSensitive):
            key[Attribute.VALUE]


def test_keys_that_the_token_would_give_away_are_refused(hsm: SoftHsm, kek: ports.KeyEncryptionKey) -> None:
    # The whole process is logged in to the token, once it has a key of it.
    session = pkcs11.lib(str(MODULE)).get_token(token_label=TOKEN).open(rw=True)
    template = {Attribute.EXTRACTABLE: True}
    session.generate_key(KeyType.AES, 256, label="loose", id=b"x", store=True, template=template)
    with pytest.raises(KeyUnavailable, match="must be sensitive and not extractable"):
        load_key_encryption_key(hsm.uri(TOKEN, "loose"))


# --- Wrapping ---


def test_what_is_wrapped_unwraps_again_and_has_the_form_of_a_key_in_a_file(kek: ports.KeyEncryptionKey) -> None:
    for data_key in (b"d" * 32, b"", os.urandom(64)):
        wrapped = kek.wrap(data_key, b"table and day")
        assert len(wrapped) == len(data_key) + 36
        assert kek.unwrap(wrapped, b"table and day") == data_key
    assert kek.wrap(b"d" * 32, b"context") != kek.wrap(b"d" * 32, b"context")


def test_another_context_another_key_and_changed_bytes_are_refused(hsm: SoftHsm, kek: ports.KeyEncryptionKey) -> None:
    wrapped = kek.wrap(b"d" * 32, b"context")
    with pytest.raises(UnwrapRefused, match="for another context, or has been changed"):
        kek.unwrap(wrapped, b"another")
    for at in range(len(wrapped)):
        with pytest.raises(UnwrapRefused):
            kek.unwrap(wrapped[:at] + bytes([wrapped[at] ^ 1]) + wrapped[at + 1 :], b"context")
        with pytest.raises(UnwrapRefused):
            kek.unwrap(wrapped[:at], b"context")
    token.make_token_key_encryption_key(hsm.uri(TOKEN, "other seeds"))
    other = load_key_encryption_key(hsm.uri(TOKEN, "other seeds"))
    for key in (other, KeyEncryptionKey(bytes(32))):
        with pytest.raises(UnwrapRefused, match="was wrapped under key"):
            key.unwrap(wrapped, b"context")
    assert kek.unwrap(wrapped, b"context") == b"d" * 32, "a refusal leaves the session usable"


# --- What is not there ---


def test_a_key_is_never_made_over_another(hsm: SoftHsm, signer: ports.Signer, kek: ports.KeyEncryptionKey) -> None:
    for make in (token.make_token_signing_key, token.make_token_key_encryption_key):
        for label in ("log key", "seeds"):
            with pytest.raises(KeyUnavailable, match="are never overwritten"):
                make(hsm.uri(TOKEN, label))


@pytest.mark.parametrize("load", [load_signer, load_key_encryption_key])
def test_a_missing_key_token_or_library_is_named(load: object, hsm: SoftHsm) -> None:
    for uri, message in [
        (hsm.uri(TOKEN, "nothing"), "there is no such key in the token"),
        (hsm.uri("no token", "log key"), "NoSuchToken"),
        (hsm.uri(TOKEN, "log key", module=Path("/nowhere/hsm.so")), "/nowhere/hsm.so"),
        (hsm.uri("no token", "log key", pin_source="env:NOWHERE"), "env:NOWHERE: the environment variable is not set"),
        ("pkcs11:token=x", "must be pkcs11:token="),
    ]:
        with pytest.raises(KeyUnavailable, match=message):
            load(uri)  # type: ignore[operator]


def test_a_wrong_pin_is_refused_and_not_repeated(hsm: SoftHsm) -> None:
    wrong = hsm.folder / "wrong-pin"
    wrong.write_text("planted-wrong-pin")
    wrong.chmod(0o600)
    with pytest.raises(KeyUnavailable, match="PinIncorrect") as refused:
        load_signer(hsm.uri(WRONG_PIN_TOKEN, "log key", pin_source=f"file:{wrong}"))
    assert "planted-wrong-pin" not in str(refused.value)
    # Nothing was remembered of it: the right PIN opens the token, and only the key is missing.
    with pytest.raises(KeyUnavailable, match="no such key"):
        load_signer(hsm.uri(WRONG_PIN_TOKEN, "log key"))


# --- A whole service ---


def rngsvc(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rngsvc", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@contextlib.contextmanager
def serving(folder: Path, *flags: str, pin: str = PIN) -> Iterator["subprocess.Popen[str]"]:
    command = [
        *(sys.executable, "-m", "rngsvc", "serve", f"--origin={ORIGIN}", f"--store=sqlite:{folder / 'log.sqlite3'}"),
        *("--listen=127.0.0.1:0", "--http-public=127.0.0.1:0", "--http-operator=127.0.0.1:0", *flags),
    ]
    environment = {**os.environ, "TOKEN_PIN": pin}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=20)


def test_a_service_plays_with_both_keys_in_the_token_before_and_after_a_restart(hsm: SoftHsm, tmp_path: Path) -> None:
    log_key, seeds = (hsm.uri(TOKEN, f"{name} of the service", pin_source="env:TOKEN_PIN") for name in ("log", "seeds"))
    in_file = {"pin_source": f"file:{hsm.pin_file}"}
    made = rngsvc("keygen", "log", "--origin", ORIGIN, "--pkcs11", hsm.uri(TOKEN, "log of the service", **in_file))
    assert made.returncode == 0, made.stderr
    assert rngsvc("keygen", "seeds", "--pkcs11", hsm.uri(TOKEN, "seeds of the service", **in_file)).returncode == 0
    vkey = made.stdout.strip()
    flags = (f"--signing-key={log_key}", f"--key-encryption-key={seeds}")
    table = os.urandom(16)
    with serving(tmp_path, *flags) as process:
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        assert ready["log_key"] == vkey
        with SyncClient.connect(ready["grpc"], log_key=vkey) as client:
            hand = client.register_table(table).reserve()
            hand.seal(52)
    with serving(tmp_path, *flags) as process:
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        with SyncClient.connect(ready["grpc"], log_key=vkey) as client:
            # The seed was sealed under a data key that only the token unwraps.
            hand = client.hand(table, 1)
            hand.seal(52)
            hand.open(0, range(5))
            hand.close()
            assert verify(hand.receipt(), vkey).require().step("derivation").outcome == "checked"


def test_a_service_without_the_right_pin_does_not_start(
    hsm: SoftHsm, signer: ports.Signer, kek: ports.KeyEncryptionKey, tmp_path: Path
) -> None:
    uris = (hsm.uri(TOKEN, label, pin_source="env:TOKEN_PIN") for label in ("log key", "seeds"))
    flags = [f"--{name}={uri}" for name, uri in zip(("signing-key", "key-encryption-key"), uris, strict=True)]
    with serving(tmp_path, *flags, pin="planted-wrong-pin") as process:
        out, log = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.CONFIGURATION, "")
    assert "PinIncorrect" in log
    assert "planted-wrong-pin" not in log
    assert not (tmp_path / "log.sqlite3").exists()


def test_a_log_moves_its_key_from_a_file_into_the_token(hsm: SoftHsm, tmp_path: Path) -> None:
    first = make_signing_key(tmp_path / "log.key", ORIGIN).vkey
    make_key_encryption_key(tmp_path / "seeds.key")
    in_token = hsm.uri(TOKEN, "log moved here")
    assert rngsvc("keygen", "log", "--origin", ORIGIN, "--pkcs11", in_token).returncode == 0
    in_file = f"file:{tmp_path / 'log.key'}"
    for keys in ([f"--signing-key={in_file}"], [f"--signing-key={in_token}", f"--previous-signing-key={in_file}"]):
        with serving(tmp_path, f"--key-encryption-key=file:{tmp_path / 'seeds.key'}", *keys) as process:
            assert process.stdout
            ready = json.loads(process.stdout.readline())
            with SyncClient.connect(ready["grpc"], log_key=first) as client:
                hand = client.register_table(os.urandom(16)).reserve()
                hand.seal(52)
                receipt = hand.receipt()
    assert verify(receipt, first).require().step("keys").detail == "1 change of key"


def test_the_commands_of_the_operations_page_make_both_keys(
    hsm: SoftHsm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (commands,) = (block for block in blocks("docs/operations.md") if "softhsm2-util" in block)
    monkeypatch.setenv("PIN", PIN)
    monkeypatch.setenv("SO_PIN", "so-" + PIN)
    assert shell(commands, tmp_path).splitlines()[-1].startswith("cardroom.example/rng+")
    assert (tmp_path / "token.pin").stat().st_mode & 0o777 == 0o600


def test_the_pins_place_is_a_known_variable_and_needs_no_prefix(hsm: SoftHsm, tmp_path: Path) -> None:
    uri = hsm.uri(TOKEN, "log key", pin_source="env:RNGSVC_PIN")
    environment = {**os.environ, "RNGSVC_PIN": PIN}
    command = [*(sys.executable, "-m", "rngsvc", "config", "check", f"--origin={ORIGIN}")]
    command += [f"--signing-key={uri}", f"--key-encryption-key={uri}"]
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr
    assert PIN not in checked.stdout + checked.stderr


def test_a_key_encryption_key_moves_into_the_token_and_from_token_to_token(hsm: SoftHsm, tmp_path: Path) -> None:
    """What the old key wrapped is unwrapped by it and wrapped by the new one, wherever each of them lies."""
    make_key_encryption_key(tmp_path / "seeds.key")
    places = [f"file:{tmp_path / 'seeds.key'}", "env:NEXT_KEK"]
    for label in ("kek 1", "kek 2"):
        token.make_token_key_encryption_key(hsm.uri(TOKEN, label))
        places.append(hsm.uri(TOKEN, label))
    wrapped = load_key_encryption_key(places[0]).wrap(b"d" * 32, b"place")
    for old, new in itertools.pairwise(places):
        changing = load_changing_key(new, old, {"NEXT_KEK": "08" * 32})
        wrapped = changing.wrap(changing.unwrap(wrapped, b"place"), b"place")
        assert changing.unwrap(wrapped, b"place") == b"d" * 32
        with pytest.raises(UnwrapRefused):
            changing.previous.unwrap(wrapped, b"place")
