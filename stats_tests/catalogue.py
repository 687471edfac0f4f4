"""What the battery knows of a test before it has seen data: identity, clauses, null distribution, needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from stats_tests.accumulator import Accumulator


class Kind(StrEnum):
    """What the sample consists of."""

    BITS = "bits"
    NUMBERS = "numbers"
    SHUFFLES = "shuffles"


LARGEST: Final[Mapping[Kind, int]] = {Kind.NUMBERS: 2**53 - 1, Kind.SHUFFLES: 1020}
"""The largest range, and the largest deck."""


class Mode(StrEnum):
    """Which constants the SP 800-22 tests take."""

    CORRECTED = "corrected"
    """Exact constants; the default, and the only mode whose results may decide."""
    NIST_COMPAT = "nist-compat"
    """The constants of NIST's code, errors included, so that its published P-values are hit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The shape of a sample: all that a test must know of it besides the items.

    Attributes:
        kind: what the items are.
        size: NUMBERS: the range m, values are 0..m-1. SHUFFLES: the deck size n. BITS: bits in one sequence,
            a multiple of eight; tests that run on sequences cut the sample into sequences of this length.
        mode: constants of the SP 800-22 tests; of no effect elsewhere.
    """

    kind: Kind
    size: int
    mode: Mode = Mode.CORRECTED


def always(_setting: Setting) -> None:
    """Return no objection: the test applies to every setting of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One test of the catalogue.

    Attributes:
        id: stable name, ``kind.test`` in lower case with hyphens (``shuffles.fixed-points``).
        title: one line for a person.
        clauses: ids of the requirements (R01..R25, docs/certification.md) that ask for it.
        kind: the kind of sample it takes.
        null: the null distribution and how exact it is.
        source: where the null distribution comes from.
        minimal: items needed under a setting (bytes, numbers or decks); below, the result is not applicable.
        make: returns an empty accumulator for a setting, whose segment begins at an absolute item index.
        parameters: what was chosen, fixed in advance.
        primary: counts in the verdict; else exploratory, printed and not judged.
        objection: why the test does not apply under a setting, or None.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    kind: Kind
    null: str
    source: str
    minimal: Callable[[Setting], int]
    make: Callable[[Setting, int], Accumulator]
    parameters: Mapping[str, int | float | str] = field(default_factory=dict)
    primary: bool = True
    objection: Callable[[Setting], str | None] = always
