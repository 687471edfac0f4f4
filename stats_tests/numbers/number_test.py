"""What a test of independent numbers of a range is, before it is applied to a stream of numbers or of top cards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from stats_tests.windows import Statistic

KNUTH: Final = "Knuth, The Art of Computer Programming, vol. 2, 3.3.2"


def suits_every_range(_m: int) -> None:
    """Return no objection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTest:
    """A test of numbers that are independent and uniform on 0..m-1.

    Attributes:
        name: of the test, in lower case with hyphens.
        title: one line for a person.
        clauses: ids of the requirements that ask for it.
        null: the null distribution and how exact it is.
        source: where it comes from.
        minimal: numbers needed, by range.
        statistic: the statistic under an id, for a range.
        primary: counts in the verdict.
        objection: why the test does not suit a range, or None.
    """

    name: str
    title: str
    clauses: tuple[str, ...]
    null: str
    source: str
    minimal: Callable[[int], int]
    statistic: Callable[[str, int], Statistic]
    parameters: Mapping[str, int | float | str] = field(default_factory=dict)
    objection: Callable[[int], str | None] = suits_every_range
    primary: bool = True
