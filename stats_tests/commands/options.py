"""Click types that several commands use."""

import os
from collections.abc import Callable
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


FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
DECK_SIZE: Final = click.IntRange(2, LARGEST[Kind.SHUFFLES])
NUMBER_RANGE: Final = click.IntRange(2, LARGEST[Kind.NUMBERS])
NEW_FILE: Final = NewFile(dir_okay=False, path_type=Path)


def choice_of(words: Any) -> click.Choice[str]:
    """Return the click type of an enumeration's words."""
    return click.Choice([str(word) for word in words])
