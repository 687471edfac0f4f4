"""Two real processes and a real PostgreSQL: the standby takes over, nothing answered is lost, nothing forks."""

import itertools
import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

from rngsvc.client import SyncClient
from rngsvc.client.errors import CallFailed
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from tests.postgres import Postgres, postgres
from tests.scale import scaled

TAKEOVER_S = 10


class Node:
    """A service process on the shared store; its ready line comes when it becomes the active one."""

    def __init__(self, folder: Path, address: str, port: int, *flags: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "rngsvc", "serve"),
                "--origin=cardroom.example/rng",
                f"--signing-key=file:{folder / 'log.key'}",
                f"--key-encryption-key=file:{folder / 'seeds.key'}",
                f"--store={address}",
                f"--listen=127.0.0.1:{port}",
                *("--http-public=127.0.0.1:0", "--http-operator=127.0.0.1:0", "--log-level=error"),
                *flags,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ready: Queue[dict[str, str]] = Queue()
        threading.Thread(target=self._wait_for_ready, daemon=True).start()

    def _wait_for_ready(self) -> None:
        assert self.process.stdout
        if line := self.process.stdout.readline():
            self.ready.put(json.loads(line))

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def nodes() -> Iterator[list[Node]]:
    running: list[Node] = []
    try:
        yield running
    finally:
        for node in running:
            node.end()


def make_keys(folder: Path) -> str:
    make_key_encryption_key(folder / "seeds.key")
    return make_signing_key(folder / "log.key", "cardroom.example/rng").vkey


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Player:
    """A game server that plays hand after hand over whichever node answers, and remembers what it was told."""

    def __init__(self, ports: list[int], log_key: str) -> None:
        self.target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
        self.log_key = log_key
        self.told: dict[tuple[bytes, int], tuple[bytes, ...]] = {}
        self.failure: BaseException | None = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            with SyncClient.connect(self.target, log_key=self.log_key, timeout_s=60) as client:
                table = client.register_table(secrets.token_bytes(16))
                while not self.stop.is_set():
                    hand = table.reserve()
                    hand.seal(52, {})
                    opened = hand.open(0, [0, 1, 2])
                    hand.close()
                    self.told[table.id, hand.seq] = (hand.commitment, *(bytes([card.item]) for card in opened))
        except BaseException as error:  # noqa: BLE001  (told to the test)
            self.failure = error


@pytest.mark.timeout(0)
def test_a_killed_node_is_followed_by_its_standby_again_and_again(tmp_path: Path) -> None:
    log_key = make_keys(tmp_path)
    address = postgres().address()
    ports = [free_port(), free_port()]
    turns = itertools.cycle(ports)
    with nodes() as running:
        active = Node(tmp_path, address, next(turns), "--standby=true")
        running.append(active)
        assert active.ready.get(timeout=60)["log_key"] == log_key
        players = [Player(ports, log_key) for _ in range(4)]
        for player in players:
            player.thread.start()
        takeovers = []
        for _ in range(scaled(3, 20)):
            standby = Node(tmp_path, address, next(turns), "--standby=true")
            running.append(standby)
            time.sleep(1.5)  # it has started, and waits
            assert standby.ready.empty(), "a standby serves nothing while the active node lives"
            killed_at = time.monotonic()
            active.process.kill()
            url = standby.ready.get(timeout=60)["http"]
            takeovers.append(time.monotonic() - killed_at)
            active.end()
            active = standby
            time.sleep(1.0)
        for player in players:
            player.stop.set()
        for player in players:
            player.thread.join(90)
            assert player.failure is None, player.failure
            assert player.told
        print("takeover seconds:", " ".join(f"{each:.2f}" for each in takeovers))
        assert max(takeovers) < TAKEOVER_S

        # Everything that anybody was told is there, and the whole log audits clean.
        with SyncClient.connect(players[0].target, log_key=log_key) as client:
            for (table, seq), (commitment, *items) in [item for player in players for item in player.told.items()]:
                hand = client.hand(table, seq)
                assert hand.commitment == commitment
                assert hand.state == "closed"
                hand.seal(52, {})
                assert [bytes([card.item]) for card in hand.open(0, [0, 1, 2])] == items
        audited = subprocess.run(
            [sys.executable, "-m", "rngsvc", "audit", url, "--log-key", log_key, "--json"],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert audited.returncode == 0, audited.stdout + audited.stderr


def test_a_second_node_that_is_no_standby_is_refused(tmp_path: Path) -> None:
    make_keys(tmp_path)
    address = postgres().address()
    with nodes() as running:
        first = Node(tmp_path, address, free_port())
        running.append(first)
        first.ready.get(timeout=60)
        second = Node(tmp_path, address, free_port())
        running.append(second)
        _, logged = second.process.communicate(timeout=60)
        assert second.process.returncode == ExitCode.STOPPED
        assert "a log has one writer" in logged


def test_an_idle_node_whose_database_goes_away_stops_by_itself(tmp_path: Path) -> None:
    make_keys(tmp_path)
    server = Postgres()
    try:
        with nodes() as running:
            node = Node(tmp_path, server.address(), free_port())
            running.append(node)
            node.ready.get(timeout=60)
            server.stop("fast")
            assert node.process.wait(30) == ExitCode.STOPPED
            assert node.process.stderr
            assert "the store cannot be reached" in node.process.stderr.read()
            server.start()
    finally:
        server.remove()


def test_a_node_whose_database_crashes_stops_and_its_successor_has_everything(tmp_path: Path) -> None:
    log_key = make_keys(tmp_path)
    server = Postgres()
    try:
        address, port = server.address(), free_port()
        with nodes() as running:
            first = Node(tmp_path, address, port)
            running.append(first)
            first.ready.get(timeout=60)
            with SyncClient.connect(f"127.0.0.1:{port}", log_key=log_key, timeout_s=5) as client:
                table = client.register_table(secrets.token_bytes(16))
                hand = table.reserve()
                server.stop("fast")
                with pytest.raises(CallFailed):
                    hand.seal(52, {})
            assert first.process.wait(30) == ExitCode.STOPPED
            server.start()
            second = Node(tmp_path, address, port)
            running.append(second)
            second.ready.get(timeout=60)
            with SyncClient.connect(f"127.0.0.1:{port}", log_key=log_key) as client:
                again = client.hand(table.id, hand.seq)
                assert again.commitment == hand.commitment
                again.seal(52, {})
                again.close()
    finally:
        server.remove()
