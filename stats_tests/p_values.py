"""From many P-values to one decision.

Of 188 honest P-values about two are below 0.01, so no test decides alone: Holm's procedure keeps the chance of any
false alarm in the family of primary tests at the significance level, whatever their dependence. All in logarithms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from scipy import special

from stats_tests.result import Result, Status

ALPHA: Final = 0.01
"""Family-wise significance of a campaign (collectively 99 %)."""
SECOND_READING: Final = 0.05
"""The significance of the second reading that some jurisdictions ask for (95 %)."""
CERTAIN: Final = 1e-4
"""An adjusted P-value below this fails at once; between this and `ALPHA` a source that can be drawn again is."""
TOO_GOOD: Final = 1e-6
"""Chance, over all tests together, of calling honest counts too good."""


class Verdict(StrEnum):
    """What a campaign says."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    DOUBTFUL = "doubtful"
    UNDECIDED = "undecided"


def holm(log_ps: Sequence[float]) -> list[float]:
    """Return Holm's adjusted P-values, in logarithms, in the order given."""
    adjusted = [0.0] * len(log_ps)
    largest = -math.inf
    for rank, i in enumerate(sorted(range(len(log_ps)), key=lambda i: log_ps[i])):
        largest = max(largest, min(0.0, log_ps[i] + math.log(len(log_ps) - rank)))
        adjusted[i] = largest
    return adjusted


@dataclass(frozen=True, slots=True)
class Decision:
    """What the primary results say together.

    Attributes:
        verdict: of this campaign alone.
        adjusted: Holm-adjusted log P-value of each primary result that could be applied.
        failed: results whose adjusted P-value is below `ALPHA`.
        failed_second_reading: those below `SECOND_READING`.
        too_good: results whose counts agree better with their expectation than chance allows.
        second_level_p: how well all these P-values together fit uniformity. Exploratory: they are not independent.
    """

    verdict: Verdict
    adjusted: dict[str, float]
    failed: tuple[str, ...]
    failed_second_reading: tuple[str, ...]
    too_good: tuple[str, ...]
    second_level_p: float


UNDECIDED: Final = Decision(Verdict.UNDECIDED, {}, (), (), (), 1.0)
"""Too little data: nothing was judged."""


def decide(primary: Sequence[Result]) -> Decision:
    """Judge the primary results of one campaign.

    Nothing applicable is `UNDECIDED`, never a pass. `DOUBTFUL` is a failure unless the source can be drawn again.
    """
    applied = [result for result in primary if result.status is Status.OK]
    log_ps = [result.log_p for result in applied if result.log_p is not None]
    adjusted = dict(zip([result.test for result in applied], holm(log_ps), strict=True))
    too_good = tuple(
        result.test
        for result in applied
        if result.log_p_low is not None and result.log_p_low < math.log(TOO_GOOD / len(applied))
    )
    failed = tuple(test for test, log_p in adjusted.items() if log_p < math.log(ALPHA))
    if not adjusted:
        verdict = Verdict.UNDECIDED
    elif too_good or min(adjusted.values()) < math.log(CERTAIN):
        verdict = Verdict.FAIL
    else:
        verdict = Verdict.DOUBTFUL if failed else Verdict.PASS
    return Decision(
        verdict=verdict,
        adjusted=adjusted,
        failed=failed,
        failed_second_reading=tuple(test for test, log_p in adjusted.items() if log_p < math.log(SECOND_READING)),
        too_good=too_good,
        second_level_p=kolmogorov_smirnov([math.exp(log_p) for log_p in log_ps if log_p < 0]),
    )


def kolmogorov_smirnov(p_values: Sequence[float]) -> float:
    """Return the P-value of the largest distance of the P-values' distribution function from uniformity.

    By Kolmogorov's law with Stephens' correction for few values (1970), which is best where the P-value is small.
    P-values of exactly 1 (no repeat where none was possible) should be left out.
    """
    count = len(p_values)
    if count == 0:
        return 1.0
    ordered = np.sort(p_values)
    steps = np.arange(count + 1) / count
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    root = math.sqrt(count)
    return float(special.kolmogorov((root + 0.12 + 0.11 / root) * distance))


def uniformity(p_values: Sequence[float], bins: int = 10) -> float:
    """Return the second-level P-value: chi-square of `bins` equal bins of P-values that should be uniform.

    For continuous first levels only; a discrete first level has its own bin probabilities (`uniformity_of`).
    """
    counts = np.histogram(p_values, bins=bins, range=(0, 1))[0]
    return uniformity_of([int(c) for c in counts], [1 / bins] * bins)


def uniformity_of(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Return the chi-square P-value of counts of P-values in bins whose exact probabilities are known."""
    total = sum(counts)
    statistic = sum((c - total * p) ** 2 / (total * p) for c, p in zip(counts, probabilities, strict=True))
    return float(special.chdtrc(len(counts) - 1, statistic))
