"""What `run` and `merge` do once the counts are there: report, sign, write, show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from stats_tests.battery import Battery
from stats_tests.commands.exit_codes import exit_code_of
from stats_tests.commands.options import FILE, NEW_FILE, NEW_SIGNED_FILE, TIME
from stats_tests.commands.output import print_json, print_table, reader_may_leave, result_table, write_whole
from stats_tests.evidence import evidence_for
from stats_tests.p_values import Verdict
from stats_tests.report.document import Campaign, document, encode, overall_verdict, result_rows
from stats_tests.report.signature import AuditorKey, load_key, sign_report

Command = TypeVar("Command", bound=Callable[..., Any])


REPORT_OPTIONS: Final = ("report_path", "key_path", "key_name", "evidence_path", "ledger_path", "time")
"""The names of what `report_options` gives."""


def report_options(command: Command) -> Command:
    """Add the options of commands that write a report; `Reporting` takes what they give."""
    for option in (
        click.option(
            "--time", type=TIME, default="", metavar="RFC3339", help="Time to put into the report; none is taken."
        ),
        click.option("--ledger", "ledger_path", type=NEW_FILE, help="File of attempts."),
        click.option("--evidence", "evidence_path", type=FILE, help="What selftest wrote for this code."),
        click.option("--key-name", default="auditor", show_default=True, help="The name that signs."),
        click.option("--key", "key_path", type=FILE, help="Ed25519 private key (PEM) to sign the report with."),
        click.option("--report", "report_path", type=NEW_SIGNED_FILE, help="JSON to write."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Reporting:
    """What the options of a report come to; made before the data are read, so that they are known to be right."""

    report_path: Path | None
    auditor: AuditorKey | None
    evidence: dict[str, Any]
    ledger_path: Path | None
    time: str

    @classmethod
    def asked(
        cls,
        battery: Battery,
        *,
        report_path: Path | None,
        key_path: Path | None,
        key_name: str,
        evidence_path: Path | None,
        ledger_path: Path | None,
        time: str,
    ) -> "Reporting":
        """Read key and evidence.

        Raises:
            ReportError: the key is none.
            EvidenceError: the evidence is none, or the battery needs a better one.
        """
        auditor = load_key(key_path, key_name) if key_path else None
        return cls(report_path, auditor, evidence_for(battery, evidence_path), ledger_path, time)

    def conclude(
        self, campaigns: Sequence[Campaign], *, renewable: bool, ledger: Sequence[dict[str, Any]], as_json: bool
    ) -> None:
        """Write and show the report of all campaigns, and exit by its verdict."""
        verdict = overall_verdict(campaigns, renewable=renewable)
        plan = campaigns[0].tally.plan
        report = document(plan, campaigns, verdict, time=self.time, evidence=self.evidence, ledger=ledger)
        raw = encode(report)
        note = sign_report(report, raw, self.auditor) if self.auditor else None
        if self.report_path is not None:
            write_report(self.report_path, raw, note)
        with reader_may_leave():
            show(campaigns, verdict, as_json=as_json, signed=note is not None)
        raise SystemExit(exit_code_of(verdict))


def write_report(path: Path, raw: bytes, note: str | None) -> None:
    """Write the report, and its signature beside it as PATH.note."""
    write_whole(path, raw)
    if note is not None:
        write_whole(path.with_name(f"{path.name}.note"), note.encode())


def show(campaigns: Sequence[Campaign], verdict: Verdict, *, as_json: bool, signed: bool) -> None:
    """Print results and verdict."""
    decided = [result_rows(one.results, one.decision) for one in campaigns]
    if as_json:
        print_json(
            {
                "verdict": str(verdict),
                "signed": signed,
                "battery": str(campaigns[0].tally.plan.battery),
                "mode": str(campaigns[0].tally.plan.setting.mode),
                "campaigns": [
                    {
                        "items": one.tally.items,
                        "verdict": str(one.decision.verdict),
                        "failed": list(one.decision.failed),
                        "failed_second_reading": list(one.decision.failed_second_reading),
                        "too_good": list(one.decision.too_good),
                        "results": rows,
                    }
                    for one, rows in zip(campaigns, decided, strict=True)
                ],
                "results": decided[-1],
            }
        )
        return
    for one, rows in zip(campaigns, decided, strict=True):
        print_table(result_table(rows))
        decision = one.decision
        click.echo(f"{one.tally.items} items, {len(decision.adjusted)} primary results: {decision.verdict}")
        for test in decision.failed:
            click.echo(f"  below 0.01 after adjustment: {test}")
        for test in decision.too_good:
            click.echo(f"  too good to be chance: {test}")
        if one.tally.items < one.tally.plan.least:
            click.echo(f"  too little data: the battery needs {one.tally.plan.least} items")
    click.echo(f"verdict: {verdict}{'' if signed else ' (UNSIGNED)'}")
