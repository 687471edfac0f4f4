"""The alert rules: valid, each tested by promtool in the moment before and after it fires, each with its runbook."""

import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "deploy" / "prometheus"
SERVICES = ["rngsvc", "dealer"]
RULES = {each: yaml.safe_load((FOLDER / f"{each}.rules.yml").read_text())["groups"] for each in SERVICES}


def alerts_of(service: str) -> list[dict[str, Any]]:
    return [rule for group in RULES[service] for rule in group["rules"] if "alert" in rule]


ALERTS = [alert for service in SERVICES for alert in alerts_of(service)]


def promtool(*arguments: str) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run(["promtool", *arguments], check=False, cwd=FOLDER, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_rules_and_the_sample_configuration() -> None:
    promtool("check", "rules", *(f"{service}.rules.yml" for service in SERVICES))
    promtool("check", "config", "prometheus.yml")
    promtool("check", "config", "prometheus-kubernetes.yml")


@pytest.mark.parametrize("service", SERVICES)
def test_each_alert_fires_when_it_must_and_not_before(service: str) -> None:
    promtool("test", "rules", f"{service}.rules_test.yml")


def firing(expected: dict[str, Any]) -> set[tuple[str, str]]:
    labels = [sample["labels"] for sample in expected["exp_samples"]]
    return {(find("alertname", each), find("severity", each)) for each in labels}


def find(label: str, series: str) -> str:
    match = re.search(rf'{label}="([^"]+)"', series)
    assert match, f"{series} has no {label}"
    return match[1]


@pytest.mark.parametrize("service", SERVICES)
def test_the_rule_tests_name_each_alert_once_fired_and_once_quiet(service: str) -> None:
    """promtool runs what is written; this is that nothing is left out."""
    fired = set()
    for test in yaml.safe_load((FOLDER / f"{service}.rules_test.yml").read_text())["tests"]:
        quiet, *loud = test["promql_expr_test"]
        assert quiet["exp_samples"] == [], f"{test['name']}: begins with a moment in which nothing fires"
        assert all(each["expr"].startswith("ALERTS") for each in test["promql_expr_test"]), test["name"]
        fired |= set().union(*map(firing, loud))
    assert fired == {(alert["alert"], alert["labels"]["severity"]) for alert in alerts_of(service)}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert['alert']}-{alert['labels']['severity']}")
def test_each_alert_has_a_summary_and_a_section_in_the_handbook(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"page", "ticket"}
    assert set(alert["annotations"]) == {"summary", "runbook"}
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    sections = re.split(r"^### ", (ROOT / page).read_text(), flags=re.MULTILINE)[1:]
    (section,) = (section for section in sections if section.splitlines()[0].lower() == anchor)
    assert "**Means**: " in section
    assert "**Do**: " in section


def test_the_handbook_has_no_section_for_an_alert_that_does_not_exist() -> None:
    named = set(re.findall(r"^### ((?:Rngsvc|Dealer)\w+)$", (ROOT / "docs/monitoring.md").read_text(), re.MULTILINE))
    assert named == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("items", [52, 36, 32])
def test_expected_bytes_of_a_shuffle_are_those_of_the_derivation(items: int) -> None:
    """Step 4: for m = items..2 a byte is taken until it lies below 256 - (256 mod m)."""
    accepted = [Fraction(256 - 256 % m, 256) for m in range(2, items + 1)]
    exact = {"mean": sum(1 / p for p in accepted), "variance": sum((1 - p) / p**2 for p in accepted)}
    for figure, value in exact.items():
        (rule,) = (
            rule
            for rule in RULES["rngsvc"][0]["rules"]
            if rule["record"] == f"rngsvc:shuffle_bytes:{figure}" and rule["labels"] == {"items": str(items)}
        )
        assert float(rule["expr"].removeprefix("vector(").removesuffix(")")) == pytest.approx(float(value), abs=1e-6)
