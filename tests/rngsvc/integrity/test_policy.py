"""A daily check that fails: an alarm, or by policy the end of signing."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

import pytest

from rngsvc.client import Bits, SyncClient
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.status import integrity_trouble


@contextmanager
def service(policy: str) -> Iterator[tuple[dict[str, str], "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "rngsvc", "serve", "--ephemeral", f"--integrity-policy={policy}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline()), process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def hand_in(ready: dict[str, str], verdict: str) -> None:
    with SyncClient.connect(ready["grpc"], log_key=ready["log_key"]) as client:
        sample_id = hashlib.sha256(verdict.encode()).digest()[:16]
        sample = client.audit.sample(Bits(1000), sample_id)
        digest = hashlib.sha256(b"".join(sample)).digest()
        client.audit.record_integrity(sample_id, digest, "a signed report", verdict)


@pytest.mark.rule("DK-2")
def test_by_policy_a_failed_daily_check_ends_signing() -> None:
    with service("stop") as (ready, process):
        hand_in(ready, "pass")
        hand_in(ready, "fail")
        assert process.wait(60) == ExitCode.STOPPED
        assert process.stderr
        assert "the daily check failed (log entry 4)" in process.stderr.read()


@pytest.mark.rule("DK-2")
def test_without_it_the_service_goes_on_and_says_so() -> None:
    with service("alarm") as (ready, process):
        hand_in(ready, "fail")
        with urlopen(f"{ready['http']}/status.json", timeout=10) as answer:
            board = json.load(answer)
        assert board["signing"]["able"]
        assert process.poll() is None


@pytest.mark.parametrize(
    ("newest", "overdue", "log_audit", "trouble"),
    [
        ({}, False, "", None),
        ({"daily": {"verdict": "pass", "index": 9}}, False, "", None),
        ({"daily": {"verdict": "undecided", "index": 9}}, False, "", None),
        ({"daily": {"verdict": "fail", "index": 9}}, False, "", "failed (log entry 9)"),
        ({"daily": {"verdict": "pass", "index": 9}}, True, "", "26 hours"),
        ({}, True, "", "26 hours"),
        ({"daily": {"verdict": "pass", "index": 9}}, False, "the log was altered", "the log was altered"),
    ],
)
def test_trouble_is_a_failed_or_a_missing_daily_check(
    newest: object, overdue: bool, log_audit: str, trouble: str | None
) -> None:
    integrity = {"newest": newest, "daily_overdue": overdue, "log_audit": {"trouble": log_audit}}
    found = integrity_trouble({"integrity": integrity})
    assert (found is None) == (trouble is None)
    assert trouble is None or (found is not None and trouble in found)
