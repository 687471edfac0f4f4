"""What every test is to the runner: integer counts over one contiguous segment of the sample.

An accumulator starts empty at an absolute place in the sample, takes the items that follow and can be joined with
the accumulator of the segment that begins where its own ends. Joining is associative, so every split of the sample,
every tree of merges and every number of workers ends in the same state, byte for byte. Floating point appears in
`results` only.
"""

from collections.abc import Mapping
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from stats_tests.result import Result

Items = NDArray[Any]
"""A chunk of the sample.

BITS: one-dimensional ``uint8``, eight bits a byte, most significant bit first. NUMBERS: one-dimensional ``uint64``,
each below the range m. SHUFFLES: two-dimensional, one deck a row, ``uint8`` for n <= 256, else ``uint16``.
The source has validated them: numbers are in range and every row is a permutation of 0..n-1.
"""

StateValue = int | str | list[int]
State = Mapping[str, StateValue]
"""Integers, lists of integers and hexadecimal strings: what canonical JSON writes in one way only."""


class Accumulator(Protocol):
    """Counts of one test over one segment of the sample."""

    def update(self, items: Items) -> None:
        """Take the items that follow. Any chunk length, also none."""

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends; `following` is used up.

        Raises:
            ValueError: the segments do not adjoin.
        """

    def results(self) -> tuple[Result, ...]:
        """Judge the counts. Pure: may be called at any time and changes nothing."""

    def to_state(self) -> dict[str, StateValue]:
        """Return the counts; equal segments give equal states, however they were split and merged."""

    def load(self, state: State) -> None:
        """Replace the counts by those of `state`, which an accumulator of the same entry and setting wrote.

        Raises:
            ValueError: the state is not one of this test's.
        """
