"""What runs daily: when, in virtual time; and how it ends, with real processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rngsvc.schedule import DAY_MS, Daily
from rngsvc.scheduler_process import RETRY_S, Job, Plan, Scheduler
from tests.scale import scaled

MIDNIGHT = 20_000 * DAY_MS
HOUR = 3_600_000


def at(hours: float, day: int = 0) -> int:
    return MIDNIGHT + day * DAY_MS + int(hours * HOUR)


# --- When ---


@pytest.mark.parametrize(
    ("title", "last", "now", "due"),
    [
        ("never run: at once", None, at(1), at(1)),
        ("ran today: tomorrow", at(4.6), at(5), at(4.5, 1)),
        ("ran yesterday, before today's time: today", at(4.6, -1), at(3), at(4.5)),
        ("missed while the machine was off: at once", at(4.6, -1), at(9), at(9)),
        ("missed for a week: once, at once", at(4.6, -7), at(9), at(9)),
        ("ran by hand before today's time: today again", at(3), at(3.5), at(4.5)),
        ("exactly at its time: at once", at(4.5, -1), at(4.5), at(4.5)),
        ("ran in the very moment: tomorrow", at(4.5), at(4.5), at(4.5, 1)),
        ("a clock that went back: at its time", at(9), at(8), at(4.5, 1)),
    ],
)
def test_a_daily_run_is_due(title: str, last: int | None, now: int, due: int) -> None:
    assert Daily(int(4.5 * 3600), 0).due_ms(last, now, 0.5) == due
    assert Daily(int(4.5 * 3600), 600).due_ms(last, now, 0.5) == due + 300_000


@given(
    st.integers(0, 86_399),
    st.floats(0, 3600),
    st.integers(-3 * DAY_MS, 0) | st.none(),
    st.floats(0, 1, exclude_max=True),
)
def test_it_is_never_due_in_the_past_nor_later_than_a_day_and_its_jitter(
    at_s: int, jitter_s: float, ago: int | None, chance: float
) -> None:
    now = at(12.345)
    due = Daily(at_s, jitter_s).due_ms(None if ago is None else now + ago, now, chance)
    assert now <= due <= now + DAY_MS + 1000 * jitter_s


@dataclass
class Virtual:
    """A clock that sleep moves; each run takes ``takes_s`` and ends with the next of ``codes``, then with 0."""

    now: int = at(12)
    takes_s: float = 600
    codes: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    most_runs: int = 5

    async def sleep(self, seconds: float) -> None:
        self.now += max(1, int(seconds * 1000))
        await asyncio.sleep(0)

    async def run(self, _job: Job) -> int:
        self.runs.append(self.now)
        if len(self.runs) == self.most_runs:
            raise asyncio.CancelledError
        self.now += int(1000 * self.takes_s)
        return self.codes.pop(0) if self.codes else 0

    def keep(self, daily: Daily, *, last: int | None, at_start: bool = False, delay_s: float = 20) -> list[int]:
        job = Job("job", ("true",), last, 60, at_start)
        scheduler = Scheduler(daily, delay_s, lambda: self.now, self.sleep, lambda: 0.5, self.run)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(scheduler.keep(job))
        return self.runs


DAILY = Daily(int(4.5 * 3600), 0)


def test_it_runs_every_day_at_its_time() -> None:
    assert Virtual().keep(DAILY, last=at(4.6)) == [at(4.5, day) for day in range(1, 6)]


def test_a_run_that_was_missed_is_made_up_for_when_the_service_has_settled() -> None:
    assert Virtual(most_runs=2).keep(DAILY, last=at(4.6, -1)) == [at(12) + 20_000, at(4.5, 1)]


def test_what_runs_at_the_start_runs_daily_too() -> None:
    assert Virtual(most_runs=3).keep(DAILY, last=at(4.6), at_start=True) == [at(12) + 20_000, at(4.5, 1), at(4.5, 2)]


def test_a_run_that_decided_nothing_is_tried_again_and_one_that_found_a_fault_is_not() -> None:
    virtual = Virtual(codes=[3, -9, 1], takes_s=0)
    first = at(4.5, 1)
    again = [first + int(1000 * RETRY_S), first + int(2000 * RETRY_S)]
    assert virtual.keep(DAILY, last=at(4.6)) == [first, *again, at(4.5, 2), at(4.5, 3)]


def test_a_run_that_takes_longer_than_a_day_does_not_pile_up() -> None:
    runs = Virtual(takes_s=30 * 3600, most_runs=3).keep(DAILY, last=at(4.6))
    assert runs == [at(4.5, 1), at(10.5, 2), at(16.5, 3)]


def test_a_machine_that_slept_is_noticed_within_half_a_minute() -> None:
    """Sleeping is done in slices, so that a clock that jumps over the time of a run is seen."""
    virtual = Virtual(most_runs=1)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        virtual.now += int(seconds * 1000)
        if len(slept) == 10:
            virtual.now = at(6, 1)  # the lid was closed overnight

    scheduler = Scheduler(DAILY, 0, lambda: virtual.now, sleep, lambda: 0, virtual.run)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scheduler.keep(Job("job", ("true",), at(4.6), 60)))
    assert virtual.runs == [at(6, 1)]
    assert max(slept) <= 30


# --- Real processes ---


class Child:
    """The scheduler as the service starts it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "rngsvc.scheduler_process"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def plan(
        self, *argv: str, limit_s: float = 60, environment: dict[str, str] | None = None, scratch: str = ""
    ) -> None:
        job = Job("battery", argv, None, limit_s)
        plan = Plan(Daily(0, 0), 0, (job,), {"PATH": os.environ["PATH"], **(environment or {})}, scratch)
        assert Plan.decode(plan.encode()) == plan
        assert self.process.stdin
        self.process.stdin.write(plan.encode())
        self.process.stdin.flush()

    def event(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the scheduler is gone"
        event: dict[str, Any] = json.loads(line)
        return event

    def until_ended(self) -> list[dict[str, Any]]:
        events = [self.event()]
        while events[-1]["event"] != "ended":
            events.append(self.event())
        return events

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_output_and_exit_code_come_back(code: int) -> None:
    with Child() as child:
        child.plan(*python(f"import sys; print('to out'); print('to err', file=sys.stderr); sys.exit({code})"))
        started, *lines, ended = child.until_ended()
        assert started == {"job": "battery", "event": "started"}
        assert sorted(each["text"] for each in lines) == ["to err", "to out"]
        assert (ended["code"], ended["overrun"]) == (code, False)


def test_a_command_that_does_not_exist_is_told() -> None:
    with Child() as child:
        child.plan("/no/such/program")
        _, line, ended = child.until_ended()
        assert line["text"] == "/no/such/program: No such file or directory"
        assert ended["code"] == 127


def test_its_environment_is_what_the_plan_says() -> None:
    with Child() as child:
        child.plan(*python("import os; print(sorted(os.environ))"), environment={"GIVEN": "1"})
        _, line, _ = child.until_ended()
        assert "GIVEN" in line["text"]
        assert "HOME" not in line["text"]


def test_endless_output_and_endless_lines_are_cut() -> None:
    with Child() as child:
        child.plan(*python("print('x' * 5_000_000)\nfor i in range(3000): print(i)"))
        events = child.until_ended()
        texts = [each["text"] for each in events if each["event"] == "line"]
        assert len(texts) <= 1_000
        assert max(map(len, texts)) <= 2_000
        assert "0" in texts


@pytest.mark.parametrize(("ignores", "code"), [(False, -signal.SIGTERM), (True, -signal.SIGKILL)])
def test_a_run_that_takes_too_long_is_ended_with_all_that_it_started(ignores: bool, code: int) -> None:
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if ignores else ""
    script = (
        f"{ignore}import subprocess, sys, time;"
        " child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)']);"
        " print(child.pid, flush=True); time.sleep(100)"
    )
    with Child() as child:
        child.plan(*python(script), limit_s=1.5)
        _, line, *_, ended = child.until_ended()
        assert (ended["code"], ended["overrun"]) == (code, True)
        assert until_gone(int(line["text"]))


@pytest.mark.parametrize(("then", "code", "overrun"), [("", 0, False), ("; sleep 100", -signal.SIGTERM, True)])
def test_a_grandchild_that_keeps_the_pipe_open_keeps_no_run_open(then: str, code: int, overrun: bool) -> None:
    began = time.monotonic()
    with Child() as child:
        child.plan("/bin/sh", "-c", f"setsid sleep 20 & echo $!; sleep 0.3{then}", limit_s=2.0)
        _, line, ended = child.until_ended()
        assert time.monotonic() - began < 10
        assert (ended["code"], ended["overrun"]) == (code, overrun)
        assert ended["seconds"] < 5
        os.kill(int(line["text"]), signal.SIGKILL)


SLEEPER = python("import os, time; print(os.getpid(), flush=True); time.sleep(1000)")


def test_what_runs_dies_when_the_service_lets_go_of_the_scheduler() -> None:
    with Child() as child:
        child.plan(*SLEEPER)
        child.event()
        pid = int(child.event()["text"])
        assert is_running(pid)
    assert until_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux kills the children of a killed scheduler")
def test_what_runs_dies_when_the_scheduler_is_killed() -> None:
    with Child() as child:
        child.plan(*SLEEPER)
        child.event()
        pid = int(child.event()["text"])
        child.process.kill()
        assert until_gone(pid)


def test_what_was_for_this_run_only_is_removed_when_the_service_is_gone(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "state").write_text("how far it is")
    with Child() as child:
        child.plan(*SLEEPER, scratch=str(scratch))
        child.event()
        assert scratch.exists()
    assert not scratch.exists()
    assert tmp_path.exists()


def test_signals_to_the_whole_group_are_left_to_the_service() -> None:
    with Child() as child:
        child.plan(*SLEEPER)
        child.event()
        pid = int(child.event()["text"])
        for each in (signal.SIGTERM, signal.SIGINT):
            child.process.send_signal(each)
        time.sleep(0.2)
        assert child.process.poll() is None
        assert is_running(pid)


def test_without_a_plan_it_ends_quietly_with_the_service() -> None:
    for _ in range(scaled(1, 20)):
        with Child() as child:
            pass
        assert child.process.returncode == 0
