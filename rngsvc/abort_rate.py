"""How many hands may be given up before chance no longer explains it.

Whoever knows the cards before the players do can give up the hands that he does not like. Each such hand stays in the
log as aborted or lost, so that only their number speaks. An honest room gives up a hand now and then, too: misdeals,
players who leave, a connection that breaks. The limit is exact: with hands given up independently at the allowed rate,
as many as were seen come about with the binomial tail's probability.
"""

import math
from dataclasses import dataclass

DEFAULT_RATE = 0.01
DEFAULT_SIGNIFICANCE = 0.001


@dataclass(frozen=True)
class AbortLimit:
    """At most a share ``rate`` of hands may be given up; a whole log that keeps to it is suspected with probability
    ``significance`` at most."""

    rate: float = DEFAULT_RATE
    significance: float = DEFAULT_SIGNIFICANCE

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ValueError("rate: must lie between 0 and 1")
        if not 0 < self.significance < 1:
            raise ValueError("significance: must lie between 0 and 1")

    def exceeded(self, given_up: int, hands: int, tests: int) -> float | None:
        """Return the p-value if ``given_up`` of ``hands`` are too many as one of ``tests``, None if not.

        The significance is shared out evenly (Bonferroni): tables need not be independent of each other.
        """
        p_value = binomial_tail(given_up, hands, self.rate)
        return p_value if p_value < self.significance / tests else None


def binomial_tail(successes: int, trials: int, rate: float) -> float:
    """Return P(X >= ``successes``) for X binomial with ``trials`` and ``rate``, 0 < rate < 1, summed term by term."""
    if successes <= 0:
        return 1.0
    if successes > trials:
        return 0.0
    # From the largest term of the tail outwards, so that nothing that counts underflows.
    peak = max(successes, math.floor((trials + 1) * rate))
    odds = rate / (1 - rate)
    largest = math.exp(
        math.lgamma(trials + 1)
        - math.lgamma(peak + 1)
        - math.lgamma(trials - peak + 1)
        + peak * math.log(rate)
        + (trials - peak) * math.log1p(-rate)
    )
    terms = [largest]
    term = largest
    for x in range(peak, trials):
        term *= (trials - x) / (x + 1) * odds
        if term < largest * 1e-18:
            break
        terms.append(term)
    term = largest
    for x in range(peak, successes, -1):
        term *= x / (trials - x + 1) / odds
        if term < largest * 1e-18:
            break
        terms.append(term)
    return min(1.0, math.fsum(terms))
