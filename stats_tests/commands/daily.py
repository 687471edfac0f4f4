"""`stats_tests daily`."""

import json
import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from stats_tests.battery import EXTENTS, Battery, plan_for
from stats_tests.catalogue import Kind
from stats_tests.commands.exit_codes import Ended, ExitCode, bad_input_as_usage, exit_code_of
from stats_tests.commands.options import DECK_SIZE, FILE, NEW_FILE, NEW_SIGNED_FILE, TIME, WritingCommand
from stats_tests.commands.output import json_option, print_json, progress_bar, reader_may_leave, write_whole
from stats_tests.commands.reporting import write_report
from stats_tests.commands.sampling import live_source
from stats_tests.commands.service import connection_options, service_failures_as_exit_codes
from stats_tests.evidence import evidence_for
from stats_tests.known_bad import Generator
from stats_tests.live import LiveSource
from stats_tests.monitoring import DAILY_ALPHA, Monitor, MonitorError
from stats_tests.p_values import Verdict
from stats_tests.report.document import Campaign, campaign, document, encode, log10
from stats_tests.report.signature import load_key, sign_report
from stats_tests.samples import GeneratorSource, Source, generator_named
from stats_tests.tally import tally_stretch

HARD_ALARMS: Final = ("shuffles.duplicates", "live.rejections")
HARD_LEVEL: Final = math.log(1e-6)


@click.command(cls=WritingCommand)
@click.option("--rngsvc", "target", metavar="HOST:PORT", help="The service.")
@click.option("--generator", "generator", metavar="NAME", help="Watch a built-in generator instead, to try it out.")
@connection_options
@click.option("--n", "n", type=DECK_SIZE, default=52, show_default=True, help="Cards in a deck.")
@click.option("--count", type=click.IntRange(min=1), help="Decks to draw.  [default: the daily battery's]")
@click.option(
    "--monitor",
    "monitor_path",
    type=NEW_FILE,
    default="stats_tests-monitor.json",
    show_default=True,
    help="State to keep over the days.",
)
@click.option("--merge", "others", type=FILE, multiple=True, help="Join other nodes' states; nothing is drawn.")
@click.option("--report", "report_path", type=NEW_SIGNED_FILE, help="JSON report of the day to write.")
@click.option("--key", "key_path", type=FILE, help="Ed25519 private key (PEM); without it nothing is handed in.")
@click.option("--key-name", default="monitor", show_default=True, help="The name that signs.")
@click.option("--evidence", "evidence_path", type=FILE, help="What selftest wrote for this code.")
@click.option(
    "--time", "time", type=TIME, default="", metavar="RFC3339", help="Time to put into report and state; none is taken."
)
@json_option
def command(
    target: str | None,
    generator: str | None,
    n: int,
    count: int | None,
    monitor_path: Path,
    others: tuple[Path, ...],
    report_path: Path | None,
    key_path: Path | None,
    key_name: str,
    evidence_path: Path | None,
    time: str,
    as_json: bool,
    **connection: Any,
) -> None:
    """Test fresh output of the service, add it to what was seen before, and hand the signed result in.

    Alarms are few by design: the battery of a day has 1/365 of the year's 1 %, the e-process holds its 1 % for ever,
    and the growing table is looked at four times a year. A repeated deck or a wrong number of refused words is an
    alarm at once.
    """
    with ExitStack() as stack:
        stack.enter_context(bad_input_as_usage())
        stack.enter_context(service_failures_as_exit_codes())
        monitor = _monitor(monitor_path, n, others)
        if others:
            write_whole(monitor_path, monitor.encode())
            click.echo(f"{monitor_path}: {monitor.decks} decks of {len(monitor.days)} days")
            return
        auditor = load_key(key_path, key_name) if key_path else None
        evidence = evidence_for(Battery.DAILY, evidence_path)
        plan = plan_for(Battery.DAILY, Kind.SHUFFLES, n)
        source = _source(target, generator, n, plan, connection)
        drawn = count or EXTENTS[Battery.DAILY][Kind.SHUFFLES].drawn
        start = monitor.decks if generator else 0
        with progress_bar("decks", drawn, quiet=as_json) as tick:
            tally = tally_stretch(plan, source, start, start + drawn, tick)
        one = campaign(tally, source.describe())
        alarms = _alarms_of_the_day(one)
        table = np.array(tally.accumulators["shuffles.position-card"].to_state()["counts"]).reshape(n, n)
        day = {"time": time, "decks": tally.items, "merkle_root": tally.sample_root().hex(), "of_the_day": list(alarms)}
        alarms = (*alarms, *monitor.add(table, day))
        enough = Verdict.PASS if tally.items >= plan.least else Verdict.UNDECIDED
        verdict = Verdict.FAIL if alarms else enough
        report = document(plan, [one], verdict, time=time, evidence=evidence, ledger=monitor.days)
        report["rule"] = f"daily: Holm at {DAILY_ALPHA:.2e}, e-process, four looks a year, hard alarms"
        report["alarms"] = list(alarms)
        raw = encode(report)
        note = sign_report(report, raw, auditor) if auditor else None
        if report_path is not None:
            write_report(report_path, raw, note)
        # Kept before it is handed in: a service that refuses a bad day's result must not get rid of the day.
        write_whole(monitor_path, monitor.encode())
        logged = _hand_in(source, note, verdict)
    with reader_may_leave():
        _show(monitor, alarms, verdict, logged, as_json=as_json)
    raise SystemExit(exit_code_of(verdict))


