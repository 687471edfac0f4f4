"""Counting over windows of the sample: the one accumulator behind nearly all tests.

A window is `span` consecutive items that begin at an absolute multiple of `step`:

    span 1, step 1      each item by itself
    span w, step 1      overlapping windows: lags, overlapping patterns
    span b, step b      disjoint blocks: sequences, hands of a deal, poker
    span 1, step k      every k-th item: subsequences

The counts of a segment are those of the windows that lie wholly inside. A window that crosses a seam is counted when
the two segments are joined; for that the segment keeps the items of its unfinished windows (`tail`) and those that a
window begun before it still needs (`head`). All three are functions of the segment alone, so joining is associative.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stats_tests.accumulator import Items, State, StateValue
from stats_tests.result import Result

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """A test as a sum of counts over windows.

    Attributes:
        cells: how many counts there are.
        observe: takes items that begin at a window's start and end at a window's end, at least one window; returns
            the counts of its windows, summed. It must be additive: observing two stretches of windows one after the
            other gives the sum.
        judge: takes the summed counts and the number of windows; returns the results.
        span: items in one window.
        step: distance between the starts of windows.
    """

    cells: int
    observe: Callable[[Any], Counts]
    judge: Callable[[Counts, int], tuple[Result, ...]]
    span: int = 1
    step: int = 1


class WindowCounts:
    """Accumulator of a `Statistic` over the segment of the sample that begins at item `start`."""

    def __init__(
        self, statistic: Statistic, start: int, item_type: type[np.unsignedinteger[Any]], width: int = 0
    ) -> None:
        """Begin an empty segment.

        Args:
            statistic: what to count.
            start: absolute index of the segment's first item.
            item_type: the items' NumPy type.
            width: cards in a deck where an item is a deck; 0 where an item is one number or byte.
        """
        self._statistic = statistic
        self._type = np.dtype(item_type)
        self._shape = (width,) if width else ()
        self.start = start
        self.end = start
        self.counts: Counts = np.zeros(statistic.cells, dtype=np.int64)
        nothing = np.empty((0, *self._shape), dtype=self._type)
        self._head: NDArray[Any] = nothing
        self._tail: NDArray[Any] = nothing

    @property
    def observations(self) -> int:
        """The number of windows that lie wholly in the segment."""
        return max(0, (self._first_unfinished() - _round_up(self.start, self._statistic.step)) // self._statistic.step)

    def update(self, items: Items) -> None:
        """Take the items that follow."""
        self._extend_head(items)
        unfinished = self._first_unfinished()
        stretch = items[unfinished - self.end :] if unfinished >= self.end else np.concatenate([self._tail, items])
        finished = self._count(stretch, limit=len(stretch))
        self._tail = stretch[finished * self._statistic.step :].copy()
        self.end += len(items)

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends."""
        if following.start != self.end:
            raise ValueError(
                f"segments do not adjoin: one ends at item {self.end}, the next begins at {following.start}"
            )
        self._extend_head(following._head)
        unfinished = self._first_unfinished()
        # A window begun here and still open at the end of a short following segment needs all of it: its head is all.
        stretch = np.concatenate([self._tail, following._head])
        begun_here = -((unfinished - following.start) // self._statistic.step)
        finished = self._count(stretch, limit=begun_here)
        still_open = unfinished + finished * self._statistic.step < following.start
        self._tail = stretch[finished * self._statistic.step :].copy() if still_open else following._tail
        self.counts += following.counts
        self.end = following.end

    def results(self) -> tuple[Result, ...]:
        """Judge the counts."""
        return self._statistic.judge(self.counts, self.observations)

    def to_state(self) -> dict[str, StateValue]:
        """Return the segment's bounds, counts and open ends."""
        return {
            "start": self.start,
            "end": self.end,
            "counts": self.counts.tolist(),
            "head": self._to_hex(self._head),
            "tail": self._to_hex(self._tail),
        }

    def load(self, state: State) -> None:
        """Replace the segment by the one that `state` tells of.

        Raises:
            ValueError: the state is not one of this statistic's.
        """
        match state:
            case {"start": int(start), "end": int(end), "counts": list(counts), "head": str(head), "tail": str(tail)}:
                pass
            case _:
                raise ValueError("state: expected start, end, counts, head and tail")
        if not 0 <= start <= end:
            raise ValueError(f"state: a segment from item {start} to {end} does not exist")
        if len(counts) != self._statistic.cells:
            raise ValueError(f"state.counts: {len(counts)} counts where the test has {self._statistic.cells}")
        self.start, self.end = start, end
        self.counts = np.array(counts, dtype=np.int64)
        self._head, self._tail = self._from_hex(head), self._from_hex(tail)
        if len(self._head) != min(end - start, self._head_length()):
            raise ValueError("state.head: not the items that the segment's place asks for")
        if len(self._tail) != max(0, end - self._first_unfinished()):
            raise ValueError("state.tail: not the items that the segment's place asks for")

    def _count(self, stretch: NDArray[Any], limit: int) -> int:
        """Count up to `limit` windows of a stretch that begins at a window's start; return how many were whole."""
        span, step = self._statistic.span, self._statistic.step
        whole = (len(stretch) - span) // step + 1 if len(stretch) >= span else 0
        finished = max(0, min(whole, limit))
        if finished:
            self.counts += self._statistic.observe(stretch[: (finished - 1) * step + span])
        return finished

    def _first_unfinished(self) -> int:
        """Return where the first window begins that is not whole within the segment."""
        return _round_up(max(self.start, self.end - self._statistic.span + 1), self._statistic.step)

    def _head_length(self) -> int:
        """Return how many items windows begun before the segment may need of it."""
        if self.start == 0:
            return 0
        last_before = (self.start - 1) // self._statistic.step * self._statistic.step
        return max(0, last_before + self._statistic.span - self.start)

    def _extend_head(self, items: NDArray[Any]) -> None:
        missing = self._head_length() - len(self._head)
        if missing > 0 and len(items):
            self._head = np.concatenate([self._head, items[:missing]])

    def _to_hex(self, items: NDArray[Any]) -> str:
        return items.astype(self._type.newbyteorder(">")).tobytes().hex()

    def _from_hex(self, text: str) -> NDArray[Any]:
        items = np.frombuffer(bytes.fromhex(text), dtype=self._type.newbyteorder(">"))
        return items.reshape(-1, *self._shape).astype(self._type)


def _round_up(index: int, step: int) -> int:
    """Return the smallest multiple of `step` that is not below `index`."""
    return -(-index // step) * step
