"""The scheduler: a small child process of the service that runs command lines once a day.

It is started before the service loads gRPC, whose threads do not survive a fork, and imports nothing but the standard
library. The service writes one `Plan` to its standard input once it serves, and reads events from its standard output,
both as lines of JSON. When the service is gone, however it ended, its pipe is closed: then whatever runs is killed.
When the scheduler itself is killed, Linux kills what it runs.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Final

from rngsvc.schedule import Daily

RETRY_S: Final = 1800.0
DECIDED: Final = (0, 1)
"""Exit codes after which a run has done its duty: passed, or found something wrong. Any other is tried again."""

_NICE: Final = 10
_TICK_S: Final = 30.0  # a clock that is set, or a machine that slept, is noticed after so long
_TERM_S: Final = 5.0
_LAST_LINES_S: Final = 1.0
_LINE_CHARACTERS: Final = 2_000
_LINES: Final = 1_000
_PR_SET_PDEATHSIG: Final = 1
# Ctrl-C and a supervisor's SIGTERM reach the whole group. The service decides, and its pipe tells us.
_LEFT_TO_THE_SERVICE: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Job:
    """A command line and when it ran last (ms since 1970, None: never).

    ``limit_s`` is how long it may take. With ``at_start`` it runs when the service has started too.
    """

    name: str
    argv: tuple[str, ...]
    last_ms: int | None
    limit_s: float
    at_start: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run, when, and with which environment; nothing in the first ``delay_s`` seconds.

    ``scratch`` is a folder that is removed at the end, "" if there is none.
    """

    daily: Daily
    delay_s: float
    jobs: tuple[Job, ...]
    environment: Mapping[str, str]
    scratch: str = ""

    def encode(self) -> bytes:
        """Return the plan as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Plan":
        """Return the plan in a line that `encode` made."""
        members = json.loads(line)
        jobs = tuple(Job(**{**job, "argv": tuple(job["argv"])}) for job in members["jobs"])
        daily = Daily(**members["daily"])
        return cls(daily, members["delay_s"], jobs, members["environment"], members["scratch"])


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Runs jobs when they are due. Time, sleep, chance and the way to run a job come in from outside."""

    daily: Daily
    delay_s: float
    now_ms: Callable[[], int]
    sleep: Callable[[float], Awaitable[object]]
    chance: Callable[[], float]
    run: Callable[[Job], Awaitable[int]]

    async def keep(self, job: Job) -> None:
        """Run ``job`` every day, for ever; one that ends undecided is tried again before that."""
        started = self.now_ms()
        due = self.daily.due_ms(job.last_ms, started, self.chance())
        due = started if job.at_start else due
        due = max(due, started + int(1000 * self.delay_s))
        while True:
            while (left_ms := due - self.now_ms()) > 0:
                await self.sleep(min(left_ms / 1000, _TICK_S))
            began = self.now_ms()
            code = await self.run(job)
            due = self.daily.due_ms(began, self.now_ms(), self.chance())
            if code not in DECIDED:
                due = min(due, self.now_ms() + int(1000 * RETRY_S))


class Runner:
    """Runs a job as a process group of its own and tells ``out`` what becomes of it."""

    def __init__(self, environment: Mapping[str, str], out: BinaryIO) -> None:
        self._environment = environment
        self._out = out
        self._groups: set[int] = set()

    async def run(self, job: Job) -> int:
        """Run it to its end, or to its limit; return its exit code, negative for a signal."""
        self._tell(job, "started")
        began = time.monotonic()
        # A pipe of our own: asyncio's would make the process's end wait for the end of its output.
        out, into = os.pipe()
        stream = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(out, "rb", 0)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *job.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=into,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self._environment),
                start_new_session=True,
                preexec_fn=_before_exec,
            )
        except OSError as error:
            pipe.close()
            self._tell(job, "line", text=f"{job.argv[0]}: {error.strerror}")
            self._tell(job, "ended", code=127, seconds=0.0, overrun=False)
            return 127
        finally:
            os.close(into)
        self._groups.add(process.pid)
        reading = asyncio.create_task(self._pass_on(job, stream))
        overrun = False
        try:
            await asyncio.wait_for(process.wait(), job.limit_s)
        except TimeoutError:
            overrun = True
            _kill_group(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _TERM_S)
        _kill_group(process.pid, signal.SIGKILL)  # with all that it started
        code = await process.wait()
        self._groups.discard(process.pid)
        # Whoever left the group may hold the pipe for as long as he lives; what he writes then is not the job's.
        await asyncio.wait([reading], timeout=_LAST_LINES_S)
        reading.cancel()
        pipe.close()
        self._tell(job, "ended", code=code, seconds=round(time.monotonic() - began, 3), overrun=overrun)
        return code

    def kill_all(self) -> None:
        """Kill all that runs now."""
        for group in self._groups:
            _kill_group(group, signal.SIGKILL)

    async def _pass_on(self, job: Job, stream: asyncio.StreamReader) -> None:
        told = 0
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the reader's limit: what of it was read is gone
                continue
            if not line:
                return
            told += 1
            if told <= _LINES:
                self._tell(job, "line", text=line.decode("utf-8", "replace").rstrip()[:_LINE_CHARACTERS])

    def _tell(self, job: Job, event: str, **facts: Any) -> None:
        # A service that is gone hears nothing; its pipe's end tells us in a moment.
        with contextlib.suppress(OSError):
            self._out.write(json.dumps({"job": job.name, "event": event, **facts}).encode() + b"\n")
            self._out.flush()


def _before_exec() -> None:
    """Between fork and exec: take signals again, and have Linux kill this process when the scheduler is no more."""
    for each in _LEFT_TO_THE_SERVICE:
        signal.signal(each, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _kill_group(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)


async def _main() -> None:
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=1 << 22)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    line = await stdin.readline()
    if not line:
        return
    plan = Plan.decode(line)
    runner = Runner(plan.environment, sys.stdout.buffer)
    scheduler = Scheduler(
        plan.daily,
        plan.delay_s,
        lambda: time.time_ns() // 1_000_000,
        asyncio.sleep,
        random.SystemRandom().random,
        runner.run,
    )
    keeping = [asyncio.create_task(scheduler.keep(job)) for job in plan.jobs]
    try:
        await stdin.read()  # until the service ends
    finally:
        runner.kill_all()
        for task in keeping:
            task.cancel()
        if plan.scratch:
            shutil.rmtree(plan.scratch, ignore_errors=True)


if __name__ == "__main__":
    for each in _LEFT_TO_THE_SERVICE:
        signal.signal(each, signal.SIG_IGN)
    os.nice(_NICE)
    asyncio.run(_main())
