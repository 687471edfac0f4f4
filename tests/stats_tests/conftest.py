"""A service of one's own, started once for a module."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "rngsvc", "serve", "--ephemeral"],
        cwd=tmp_path_factory.mktemp("service"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        ready = json.loads(process.stdout.readline())
        yield ready["grpc"], ready["log_key"]
    finally:
        process.terminate()
        process.communicate(timeout=30)
