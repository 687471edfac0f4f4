"""Dealer and shuffle service on two machines: both know each other by certificate."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, Role
from tests.dealer.server import world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a service, of a game server, and of a monitor, who may not deal."""
    made = tmp_path_factory.mktemp("certificates")
    now = datetime.now(UTC)
    make_ca(made, now)
    issue_server(made, "server", ["127.0.0.1"], now)
    issue_client(made, Identity(Role.GAME_SERVER, "room"), now)
    issue_client(made, Identity(Role.MONITOR, "m"), now)
    return made


def test_a_dealer_with_a_game_servers_certificate_deals_and_a_monitor_does_not(folder: Path, tmp_path: Path) -> None:
    flags = {"tls-certificate": "server.pem", "tls-key": "server.key", "tls-client-ca": "ca.pem"}
    arguments = [word for name, file in flags.items() for word in (f"--{name}", str(folder / file))]
    process, ready = world.start("rngsvc", "serve", "--ephemeral", *arguments)
    try:
        check_demo(folder, ready["grpc"], ready["log_key"])
        house = world.House(tmp_path, ready)
        for name, file in {
            "ca": "ca.pem",
            "certificate": "game-server-room.pem",
            "key": "game-server-room.key",
        }.items():
            house.arguments += [f"--rngsvc-{name}", str(folder / file)]
        house.start()
        try:
            asyncio.run(one_hand(house))
        finally:
            house.stop()
    finally:
        world.stop(process)


def check_demo(folder: Path, address: str, log_key: str) -> None:
    for name, exit_code in (("game-server-room", 0), ("monitor-m", 3)):
        tls = ["--tls", *(str(folder / file) for file in ("ca.pem", f"{name}.pem", f"{name}.key"))]
        arguments = ["demo", "--game", "limit_stud", "--rngsvc", address, "--log-key", log_key, *tls]
        run = subprocess.run(
            [sys.executable, "-m", "dealer", *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert run.returncode == exit_code, (name, run.stderr)
        assert "Traceback" not in run.stderr


async def one_hand(house: world.House) -> None:
    players = await world.seated(house, "limit_stud", ["ann", "ben"])
    await world.play_hands(players, 1)
