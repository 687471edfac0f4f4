"""`stats_tests run`."""

import json
from pathlib import Path
from typing import Any

import click

from stats_tests import ledger
from stats_tests.battery import ESCALATION_FACTOR
from stats_tests.commands.exit_codes import Ended, ExitCode, bad_input_as_usage
from stats_tests.commands.options import NEW_FILE, WritingCommand
from stats_tests.commands.output import json_option, progress_bar
from stats_tests.commands.reporting import REPORT_OPTIONS, Reporting, report_options
from stats_tests.commands.sampling import Asked, SampleOptions, asked_for, plan_options, require_all, source_options
from stats_tests.commands.service import CONNECTION_OPTIONS, connection_options, service_failures_as_exit_codes
from stats_tests.manifest import code_hash
from stats_tests.p_values import Verdict
from stats_tests.report.document import Campaign, campaign, overall_verdict
from stats_tests.runner import default_workers, run_plan
from stats_tests.tally import Tally


@click.command(cls=WritingCommand)
@source_options
@connection_options
@plan_options
@click.option("--workers", type=click.IntRange(min=1), help="Processes.  [default: one for each processor]")
@click.option("--scheduler", metavar="ADDRESS", help="Let a Dask cluster do the work.")
@click.option("--state", "state_path", type=NEW_FILE, help="Counts to write, for merge.")
@report_options
@json_option
def command(
    workers: int | None,
    scheduler: str | None,
    state_path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Test a sample. The plan is printed before any data are read; there is one verdict for all tests together."""
    with bad_input_as_usage(), service_failures_as_exit_codes():
        reports = {name: options.pop(name) for name in REPORT_OPTIONS}
        connection = {name: options.pop(name) for name in CONNECTION_OPTIONS}
        asked = asked_for(SampleOptions(**options), **connection)
        reporting = Reporting.asked(asked.plan.battery, **reports)
        print_plan(asked)
        attempts = Attempts(reporting.ledger_path, asked, reporting.time)
        campaigns = _campaigns(asked, workers or default_workers(), scheduler, attempts, quiet=as_json)
        if state_path is not None:
            write_state(campaigns[0].tally, state_path)
        renewable = asked.source.renewable
        reporting.conclude(campaigns, renewable=renewable, ledger=attempts.lines(), as_json=as_json)


class Attempts:
    """The ledger's view of this run: a line before each campaign and one after it."""

    def __init__(self, path: Path | None, asked: Asked, time: str) -> None:
        """Open the ledger; without a path nothing is kept."""
        self._path = path
        self._what = {
            "battery": str(asked.plan.battery),
            "kind": str(asked.plan.setting.kind),
            "size": asked.plan.setting.size,
            "source": asked.source.describe(),
            "code": code_hash(),
            "time": time,
        }

    def begin(self, start: int, stop: int | None) -> None:
        """Record that a campaign begins."""
        self._append({"event": "begin", "first_item": start, "last_item": -1 if stop is None else stop - 1})

    def end(self, one: Campaign) -> None:
        """Record what a campaign said."""
        root = one.tally.sample_root().hex()
        self._append({"event": "end", "merkle_root": root, "verdict": str(one.decision.verdict)})

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines of the ledger."""
        return [] if self._path is None else ledger.read(self._path)

    def _append(self, event: dict[str, Any]) -> None:
        if self._path is not None:
            ledger.append(self._path, {**self._what, **event})


def print_plan(asked: Asked) -> None:
    """Print the plan on standard error, before the data are read."""
    plan = asked.plan.to_json()
    tests = [test["id"] for test in plan["tests"] if not test["not_applicable"]]
    about = {key: plan[key] for key in ("battery", "kind", "size", "mode", "least_items")}
    click.echo(f"plan: {json.dumps({**about, **plan['decision'], 'tests': tests})}", err=True)


def _campaigns(asked: Asked, workers: int, scheduler: str | None, attempts: Attempts, *, quiet: bool) -> list[Campaign]:
    """Run the campaign, and a second one if the rule asks for it."""
    campaigns = [_campaign(asked, asked.start, asked.stop, workers, scheduler, attempts, quiet=quiet)]
    if overall_verdict(campaigns, renewable=asked.source.renewable) is Verdict.DOUBTFUL:
        assert asked.stop is not None, "what can be drawn again was drawn in a known number"
        size = ESCALATION_FACTOR * (asked.stop - asked.start)
        click.echo(f"doubtful: one fresh sample of {size} items decides", err=True)
        campaigns.append(_campaign(asked, asked.stop, asked.stop + size, workers, scheduler, attempts, quiet=quiet))
    return campaigns


def _campaign(
    asked: Asked,
    start: int,
    stop: int | None,
    workers: int,
    scheduler: str | None,
    attempts: Attempts,
    *,
    quiet: bool,
) -> Campaign:
    attempts.begin(start, stop)
    total = None if stop is None else stop - start
    with progress_bar(str(asked.plan.setting.kind), total, quiet=quiet) as tick:
        try:
            tally = run_plan(asked.plan, asked.source, start, stop, workers=workers, scheduler=scheduler, tick=tick)
        except RuntimeError as error:
            raise Ended(ExitCode.USAGE, str(error)) from error
    require_all(asked.plan.setting.kind, tally.items, total)
    one = campaign(tally, asked.source.describe())
    attempts.end(one)
    return one


def write_state(tally: Tally, path: Path) -> None:
    """Write the state file under its name only when it is whole."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        tally.write(file)
    part.replace(path)
