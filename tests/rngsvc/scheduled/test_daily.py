"""The daily checks of a real service: the audit of its own log, and the battery that its scheduler runs."""

import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rngsvc.client import SyncClient
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.config import Address
from rngsvc.daily_runs import COMMAND, LOG_AUDIT, LogAudit, Place, ScheduledRuns, command_job, faults_in
from rngsvc.keys.making import make_signing_key
from rngsvc.metrics import Metrics
from rngsvc.protocol.entries import IntegrityEntry, parse_entry
from rngsvc.self_checks import DAILY_WITHIN_MS
from rngsvc.serve import _count_run, _reached_from_here
from tests.rngsvc.scheduled.test_scheduler import is_running, until_gone
from tests.rngsvc.service.world import START_MS, FakeClock, running
from tests.simulation.process import ServerProcess

PATIENCE_S = 90
BATTERY = (
    f"{sys.executable} -m stats_tests daily --rngsvc {{grpc}} --log-key {{log_key}}"
    " --count 2000 --time 2026-11-29T12:00:00Z"
)
SLEEPER = f"{sys.executable} -c 'import os, time; print(os.getpid(), flush=True); time.sleep(1000)'"


# --- What the service makes of it ---


def report(**changes: Any) -> dict[str, Any]:
    return {"log_faults": [], "findings": [], "finding_count": 0, "size": 10, **changes}


def finding(check: str) -> dict[str, Any]:
    return {"check": check, "index": 7, "message": "why", "table": None, "seq": None}


@pytest.mark.parametrize(
    ("said", "faults"),
    [
        (report(), ()),
        (report(log_faults=["tile/0/000: x"]), ("tile/0/000: x",)),
        (report(findings=[finding("chain")], finding_count=1), ("entry 7: chain: why",)),
        (report(findings=[finding("integrity"), finding("aborts")], finding_count=2), ()),
        (report(findings=[finding("verdict"), finding("overdue")], finding_count=2), ()),
        (report(findings=[finding("aborts")], finding_count=2), ("2 findings, more than are listed",)),
    ],
)
def test_what_an_audit_finds_is_damage_or_has_an_alarm_of_its_own(said: dict[str, Any], faults: tuple[str]) -> None:
    assert faults_in(said) == faults


@pytest.mark.parametrize(
    ("audit", "later_ms", "trouble"),
    [
        (LogAudit(START_MS), DAILY_WITHIN_MS, None),
        (LogAudit(START_MS), DAILY_WITHIN_MS + 1, "26 hours"),
        (LogAudit(START_MS, 9, "pass"), 0, None),
        (LogAudit(START_MS, 9, "pass"), DAILY_WITHIN_MS + 1, "26 hours"),
        (LogAudit(START_MS, 9, "fail", ("tile/0/000: x",)), 0, "tile/0/000: x"),
    ],
)
def test_trouble_is_damage_or_an_audit_that_does_not_come(audit: LogAudit, later_ms: int, trouble: str | None) -> None:
    found = audit.trouble(START_MS + later_ms)
    assert (found is None) == (trouble is None)
    assert trouble is None or trouble in (found or "")


def test_the_command_line_is_told_where_the_service_is_and_no_shell_reads_it() -> None:
    job = command_job("daily --to {grpc} --key '{log_key}' '$HOME; ls'", {"grpc": "h:1", "log_key": "o+1+A=="}, 5, 60)
    assert job.argv == ("daily", "--to", "h:1", "--key", "o+1+A==", "$HOME; ls")
    assert (job.last_ms, job.limit_s) == (5, 60)


@pytest.mark.parametrize(
    ("bound", "reached"),
    [
        ("0.0.0.0:7443", "127.0.0.1:7443"),
        ("[::]:7443", "[::1]:7443"),
        ("10.1.2.3:7443", "10.1.2.3:7443"),
        ("localhost:1", "localhost:1"),
    ],
)
def test_a_service_that_listens_everywhere_is_reached_on_its_own_machine(bound: str, reached: str) -> None:
    assert str(_reached_from_here(Address.parse(bound))) == reached


def hears(folder: Path) -> tuple[ScheduledRuns, list[Any]]:
    told: list[Any] = []
    place = Place("http://127.0.0.1:1", "key", folder / "log.audit")
    runs = ScheduledRuns(
        child=None,  # type: ignore[arg-type]  # events come from the test
        place=place,
        audit=LogAudit(START_MS),
        clock=FakeClock(START_MS + 1),
        ended=lambda job, outcome, _began: told.append((job, outcome)),
        failed=told.append,
        gone=lambda: told.append("gone"),
    )
    return runs, told


