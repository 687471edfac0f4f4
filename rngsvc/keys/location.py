"""Where a secret key lies, written as a URI: `file:PATH` or `env:NAME`."""

import os
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

MOST_KEY_BYTES: Final = 65_536


class KeyUnavailable(Exception):
    """A key cannot be had, or is not what it should be; the message names the place and the remedy, never content."""


def check_location(uri: str) -> None:
    """Raise ValueError unless `uri` is a place that this version can read a key from; nothing is read."""
    scheme, _, rest = uri.partition(":")
    if scheme == "pkcs11":
        raise ValueError("pkcs11: is not built yet in this version: use file: or env:")
    if scheme not in {"file", "env"} or not rest:
        # What stands there may be the key itself, written where its place should be: do not repeat it.
        raise ValueError("must be file:PATH or env:NAME")


def environment_name(uri: str) -> str | None:
    """Return the name of the environment variable that `uri` points to, None if it points elsewhere."""
    scheme, _, name = uri.partition(":")
    return name if scheme == "env" else None


def read_secret(uri: str, environ: MutableMapping[str, str] = os.environ) -> bytes:
    """Return the bytes at `uri`.

    A file must belong to this process's user and be closed to all others (mode 0600 or 0400). An environment variable
    is taken out of `environ` as it is read, so that no child process inherits it; it can be read only once.

    Raises:
        KeyUnavailable: there is nothing, it cannot be read, or others could read it too.
    """
    try:
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
