"""Tests of numbers that should be independent and uniform on a range 0..m-1."""

from typing import Final

import numpy as np

from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.numbers import blocks, frequency, succession
from stats_tests.numbers.number_test import NumberTest
from stats_tests.windows import WindowCounts

TESTS: Final = (*frequency.TESTS, *succession.TESTS, *blocks.TESTS)


def _entry(test: NumberTest) -> Entry:
    entry_id = f"numbers.{test.name}"

    def make(setting: Setting, start: int) -> WindowCounts:
        return WindowCounts(test.statistic(entry_id, setting.size), start, np.uint64)

    return Entry(
        id=entry_id,
        title=test.title,
        clauses=test.clauses,
        kind=Kind.NUMBERS,
        null=test.null,
        source=test.source,
        minimal=lambda setting: test.minimal(setting.size),
        make=make,
        parameters=test.parameters,
        primary=test.primary,
        objection=lambda setting: test.objection(setting.size),
    )


ENTRIES: Final = tuple(_entry(test) for test in TESTS)
