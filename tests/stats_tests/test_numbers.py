"""The number tests' null distributions, by enumeration of small ranges, and their behaviour on good and bad numbers."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.numbers import ENTRIES
from stats_tests.numbers.cells import Cells, count_distinct, distinct_after
from stats_tests.numbers.frequency import log_bridge_tail
from tests.scale import scaled

BY_ID = {entry.id: entry for entry in ENTRIES}


def run(test: str, m: int, numbers: np.ndarray) -> dict[str, object]:
    accumulator = BY_ID[test].make(Setting(Kind.NUMBERS, m), 0)
    accumulator.update(numbers.astype(np.uint64))
    return {result.test: result for result in accumulator.results()}


@given(st.integers(1, 5000), st.integers(1, 100))
def test_cells_cover_the_range_once(m: int, most: int) -> None:
    cells = Cells.at_most(most, m)
    counts = np.bincount(cells.of(np.arange(m, dtype=np.uint64)))
    assert len(counts) == cells.count == len(cells.labels) <= most
    assert counts / m == pytest.approx(cells.probabilities)


@pytest.mark.parametrize(("m", "most", "draws"), [(2, 2, 5), (3, 3, 6), (5, 3, 5), (7, 4, 5), (4, 1, 3)])
def test_distinct_cells_over_all_draws_follow_the_chain(m: int, most: int, draws: int) -> None:
    cells = Cells.at_most(most, m)
    every = np.array(list(product(range(m), repeat=draws)), dtype=np.uint64)
    seen = np.bincount(count_distinct(cells.of(every)), minlength=cells.count + 1) / len(every)
    assert seen == pytest.approx(distinct_after(draws, cells)[draws])


ENUMERATED = [
    # test, range, numbers in a block: each block of the range once is exactly the null distribution
    ("numbers.poker", 3, 5),
    ("numbers.poker", 17, 5),
    ("numbers.permutation", 5, 4),
    ("numbers.permutation", 7, 4),
    ("numbers.order-statistics", 3, 8),
    ("numbers.order-statistics", 4, 8),
    ("numbers.runs-up", 3, 7),
    ("numbers.runs-up", 5, 7),
    ("numbers.poisson", 5, 5),
    ("numbers.serial-pairs", 70, 2),
    ("numbers.interplay", 7, 5),
    ("numbers.coupon-collector", 2, 12),
]


@pytest.mark.parametrize(("test", "m", "block"), ENUMERATED)
def test_all_blocks_of_a_small_range_fit_the_null_perfectly(test: str, m: int, block: int) -> None:
    every = np.array(list(product(range(m), repeat=block)), dtype=np.uint64).ravel()
    results = run(test, m, every)
    assert results
    for result in results.values():
        assert result.statistic == pytest.approx(0, abs=1e-6)
        assert result.details["observations"] == m**block


def test_collisions_over_all_blocks_fit_the_null_perfectly() -> None:
    # 16 cells, blocks of eight: 16^8 are too many, so the chain is compared with the closed form.
    cells = Cells.at_most(1 << 20, 16)
    stirling = [[0] * 9 for _ in range(9)]
    stirling[0][0] = 1
    for i in range(1, 9):
        for k in range(1, 9):
            stirling[i][k] = k * stirling[i - 1][k] + stirling[i - 1][k - 1]
    closed = [math.perm(16, r) * stirling[8][r] / 16**8 for r in range(9)]
    assert distinct_after(8, cells)[8][:9] == pytest.approx(closed)


def test_gap_frequencies_are_geometric() -> None:
    rng = np.random.default_rng(11)
    results = run("numbers.gaps", 6, rng.integers(0, 6, 100_000))
    for result in results.values():
        assert result.log_p > math.log(1e-4)
        total = sum(category.observed for category in result.categories)
        assert sum(category.expected for category in result.categories) == pytest.approx(total)


def test_gaps_are_counted_as_by_hand() -> None:
    # hits (below 1 of 2) at 0, 3, 4 and, in the window kept free at the end, more
    numbers = np.array([0, 1, 1, 0, 0, 1] + [0] * 70)
    accumulator = BY_ID["numbers.gaps"].make(Setting(Kind.NUMBERS, 2), 0)
    accumulator.update(numbers.astype(np.uint64))
    half = accumulator.to_state()["counts"][:13]
    # From 0 two pass, from 3 none, from 4 one; then a hit at each of 6..11, from which 64 more numbers follow.
    assert half[:3] == [1 + 6, 1, 1]


def test_runs_have_the_exact_variance_for_odd_ranges() -> None:
    m, length = 3, 9
    every = np.array(list(product(range(m), repeat=length)), dtype=np.uint64)
    scores = [run("numbers.runs", m, row)["numbers.runs"].statistic for row in every]
    assert np.mean(scores) == pytest.approx(0, abs=1e-9)
    assert np.var(scores) == pytest.approx(1, abs=1e-9)


def test_serial_correlation_scores_have_mean_zero_and_variance_one() -> None:
    m, length = 3, 8
    every = np.array(list(product(range(m), repeat=length)), dtype=np.uint64)
    scores = []
    for row in every:
        details = run("numbers.serial-correlation", m, row)["numbers.serial-correlation"].details
        scores.append([details[f"z_lag_{lag}"] for lag in range(1, 6)])
    assert np.mean(scores, axis=0) == pytest.approx([0] * 5, abs=1e-9)
    assert np.cov(np.array(scores).T, bias=True) == pytest.approx(np.eye(5), abs=1e-9)


def test_the_bridge_seen_everywhere_follows_kolmogorov() -> None:
    times = np.arange(1, 2000) / 2000
    for bound in (0.8, 1.2, 1.6):
        # Seen at 1999 times the maximum is a little smaller than seen always.
        assert math.exp(log_bridge_tail(bound, times)) == pytest.approx(stats.kstwobign.sf(bound + 0.013), rel=0.03)


def test_the_bridge_at_one_time_is_normal() -> None:
    for bound in (0.1, 0.5, 3.0, 30.0):
        exact = math.log(2) + stats.norm.logsf(bound / 0.4)
        assert log_bridge_tail(bound, np.array([0.2])) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
@settings(max_examples=scaled(10, 500), deadline=None)
@given(
    m=st.sampled_from([2, 3, 6, 52, 1000, 2**20, 2**53 - 1]),
    lengths=st.lists(st.integers(0, 700), min_size=1, max_size=5),
    start=st.integers(0, 3000),
)
def test_a_split_sample_gives_the_state_of_the_whole(entry: Entry, m: int, lengths: list[int], start: int) -> None:
    setting = Setting(Kind.NUMBERS, m)
    if entry.objection(setting):
        return
    numbers = np.random.default_rng(start).integers(0, m, sum(lengths), dtype=np.uint64)
    whole = entry.make(setting, start)
    whole.update(numbers)
    bounds = np.cumsum([0, *lengths])
    parts = [entry.make(setting, start + int(b)) for b in bounds[:-1]]
    for part, a, b in zip(parts, bounds[:-1], bounds[1:], strict=True):
        part.update(numbers[a:b])
    while len(parts) > 1:
        i = len(parts) // 2 - 1
        parts[i].merge(parts.pop(i + 1))
    assert parts[0].to_state() == whole.to_state()


# What each test is there to see: range, numbers, and the part that must see it beyond doubt.
COUNTER = np.arange(200_000) * 7 % 52
BAD = [
    ("numbers.frequency", 52, np.random.default_rng(1).integers(0, 51, 50_000), "/chi-square"),
    ("numbers.frequency", 52, np.minimum(np.random.default_rng(1).integers(0, 53, 50_000), 51), "/kolmogorov-smirnov"),
    ("numbers.equidistribution", 10**6, np.random.default_rng(1).integers(0, 5 * 10**5, 50_000) * 2, ""),
    ("numbers.subsequences", 52, np.where(np.arange(200_000) % 7, COUNTER, 3), ""),
    ("numbers.poisson", 52, COUNTER, ""),
    ("numbers.serial-pairs", 52, COUNTER, ""),
    ("numbers.interplay", 52, COUNTER, ""),
    ("numbers.overlaps", 52, COUNTER, ""),
    ("numbers.gaps", 52, COUNTER, "/half"),
    ("numbers.runs", 52, COUNTER, ""),
    ("numbers.serial-correlation", 52, COUNTER, ""),
    ("numbers.poker", 52, COUNTER, ""),
    ("numbers.coupon-collector", 52, COUNTER, ""),
    ("numbers.permutation", 52, COUNTER, ""),
    ("numbers.order-statistics", 52, COUNTER, "/largest"),
    ("numbers.order-statistics", 52, COUNTER, "/smallest"),
    ("numbers.runs-up", 52, COUNTER, ""),
    ("numbers.collisions", 52, COUNTER, ""),
    ("numbers.birthday-spacings", 2**30, np.arange(2_000_000) * 12345 % 2**30, ""),
]


@pytest.mark.parametrize(("test", "m", "numbers", "part"), BAD)
def test_a_test_sees_what_it_is_for(test: str, m: int, numbers: np.ndarray, part: str) -> None:
    assert run(test, m, numbers)[test + part].log_p < math.log(1e-12)


def test_every_test_has_a_sample_that_it_must_refuse() -> None:
    assert {test for test, *_ in BAD} == set(BY_ID)
