"""The log's public key and trust policies as commands take them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.policy import Policy
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
    "--log-key", type=LogKey(), required=True, help="The log's verifier key, best its first, or a file that holds it."
)


class PolicyFile(click.ParamType[Policy]):
    """The path of a trust policy file (C2SP tlog-policy)."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Policy:
        """Read it."""
        if isinstance(value, Policy):
            return value
        try:
            return Policy.parse(Path(value).read_bytes())
        except (OSError, MalformedError) as error:
            self.fail(f"{value}: {error}", param, ctx)


policy_option: Callable[..., Any] = click.option(
    "--policy", type=PolicyFile(), help="Trust policy file: ask for its quorum of witnesses too."
)
