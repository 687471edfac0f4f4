"""`rngsvc log`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from rngsvc.audit import SourceUnreadable, TilesUrl
from rngsvc.client import Logged, SignedCheckpoint, SyncLog, TilesLog
from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.output import json_option, print_json, refuse_to_overwrite
from rngsvc.commands.remote import connect, connection_options, failures_as_exit_codes
from rngsvc.protocol.entries import KeyEntry
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.receipt import Receipt, parse_document
from rngsvc.protocol.signed_note import NoteKey, base64_text
from rngsvc.proven_hand import entry_of
from rngsvc.upgrade import NotCosignedYet
from rngsvc.upgrade import upgrade as upgraded_receipt


@click.group()
def command() -> None:
    """Read a log from a running service (--target) or from its tiles (--url).

    What is printed is verified. Only the hashes of `consistency` prove nothing by themselves: they are for whoever
    holds the older root.
    """


def _log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = connection_options(json_option(function), target_required=False)
    return click.option("--url", metavar="URL", help="Web address of the log's tiles.")(function)


@contextmanager
def _opened(url: str | None, target: str | None, log_key: NoteKey, **connection: Any) -> Iterator[SyncLog | TilesLog]:
    """Yield the log, and turn what goes wrong with it into exit codes."""
    if (url is None) == (target is None):
        raise click.UsageError("either --target or --url is needed")
    with failures_as_exit_codes():
        if target is not None:
            with connect(target, log_key, **connection) as client:
                yield client.log
            return
        assert url is not None, "one of the two is given"
        try:
            source = TilesUrl(url)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        try:
            yield TilesLog(source, log_key)
        except SourceUnreadable as error:
            raise Ended(ExitCode.UNDECIDED, str(error)) from error
        except IndexError as error:
            raise click.UsageError(str(error)) from error


@command.command()
@_log_options
def checkpoint(as_json: bool, **where: Any) -> None:
    """Print the newest signed checkpoint."""
    with _opened(**where) as log:
        newest = log.checkpoint()
        if as_json:
            print_json(_checkpoint(newest))
        else:
            click.echo(newest.note, nl=False)


@command.command()
@_log_options
def keys(as_json: bool, **where: Any) -> None:
    """List the log's keys: its first one, then each change with the position and time of its entry."""
    origin = where["log_key"].name
    with _opened(**where) as log:
        changes = [(each, entry_of(each, KeyEntry)) for each in log.key_entries()]
        first = NoteKey(origin, changes[0][1].old if changes else where["log_key"].public_key).vkey
        later = [NoteKey(origin, entry.new).vkey for _, entry in changes]
        if as_json:
            shown = [
                {**_entry(each), "time": entry.time, "key": vkey}
                for (each, entry), vkey in zip(changes, later, strict=True)
            ]
            print_json({"first": first, "changes": shown})
            return
        click.echo(first)
        for (each, entry), vkey in zip(changes, later, strict=True):
            since = datetime.fromtimestamp(entry.time / 1000, UTC).isoformat(timespec="seconds")
            click.echo(f"{vkey} from entry {each.index}, {since}")


@command.command()
@click.argument("index", type=click.IntRange(min=0))
@_log_options
def entry(index: int, as_json: bool, **where: Any) -> None:
    """Print the entry at position INDEX."""
    with _opened(**where) as log:
        logged = log.entry(index)
        if as_json:
            print_json(_entry(logged))
        else:
            click.echo(logged.raw.decode("ascii"))


@command.command()
@click.argument("index", type=click.IntRange(min=0))
@_log_options
def proof(index: int, as_json: bool, **where: Any) -> None:
    """Print the proof that the entry at position INDEX is in the log (C2SP tlog-proof), to be checked offline."""
    with _opened(**where) as log:
        logged = log.entry(index)
        if as_json:
            print_json({**_entry(logged), "proof": logged.proof_text})
        else:
            click.echo(logged.proof_text, nl=False)


@command.command()
@click.argument("old-size", type=click.IntRange(min=1))
@_log_options
def consistency(old_size: int, as_json: bool, **where: Any) -> None:
    """Print the hashes that prove the first OLD-SIZE entries a beginning of the newest tree (RFC 6962)."""
    with _opened(**where) as log:
        newest = log.checkpoint()
        hashes = log.consistency(old_size)
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
@_log_options
def stream(first: int, end: int, follow: bool, as_json: bool, **where: Any) -> None:
    """Print entries in log order, one a line."""
    if follow and end:
        raise click.UsageError("--follow goes on for ever; leave --end out")
    with _opened(**where) as log:
        if isinstance(log, TilesLog):
            if follow:
                raise click.UsageError("--follow needs a running service: --target")
            runs = log.entries(first, end)
        else:
            runs = log.entries(first, end, follow=follow)
        for run in runs:
            for index, raw in enumerate(run.entries, run.first):
                if as_json:
                    print_json({"index": index, "entry": raw.decode("ascii")})
                else:
                    click.echo(raw.decode("ascii"))


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", required=True, help="The log's web address.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
def upgrade(file: Path, url: str, output: Path) -> None:
    """Let the proofs in a receipt or hand history lead to a checkpoint that witnesses have cosigned.

    `rngsvc verify --policy` then asks for their quorum. The file is not checked here.
    """
    refuse_to_overwrite("--output", output, [file])
    try:
        text = file.read_text(encoding="utf-8")
        document = parse_document(text)
        receipt = document if isinstance(document, Receipt) else document.receipt
        upgraded = upgraded_receipt(receipt, TilesUrl(url))
    except (MalformedError, UnicodeDecodeError) as error:
        raise Ended(ExitCode.USAGE, f"{file}: {error}") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except (SourceUnreadable, NotCosignedYet) as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    if isinstance(document, Receipt):
        output.write_text(upgraded.encode(), encoding="utf-8")
    else:
        history = {**json.loads(text), "receipt": upgraded.members()}
        output.write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")


def _checkpoint(checkpoint: SignedCheckpoint) -> dict[str, object]:
    return {"size": checkpoint.size, "root": checkpoint.root.hex(), "checkpoint": checkpoint.note}


def _entry(logged: Logged) -> dict[str, object]:
    return {
        "index": logged.index,
        "entry": logged.raw.decode("ascii"),
        "leaf": logged.leaf.hex(),
        **_checkpoint(logged.checkpoint),
    }
