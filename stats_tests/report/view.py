"""What HTML and PDF have in common: the report's document turned into the words that people read."""

from typing import Any

from stats_tests.report.document import IMPOSSIBLE, digest

VERDICTS = {
    "pass": "Nothing speaks against the sample: no result is small enough to count among so many.",
    "fail": "The sample fails: a perfect source gives results like these less than once in a hundred campaigns.",
    "undecided": "Too little data to judge.",
    "doubtful": "Doubtful: the rule asks for one fresh sample.",
}


def p_text(log10_p: float | None) -> str:
    """Return a P-value as people read it, also one that underflows."""
    if log10_p is None:
        return ""
    if log10_p > -4:
        return f"{10**log10_p:.6f}"
    return "0 (impossible)" if log10_p <= IMPOSSIBLE else f"10^{log10_p:.1f}"


def view(report: dict[str, Any], raw: bytes, *, signed_by: str) -> dict[str, Any]:
    """Return the texts of a report.

    Args:
        report: the decoded document.
        raw: its bytes.
        signed_by: the name whose signature was found beside it; empty if there is none.
    """
    return {
        "verdict": report["verdict"],
        "verdict_text": VERDICTS[report["verdict"]],
        "signature": f"signed by {signed_by}" if signed_by else "UNSIGNED",
        "digest": digest(raw),
        "time": report["time"] or "not given",
        "battery": report["plan"]["battery"],
        "kind": report["plan"]["kind"],
        "size": report["plan"]["size"],
        "mode": report["plan"]["mode"],
        "rule": report["rule"],
        "alarms": ", ".join(report.get("alarms", [])),
        "escalation": report["plan"]["decision"]["escalation"],
        "selftest": _selftest(report["selftest"]),
        "campaigns": [_campaign(number, entry) for number, entry in enumerate(report["campaigns"], start=1)],
        "askers": [
            {
                "jurisdiction": row["jurisdiction"],
                "clauses": "; ".join(row["clauses"]),
                "requirement": row["requirement"],
                "asks": row["asks"],
                "said": _said(row["requirement"], report["campaigns"][-1]),
            }
            for row in report.get("asked_for_by", [])
        ],
        "ledger": [" ".join(f"{key}={value}" for key, value in line.items()) for line in report["ledger"]],
        "limits": report["limits"],
        "code": report["code"]["stats_tests"],
        "modules": sorted(report["code"]["fairness_relevant_modules"].items()),
        "versions": ", ".join(f"{name} {value}" for name, value in sorted(report["versions"].items())),
        "tests": [
            {
                "id": test["id"],
                "null": test["null"],
                "source": test["source"],
                "clauses": " ".join(test["clauses"]),
                "least": str(test["least_items"]),
            }
            for test in report["plan"]["tests"]
        ],
    }


def _said(requirement: str, campaign: dict[str, Any]) -> str:
    """Say what the results that stand for a requirement come to in the last campaign, as parts of its one verdict."""
    rows = [row for row in campaign["results"] if requirement in row["clauses"]]
    decision = campaign["decision"]
    applied = sum(row["status"] == "ok" for row in rows)
    words = [f"{applied} results"]
    if len(rows) > applied:
        words.append(f"{len(rows) - applied} not applicable")
    for level, failed in (("0.01", decision["failed"]), ("0.05", decision["failed_second_reading"])):
        below = [row["test"] for row in rows if row["test"] in failed]
        words.append(f"below {level} after adjustment: {', '.join(below) or 'none'}")
    return "; ".join(words)


def _selftest(evidence: dict[str, Any]) -> str:
    if "none" in evidence:
        return f"None: {evidence['none']}."
    form = "full" if evidence["full"] else "quick"
    return f"Passed ({form} form), evidence SHA-256 {evidence['sha256']}, signature {evidence['signature']}."


def _campaign(number: int, entry: dict[str, Any]) -> dict[str, Any]:
    decision, power = entry["decision"], entry["power"]
    return {
        "title": f"Campaign {number}",
        "sample": [[name, str(value)] for name, value in sorted(entry["sample"].items())],
        "decision": (
            f"{decision['verdict']}: {decision['hypotheses']} primary results; below {decision['alpha']} after "
            f"adjustment: {', '.join(decision['failed']) or 'none'}; below 0.05: "
            f"{', '.join(decision['failed_second_reading']) or 'none'}; too good: "
            f"{', '.join(decision['too_good']) or 'none'}. All primary P-values together against uniformity "
            f"(exploratory): {decision['second_level_p']:.4f}."
        ),
        "power": (
            f"With chance {power['power']:.0%} this sample shows a relative bias of "
            f"{power['smallest_rms_relative_bias']:.3%} (root mean square over the cells of {power['test']})."
        ),
        "results": [
            {
                "test": row["test"],
                "title": row["title"],
                "statistic": "" if row.get("statistic") is None else f"{row['statistic']:.4f}",
                "p": p_text(row.get("log10_p")),
                "adjusted": p_text(row.get("log10_adjusted_p")),
                "note": row.get("reason", "") or ("" if row["primary"] else "exploratory"),
                "failed": row["test"] in decision["failed"] or row["test"] in decision["too_good"],
            }
            for row in entry["results"]
        ],
    }
