"""`dealer store`."""

import json
from typing import Any

import click

from dealer.commands.exit_codes import Ended, ExitCode
from dealer.store import StoreFailed
from dealer.store.copy import copy as copy_store
from dealer.store.location import ExtraMissing, Location


class _Store(click.ParamType[Location]):
    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Location:
        try:
            location = Location.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if location == Location():
            self.fail("memory: cannot be copied", param, ctx)
        return location


@click.group()
def command() -> None:
    """Look after a card room's store."""


@command.command()
@click.argument("source", type=_Store())
@click.argument("destination", type=_Store())
@click.option("--json", "as_json", is_flag=True, help="Print how many rows of what there are, as JSON.")
def copy(source: Location, destination: Location, as_json: bool) -> None:
    """Copy the store SOURCE into a new one: a backup while the dealer runs, or a move to another kind.

    Both are written as in the configuration: sqlite:PATH or postgresql://[user@]host/database[?schema=NAME]. The copy
    is one consistent snapshot. Before a move, stop the dealer: what happens after the snapshot is not in the copy.
    """
    try:
        counts = copy_store(source, destination)
    except (StoreFailed, ExtraMissing) as refused:
        raise Ended(ExitCode.USAGE, str(refused)) from None
    if as_json:
        click.echo(json.dumps(counts))
    else:
        click.echo(
            f"{counts['tables']} tables, {counts['hands']} hands, {counts['ledger']} entries of the ledger copied"
        )
