"""What the service says of itself to everybody: log, integrity checks, witnesses, hands, and whether it still signs.

Only what the log tells anybody who reads it, gathered for people; no card, no seed, no caller.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rngsvc.cosigning import Cosigner
from rngsvc.daily_runs import LogAudit
from rngsvc.protocol.entries import AuditEntry, CloseEntry, IntegrityEntry, parse_entry
from rngsvc.results import Results
from rngsvc.self_checks import DAILY_WITHIN_MS
from rngsvc.service import Service
from rngsvc.tables import Table

MAX_AGE_MS: Final = 2_000  # how old an answer may be: strangers may ask as often as they like
_GRACE_MS: Final = 10_000  # the service closes expired hands itself, but not at once
_CLOSES_SOUGHT: Final = 1_000  # in so many of the newest entries
_LISTED: Final = 20
_RESULTS_SOUGHT: Final = 100


@dataclass(slots=True)
class Board:
    """Reads the status of a running service."""

    service: Service
    results: Results
    cosigner: Cosigner
    log_audit: LogAudit
    _read: dict[str, Any] = field(default_factory=dict)
    _read_at: int = -MAX_AGE_MS

    async def read(self) -> dict[str, Any]:
        """Return the status as JSON members, at most `MAX_AGE_MS` old. Times are ms since 1970 UTC."""
        now = self.service.sequencer.clock.now_ms()
        if not 0 <= now - self._read_at < MAX_AGE_MS:
            self._read = {
                "signing": self._signing(),
                "log": await self._log(),
                "witnesses": self._witnesses(),
                "integrity": await self._integrity(now),
                "hands": {**_unclosed(self.service.tables.with_unclosed_hands(), now), "closed": await self._closed()},
                "read_at": now,
            }
            self._read_at = now
        return self._read

    def _signing(self) -> dict[str, Any]:
        stopped = self.service.sequencer.stopped
        return {"able": stopped is None, "why": stopped.why if stopped else ""}

    async def _log(self) -> dict[str, Any]:
        size = self.service.log.size
        newest = await self.service.store.entries(size - 1, size) if size else []
        return {"origin": self.service.origin, "size": size, "time": parse_entry(newest[0]).time if newest else None}

    def _witnesses(self) -> dict[str, Any]:
        newest = self.cosigner.newest
        return {
            "cosigned_size": newest.size if newest else 0,
            "each": [
                {"name": name, "size": self.cosigner.size_known(name), "away": name in self.cosigner.failures}
                for name in self.cosigner.policy.witnesses
            ],
        }

    async def _integrity(self, now: int) -> dict[str, Any]:
        store = self.service.store
        positions = await store.results(self.service.log.size, _RESULTS_SOUGHT)
        results = [parse_entry(raw) for raw in await store.entries_at(positions)]
        shown = [_result(index, entry) for index, entry in zip(positions, results, strict=True)]
        daily = [each["time"] for each in shown if each["kind"] == "daily"]
        # Without any daily result, the oldest that there is says how long none has come.
        newest = max(daily) if daily else min((each["time"] for each in shown), default=now)
        return {
            "code": self.results.code.hex(),
            "daily_overdue": now - newest > DAILY_WITHIN_MS,
            "log_audit": {**self.log_audit.shown(), "trouble": self.log_audit.trouble(now) or ""},
            "newest": {each["kind"]: each for each in reversed(shown)},
            "entries": shown[:_LISTED],
        }

    async def _closed(self) -> list[dict[str, Any]]:
        size = self.service.log.size
        entries = await self.service.store.entries(max(0, size - _CLOSES_SOUGHT), size)
        # Entries are canonical, so that this marks a close and nothing else.
        closes = [raw for raw in reversed(entries) if b'"type":"close"' in raw][:_LISTED]
        return [_close(parse_entry(raw)) for raw in closes]


def integrity_trouble(board: Mapping[str, Any]) -> str | None:
    """Return why the service's daily check of itself (house rule DK-2) is no reason for trust now; None if it is."""
    integrity = board["integrity"]
    if trouble := integrity["log_audit"]["trouble"]:
        return str(trouble)
    daily = integrity["newest"].get("daily")
    if daily and daily["verdict"] == "fail":
        return f"the daily check failed (log entry {daily['index']})"
    if integrity["daily_overdue"]:
        return "no daily check has come for 26 hours"
    return None


def _result(index: int, entry: object) -> dict[str, Any]:
    shown: dict[str, Any]
    match entry:
        case IntegrityEntry():
            shown = {"kind": entry.kind, "verdict": entry.results[1], "code": entry.code.hex()}
        case AuditEntry():
            shown = {"kind": "audit", "verdict": entry.verdict, "first": entry.first, "last": entry.last}
        case _:
            raise AssertionError("the store lists results only")
    return {"index": index, "time": entry.time, **shown}


def _close(entry: object) -> dict[str, Any]:
    assert isinstance(entry, CloseEntry), "its type says so"
    return {
        "time": entry.time,
        "table": entry.table.hex(),
        "seq": entry.seq,
        "outcome": entry.outcome,
        "reason": entry.reason or "",
    }


def _unclosed(tables: Iterable[Table], now: int) -> dict[str, Any]:
    """Return figures of all hands that are not closed, and the lowest of each table, the most urgent first."""
    total = in_play = 0
    lowest: list[dict[str, Any]] = []
    for table in tables:
        total += table.unclosed
        in_play += table.open_hand is not None
        hand = table.hand(table.last_closed + 1)
        expires = table.expires_ms()
        assert hand, "a table with unclosed hands has a lowest one"
        assert expires is not None, "which expires"
        lowest.append(
            {
                "table": table.id.hex(),
                "seq": hand.seq,
                "state": hand.state.value,
                "expires": expires,
                "overdue": now > expires + _GRACE_MS,
            }
        )
    lowest.sort(key=lambda each: each["expires"])
    return {
        "in_play": in_play,
        "waiting": total - in_play,
        "overdue": sum(1 for each in lowest if each["overdue"]),
        "open": lowest[:_LISTED],
    }
