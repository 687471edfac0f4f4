"""A range cut into few cells, and how many different cells some draws hit."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stats_tests.nulls import Probabilities


@dataclass(frozen=True, slots=True)
class Cells:
    """The range 0..m-1 cut into stretches of equal width, the last of which may be narrower.

    Attributes:
        m: the range.
        width: numbers in each cell but the last.
    """

    m: int
    width: int

    @classmethod
    def at_most(cls, most: int, m: int) -> "Cells":
        """Cut the range into as many cells as fit, at most `most`; one number a cell if m is not larger."""
        return cls(m, -(-m // most))

    @property
    def count(self) -> int:
        """The number of cells."""
        return -(-self.m // self.width)

    @property
    def probabilities(self) -> Probabilities:
        """The exact probability of each cell."""
        p = np.full(self.count, self.width / self.m)
        p[-1] = (self.m - self.width * (self.count - 1)) / self.m
        return p

    def of(self, numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return each number's cell."""
        cells = numbers if self.width == 1 else numbers // np.uint64(self.width)
        return cells.astype(np.int64)

    @property
    def labels(self) -> list[str]:
        """Return the cells' names: the numbers that lie in them."""
        firsts = range(0, self.m, self.width)
        if self.width == 1:
            return [str(first) for first in firsts]
        return [f"{first}..{min(self.m, first + self.width) - 1}" for first in firsts]


@cache
def distinct_after(draws: int, cells: Cells) -> NDArray[np.float64]:
    """Return P(r different cells hit by t draws) as a table with a row for each t = 0..draws and a column for each r.

    A Markov chain on (how many of the equally wide cells were hit, was the last cell hit); no subtraction, so it is
    as exact as the arithmetic. For equal cells it gives the Stirling numbers of the second kind (Knuth 3.3.2).
    """
    *equal, last = cells.probabilities.tolist()
    each = equal[0] if equal else 0.0
    hit = np.arange(len(equal) + 1)
    without, with_last = np.zeros(len(hit)), np.zeros(len(hit))
    without[0] = 1.0
    table = np.zeros((draws + 1, len(hit) + 1))
    table[0, 0] = 1.0
    for t in range(1, draws + 1):
        old_without, old_with = without, with_last
        without, with_last = old_without * hit * each, old_with * (hit * each + last) + old_without * last
        without[1:] += old_without[:-1] * (len(equal) - hit[:-1]) * each
        with_last[1:] += old_with[:-1] * (len(equal) - hit[:-1]) * each
        table[t, :-1] += without
        table[t, 1:] += with_last
    return table


def count_distinct(blocks: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many different values stand in each row."""
    ordered = np.sort(blocks, axis=1)
    different: NDArray[np.int64] = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + 1
    return different
