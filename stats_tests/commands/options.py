"""Click types that several commands use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)


def choice_of(words: Any) -> click.Choice[str]:
    """Return the click type of an enumeration's words."""
    return click.Choice([str(word) for word in words])
