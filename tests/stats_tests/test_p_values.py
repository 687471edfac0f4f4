"""Deciding: Holm by hand, too good to be true, and the null functions where probabilities underflow."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stats_tests import nulls
from stats_tests.p_values import Verdict, decide, holm, kolmogorov_smirnov, uniformity, uniformity_of
from stats_tests.result import Result, not_applicable


def result(test: str, p: float, log_p_low: float | None = None) -> Result:
    return Result(test=test, null="", statistic=1.0, log_p=math.log(p) if p else -math.inf, log_p_low=log_p_low)


def test_holm_by_hand() -> None:
    # 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.9
    adjusted = holm([math.log(p) for p in (0.02, 0.9, 0.01, 0.03)])
    assert [math.exp(a) for a in adjusted] == pytest.approx([0.06, 0.9, 0.04, 0.06])


@given(st.lists(st.floats(1e-300, 1), min_size=1, max_size=30))
def test_holm_keeps_the_order_and_never_lowers_a_p_value(ps: list[float]) -> None:
    logs = [math.log(p) for p in ps]
    adjusted = holm(logs)
    assert all(a >= log - 1e-12 for a, log in zip(adjusted, logs, strict=True))
    assert max(adjusted) <= 0
    ranked = [a for _, a in sorted(zip(logs, adjusted, strict=True))]
    assert ranked == sorted(ranked)


VERDICTS = [
    # P-values of three tests, verdict
    ((0.5, 0.2, 0.9), Verdict.PASS),
    ((0.0034, 0.2, 0.9), Verdict.PASS),
    ((0.0033, 0.2, 0.9), Verdict.DOUBTFUL),
    ((3.4e-5, 0.2, 0.9), Verdict.DOUBTFUL),
    ((3.3e-5, 0.2, 0.9), Verdict.FAIL),
    ((0.0, 0.2, 0.9), Verdict.FAIL),
]


@pytest.mark.parametrize(("ps", "verdict"), VERDICTS)
def test_the_family_decides(ps: tuple[float, ...], verdict: Verdict) -> None:
    assert decide([result(str(i), p) for i, p in enumerate(ps)]).verdict is verdict


def test_nothing_applicable_is_no_pass() -> None:
    assert decide([not_applicable("t", "", "too short")]).verdict is Verdict.UNDECIDED
    assert decide([]).verdict is Verdict.UNDECIDED


def test_counts_that_agree_too_well_fail() -> None:
    decision = decide([result("a", 1.0, log_p_low=-16.0), result("b", 0.5)])
    assert decision.verdict is Verdict.FAIL
    assert decision.too_good == ("a",)
    assert decide([result("a", 1.0, log_p_low=-13.0), result("b", 0.5)]).verdict is Verdict.PASS


def test_the_second_reading_is_at_five_in_a_hundred() -> None:
    decision = decide([result("a", 0.02), result("b", 0.5)])
    assert (decision.failed, decision.failed_second_reading) == ((), ("a",))


@pytest.mark.parametrize("count", [5, 20, 188])
def test_the_second_level_is_close_to_the_exact_law(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(60):
        values = rng.random(count)
        exact = stats.kstest(values, "uniform").pvalue
        assert kolmogorov_smirnov(values) == pytest.approx(exact, abs=0.005 if exact < 0.1 else 0.04)
    assert kolmogorov_smirnov([0.001] * count) == pytest.approx(0, abs=0.001)


def test_uniformity_of_p_values() -> None:
    assert uniformity([(i + 0.5) / 1000 for i in range(1000)]) == pytest.approx(1)
    assert uniformity([0.05] * 100) < 1e-100
    assert uniformity_of([60, 40], [0.6, 0.4]) == pytest.approx(1)


@pytest.mark.parametrize(("x", "degrees"), [(0.5, 1), (10, 5), (3000, 2601), (1200.5, 3), (5000, 2601)])
def test_log_tails_are_those_of_scipy(x: float, degrees: float) -> None:
    assert nulls.log_chi_square_tail(x, degrees) == pytest.approx(stats.chi2.logsf(x, degrees), rel=1e-9)


@pytest.mark.parametrize(
    ("x", "degrees", "log_p"),
    [
        # ln of the upper incomplete gamma ratio: for 2 degrees exactly -x/2; for 4, -x/2 + ln(1 + x/2).
        (5000, 2, -2500.0),
        (1e6, 2, -5e5),
        (1e6, 4, -5e5 + math.log1p(5e5)),
    ],
)
def test_log_tails_do_not_underflow(x: float, degrees: float, log_p: float) -> None:
    assert nulls.log_chi_square_tail(x, degrees) == pytest.approx(log_p, rel=1e-12)


def test_lower_tails() -> None:
    assert nulls.log_chi_square_lower(2000, 2601) == pytest.approx(stats.chi2.logcdf(2000, 2601), rel=1e-9)
    # For 2 degrees 1 - exp(-x/2).
    assert nulls.log_chi_square_lower(1e-290, 2) == pytest.approx(math.log(5e-291), rel=1e-9)
    assert nulls.log_chi_square_lower(0, 5) == -math.inf


def test_the_smallest_of_several_p_values() -> None:
    assert nulls.log_smallest_of([math.log(0.5)] * 2) == pytest.approx(math.log(0.75))
    assert nulls.log_smallest_of([-1000.0, -1.0]) == pytest.approx(-1000 + math.log(2))
    assert nulls.log_smallest_of([0.0, 0.0]) == 0


def test_small_cells_are_joined_with_their_neighbours() -> None:
    counts = np.array([1, 2, 50, 40, 3, 1, 3])
    probabilities = np.array([0.01, 0.03, 0.5, 0.4, 0.03, 0.02, 0.01])
    table = nulls.chi_square(counts, probabilities, list("abcdefg"))
    assert table is not None
    assert table.labels == ("a..c", "d", "e..g")
    assert table.observed.tolist() == [53, 40, 7]
    assert table.expected == pytest.approx([54, 40, 6])
    assert nulls.chi_square(np.array([3, 1]), np.array([0.5, 0.5]), ["x", "y"]) is None


def test_an_impossible_category_is_fatal() -> None:
    judged = nulls.judge_categories("t", np.array([500, 500, 1]), np.array([0.5, 0.5, 0.0]))
    assert judged.log_p == -math.inf
