"""The commands of the deploy page lead to a service that game servers can call; paths are moved into a folder."""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from rngsvc.client import Credentials, SyncClient

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "deploy.md").read_text()
BIN = Path(sys.executable).parent
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PLACES = {"/etc/rngsvc": "etc", "/run/rngsvc": "run", "/var/lib/rngsvc": "var"}


def block(word: str) -> str:
    """Return the one block that has ``word``."""
    (found,) = (each for each in BLOCKS if word in each)
    return found


def moved(text: str, folder: Path) -> str:
    for place, here in PLACES.items():
        text = text.replace(place, str(folder / here))
    return text


def shell(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-euc", script.replace("-g rngsvc ", "")],  # no such group here
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def box(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Install as the page says, and start as the unit does."""
    for here in PLACES.values():
        (tmp_path / here).mkdir()
    shell(moved(block("/etc/rngsvc/keys"), tmp_path), tmp_path)
    shell(moved(block("install -d -g rngsvc"), tmp_path), tmp_path)
    configuration = tmp_path / "etc" / "rngsvc.toml"
    configuration.write_text(moved((ROOT / "deploy" / "one-box.toml").read_text(), tmp_path))
    unit = (ROOT / "deploy" / "systemd" / "rngsvc.service").read_text()
    (copy,) = re.findall(r"^ExecStartPre=(.*)$", unit, re.MULTILINE)
    shell(copy.replace("%t/rngsvc", str(tmp_path / "run")).replace("%d", str(tmp_path / "etc" / "keys")), tmp_path)
    ports = [f"--{name}=127.0.0.1:0" for name in ("listen", "http-public", "http-operator")]
    process = subprocess.Popen(
        [BIN / "rngsvc", "serve", "--config", configuration, *ports], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield tmp_path, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_box_that_is_installed_as_the_page_says_deals_to_a_game_server_with_a_certificate(
    box: tuple[Path, dict[str, str]],
) -> None:
    folder, service = box
    ca = folder / "ca"
    credentials = Credentials(ca / "ca.pem", ca / "game-server-floor-1.pem", ca / "game-server-floor-1.key")
    with SyncClient.connect(service["grpc"], log_key=service["log_key"], credentials=credentials) as client:
        hand = client.register_table(secrets.token_bytes(16)).reserve()
        hand.seal(52, {})
        hand.close()
    with urlopen(f"{service['operator']}/readyz", timeout=5) as answer:
        assert json.load(answer)["status"] == "ready"
    assert (folder / "var" / "head").exists(), "the head guard lies where the configuration says"


def test_the_container_commands_make_the_files_that_compose_mounts(tmp_path: Path) -> None:
    lines = block("docker compose up").splitlines()
    shell("\n".join(line for line in lines if not line.startswith(("cd ", "chown ", "docker "))), tmp_path)
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    for secret in compose["secrets"].values():
        file = tmp_path / secret["file"]
        assert file.stat().st_mode & 0o077 == 0, "rngsvc refuses keys that others can read"
    configuration = (ROOT / "deploy" / "one-box.toml").read_text()
    for name in re.findall(r'"/etc/rngsvc/tls/(.+)"', configuration):
        assert (tmp_path / "tls" / name).is_file()


def test_every_file_that_the_page_installs_is_there() -> None:
    for path in re.findall(r"(?<![\w/])deploy/[\w./-]+\w", PAGE):
        assert (ROOT / path).exists(), path
