"""SP 800-22, 2.9 Maurer's Universal Statistical."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from stats_tests.bits.per_sequence import UNIT, WHOLE
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result
from stats_tests.windows import Counts

# SP 800-22 2.9.7: sequences from so many bits on are cut into blocks of L bits, beginning with L = 6.
SHORTEST_BLOCK: Final = 6
FROM_BITS: Final = (
    387_840, 904_960, 2_068_480, 4_654_080, 10_342_400, 22_753_280, 49_643_520, 107_560_960, 231_669_760, 496_435_200,
    1_059_061_760,
)  # fmt: skip
# SP 800-22 2.9.4: mean and variance of log2 of the distance, for L = 6 .. 16.
NIST_MOMENTS: Final = (
    (5.2177052, 2.954), (6.1962507, 3.125), (7.1836656, 3.238), (8.1764248, 3.311), (9.1723243, 3.356),
    (10.170032, 3.384), (11.168765, 3.401), (12.168070, 3.410), (13.167693, 3.416), (14.167488, 3.419),
    (15.167379, 3.421),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Universal:
    """Are equal blocks as far apart as they should be?

    f is the mean, over K blocks of L bits, of log2 of the distance back to the last equal block; the first 10 2^L
    blocks only fill the table. `nist-compat` takes Maurer's approximate factor c(L, K) for its deviation, which is too
    small; else the exact variance (`distance_moments`).
    """

    n: int
    mode: Mode
    block: int = 0
    first: int = 0
    published: tuple[tuple[float, float], ...] = NIST_MOMENTS

    id: ClassVar = "bits.sp800-22.universal"
    parts: ClassVar = WHOLE
    cells: ClassVar = 1

    @property
    def block_bits(self) -> int:
        """L: as given, or as the sequence's length asks for; n must be at least 387,840 then."""
        return self.block or SHORTEST_BLOCK - 1 + sum(self.n >= bits for bits in FROM_BITS)

    @property
    def first_blocks(self) -> int:
        """Q: as given, or 10 2^L."""
        return self.first or 10 << self.block_bits

    @property
    def tested_blocks(self) -> int:
        """K."""
        return self.n // self.block_bits - self.first_blocks

    def observe(self, sequence: Sequence) -> Counts:
        """Sum log2 of the distances, in fixed point."""
        length = self.block_bits
        blocks = len(sequence) // length
        values = sequence.windows(length)[: blocks * length : length]
        return np.array([_log_table(blocks)[distances_back(values, self.first_blocks)].sum()])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the mean of the logarithms."""
        length, tested = self.block_bits, self.tested_blocks
        observed = int(counts[0]) / UNIT / tested / sequences
        if self.mode is Mode.NIST_COMPAT:
            mean, of_one = self.published[length - SHORTEST_BLOCK]
            factor = 0.7 - 0.8 / length + (4 + 32 / length) * tested ** (-3 / length) / 15
            variance = factor**2 * of_one / tested
        else:
            mean, variance = distance_moments(length, tested)
        z = (observed - mean) / math.sqrt(variance / sequences)
        return (
            Result(
                test=self.id,
                null=f"normal, mean {mean:.8g}, variance {variance / sequences:.6g}",
                statistic=observed,
                log_p=log_two_sided_normal(z),
                details={"block_bits": length, "first_blocks": self.first_blocks, "tested_blocks": tested},
            ),
        )


def distances_back(values: NDArray[np.uint16], first: int) -> NDArray[np.int64]:
    """Return, in any order, how far the last equal value lies behind each value but the `first` ones.

    For a value that was not seen before it is the distance to the place before the first.
    """
    # A stable sort brings equal values side by side, in order of place.
    order = np.argsort(values, kind="stable")
    distances = order + 1
    again = values[order[1:]] == values[order[:-1]]
    distances[1:][again] = np.diff(order)[again]
    return distances[order >= first]


@cache
def _log_table(longest: int) -> Counts:
    """Return log2 of 0 (unused), 1, .., `longest` in fixed point."""
    logs = np.log2(np.maximum(np.arange(longest + 1), 1))
    table: Counts = np.rint(logs * UNIT).astype(np.int64)
    return table


@cache
def distance_moments(
    length: int, tested: int, weight: Callable[[NDArray[np.int64]], NDArray[np.float64]] = np.log2
) -> tuple[float, float]:
    """Return the exact mean of f and its exact variance over `tested` blocks, after an endless filling of the table.

    f is the mean of a `weight` of the distances: of their logarithm, or Coron's.

    A block's distance A is geometric with p = 2^-L. Two distances k blocks apart depend on each other only if the
    second reaches further back than the first block, k + r with r >= 1; then with q = 1 - p and s = 1 - 2p

        P(A_n = i, A_(n+k) = k + r) = q^k g(i, r),   g = p^2 s^(min(i, r) - 1) q^(|i - r| - 1), and 0 for i = r,

    because the two blocks differ. Coron and Naccache (1998) give this variance as a fitted table.
    """
    p = 2.0**-length
    q, s = 1 - p, 1 - 2 * p
    # Terms beyond weigh less than e^-40.
    reach = np.arange(1, 40 << length)
    logs = weight(reach)
    geometric = p * q ** (reach - 1.0)
    mean = float((geometric * logs).sum())
    variance = float((geometric * logs**2).sum()) - mean**2
    # h(r) = sum over i of log2(i) (g(i, r) - product of the marginal probabilities).
    later = _fading_sums(logs[::-1], q)[::-1]  # sum over i >= r of log2(i) q^(i - r)
    farther = np.append(later[1:], 0.0) * s ** (reach - 1.0)
    nearer = np.append(0.0, _fading_sums(logs * s ** (reach - 1.0), q)[:-1])
    h = p**2 * (farther + nearer) - mean * geometric
    # For each k the sum over r of log2(k + r) h(r), a correlation.
    size = fft.next_fast_len(3 * reach.size, real=True)
    long_logs = np.append(logs, weight(reach + reach[-1]))
    products = fft.rfft(long_logs, size) * fft.rfft(h[::-1], size)
    reach_sum = fft.irfft(products, size)[reach.size : 2 * reach.size]
    lags = reach[: tested - 1]
    covariance = (reach_sum * q**reach)[: lags.size]
    shared = 2 * float((covariance * (tested - lags)).sum()) / tested
    return mean, (variance + shared) / tested


def _fading_sums(terms: NDArray[np.float64], fade: float) -> NDArray[np.float64]:
    """Return y(i) = terms(i) + fade y(i - 1)."""
    sums: Iterable[float] = accumulate(terms.tolist(), lambda total, term: fade * total + term)
    return np.array(list(sums))
