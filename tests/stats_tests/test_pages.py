"""The auditor's first hour is run as it stands on the page."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stats_tests.__main__ import COMMANDS
from stats_tests.power import LIMITS

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```sh( background)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def wait_for_a_line(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"nothing in {path}"
        time.sleep(0.1)


@pytest.mark.timeout(900)
def test_an_auditors_first_hour_runs_as_it_stands(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    background = []
    try:
        for in_background, script in BLOCK.findall((ROOT / "docs/audit-first-hour.md").read_text()):
            if in_background:
                background.append(subprocess.Popen(["sh", "-euc", f"exec {script}"], cwd=tmp_path, env=environment))
                wait_for_a_line(tmp_path / "service.json")
                continue
            done = subprocess.run(
                ["sh", "-euc", script],
                check=False,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=280,
            )
            assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    finally:
        for process in background:
            process.terminate()
            process.wait(timeout=30)
    for name in ("decks.json", "decks.json.note", "decks.html", "decks.pdf", "bits.json.note", "evidence.note"):
        assert (tmp_path / name).stat().st_size > 0
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) >= 4


@pytest.mark.parametrize("command", COMMANDS)
def test_the_pages_name_every_command(command: str) -> None:
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("audit-first-hour.md", "reading-a-report.md"))
    assert re.search(rf"stats_tests {command}\b", pages) or command in {"list", "completion"}


def test_the_limits_are_told() -> None:
    page = (ROOT / "docs/reading-a-report.md").read_text()
    for word in ("unpredictable", "24 bits", "SP 800-22"):
        assert word in page
        assert any(word in limit for limit in LIMITS)
