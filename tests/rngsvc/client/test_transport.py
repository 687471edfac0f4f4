"""Between client and service: a service that restarts, mutual TLS with roles, many callers at once."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rngsvc.client import Bits, Client, Credentials, SyncClient, Table, errors
from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, Role
from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.conftest import RunningService, serve_ephemeral
from tests.scale import scaled

# --- Restarts ---


@contextmanager
def serving(folder: Path, port: int) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """Run a service on the keys and the store in ``folder``; yield its port and its process."""
    command = [sys.executable, "-m", "rngsvc", "serve", "--listen", f"127.0.0.1:{port}", "--origin", "again.example"]
    for name, value in (
        ("signing-key", f"file:{folder / 'log.key'}"),
        ("key-encryption-key", f"file:{folder / 'seeds.key'}"),
        ("store", f"sqlite:{folder / 'log.sqlite3'}"),
        ("http-public", "127.0.0.1:0"),
        ("http-operator", "127.0.0.1:0"),
        ("log-level", "error"),
    ):
        command += [f"--{name}", value]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split('"grpc": "127.0.0.1:')[1].split('"')[0]), process
        finally:
            process.kill()


def test_a_hand_survives_the_service_and_a_call_waits_for_its_return(tmp_path: Path) -> None:
    key = make_signing_key(tmp_path / "log.key", "again.example").vkey
    make_key_encryption_key(tmp_path / "seeds.key")
    with serving(tmp_path, 0) as (port, process):
        client = SyncClient.connect(f"127.0.0.1:{port}", log_key=key, timeout_s=30)
        hand = client.register_table(os.urandom(16)).reserve()
        leaves = hand.seal(52).leaves
        (before,) = hand.open(0, [4])
        process.kill()
    with client, ThreadPoolExecutor(1) as thread:
        answer = thread.submit(hand.open, 0, [4, 5])  # while the service is away
        with serving(tmp_path, port):
            assert before in answer.result(30)
            assert hand.seal(52).leaves == leaves
            assert hand.close().outcome == "complete"


def test_a_service_that_stays_away_is_unavailable_when_the_time_is_over() -> None:
    with pytest.raises(errors.Unavailable):
        SyncClient.connect("127.0.0.1:1", log_key=NoteKey("nowhere.example", bytes(32)).vkey, timeout_s=0.3)


# --- Mutual TLS ---


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ca")
    now = datetime.now(UTC)
    make_ca(folder, now)
    issue_server(folder, "server", ["localhost", "127.0.0.1"], now)
    for role, name in (
        (Role.GAME_SERVER, "one"),
        (Role.GAME_SERVER, "two"),
        (Role.AUDITOR, "lab"),
        (Role.MONITOR, "m"),
    ):
        issue_client(folder, Identity(role, name), now)
    return folder


@pytest.fixture(scope="module")
def tls_service(authority: Path) -> Iterator[RunningService]:
    yield from serve_ephemeral(
        "--tls-certificate", str(authority / "server.pem"),
        "--tls-key", str(authority / "server.key"),
        "--tls-client-ca", str(authority / "ca.pem"),
    )  # fmt: skip


def as_(authority: Path, name: str) -> Credentials:
    return Credentials(authority / "ca.pem", authority / f"{name}.pem", authority / f"{name}.key")


def client_as(service: RunningService, authority: Path, name: str) -> SyncClient:
    return SyncClient.connect(service.grpc, log_key=service.log_key, credentials=as_(authority, name))


def test_a_game_server_plays_at_its_own_tables_only(tls_service: RunningService, authority: Path) -> None:
    with (
        client_as(tls_service, authority, "game-server-one") as one,
        client_as(tls_service, authority, "game-server-two") as two,
    ):
        table = one.register_table(os.urandom(16))
        hand = table.reserve()
        hand.seal(52)
        with pytest.raises(errors.PermissionDenied) as raised:
            two.hand(table.id, hand.seq)
        assert raised.value.reason == "NOT_YOUR_TABLE"
        assert hand.close().outcome == "complete"


def test_roles_have_their_calls(tls_service: RunningService, authority: Path) -> None:
    with client_as(tls_service, authority, "auditor-lab") as auditor:
        assert sum(map(len, auditor.audit.sample(Bits(1000)))) == 1000
        with pytest.raises(errors.PermissionDenied) as raised:
            auditor.register_table(os.urandom(16))
        assert raised.value.reason == "WRONG_ROLE"
    with client_as(tls_service, authority, "monitor-m") as monitor:
        assert monitor.log.entry(0).index == 0
        with pytest.raises(errors.PermissionDenied):
            list(monitor.audit.sample(Bits(1000)))


def test_who_has_no_certificate_of_ours_is_not_let_in(
    tls_service: RunningService, authority: Path, tmp_path: Path
) -> None:
    make_ca(tmp_path, datetime.now(UTC))
    stranger = issue_client(tmp_path, Identity(Role.GAME_SERVER, "one"), datetime.now(UTC))
    credentials = Credentials(authority / "ca.pem", tmp_path / f"{stranger}.pem", tmp_path / f"{stranger}.key")
    for each in (credentials, None):
        with pytest.raises(errors.Unavailable):
            SyncClient.connect(tls_service.grpc, log_key=tls_service.log_key, credentials=each, timeout_s=1)


def test_a_server_with_another_authoritys_certificate_is_not_called(
    tls_service: RunningService, authority: Path, tmp_path: Path
) -> None:
    make_ca(tmp_path, datetime.now(UTC))
    mine = as_(authority, "game-server-one")
    credentials = Credentials(tmp_path / "ca.pem", mine.certificate_file, mine.key_file)
    with pytest.raises(errors.Unavailable):
        SyncClient.connect(tls_service.grpc, log_key=tls_service.log_key, credentials=credentials, timeout_s=1)


# --- Many at once ---


async def play(table: Table, hands: int) -> None:
    for _ in range(hands):
        hand = await table.reserve()
        await hand.seal(52)
        await hand.open(0, range(5))
        await hand.reshuffle([(0, 40), (0, 41)])
        await hand.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("consistency", ["always", "sampled"])
async def test_many_tables_share_a_client(service: RunningService, consistency: str) -> None:
    """Answers overtake each other, so that checkpoints come in any order; all are of one log."""
    async with await Client.connect(service.grpc, log_key=service.log_key, consistency=consistency) as client:
        tables = await asyncio.gather(*[client.register_table(os.urandom(16)) for _ in range(32)])
        await asyncio.gather(*[play(table, scaled(2, 50)) for table in tables])
        assert all(not table.chain.loose for table in tables)


def test_threads_share_a_blocking_client(service: RunningService) -> None:
    with (
        SyncClient.connect(service.grpc, log_key=service.log_key, consistency="always") as client,
        ThreadPoolExecutor(8) as threads,
    ):

        def play_some(_: int) -> int:
            for _ in range(scaled(3, 50)):
                hand = client.register_table(os.urandom(16)).reserve()
                hand.seal(52)
                hand.open(0, [1])
                hand.close()
            return hand.seq

        assert list(threads.map(play_some, range(8))) == [1] * 8
