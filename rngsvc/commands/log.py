"""`rngsvc log`."""

from typing import Any

import click

from rngsvc.client import Logged, SignedCheckpoint
from rngsvc.commands.output import json_option, print_json
from rngsvc.commands.remote import connect, connection_options, failures_as_exit_codes
from rngsvc.protocol.signed_note import base64_text


@click.group()
def command() -> None:
    """Read a log: checkpoint, entries, proofs. Everything printed is verified."""


@command.command()
@connection_options
@json_option
def checkpoint(as_json: bool, **connection: Any) -> None:
    """Print the newest signed checkpoint."""
    with failures_as_exit_codes(), connect(**connection) as client:
        newest = client.newest_checkpoint
        if as_json:
            print_json({"origin": client.origin, **_checkpoint(newest)})
        else:
            click.echo(newest.note, nl=False)


@command.command()
@click.argument("index", type=click.IntRange(min=0))
@connection_options
@json_option
def entry(index: int, as_json: bool, **connection: Any) -> None:
    """Print the entry at position INDEX."""
    with failures_as_exit_codes(), connect(**connection) as client:
        logged = client.log.entry(index)
        if as_json:
            print_json(_entry(logged))
        else:
            click.echo(logged.raw.decode("ascii"))


@command.command()
@click.argument("index", type=click.IntRange(min=0))
@connection_options
@json_option
def proof(index: int, as_json: bool, **connection: Any) -> None:
    """Print the proof that the entry at position INDEX is in the log (C2SP tlog-proof), to be checked offline."""
    with failures_as_exit_codes(), connect(**connection) as client:
        logged = client.log.entry(index)
        if as_json:
            print_json({**_entry(logged), "proof": logged.proof_text})
        else:
            click.echo(logged.proof_text, nl=False)


@command.command()
@click.argument("old-size", type=click.IntRange(min=1))
@connection_options
@json_option
def consistency(old_size: int, as_json: bool, **connection: Any) -> None:
    """Print the hashes that prove the first OLD-SIZE entries a beginning of the newest tree (RFC 6962)."""
    with failures_as_exit_codes(), connect(**connection) as client:
        newest = client.newest_checkpoint
        hashes = client.log.consistency(old_size, newest.size)
        if as_json:
            print_json(
                {
                    "old_size": old_size,
                    "new_size": newest.size,
                    "hashes": [each.hex() for each in hashes],
                    "checkpoint": newest.note,
                }
            )
        else:
            for each in hashes:
                click.echo(base64_text(each))


@command.command()
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="First position.")
@click.option("--end", type=click.IntRange(min=0), default=0, help="One past the last; by default the newest entry.")
@click.option("--follow", is_flag=True, help="Stay, and print what is logged from now on.")
@connection_options
@json_option
def stream(first: int, end: int, follow: bool, as_json: bool, **connection: Any) -> None:
    """Print entries in log order, one a line."""
    if follow and end:
        raise click.UsageError("--follow goes on for ever; leave --end out")
    with failures_as_exit_codes(), connect(**connection) as client:
        for run in client.log.entries(first, end, follow=follow):
            for index, raw in enumerate(run.entries, run.first):
                if as_json:
                    print_json({"index": index, "entry": raw.decode("ascii")})
                else:
                    click.echo(raw.decode("ascii"))


def _checkpoint(checkpoint: SignedCheckpoint) -> dict[str, object]:
    return {"size": checkpoint.size, "root": checkpoint.root.hex(), "checkpoint": checkpoint.note}


def _entry(logged: Logged) -> dict[str, object]:
    return {
        "index": logged.index,
        "entry": logged.raw.decode("ascii"),
        "leaf": logged.leaf.hex(),
        **_checkpoint(logged.checkpoint),
    }
