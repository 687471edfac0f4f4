"""What keeps the service from starting is told in one sentence, with its exit code, and never as a traceback."""

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rngsvc.commands.exit_codes import ExitCode
from tests.simulation.process import ServerProcess


def tls(folder: Path, certificate: bytes) -> list[str]:
    for name in ("server.pem", "server.key", "ca.pem"):
        (folder / name).write_bytes(certificate)
    return [
        f"--tls-certificate={folder / 'server.pem'}",
        f"--tls-key={folder / 'server.key'}",
        f"--tls-client-ca={folder / 'ca.pem'}",
    ]


def missing_tls(folder: Path) -> list[str]:
    flags = tls(folder, b"")
    (folder / "server.pem").unlink()
    return flags


def a_directory(folder: Path) -> list[str]:
    (folder / "log.sqlite3").mkdir()
    return []


def no_database(folder: Path) -> list[str]:
    (folder / "log.sqlite3").write_bytes(b"no database" * 1000)
    return []


def open_key(folder: Path) -> list[str]:
    (folder / "log.key").chmod(0o644)
    return []


CASES: dict[str, tuple[Callable[[Path], list[str]], ExitCode, str]] = {
    "the store is a folder": (a_directory, ExitCode.STOPPED, "log.sqlite3"),
    "the store is no database": (no_database, ExitCode.STOPPED, "not a database"),
    "the store's folder is missing": (
        lambda folder: [f"--store=sqlite:{folder / 'missing' / 'log.sqlite3'}"],
        ExitCode.CONFIGURATION,
        "missing",
    ),
    "the signing key is missing": (
        lambda folder: [f"--signing-key=file:{folder / 'missing.key'}"],
        ExitCode.CONFIGURATION,
        "missing.key",
    ),
    "others can read the signing key": (open_key, ExitCode.CONFIGURATION, "log.key"),
    "the certificate is missing": (missing_tls, ExitCode.CONFIGURATION, "server.pem"),
    "the certificate is rubbish": (lambda folder: tls(folder, b"rubbish"), ExitCode.CONFIGURATION, "tls_key"),
    "the certificate is empty": (lambda folder: tls(folder, b""), ExitCode.CONFIGURATION, "tls_key"),
    "the entropy device is missing": (
        lambda folder: [f"--entropy-device={folder / 'hwrng'}"],
        ExitCode.STOPPED,
        "hwrng",
    ),
    "the entropy device is stuck": (lambda _folder: ["--entropy-device=/dev/zero"], ExitCode.STOPPED, "/dev/zero"),
    "the operator's entropy is too short": (
        lambda folder: [f"--entropy-file={(folder / 'log.key')}"],
        ExitCode.STOPPED,
        "log.key",
    ),
}


@pytest.mark.parametrize(("prepare", "code", "named"), CASES.values(), ids=CASES)
def test_a_start_that_cannot_be_is_told_in_one_sentence(
    tmp_path: Path, prepare: Callable[[Path], list[str]], code: ExitCode, named: str
) -> None:
    server = ServerProcess(tmp_path)
    server.flags = tuple(prepare(tmp_path))
    refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in refused.stderr
    assert (refused.returncode, refused.stdout) == (code, ""), refused.stderr
    assert named in refused.stderr


@pytest.mark.parametrize("listener", ["listen", "http-public", "http-operator"])
def test_an_address_that_is_taken_is_named(tmp_path: Path, listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = ServerProcess(tmp_path, (f"--{listener}=127.0.0.1:{taken.getsockname()[1]}",))
        refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in refused.stderr
    assert (refused.returncode, refused.stdout) == (ExitCode.CONFIGURATION, ""), refused.stderr
    assert "cannot listen" in refused.stderr
    # What was begun was ended: the store can be taken at once.
    server.flags = ()
    with server:
        assert server.terminate() == ExitCode.OK
