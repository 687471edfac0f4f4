"""The service's side of the scheduler (`rngsvc.scheduler_process`): what runs daily, and what became of it.

Two jobs: the audit of the service's own log, read as strangers read it, and the command line of `daily_command`, for
the battery. Both run in processes of their own: nothing of them is on the path of a hand.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import structlog

from rngsvc.findings import Check
from rngsvc.ports import Clock
from rngsvc.schedule import Daily
from rngsvc.scheduler_process import DECIDED, Job, Plan
from rngsvc.self_checks import DAILY_WITHIN_MS

LOG_AUDIT: Final = "log_audit"
COMMAND: Final = "daily_command"
JOBS: Final = (LOG_AUDIT, COMMAND)
DONE, FAILED, OVERRUN = OUTCOMES = ("done", "failed", "overrun")
"""How a run ends: it has passed or found something wrong; it could not do its work; it took too long."""

# Of a healthy service and a log without fault these may be found all the same: each has its own alarm.
_NOT_DAMAGE: Final = (Check.INTEGRITY, Check.VERDICT, Check.ABORTS, Check.OVERDUE)
_LOG_AUDIT_LIMIT_S: Final = 80_000.0
_DELAY_S: Final = 20.0  # a service that has just started, or taken over, has better things to do first
_GOODBYE_S: Final = 5.0
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
_OUR_OWN: Final = ("RNGSVC_", "PG")  # settings, and the way to the database: nobody else's business
_USAGE: Final = 2

_log = structlog.get_logger("rngsvc.daily_runs")


class SchedulerChild:
    """The child process. It is made before gRPC is loaded and before any key is read; it waits for its plan."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin, "asked for"
        assert process.stdout, "asked for"
        self._process = process
        self._to, self._from = process.stdin, process.stdout

    @classmethod
    def spawn(cls) -> "SchedulerChild":
        """Start it with next to no environment: where keys lie in variables, these have not been taken out yet."""
        kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        command = [sys.executable, "-m", "rngsvc.scheduler_process"]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept))  # noqa: S603

    def begin(self, plan: Plan) -> None:
        """Tell it what to do; OSError if it is gone."""
        self._to.write(plan.encode())
        self._to.flush()

    async def follow(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        """Call ``hear`` with each event; return when the child is gone."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 20)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._from)
        async for line in reader:
            hear(json.loads(line))

    def end(self) -> None:
        """End it and all that it runs."""
        self._to.close()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()


@dataclass(slots=True)
class LogAudit:
    """What the newest audit of the service's own log said. ``verdict`` is "" until one has come to its end.

    ``size`` entries were audited at ``time`` (ms); until the first, ``time`` is when the service started.
    """

    time: int
    size: int = 0
    verdict: str = ""
    faults: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """Return it as JSON members."""
        return {"time": self.time, "size": self.size, "verdict": self.verdict, "faults": list(self.faults)}

    def trouble(self, now_ms: int) -> str | None:
        """Return why the log is no reason for trust now; None if it is."""
        if self.verdict == "fail":
            return f"the audit of the service's own log failed: {self.faults[0]}"
        if now_ms - self.time > DAILY_WITHIN_MS:
            return "the service has not audited its own log for 26 hours"
        return None


def faults_in(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an audit's report says is damaged; findings that are no damage have their own alarms."""
    damage = [each for each in report["findings"] if each["check"] not in _NOT_DAMAGE]
    faults = [*report["log_faults"], *(f"entry {e['index']}: {e['check']}: {e['message']}" for e in damage)]
    if report["finding_count"] > len(report["findings"]):
        faults.append(f"{report['finding_count']} findings, more than are listed")
    return tuple(faults)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the audit of the own log reads (``url``), with which key, and the file where it keeps how far it is.

    ``scratch`` is the folder of that file if it is for this run only.
    """

    url: str
    log_key: str
    state: Path
    scratch: Path | None = None

    @property
    def report(self) -> Path:
        """The file with the newest audit's report."""
        return self.state.with_name(f"{self.state.name}.report.json")

    @property
    def new_report(self) -> Path:
        """Where an audit writes its report. It is taken away when it is read, so that none is taken for a later one."""
        return self.state.with_name(f"{self.state.name}.report.new")

    def job(self) -> Job:
        """Return the audit as a job: the same program that strangers run, on what strangers are shown."""
        audit = (*("-m", "rngsvc", "audit", self.url, "--log-key", self.log_key), "--state", str(self.state))
        return Job(
            LOG_AUDIT,
            (sys.executable, *audit, "--report", str(self.new_report)),
            None,
            _LOG_AUDIT_LIMIT_S,
            at_start=True,
        )


def command_job(command: str, facts: Mapping[str, str], last_ms: int | None, limit_s: float) -> Job:
    """Return `daily_command` as a job; ``{name}`` in it stands for what ``facts`` says of the running service."""
    words = shlex.split(command)
    for name, value in facts.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return Job(COMMAND, tuple(words), last_ms, limit_s)


@dataclass(slots=True)
class ScheduledRuns:
    """Follows the scheduler.

    ``ended(job, outcome, began_ms)`` is told each run's end, ``failed(report)`` an audit that found damage, ``gone()``
    the end of the scheduler itself.
    """

    child: SchedulerChild
    place: Place
    audit: LogAudit
    clock: Clock
    ended: Callable[[str, str, int], None]
    failed: Callable[[bytes], None]
    gone: Callable[[], None]
    _began: dict[str, int] = field(default_factory=dict)

    async def run(self, daily: Daily, command: Job | None) -> None:
        """Have the jobs done for as long as the service runs."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OUR_OWN)}
        # Requests go to this machine, whatever proxy the room uses for others.
        environment["no_proxy"] = "*"
        jobs = (self.place.job(), *([command] if command else ()))
        try:
            self.child.begin(Plan(daily, _DELAY_S, jobs, environment, str(self.place.scratch or "")))
            await self.child.follow(self.hear)
        except OSError as error:
            _log.error("scheduler not reached", why=str(error))
        _log.error("scheduler gone", until="the service is started again, nothing is checked daily")
        self.gone()

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take in an event."""
        job = event["job"]
        match event["event"]:
            case "started":
                _log.info("run started", job=job)
                self._began[job] = self.clock.now_ms()
                if job == LOG_AUDIT:
                    self.place.new_report.unlink(missing_ok=True)
            case "line":
                _log.info("run says", job=job, text=event["text"])
            case "ended":
                code, overrun = event["code"], event["overrun"]
                outcome = OVERRUN if overrun else DONE if code in DECIDED else FAILED
                say = _log.info if outcome == DONE else _log.error
                say("run ended", job=job, outcome=outcome, code=code, seconds=event["seconds"])
                if job == LOG_AUDIT and not overrun:
                    outcome = self._audited(code, outcome)
                self.ended(job, outcome, self._began.get(job, 0))

    def _audited(self, code: int, outcome: str) -> str:
        """Read what the audit reports; return the outcome of the run."""
        if code == _USAGE and self.place.state.exists():
            # The next run, in a while, begins at the log's first entry.
            _log.error("state of the log's audit refused and put aside", file=str(self.place.state))
            self.place.state.replace(self.place.state.with_name(f"{self.place.state.name}.refused"))
        if outcome != DONE:
            return outcome
        try:
            raw = self.place.new_report.read_bytes()
            self.place.new_report.replace(self.place.report)
            report = json.loads(raw)
            faults = faults_in(report)
            self.audit.size = report["size"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.error("report of the log's audit not read", why=str(error))
            return FAILED
        self.audit.time = self.clock.now_ms()
        self.audit.verdict, self.audit.faults = ("fail" if faults else "pass"), faults
        if faults:
            _log.critical("the log's audit failed", faults=list(faults[:20]), report_sha256=sha256(raw).hexdigest())
            self.failed(raw)
        return outcome
