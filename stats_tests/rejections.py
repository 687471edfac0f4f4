"""How many words rejection sampling refused: a live monitor of uniformity that reveals nothing of any deck."""

import math
from functools import cache
from typing import Final, NoReturn

from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result, not_applicable

TEST: Final = "live.rejections"


def _counted_by_the_service(_setting: Setting, _start: int) -> NoReturn:
    raise AssertionError("the service counts refused words; no accumulator of items does")


ENTRY: Final = Entry(
    id=TEST,
    title="As many words refused by rejection sampling as unbiased scaling refuses",
    clauses=("R09", "R10", "R14"),
    kind=Kind.SHUFFLES,
    null="normal, exact mean and variance of a sum of geometric counts",
    source="acceptance chances of step 4 and of the word rule",
    minimal=lambda _setting: 1000,
    make=_counted_by_the_service,
)


@cache
def refused_of_item(kind: Kind, size: int) -> tuple[float, float]:
    """Return mean and variance of the words refused for one deck or number.

    A draw below m from words of b bits is accepted with chance a = (2^b - 2^b mod m) / 2^b; before it, geometrically
    many are refused: mean (1 - a) / a, variance (1 - a) / a^2. A deck draws once for each m = n, n-1 .. 2.
    """
    match kind:
        case Kind.BITS:
            return 0.0, 0.0
        case Kind.NUMBERS:
            bounds, bits = [size], 64
        case Kind.SHUFFLES:
            bounds, bits = list(range(2, size + 1)), 8 if size <= 256 else 16
    refused = [(2**bits % m) / 2**bits for m in bounds]
    return sum(r / (1 - r) for r in refused), sum(r / (1 - r) ** 2 for r in refused)


def judge_rejections(kind: Kind, size: int, items: int, refused: int) -> Result:
    """Compare the words refused with their exact mean and variance."""
    mean, variance = refused_of_item(kind, size)
    null = ENTRY.null
    if items * variance < 25:
        return not_applicable(TEST, null, "too few refusals are expected", {"refused": refused})
    z = (refused - items * mean) / math.sqrt(items * variance)
    return Result(
        test=TEST,
        null=null,
        statistic=z,
        log_p=log_two_sided_normal(z),
        details={"refused": refused, "expected": items * mean},
    )
