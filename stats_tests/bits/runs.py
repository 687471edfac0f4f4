"""SP 800-22, 2.3 Runs and 2.4 Longest Run of Ones in a Block."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

import numpy as np

from stats_tests.bits import tails
from stats_tests.bits.per_sequence import WHOLE, goodness_of_fit
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result
from stats_tests.windows import Counts


@dataclass(frozen=True, slots=True)
class Runs:
    """Do zeros and ones alternate as often as they should?

    Under the null distribution each of the n - 1 neighbouring pairs differs with probability 1/2, independently of all
    others, so the number of changes is binomial, with no condition on the number of ones. `nist-compat` takes the
    publication's normal approximation given the number of ones, and P = 0 where the prerequisite on it fails.
    """

    n: int
    mode: Mode

    id: ClassVar = "bits.sp800-22.runs"
    parts: ClassVar = WHOLE
    cells: ClassVar = 2

    def observe(self, sequence: Sequence) -> Counts:
        """Count the ones, and the places where neighbouring bits differ."""
        return np.array([sequence.ones, np.count_nonzero(sequence.bits[1:] != sequence.bits[:-1])])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the number of changes."""
        ones, changes = map(int, counts)
        if self.mode is Mode.NIST_COMPAT:
            assert sequences == 1, "NIST's Runs test is conditional on the ones of one sequence"
            return (self._as_published(ones, changes),)
        pairs = (self.n - 1) * sequences
        return (
            Result(
                test=self.id,
                null=f"binomial, {pairs} trials, 1/2",
                statistic=abs(2 * changes - pairs) / math.sqrt(pairs),
                log_p=tails.binomial_two_sided(changes, pairs),
                details={"pairs": pairs, "changes": changes},
            ),
        )

    def _as_published(self, ones: int, changes: int) -> Result:
        runs, share = changes + 1, ones / self.n
        details = {"ones": ones, "runs": runs}
        if abs(share - 0.5) > 2 / math.sqrt(self.n):
            null = "normal; the share of ones is too far from 1/2, which SP 800-22 counts as P = 0"
            return Result(test=self.id, null=null, statistic=runs, log_p=-math.inf, details=details)
        product = 2 * share * (1 - share)
        z = (runs - self.n * product) / (product * math.sqrt(self.n))
        return Result(test=self.id, null="normal", statistic=abs(z), log_p=log_two_sided_normal(z), details=details)


@dataclass(frozen=True, slots=True)
class RunTable:
    """How the longest-run test cuts a sequence: block length, the categories' bounds, and NIST's probabilities."""

    from_bits: int
    block: int
    shortest: int
    longest: int
    published: tuple[float, ...]


# SP 800-22 2.4.4 and 3.4 as NIST's code has them. The row for 10,000 bits is off in the third digit.
RUN_TABLES: Final = (
    RunTable(128, 8, 1, 4, (0.21484375, 0.3671875, 0.23046875, 0.1875)),
    RunTable(6272, 128, 4, 9, (0.1174035788, 0.242955959, 0.249363483, 0.17517706, 0.102701071, 0.112398847)),
    RunTable(750_000, 10_000, 10, 16, (0.0882, 0.2092, 0.2483, 0.1933, 0.1208, 0.0675, 0.0727)),
)


@dataclass(frozen=True, slots=True)
class LongestRun:
    """Is the longest run of ones in a block as long as it should be?"""

    n: int
    mode: Mode
    tables: tuple[RunTable, ...] = RUN_TABLES

    id: ClassVar = "bits.sp800-22.longest-run"
    parts: ClassVar = WHOLE

    @property
    def table(self) -> RunTable:
        """The row for this length of sequence; n must be at least 128."""
        return next(table for table in reversed(self.tables) if self.n >= table.from_bits)

    @property
    def cells(self) -> int:
        """One count for each category."""
        return len(self.table.published)

    def observe(self, sequence: Sequence) -> Counts:
        """Count the blocks by their longest run, the ends of the scale taken together."""
        table = self.table
        runs = sequence.blocks(table.block)
        longest = np.zeros(len(runs), dtype=np.int64)
        # After k rounds a one stands where a run of k + 1 ones begins.
        for _ in range(table.longest):
            longest += runs.any(axis=1)
            runs = runs[:, :-1] & runs[:, 1:]
        return np.bincount(np.maximum(longest, table.shortest) - table.shortest, minlength=self.cells)

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the counts of blocks."""
        table = self.table
        exact = longest_run_probabilities(table.block, table.shortest, table.longest)
        probabilities = table.published if self.mode is Mode.NIST_COMPAT else exact
        labels = [str(k) for k in range(table.shortest, table.longest + 1)]
        labels[0], labels[-1] = f"<={labels[0]}", f">={labels[-1]}"
        details = {"sequences": sequences, "block_bits": table.block, "blocks": int(counts.sum())}
        return (goodness_of_fit(self.id, counts, probabilities, labels, details),)


@cache
def longest_run_probabilities(block: int, shortest: int, longest: int) -> tuple[float, ...]:
    """Return P(longest run <= shortest), P(= shortest + 1), .., P(>= longest) in a block of fair bits.

    With p(m) the probability that m bits hold no run of k + 1 ones: p(m) = p(m-1) - p(m-k-2) / 2^(k+2), as a first such
    run that ends at m is preceded by a zero and by m-k-2 bits without one.
    """
    at_most = []
    for k in range(shortest, longest):
        without = [1.0] * (k + 1) + [1 - 0.5 ** (k + 1)]
        for m in range(k + 2, block + 1):
            without.append(without[m - 1] - without[m - k - 2] * 0.5 ** (k + 2))
        at_most.append(without[block])
    return tuple(np.diff([0.0, *at_most, 1.0]).tolist())
