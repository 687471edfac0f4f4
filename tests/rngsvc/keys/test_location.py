"""Reading secret keys: from where, under which conditions, and that nothing of them shows."""

import os
from pathlib import Path

import pytest

from rngsvc.keys.location import KeyUnavailable, TokenObject, check_location, environment_name, read_secret
from rngsvc.keys.signing import SigningKey
from rngsvc.keys.wrapping import KeyEncryptionKey

SECRET = "planted-secret-5f1d"


def secret_file(folder: Path, content: bytes = SECRET.encode(), mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_that_only_we_can_read_is_read(mode: int, tmp_path: Path) -> None:
    assert read_secret(f"file:{secret_file(tmp_path, mode=mode)}") == SECRET.encode()


def test_a_link_to_such_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(secret_file(tmp_path))
    assert read_secret(f"file:{tmp_path / 'link'}") == SECRET.encode()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610, 0o601, 0o620, 0o602, 0o777])
def test_a_file_that_anybody_else_may_touch_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match=f"mode is {mode:04o}, must be 0600"):
        read_secret(f"file:{secret_file(tmp_path, mode=mode)}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    os.chown(path, 12345, -1)
    with pytest.raises(KeyUnavailable, match="belongs to user 12345, must belong to user 0"):
        read_secret(f"file:{path}")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for place, message in [
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
        (Path("/dev/null"), "is not a regular file"),
        (secret_file(tmp_path, b""), "must hold 1 to 65536 bytes"),
        (secret_file(tmp_path, bytes(65_537)), "must hold 1 to 65536 bytes"),
    ]:
        with pytest.raises(KeyUnavailable, match=message):
            read_secret(f"file:{place}")


def test_an_environment_variable_is_read_once_and_taken_out() -> None:
    environ = {"LOG_KEY": SECRET, "PATH": "/bin"}
    assert read_secret("env:LOG_KEY", environ) == SECRET.encode()
    assert environ == {"PATH": "/bin"}
    with pytest.raises(KeyUnavailable, match="key env:LOG_KEY: the environment variable is not set, or was read"):
        read_secret("env:LOG_KEY", environ)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "must be file:PATH, env:NAME or pkcs11:"),
        ("file:", "must be file:PATH, env:NAME or pkcs11:"),
        ("env:", "must be file:PATH, env:NAME or pkcs11:"),
        ("/etc/key", "must be file:PATH, env:NAME or pkcs11:"),
        ("https://key", "must be file:PATH, env:NAME or pkcs11:"),
        (f"{SECRET}", "must be file:PATH, env:NAME or pkcs11:"),
        (f"hex:{SECRET}", "must be file:PATH, env:NAME or pkcs11:"),
    ],
)
def test_another_place_is_refused_without_repeating_what_may_be_the_key(uri: str, message: str) -> None:
    for refuse, error in ((check_location, ValueError), (read_secret, KeyUnavailable)):
        with pytest.raises(error, match=message) as refused:
            refuse(uri)  # type: ignore[operator]
        assert SECRET not in str(refused.value)


IN_TOKEN = "pkcs11:token=card%20room;object=log?module-path=/lib/hsm.so&pin-source=env:PIN"


def test_a_key_in_a_token_is_named_by_labels_library_and_the_place_of_the_pin() -> None:
    assert TokenObject.parse(IN_TOKEN) == TokenObject("/lib/hsm.so", "card room", "log", "env:PIN")
    assert environment_name(IN_TOKEN) == "PIN"
    assert environment_name(IN_TOKEN.replace("env:PIN", "file:/pin")) is None
    with pytest.raises(KeyUnavailable, match="a token gives no key away"):
        read_secret(IN_TOKEN)


@pytest.mark.parametrize(
    ("part", "instead", "message"),
    [
        ("token=card%20room;", "", "must be pkcs11:token="),
        ("object=log", "object=", "must be pkcs11:token="),
        ("object=log", "object=log;object=log", "must be pkcs11:token="),
        ("object=log", "object=log;type=private", "must be pkcs11:token="),
        ("?module-path=/lib/hsm.so&", "?", "must be pkcs11:token="),
        ("&pin-source=env:PIN", "", "must be pkcs11:token="),
        ("pin-source=env:PIN", f"pin-value={SECRET}", "must not hold the PIN itself: name its place with pin-source"),
        ("env:PIN", SECRET, "must have a pin-source of the form file:PATH or env:NAME"),
        ("env:PIN", "env:", "must have a pin-source of the form file:PATH or env:NAME"),
        ("env:PIN", f"|echo {SECRET}", "must have a pin-source of the form file:PATH or env:NAME"),
    ],
)
def test_another_form_of_a_key_in_a_token_is_refused(part: str, instead: str, message: str) -> None:
    assert part in IN_TOKEN
    with pytest.raises(ValueError, match=message) as refused:
        check_location(IN_TOKEN.replace(part, instead))
    assert SECRET not in str(refused.value)


def test_the_variable_behind_a_location_is_known() -> None:
    assert environment_name("env:LOG_KEY") == "LOG_KEY"
    assert environment_name("file:LOG_KEY") is None


@pytest.mark.parametrize(
    "content",
    [
        SECRET.encode(),
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n".encode(),
        b"\xff" + SECRET.encode(),
        SECRET.encode() * 4,
        (SECRET + "=" * 25).encode(),
    ],
)
@pytest.mark.parametrize("key", [SigningKey, KeyEncryptionKey])
def test_what_is_no_key_is_refused_without_showing_it(
    key: type[SigningKey | KeyEncryptionKey], content: bytes, tmp_path: Path
) -> None:
    uri = f"file:{secret_file(tmp_path, content)}"
    with pytest.raises(KeyUnavailable, match="must be") as refused:
        key.load(uri)
    assert uri in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
