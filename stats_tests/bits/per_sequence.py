"""What the tests of SP 800-22 have in common: they cut the sample into sequences of n bits and count within each.

A test turns one sequence into integers (`observe`) and judges the integers summed over all sequences (`judge`). For one
sequence that is the test as SP 800-22 describes it; for several it is the same statistic on all of them together, whose
null distribution is as well known, while a second level on P-values adds up what the first is off by. Where sequences
that err in opposite directions would make an even sum, `EachSequence` looks at each by itself as well. `nist-compat`
has the second level of the publication instead (`SecondLevel`).
"""

import math
from collections.abc import Mapping
from collections.abc import Sequence as Row
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stats_tests.bits.sequence import Sequence
from stats_tests.nulls import log_chi_square_lower, log_chi_square_tail
from stats_tests.result import Category, Result, not_applicable
from stats_tests.windows import Counts, Statistic

STS: Final = "NIST SP 800-22 rev. 1a"
UNJUDGED: Final = "not judged"
"""The null distribution of a test that did not apply."""
UNIT: Final = 1 << 24
"""Fixed-point one. A sum of logarithms is kept as an integer in this unit, so that its order cannot matter."""
WHOLE: Final = ("",)
"""The parts of a test that has one result."""
IMPOSSIBLE: Final = 1 << 20
"""Cap, in nats, on what one sequence adds to a sum of -ln p; more says no more, and sums stay within 64 bits."""


class SequenceTest(Protocol):
    """One test on sequences of a fixed length."""

    @property
    def id(self) -> str:
        """The catalogue id."""

    @property
    def parts(self) -> tuple[str, ...]:
        """What follows the id in the names of the results, in their order."""

    @property
    def cells(self) -> int:
        """How many integers `observe` returns."""

    def observe(self, sequence: Sequence) -> Counts:
        """Count in one sequence."""

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge counts summed over at least one sequence."""


def judge_one(test: SequenceTest, sequence: Sequence) -> tuple[Result, ...]:
    """Return what the test says about one sequence alone."""
    return test.judge(test.observe(sequence), 1)


def whole_sequences(test: SequenceTest, bits: int) -> Statistic:
    """Return the test as counts over the sample's consecutive sequences of `bits` bits, a multiple of eight."""
    octets = bits // 8

    def observe(chunk: NDArray[np.uint8]) -> Counts:
        counts = np.zeros(test.cells, dtype=np.int64)
        for row in chunk.reshape(-1, octets):
            counts += test.observe(Sequence.packed(row))
        return counts

    def judge(counts: Counts, sequences: int) -> tuple[Result, ...]:
        if not sequences:
            return (not_applicable(test.id, UNJUDGED, f"no whole sequence of {bits} bits"),)
        return test.judge(counts, sequences)

    return Statistic(cells=test.cells, observe=observe, judge=judge, span=octets, step=octets)


def chi_square(
    test: str,
    statistic: float,
    freedom: float,
    details: Mapping[str, int | float],
    categories: tuple[Category, ...] = (),
) -> Result:
    """Return the result of a statistic that is chi-square under the null distribution."""
    return Result(
        test=test,
        null=f"chi-square, {freedom:.10g} degrees of freedom",
        statistic=statistic,
        log_p=log_chi_square_tail(statistic, freedom),
        log_p_low=log_chi_square_lower(statistic, freedom),
        details=details,
        categories=categories,
    )


def goodness_of_fit(
    test: str, observed: Counts, probabilities: Row[float], labels: Row[str], details: Mapping[str, int | float]
) -> Result:
    """Return Pearson's chi-square result for category counts under fully known probabilities, no cells joined."""
    expected = int(observed.sum()) * np.array(probabilities)
    categories = tuple(
        Category(label, int(count), float(mean)) for label, count, mean in zip(labels, observed, expected, strict=True)
    )
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square(test, statistic, len(labels) - 1, details, categories)


def fisher_cell(log_p: float) -> int:
    """Return -ln p of one sequence in units of `UNIT`, to be summed over sequences."""
    return round(min(-log_p, IMPOSSIBLE) * UNIT)


def fisher_log_p(cell: int, sequences: int) -> float:
    """Return ln of Fisher's combined P-value: twice the sum of -ln p is chi-square with two degrees each.

    For one sequence this is its own P-value. Discrete P-values make it conservative.
    """
    return log_chi_square_tail(2 * cell / UNIT, 2 * sequences)


