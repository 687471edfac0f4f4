"""The log's public key as commands take it: the verifier key itself, or a file that holds it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import NoteKey


class LogKey(click.ParamType[NoteKey]):
    """A C2SP verifier key (`name+id+key`), or the path of a file that holds one and nothing else."""

    name = "vkey|file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NoteKey:
        """Read it."""
        if isinstance(value, NoteKey):
            return value
        text = str(value)
        if text.count("+") < 2:
            try:
                text = Path(text).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                self.fail(f"{value!r} is neither a verifier key (name+id+key) nor a readable file: {error}", param, ctx)
        try:
            return NoteKey.from_vkey(text)
        except MalformedError as error:
            self.fail(str(error), param, ctx)


log_key_option: Callable[..., Any] = click.option(
    "--log-key", type=LogKey(), required=True, help="The log's verifier key, or a file that holds it."
)
