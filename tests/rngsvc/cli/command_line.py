"""Runs `rngsvc` in this process, as a shell would see it."""

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from rngsvc.__main__ import cli


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Its standard output as one JSON value."""
        return json.loads(self.stdout)


def rngsvc(*arguments: object, stdin: bytes | None = None) -> Ran:
    """Run `rngsvc ARGUMENTS`."""
    result = CliRunner().invoke(cli, [str(each) for each in arguments], input=stdin, prog_name="rngsvc")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)