class EachSequence:
    """A test of one sum, and for several sequences a second result: do they err, one this way, one that way?

    The sequences' own P-values are combined by Fisher's method. Only for tests whose P-values are exact or nearly so.
    """

    PART = "/each-sequence"

    def __init__(self, test: SequenceTest) -> None:
        """Wrap a test with one result."""
        assert test.parts == WHOLE, "one result a sequence"
        self._test = test
        self.id, self.parts = test.id, test.parts
        self.cells = test.cells + 1

    def observe(self, sequence: Sequence) -> Counts:
        """Count in one sequence, and note its P-value."""
        counts = self._test.observe(sequence)
        (result,) = self._test.judge(counts, 1)
        assert result.log_p is not None, "a test of one sum always applies"
        return np.append(counts, fisher_cell(result.log_p))

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the sum, and if there are several sequences their P-values."""
        results, cell = self._test.judge(counts[:-1], sequences), int(counts[-1])
        if sequences == 1:
            return results
        return (
            *results,
            Result(
                test=self.id + self.PART,
                null=f"chi-square, {2 * sequences} degrees of freedom (Fisher's method)",
                statistic=2 * cell / UNIT,
                log_p=fisher_log_p(cell, sequences),
                details={"sequences": sequences},
            ),
        )


class SecondLevel:
    """A test with the second level of SP 800-22, section 4.2, for `nist-compat`.

    One sequence: its own P-values. From `UNIFORMITY_FROM` sequences on: the chi-square of ten equal bins of P-values.
    Fewer: the binomial tail of the number of P-values at or above 0.01. Two are not judged: both fall below 0.01 once
    in 10,000 times, too often to count among so many tests, so even zeros alone would pass. Sequences to which the
    test does not apply are left out.
    """

    ALPHA = 0.01
    BINS = 10
    UNIFORMITY_FROM = 55
    _PER_PART = BINS + 2  # deciles, passes, sequences to which the part applied

    def __init__(self, test: SequenceTest) -> None:
        """Wrap a test."""
        self._test = test
        self.id, self.parts = test.id, test.parts
        self.cells = test.cells + len(test.parts) * self._PER_PART

    def observe(self, sequence: Sequence) -> Counts:
        """Count in one sequence, and sort its P-values into bins."""
        counts = self._test.observe(sequence)
        parts = {result.test: result for result in self._test.judge(counts, 1)}
        table = np.zeros((len(self.parts), self._PER_PART), dtype=np.int64)
        for row, part in zip(table, self.parts, strict=True):
            result = parts.get(self.id + part)
            if result is None or result.p_value is None:
                continue
            row[min(int(result.p_value * self.BINS), self.BINS - 1)] += 1
            row[self.BINS] += result.p_value >= self.ALPHA
            row[self.BINS + 1] += 1
        return np.concatenate([counts, table.reshape(-1)])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge one sequence by itself, several by their P-values."""
        if sequences == 1:
            return self._test.judge(counts[: self._test.cells], 1)
        table = counts[self._test.cells :].reshape(len(self.parts), self._PER_PART)
        return tuple(self._judge_part(self.id + part, row) for part, row in zip(self.parts, table, strict=True))

    def _judge_part(self, test: str, row: Counts) -> Result:
        bins, passed, sequences = row[: self.BINS], int(row[self.BINS]), int(row[self.BINS + 1])
        if not sequences:
            return not_applicable(test, UNJUDGED, "applies to none of the sequences")
        details = {"sequences": sequences, "passed": passed, "proportion": passed / sequences}
        if sequences == 2:
            return not_applicable(test, UNJUDGED, "two sequences show nothing: give one, or three and more", details)
        if sequences < self.UNIFORMITY_FROM:
            null = f"binomial, {sequences} sequences, {1 - self.ALPHA} at or above {self.ALPHA}"
            log_p = math.log(special.bdtr(passed, sequences, 1 - self.ALPHA))
            return Result(test=test, null=null, statistic=passed, log_p=min(0.0, log_p), details=details)
        labels = [f"{k / self.BINS:.1f}-{(k + 1) / self.BINS:.1f}" for k in range(self.BINS)]
        return goodness_of_fit(test, bins, [1 / self.BINS] * self.BINS, labels, details)