def _monitor(path: Path, n: int, others: tuple[Path, ...]) -> Monitor:
    try:
        monitor = Monitor.read(path, n)
        for other in others:
            monitor.merge(Monitor.read(other, n))
    except MonitorError as error:
        raise Ended(ExitCode.USAGE, f"--monitor {error}") from error
    return monitor


def _source(target: str | None, generator: str | None, n: int, plan: Any, connection: dict[str, Any]) -> Source:
    if (target is None) == (generator is None):
        raise click.UsageError("give either --rngsvc or --generator")
    if target is not None:
        return live_source(plan, target, connection)
    return GeneratorSource(_named(generator or ""), Kind.SHUFFLES, n, seed=1)


def _named(name: str) -> Generator:
    try:
        return generator_named(name)
    except ValueError as error:
        raise click.UsageError(f"--generator: {error}") from error


def _alarms_of_the_day(one: Campaign) -> tuple[str, ...]:
    """Return the results that alarm by themselves: the day's share of the battery, and the hard alarms."""
    alarms = [test for test, log_p in one.decision.adjusted.items() if log_p < math.log(DAILY_ALPHA)]
    alarms += [
        result.test
        for _, result in one.results
        if result.test in HARD_ALARMS and result.log_p is not None and result.log_p < HARD_LEVEL
    ]
    return tuple(dict.fromkeys([*alarms, *one.decision.too_good]))


def _hand_in(source: Source, note: str | None, verdict: Verdict) -> int | None:
    """Log the signed result with the service; return its place in the log."""
    if note is None or not isinstance(source, LiveSource):
        return None
    assert source.summary is not None, "the sample was read to its end"
    with source.service.connect() as client:
        logged = client.audit.record_integrity(source.sample_id, source.summary.sha256, note, str(verdict))
        index: int = logged.index
        return index


def _show(monitor: Monitor, alarms: tuple[str, ...], verdict: Verdict, logged: int | None, *, as_json: bool) -> None:
    facts = {
        "verdict": str(verdict),
        "alarms": list(alarms),
        "days": len(monitor.days),
        "decks": monitor.decks,
        "log10_e": monitor.days[-1]["log10_e"],
        "alarm_at_log10_e": 2.0,
        "log10_p_cumulative": log10(monitor.log_p()),
        "log_index": logged,
    }
    if as_json:
        print_json(facts)
    else:
        click.echo(
            f"day {facts['days']}, {facts['decks']} decks in all, e-value 10^{facts['log10_e']:.2f} (alarm at 10^2)"
        )
        click.echo(f"alarms: {json.dumps(facts['alarms'])}")
        click.echo(f"verdict: {verdict}{'' if logged is None else f', log entry {logged}'}")
