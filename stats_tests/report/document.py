"""The report as data: everything that was planned, seen and decided, in canonical JSON (RFC 8785).

HTML and PDF are renderings of this document and say nothing else. It holds the counts, so that anybody can compute
every P-value again with any tool; `stats_tests.report.verify` does so with this one.
"""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final

import rfc8785

from stats_tests.battery import Plan
from stats_tests.catalogue import Entry, Kind
from stats_tests.manifest import code_hash, module_hash_set
from stats_tests.p_values import ALPHA, CERTAIN, UNDECIDED, Decision, Verdict, decide
from stats_tests.power import LIMITS, statement
from stats_tests.rejections import ENTRY as REJECTIONS
from stats_tests.rejections import judge_rejections
from stats_tests.report.form import REPORT, misfit
from stats_tests.requirements import asked_for_by
from stats_tests.result import Result
from stats_tests.tally import Tally

SCHEMA: Final = "stats_tests-report/1"
IMPOSSIBLE: Final = -1e9
"""log10 of a P-value of zero, which JSON has no number for."""


class ReportError(ValueError):
    """A report is not one, or does not agree with itself."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """One sample, its results and what they say together."""

    tally: Tally
    sample: dict[str, Any]
    results: tuple[tuple[Entry, Result], ...]
    decision: Decision


def campaign(tally: Tally, sample: dict[str, Any]) -> Campaign:
    """Judge a tally; `sample` says where its items came from. Fewer items than the plan's least are `UNDECIDED`."""
    results = tally.results()
    if "words_refused" in sample:
        setting = tally.plan.setting
        judged = judge_rejections(setting.kind, setting.size, tally.items, sample["words_refused"])
        results = (*results, (REJECTIONS, judged))
    decision = decide([result for entry, result in results if entry.primary])
    if tally.items < tally.plan.least:
        decision = UNDECIDED
    return Campaign(tally, sample, results, decision)


def overall_verdict(campaigns: Sequence[Campaign], *, renewable: bool) -> Verdict:
    """Return the verdict by the rule that the plan printed.

    A doubtful first campaign of a source that can be drawn again waits for its second, which then decides alone; a
    doubtful campaign of any other source fails.
    """
    last = campaigns[-1].decision.verdict
    if last is Verdict.DOUBTFUL:
        return Verdict.DOUBTFUL if renewable and len(campaigns) == 1 else Verdict.FAIL
    return last


def log10(log_p: float) -> float:
    """Return the decimal logarithm, with a number for minus infinity."""
    return max(IMPOSSIBLE, log_p / math.log(10))


def result_rows(results: Sequence[tuple[Entry, Result]], decision: Decision) -> list[dict[str, Any]]:
    """Return a row for each result."""
    rows: list[dict[str, Any]] = []
    for entry, result in results:
        row: dict[str, Any] = {
            "test": result.test,
            "title": entry.title,
            "clauses": list(entry.clauses),
            "primary": entry.primary,
            "null": result.null,
            "status": str(result.status),
        }
        if result.log_p is None:
            row["reason"] = result.reason
        else:
            row["statistic"] = result.statistic
            row["p"] = result.p_value
            row["log10_p"] = log10(result.log_p)
        if result.test in decision.adjusted:
            adjusted = decision.adjusted[result.test]
            row["adjusted_p"] = math.exp(adjusted)
            row["log10_adjusted_p"] = log10(adjusted)
        if result.details:
            row["details"] = dict(result.details)
        if result.categories:
            row["categories"] = [[c.label, c.observed, c.expected] for c in result.categories]
        rows.append(row)
    return rows


def _campaign_document(one: Campaign) -> dict[str, Any]:
    tally, decision = one.tally, one.decision
    setting = tally.plan.setting
    # Tests that cut the sample into sequences cannot use what is left at its end; the others do.
    unsequenced = (
        {"bytes_after_the_last_sequence": tally.items % (setting.size // 8)} if setting.kind is Kind.BITS else {}
    )
    return {
        "sample": {
            **one.sample,
            **unsequenced,
            "first_item": tally.start,
            "items": tally.items,
            "merkle_root": tally.sample_root().hex(),
        },
        "results": result_rows(one.results, decision),
        "decision": {
            "verdict": str(decision.verdict),
            "alpha": ALPHA,
            "hypotheses": len(decision.adjusted),
            "failed": list(decision.failed),
            "failed_second_reading": list(decision.failed_second_reading),
            "too_good": list(decision.too_good),
            "second_level_p": decision.second_level_p,
        },
        "power": statement(tally.plan.setting, tally.items, ALPHA, len(decision.adjusted)),
        "counts": tally.to_state(),
    }


def versions() -> dict[str, str]:
    """Return the versions on which floating-point results depend."""
    return {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "stats_tests": version("sealed-shoe"),
    }


def document(
    plan: Plan,
    campaigns: Sequence[Campaign],
    verdict: Verdict,
    *,
    time: str,
    evidence: dict[str, Any],
    ledger: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the report.

    Args:
        plan: as it was printed before the data were read.
        campaigns: the first, and the second if the rule asked for one.
        verdict: of all.
        time: as given by whoever runs it; empty if not given.
        evidence: what is known of the self-test of this code.
        ledger: every attempt that the ledger names, this one last; empty if none is kept.
    """
    return {
        "schema": SCHEMA,
        "time": time,
        "verdict": str(verdict),
        "rule": f"Holm at {ALPHA}; at once below {CERTAIN}",
        "plan": plan.to_json(),
        "campaigns": [_campaign_document(one) for one in campaigns],
        "asked_for_by": asked_for_by(clause for entry in plan.entries for clause in entry.clauses),
        "selftest": evidence,
        "ledger": list(ledger),
        "limits": list(LIMITS),
        "code": {"stats_tests": code_hash(), "fairness_relevant_modules": module_hash_set()},
        "versions": versions(),
    }


def encode(report: dict[str, Any]) -> bytes:
    """Return the report's bytes: canonical JSON and a line break."""
    return rfc8785.dumps(report) + b"\n"


def decode(raw: bytes) -> dict[str, Any]:
    """Read a report; ReportError unless it is canonical and of this schema."""
    try:
        report = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ReportError("the report is not JSON") from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise ReportError(f"the report is not of schema {SCHEMA}")
    if not _is_canonical(report, raw):
        raise ReportError("the report is not in canonical form: it was changed after it was written")
    if (wrong := misfit(report, REPORT)) is not None:
        raise ReportError(f"{wrong}: not what a report of schema {SCHEMA} has there")
    if not report["campaigns"]:
        raise ReportError("report.campaigns: there is none")
    return report


def _is_canonical(report: dict[str, Any], raw: bytes) -> bool:
    try:
        return encode(report) == raw
    except (ValueError, RecursionError):  # numbers that JSON has no canonical form for
        return False


def digest(raw: bytes) -> str:
    """Return the SHA-256 of a report's bytes, in hex."""
    return sha256(raw).hexdigest()
