"""`rngsvc verify`."""

import time
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.keys import log_key_option, policy_option
from rngsvc.commands.output import json_option, print_json
from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import AuditorKeys
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.verify import Outcome, Report, verify

_STYLE = {Outcome.CHECKED: "green", Outcome.FAILED: "bold red", Outcome.NOT_SHOWN: "yellow"}


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@log_key_option
@click.option("--auditor-key", metavar="URI", help="The table's auditor's keys (file:PATH), to open an escrowed seed.")
@policy_option
@json_option
def command(file: Path, log_key: NoteKey, auditor_key: str | None, policy: Policy | None, as_json: bool) -> None:
    """Check a receipt or a dealer's hand history, offline.

    FILE is its JSON (`-` for standard input). Each step is listed as checked, failed, or not shown, when the file does
    not hold what the step needs. Exit code 0 says that no step failed, 1 that one did.
    """
    with click.open_file(str(file), "rb") as stream:
        document = stream.read()
    try:
        opening = AuditorKeys.load(auditor_key).opening if auditor_key else None
    except KeyUnavailable as error:
        raise Ended(ExitCode.USAGE, str(error)) from error
    report = verify(document, log_key.vkey, time.time_ns() // 1_000_000, opening, policy)
    if as_json:
        print_json(
            {
                "verdict": "fail" if report.failures else "pass",
                "failed": [step.id for step in report.failures],
                "steps": [
                    {"id": step.id, "outcome": step.outcome, "claim": step.claim, "detail": step.detail}
                    for step in report.steps
                ],
            }
        )
    else:
        _show(report)
    if report.failures:
        names = ", ".join(step.id for step in report.failures)
        raise Ended(ExitCode.CHECK_FAILED, f"failed: {names}")


def _show(report: Report) -> None:
    console = Console()
    for step in report.steps:
        # Text, not markup: what a file says must not colour our verdict.
        line = Text.assemble((f"{step.outcome:<10}", _STYLE[step.outcome]), f"{step.id:<14} {step.claim} ", step.detail)
        console.print(line, soft_wrap=True)
