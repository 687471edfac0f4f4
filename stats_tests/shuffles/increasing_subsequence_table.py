"""Maker of `increasing_subsequence.json`: how many permutations of n have a longest increasing subsequence of k.

By Schensted's theorem that number is the sum of squares of the numbers of standard Young tableaux over the shapes of
n cells whose first row has length k. The numbers of tableaux follow from those of n - 1 cells by adding a cell.

    python -m stats_tests.shuffles.increasing_subsequence_table > stats_tests/shuffles/increasing_subsequence.json
"""

import json
import sys
from collections.abc import Iterator

LARGEST = 52


def rows(largest: int = LARGEST) -> Iterator[list[int]]:
    """Yield, for n = 1, 2 .. largest, the counts of permutations by length k = 1..n; row n sums to n!."""
    tableaux: dict[tuple[int, ...], int] = {(1,): 1}
    for n in range(1, largest + 1):
        counts = [0] * n
        for shape, number in tableaux.items():
            counts[shape[0] - 1] += number * number
        yield counts
        tableaux = _with_one_more_cell(tableaux)


def _with_one_more_cell(tableaux: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    grown: dict[tuple[int, ...], int] = {}
    for shape, number in tableaux.items():
        for row, length in enumerate(shape):
            if row == 0 or shape[row - 1] > length:
                larger = (*shape[:row], length + 1, *shape[row + 1 :])
                grown[larger] = grown.get(larger, 0) + number
        larger = (*shape, 1)
        grown[larger] = grown.get(larger, 0) + number
    return grown


def main() -> None:
    """Write the table. Numbers are decimal strings: most are beyond what JSON readers hold exactly."""
    table = {
        "comment": "row n - 1, entry k - 1: permutations of n whose longest increasing subsequence has length k",
        "permutations": [[str(count) for count in row] for row in rows()],
    }
    json.dump(table, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
