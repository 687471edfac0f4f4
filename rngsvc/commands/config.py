"""`rngsvc config`."""

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from rngsvc.commands.output import json_option, print_json
from rngsvc.commands.settings import merged, settings_options


@click.group()
def command() -> None:
    """Show or check the configuration: flags before environment before file before defaults."""


@command.command()
@settings_options
@json_option
def show(config_file: Path | None, as_json: bool, **flags: str | None) -> None:
    """Print the merged settings and where each came from."""
    shown = merged(config_file, flags).shown()
    if as_json:
        print_json(shown)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for name, each in shown.items():
        value = "-" if each["value"] is None else str(each["value"])
        table.add_row(name, value, str(each["source"]))
    Console().print(table, markup=False)


@command.command()
@settings_options
def check(config_file: Path | None, **flags: str | None) -> None:
    """Say what is wrong with the configuration, if anything: exit code 0 or 78."""
    merged(config_file, flags)
    click.echo("the configuration is usable", err=True)
