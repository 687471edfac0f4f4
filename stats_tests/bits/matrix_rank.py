"""SP 800-22, 2.5 Binary Matrix Rank, and the rank of large matrices."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stats_tests.bits.per_sequence import WHOLE, goodness_of_fit
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.result import Result
from stats_tests.windows import Counts

SIDE: Final = 32


@dataclass(frozen=True, slots=True)
class MatrixRank:
    """Are the rows of 32 x 32 matrices as often linearly dependent as they should be? The same in both modes."""

    n: int
    mode: Mode

    id: ClassVar = "bits.sp800-22.rank"
    parts: ClassVar = WHOLE
    cells: ClassVar = 3

    def observe(self, sequence: Sequence) -> Counts:
        """Count the matrices of full rank, of one less, and of less."""
        matrices = sequence.blocks(SIDE * SIDE)
        rows = np.packbits(matrices, axis=1).view(">u4").astype(np.uint32)
        deficiency = SIDE - ranks(rows)
        return np.bincount(np.minimum(deficiency, 2), minlength=3)

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the counts of matrices."""
        full, one_less = rank_probability(SIDE, 0), rank_probability(SIDE, 1)
        labels = [str(SIDE), str(SIDE - 1), f"<={SIDE - 2}"]
        probabilities = (full, one_less, 1 - full - one_less)
        details = {"sequences": sequences, "matrices": int(counts.sum())}
        return (goodness_of_fit(self.id, counts, probabilities, labels, details),)


def ranks(matrices: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Return the rank over GF(2) of each matrix; `matrices[i]` holds its rows, one unsigned integer each."""
    rows = matrices.T.copy()
    rank = np.zeros(rows.shape[1], dtype=np.int64)
    for place, row in enumerate(rows):
        # Its lowest one is the row's pivot and is cleared from all rows below. A row that is nil by now adds no rank.
        rank += row != 0
        pivot = row & (~row + row.dtype.type(1))
        below = rows[place + 1 :]
        below ^= np.where(below & pivot, row, row.dtype.type(0))
    return rank


def rank_of(rows: NDArray[np.uint64]) -> int:
    """Return the rank over GF(2) of one large matrix, a row of 64-bit words for each of its rows."""
    rows = rows.copy()
    rank = 0
    for place, row in enumerate(rows):
        words = np.flatnonzero(row)
        if not words.size:
            continue
        rank += 1
        word = words[0]
        pivot = row[word] & (~row[word] + np.uint64(1))
        below = rows[place + 1 :]
        below[(below[:, word] & pivot) != 0] ^= row
    return rank


def rank_probability(side: int, deficiency: int) -> float:
    """Return the probability that a square matrix of fair bits has rank `side - deficiency` (SP 800-22, 3.5)."""
    rank = side - deficiency
    probability = 2.0 ** -(deficiency * deficiency)
    for i in range(rank):
        probability *= (1 - 2.0 ** (i - side)) ** 2 / (1 - 2.0 ** (i - rank))
    return probability
