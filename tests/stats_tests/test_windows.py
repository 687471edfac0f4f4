"""The one accumulator: any split and any tree of merges ends in the same bytes, and counts what a plain loop counts."""

import itertools

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from stats_tests.result import Result
from stats_tests.windows import Statistic, WindowCounts
from tests.scale import scaled

CELLS = 97


def fingerprint(span: int, step: int) -> Statistic:
    """A statistic in which every item's place within its window matters."""

    def observe(items: np.ndarray) -> np.ndarray:
        counts = np.zeros(CELLS, dtype=np.int64)
        for first in range(0, len(items) - span + 1, step):
            counts[sum((k + 1) * int(item) for k, item in enumerate(items[first : first + span])) % CELLS] += 1
        return counts

    def judge(counts: np.ndarray, windows: int) -> tuple[Result, ...]:
        return (Result(test="t", null="", statistic=float(windows), log_p=0.0),)

    return Statistic(cells=CELLS, observe=observe, judge=judge, span=span, step=step)


def segment(statistic: Statistic, items: np.ndarray, start: int, cuts: list[int]) -> WindowCounts:
    counts = WindowCounts(statistic, start, np.uint8)
    for chunk in np.split(items, cuts):
        counts.update(chunk)
    return counts


@st.composite
def splits(draw: st.DrawFn) -> tuple[np.ndarray, int, int, list[int], list[int]]:
    items = np.frombuffer(draw(st.binary(max_size=40)), dtype=np.uint8)
    span, step = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    cuts = sorted(draw(st.lists(st.integers(0, len(items)), max_size=6)))
    order = draw(st.permutations(range(len(cuts))))
    return items, span, step, cuts, order


@settings(max_examples=scaled(400, 20_000), deadline=None)
@given(splits(), st.integers(0, 20))
def test_every_split_and_merge_tree_gives_the_same_state(case: tuple, start: int) -> None:
    items, span, step, cuts, order = case
    statistic = fingerprint(span, step)
    whole = segment(statistic, items, start, [])
    bounds = [0, *cuts, len(items)]
    parts = [segment(statistic, items[a:b], start + a, [(b - a) // 2]) for a, b in itertools.pairwise(bounds)]
    # `order` says which seam is closed next: every merge tree is such an order.
    owner = list(range(len(parts)))
    for seam in order:
        left, right = owner[seam], owner[seam + 1]
        parts[left].merge(parts[right])
        owner = [left if o == right else o for o in owner]
    assert rfc8785.dumps(parts[0].to_state()) == rfc8785.dumps(whole.to_state())

    windows = [s for s in range(0, start + len(items), step) if s >= start and s + span <= start + len(items)]
    assert whole.observations == len(windows) == whole.counts.sum()

    restored = WindowCounts(statistic, 0, np.uint8)
    restored.load(whole.to_state())
    assert restored.to_state() == whole.to_state()


def test_decks_and_wide_numbers_survive_the_state() -> None:
    decks = np.arange(12, dtype=np.uint16).reshape(4, 3)
    statistic = Statistic(cells=1, observe=lambda items: np.array([len(items)]), judge=lambda c, w: (), span=3)
    counts = WindowCounts(statistic, 5, np.uint16, width=3)
    counts.update(decks)
    restored = WindowCounts(statistic, 0, np.uint16, width=3)
    restored.load(counts.to_state())
    assert restored.to_state() == counts.to_state()
    assert counts.to_state()["tail"] == "000600070008" + "0009000a000b"


def test_segments_that_do_not_adjoin_are_refused() -> None:
    statistic = fingerprint(2, 1)
    with pytest.raises(ValueError, match=r"ends at item 3, the next begins at 5"):
        segment(statistic, np.arange(3, dtype=np.uint8), 0, []).merge(WindowCounts(statistic, 5, np.uint8))


GOOD = {"start": 1, "end": 3, "counts": [0] * CELLS, "head": "0a", "tail": "0b"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end": None}, "expected start"),
        ({"start": 4}, "does not exist"),
        ({"counts": [0]}, "1 counts where the test has 97"),
        ({"head": ""}, "state.head"),
        ({"tail": "0b0c"}, "state.tail"),
    ],
)
def test_a_state_of_another_shape_is_refused(change: dict, message: str) -> None:
    counts = WindowCounts(fingerprint(2, 1), 0, np.uint8)
    counts.load(GOOD)
    with pytest.raises(ValueError, match=message):
        counts.load({**GOOD, **change})
