"""`stats_tests verify`."""

from dataclasses import asdict
from pathlib import Path

import click

from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import NoteKey
from stats_tests.catalogue import Kind
from stats_tests.commands.exit_codes import ExitCode, bad_input_as_usage
from stats_tests.commands.options import FILE, choice_of
from stats_tests.commands.output import json_option, print_json, reader_may_leave
from stats_tests.p_values import Verdict
from stats_tests.report.document import ReportError, decode
from stats_tests.report.signature import verify_signature
from stats_tests.report.verify import Step, check, outcome
from stats_tests.samples import Format, GeneratorSource, Source, generator_named, open_source


@click.command()
@click.argument("report_path", metavar="REPORT", type=FILE)
@click.option("--data", type=FILE, help="The file that was tested.")
@click.option("--format", "format_", type=choice_of(Format), help="How it is written.  [default: as the report says]")
@click.option("--note", "note_path", type=FILE, help="The signature.  [default: REPORT.note, if it is there]")
@click.option("--public-key", metavar="VKEY", help="Whose signature it must be: name+id+key.")
@json_option
def command(
    report_path: Path,
    data: Path | None,
    format_: str | None,
    note_path: Path | None,
    public_key: str | None,
    as_json: bool,
) -> None:
    """Check a report: its signature, its numbers from its counts and, given the data, its counts from them.

    What a built-in generator made is made again. Exit code 0 says that everything that was shown holds.
    """
    with bad_input_as_usage():
        raw = report_path.read_bytes()
        try:
            report = decode(raw)
        except ReportError as error:
            steps = [Step("the report is a canonical document", False, str(error))]
        else:
            steps = [Step("the report is a canonical document", True)]
            steps.append(_signature(report, raw, report_path, note_path, public_key))
            try:
                steps += check(report, _source(report, data, format_))
            except (LookupError, TypeError, ArithmeticError) as error:
                steps.append(Step("the report's members go together", False, repr(error)))
    verdict = outcome(steps)
    with reader_may_leave():
        if as_json:
            print_json({"holds": verdict is Verdict.PASS, "steps": [asdict(step) for step in steps]})
        else:
            for step in steps:
                mark = {True: "ok       ", False: "FAILED   ", None: "not shown"}[step.holds]
                click.echo(f"{mark}  {step.what}{f' ({step.why})' if step.why else ''}")
    raise SystemExit(ExitCode.OK if verdict is Verdict.PASS else ExitCode.CHECK_FAILED)


def _signature(
    report: dict[str, object], raw: bytes, report_path: Path, note_path: Path | None, public_key: str | None
) -> Step:
    what = "the report is signed"
    path = note_path or report_path.with_name(f"{report_path.name}.note")
    if not path.exists():
        return Step(what, None if public_key is None else False, "UNSIGNED")
    if public_key is None:
        return Step(what, None, "a signature is there; --public-key says whose it must be")
    try:
        key = NoteKey.from_vkey(public_key)
    except MalformedError as error:
        raise click.UsageError(f"--public-key: {error}") from error
    try:
        verify_signature(report, raw, path.read_text(encoding="utf-8"), key)
    except ReportError as error:
        return Step(f"{what} by {key.name}", False, str(error))
    return Step(f"{what} by {key.name}", True)


def _source(report: dict[str, object], data: Path | None, format_: str | None) -> Source | None:
    """Return where the data come from, or None if they are not at hand."""
    campaigns = report["campaigns"]
    plan = report["plan"]
    assert isinstance(campaigns, list)
    assert isinstance(plan, dict)
    sample = campaigns[0]["sample"]
    size = 0 if plan["kind"] == Kind.BITS else plan["size"]
    if data is not None:
        chosen = format_ or sample.get("format")
        if chosen is None:
            raise click.UsageError("--data needs --format: the report does not say how they are written")
        return open_source(f"file:{data}", Format(chosen), size)
    if sample.get("source") == "generator":
        name, seed = sample.get("name"), sample.get("seed")
        if type(seed) is not int or not 0 <= seed < 2**64:
            raise ReportError("report.campaigns.0.sample.seed: no seed")
        try:
            return GeneratorSource(generator_named(name), Kind(plan["kind"]), size, seed)
        except ValueError as error:
            raise ReportError(f"report.campaigns.0.sample: {error}") from error
    return None
