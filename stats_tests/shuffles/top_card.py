"""Tests of numbers, on the cards that lie on top of successive decks: independent and uniform on 0..n-1."""

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from stats_tests.catalogue import Entry, Kind
from stats_tests.numbers import TESTS
from stats_tests.numbers.number_test import NumberTest
from stats_tests.shuffles.deck import Decks, on_decks
from stats_tests.windows import Counts, Statistic

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


def _of_top_cards(number_test: NumberTest, test: str, n: int) -> Statistic:
    numbers = number_test.statistic(test, n)

    def observe(decks: Decks) -> Counts:
        return numbers.observe(decks[:, 0].astype(np.uint64))

    return replace(numbers, observe=observe)


def _entry(test: NumberTest) -> Entry:
    entry_id = f"shuffles.top-card-{test.name}"

    return Entry(
        id=entry_id,
        title=f"Top cards: {test.title[0].lower()}{test.title[1:]}",
        clauses=test.clauses,
        kind=Kind.SHUFFLES,
        null=test.null,
        source=test.source,
        minimal=lambda setting: test.minimal(setting.size),
        make=on_decks(partial(_of_top_cards, test), entry_id),
        parameters=test.parameters,
        objection=lambda setting: test.objection(setting.size),
    )


ENTRIES: Final = tuple(_entry(test) for test in TESTS if test.name in NAMES)
