"""What one test says about a sample. A result is a number with its null distribution, never a verdict.

Verdicts belong to the whole battery (`stats_tests.p_values`): of 188 honest P-values some are small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

NO_DETAILS: Final[Mapping[str, int | float]] = MappingProxyType({})


class Status(StrEnum):
    """Whether the test could be applied to this sample."""

    OK = "ok"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Category:
    """One cell of a table: how often it was seen and how often the null distribution expects it."""

    label: str
    observed: int
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one test on one sample.

    Attributes:
        test: the entry's id; a test with several parts adds the part after a slash (``bits.template/000000001``).
        status: ``ok``, or ``not_applicable`` with a reason.
        reason: why the test could not be applied; empty when it could.
        statistic: the test statistic; None when not applicable.
        log_p: natural logarithm of the P-value, which does not underflow; ``-inf`` when the sample is impossible
            under the null distribution. None when not applicable.
        log_p_low: natural logarithm of the probability of a statistic this small or smaller, where that would mean
            counts that agree too well with their expectation; None where the test is two-sided already.
        null: the null distribution in words, with its parameters.
        details: further integers and floats worth printing (sample size, means, counts).
        categories: observed against expected, where a person would look at it; empty for large tables.
    """

    test: str
    null: str
    statistic: float | None = None
    log_p: float | None = None
    log_p_low: float | None = None
    status: Status = Status.OK
    reason: str = ""
    details: Mapping[str, int | float] = field(default_factory=lambda: NO_DETAILS)
    categories: tuple[Category, ...] = ()

    def __post_init__(self) -> None:
        applied = self.status is Status.OK
        assert applied == (self.log_p is not None), "a result has a P-value exactly when the test was applied"
        assert applied != bool(self.reason), "a result has a reason exactly when the test was not applied"
        assert self.log_p is None or self.log_p <= 0, "the logarithm of a P-value is not positive"

    @property
    def p_value(self) -> float | None:
        """The P-value; 0.0 where it underflows (``log_p`` still tells how small it is)."""
        return None if self.log_p is None else math.exp(self.log_p)


def not_applicable(test: str, null: str, reason: str, details: Mapping[str, int | float] = NO_DETAILS) -> Result:
    """Return the result of a test that this sample cannot feed."""
    return Result(test=test, null=null, status=Status.NOT_APPLICABLE, reason=reason, details=details)
