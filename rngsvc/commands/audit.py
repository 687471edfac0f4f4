"""`rngsvc audit`."""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from rngsvc.abort_rate import DEFAULT_RATE, DEFAULT_SIGNIFICANCE, AbortLimit
from rngsvc.audit import Audit, Audited, LogSource, SourceUnreadable, StoreFile, TilesFolder, TilesUrl
from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.output import json_option, print_json, refuse_to_overwrite
from rngsvc.commands.progress import progress_bar
from rngsvc.commands.remote import connect, connection_options, failures_as_exit_codes
from rngsvc.examiner import HandExaminer, documents_in
from rngsvc.findings import BY_AUDITOR, Check, Finding
from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import AuditorKeys
from rngsvc.monitor import GivenUp, TwinCount, Unclosed
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.saved_audit import SavedAudit

_NEW = click.Path(dir_okay=False, path_type=Path)
_EXISTING = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("source")
@click.option("--state", type=_NEW, help="Go on from this file if it is there, and keep in it where the audit stopped.")
@click.option(
    "--abort-rate",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=DEFAULT_RATE,
    show_default=True,
    help="The share of hands that may be given up by chance.",
)
@click.option(
    "--abort-significance",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=DEFAULT_SIGNIFICANCE,
    show_default=True,
    help="How likely a log that keeps to this rate may be suspected, over all its tables.",
)
@click.option("--open", "opens", is_flag=True, help="As auditor: open every escrow, derive every shuffle again.")
@click.option("--auditor-key", help="With --open: the auditor's private keys, as file:PATH or env:NAME.")
@click.option(
    "--histories",
    type=_EXISTING,
    multiple=True,
    help="With --open: compare these histories and receipts (files, or folders of .json and .jsonl) with the cards.",
)
@click.option("--report", type=_NEW, help="Write what --json prints to this file too.")
@click.option(
    "--record", is_flag=True, help="With --open: sign the verdict and log it at --target, with the report's hash."
)
@partial(connection_options, target_required=False)
@json_option
def command(
    source: str,
    log_key: NoteKey,
    state: Path | None,
    abort_rate: float,
    abort_significance: float,
    opens: bool,
    auditor_key: str | None,
    histories: tuple[Path, ...],
    report: Path | None,
    record: bool,
    target: str | None,
    as_json: bool,
    **connection: Any,
) -> None:
    """Check a whole log: every hash, every signature, every entry, every table's chain, every hand's life.

    SOURCE is a service's store (an SQLite file), a folder of log tiles, or the http address of one. Exit code 0 says
    that nothing is wrong, 1 that something is, 3 that a part could not be read.

    Hands that were given up count against a table once somebody had promised a seed for them or they were sealed. Too
    many is: more than chance explains if each is given up with probability --abort-rate (exact binomial tail, the
    significance shared out over the tables and the log as a whole).
    """
    for refused, why in (
        (opens != (auditor_key is not None), "--open and --auditor-key go together"),
        ((histories or record) and not opens, "--histories and --record go with --open"),
        (histories and state, "--histories needs the whole log: leave --state out"),
        (record and not (target and report), "--record needs --target, and a --report to keep: the log holds its hash"),
    ):
        if refused:
            raise click.UsageError(why)
    inputs = (Path(source), auditor_key, *histories, *connection.values())
    refuse_to_overwrite("--report", report, (*inputs, state))
    refuse_to_overwrite("--state", state, inputs)
    keys = _auditor(auditor_key)
    examiner = HandExaminer(log_key, keys.opening) if keys else None
    if examiner:
        for document in _files(histories):
            _compare(examiner, document)
    audit = Audit(
        log_key,
        AbortLimit(abort_rate, abort_significance),
        examiner,
        examiner.public_key if examiner else None,
        save=_saver(state),
        resume_from=_saved(state),
    )
    audited = _run(audit, source)
    if examiner:
        audited.add(examiner.unmatched(audited.checkpoint.size))
    facts = _facts(audited, examined=opens)
    if report:
        _write(report, facts)
    if record and keys and report:
        _record(audited, facts, report, keys, {"target": target, "log_key": log_key, **connection})
    if as_json:
        print_json(facts)
    else:
        _show(audited, facts, _not_checked(audited, histories))
    if facts["verdict"] == "undecided":
        raise Ended(ExitCode.UNDECIDED, "there was no hand that the auditor's key opens")
    if not audited.passed:
        count = audited.finding_count + len(audited.log_faults)
        raise Ended(ExitCode.CHECK_FAILED, f"{count} finding{'s' if count > 1 else ''}")


def _run(audit: Audit, source: str) -> Audited:
    try:
        with progress_bar("entries") as audit.progress:
            return audit.run(_source(source))
    except SourceUnreadable as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    except (MalformedError, ProofError) as error:
        raise Ended(ExitCode.USAGE, f"--state: {error}") from error


def _source(source: str) -> LogSource:
    if source.startswith(("http://", "https://")):
        return TilesUrl(source)
    path = Path(source)
    if path.is_dir():
        return TilesFolder(path)
    if path.is_file():
        return StoreFile(path)
    raise click.UsageError(f"SOURCE: {source!r} is neither a file, a folder nor an http address")


# --- To go on later ---


def _saved(state: Path | None) -> SavedAudit | None:
    if state is None or not state.exists():
        return None
    try:
        return SavedAudit.read(state)
    except (OSError, MalformedError) as error:
        raise Ended(ExitCode.USAGE, f"{state}: {error}") from error


def _saver(state: Path | None) -> Callable[[SavedAudit], None] | None:
    if state is None:
        return None

    def save(saved: SavedAudit) -> None:
        try:
            saved.write(state)
        except OSError as error:
            raise Ended(ExitCode.USAGE, f"{state}: {error.strerror}") from error

    return save


