"""Mutual TLS on the real server: each role at each method, certificates that are no good, and their renewal."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rngsvc.commands.exit_codes import ExitCode
from rngsvc.errors import Reason
from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, Role
from rngsvc.v1 import shuffle_pb2
from tests.rngsvc.server.rpc import METHODS, Refusal, a_request, refusal
from tests.simulation.process import ServerProcess

# Written down from the interface's own comments (proto/), not from the code: who may call what.
PLAY = {Role.GAME_SERVER, Role.OPERATOR}
MAY: dict[str, set[Role]] = {
    **{method: PLAY for method in METHODS if "ShuffleService" in method},
    **{method: set(Role) for method in METHODS if "LogService" in method},
    "rngsvc.v1.AuditService/Sample": {Role.AUDITOR},
    "rngsvc.v1.AuditService/OpenHand": {Role.AUDITOR},
    "rngsvc.v1.AuditService/RecordResult": {Role.AUDITOR, Role.OPERATOR},
    "rngsvc.v1.AuditService/ListResults": {Role.AUDITOR, Role.MONITOR, Role.OPERATOR},
}
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority with a certificate for the server, for each role, and some that are no good."""
    folder = tmp_path_factory.mktemp("tls")
    make_ca(folder, NOW)
    issue_server(folder, "server", ["127.0.0.1", "localhost"], NOW)
    for role in Role:
        issue_client(folder, Identity(role, "casino"), NOW)
    issue_client(folder, Identity(Role.GAME_SERVER, "club"), NOW)
    issue_client(folder, Identity(Role.MONITOR, "late"), NOW - timedelta(days=91))
    strangers = folder / "strangers"
    make_ca(strangers, NOW)
    issue_client(strangers, Identity(Role.OPERATOR, "stranger"), NOW)
    for name, uris in {
        "no-uri": [],
        "other-uri": ["https://cardroom.example/operator"],
        "unknown-role": ["rngsvc://role/manager/casino"],
        "two-roles": ["rngsvc://role/monitor/casino", "rngsvc://role/operator/casino"],
        "empty-name": ["rngsvc://role/operator/"],
    }.items():
        issue_odd(folder, name, uris)
    return folder


def issue_odd(folder: Path, name: str, uris: list[str]) -> None:
    """A certificate of the same authority that says something odd about its holder."""
    ca = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    ca_key: Any = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    key = generate_private_key(SECP256R1())
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris] or [x509.DNSName("x.example")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(minutes=5))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))


def tls_flags(folder: Path) -> tuple[str, ...]:
    return (
        f"--tls-certificate={folder / 'server.pem'}",
        f"--tls-key={folder / 'server.key'}",
        f"--tls-client-ca={folder / 'ca.pem'}",
    )


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("served"), tls_flags(folder)) as server:
        yield server
        assert server.terminate() == ExitCode.OK


def channel(server: ServerProcess, folder: Path, name: str | None, within: str = ".") -> grpc.aio.Channel:
    """Connect with the certificate of that name, None for none."""
    shown = folder / within
    credentials = grpc.ssl_channel_credentials(
        (folder / "ca.pem").read_bytes(),
        (shown / f"{name}.key").read_bytes() if name else None,
        (shown / f"{name}.pem").read_bytes() if name else None,
    )
    return grpc.aio.secure_channel(server.ready["grpc"], credentials, options=[("grpc.use_local_subchannel_pool", 1)])


async def outcome(channel: grpc.aio.Channel, method: str, message: bytes) -> Refusal | None:
    """What the call was refused with; None if it was answered."""
    try:
        if METHODS[method][0].server_streaming:
            async for _ in channel.unary_stream(f"/{method}")(message, timeout=20):
                break
        else:
            await channel.unary_unary(f"/{method}")(message, timeout=20)
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    return None


def test_the_table_names_every_method() -> None:
    assert set(MAY) == set(METHODS)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_covers_its_methods_and_no_other(server: ServerProcess, folder: Path, role: Role) -> None:
    async def run() -> None:
        async with channel(server, folder, f"{role}-casino") as connected:
            for method in METHODS:
                told = await outcome(connected, method, a_request(method).SerializeToString())
                is_refused = told is not None and told.reason == Reason.WRONG_ROLE
                assert is_refused == (role not in MAY[method]), (method, told)
                if told and is_refused:
                    assert told.code is grpc.StatusCode.PERMISSION_DENIED
                    assert role in told.message

    asyncio.run(run())


