"""`rngsvc store`."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import click

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.output import json_option, print_json
from rngsvc.config import StoreLocation
from rngsvc.ports import StoreRefused


class Location(click.ParamType[StoreLocation]):
    """sqlite:PATH or postgresql://..."""

    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StoreLocation:
        """Read it."""
        try:
            location = value if isinstance(value, StoreLocation) else StoreLocation.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if location == StoreLocation():
            self.fail("memory: cannot be copied", param, ctx)
        return location


@click.group()
def command() -> None:
    """Look after a service's store."""


@command.command()
@click.argument("source", type=Location())
@click.argument("destination", type=Location())
@json_option
def copy(source: StoreLocation, destination: StoreLocation, as_json: bool) -> None:
    """Copy the store SOURCE into a new one: a backup while the service runs, or a move to another kind.

    Both are written as in the configuration: sqlite:PATH or postgresql://[user@]host/database[?schema=NAME]. The copy
    is one consistent snapshot; `rngsvc audit` checks it. Going on from it is right only if nothing was signed later.
    """
    try:
        counts = asyncio.run(_copy(source, destination))
    except StoreRefused as refused:
        raise Ended(ExitCode.USAGE, str(refused)) from None
    if as_json:
        print_json(counts)
    else:
        click.echo(f"{counts['entry']} entries, {counts['card_table']} tables, {counts['step']} steps of hands copied")


async def _copy(source: StoreLocation, destination: StoreLocation) -> dict[str, int]:
    from rngsvc.store.copy import copy as copy_store  # noqa: PLC0415

    async with _reading(source) as found, _filling(destination) as new:
        return await copy_store(found, new)


def _reading(location: StoreLocation) -> AbstractAsyncContextManager[Any]:
    if location.postgres:
        from rngsvc.store.copy_postgres import from_postgres  # noqa: PLC0415  (asyncpg is an extra)

        return from_postgres(location.postgres)
    from rngsvc.store.copy import from_sqlite  # noqa: PLC0415

    assert location.path, "the argument is no memory store"
    return from_sqlite(location.path)


def _filling(location: StoreLocation) -> AbstractAsyncContextManager[Any]:
    if location.postgres:
        from rngsvc.store.copy_postgres import into_postgres  # noqa: PLC0415

        return into_postgres(location.postgres)
    from rngsvc.store.copy import into_sqlite  # noqa: PLC0415

    assert location.path, "the argument is no memory store"
    return into_sqlite(location.path)
