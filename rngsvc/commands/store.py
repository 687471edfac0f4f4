"""`rngsvc store`."""

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.output import json_option, print_json
from rngsvc.commands.progress import progress_bar
from rngsvc.commands.settings import merged, settings_options
from rngsvc.config import Settings, StoreLocation
from rngsvc.keys.loading import load_changing_key
from rngsvc.keys.location import KeyUnavailable
from rngsvc.ports import DataKeyRow, StoreRefused
from rngsvc.retention import Plan, carry_out, plan
from rngsvc.rewrapping import Rewrapped, rewrap

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


# --- Data keys ---


@command.command("rewrap")
@settings_options
@json_option
def rewrap_command(config_file: Path | None, as_json: bool, **flags: str | None) -> None:
    """Wrap the stored data keys under a new key-encryption key.

    The configuration names the new key (key_encryption_key) and the one before (previous_key_encryption_key). A service
    that runs must know both already. It may be broken off and run again. A node that runs with the old key alone goes
    on to wrap under it: run this again once every node has the new key; when it finds nothing, the old key may go.
    """
    settings = merged(config_file, flags).settings
    if settings.previous_key_encryption_key is None:
        raise Ended(ExitCode.CONFIGURATION, "previous_key_encryption_key: must name the key before, to unwrap with")
    if settings.store == StoreLocation():
        raise Ended(ExitCode.CONFIGURATION, "store: memory: keeps no data keys")
    try:
        counts = asyncio.run(_rewrap(settings, settings.previous_key_encryption_key))
    except KeyUnavailable as error:
        raise Ended(ExitCode.CONFIGURATION, str(error)) from None
    except StoreRefused as error:
        raise Ended(ExitCode.USAGE, str(error)) from None
    if as_json:
        facts = {"rewrapped": counts.done, "before": counts.before, "refused": counts.refused}
        print_json({**facts, "refused_keys": sorted(counts.named)})
    else:
        click.echo(f"{counts.done} data keys wrapped anew, {counts.before} were so before")
    if counts.refused:
        named = ", ".join(sorted(counts.named))
        text = f"{counts.refused} data keys open under neither key, or were changed; the key that they name is {named}"
        raise Ended(ExitCode.CHECK_FAILED, text)
    if not as_json:
        again = "" if counts.done == 0 else "run this again, and when it finds nothing "
        click.echo(f"once every node of this store runs with the new key, {again}the old key may go")


async def _rewrap(settings: Settings, previous: str) -> Rewrapped:
    keys = load_changing_key(settings.key_encryption_key, previous)
    async with _data_keys(settings.store) as store:
        with progress_bar("data keys") as progress:
            return await rewrap(store, settings.origin, keys, progress)


@command.command("destroy-secrets")
@click.argument("store", type=Location())
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), required=True, help="Days before this one (UTC).")
@click.option("--yes", is_flag=True, help="Do it. Without it, only what would be done is said.")
@json_option
def destroy_secrets(store: StoreLocation, before: datetime, yes: bool, as_json: bool) -> None:
    """Destroy the data keys of hands that are closed and audited, for ever.

    A key belongs to one table and one day. It goes if every hand that the table reserved on that day is closed, and
    covered by a passing verdict of the table's auditor in the log. All others are kept and named (exit code 1). Each
    key that is gone is a JSON line on stderr. A service that runs forgets it within ten minutes.
    """
    limit = before.replace(tzinfo=UTC)
    if limit > datetime.now(UTC):
        raise click.UsageError("--before: must not lie in the future: the keys of today are in use")
    try:
        found = asyncio.run(_destroy(store, (limit - _EPOCH).days, yes=yes, quiet=as_json))
    except StoreRefused as error:
        raise Ended(ExitCode.USAGE, str(error)) from None
    hands = sum(count for _, count in found.doomed)
    if as_json:
        print_json(
            {
                "destroyed" if yes else "would_destroy": [_place(key) for key, _ in found.doomed],
                "hands": hands,
                "kept": [{**_place(each.key), "why": each.why} for each in found.kept],
            }
        )
    elif yes:
        click.echo(f"{len(found.doomed)} data keys of {hands} hands destroyed")
    else:
        click.echo(f"{len(found.doomed)} data keys of {hands} hands would be destroyed; --yes does it")
    if found.kept:
        raise Ended(ExitCode.CHECK_FAILED, f"{len(found.kept)} data keys are kept")


async def _destroy(location: StoreLocation, before_day: int, *, yes: bool, quiet: bool) -> Plan:
    async with _data_keys(location) as store:
        found = await plan(store, before_day)
        if not quiet:
            for key, count in found.doomed:
                click.echo(f"{_day(key)} table {key.table.hex()}: {count} hands, closed and audited")
            for each in found.kept:
                click.echo(f"{_day(each.key)} table {each.key.table.hex()}: kept, {each.why}")
        if yes:
            async for gone in carry_out(store, [key for key, _ in found.doomed]):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                for key in gone:
                    line = {**_place(key), "event": "data key destroyed", "level": "warning", "timestamp": now}
                    click.echo(json.dumps(line), err=True)
        return found


def _place(key: DataKeyRow) -> dict[str, str]:
    return {"table": key.table.hex(), "day": _day(key)}


def _day(key: DataKeyRow) -> str:
    return (_EPOCH + timedelta(days=key.day)).date().isoformat()


def _data_keys(location: StoreLocation) -> AbstractAsyncContextManager[Any]:
    if location.postgres:
        from rngsvc.store.keys_postgres import keys_in_postgres  # noqa: PLC0415  (asyncpg is an extra)

        return keys_in_postgres(location.postgres)
    from rngsvc.store.keys_sqlite import keys_in_sqlite  # noqa: PLC0415

    assert location.path, "the argument is no memory store"
    return keys_in_sqlite(location.path)
