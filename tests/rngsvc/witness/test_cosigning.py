"""The service and its witnesses, each a real process: cosignatures come in beside the deal, and receipts carry them."""

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from rngsvc.client import SyncClient
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.signed_note import SignedNote
from rngsvc.protocol.verify import Outcome, verify

RNGSVC = [sys.executable, "-m", "rngsvc"]
PATIENCE_S = 30


@contextmanager
def running(*arguments: str) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    """Run a command that prints one JSON line when it is ready."""
    process = subprocess.Popen([*RNGSVC, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line), process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def rngsvc(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([*RNGSVC, *arguments], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def cosigned_size(url: str) -> int:
    try:
        with urlopen(f"{url}/cosigned-checkpoint", timeout=5) as answer:
            return int(answer.read().decode().split("\n")[1])
    except HTTPError as error:
        if error.code != 404:
            raise
        return 0


class Room:
    """A service with two witnesses, both of whom make the quorum."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.log_key = rngsvc(
            "keygen", "log", "--origin", "cardroom.example/rng", "-o", str(folder / "log.key")
        ).strip()
        rngsvc("keygen", "seeds", "-o", str(folder / "seeds.key"))
        self.witnesses = []
        lines = [f"log {self.log_key}"]
        for name in ("W1", "W2"):
            rngsvc("keygen", "witness", "--name", f"witness.example/{name}", "-o", str(folder / f"{name}.key"))
            ready, process = stack.enter_context(self.witness(name))
            self.witnesses.append(process)
            lines.append(f"witness {name} {ready['key']} {ready['url']}")
        self.policy = folder / "policy"
        self.policy.write_text("\n".join([*lines, "group both all W1 W2", "quorum both", ""]))
        self.service, _ = stack.enter_context(
            running(
                "serve",
                "--origin=cardroom.example/rng",
                f"--signing-key=file:{folder / 'log.key'}",
                f"--key-encryption-key=file:{folder / 'seeds.key'}",
                f"--store=sqlite:{folder / 'log.sqlite3'}",
                "--listen=127.0.0.1:0",
                "--http-public=127.0.0.1:0",
                "--http-operator=127.0.0.1:0",
                f"--witness-policy={self.policy}",
                "--witness-interval-s=0.1",
                "--log-level=error",
            )
        )

    def witness(self, name: str):
        return running(
            "witness",
            "serve",
            f"--name=witness.example/{name}",
            f"--key=file:{self.folder / name}.key",
            f"--state={self.folder / name}.sqlite3",
            f"--log-key={self.log_key}",
            "--listen=127.0.0.1:0",
        )

    def play(self, client: SyncClient) -> bytes:
        hand = client.register_table(secrets.token_bytes(16)).reserve()
        hand.seal(52, {})
        hand.open(0, [0, 1])
        hand.close()
        return hand.receipt(seen=[(0, 0), (0, 1)])


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with ExitStack() as stack:
        yield Room(tmp_path, stack)


def test_receipts_are_upgraded_to_checkpoints_that_a_quorum_of_witnesses_has_cosigned(room: Room) -> None:
    with SyncClient.connect(room.service["grpc"], log_key=room.log_key) as client:
        receipt = room.folder / "receipt.json"
        receipt.write_bytes(room.play(client))
        size = client.newest_checkpoint.size
    policy = Policy.parse(room.policy.read_bytes())

    # Before: the log alone has signed.
    assert verify(receipt.read_bytes(), room.log_key, policy=policy).step("witnesses").outcome is Outcome.FAILED
    rngsvc("verify", str(receipt), "--log-key", room.log_key)
    rngsvc("verify", str(receipt), "--log-key", room.log_key, "--policy", str(room.policy), code=1)

    until(lambda: cosigned_size(room.service["http"]) >= size)
    upgraded = room.folder / "upgraded.json"
    rngsvc("log", "upgrade", str(receipt), "--url", room.service["http"], "-o", str(upgraded))
    assert "W1, W2" in rngsvc("verify", str(upgraded), "--log-key", room.log_key, "--policy", str(room.policy))
    report = verify(upgraded.read_bytes(), room.log_key, policy=policy)
    assert not report.failures
    assert report.step("openings").outcome is Outcome.CHECKED


def test_a_witness_that_is_gone_never_holds_up_a_hand_and_catches_up_when_it_is_back(room: Room) -> None:
    with SyncClient.connect(room.service["grpc"], log_key=room.log_key) as client:
        until(lambda: cosigned_size(room.service["http"]) > 0)
        before = cosigned_size(room.service["http"])
        room.witnesses[1].kill()
        room.witnesses[1].wait()
        started = time.monotonic()
        for _ in range(5):
            room.play(client)
        assert time.monotonic() - started < PATIENCE_S / 2
        assert client.newest_checkpoint.size > before
    time.sleep(0.5)
    stuck_at = cosigned_size(room.service["http"])
    assert stuck_at <= client.newest_checkpoint.size
    # It comes back at the address that the policy names, with what it remembers.
    url = Policy.parse(room.policy.read_bytes()).witnesses["W2"].url
    address = url.removeprefix("http://").rstrip("/")
    with running(
        "witness",
        "serve",
        "--name=witness.example/W2",
        f"--key=file:{room.folder / 'W2.key'}",
        f"--state={room.folder / 'W2.sqlite3'}",
        f"--log-key={room.log_key}",
        f"--listen={address}",
    ):
        until(lambda: cosigned_size(room.service["http"]) >= client.newest_checkpoint.size)
    with urlopen(f"{room.service['http']}/cosigned-checkpoint", timeout=5) as answer:
        note = SignedNote.parse(answer.read().decode())
    assert Policy.parse(room.policy.read_bytes()).verify_quorum(note) == {"W1", "W2"}
