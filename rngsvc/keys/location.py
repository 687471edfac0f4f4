"""Where a secret key lies, written as a URI: `file:PATH`, `env:NAME`, or `pkcs11:...` for one that a token keeps."""

import os
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote

MOST_KEY_BYTES: Final = 65_536

_PKCS11_FORM: Final = "must be pkcs11:token=LABEL;object=LABEL?module-path=FILE&pin-source=URI"


class KeyUnavailable(Exception):
    """A key cannot be had, or is not what it should be; the message names the place and the remedy, never content."""


@dataclass(frozen=True, slots=True)
class TokenObject:
    """A key in a PKCS#11 token, by the labels of token and key (RFC 7512).

    `module` is the token's library, `pin_source` the file: or env: where the user's PIN lies.
    """

    module: str
    token: str
    label: str
    pin_source: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read pkcs11:token=LABEL;object=LABEL?module-path=FILE&pin-source=URI; ValueError for anything else."""
        path, _, query = uri.removeprefix("pkcs11:").partition("?")
        given: dict[str, str] = {}
        for attribute in (*path.split(";"), *query.split("&")):
            name, _, value = attribute.partition("=")
            if name == "pin-value":
                raise ValueError("must not hold the PIN itself: name its place with pin-source")
            if name in given:
                raise ValueError(_PKCS11_FORM)
            given[name] = unquote(value)
        if set(given) != {"token", "object", "module-path", "pin-source"} or not all(given.values()):
            raise ValueError(_PKCS11_FORM)
        if _scheme_of(given["pin-source"]) not in {"file", "env"}:
            raise ValueError("must have a pin-source of the form file:PATH or env:NAME")
        return cls(given["module-path"], given["token"], given["object"], given["pin-source"])


def is_in_token(uri: str) -> bool:
    """Say whether the key at `uri` stays in a token."""
    return uri.startswith("pkcs11:")


def check_location(uri: str) -> None:
    """Raise ValueError unless `uri` is a place where a key can lie; nothing is read."""
    if is_in_token(uri):
        TokenObject.parse(uri)
    elif _scheme_of(uri) not in {"file", "env"}:
        # What stands there may be the key itself, written where its place should be: do not repeat it.
        raise ValueError("must be file:PATH, env:NAME or pkcs11:...")


def environment_name(uri: str) -> str | None:
    """Return the name of the environment variable that `uri`, or its PIN's place, points to; None if there is none."""
    if is_in_token(uri):
        try:
            uri = TokenObject.parse(uri).pin_source
        except ValueError:
            return None
    scheme, _, name = uri.partition(":")
    return name if scheme == "env" else None


def _scheme_of(uri: str) -> str | None:
    scheme, _, rest = uri.partition(":")
    return scheme if rest else None


def read_secret(uri: str, environ: MutableMapping[str, str] = os.environ) -> bytes:
    """Return the bytes at `uri`.

    A file must belong to this process's user and be closed to all others (mode 0600 or 0400). An environment variable
    is taken out of `environ` as it is read, so that no child process inherits it; it can be read only once.

    Raises:
        KeyUnavailable: there is nothing, it cannot be read, or others could read it too.
    """
    try:
        if is_in_token(uri):
            raise ValueError("must be file:PATH or env:NAME; a token gives no key away")
        check_location(uri)
    except ValueError as error:
        raise KeyUnavailable(f"key location: {error}") from None
    name = environment_name(uri)
    if name is None:
        return _read_file(Path(uri.removeprefix("file:")))
    value = environ.pop(name, "")
    if not value:
        raise KeyUnavailable(f"key {uri}: the environment variable is not set, or was read before")
    return value.encode()


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # Asked of the open file, so that nobody can exchange it between the question and the reading.
            status = os.fstat(file.fileno())
            content = file.read(MOST_KEY_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise KeyUnavailable(f"key file:{path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise KeyUnavailable(f"key file:{path}: is not a regular file")
    if status.st_uid != os.geteuid():
        raise KeyUnavailable(
            f"key file:{path}: belongs to user {status.st_uid}, must belong to user {os.geteuid()}, who runs this"
        )
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise KeyUnavailable(f"key file:{path}: mode is {mode:04o}, must be 0600; chmod 600 it, and consider a new key")
    if not 0 < len(content) <= MOST_KEY_BYTES:
        raise KeyUnavailable(f"key file:{path}: must hold 1 to {MOST_KEY_BYTES} bytes")
    return content
