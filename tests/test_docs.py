"""The commands in the pages are run as they stand there: a page that lies to a newcomer fails here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#:]+)\)")
PAGES = sorted(page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text())


def shell(script: str, cwd: Path) -> str:
    """Run a block as a reader would, with the project's commands on his path."""
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        check=False,
        cwd=cwd,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def serving(cwd: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """Run `rngsvc serve` while the block lasts; it must end cleanly."""
    process = subprocess.Popen([BIN / "rngsvc", "serve", *arguments], cwd=cwd, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_only_verbs_that_make_has() -> None:
    verbs = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b", (ROOT / "README.md").read_text()))
    assert {"run", "test"} <= named <= verbs


def test_the_first_start_of_the_operations_page_works_and_leads_to_the_audit_page(tmp_path: Path) -> None:
    # Keys are made in a token, with these very commands, by tests/rngsvc/keys/test_token.py.
    first_start, _token, change_of_key, tls, backup = blocks("docs/operations.md")
    setup, serve, rest = first_start.partition("rngsvc serve --config rngsvc.toml\n")
    assert serve
    assert not rest
    shell(setup, tmp_path)
    room = tmp_path / "room"
    shell(change_of_key, room)
    shell(tls, room)
    with serving(room, "--config", "rngsvc.toml", "--listen", "127.0.0.1:0", "--http-public", "127.0.0.1:0",
                 "--http-operator", "127.0.0.1:0") as service:  # fmt: skip
        receipt = room / "receipt.json"
        receipt.write_text(a_receipt(service))
        facts = {
            "http://HOST:PORT": service["http"],
            "HOST:PORT": service["grpc"],
            "LOG_KEY": f"'{service['log_key']}'",
            "--count 100000": "--count 1000",
        }
        # Witnesses are run, with these very commands, by tests/rngsvc/witness/test_cosigning.py.
        # The auditor's audit is run, with this very command, by tests/rngsvc/audit/test_auditor.py.
        verify, audit, going_on, checkpoint, _witness, _upgrade, _opening, sample = blocks("docs/audit.md")
        for block in (verify, audit.splitlines()[0], going_on, going_on, checkpoint, sample):
            for word, value in facts.items():
                block = block.replace(word, value)  # noqa: PLW2901
            shell(block, room)
        assert (room / "decks.bin").stat().st_size == 52_000
        shell(backup.replace("LOG_KEY", facts["LOG_KEY"]), room)
    # The store is read when no service holds it.
    shell(audit.splitlines()[2].replace("LOG_KEY", f"'{service['log_key']}'"), room)


def a_receipt(service: dict[str, str]) -> str:
    """Play a hand and return its receipt."""
    script = """
import secrets, sys
from rngsvc.client import SyncClient
with SyncClient.connect(sys.argv[1], log_key=sys.argv[2]) as client:
    hand = client.register_table(secrets.token_bytes(16)).reserve()
    hand.seal(52, {})
    hand.open(0, [0, 1, 2])
    hand.close()
    sys.stdout.buffer.write(hand.receipt(seen=[(0, 0), (0, 1), (0, 2)]))
"""
    arguments = [sys.executable, "-c", script, service["grpc"], service["log_key"]]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
