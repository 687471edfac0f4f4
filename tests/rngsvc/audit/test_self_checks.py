"""What the log says of the service's checks of itself, and what it keeps silent about."""

import pytest

from rngsvc.findings import Check
from rngsvc.protocol.entries import Entry, IntegrityEntry, SampleEntry, TableEntry
from rngsvc.self_checks import SelfChecks

HOUR = 3_600_000


def entry(what: str, hour: float) -> Entry:
    time = int(hour * HOUR)
    if what == "table":
        return TableEntry(time=time, table=bytes(16), prev=bytes(32), mode="shoe", reveal="public", ttl=60)
    if what == "sample":
        return SampleEntry(time=time, id=b"1", kind="bits", count=1)
    kind, _, verdict = what.partition(" ")
    return IntegrityEntry(time=time, kind=kind, code=bytes(32), results=(bytes(32), verdict or "pass"))


ROWS: list[tuple[str, list[tuple[str, float]], list[tuple[int, str]]]] = [
    ("nothing yet", [("sample", 0)], []),
    ("a start, then play", [("start", 0), ("table", 1)], []),
    ("play without a start", [("table", 0), ("table", 1)], [(0, "no start check")]),
    ("a failed start", [("start fail", 0)], [(0, "the start check failed")]),
    ("a failed day", [("start", 0), ("daily fail", 1)], [(1, "the daily check failed")]),
    ("an undecided day", [("start", 0), ("daily undecided", 1)], []),
    ("a day and two hours", [("start", 0), ("table", 26)], []),
    ("a day and more", [("start", 0), ("table", 26.01), ("table", 30)], [(1, "no daily check")]),
    ("a late day", [("start", 0), ("daily", 27), ("table", 52)], [(1, "no daily check")]),
    ("two gaps", [("start", 0), ("table", 27), ("daily", 28), ("table", 55)], [(1, "no daily"), (3, "no daily")]),
    ("days", [("start", 0), *(("daily", 24.0 * day) for day in range(1, 9)), ("table", 200)], []),
    ("a week's rest", [("start", 0), ("table", 1), ("start", 170), ("table", 194)], []),
    ("rest, then a day without", [("start", 0), ("table", 1), ("start", 170), ("table", 196)], [(3, "no daily")]),
    ("a start is no daily", [("start", 0), *(("start", 9.0 * i) for i in range(1, 3)), ("table", 18), ("table", 45)],
     [(4, "no daily")]),
    ("hourly starts of a running service", [("start", 0), *((w, h) for h in range(1, 30) for w in ("table", "start"))],
     [(53, "no daily")]),
]  # fmt: skip


@pytest.mark.parametrize(("title", "log", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_what_is_missing_or_failed_is_found(
    title: str, log: list[tuple[str, float]], expected: list[tuple[int, str]]
) -> None:
    checks = SelfChecks()
    found = [each for i, row in enumerate(log) for each in checks.feed(i, entry(*row))]
    assert [each.index for each in found] == [index for index, _ in expected]
    assert all(each.check is Check.INTEGRITY for each in found)
    for finding, (_, text) in zip(found, expected, strict=True):
        assert text in finding.message
