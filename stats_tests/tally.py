"""All counts of one plan over one segment of a sample, and the file that carries them.

A state file is one line of canonical JSON (RFC 8785), then the sorted deck digests, 16 bytes each, if decks were
looked at for repeats. Equal segments give equal files, byte for byte.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import rfc8785

from stats_tests.accumulator import Accumulator, Items
from stats_tests.battery import Battery, Plan, plan_for
from stats_tests.catalogue import Entry, Kind, Mode
from stats_tests.digest import SampleDigest
from stats_tests.result import Result, not_applicable
from stats_tests.samples import Source, binary_format, item_bytes
from stats_tests.shuffles.duplicates import DuplicateDecks

FORMAT: Final = "stats_tests-state/1"
MOST_HEADER_BYTES: Final = 1 << 30
ITEMS_AT_ONCE_BYTES: Final = 1 << 18
"""Items are handed to the tests in portions of about this size, which stay in the processor's cache."""


class StateError(ValueError):
    """A state file is not one, or does not fit."""


class Tally:
    """The accumulators of a plan's applicable tests, and the digest of the items they have seen."""

    def __init__(self, plan: Plan, start: int = 0) -> None:
        """Begin an empty segment at item `start`."""
        self.plan = plan
        setting = plan.setting
        self.accumulators: dict[str, Accumulator] = {entry.id: entry.make(setting, start) for entry in plan.applicable}
        self._width = item_bytes(binary_format(setting.kind, setting.size), setting.size)
        self._digest = SampleDigest(self._width, start)

    @property
    def start(self) -> int:
        """Absolute index of the first item."""
        return self._digest.start

    @property
    def end(self) -> int:
        """Absolute index after the last item."""
        return self._digest.end

    @property
    def items(self) -> int:
        """How many items the segment holds."""
        return self.end - self.start

    def update(self, items: Items) -> None:
        """Take the items that follow."""
        # For bits a portion is a sequence: smaller ones would only be glued together again.
        setting = self.plan.setting
        at_once = setting.size // 8 if setting.kind is Kind.BITS else max(1, ITEMS_AT_ONCE_BYTES // self._width)
        for at in range(0, len(items), at_once):
            portion = items[at : at + at_once]
            for accumulator in self.accumulators.values():
                accumulator.update(portion)
        self._digest.update(items)

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends; ValueError if it does not, or has another plan."""
        if following.plan != self.plan:
            raise StateError("the states were made by different plans")
        self._digest.merge(following._digest)
        for test, accumulator in self.accumulators.items():
            accumulator.merge(following.accumulators[test])

    def sample_root(self) -> bytes:
        """Return the Merkle root of the items, 32 bytes."""
        return self._digest.root()

    def results(self) -> tuple[tuple[Entry, Result], ...]:
        """Return every result with its entry, in the plan's order; tests that do not apply say why."""
        found: list[tuple[Entry, Result]] = []
        setting = self.plan.setting
        for entry in self.plan.entries:
            objection = entry.objection(setting)
            least = 0 if objection else entry.minimal(setting)
            if objection:
                found.append((entry, not_applicable(entry.id, entry.null, objection)))
            elif self.items < least:
                reason = f"needs {least} items, the sample has {self.items}"
                found.append((entry, not_applicable(entry.id, entry.null, reason)))
            else:
                found += [(entry, result) for result in self.accumulators[entry.id].results()]
        return tuple(found)

    def to_state(self) -> dict[str, Any]:
        """Return the canonical state, without the deck digests."""
        setting = self.plan.setting
        return {
            "format": FORMAT,
            "battery": str(self.plan.battery),
            "kind": str(setting.kind),
            "size": setting.size,
            "mode": str(setting.mode),
            "sample": self._digest.to_state(),
            "tests": {test: accumulator.to_state() for test, accumulator in self.accumulators.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the tally that `state` tells of; deck digests, if any, are read after it.

        Raises:
            StateError: it is not a state of this version, or does not fit its own plan.
        """
        match state:
            case {
                "format": "stats_tests-state/1",
                "battery": str(battery),
                "kind": str(kind),
                "size": int(size),
                "mode": str(mode),
                "sample": dict(sample),
                "tests": dict(tests),
            }:
                pass
            case _:
                raise StateError(f"not a state of format {FORMAT}")
        try:
            plan = plan_for(Battery(battery), Kind(kind), size, Mode(mode))
            if plan.setting.size != size:
                raise StateError(f"state.size: {size} where {plan.setting.size} is meant")
            tally = cls(plan)
            if tests.keys() != tally.accumulators.keys():
                raise StateError("state.tests: not the tests of its plan; another version of the battery made it")
            for part in (sample, *tests.values()):
                _require_plain(part)
            tally._digest.load(sample)
            for test, accumulator in tally.accumulators.items():
                accumulator.load(tests[test])
                bounds = tests[test].get("start"), tests[test].get("end")
                if bounds != (tally.start, tally.end):
                    raise StateError(f"state.tests: {test} covers another segment than the sample's digest")
        except StateError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise StateError(f"state: {error}") from error
        return tally

    def write(self, file: BinaryIO) -> None:
        """Write the state file."""
        file.write(rfc8785.dumps(self.to_state()) + b"\n")
        for accumulator in self.accumulators.values():
            if isinstance(accumulator, DuplicateDecks):
                accumulator.write_digests(file)

    @classmethod
    def read(cls, file: BinaryIO) -> Self:
        """Read a state file; StateError says what is wrong with it."""
        line = file.readline(MOST_HEADER_BYTES)
        try:
            state = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StateError("the first line is not JSON") from error
        if not isinstance(state, dict):
            raise StateError(f"not a state of format {FORMAT}")
        tally = cls.from_state(state)
        try:
            for accumulator in tally.accumulators.values():
                if isinstance(accumulator, DuplicateDecks):
                    accumulator.read_digests(file)
        except ValueError as error:
            raise StateError(str(error)) from error
        if file.read(1):
            raise StateError("bytes follow the state's end")
        return tally


def _require_plain(state: Any) -> None:
    """Raise StateError unless all values are integers, texts or lists of integers: NumPy would make do with others."""
    if not isinstance(state, dict):
        raise StateError("state: a part of it is no object")
    for name, value in state.items():
        items = value if isinstance(value, list) else [value]
        kinds = (int,) if isinstance(value, list) else (int, str)
        if any(type(item) not in kinds for item in items):
            raise StateError(f"state: {name} is no integer, text or list of integers")


def tally_stretch(
    plan: Plan, source: Source, start: int, stop: int | None, tick: Callable[[int], None] = lambda _items: None
) -> Tally:
    """Count items start..stop-1 of a source (all that follow when `stop` is None); `tick` hears how many at a time."""
    tally = Tally(plan, start)
    for items in source.items(start, stop):
        tally.update(items)
        tick(len(items))
    return tally


def merge_all(tallies: list[Tally]) -> Tally:
    """Join the tallies of adjoining segments, given in any order; ValueError if there is a gap or an overlap."""
    first, *others = sorted(tallies, key=lambda tally: (tally.start, tally.end))
    for other in others:
        first.merge(other)
    return first


def read_state(path: Path) -> Tally:
    """Read a state file from disk; StateError names the file."""
    try:
        with path.open("rb") as file:
            return Tally.read(file)
    except (StateError, OSError) as error:
        raise StateError(f"{path}: {error}") from error
