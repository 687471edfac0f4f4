"""Configuration, tokens and commands: one clear error that names what is wrong."""

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from dealer.config import SETTINGS, ConfigurationRefused, load, read_token_key
from dealer.store.location import Location
from dealer.tokens import Identity, Role, TokenRefused, make_token, read_token
from dealer.v1 import table_pb2, table_pb2_grpc
from tests.dealer.server import world

KEY = bytes(range(32))
GOOD = {
    "rngsvc": "127.0.0.1:7443",
    "log_key": "ephemeral.example/rng+3686f87f+AXZ7CCpvYHiTx4Xr1XuUMPXrtNHQMn7kDMfzyzxf3Dv8",
    "auditor_x25519": "07" * 32,
    "auditor_ed25519": "09" * 32,
    "store": "memory:",
    "token_key": "token.key",
}


def test_flags_come_before_environment_before_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "dealer.toml"
    file.write_text('grant = 3\nlisten = "127.0.0.1:3"\nrngsvc = "127.0.0.1:3"\n')
    environment = {"DEALER_GRANT": "2", "DEALER_LISTEN": "127.0.0.1:2", "PATH": "/bin"}
    settings = load({**GOOD, "rngsvc": None, "listen": "127.0.0.1:1"}, environment, file)
    assert (settings.listen, settings.grant, settings.rngsvc) == ("127.0.0.1:1", 2, "127.0.0.1:3")
    assert settings.store == Location()
    assert load({}, {"DEALER_CONFIG": str(file)} | {f"DEALER_{k.upper()}": v for k, v in GOOD.items()}, None).grant == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listen", "127.0.0.1"),
        ("listen", "127.0.0.1:65536"),
        ("listen", "0.0.0.0:7444"),
        ("rngsvc", "nowhere"),
        ("log_key", "abc"),
        ("auditor_x25519", "07"),
        ("auditor_ed25519", "zz" * 32),
        ("store", "tables.sqlite3"),
        ("store", "postgresql://dealer:secret@db/cards"),
        ("store", "postgresql://dealer@db/cards?password=secret"),
        ("store", "postgresql://dealer@db/cards?schema=Two Words"),
        ("standby", "perhaps"),
        ("drain_s", "-1"),
        ("drain_s", "nan"),
        ("drain_s", "soon"),
        ("http_operator", "7491"),
        ("grant", "0"),
        ("grant", "-1"),
        ("grant", "1.5"),
        ("tls_certificate", "only.pem"),
        ("rngsvc_ca", "only.pem"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationRefused) as refusal:
        load({**GOOD, name: value}, {}, None)
    assert [problem for problem in refusal.value.problems if name in problem]


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "dealer.toml"
    file.write_text("gram = 1\n")
    with pytest.raises(ConfigurationRefused) as refusal:
        load({"listen": "x"}, {"DEALER_STOER": "memory:"}, file)
    said = "\n".join(refusal.value.problems)
    for word in ("gram", "DEALER_STOER", "listen", "rngsvc", "log_key", "store", "token_key"):
        assert word in said


def test_a_token_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token.key"
    file.write_text(KEY.hex())
    file.chmod(0o600)
    assert read_token_key(file) == KEY
    file.chmod(0o644)
    with pytest.raises(ConfigurationRefused, match="0600"):
        read_token_key(file)
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(ConfigurationRefused, match="64 hex digits"):
        read_token_key(file)


def test_a_token_names_its_holder_until_it_expires() -> None:
    token = make_token(KEY, Identity("ann", Role.OPERATOR), 100)
    assert read_token(KEY, token, 99.9) == Identity("ann", Role.OPERATOR)
    with pytest.raises(TokenRefused, match="expired"):
        read_token(KEY, token, 100)


@given(st.integers(0, 2**40), st.data())
def test_any_changed_character_spoils_a_token(expires: int, data: st.DataObject) -> None:
    token = make_token(KEY, Identity("ann"), expires + 1)
    at = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.characters(max_codepoint=127).filter(lambda c: c != token[at]))
    changed = token[:at] + character + token[at + 1 :]
    try:
        found = read_token(KEY, changed, expires)
    except TokenRefused:
        return
    # The last character of base64 has bits that mean nothing.
    assert at == len(token) - 1
    assert found == Identity("ann")


