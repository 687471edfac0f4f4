"""A real service with TLS and a witness, a dealer, real play, and a real Prometheus that watches, on this machine.

The dashboards' test and their pictures use it. Everything listens on loopback and ends with the block.
"""

import asyncio
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

from dealer.rooms import GAMES
from dealer.tokens import KEY_BYTES
from deploy.grafana.observed_players import play_at_a_dealer
from rngsvc.client import CallFailed, Client, Credentials, Shuffles
from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, Role
from rngsvc.keys.making import make_key_encryption_key, make_signing_key, make_witness_key

RULES: Final = tuple(Path(__file__).parent.parent / "prometheus" / f"{each}.rules.yml" for each in ("rngsvc", "dealer"))
_ORIGIN: Final = "cardroom.example/rng"
_WITNESS: Final = "witness.example/w1"
_PATIENCE_S: Final = 30
_DECKS: Final = (52, 52, 52, 36, 32)  # what the tables play with, in turns
_HANDS_BETWEEN_ABORTS: Final = 100


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the newest value of each series of ``expr``."""
        return self._data("query", {"query": expr})

    def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[dict[str, Any]]:
        """Return the values of each series of ``expr`` from ``start`` to ``end``, Unix times."""
        return self._data("query_range", {"query": expr, "start": start, "end": end, "step": step_s})

    def _data(self, what: str, parameters: Mapping[str, str | float]) -> list[dict[str, Any]]:
        with urlopen(f"{self.url}/api/v1/{what}?{urlencode(parameters)}", timeout=10) as answer:  # noqa: S310  (ours)
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result


@dataclass(frozen=True, slots=True)
class ObservedRoom:
    """A service and a dealer that Prometheus watches; ``folder`` holds the keys and certificates."""

    grpc: str
    operator: str
    dealer: str
    dealer_operator: str
    log_key: str
    folder: Path
    prometheus: Prometheus

    @asynccontextmanager
    async def client(self, role: Role) -> AsyncIterator[Client]:
        """Connect in ``role``."""
        name = self.folder / "ca" / f"{role}-one"
        credentials = Credentials(self.folder / "ca" / "ca.pem", name.with_suffix(".pem"), name.with_suffix(".key"))
        async with await Client.connect(self.grpc, log_key=self.log_key, credentials=credentials) as client:
            yield client


@contextmanager
def observed_room(folder: Path) -> Iterator[ObservedRoom]:
    """Run all of it while the block lasts."""
    now = datetime.now(UTC)
    make_ca(folder / "ca", now)
    issue_server(folder / "ca", "server", ["localhost", "127.0.0.1"], now)
    for role, name in ((Role.GAME_SERVER, "one"), (Role.AUDITOR, "one"), (Role.GAME_SERVER, "room")):
        issue_client(folder / "ca", Identity(role, name), now)
    log_key = make_signing_key(folder / "log.key", _ORIGIN).vkey
    make_key_encryption_key(folder / "seeds.key")
    make_witness_key(folder / "witness.key", _WITNESS)
    with ExitStack() as stack:
        witness = stack.enter_context(_announcing("rngsvc", "witness", "serve", *_witness_options(folder, log_key)))
        (folder / "policy").write_text(
            f"log {log_key}\nwitness W1 {witness['key']} {witness['url']}\nquorum W1\n", encoding="utf-8"
        )
        service = stack.enter_context(_announcing("rngsvc", "serve", *_service_options(folder)))
        dealer = stack.enter_context(_announcing("dealer", "serve", *_dealer_options(folder, log_key, service["grpc"])))
        prometheus = stack.enter_context(_prometheus(folder, service["operator"], dealer["operator"]))
        addresses = (service["grpc"], service["operator"], dealer["grpc"], dealer["operator"])
        yield ObservedRoom(*addresses, log_key, folder, prometheus)


def _witness_options(folder: Path, log_key: str) -> list[str]:
    return [
        f"--name={_WITNESS}",
        f"--key=file:{folder / 'witness.key'}",
        f"--state={folder / 'witness.sqlite3'}",
        f"--log-key={log_key}",
        "--listen=127.0.0.1:0",
    ]


def _service_options(folder: Path) -> list[str]:
    return [
        f"--origin={_ORIGIN}",
        f"--signing-key=file:{folder / 'log.key'}",
        f"--key-encryption-key=file:{folder / 'seeds.key'}",
        f"--store=sqlite:{folder / 'log.sqlite3'}",
        "--listen=127.0.0.1:0",
        "--http-public=127.0.0.1:0",
        "--http-operator=127.0.0.1:0",
        f"--tls-certificate={folder / 'ca' / 'server.pem'}",
        f"--tls-key={folder / 'ca' / 'server.key'}",
        f"--tls-client-ca={folder / 'ca' / 'ca.pem'}",
        f"--witness-policy={folder / 'policy'}",
        "--log-level=error",
    ]


def _dealer_options(folder: Path, log_key: str, rngsvc: str) -> list[str]:
    token_key = folder / "token.key"
    token_key.touch(0o600)
    token_key.write_text(secrets.token_hex(KEY_BYTES))
    return [
        "--listen=127.0.0.1:0",
        "--http-operator=127.0.0.1:0",
        "--drain-s=0",
        f"--rngsvc={rngsvc}",
        f"--log-key={log_key}",
        f"--auditor-x25519={'07' * 32}",
        f"--auditor-ed25519={'09' * 32}",
        f"--store=sqlite:{folder / 'tables.sqlite3'}",
        f"--token-key={token_key}",
        "--grant=100000000",
        f"--rngsvc-ca={folder / 'ca' / 'ca.pem'}",
        f"--rngsvc-certificate={folder / 'ca' / 'game-server-room.pem'}",
        f"--rngsvc-key={folder / 'ca' / 'game-server-room.key'}",
    ]


@contextmanager
def _announcing(*arguments: str) -> Iterator[dict[str, str]]:
    """Run a command of ours that prints one JSON line when it is ready; yield the line."""
    command = [sys.executable, "-m", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  (our own command)
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE_S)


@contextmanager
def _prometheus(folder: Path, service: str, dealer: str) -> Iterator[Prometheus]:
    """Run Prometheus with the alert rules, looking every second so that a short run shows something."""
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in RULES],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [pages.removeprefix("http://")], "labels": labels}]}
            for job, pages, labels in (
                ("rngsvc", service, {"log": "main"}),
                ("dealer", dealer, {"log": "main", "room": "main"}),
            )
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(configuration), encoding="utf-8")  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command)  # noqa: S603  (the system's own Prometheus)
    prometheus = Prometheus(f"http://{address}")
    try:
        _wait_for(prometheus)
        yield prometheus
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def _wait_for(prometheus: Prometheus) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            if len(prometheus.query("up == 1")) == 2:
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"Prometheus has not scraped service and dealer within {_PATIENCE_S} s")
        time.sleep(0.2)


# --- Play ---


async def play(room: ObservedRoom, seconds: float, tables: int) -> None:
    """Play hands at up to ``tables`` tables of a game server and some of the dealer, and audit the room beside it."""
    ends = time.monotonic() + seconds
    async with (
        room.client(Role.GAME_SERVER) as game_server,
        room.client(Role.AUDITOR) as auditor,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(_audit(auditor, game_server, ends))
        token_key = bytes.fromhex((room.folder / "token.key").read_text())
        group.create_task(play_at_a_dealer(room.dealer, token_key, max(len(GAMES), tables // 2), seconds))
        for number in range(tables):
            # Later tables open later, so that the graphs show a load that grows.
            begins = time.monotonic() + seconds * 0.6 * number / tables
            group.create_task(_table(game_server, number, begins, ends))


async def _table(client: Client, number: int, begins: float, ends: float) -> None:
    await asyncio.sleep(max(0.0, begins - time.monotonic()))
    table = await client.register_table(secrets.token_bytes(16))
    items = _DECKS[number % len(_DECKS)]
    played = number * 7  # tables do not abort in step
    while time.monotonic() < ends:
        played += 1
        hand = await table.reserve()
        shuffle = await hand.seal(items, {})
        await hand.open(0, range(6))
        if played % _HANDS_BETWEEN_ABORTS == 0:
            await hand.close("aborted", "misdeal" if played % 3 else "players_left")
            continue
        if played % 5 == 0:  # the stub is shuffled anew
            stub = await hand.reshuffle((shuffle.k, place) for place in range(12, items))
            await hand.open(stub.k, [0])
        await asyncio.sleep(0.02)
        await hand.close()


async def _audit(auditor: Client, game_server: Client, ends: float) -> None:
    """Hand in a daily result on a sample; then take samples, and ask for hands that are not there."""
    sample_id = secrets.token_bytes(16)
    sample = await auditor.audit.sample(Shuffles(52, 2000), sample_id)
    async for _chunk in sample:
        pass
    assert sample.summary, "it was read to its end"
    await auditor.audit.record_integrity(sample_id, sample.summary.sha256, "a trial report\n", "pass")
    while time.monotonic() < ends:
        await auditor.log.checkpoint()
        with suppress(CallFailed):
            await game_server.hand(secrets.token_bytes(16), 1)
        async for _chunk in await auditor.audit.sample(Shuffles(36, 200)):
            pass
        await asyncio.sleep(0.5)
