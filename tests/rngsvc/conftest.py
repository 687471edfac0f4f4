"""A real service as a child process, for every test that talks to one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class RunningService:
    """What a service says of itself when it is ready."""

    grpc: str
    http: str
    operator: str
    origin: str
    log_key: str
    auditor_keys: Path
    pid: int

    @property
    def folder(self) -> Path:
        """Where an ephemeral service keeps its keys and store."""
        return self.auditor_keys.parent


def serve_ephemeral(*flags: str) -> Iterator[RunningService]:
    """Start a service of its own, and end it by its process when the test is over."""
    command = [sys.executable, "-m", "rngsvc", "serve", "--ephemeral", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            ready.pop("tls")
            yield RunningService(
                **{**ready, "auditor_keys": Path(ready["auditor_keys"])},
                pid=process.pid,
            )
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="session")
def service() -> Iterator[RunningService]:
    """One service for all tests of a run; each test makes tables of its own."""
    yield from serve_ephemeral()
