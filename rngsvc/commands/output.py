"""How commands print: JSON with stable keys for programs, rich text for people at a terminal."""

import json
import sys
from collections.abc import Callable
from typing import Any

import click

json_option: Callable[..., Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)


def print_json(value: object) -> None:
    """Print ``value`` as one line of JSON; its keys are part of the interface."""
    click.echo(json.dumps(value, ensure_ascii=False))


def at_a_terminal() -> bool:
    """Say whether a person reads along, so that colours and progress bars make sense."""
    return sys.stderr.isatty()
