"""The dashboards are what their maker makes, and each of their queries finds data at a real, loaded service.

No Grafana is needed for that: Prometheus itself answers the queries that Grafana would send.
"""

import asyncio
import json
import math
import re
import shutil
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from deploy.grafana.make_dashboards import DASHBOARDS, FOLDER, text
from deploy.grafana.observed_room import RULES, ObservedRoom, observed_room, play
from tests.scale import scaled

MODELS: dict[str, dict[str, Any]] = {
    each.name: json.loads((FOLDER / f"{each.name}.json").read_text()) for each in DASHBOARDS
}
QUERIES = [
    (name, panel["title"], target["expr"])
    for name, model in MODELS.items()
    for panel in model["panels"]
    for target in panel["targets"]
]
PATIENCE_S = 20
OUR_METRIC = re.compile(r"\b((?:rngsvc|dealer|process)_\w+)")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedRoom]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    with observed_room(tmp_path_factory.mktemp("room")) as room:
        asyncio.run(play(room, seconds=scaled(8, 60), tables=5))
        yield room


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_the_committed_dashboard_is_what_its_maker_makes(dashboard: Any) -> None:
    committed = (FOLDER / f"{dashboard.name}.json").read_text()
    assert committed == text(dashboard), "run python deploy/grafana/make_dashboards.py"


@pytest.mark.parametrize("name", MODELS)
def test_panels_lie_side_by_side_within_the_page(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in MODELS[name]["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not taken & cells, f"{panel['title']} lies over another panel"
        taken |= cells


@pytest.mark.parametrize("name", MODELS)
def test_the_handbook_shows_a_small_picture_of_each_dashboard(name: str) -> None:
    docs = FOLDER.parent.parent / "docs"
    picture = f"images/dashboard-{name}.png"
    assert f"({picture})" in (docs / "monitoring.md").read_text()
    assert 10_000 < (docs / picture).stat().st_size < 150_000


@pytest.mark.parametrize("name", MODELS)
def test_every_query_of_a_dashboard_finds_data(name: str, room: ObservedRoom) -> None:
    asked = [
        (title, expr.replace("$log", ".*").replace("$__rate_interval", "1m"))
        for dashboard, title, expr in QUERIES
        if dashboard == name
    ]
    assert not [expr for _, expr in asked if "$" in expr]
    deadline = time.monotonic() + PATIENCE_S  # what the service says of its checks is a few seconds old
    while missing := [each for each in asked if not has_data(room, each[1])]:
        assert time.monotonic() < deadline, missing
        time.sleep(1)


def has_data(room: ObservedRoom, expr: str) -> bool:
    return any(math.isfinite(float(series["value"][1])) for series in room.prometheus.query(expr))


def test_the_rules_know_only_metrics_that_service_and_dealer_have(room: ObservedRoom) -> None:
    scraped: set[str] = set()
    for pages in (room.operator, room.dealer_operator):
        with urlopen(f"{pages}/metrics", timeout=10) as answer:
            scraped |= set(re.findall(r"^([a-z_]+)[{ ]", answer.read().decode(), re.MULTILINE))
    groups = [group for file in RULES for group in yaml.safe_load(file.read_text())["groups"]]
    named = {metric for group in groups for rule in group["rules"] for metric in OUR_METRIC.findall(rule["expr"])}
    assert len(named) > 30
    assert named <= scraped


def test_a_service_that_is_well_raises_no_alert(room: ObservedRoom) -> None:
    assert [each["metric"] for each in room.prometheus.query('ALERTS{alertstate="firing"}')] == []
