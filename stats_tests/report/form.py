"""The members that a report has, and their types: what is read from a file is checked once, here."""

from collections.abc import Mapping
from typing import Any, Final

NUMBER: Final = (int, float)

_RESULT: Final = {"test": str, "title": str, "clauses": [str], "primary": bool, "null": str, "status": str}
_CAMPAIGN: Final = {
    "sample": {"source": str, "first_item": int, "items": int, "merkle_root": str},
    "results": [_RESULT],
    "decision": {
        "verdict": str,
        "alpha": NUMBER,
        "hypotheses": int,
        "failed": [str],
        "failed_second_reading": [str],
        "too_good": [str],
        "second_level_p": NUMBER,
    },
    "power": {"test": str, "power": NUMBER, "smallest_rms_relative_bias": NUMBER, "curve": [[NUMBER]]},
    "counts": {"tests": dict},
}
REPORT: Final = {
    "schema": str,
    "time": str,
    "verdict": str,
    "rule": str,
    "plan": {
        "battery": str,
        "kind": str,
        "size": int,
        "mode": str,
        "tests": [{"id": str, "null": str, "source": str, "clauses": [str], "least_items": int}],
        "decision": {"escalation": str},
    },
    "campaigns": [_CAMPAIGN],
    "selftest": dict,
    "ledger": [dict],
    "limits": [str],
    "code": {"stats_tests": str, "fairness_relevant_modules": dict},
    "versions": dict,
}
"""A member's type, the form of its members, or (in a list) the form of each of its items; others may stand beside."""


def misfit(value: Any, form: Any, path: str = "report") -> str | None:
    """Return which member does not have its form, or None."""
    if isinstance(form, Mapping):
        if not isinstance(value, dict):
            return path
        found = (misfit(value.get(name), inner, f"{path}.{name}") for name, inner in form.items())
    elif isinstance(form, list):
        if not isinstance(value, list):
            return path
        found = (misfit(item, form[0], f"{path}.{place}") for place, item in enumerate(value))
    else:
        # A bool is an int to Python, not to JSON.
        right = isinstance(value, form) and isinstance(value, bool) == (form is bool)
        return None if right else path
    return next((wrong for wrong in found if wrong is not None), None)
