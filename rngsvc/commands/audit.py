"""`rngsvc audit`."""

from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from rngsvc.audit import Audited, LogSource, SourceUnreadable, StoreFile, TilesFolder, TilesUrl, audit
from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.keys import log_key_option
from rngsvc.commands.output import json_option, print_json
from rngsvc.commands.progress import progress_bar
from rngsvc.monitor import Check, Finding, Unclosed
from rngsvc.protocol.signed_note import NoteKey


@click.command()
@click.argument("source")
@log_key_option
@json_option
def command(source: str, log_key: NoteKey, as_json: bool) -> None:
    """Check a whole log: every hash, every signature, every entry, every table's chain, every hand's life.

    SOURCE is a service's store (an SQLite file), a folder of log tiles, or the http address of one. Exit code 0 says
    that nothing is wrong, 1 that something is, 3 that a part could not be read.
    """
    try:
        with progress_bar("entries") as advance:
            audited = audit(_source(source), log_key, advance)
    except SourceUnreadable as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    if as_json:
        print_json(_facts(audited))
    else:
        _show(audited)
    if not audited.passed:
        count = audited.finding_count + len(audited.log_faults)
        raise Ended(ExitCode.CHECK_FAILED, f"{count} finding{'s' if count > 1 else ''}")


def _source(source: str) -> LogSource:
    if source.startswith(("http://", "https://")):
        return TilesUrl(source)
    path = Path(source)
    if path.is_dir():
        return TilesFolder(path)
    if path.is_file():
        return StoreFile(path)
    raise click.UsageError(f"SOURCE: {source!r} is neither a file, a folder nor an http address")


def _facts(audited: Audited) -> dict[str, object]:
    return {
        "verdict": "pass" if audited.passed else "fail",
        "origin": audited.checkpoint.origin,
        "size": audited.checkpoint.size,
        "root": audited.checkpoint.root.hex(),
        "last_time": audited.last_time,
        "entries": audited.counts,
        "tables": audited.tables,
        "outcomes": audited.outcomes,
        "log_faults": audited.log_faults,
        "finding_count": audited.finding_count,
        "findings": [_finding(each) for each in audited.findings],
        "unclosed": [_unclosed(each) for each in audited.unclosed],
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "index": finding.index,
        "table": finding.table.hex() if finding.table else None,
        "seq": finding.seq,
        "message": finding.message,
    }


def _unclosed(unclosed: Unclosed) -> dict[str, object]:
    return {
        "table": unclosed.table.hex(),
        "seq": unclosed.seq,
        "state": unclosed.state,
        "expires_ms": unclosed.expires_ms,
    }


def _show(audited: Audited) -> None:
    checkpoint = audited.checkpoint
    _line("log", f"{checkpoint.origin}, {checkpoint.size} entries, {audited.tables} tables", "bold")
    _line("last", _time(audited.last_time))
    for name, count in sorted((audited.counts | audited.outcomes).items()):
        _line(str(count), name)
    for each in audited.unclosed:
        text = f"table {each.table.hex()}, hand {each.seq}: {each.state}, expires {_time(each.expires_ms)}"
        _line("unclosed", text, "yellow")
    for fault in audited.log_faults:
        _line("log", fault, "bold red")
    for finding in audited.findings:
        table = f", table {finding.table.hex()}" if finding.table else ""
        hand = f", hand {finding.seq}" if finding.seq else ""
        _line(finding.check, f"entry {finding.index}{table}{hand}: {finding.message}", "bold red")
    if audited.passed:
        _line("pass", f"{', '.join(Check)}, tiles, root and signature are in order", "green")


def _line(word: str, text: str, style: str = "") -> None:
    # Text, not markup: what a log says must not colour our verdict.
    Console().print(Text.assemble((f"{word:>10} ", style), text), soft_wrap=True)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
