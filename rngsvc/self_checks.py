"""Whether a service checks itself as it should: at its start, daily, and with success."""

from typing import Final

from rngsvc.findings import Check, Finding
from rngsvc.protocol.entries import Entry, HandEntry, IntegrityEntry

DAILY_WITHIN_MS: Final = 26 * 3_600_000


class SelfChecks:
    """Follows the `integrity` entries of a log.

    A daily check is due within 26 hours of running time. While the service does not run it cannot check itself: the
    silence before a `start` entry does not count.
    """

    def __init__(
        self, *, started: bool = False, running_since: int = 0, late: bool = False, last_time: int = -1
    ) -> None:
        self.started = started
        """Whether a start check stands in the log."""
        self.running_since = running_since
        """Since when the service runs without a daily check, silences left out; ms since 1970."""
        self.late = late
        """Whether the daily check that is due now was found missing already."""
        self.last_time = last_time
        """The time of the entry before; -1 if there was none."""

    def feed(self, index: int, entry: Entry) -> list[Finding]:
        """Take in the next entry; return what is missing or failed."""
        if self.last_time < 0:
            self.running_since = entry.time
        elif isinstance(entry, IntegrityEntry) and entry.kind == "start":
            self.running_since += max(0, entry.time - self.last_time)
        self.last_time = max(self.last_time, entry.time)
        findings = []
        if isinstance(entry, IntegrityEntry):
            self.started |= entry.kind == "start"
            if entry.results[1] == "fail":
                findings.append(Finding(Check.INTEGRITY, index, f"the {entry.kind} check failed"))
        elif isinstance(entry, HandEntry) and not self.started:
            self.started = True  # said once
            findings.append(Finding(Check.INTEGRITY, index, "no start check before the first table"))
        if entry.time - self.running_since > DAILY_WITHIN_MS and not self.late:
            self.late = True
            text = f"no daily check within {DAILY_WITHIN_MS // 3_600_000} hours of running"
            findings.append(Finding(Check.INTEGRITY, index, text))
        if isinstance(entry, IntegrityEntry) and entry.kind == "daily":
            self.running_since, self.late = entry.time, False
        return findings
