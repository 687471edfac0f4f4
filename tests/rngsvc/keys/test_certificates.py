"""Mutual TLS with the development authority: who a client is, and who is not let in."""

import socket
import ssl
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from rngsvc.keys import development_ca
from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, IdentityRefused, Role
from rngsvc.keys.location import KeyUnavailable

NOW = datetime.now(UTC)
DEALER = Identity(Role.GAME_SERVER, "floor-2.table_7")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    make_ca(folder, NOW)
    issue_server(folder, "server", ["localhost", "127.0.0.1", "::1"], NOW)
    assert issue_client(folder, DEALER, NOW) == "game-server-floor-2.table_7"
    return folder


def handshake(server: Path, server_name: str, client: Path, client_name: str | None, host: str = "localhost") -> bytes:
    """Shake hands over a socket pair; return the client's certificate as PEM, as the server saw it."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server / f"{server_name}.pem", server / f"{server_name}.key")
    serving.load_verify_locations(server / "ca.pem")
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.verify_flags |= ssl.VERIFY_X509_STRICT
    calling = ssl.create_default_context(cafile=server / "ca.pem")
    calling.verify_flags |= ssl.VERIFY_X509_STRICT
    if client_name:
        calling.load_cert_chain(client / f"{client_name}.pem", client / f"{client_name}.key")
    seen: list[bytes | Exception] = []
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)

    def serve() -> None:
        try:
            with serving.wrap_socket(ours, server_side=True) as connection:
                der = connection.getpeercert(binary_form=True)
                assert der
                seen.append(ssl.DER_cert_to_PEM_cert(der).encode())
                connection.send(b"welcome")
        except OSError as error:
            seen.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with calling.wrap_socket(theirs, server_hostname=host) as connection:
            assert connection.recv(7) == b"welcome"
    finally:
        theirs.close()
        thread.join()
        ours.close()
    assert isinstance(seen[0], bytes), seen
    return seen[0]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_client_with_a_certificate_is_known_by_role_and_name(host: str, authority: Path) -> None:
    pem = handshake(authority, "server", authority, "game-server-floor-2.table_7", host)
    assert Identity.from_certificate(pem) == DEALER


def test_a_client_is_refused_without_a_certificate_or_with_anothers(authority: Path, tmp_path: Path) -> None:
    make_ca(tmp_path, NOW)
    issue_client(tmp_path, DEALER, NOW)
    issue_client(authority, Identity(Role.MONITOR, "old"), NOW - timedelta(days=91))
    for folder, name in [
        (authority, None),
        (tmp_path, "game-server-floor-2.table_7"),  # of another authority
        (authority, "monitor-old"),  # expired
        (authority, "server"),  # a server's certificate is no client's
    ]:
        with pytest.raises(ssl.SSLError):
            handshake(authority, "server", folder, name)


def test_a_client_refuses_a_server_of_another_name_or_with_a_clients_certificate(authority: Path) -> None:
    for name, host in [("server", "elsewhere.example"), ("game-server-floor-2.table_7", "localhost")]:
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(authority, name, authority, "game-server-floor-2.table_7", host)


def test_grpc_takes_the_certificates_and_shows_the_clients(authority: Path) -> None:
    def who(_: bytes, context: grpc.ServicerContext) -> bytes:
        return Identity.from_certificate(context.auth_context()["x509_pem_cert"][0]).uri.encode()

    def read(name: str) -> bytes:
        return (authority / name).read_bytes()

    server = grpc.server(ThreadPoolExecutor(1))
    handler = grpc.method_handlers_generic_handler("test", {"Who": grpc.unary_unary_rpc_method_handler(who)})
    server.add_generic_rpc_handlers((handler,))
    pair = (read("server.key"), read("server.pem"))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair], read("ca.pem"), True))
    server.start()
    try:
        client = grpc.ssl_channel_credentials(
            read("ca.pem"), read("game-server-floor-2.table_7.key"), read("game-server-floor-2.table_7.pem")
        )
        with grpc.secure_channel(f"127.0.0.1:{port}", client) as channel:
            assert channel.unary_unary("/test/Who")(b"", timeout=20) == DEALER.uri.encode()
    finally:
        server.stop(0).wait()


def test_keys_are_closed_and_nothing_is_overwritten(authority: Path) -> None:
    for key in authority.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = {path: path.read_bytes() for path in authority.iterdir()}
    for again in (
        lambda: make_ca(authority, NOW),
        lambda: issue_server(authority, "server", ["localhost"], NOW),
        lambda: issue_client(authority, DEALER, NOW),
    ):
        with pytest.raises(KeyUnavailable, match="exists already"):
            again()
    assert {path: path.read_bytes() for path in authority.iterdir()} == before


def test_without_an_authority_nothing_is_issued(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match=r"holds no readable ca\.pem and ca\.key"):
        issue_server(tmp_path, "server", ["localhost"], NOW)


# --- Identities ---


@given(role=st.sampled_from(Role), name=st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True))
def test_an_identity_is_read_back_from_its_uri(role: Role, name: str) -> None:
    assert Identity.from_uri(Identity(role, name).uri) == Identity(role, name)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "rngsvc://role/game-server/",
        "rngsvc://role/game-server",
        "rngsvc://role/dealer/x",
        "rngsvc://role/Auditor/x",
        "rngsvc://role/auditor/x/y",
        "rngsvc://role/auditor/x\n",
        "rngsvc://role/auditor/x y",
        "rngsvc://role/auditor/ä",
        "rngsvc://role//x",
        "rngsvc://other/auditor/x",
        "RNGSVC://role/auditor/x",
        "spiffe://role/auditor/x",
        " rngsvc://role/auditor/x",
        "rngsvc://role/auditor/" + "x" * 65,
    ],
)
def test_near_misses_are_refused(uri: str) -> None:
    with pytest.raises(IdentityRefused, match="must be"):
        Identity.from_uri(uri)


@pytest.mark.parametrize("name", ["", "x/y", "x y", "x" * 65, "..\n"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(IdentityRefused, match="name: must be 1 to 64"):
        Identity(Role.OPERATOR, name)


def certificate_with(folder: Path, names: list[x509.GeneralName]) -> bytes:
    development_ca._issue(folder, "names", names, ExtendedKeyUsageOID.CLIENT_AUTH, NOW)
    return (folder / "names.pem").read_bytes()


@pytest.mark.parametrize(
    ("uris", "identity"),
    [
        (["rngsvc://role/auditor/lab", "spiffe://mesh/ns/x"], Identity(Role.AUDITOR, "lab")),
        (["spiffe://mesh/ns/x"], None),
        (["rngsvc://role/auditor/lab", "rngsvc://role/operator/lab"], None),
        (["rngsvc://role/auditor/lab", "rngsvc://role/auditor/lab"], None),
        (["rngsvc://role/king/lab"], None),
        ([], None),
    ],
)
def test_a_certificate_says_exactly_one_identity(uris: list[str], identity: Identity | None, tmp_path: Path) -> None:
    make_ca(tmp_path, NOW)
    names = [x509.DNSName("client.example"), *map(x509.UniformResourceIdentifier, uris)]
    pem = certificate_with(tmp_path, names)
    if identity:
        assert Identity.from_certificate(pem) == identity
    else:
        with pytest.raises(IdentityRefused, match="must"):
            Identity.from_certificate(pem)


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(IdentityRefused, match="no readable subject alternative name"):
        Identity.from_certificate(pem)


def test_the_authoritys_own_certificate_stands_for_nobody(authority: Path) -> None:
    with pytest.raises(IdentityRefused, match="no readable subject alternative name"):
        Identity.from_certificate((authority / "ca.pem").read_bytes())
