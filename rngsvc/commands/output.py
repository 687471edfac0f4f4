"""What commands print: JSON with stable keys for programs, lines for people."""

import json
from collections.abc import Callable
from typing import Any

import click

json_option: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(value: object) -> None:
    """Print ``value`` as one line of JSON; its keys are part of the interface."""
    click.echo(json.dumps(value, ensure_ascii=False))