def end(job: str, code: int, *, overrun: bool = False) -> Mapping[str, Any]:
    return {"job": job, "event": "ended", "code": code, "seconds": 1.0, "overrun": overrun}


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (end(COMMAND, 0), "done"),
        (end(COMMAND, 1), "done"),
        (end(COMMAND, 3), "failed"),
        (end(COMMAND, -9), "failed"),
        (end(COMMAND, -15, overrun=True), "overrun"),
        (end(LOG_AUDIT, 3), "failed"),
        (end(LOG_AUDIT, 0), "failed"),  # it left no report
    ],
)
def test_how_a_run_ends_is_counted(tmp_path: Path, event: Mapping[str, Any], outcome: str) -> None:
    runs, told = hears(tmp_path)
    runs.hear(event)
    assert told == [(event["job"], outcome)]
    assert runs.audit == LogAudit(START_MS)
    metrics = Metrics()
    metrics.run_ended(*told[0])
    labels = {"job": event["job"], "outcome": outcome}
    assert metrics.registry.get_sample_value("rngsvc_scheduled_runs_total", labels) == 1
    failing = metrics.registry.get_sample_value("rngsvc_scheduled_failing", {"job": event["job"]})
    assert failing == (outcome != "done")


def test_an_audit_that_ends_says_how_far_the_log_is_in_order(tmp_path: Path) -> None:
    runs, told = hears(tmp_path)
    runs.place.new_report.write_text(json.dumps(report(findings=[finding("aborts")], finding_count=1)))
    runs.hear(end(LOG_AUDIT, 1))
    assert runs.audit == LogAudit(START_MS + 1, 10, "pass")
    assert told == [(LOG_AUDIT, "done")]
    damaged = json.dumps(report(log_faults=["the entries do not give the signed root"])).encode()
    runs.place.new_report.write_bytes(damaged)
    runs.hear(end(LOG_AUDIT, 1))
    assert runs.audit.verdict == "fail"
    assert told[1:] == [damaged, (LOG_AUDIT, "done")]
    assert runs.place.report.read_bytes() == damaged


def test_the_report_of_an_audit_before_is_never_taken_for_one_that_left_none(tmp_path: Path) -> None:
    runs, told = hears(tmp_path)
    for left in ("read", "not read"):
        runs.place.new_report.write_text(json.dumps(report()))
        if left == "read":
            runs.hear(end(LOG_AUDIT, 0))
        runs.hear({"job": LOG_AUDIT, "event": "started"})
        runs.hear(end(LOG_AUDIT, 1))
        assert told[-1] == (LOG_AUDIT, "failed")


def test_a_state_that_the_audit_refuses_is_put_aside(tmp_path: Path) -> None:
    runs, told = hears(tmp_path)
    runs.place.state.write_text("no state")
    runs.hear(end(LOG_AUDIT, 2))
    assert told == [(LOG_AUDIT, "failed")]
    assert not runs.place.state.exists()
    assert (tmp_path / "log.audit.refused").read_text() == "no state"


@pytest.mark.parametrize(
    ("job", "outcome", "result_after_ms", "counted"),
    [
        (COMMAND, "done", 0, "done"),
        (COMMAND, "done", -1, "failed"),
        (COMMAND, "done", None, "failed"),
        (COMMAND, "failed", 0, "failed"),
        (COMMAND, "overrun", 0, "overrun"),
        (LOG_AUDIT, "done", None, "done"),
    ],
)
@pytest.mark.asyncio
async def test_a_command_that_has_handed_in_no_result_has_not_done_its_work(
    job: str, outcome: str, result_after_ms: int | None, counted: str
) -> None:
    """A traceback of Python ends with exit code 1, as a check that failed does."""
    metrics = Metrics()
    async with running() as world:
        await world.results.start(b"")
        if result_after_ms is not None:
            await world.results._integrity("daily", bytes(32), "pass")
        began_ms = world.clock.ms - (result_after_ms or 0)
        core: Any = SimpleNamespace(results=world.results)
        await _count_run(core, metrics, job, outcome, began_ms)
    assert metrics.registry.get_sample_value("rngsvc_scheduled_runs_total", {"job": job, "outcome": counted}) == 1
    assert metrics.registry.get_sample_value("rngsvc_scheduled_failing", {"job": job}) == (counted != "done")


@pytest.mark.asyncio
async def test_damage_is_logged_as_a_daily_check_that_failed() -> None:
    async with running() as world:
        await world.results.start(b"")
        logged = await world.results.log_damaged(b"a report")
        entry = parse_entry(logged.entry)
        assert isinstance(entry, IntegrityEntry)
        assert (entry.kind, entry.results) == ("daily", (sha256(b"a report").digest(), "fail"))
        world.sequencer.stop("its audit from outside would find this failed check")


# --- A real service ---


def status(server: ServerProcess) -> dict[str, Any]:
    with urlopen(f"{server.ready['http']}/status.json", timeout=10) as answer:
        read: dict[str, Any] = json.load(answer)["integrity"]
        return read


def figure(server: ServerProcess, name: str, **labels: str) -> float:
    with urlopen(f"{server.ready['operator']}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    (value,) = (
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    )
    return value


