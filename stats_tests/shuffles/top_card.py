"""Tests of numbers, on the cards that lie on top of successive decks: independent and uniform on 0..n-1."""

from typing import Final

from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.numbers import TESTS
from stats_tests.numbers.number_test import NumberTest
from stats_tests.shuffles.deck import Decks, tally_type
from stats_tests.windows import Counts, Statistic, WindowCounts

NAMES: Final = (
    "gaps",
    "poker",
    "coupon-collector",
    "permutation",
    "order-statistics",
    "runs-up",
    "runs",
    "serial-correlation",
)


def _of_top_cards(numbers: Statistic) -> Statistic:
    def observe(decks: Decks) -> Counts:
        return numbers.observe(decks[:, 0].astype("uint64"))

    return Statistic(cells=numbers.cells, observe=observe, judge=numbers.judge, span=numbers.span, step=numbers.step)


def _entry(test: NumberTest) -> Entry:
    entry_id = f"shuffles.top-card-{test.name}"

    def make(setting: Setting, start: int) -> WindowCounts:
        n = setting.size
        statistic = _of_top_cards(test.statistic(entry_id, n))
        return WindowCounts(statistic, start, tally_type(n - 1), width=n)

    return Entry(
        id=entry_id,
        title=f"Top cards: {test.title[0].lower()}{test.title[1:]}",
        clauses=test.clauses,
        kind=Kind.SHUFFLES,
        null=test.null,
        source=test.source,
        minimal=lambda setting: test.minimal(setting.size),
        make=make,
        parameters=test.parameters,
        objection=lambda setting: test.objection(setting.size),
    )


ENTRIES: Final = tuple(_entry(test) for test in TESTS if test.name in NAMES)
