"""What commands print, JSON with stable keys or lines for people, and where they may write."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click

from rngsvc.keys.wrapping import KEY_BYTES

_KEY_FILE_BYTES: Final = 64 * 1024  # whatever is longer is no key file

json_option: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(value: object) -> None:
    """Print ``value`` as one line of JSON; its keys are part of the interface."""
    click.echo(json.dumps(value, ensure_ascii=False))


def refuse_to_overwrite(option: str, output: Path | None, inputs: Iterable[object]) -> None:
    """Raise UsageError if ``output`` is one of the paths among ``inputs``, or lies in one, or holds a private key.

    An input that is a key may be written as file:PATH; what is neither that nor a Path is passed over. A file that is
    not there yet is no key, and a new file may be made inside a folder that is read.
    """
    if output is None:
        return
    target = output.resolve()
    for given in inputs:
        if isinstance(given, str) and given.startswith("file:"):
            given = Path(given.removeprefix("file:"))  # noqa: PLW2901  (the same place, said as a path)
        if not isinstance(given, Path):
            continue
        source = given.resolve()
        if source == target or (target.exists() and (source in target.parents or _same(source, target))):
            raise click.UsageError(f"{option}: {output} is what this command reads ({given}); name another file")
    if target.is_file() and _is_private_key(target):
        raise click.UsageError(f"{option}: {output} holds a private key, and keys are never overwritten")


def _same(one: Path, other: Path) -> bool:
    return one.exists() and one.samefile(other)


def _is_private_key(file: Path) -> bool:
    """Say whether there is a PEM private key in the file, or a key-encryption key in hex or base64."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_KEY_FILE_BYTES).strip()
    except OSError:
        return False  # then it is not ours to write either, and writing says why
    if b"PRIVATE KEY-----" in content:
        return True
    try:
        key = (
            bytes.fromhex(content.decode("ascii"))
            if len(content) == 2 * KEY_BYTES
            else b64decode(content, validate=True)
        )
    except ValueError:
        return False
    return len(key) == KEY_BYTES
