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


class NewFile(click.Path):
    """A file to write; whether that can be done is known before an hour of counting, not after it."""

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
        return path


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


FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
DECK_SIZE: Final = click.IntRange(2, LARGEST[Kind.SHUFFLES])
NUMBER_RANGE: Final = click.IntRange(2, LARGEST[Kind.NUMBERS])
NEW_FILE: Final = NewFile(dir_okay=False, path_type=Path)
TIME: Final = Time()


def choice_of(words: Any) -> click.Choice[str]:
    """Return the click type of an enumeration's words."""
    return click.Choice([str(word) for word in words])