def test_a_game_server_acts_on_its_own_tables_only(server: ServerProcess, folder: Path) -> None:
    p, table = shuffle_pb2, b"table of casino!"
    register = p.RegisterTableRequest(table=table, mode=p.MODE_SHOE, reveal=p.REVEAL_PUBLIC)
    reserve = p.ReserveHandsRequest(table=table, first_seq=1, count=1)
    lost = p.CloseHandRequest(table=table, seq=1, outcome=p.OUTCOME_LOST, reason="seed_lost")
    service = "rngsvc.v1.ShuffleService"

    async def run() -> None:
        async with (
            channel(server, folder, "game-server-casino") as casino,
            channel(server, folder, "game-server-club") as club,
            channel(server, folder, "operator-casino") as operator,
        ):
            assert await outcome(casino, f"{service}/RegisterTable", register.SerializeToString()) is None
            for method, request in (("RegisterTable", register), ("ReserveHands", reserve)):
                told = await outcome(club, f"{service}/{method}", request.SerializeToString())
                assert told
                assert (told.code, told.reason) == (grpc.StatusCode.PERMISSION_DENIED, Reason.NOT_YOUR_TABLE)
            assert await outcome(operator, f"{service}/ReserveHands", reserve.SerializeToString()) is None
            told = await outcome(casino, f"{service}/CloseHand", lost.SerializeToString())
            assert told
            assert told.reason == Reason.WRONG_ROLE
            assert await outcome(operator, f"{service}/CloseHand", lost.SerializeToString()) is None

    asyncio.run(run())


@pytest.mark.parametrize("name", ["no-uri", "other-uri", "unknown-role", "two-roles", "empty-name"])
def test_a_certificate_that_names_no_role_may_nothing(server: ServerProcess, folder: Path, name: str) -> None:
    async def run() -> None:
        async with channel(server, folder, name) as connected:
            for method in METHODS:
                told = await outcome(connected, method, a_request(method).SerializeToString())
                assert told, method
                assert (told.code, told.reason) == (grpc.StatusCode.UNAUTHENTICATED, Reason.UNAUTHENTICATED)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "within"),
    [(None, "."), ("monitor-late", "."), ("operator-stranger", "strangers")],
    ids=["no certificate", "an expired one", "one of an unknown authority"],
)
def test_without_a_good_certificate_there_is_no_connection(
    server: ServerProcess, folder: Path, name: str | None, within: str
) -> None:
    method = "rngsvc.v1.LogService/GetCheckpoint"

    async def run() -> None:
        async with channel(server, folder, name, within) as connected:
            told = await outcome(connected, method, b"")
            assert told
            assert told.code is grpc.StatusCode.UNAVAILABLE
        async with grpc.aio.insecure_channel(server.ready["grpc"]) as connected:
            told = await outcome(connected, method, b"")
            assert told
            assert told.code is grpc.StatusCode.UNAVAILABLE
        # The server is none the worse for it.
        async with channel(server, folder, "monitor-casino") as connected:
            assert await outcome(connected, method, b"") is None

    asyncio.run(run())


def test_renewed_certificates_are_taken_up_without_a_restart(folder: Path, tmp_path: Path) -> None:
    method = "rngsvc.v1.LogService/GetCheckpoint"
    live = tmp_path / "live"
    shutil.copytree(folder, live)
    renewed = tmp_path / "renewed"
    make_ca(renewed, NOW)
    issue_server(renewed, "server", ["127.0.0.1"], NOW)
    issue_client(renewed, Identity(Role.MONITOR, "casino"), NOW)

    async def run(server: ServerProcess) -> None:
        async with channel(server, folder, "monitor-casino") as before:
            assert await outcome(before, method, b"") is None
            for file in ("server.pem", "server.key", "ca.pem"):
                shutil.copy(renewed / file, live / file)
            async with channel(server, renewed, "monitor-casino") as after:
                assert await outcome(after, method, b"") is None
            # Who is connected stays so; who comes with a certificate of the old authority does not get in.
            assert await outcome(before, method, b"") is None
        async with channel(server, folder, "monitor-casino") as again:
            assert await outcome(again, method, b"")
        # Renewed one file after the other, as tools do: in between they do not go together, and the old ones stay.
        shutil.copy(folder / "server.key", live / "server.key")
        async with channel(server, renewed, "monitor-casino") as after:
            assert await outcome(after, method, b"") is None
        # Half a certificate leaves the last good ones in use.
        shutil.copy(renewed / "server.key", live / "server.key")
        (live / "server.pem").write_bytes((renewed / "server.pem").read_bytes()[:100])
        async with channel(server, renewed, "monitor-casino") as after:
            assert await outcome(after, method, b"") is None
        (live / "server.pem").unlink()
        async with channel(server, renewed, "monitor-casino") as after:
            assert await outcome(after, method, b"") is None

    with ServerProcess(tmp_path, tls_flags(live)) as server:
        asyncio.run(run(server))
        assert "is not the key of" in server.log_text
        assert "holds no PEM certificate" in server.log_text
        assert server.terminate() == ExitCode.OK


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:7443", "[::]:0", "cardroom.example:7443"])
def test_without_tls_only_loopback_is_listened_on(tmp_path: Path, address: str) -> None:
    server = ServerProcess(tmp_path, (f"--listen={address}",))
    refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == ExitCode.CONFIGURATION
    assert "loopback" in refused.stderr
    assert refused.stdout == ""
    assert not server.store.exists()