def until(says: Callable[[], Any], server: ServerProcess) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (said := says()):
        assert time.monotonic() < deadline, server.log_text[-3000:]
        time.sleep(0.2)
    return said


def play(server: ServerProcess, hands: int) -> None:
    with SyncClient.connect(server.ready["grpc"], log_key=server.ready["log_key"]) as client:
        table = client.register_table(os.urandom(16))
        for _ in range(hands):
            hand = table.reserve()
            hand.seal(52)
            hand.close()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service whose scheduler runs the battery."""
    folder = tmp_path_factory.mktemp("good")
    make_signing_key(folder / "result.key", "monitor")
    battery = f"{BATTERY} --key {folder / 'result.key'} --monitor {folder / 'monitor.json'}"
    server = ServerProcess(folder, ("--daily-jitter-s=0", f"--daily-command={battery}", "--log-level=info"))
    with server:
        play(server, 3)
        yield server


@pytest.fixture(scope="module")
def bad(good: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service with an entry that somebody has altered, deep in its log, and a command that never ends."""
    server = ServerProcess(tmp_path_factory.mktemp("bad"), ("--daily-jitter-s=0", f"--daily-command={SLEEPER}"))
    with server:
        play(server, 100)
        assert server.terminate() == 0
    with sqlite3.connect(server.store) as store:
        ((raw,),) = store.execute("SELECT entry FROM entry WHERE position = 10").fetchall()
        altered = re.sub(rb'("(?:used|first|seq)":)(\d)', lambda found: found[1] + b"%d" % (int(found[2]) % 9 + 1), raw)
        assert altered != raw
        store.execute("UPDATE entry SET entry = ? WHERE position = 10", (altered,))
    store.close()
    with replace(server, ready={}, flags=(*server.flags, "--log-level=info")) as server:
        yield server


def test_the_battery_that_the_scheduler_runs_is_logged_and_shown(good: ServerProcess, bad: ServerProcess) -> None:
    daily = until(lambda: status(good)["newest"].get("daily"), good)
    assert daily["verdict"] in {"pass", "undecided"}, "2000 decks are few"
    with SyncClient.connect(good.ready["grpc"], log_key=good.ready["log_key"]) as client:
        entry = client.audit.results()[0].entry
        assert isinstance(entry, IntegrityEntry)
        assert entry.kind == "daily"
    outcome = {"job": COMMAND, "outcome": "done" if daily["verdict"] == "pass" else "failed"}
    until(lambda: figure(good, "rngsvc_scheduled_runs_total", **outcome), good)
    assert '"text": "verdict: ' in good.log_text


def test_the_service_audits_its_own_log(good: ServerProcess, bad: ServerProcess) -> None:
    audit = until(lambda: status(good)["log_audit"], good)
    audit = until(lambda: (said := status(good)["log_audit"])["verdict"] and said, good)
    assert (audit["verdict"], audit["faults"], audit["trouble"]) == ("pass", [], "")
    assert audit["size"] >= 11
    until(lambda: figure(good, "rngsvc_log_audited_size") == audit["size"], good)
    assert figure(good, "rngsvc_log_audit_failed") == 0
    assert json.loads((good.folder / "log.sqlite3.audit").read_text())["size"] == audit["size"]


def test_a_log_that_was_altered_is_found_said_and_logged(bad: ServerProcess) -> None:
    audit = until(lambda: (said := status(bad)["log_audit"])["verdict"] and said, bad)
    assert audit["verdict"] == "fail"
    assert any("tile/0/000" in fault for fault in audit["faults"])
    daily = until(lambda: status(bad)["newest"].get("daily"), bad)
    assert daily["verdict"] == "fail"
    written = (bad.folder / "log.sqlite3.audit.report.json").read_bytes()
    with urlopen(f"{bad.ready['http']}/tile/entries/001.p/{daily['index'] + 1 - 256}", timeout=10) as answer:
        assert sha256(written).hexdigest().encode() in answer.read()
    until(lambda: figure(bad, "rngsvc_log_audit_failed"), bad)


def test_the_command_dies_with_a_service_that_is_killed(bad: ServerProcess) -> None:
    said = until(lambda: re.search(r'"job": "daily_command", "text": "(\d+)"', bad.log_text), bad)
    pid = int(said[1])
    assert is_running(pid)
    bad.kill()
    assert until_gone(pid)


def test_by_policy_damage_ends_signing_and_at_the_next_start_too(bad: ServerProcess) -> None:
    """Found by this service's own audit, or said in the log by the one before on the same store."""
    bad.kill()
    with replace(bad, ready={}, flags=("--integrity-policy=stop",)) as server:
        assert server.process
        assert server.process.stdout
        assert server.process.wait(PATIENCE_S) == ExitCode.STOPPED
        server.process.stdout.close()
        assert re.search("the daily check failed|the audit of the service's own log failed", server.log_text)
