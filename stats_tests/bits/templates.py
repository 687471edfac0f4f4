"""SP 800-22, 2.7 Non-overlapping and 2.8 Overlapping Template Matching."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

import numpy as np

from stats_tests.bits.per_sequence import WHOLE, chi_square, goodness_of_fit
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.result import Result
from stats_tests.windows import Counts

TEMPLATE_BITS: Final = 9
BLOCKS: Final = 8
OVERLAPPING_BLOCK: Final = 1032
MOST_MATCHES: Final = 5


@cache
def aperiodic_templates(length: int) -> tuple[int, ...]:
    """Return the words of `length` bits of which no proper beginning is also an ending, in ascending order."""

    def overlaps_itself(word: int) -> bool:
        return any(word >> shift == word & (1 << length - shift) - 1 for shift in range(1, length))

    return tuple(word for word in range(1 << length) if not overlaps_itself(word))


@dataclass(frozen=True, slots=True)
class NonOverlapping:
    """Does any of the aperiodic words of m bits occur too often or too seldom?

    An aperiodic word cannot overlap itself, so its non-overlapping occurrences in a block are all its occurrences and
    one histogram of the block's m-bit windows serves all words. `nist-compat` takes the published variance, else the
    exact one. One result for each word; the results are dependent.
    """

    n: int
    mode: Mode
    length: int = TEMPLATE_BITS
    blocks: int = BLOCKS

    id: ClassVar = "bits.sp800-22.non-overlapping"

    @property
    def cells(self) -> int:
        """The sum and the sum of squares of the counts over the blocks, for each word."""
        return 2 * len(aperiodic_templates(self.length))

    @property
    def parts(self) -> tuple[str, ...]:
        """What follows the id in the results' names."""
        return tuple(f"/{word:0{self.length}b}" for word in aperiodic_templates(self.length))

    def observe(self, sequence: Sequence) -> Counts:
        """Count each word in each block."""
        size, words = self.n // self.blocks, 1 << self.length
        windows = sequence.windows(self.length)
        starts = [windows[k * size : (k + 1) * size - self.length + 1] for k in range(self.blocks)]
        matches = np.array([np.bincount(block, minlength=words) for block in starts])
        matches = matches[:, aperiodic_templates(self.length)]
        return np.concatenate([matches.sum(axis=0), (matches**2).sum(axis=0)])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the scatter of each word's counts about the mean."""
        m, size, blocks = self.length, self.n // self.blocks, self.blocks * sequences
        places, share = size - m + 1, 2.0**-m
        mean = places * share
        if self.mode is Mode.NIST_COMPAT:
            variance = size * (share - (2 * m - 1) * share**2)
        else:
            # Occurrences fewer than m places apart exclude each other, others are independent.
            variance = places * share - ((2 * m - 1) * places - m * (m - 1)) * share**2
        results = []
        for part, total, squares in zip(self.parts, *counts.reshape(2, -1).tolist(), strict=True):
            statistic = (squares - 2 * mean * total + blocks * mean**2) / variance
            details = {"matches": total, "expected": mean * blocks}
            results.append(chi_square(self.id + part, statistic, blocks, details))
        return tuple(results)


@dataclass(frozen=True, slots=True)
class Overlapping:
    """Do runs of m ones occur in as many blocks, as often, as they should?

    `nist-compat` takes the compound-Poisson approximation by which NIST's code overwrites the corrected table.
    """

    n: int
    mode: Mode
    length: int = TEMPLATE_BITS
    block: int = OVERLAPPING_BLOCK

    id: ClassVar = "bits.sp800-22.overlapping"
    parts: ClassVar = WHOLE
    cells: ClassVar = MOST_MATCHES + 1

    def observe(self, sequence: Sequence) -> Counts:
        """Count the blocks by their number of matches, five and more taken together."""
        blocks = len(sequence) // self.block
        match = sequence.windows(self.length)[: blocks * self.block] == (1 << self.length) - 1
        matches = np.count_nonzero(match.reshape(blocks, self.block)[:, : self.block - self.length + 1], axis=1)
        return np.bincount(np.minimum(matches, MOST_MATCHES), minlength=self.cells)

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the counts of blocks."""
        published = self.mode is Mode.NIST_COMPAT
        probabilities = (
            compound_poisson((self.block - self.length + 1) / 2.0 ** (self.length + 1))
            if published
            else overlapping_probabilities(self.length, self.block)
        )
        labels = [*map(str, range(MOST_MATCHES)), f">={MOST_MATCHES}"]
        details = {"sequences": sequences, "block_bits": self.block, "blocks": int(counts.sum())}
        return (goodness_of_fit(self.id, counts, probabilities, labels, details),)


def compound_poisson(eta: float) -> tuple[float, ...]:
    """Return P(0), .., P(4), P(>= 5) matches as NIST's code approximates them: Polya-Aeppli (SP 800-22, 3.8)."""
    probabilities = [math.exp(-eta)]
    for u in range(1, MOST_MATCHES):
        terms = (math.comb(u - 1, k - 1) * eta**k / math.factorial(k) for k in range(1, u + 1))
        probabilities.append(math.exp(-eta) * 2.0**-u * sum(terms))
    return (*probabilities, 1 - sum(probabilities))


@cache
def overlapping_probabilities(length: int, block: int) -> tuple[float, ...]:
    """Return the exact P(0), .., P(4), P(>= 5) overlapping occurrences of `length` ones in a block of fair bits.

    By the chain whose state is the run of ones that ends here (capped at `length`) and the matches so far (capped).
    """
    state = np.zeros((length + 1, MOST_MATCHES + 1))
    state[0, 0] = 1.0
    for _ in range(block):
        following = np.zeros_like(state)
        following[0] = state.sum(axis=0) / 2
        following[1:length] = state[: length - 1] / 2
        complete = (state[length - 1] + state[length]) / 2
        following[length, 1:] = complete[:-1]
        following[length, -1] += complete[-1]
        state = following
    return tuple(state.sum(axis=0).tolist())
