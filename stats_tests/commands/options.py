"""Click types that several commands use."""

import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from stats_tests.catalogue import LARGEST, Kind

Command = TypeVar("Command", bound=Callable[..., Any])


_PRIVATE_PEM: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_PRIVATE_HEX: Final = re.compile(rb"\s*[0-9a-fA-F]{64}\s*")
"""A key-encryption key of `rngsvc keygen`."""


def beside(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the path and what stands beside it under its name and a suffix."""
    return [path, *(path.with_name(f"{path.name}{suffix}") for suffix in suffixes)]


class NewFile(click.Path):
    """A file to write; whether that can be done is known before an hour of counting, not after it.

    What is there is overwritten, as a laboratory that runs again wants it, unless it is a private key.
    """

    def __init__(self, *suffixes: str) -> None:
        """Take a file that is written together with those of its name and `suffixes`."""
        super().__init__(dir_okay=False, path_type=Path)
        self.suffixes = (*suffixes, ".part")  # where it is written before it gets its name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; a usage error if its folder is not there or may not be written to."""
        path: Path = super().convert(value, param, ctx)  # type: ignore[assignment]  # path_type says which
        if not path.parent.is_dir():
            self.fail(f"{path}: there is no folder {path.parent}", param, ctx)
        targets = [path] if path.exists() else []
        if path.is_file() or not path.exists():
            targets.append(path.parent)  # where it is written before it gets its name
        if not all(os.access(target, os.W_OK) for target in targets):
            self.fail(f"{path}: may not be written", param, ctx)
        for each in beside(path, self.suffixes):
            self._refuse_private_key(each, param, ctx)
        return path

    def _refuse_private_key(self, path: Path, param: click.Parameter | None, ctx: click.Context | None) -> None:
        if not os.path.isfile(path):
            return
        try:
            with path.open("rb") as file:
                head = file.read(1 << 16)
        except OSError:
            self.fail(f"{path}: may not be read, so that it could be a private key; nothing is written", param, ctx)
        if _PRIVATE_PEM.search(head) or _PRIVATE_HEX.fullmatch(head):
            self.fail(f"{path}: has the form of a private key, and is not overwritten", param, ctx)


class OldFile(click.Path):
    """A file to read."""

    def __init__(self, *suffixes: str) -> None:
        """Take a file that is read together with those of its name and `suffixes`."""
        super().__init__(exists=True, dir_okay=False, path_type=Path)
        self.suffixes = suffixes


class WritingCommand(click.Command):
    """A command that writes files: none of them over what it reads, nor over each other."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; a usage error if a file to write is another file of the command."""
        rest = super().parse_args(ctx, args)
        taken: dict[object, str] = {}
        # Files to read come first, so that the error names the one that would be written.
        for param in sorted(self.params, key=lambda param: isinstance(param.type, NewFile)):
            for path in _files_of(param, ctx.params.get(param.name or "")):
                written = isinstance(param.type, NewFile)
                holder = taken.setdefault(_identity(path), param.opts[0])
                if written and holder != param.opts[0]:
                    raise click.BadParameter(f"{path}: is also the file of {holder}", ctx, param)
        return rest


def _files_of(param: click.Parameter, value: Any) -> list[Path]:
    """Return the regular files, there or to come, that an option's value names."""
    if isinstance(value, str) and param.name == "source":
        paths = [Path(value.removeprefix("file:"))] if value.startswith("file:") else []
    elif isinstance(value, str) and param.name == "log_key":
        paths = [Path(value)] if os.path.isfile(value) else []
    elif isinstance(param.type, NewFile | OldFile) and value is not None:
        given = value if isinstance(value, tuple) else (value,)
        paths = [each for path in given for each in beside(path, param.type.suffixes)]
    else:
        paths = []
    return [path for path in paths if os.path.isfile(path) or not os.path.lexists(path)]


def _identity(path: Path) -> object:
    """Return what is equal for two names of one file."""
    if os.path.isfile(path):
        status = path.stat()
        return status.st_dev, status.st_ino
    return os.path.realpath(path)


class Time(click.ParamType[str]):
    """A point in time by RFC 3339, kept as it is written; the empty text says that none is given."""

    name = "time"

    _FORM: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; a usage error if it is no such time: it is signed, and others must understand it."""
        text = str(value)
        try:
            if text:
                datetime.fromisoformat(text)  # refuses the 30th of February
        except ValueError:
            known = False
        else:
            known = not text or self._FORM.fullmatch(text) is not None
        if not known:
            self.fail(f"{text}: must be a time of RFC 3339, like 2026-11-29T12:00:00Z", param, ctx)
        return text


FILE: Final = OldFile()
SIGNED_FILE: Final = OldFile(".note")
DECK_SIZE: Final = click.IntRange(2, LARGEST[Kind.SHUFFLES])
NUMBER_RANGE: Final = click.IntRange(2, LARGEST[Kind.NUMBERS])
NEW_FILE: Final = NewFile()
NEW_SIGNED_FILE: Final = NewFile(".note", ".note.part")
"""A report, and its signature beside it."""
TIME: Final = Time()


def choice_of(words: Any) -> click.Choice[str]:
    """Return the click type of an enumeration's words."""
    return click.Choice([str(word) for word in words])
