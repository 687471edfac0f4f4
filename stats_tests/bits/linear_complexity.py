"""SP 800-22, 2.10 Linear Complexity, and the linear complexity of one long sequence."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stats_tests.bits.per_sequence import WHOLE, goodness_of_fit
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.result import Result
from stats_tests.windows import Counts

BLOCK: Final = 500
# T = (-1)^M (L - mean) + 2/9 is sorted into <= -2.5, .. 1 wide .., > 2.5.
NIST_PROBABILITIES: Final = (0.01047, 0.03125, 0.125, 0.5, 0.25, 0.0625, 0.020833)
"""As NIST's code has them; the first should be 1/96 (they sum to 1.000053)."""
CATEGORIES: Final = len(NIST_PROBABILITIES)
LANES: Final = 2048
"""Blocks that are worked on together: enough for the cost of a call to fade, few enough for the second-level cache."""


@dataclass(frozen=True, slots=True)
class LinearComplexity:
    """Are the shortest linear-feedback registers of blocks of M bits as long as they should be?"""

    n: int
    mode: Mode
    block: int = BLOCK
    published: tuple[float, ...] = NIST_PROBABILITIES

    id: ClassVar = "bits.sp800-22.linear-complexity"
    parts: ClassVar = WHOLE
    cells: ClassVar = CATEGORIES

    def observe(self, sequence: Sequence) -> Counts:
        """Count the blocks by the deviation of their complexity from the mean."""
        lengths = linear_complexities(sequence.blocks(self.block))
        return np.bincount(_category(lengths, self.block), minlength=CATEGORIES)

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the counts of blocks."""
        exact = complexity_probabilities(self.block)
        probabilities = self.published if self.mode is Mode.NIST_COMPAT else exact
        labels = ["<=-2.5", "-2.5..-1.5", "-1.5..-0.5", "-0.5..0.5", "0.5..1.5", "1.5..2.5", ">2.5"]
        details = {"sequences": sequences, "block_bits": self.block, "blocks": int(counts.sum())}
        return (goodness_of_fit(self.id, counts, probabilities, labels, details),)


def _category(lengths: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    """Return the category of each complexity.

    The mean is M/2 + (9 + (-1)^(M+1))/36 but for a term of 2^-M, so T = (-1)^M (L - floor(M/2)) + 0 for even M, and for
    odd M (-1)(L - M/2 - 10/36) + 2/9 = (M + 1)/2 - L: always whole, and no category's bound is ever met.
    """
    deviation = lengths - block // 2 if block % 2 == 0 else (block + 1) // 2 - lengths
    return np.clip(deviation, -3, 3) + 3


def complexity_probabilities(block: int) -> tuple[float, ...]:
    """Return the categories' exact probabilities: 2^min(2M - 2L, 2L - 1) of the 2^M words have complexity L > 0."""
    lengths = np.arange(block + 1)
    exponents = np.minimum(2 * block - 2 * lengths, np.maximum(2 * lengths - 1, 0)) - float(block)
    return tuple(np.bincount(_category(lengths, block), weights=2.0**exponents, minlength=CATEGORIES).tolist())


def linear_complexity(bits: NDArray[np.uint8]) -> int:
    """Return the length of the shortest linear-feedback register that makes one (long) sequence.

    Berlekamp-Massey in the form that keeps, instead of the two connection polynomials, their products with the
    sequence: `ahead` is what the current register gets wrong from here on, `kept` the same for the register before its
    last lengthening. One step is one shift and at most one exclusive or of long integers.
    """
    n = len(bits)
    ahead = int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")
    kept = ahead << 1
    length = 0
    for step in range(n):
        if ahead & 1:
            if 2 * length <= step:
                length = step + 1 - length
                ahead, kept = ahead ^ kept, ahead
            else:
                ahead ^= kept
        ahead >>= 1
    return length


def linear_complexities(blocks: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the linear complexity of each row of bits: `linear_complexity` with 64 rows to the machine word."""
    return np.concatenate(
        [np.empty(0, dtype=np.int64), *(_complexities(blocks[k : k + LANES]) for k in range(0, len(blocks), LANES))]
    )


def _complexities(blocks: NDArray[np.uint8]) -> NDArray[np.int64]:
    rows, steps = blocks.shape
    ahead = np.zeros((steps, (rows + 63) // 64), dtype=np.uint64)
    ahead.view(np.uint8)[:, : (rows + 7) // 8] = np.packbits(blocks.T, axis=1, bitorder="little")
    kept = np.zeros_like(ahead)
    kept[1:] = ahead[:-1]
    scratch, correction = np.empty_like(ahead), np.empty_like(ahead)
    lengths = np.zeros(rows, dtype=np.int64)
    for step in range(steps):
        rest = steps - step
        # As with the long integers `ahead` moves on by one place a step and `kept` stays where it is.
        wrong, before = ahead[step:], kept[:rest]
        now = wrong[0].copy()
        may_lengthen = _to_lanes(2 * lengths <= step, now.size)
        longer = now & may_lengthen
        exchange = np.bitwise_xor(wrong, before, out=scratch[:rest])
        wrong ^= np.bitwise_and(before, now, out=correction[:rest])
        exchange &= longer
        before ^= exchange
        lengthened = np.unpackbits(longer.view(np.uint8), bitorder="little", count=rows).view(bool)
        lengths[lengthened] = step + 1 - lengths[lengthened]
    return lengths


def _to_lanes(flags: NDArray[np.bool_], words: int) -> NDArray[np.uint64]:
    lanes = np.zeros(words * 8, dtype=np.uint8)
    lanes[: (flags.size + 7) // 8] = np.packbits(flags, bitorder="little")
    return lanes.view(np.uint64)
