"""`stats_tests compare`."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import rfc8785

from rngsvc.protocol.signed_note import sign
from stats_tests.battery import EXTENTS, Battery
from stats_tests.catalogue import Kind
from stats_tests.commands.exit_codes import Ended, ExitCode, bad_input_as_usage, exit_code_of
from stats_tests.commands.options import DECK_SIZE, FILE, NEW_FILE, NUMBER_RANGE, TIME, WritingCommand, choice_of
from stats_tests.commands.output import (
    json_option,
    print_json,
    print_table,
    progress_bar,
    reader_may_leave,
    result_table,
    write_whole,
)
from stats_tests.commands.sampling import Asked, SampleOptions, asked_for, items_of
from stats_tests.comparison import PIECE, Comparison, in_step
from stats_tests.manifest import code_hash
from stats_tests.p_values import ALPHA, UNDECIDED, Decision, Verdict, decide
from stats_tests.report.document import result_rows, versions
from stats_tests.report.signature import load_key
from stats_tests.samples import Format

SCHEMA: Final = "stats_tests-comparison/1"


@click.command(cls=WritingCommand)
@click.argument("first", metavar="FILE", type=FILE)
@click.argument("second", metavar="FILE", type=FILE)
@click.option("--format", "format_", type=choice_of(Format), required=True, help="How both are written.")
@click.option("--n", "n", type=DECK_SIZE, help="Cards in a deck.  [default: 52]")
@click.option("--range", "range_", type=NUMBER_RANGE, help="Numbers are 0..RANGE-1.")
@click.option("--count", type=click.IntRange(min=1), help="Items of each.  [default: all; then as many in both]")
@click.option("--report", "report_path", type=NEW_FILE, help="JSON to write; with --key a signed note of it.")
@click.option("--key", "key_path", type=FILE, help="Ed25519 private key (PEM) to sign the report with.")
@click.option("--key-name", default="auditor", show_default=True, help="The name that signs.")
@click.option(
    "--time", "time", type=TIME, default="", metavar="RFC3339", help="Time to put into the report; none is taken."
)
@json_option
def command(
    first: Path,
    second: Path,
    format_: str,
    n: int | None,
    range_: int | None,
    count: int | None,
    report_path: Path | None,
    key_path: Path | None,
    key_name: str,
    time: str,
    as_json: bool,
) -> None:
    """Compare two collected samples: of one service idle and under load, or of two instances at the same time.

    They must be of one distribution, and neither may tell anything of the other. Whether each is fair, `run` says.
    """
    options = SampleOptions(source="", format_=format_, n=n, range_=range_, count=count)
    with bad_input_as_usage():
        auditor = load_key(key_path, key_name) if key_path else None
        samples = [asked_for(replace(options, source=f"file:{path}")) for path in (first, second)]
        comparison = _compared(samples, quiet=as_json)
        results = comparison.results()
        enough = comparison.items >= EXTENTS[Battery.SMOKE][comparison.kind].least
        decision = decide([result for _, result in results]) if enough else UNDECIDED
        verdict = Verdict.FAIL if decision.verdict is Verdict.DOUBTFUL else decision.verdict
        report: dict[str, Any] = {
            "schema": SCHEMA,
            "time": time,
            "verdict": str(verdict),
            "rule": f"Holm at {ALPHA} over all results; a file cannot be drawn again",
            "kind": str(comparison.kind),
            "size": comparison.size,
            "samples": [
                {"name": path.name, "items": comparison.items, "merkle_root": root.hex()}
                for path, root in zip((first, second), comparison.roots(), strict=True)
            ],
            "results": result_rows(results, decision),
            "code": code_hash(),
            "versions": versions(),
        }
        text = (rfc8785.dumps(report) + b"\n").decode()
        if report_path is not None:
            write_whole(report_path, (sign(text, auditor.key, auditor.sign) if auditor else text).encode())
    with reader_may_leave():
        _show(report, decision, verdict, as_json=as_json, signed=auditor is not None)
    raise SystemExit(exit_code_of(verdict))


def _compared(samples: list[Asked], *, quiet: bool) -> Comparison:
    """Read both samples; they must be equally long, or what is left of one would silently not be looked at."""
    one, other = samples
    setting = one.plan.setting
    comparison = Comparison(setting.kind, 0 if setting.kind is Kind.BITS else setting.size)
    most = 64 * PIECE if setting.kind is Kind.BITS else PIECE
    counted = [0, 0]
    streams = [_counted(sample, counted, side) for side, sample in enumerate(samples)]
    with progress_bar(items_of(setting.kind), one.stop, quiet=quiet) as tick:
        for pieces in in_step(streams[0], streams[1], most):
            comparison.update(*pieces)
            tick(len(pieces[0]))
    for stream in streams:
        for _ in stream:
            pass
    if counted[0] != counted[1]:
        kind = items_of(setting.kind)
        raise Ended(ExitCode.USAGE, f"the files hold {counted[0]} and {counted[1]} {kind}: give --count of both")
    if other.stop is not None and counted[0] < other.stop:
        raise Ended(ExitCode.UNDECIDED, f"the samples end after {counted[0]} {items_of(setting.kind)}")
    return comparison


def _counted(sample: Asked, counted: list[int], side: int) -> Any:
    for items in sample.source.items(sample.start, sample.stop):
        counted[side] += len(items)
        yield items


def _show(report: dict[str, Any], decision: Decision, verdict: Verdict, *, as_json: bool, signed: bool) -> None:
    if as_json:
        print_json({**report, "signed": signed})
        return
    print_table(result_table(report["results"]))
    for test in decision.failed:
        click.echo(f"  below {ALPHA} after adjustment: {test}")
    click.echo(f"verdict: {verdict}{'' if signed else ' (UNSIGNED)'}")
