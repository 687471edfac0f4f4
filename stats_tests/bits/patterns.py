"""SP 800-22, 2.11 Serial and 2.12 Approximate Entropy: the frequencies of all overlapping words of m bits.

The sequence is closed to a ring, so the counts of shorter words are sums of those of longer ones.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from stats_tests.bits.per_sequence import UNIT, WHOLE, chi_square
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.result import Result
from stats_tests.windows import Counts

SERIAL_BITS: Final = 16
ENTROPY_BITS: Final = 10


def word_counts(sequence: Sequence, length: int) -> Counts:
    """Return how often each word of `length` bits (0 .. 16) occurs in the ring, in ascending order of its value."""
    if length == 0:
        return np.array([len(sequence)])
    return np.bincount(sequence.windows(length), minlength=1 << length)


def _one_bit_less(counts: Counts) -> Counts:
    """Return the counts of the words without their last bit."""
    shorter: Counts = counts.reshape(-1, 2).sum(axis=1)
    return shorter


@dataclass(frozen=True, slots=True)
class Serial:
    """Are all words of m bits equally frequent? The same in both modes.

    psi^2_m = 2^m / n sum count^2 - n; its first difference over m is chi-square with 2^(m-1) degrees, its second with
    2^(m-2), and both means are exact.
    """

    n: int
    mode: Mode
    length: int = SERIAL_BITS

    id: ClassVar = "bits.sp800-22.serial"
    cells: ClassVar = 3
    parts: ClassVar = ("/first-difference", "/second-difference")

    def observe(self, sequence: Sequence) -> Counts:
        """Sum the squares of the counts of words of m, m - 1 and m - 2 bits."""
        counts = word_counts(sequence, self.length)
        shorter = _one_bit_less(counts)
        shortest = _one_bit_less(shorter)
        return np.array([(table**2).sum() for table in (counts, shorter, shortest)])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the differences of psi^2."""
        m = self.length
        # psi^2_0 is 0 by definition, and so it comes out: n^2 / n - n.
        lengths = (m, m - 1, m - 2)
        psi = [int(total) * 2**k / self.n - self.n * sequences for k, total in zip(lengths, counts, strict=True)]
        first, second = psi[0] - psi[1], psi[0] - 2 * psi[1] + psi[2]
        return tuple(
            chi_square(self.id + part, statistic, freedom, {"word_bits": m})
            for part, statistic, freedom in zip(
                self.parts, (first, second), (sequences << m - 1, sequences << m - 2), strict=True
            )
        )


@dataclass(frozen=True, slots=True)
class ApproximateEntropy:
    """Does a word of m bits leave the next bit open? The same in both modes.

    X = 2 n (ln 2 - ApEn(m)) is the likelihood-ratio form of Serial's first difference for m + 1 bits, chi-square with
    2^m degrees.
    """

    n: int
    mode: Mode
    length: int = ENTROPY_BITS

    id: ClassVar = "bits.sp800-22.approximate-entropy"
    parts: ClassVar = WHOLE
    cells: ClassVar = 2

    # A sequence of nothing but zeros comes to n m ln 2; more than this says no more and might overflow a sum.
    _most: ClassVar = UNIT << 18

    def observe(self, sequence: Sequence) -> Counts:
        """Sum count x ln(count / expected) over the words of m and of m + 1 bits, in fixed point."""
        counts = word_counts(sequence, self.length + 1)
        return np.array([self._divergence(_one_bit_less(counts)), self._divergence(counts)])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge what the longer words diverge more than the shorter."""
        shorter, longer = (int(total) / UNIT for total in counts)
        statistic, freedom = 2 * (longer - shorter), sequences << self.length
        return (chi_square(self.id, statistic, freedom, {"word_bits": self.length}),)

    def _divergence(self, counts: Counts) -> int:
        seen = counts[counts > 0]
        return min(round(float((seen * np.log(seen * (counts.size / self.n))).sum()) * UNIT), self._most)