# --- The auditor ---


def _auditor(uri: str | None) -> AuditorKeys | None:
    try:
        return AuditorKeys.load(uri) if uri else None
    except KeyUnavailable as error:
        raise Ended(ExitCode.USAGE, str(error)) from error


def _files(histories: tuple[Path, ...]) -> list[Path]:
    files: list[Path] = []
    for path in histories:
        inside = (each for each in path.rglob("*") if each.suffix in {".json", ".jsonl"} and each.is_file())
        files += sorted(inside) if path.is_dir() else [path]
    return files


def _compare(examiner: HandExaminer, file: Path) -> None:
    try:
        examiner.add(documents_in(str(file), file.read_text(encoding="utf-8")))
    except OSError as error:
        raise Ended(ExitCode.USAGE, f"{file}: {error.strerror}") from error
    except (MalformedError, UnicodeDecodeError) as error:
        raise Ended(ExitCode.USAGE, f"{file}: {error}") from error


def _write(report: Path, facts: dict[str, object]) -> None:
    try:
        report.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise Ended(ExitCode.USAGE, f"{report}: {error.strerror}") from error


def _record(
    audited: Audited, facts: dict[str, object], report: Path, keys: AuditorKeys, connection: dict[str, Any]
) -> None:
    """Log the verdict over all that was audited, and say where it stands."""
    if audited.checkpoint.size == 0:
        raise click.UsageError("--record: the log is empty, and a verdict is on entries")
    # The service must show a log that continues what was audited, or the verdict would stand in another one.
    with failures_as_exit_codes(), connect(**connection, known_checkpoint=audited.note) as client:
        logged = client.audit.record_verdict(
            0,
            audited.checkpoint.size - 1,
            sha256(report.read_bytes()).digest(),
            str(facts["verdict"]),
            keys.signing.public_key,
            keys.signing.sign,
        )
    facts["recorded"] = logged.index


# --- What is said ---


def _facts(audited: Audited, *, examined: bool) -> dict[str, object]:
    return {
        "verdict": _verdict(audited, examined=examined),
        "origin": audited.checkpoint.origin,
        "size": audited.checkpoint.size,
        "root": audited.checkpoint.root.hex(),
        "last_time": audited.last_time,
        "entries": audited.counts,
        "tables": audited.tables,
        "outcomes": audited.outcomes,
        "log_faults": audited.log_faults,
        "evidence": audited.evidence,
        "finding_count": audited.finding_count,
        "findings": [_finding(each) for each in audited.findings],
        "unclosed": [_unclosed(each) for each in audited.unclosed],
        "given_up": [_given_up(each) for each in audited.given_up],
        "twin": [{"table": table.hex(), **asdict(count)} for table, count in audited.twin.items()],
    }


def _verdict(audited: Audited, *, examined: bool) -> str:
    """Return the verdict; an auditor whose key opens none of the hands that are closed to others judges nothing."""
    if not audited.passed:
        return "fail"
    if not examined or _opened(audited):
        return "pass"
    public = audited.outcomes.get("hand revealed to all", 0)
    return "pass" if public and not audited.outcomes.get("hand escrowed to another auditor", 0) else "undecided"


def _opened(audited: Audited) -> int:
    return audited.outcomes.get("hand opened", 0)


def _not_checked(audited: Audited, histories: tuple[Path, ...]) -> set[Check]:
    """Return what there was nothing to check by: no hand that the auditor's key opens, no histories."""
    return {each for each in BY_AUDITOR if not (histories if each is Check.HISTORY else _opened(audited))}


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


def _given_up(row: GivenUp) -> dict[str, object]:
    return {"table": row.table.hex(), "closed": row.closed, "given_up": row.given_up, "p_value": row.p_value}


def _show(audited: Audited, facts: dict[str, object], not_checked: set[Check]) -> None:
    checkpoint = audited.checkpoint
    _line("log", f"{checkpoint.origin}, {checkpoint.size} entries, {audited.tables} tables", "bold")
    _line("last", _time(audited.last_time))
    for name, count in sorted((audited.counts | audited.outcomes).items()):
        _line(str(count), name)
    for each in audited.unclosed:
        text = f"table {each.table.hex()}, hand {each.seq}: {each.state}, expires {_time(each.expires_ms)}"
        _line("unclosed", text, "yellow")
    for twin_table, hands in audited.twin.items():
        style = "yellow" if hands.by_nobody or hands.unchosen else ""
        _line("twin", f"table {twin_table.hex()}: {_twin(hands)}", style)
    for fault in audited.log_faults:
        _line("log", fault, "bold red")
    for note in audited.evidence:
        _line("evidence", note)
    for finding in audited.findings:
        table = f", table {finding.table.hex()}" if finding.table else ""
        hand = f", hand {finding.seq}" if finding.seq else ""
        _line(finding.check, f"entry {finding.index}{table}{hand}: {finding.message}", "bold red")
    if "recorded" in facts:
        _line("recorded", f"the verdict {facts['verdict']} is entry {facts['recorded']} of the log")
    if facts["verdict"] == "pass":
        checked = [each for each in Check if each not in not_checked]
        _line("pass", f"{', '.join(checked)}, tiles, root and signature are in order", "green")


def _twin(hands: TwinCount) -> str:
    said = f"{hands.decided} hands decided by {hands.choices - hands.missing} of {hands.choices} promised choices"
    if hands.by_nobody:
        said += f"; in {hands.by_nobody} nobody chose, which proves nothing"
    return f"{said}; {hands.unchosen} sealed and closed without a choice"


def _line(word: str, text: str, style: str = "") -> None:
    # Text, not markup: what a log says must not colour our verdict.
    Console().print(Text.assemble((f"{word:>10} ", style), text), soft_wrap=True)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