@pytest.mark.parametrize("player", ["", "a" * 65, "two words", "é", "a\n"])
def test_a_name_that_is_none_gets_no_token(player: str) -> None:
    with pytest.raises(ValueError, match="player"):
        Identity(player)


def dealer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dealer", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_token_command_prints_a_token(tmp_path: Path) -> None:
    file = tmp_path / "token.key"
    file.touch(0o600)
    file.write_text(KEY.hex())
    made = dealer("token", "--player", "ann", "--token-key", str(file), "--life", "60")
    assert made.returncode == 0, made.stderr
    assert read_token(KEY, made.stdout.strip(), time.time()) == Identity("ann")
    assert dealer("token", "--player", "a b", "--token-key", str(file)).returncode == 2
    assert dealer("token", "--player", "ann", "--token-key", str(tmp_path / "none")).returncode == 78


def test_serve_says_what_it_needs() -> None:
    refused = dealer("serve")
    assert refused.returncode == 78
    assert "token_key" in refused.stderr


def test_every_setting_is_an_option_of_serve() -> None:
    shown = dealer("serve", "--help").stdout
    for name in SETTINGS:
        assert "--" + name.replace("_", "-") in shown


def test_replay_compares_recorded_hands(tmp_path: Path) -> None:
    cases = sorted((Path(__file__).parents[1] / "hands" / "recorded").glob("*.json"))[:5]
    played = dealer("replay", "--json", *map(str, cases))
    assert played.returncode == 0, played.stderr
    lines = [json.loads(line) for line in played.stdout.splitlines()]
    assert [line["id"] for line in lines] == [json.loads(case.read_text())["id"] for case in cases]
    assert {"id", "profile", "asked", "rejected", "pots", "net_before_rake", "unknown"} <= set(lines[0])
    other = json.loads(cases[0].read_text())
    other["actions"] = other["actions"][:-1]
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(other))
    assert dealer("replay", str(changed)).returncode == 1
    changed.write_text("{}")
    assert dealer("replay", str(changed)).returncode == 2


def test_the_page_has_every_call_and_every_setting() -> None:
    page = (Path(__file__).parents[3] / "docs" / "card-room.md").read_text()
    (service,) = table_pb2.DESCRIPTOR.services_by_name.values()
    for name in [*SETTINGS, *(method.name for method in service.methods)]:
        assert f"`{name}`" in page, name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_program(shell: str) -> None:
    script = dealer("completion", shell)
    assert script.returncode == 0
    assert "_DEALER_COMPLETE" in script.stdout


def test_every_command_says_what_it_is_for() -> None:
    from dealer.__main__ import COMMANDS

    shown = dealer("--help").stdout
    for name, purpose in COMMANDS.items():
        assert name in shown
        assert purpose in shown
        assert dealer(name, "--help").returncode == 0


def test_with_a_certificate_the_room_is_reached_over_tls_only(tmp_path: Path, service: dict[str, Any]) -> None:
    certificate, key = self_signed(tmp_path)
    house = world.House(tmp_path, service)
    house.arguments += ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    house.start()

    async def story() -> None:
        metadata = [("authorization", f"Bearer {house.token('ann')}")]
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        async with grpc.aio.secure_channel(house.address, credentials) as channel:
            room: Any = table_pb2_grpc.TableServiceStub(channel)
            await room.ListTables(table_pb2.ListTablesRequest(), metadata=metadata)
        async with grpc.aio.insecure_channel(house.address) as channel:
            room = table_pb2_grpc.TableServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError):
                await room.ListTables(table_pb2.ListTablesRequest(), metadata=metadata, timeout=5)

    try:
        asyncio.run(story())
    finally:
        house.stop()


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "room")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "room.crt", folder / "room.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
