"""`stats_tests merge`."""

from pathlib import Path

import click

from stats_tests import ledger
from stats_tests.commands.exit_codes import Ended, ExitCode, bad_input_as_usage, exit_code_of
from stats_tests.commands.options import FILE, NEW_FILE
from stats_tests.commands.output import json_option
from stats_tests.commands.run import report_options, show, write_report, write_state
from stats_tests.evidence import evidence_for
from stats_tests.report.document import campaign, document, encode, overall_verdict
from stats_tests.report.signature import load_key, sign_report
from stats_tests.tally import merge_all, read_state


@click.command()
@click.argument("states", nargs=-1, required=True, type=FILE)
@click.option("--state", "state_path", type=NEW_FILE, help="Joined counts to write.")
@report_options
@json_option
def command(
    states: tuple[Path, ...],
    state_path: Path | None,
    report_path: Path | None,
    key_path: Path | None,
    key_name: str,
    evidence_path: Path | None,
    ledger_path: Path | None,
    time: str,
    as_json: bool,
) -> None:
    """Join the counts of shards that `run --state` wrote, in any order, and judge them.

    The shards must adjoin. They are data that was tested, so a doubtful result fails: nothing is drawn again.
    """
    with bad_input_as_usage():
        auditor = load_key(key_path, key_name) if key_path else None
        try:
            tally = merge_all([read_state(path) for path in states])
        except ValueError as error:
            raise Ended(ExitCode.USAGE, str(error)) from error
        evidence = evidence_for(tally.plan.battery, evidence_path)
        if state_path is not None:
            write_state(tally, state_path)
        one = campaign(tally, {"source": "shards", "shards": len(states)})
        verdict = overall_verdict([one], renewable=False)
        lines = ledger.read(ledger_path) if ledger_path else []
        report = document(tally.plan, [one], verdict, time=time, evidence=evidence, ledger=lines)
        raw = encode(report)
        note = sign_report(report, raw, auditor) if auditor else None
        if report_path is not None:
            write_report(report_path, raw, note)
    show([one], verdict, as_json=as_json, signed=note is not None)
    raise SystemExit(exit_code_of(verdict))
