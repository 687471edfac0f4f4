"""`stats_tests selftest`."""

from pathlib import Path

import click

from rngsvc.protocol.signed_note import sign
from stats_tests.commands.exit_codes import ExitCode, bad_input_as_usage
from stats_tests.commands.options import FILE, NEW_FILE, TIME, WritingCommand
from stats_tests.commands.output import json_option, print_json, reader_may_leave, write_whole
from stats_tests.evidence import encode
from stats_tests.report.signature import load_key
from stats_tests.runner import default_workers
from stats_tests.selftest import Check, evidence_of, run_selftest


@click.command(cls=WritingCommand)
@click.option("--quick", is_flag=True, help="Fewer seeds, no samples of a million: says so in the evidence.")
@click.option("--evidence", "evidence_path", type=NEW_FILE, help="File to write.")
@click.option("--key", "key_path", type=FILE, help="Ed25519 private key (PEM) to sign the evidence with.")
@click.option("--key-name", default="auditor", show_default=True, help="The name that signs.")
@click.option(
    "--time", "time", type=TIME, default="", metavar="RFC3339", help="Time to put into the evidence; none is taken."
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes.  [default: one for each processor]")
@json_option
def command(
    quick: bool,
    evidence_path: Path | None,
    key_path: Path | None,
    key_name: str,
    time: str,
    workers: int | None,
    as_json: bool,
) -> None:
    """Show that the battery catches what it must, and leaves good output alone.

    All built-in known-bad generators must fail where they can be seen; published P-values must be hit to six digits;
    scaling is exhausted; a good generator's P-values must be uniform over 1,000 seeds.
    """
    with bad_input_as_usage():
        auditor = load_key(key_path, key_name) if key_path else None

    def report(check: Check) -> None:
        with reader_may_leave():
            click.echo(f"{'ok    ' if check.passed else 'FAILED'}  {check.name}  {check.facts}", err=as_json)

    checks = run_selftest(full=not quick, workers=workers or default_workers(), report=report)
    evidence = evidence_of(checks, full=not quick, time=time)
    text = encode(evidence).decode()
    if evidence_path is not None:
        with bad_input_as_usage():
            write_whole(evidence_path, (sign(text, auditor.key, auditor.sign) if auditor else text).encode())
    if as_json:
        print_json(evidence)
    else:
        signed = "" if auditor else " (UNSIGNED)"
        with reader_may_leave():
            click.echo(f"selftest: {'passed' if evidence['passed'] else 'FAILED'}{signed}")
    raise SystemExit(ExitCode.OK if evidence["passed"] else ExitCode.CHECK_FAILED)
