"""Logarithms of exact tails of counts, right also where the probability itself underflows."""

import math
from typing import Final

from scipy import special

from stats_tests.nulls import log_chi_square_tail

# Below this a double loses digits to gradual underflow, so the logarithm is taken another way.
_SMALLEST: Final = 1e-290


def binomial_two_sided(successes: int, trials: int) -> float:
    """Return ln of the exact two-sided P-value of a fair binomial count: twice the smaller tail, at most 1."""
    return min(0.0, math.log(2) + binomial_at_most(min(successes, trials - successes), trials))


def binomial_at_most(successes: int, trials: int) -> float:
    """Return ln P(X <= successes) for X binomial with probability 1/2."""
    tail = float(special.bdtr(successes, trials, 0.5))
    if tail > _SMALLEST:
        return math.log(tail)
    # The largest term times the series of the ratios of its neighbours below.
    total = term = 1.0
    k = successes
    while k > 0 and term > total * 1e-17:
        term *= k / (trials - k + 1)
        total += term
        k -= 1
    largest = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return largest - trials * math.log(2) + math.log(total)


def poisson_two_sided(count: int, mean: float) -> float:
    """Return ln of the two-sided P-value of a Poisson count: twice the smaller tail, at most 1."""
    return min(0.0, math.log(2) + min(_poisson_at_most(count, mean), poisson_at_least(count, mean)))


def poisson_at_least(count: int, mean: float) -> float:
    """Return ln P(X >= count) for a Poisson variable."""
    if count <= 0:
        return 0.0
    tail = float(special.gammainc(count, mean))
    if tail > _SMALLEST:
        return math.log(tail)
    total = term = 1.0
    k = count
    while term > total * 1e-17:
        k += 1
        term *= mean / k
        total += term
    return -mean + count * math.log(mean) - math.lgamma(count + 1) + math.log(total)


def _poisson_at_most(count: int, mean: float) -> float:
    return log_chi_square_tail(2 * mean, 2 * (count + 1))
