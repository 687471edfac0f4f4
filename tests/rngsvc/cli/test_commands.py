"""Every command by its exit codes and its JSON; the codes are those of `docs/exit-codes.md`."""

import hashlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rngsvc.__main__ import COMMANDS
from rngsvc.client import SyncClient, errors
from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.remote import failures_as_exit_codes
from rngsvc.keys.making import AuditorKeys
from rngsvc.protocol.checkpoint import verify_checkpoint
from rngsvc.protocol.merkle import leaf_hash, verify_consistency
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tlog_proof import TlogProof
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.conftest import RunningService
from tests.scale import scaled

NOBODY = ("--target", "127.0.0.1:1", "--timeout", "0.2")


def target(service: RunningService) -> tuple[str, ...]:
    return ("--target", service.grpc, "--log-key", service.log_key)


@pytest.fixture(scope="module")
def receipt(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("receipt") / "receipt.json"
    with SyncClient.connect(service.grpc, log_key=service.log_key) as client:
        hand = client.register_table(os.urandom(16)).reserve()
        hand.seal(5)
        hand.open(0, [0, 1])
        hand.close()
        file.write_bytes(hand.inner.receipt())
    return file


# --- The page and the commands ---


def test_the_page_lists_every_code_and_every_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \| (\w+) \|", page, re.MULTILINE) == [(str(int(c)), c.name) for c in ExitCode]
    assert all(re.search(rf"^\| .*`(rngsvc )?{name}`", page, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    ran = rngsvc(command, "--help")
    assert ran.code == ExitCode.OK
    assert "Usage: rngsvc " in ran.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_flag_is_a_usage_error(command: str) -> None:
    assert rngsvc(command, "--no-such-flag").code == ExitCode.USAGE


def test_an_unknown_command_is_a_usage_error() -> None:
    assert rngsvc("shuffle").code == ExitCode.USAGE


LIGHT = [("--help",), ("version",), ("verify", "--help"), ("keygen", "--help"), ("completion", "bash")]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_what_needs_no_network_does_not_load_grpc(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom rngsvc.__main__ import cli\n"
        f"cli({list(arguments)!r}, standalone_mode=False)\n"
        "sys.exit(int('grpc' in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_us(shell: str) -> None:
    ran = rngsvc("completion", shell)
    assert ran.code == ExitCode.OK
    assert "_RNGSVC_COMPLETE" in ran.stdout


def test_version_as_json() -> None:
    assert list(rngsvc("version", "--json").json) == ["version", "api", "protocol", "python"]


FAILURES: list[tuple[Exception, ExitCode]] = [
    (errors.InclusionUnproven("no"), ExitCode.CHECK_FAILED),
    (errors.LogForked("no", "a", "b"), ExitCode.CHECK_FAILED),
    (errors.EntryMismatch("seq", 1, 2), ExitCode.CHECK_FAILED),
    (errors.InvalidRequest("INVALID_ARGUMENT", "no"), ExitCode.USAGE),
    (errors.NotFound("NOT_FOUND", "no"), ExitCode.USAGE),
    (errors.Refused("FAILED_PRECONDITION", "no"), ExitCode.USAGE),
    (errors.PermissionDenied("PERMISSION_DENIED", "no"), ExitCode.USAGE),
    (errors.Unavailable("UNAVAILABLE", "no"), ExitCode.UNDECIDED),
    (errors.OutcomeUnknown("DEADLINE_EXCEEDED", "no"), ExitCode.UNDECIDED),
    (errors.ServiceBroken("INTERNAL", "no"), ExitCode.UNDECIDED),
    (errors.ServiceStopped("UNAVAILABLE", "no", reason="SIGNING_STOPPED"), ExitCode.STOPPED),
]


@pytest.mark.parametrize(("failure", "code"), FAILURES, ids=[type(row[0]).__name__ for row in FAILURES])
def test_a_failure_has_its_exit_code(failure: Exception, code: ExitCode) -> None:
    with pytest.raises(Ended) as ended, failures_as_exit_codes():
        raise failure
    assert ended.value.exit_code == code


# --- verify ---


def test_a_good_receipt_verifies(service: RunningService, receipt: Path) -> None:
    ran = rngsvc("verify", receipt, "--log-key", service.log_key, "--json")
    assert ran.code == ExitCode.OK
    assert ran.json["verdict"] == "pass"
    assert ran.json["failed"] == []
    outcomes = {step["id"]: step["outcome"] for step in ran.json["steps"]}
    assert outcomes["openings"] == "checked"
    assert outcomes["own"] == "not shown"
    assert set(ran.json["steps"][0]) == {"id", "outcome", "claim", "detail"}


def test_each_step_is_a_line_for_people(service: RunningService, receipt: Path, tmp_path: Path) -> None:
    key = tmp_path / "log.vkey"
    key.write_text(service.log_key + "\n", encoding="ascii")
    ran = rngsvc("verify", "-", "--log-key", key, stdin=receipt.read_bytes())
    assert ran.code == ExitCode.OK
    assert re.search(r"^checked +inclusion ", ran.stdout, re.MULTILINE)
    assert re.search(r"^not shown +own ", ran.stdout, re.MULTILINE)


def test_each_flipped_byte_of_a_receipt_is_noticed_and_named(
    service: RunningService, receipt: Path, tmp_path: Path
) -> None:
    good = receipt.read_bytes()
    file = tmp_path / "flipped.json"
    for position in range(0, len(good), max(1, len(good) // scaled(100, len(good)))):
        file.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        ran = rngsvc("verify", file, "--log-key", service.log_key, "--json")
        assert ran.code == ExitCode.CHECK_FAILED, f"byte {position}, {good[position - 20 : position + 20]!r}"
        assert ran.json["failed"]
        assert all(step in ran.stderr for step in ran.json["failed"])


def test_another_logs_key_does_not_verify(service: RunningService, receipt: Path) -> None:
    stranger = NoteKey(service.origin, bytes(32)).vkey
    ran = rngsvc("verify", receipt, "--log-key", stranger, "--json")
    assert ran.code == ExitCode.CHECK_FAILED
    assert "checkpoints" in ran.json["failed"]


def test_the_auditors_key_opens_an_escrow(service: RunningService, tmp_path: Path) -> None:
    file = tmp_path / "receipt.json"
    auditor = AuditorKeys.load(f"file:{service.auditor_keys}")
    with SyncClient.connect(service.grpc, log_key=service.log_key) as client:
        table = client.register_table(os.urandom(16), reveal="escrow", auditor=auditor.public_keys)
        hand = table.reserve()
        hand.seal(52)
        hand.close()
        file.write_bytes(hand.inner.receipt())
    arguments = ("verify", file, "--log-key", service.log_key, "--json")
    for extra, outcome in ((), "not shown"), (("--auditor-key", f"file:{service.auditor_keys}"), "checked"):
        ran = rngsvc(*arguments, *extra)
        assert ran.code == ExitCode.OK
        assert {step["id"]: step["outcome"] for step in ran.json["steps"]}["derivation"] == outcome


VERIFY_MISUSE = [
    (("no-such-file.json", "--log-key", NoteKey("a.example", bytes(32)).vkey), "no-such-file.json"),
    ((__file__, "--log-key", "a+b+c"), "--log-key"),
    ((__file__, "--log-key", "no-such-file"), "--log-key"),
    ((__file__,), "--log-key"),
    ((__file__, "--log-key", NoteKey("a.example", bytes(32)).vkey, "--auditor-key", "file:none"), "none"),
]


@pytest.mark.parametrize(("arguments", "named"), VERIFY_MISUSE)
def test_verify_names_what_it_cannot_use(arguments: tuple[str, ...], named: str) -> None:
    ran = rngsvc("verify", *arguments)
    assert ran.code == ExitCode.USAGE
    assert named in ran.stderr


# --- log ---


@pytest.mark.parametrize("by", ["target", "url"])
def test_the_log_is_read_and_proven(service: RunningService, receipt: Path, by: str) -> None:
    where = target(service) if by == "target" else ("--url", service.http, "--log-key", service.log_key)
    checkpoint = rngsvc("log", "checkpoint", *where, "--json").json
    key = NoteKey.from_vkey(service.log_key)
    assert verify_checkpoint(checkpoint["checkpoint"], service.origin, [key]).size == checkpoint["size"]
    entry = rngsvc("log", "entry", 1, *where, "--json").json
    proof = TlogProof.parse(rngsvc("log", "proof", 1, *where).stdout)
    assert proof.verify(leaf_hash(entry["entry"].encode()), service.origin, [key]).size >= checkpoint["size"]
    consistency = rngsvc("log", "consistency", 1, *where, "--json").json
    assert (consistency["old_size"], consistency["new_size"]) == (1, checkpoint["size"])
    hashes = [bytes.fromhex(each) for each in consistency["hashes"]]
    first = leaf_hash(rngsvc("log", "entry", 0, *where).stdout.strip().encode())
    verify_consistency(1, first, checkpoint["size"], bytes.fromhex(checkpoint["root"]), hashes)
    lines = rngsvc("log", "stream", "--first", 1, "--end", 3, *where).stdout.splitlines()
    assert lines[0] == entry["entry"]
    assert len(lines) == 2


def test_a_target_and_a_web_address_give_the_same_log(service: RunningService) -> None:
    by_url = ("--url", service.http, "--log-key", service.log_key)
    size = rngsvc("log", "checkpoint", *by_url, "--json").json["size"]
    streams = [rngsvc("log", "stream", "--end", size, "--json", *where).stdout for where in (by_url, target(service))]
    assert streams[0] == streams[1]
    assert len(streams[0].splitlines()) == size


KEY = ("--log-key", NoteKey("a.example", bytes(32)).vkey)
LOG_FAILURES = [
    (("entry", 10**9), ExitCode.USAGE),
    (("entry", "-1"), ExitCode.USAGE),
    (("stream", "--follow", "--end", "3"), ExitCode.USAGE),
    (("checkpoint", "--tls-key", __file__), ExitCode.USAGE),
    (("checkpoint", "--target", "rng.example:443"), ExitCode.USAGE),
    (("checkpoint", *KEY), ExitCode.CHECK_FAILED),
    (("checkpoint", *NOBODY), ExitCode.UNDECIDED),
]
URL_FAILURES = [
    (("entry", 10**9), ExitCode.USAGE),
    (("stream", "--follow"), ExitCode.USAGE),
    (("checkpoint", "--url", "ftp://a.example"), ExitCode.USAGE),
    (("checkpoint", "--target", "127.0.0.1:1"), ExitCode.USAGE),
    (("checkpoint", *KEY), ExitCode.CHECK_FAILED),
    (("checkpoint", "--url", "http://127.0.0.1:1"), ExitCode.UNDECIDED),
]


@pytest.mark.parametrize(("arguments", "code"), LOG_FAILURES)
def test_log_failures_have_their_codes(service: RunningService, arguments: tuple[object, ...], code: ExitCode) -> None:
    command, *rest = arguments
    ran = rngsvc("log", command, *target(service), *rest)
    assert ran.code == code
    assert ran.stderr


@pytest.mark.parametrize(("arguments", "code"), URL_FAILURES)
def test_failures_by_web_address_have_theirs(
    service: RunningService, arguments: tuple[object, ...], code: ExitCode
) -> None:
    command, *rest = arguments
    ran = rngsvc("log", command, "--url", service.http, "--log-key", service.log_key, *rest)
    assert ran.code == code
    assert ran.stderr


# --- sample ---

SAMPLES = [
    (("--kind", "bits", "--count", "5000"), 5000),
    (("--kind", "numbers", "--modulus", "6", "--count", "100"), 800),
    (("--kind", "shuffles", "--count", "10"), 520),
    (("--kind", "shuffles", "--items", "300", "--count", "2"), 1200),
]


@pytest.mark.parametrize(("arguments", "size"), SAMPLES, ids=[" ".join(row[0]) for row in SAMPLES])
def test_a_sample_arrives_whole(service: RunningService, tmp_path: Path, arguments: tuple[str, ...], size: int) -> None:
    file = tmp_path / "sample.bin"
    ran = rngsvc("sample", *arguments, "-o", file, *target(service), "--json")
    assert ran.code == ExitCode.OK
    data = file.read_bytes()
    assert len(data) == ran.json["byte_count"] == size
    assert hashlib.sha256(data).hexdigest() == ran.json["sha256"]
    entry = rngsvc("log", "entry", ran.json["log_index"], *target(service)).stdout
    assert f'"kind":"{ran.json["kind"]}"' in entry


SAMPLE_FAILURES = [
    (("--kind", "numbers", "--count", "5"), ExitCode.USAGE),
    (("--kind", "bits", "--count", "5", "--modulus", "2"), ExitCode.USAGE),
    (("--kind", "bits", "--count", "5", "--items", "2"), ExitCode.USAGE),
    (("--kind", "bits", "--count", "0"), ExitCode.USAGE),
    (("--kind", "bits", "--count", str(2**41)), ExitCode.USAGE),
    (("--kind", "bits", "--count", str(2**64)), ExitCode.USAGE),
    (("--kind", "bits", "--count", "5", "-o", "."), ExitCode.USAGE),
    (("--kind", "bits", "--count", "5", *NOBODY), ExitCode.UNDECIDED),
]


@pytest.mark.parametrize(("arguments", "code"), SAMPLE_FAILURES)
def test_a_sample_that_fails_leaves_no_file(
    service: RunningService, tmp_path: Path, arguments: tuple[str, ...], code: ExitCode
) -> None:
    ran = rngsvc("sample", *target(service), "-o", tmp_path / "sample.bin", *arguments)
    assert ran.code == code
    assert list(tmp_path.iterdir()) == []


def test_no_output_goes_over_a_private_key_or_what_the_command_reads(service: RunningService, tmp_path: Path) -> None:
    pem, wrapping, auditor, store = (tmp_path / name for name in ("log.key", "seeds.key", "auditor.key", "log.sqlite3"))
    assert rngsvc("keygen", "log", "--origin", "cardroom.example/rng", "-o", pem).code == ExitCode.OK
    assert rngsvc("keygen", "seeds", "-o", wrapping).code == ExitCode.OK
    assert rngsvc("keygen", "auditor", "-o", auditor).code == ExitCode.OK
    store.write_bytes(b"a store")
    link, state, tiles = tmp_path / "link", tmp_path / "state", tmp_path / "tiles"
    link.symlink_to(store)
    (tiles / "tile").mkdir(parents=True)
    (tiles / "checkpoint").write_text("a checkpoint")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    sample = ("sample", "--kind", "bits", "--count", "5", *target(service), "-o")
    audit = ("audit", "--log-key", service.log_key)
    opening = ("--open", "--auditor-key", f"file:{auditor}")
    for arguments in (
        (*sample, pem),
        (*sample, wrapping),
        (*audit, service.http, "--report", pem),
        (*audit, service.http, *opening, "--report", auditor),
        (*audit, store, "--report", store),
        (*audit, store, "--report", link),
        (*audit, store, "--state", link),
        (*audit, tiles, "--report", tiles / "checkpoint"),
        (*audit, service.http, "--state", state, "--report", state),
        ("log", "upgrade", store, "--url", service.http, "-o", store),
        ("log", "upgrade", store, "--url", service.http, "-o", wrapping),
    ):
        ran = rngsvc(*arguments)
        assert ran.code == ExitCode.USAGE, arguments
        assert "never overwritten" in ran.stderr or "is what this command reads" in ran.stderr, ran.stderr
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    # What it wrote the last time it may write again.
    for _ in range(2):
        assert rngsvc(*sample, tmp_path / "sample.bin").code == ExitCode.OK


def test_a_sample_goes_to_standard_output(service: RunningService) -> None:
    command = [sys.executable, "-m", "rngsvc", "sample", "--kind", "bits", "--count", "777", "-o", "-"]
    done = subprocess.run([*command, *target(service)], capture_output=True, timeout=60, check=True)
    assert len(done.stdout) == 777


# --- keygen, config, serve ---


def test_keys_are_made_once_and_a_service_runs_on_them(tmp_path: Path) -> None:
    made = rngsvc("keygen", "log", "--origin", "cardroom.example/rng", "-o", tmp_path / "log.key", "--json").json
    assert rngsvc("keygen", "seeds", "-o", tmp_path / "seeds.key").code == ExitCode.OK
    nameless = rngsvc("keygen", "log", "--origin", "", "-o", tmp_path / "nameless.key")
    assert nameless.code == ExitCode.USAGE
    assert "origin: must be 1..255" in nameless.stderr
    again = rngsvc("keygen", "log", "--origin", "cardroom.example/rng", "-o", tmp_path / "log.key")
    assert again.code == ExitCode.USAGE
    assert "exists" in again.stderr
    (tmp_path / "rngsvc.toml").write_text(
        f"""
        origin = "cardroom.example/rng"
        signing_key = "file:{tmp_path}/log.key"
        key_encryption_key = "file:{tmp_path}/seeds.key"
        store = "sqlite:{tmp_path}/log.sqlite3"
        listen = "127.0.0.1:0"
        http_public = "127.0.0.1:0"
        http_operator = "127.0.0.1:0"
        """,
        encoding="utf-8",
    )
    config = ("--config", tmp_path / "rngsvc.toml")
    assert rngsvc("config", "check", *config).code == ExitCode.OK
    shown = rngsvc("config", "show", *config, "--queue-limit", "7", "--json").json
    assert shown["queue_limit"] == {"value": 7, "source": "flag"}
    command = [sys.executable, "-m", "rngsvc", "serve", *map(str, config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert made["log_key"] in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == ExitCode.OK
    ran = rngsvc("audit", tmp_path / "log.sqlite3", "--log-key", made["log_key"], "--json")
    assert ran.code == ExitCode.OK
    assert ran.json["entries"] == {"integrity": 1}


def test_an_authority_for_trying_out_issues_certificates(tmp_path: Path) -> None:
    assert rngsvc("keygen", "ca", tmp_path).code == ExitCode.OK
    assert rngsvc("keygen", "server", tmp_path, "localhost", "127.0.0.1").code == ExitCode.OK
    made = rngsvc("keygen", "client", tmp_path, "auditor", "lab-1", "--json").json
    assert made["uri"] == "rngsvc://role/auditor/lab-1"
    assert Path(made["certificate"]).is_file()
    assert Path(made["key"]).is_file()
    assert rngsvc("keygen", "client", tmp_path, "auditor", "lab 1").code == ExitCode.USAGE
    assert rngsvc("keygen", "client", tmp_path / "none", "auditor", "lab-1").code == ExitCode.USAGE


def test_an_auditors_public_keys_are_printed(tmp_path: Path) -> None:
    made = rngsvc("keygen", "auditor", "-o", tmp_path / "auditor.key", "--json").json
    x25519, ed25519 = AuditorKeys.load(f"file:{tmp_path / 'auditor.key'}").public_keys
    assert (made["x25519"], made["ed25519"]) == (x25519.hex(), ed25519.hex())


UNUSABLE = [
    ("serve", "--origin", "cardroom.example/rng"),
    ("serve", "--ephemeral", "--queue-limit", "0"),
    ("config", "check", "--origin", "two words", "--signing-key", "file:a", "--key-encryption-key", "file:b"),
    ("config", "show", "--config", "no-such-file.toml"),
]


@pytest.mark.parametrize("arguments", UNUSABLE, ids=" ".join)
def test_an_unusable_configuration_is_78_and_says_why(arguments: tuple[str, ...]) -> None:
    ran = rngsvc(*arguments)
    assert ran.code == ExitCode.CONFIGURATION
    assert "the configuration is not usable" in ran.stderr
    assert ran.stdout == ""


def test_a_store_that_is_in_use_is_not_served_twice(service: RunningService) -> None:
    command = [
        sys.executable,
        "-m",
        "rngsvc",
        "serve",
        "--ephemeral",
        "--store",
        f"sqlite:{service.folder}/log.sqlite3",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitCode.STOPPED
    assert "another process holds" in done.stderr
