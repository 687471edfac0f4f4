"""Checking a report: its form, its signature, its numbers from its counts, and its counts from the data.

What is recomputed is compared as bytes: the very same code and versions give the very same report.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stats_tests.manifest import code_hash
from stats_tests.p_values import Verdict
from stats_tests.report.document import (
    Campaign,
    ReportError,
    campaign,
    document,
    overall_verdict,
    versions,
)
from stats_tests.samples import Source
from stats_tests.tally import Tally, tally_stretch


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was checked.

    Attributes:
        what: in words.
        holds: whether it is so; None where it was not shown.
        why: what is wrong, or what was not shown.
    """

    what: str
    holds: bool | None
    why: str = ""


def check(report: dict[str, Any], source: Source | None) -> Iterator[Step]:
    """Yield what was checked of a decoded report, with the sample's data if they are given."""
    same_code = report["code"]["stats_tests"] == code_hash()
    yield Step(
        "the report was made by this code", same_code, "" if same_code else "another version may judge otherwise"
    )
    same_versions = report["versions"] == versions()
    why = "" if same_versions else f"made with {report['versions']}, checked with {versions()}"
    yield Step("the report was made with these versions of Python, NumPy and SciPy", same_versions or None, why)
    campaigns = []
    for number, entry in enumerate(report["campaigns"], start=1):
        try:
            tally = Tally.from_state(entry["counts"])
        except (ValueError, KeyError) as error:
            yield Step(f"campaign {number}: the counts can be read", False, str(error))
            return
        described = {
            key: value
            for key, value in entry["sample"].items()
            if key not in {"first_item", "items", "merkle_root", "bytes_after_the_last_sequence"}
        }
        campaigns.append(campaign(tally, described))
    yield _numbers_follow(report, campaigns)
    for number, one in enumerate(campaigns, start=1):
        yield _data_agree(number, one, report["campaigns"][number - 1], source)


def _numbers_follow(report: dict[str, Any], campaigns: list[Campaign]) -> Step:
    """Check that every statistic, P-value and verdict follows from the counts."""
    what = "every statistic, P-value, adjustment and the verdict follow from the counts"
    renewable = campaigns[0].sample.get("source") in {"generator", "rngsvc"}
    plan = campaigns[0].tally.plan
    again = document(
        plan,
        campaigns,
        overall_verdict(campaigns, renewable=renewable),
        time=report["time"],
        evidence=report["selftest"],
        ledger=report["ledger"],
    )
    # A day's report is judged by the monitor's rule, from the days before as well: only its alarms decide.
    members = ["schema", "plan", "limits", "asked_for_by"]
    members += [] if "alarms" in report else ["rule", "verdict"]
    if report.get("alarms") and report["verdict"] != Verdict.FAIL:
        return Step(what, False, "there are alarms, and the verdict is not fail")
    for member in members:
        if again[member] != report.get(member):
            return Step(what, False, f"{member} differs")
    for number, (mine, theirs) in enumerate(zip(again["campaigns"], report["campaigns"], strict=True), start=1):
        for member in ("sample", "decision", "power", "counts"):
            if mine[member] != theirs[member]:
                return Step(what, False, f"campaign {number}: {member} differs")
        for row, other in zip(mine["results"], theirs["results"], strict=False):
            if row != other:
                return Step(what, False, f"campaign {number}: {row['test']} differs")
        if len(mine["results"]) != len(theirs["results"]):
            return Step(what, False, f"campaign {number}: not all results are there")
    return Step(what, True)


def _data_agree(number: int, one: Campaign, entry: dict[str, Any], source: Source | None) -> Step:
    """Check that the data give exactly the counts."""
    what = f"campaign {number}: the data give these counts, bit for bit"
    if source is None:
        return Step(what, None, "no data were given")
    tally = one.tally
    again = tally_stretch(tally.plan, source, tally.start, tally.end)
    if again.sample_root() != tally.sample_root():
        return Step(what, False, "the data are not those of the report: their Merkle root differs")
    if again.to_state() != entry["counts"]:
        return Step(what, False, "the data are those of the report, but give other counts")
    return Step(what, True)


def outcome(steps: list[Step]) -> Verdict:
    """Return whether everything that was shown holds."""
    if not steps:
        raise ReportError("nothing was checked")
    return Verdict.FAIL if any(step.holds is False for step in steps) else Verdict.PASS
