"""SP 800-22, 2.1 Frequency (Monobit) and 2.2 Frequency within a Block."""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from stats_tests.bits import tails
from stats_tests.bits.per_sequence import WHOLE, chi_square
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result
from stats_tests.windows import Counts

BLOCK: Final = 128


@dataclass(frozen=True, slots=True)
class Frequency:
    """Are there as many ones as zeros?

    The null distribution of the number of ones is binomial; `nist-compat` takes the normal approximation.
    """

    n: int
    mode: Mode

    id: ClassVar = "bits.sp800-22.frequency"
    parts: ClassVar = WHOLE
    cells: ClassVar = 1

    def observe(self, sequence: Sequence) -> Counts:
        """Count the ones."""
        return np.array([sequence.ones])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the number of ones among all bits."""
        ones, bits = int(counts[0]), self.n * sequences
        excess = abs(2 * ones - bits) / math.sqrt(bits)
        if self.mode is Mode.NIST_COMPAT:
            null, log_p = "normal", log_two_sided_normal(excess)
        else:
            null, log_p = f"binomial, {bits} trials, 1/2", tails.binomial_two_sided(ones, bits)
        details = {"bits": bits, "ones": ones}
        return (Result(test=self.id, null=null, statistic=excess, log_p=log_p, details=details),)


@dataclass(frozen=True, slots=True)
class BlockFrequency:
    """Are there as many ones as zeros in each block of M bits?

    X = sum (2 ones - M)^2 / M over the blocks. Its exact mean is the number of blocks N and its exact variance
    2 N (1 - 1/M); X / (1 - 1/M) is taken as chi-square with N / (1 - 1/M) degrees, which has
    these two moments. NIST takes X as chi-square with N degrees.
    """

    n: int
    mode: Mode
    block: int = BLOCK

    id: ClassVar = "bits.sp800-22.block-frequency"
    parts: ClassVar = WHOLE
    cells: ClassVar = 1

    def observe(self, sequence: Sequence) -> Counts:
        """Sum the squared excess of ones over zeros in each block."""
        blocks = sequence.blocks(self.block)
        ones = np.bitwise_count(np.packbits(blocks, axis=1)).sum(axis=1, dtype=np.int64)
        return np.array([((2 * ones - self.block) ** 2).sum()])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the sum of squares over all blocks."""
        blocks = self.n // self.block * sequences
        scale = 1.0 if self.mode is Mode.NIST_COMPAT else 1 - 1 / self.block
        statistic = int(counts[0]) / self.block / scale
        return (chi_square(self.id, statistic, blocks / scale, {"blocks": blocks, "block_bits": self.block}),)
