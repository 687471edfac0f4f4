"""The exact limit on hands that are given up."""

from fractions import Fraction
from math import comb

import pytest
from scipy.stats import binom

from rngsvc.abort_rate import AbortLimit, binomial_tail
from tests.scale import scaled


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 3), Fraction(9, 10)])
def test_the_tail_is_the_sum_of_exact_fractions(rate: Fraction) -> None:
    for trials in range(1, scaled(40, 200)):
        terms = [comb(trials, x) * rate**x * (1 - rate) ** (trials - x) for x in range(trials + 1)]
        for successes in range(trials + 2):
            exact = float(sum(terms[successes:]))
            assert binomial_tail(successes, trials, float(rate)) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("trials", [10**3, 10**5, 10**7])
@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.5])
def test_the_tail_of_many_trials_is_scipys(trials: int, rate: float) -> None:
    mean, deviation = trials * rate, (trials * rate * (1 - rate)) ** 0.5
    for distance in (-30, -3, 0, 1, 4, 8, 30):
        successes = round(mean + distance * deviation)
        expected = binom.sf(successes - 1, trials, rate)
        assert binomial_tail(successes, trials, rate) == pytest.approx(expected, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize(("given_up", "hands", "tests", "exceeded"), [
    # 1 % allowed, significance 0.001: P(X >= 2 of 2) = 0.0001, P(X >= 1 of 1) = 0.01
    (1, 1, 1, False),
    (2, 2, 1, True),
    (2, 2, 10, False),
    (0, 10**6, 1, False),
    (10_000, 10**6, 1, False),
    # mean 10000, deviation 99.5; 3.09 deviations are 0.001
    (10_300, 10**6, 1, False),
    (10_320, 10**6, 1, True),
])  # fmt: skip
def test_the_limit(given_up: int, hands: int, tests: int, exceeded: bool) -> None:
    assert (AbortLimit().exceeded(given_up, hands, tests) is not None) is exceeded


@pytest.mark.parametrize("tables", [1, 10, 100])
def test_an_honest_log_is_suspected_as_rarely_as_it_says(tables: int) -> None:
    """The probability that any of its tests finds something, when hands are given up at exactly the allowed rate."""
    limit = AbortLimit(0.02, 0.001)
    for hands in (10, 100, 1000):
        found = next(x for x in range(hands + 1) if limit.exceeded(x, hands, tables + 1) is not None)
        each = float(binom.sf(found - 1, hands, limit.rate))
        assert 1 - (1 - each) ** tables <= limit.significance


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": 1}, {"significance": 0}, {"significance": 1.5}])
def test_a_limit_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AbortLimit(**wrong)
