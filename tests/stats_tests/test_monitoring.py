"""Watching for years: the e-process is fair, sees what it should, and its state is kept and merges."""

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from stats_tests.__main__ import cli
from stats_tests.monitoring import ALPHA, LOOKS, Monitor, MonitorError, log_e_of_table, log_e_value, spent
from tests.scale import scaled


@pytest.mark.parametrize("concentration", [0.5, 1.0, 100.0])
def test_the_e_value_has_expectation_one_under_uniformity(concentration: float) -> None:
    cells, draws = 3, 5
    values = [
        math.exp(log_e_value(np.bincount(outcome, minlength=cells), concentration))
        for outcome in product(range(cells), repeat=draws)
    ]
    assert np.mean(values) == pytest.approx(1)


def test_the_e_value_is_a_martingale_draw_by_draw() -> None:
    counts = np.array([4, 0, 2])
    now = math.exp(log_e_value(counts, 10.0))
    then = [math.exp(log_e_value(counts + np.eye(3, dtype=int)[card], 10.0)) for card in range(3)]
    assert np.mean(then) == pytest.approx(now)


def table_of(rng: np.random.Generator, decks: int, weights: np.ndarray) -> np.ndarray:
    """Rows of counts as decks would add them, positions taken as independent."""
    return np.array([rng.multinomial(decks, weights) for _ in range(len(weights))])


def test_a_year_of_daily_looks_seldom_cries_wolf() -> None:
    years, days = scaled(20, 400), 365
    rng = np.random.default_rng(5)
    fair = np.full(20, 1 / 20)
    alarms = 0
    for _ in range(years):
        table = np.zeros((20, 20), dtype=np.int64)
        largest = -math.inf
        for _ in range(days):
            table += table_of(rng, 200, fair)
            largest = max(largest, log_e_of_table(table))
        alarms += largest >= -math.log(ALPHA)
    # At most 1 % of years; 4 of 400 expected at the very most.
    assert alarms <= max(1, years // 40)


def test_a_card_that_comes_a_fifth_too_often_is_seen_within_the_year() -> None:
    rng = np.random.default_rng(6)
    uneven = np.full(52, 1.0)
    uneven[7] = 1.2
    table = np.zeros((52, 52), dtype=np.int64)
    days = 0
    while log_e_of_table(table) < -math.log(ALPHA) and days < 366:
        days += 1
        fair = table_of(rng, 2000, np.full(52, 1 / 52))
        fair[3] = rng.multinomial(2000, uneven / uneven.sum())
        table += fair
    assert days < 300


def test_alpha_is_spent_late_and_not_twice() -> None:
    shares = [spent(look / 365) for look in LOOKS]
    assert shares == sorted(shares)
    assert shares[0] < ALPHA / 1000
    assert shares[-1] == pytest.approx(ALPHA)
    assert sum(Monitor._share_of_look(look) for look in LOOKS) == pytest.approx(ALPHA)
    assert Monitor._share_of_look(LOOKS[1] + 365) == pytest.approx(Monitor._share_of_look(LOOKS[1]))


def daily(monitor: Path, *arguments: str, code: int) -> dict:
    command = ["daily", "--monitor", str(monitor), "--json", *arguments]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == code, f"{result.output}{result.exception!r}"
    return json.loads(result.stdout)


def test_days_add_up_and_a_bad_day_alarms(tmp_path: Path) -> None:
    monitor = tmp_path / "monitor"
    first = daily(monitor, "--generator", "good", "--count", "100000", code=0)
    second = daily(monitor, "--generator", "good", "--count", "100000", code=0)
    assert (first["decks"], second["decks"], second["days"]) == (100_000, 200_000, 2)
    bad = daily(monitor, "--generator", "sattolo", "--count", "100000", code=1)
    assert "e-process" in bad["alarms"]
    assert "shuffles.cycles" in bad["alarms"]
    # The e-process does not forget.
    assert daily(monitor, "--generator", "good", "--count", "100000", code=1)["alarms"] == ["e-process"]


def test_too_few_decks_are_no_pass(tmp_path: Path) -> None:
    assert daily(tmp_path / "m", "--generator", "good", "--count", "1000", code=3)["verdict"] == "undecided"


def test_states_of_two_nodes_merge_to_their_sum(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    times = ["2026-11-29T12:00:00Z", "2026-11-30T12:00:00Z"]
    for path, time in zip((a, b), times, strict=True):
        daily(path, "--generator", "good", "--count", "1000", "--time", time, code=3)
    result = CliRunner().invoke(cli, ["daily", "--monitor", str(tmp_path / "ab"), "--merge", str(a), "--merge", str(b)])
    assert result.exit_code == 0, result.output
    merged = Monitor.read(tmp_path / "ab", 52)
    assert merged.decks == 2000
    assert [day["time"] for day in merged.days] == times
    assert (merged.table == Monitor.read(a, 52).table + Monitor.read(b, 52).table).all()


SHAPES = [
    (b"", "not JSON"),
    (b"{}", "not the state of a monitor, whose schema is stats_tests-monitor/1"),
    (b"[]", "not the state of a monitor"),
    (b'{"schema":"stats_tests-monitor/1","n":36}', "not a monitor of 52 cards"),
    (b'{"schema":"stats_tests-monitor/1","n":52}', "the member 'largest_log_e' is missing"),
]


@pytest.mark.parametrize(("content", "message"), SHAPES)
def test_a_state_of_another_shape_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "monitor"
    path.write_bytes(content)
    with pytest.raises(MonitorError, match=f"monitor: {message}"):
        Monitor.read(path, 52)


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    monitor = Monitor.of(5)
    monitor.add(np.full((5, 5), 20), {"time": "t", "decks": 100})
    path = tmp_path / "monitor"
    path.write_bytes(monitor.encode())
    assert Monitor.read(path, 5).encode() == monitor.encode()
