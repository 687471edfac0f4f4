"""`stats_tests merge`."""

from pathlib import Path
from typing import Any

import click

from stats_tests import ledger
from stats_tests.commands.exit_codes import Ended, ExitCode, bad_input_as_usage
from stats_tests.commands.options import FILE, NEW_FILE, WritingCommand
from stats_tests.commands.output import json_option
from stats_tests.commands.reporting import Reporting, report_options
from stats_tests.commands.run import write_state
from stats_tests.report.document import campaign
from stats_tests.tally import merge_all, read_state


@click.command(cls=WritingCommand)
@click.argument("states", nargs=-1, required=True, type=FILE)
@click.option("--state", "state_path", type=NEW_FILE, help="Joined counts to write.")
@report_options
@json_option
def command(states: tuple[Path, ...], state_path: Path | None, as_json: bool, **options: Any) -> None:
    """Join the counts of shards that `run --state` wrote, in any order, and judge them.

    The shards must adjoin. They are data that was tested, so a doubtful result fails: nothing is drawn again.
    """
    with bad_input_as_usage():
        try:
            tally = merge_all([read_state(path) for path in states])
        except ValueError as error:
            raise Ended(ExitCode.USAGE, str(error)) from error
        reporting = Reporting.asked(tally.plan.battery, **options)
        if state_path is not None:
            write_state(tally, state_path)
        lines = ledger.read(reporting.ledger_path) if reporting.ledger_path else []
        one = campaign(tally, {"source": "shards", "shards": len(states)})
        reporting.conclude([one], renewable=False, ledger=lines, as_json=as_json)
