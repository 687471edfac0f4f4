"""The disk under the store fills up while hands are played, and somebody makes room again."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.drills.account import Account, CannotRun
from tests.drills.players import Players, check_log, free_port
from tests.simulation.process import ServerProcess

DISK_BYTES = 12 << 20
ROOM_BYTES = 2 << 20


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of `DISK_BYTES` while the block lasts."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        raise CannotRun("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def refused(operator: str) -> float:
    """Return how many calls the service has answered with UNAVAILABLE."""
    with urlopen(f"{operator}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith("rngsvc_requests_total{") and 'code="UNAVAILABLE"' in line]
    return sum(float(line.split()[-1]) for line in found)


def run(folder: Path, account: Account) -> None:
    with small_disk(folder / "disk") as disk:
        flags = (
            f"--listen=127.0.0.1:{free_port()}",
            f"--store=sqlite:{disk / 'log.sqlite3'}",
            f"--head-guard={folder / 'head'}",
        )
        with ServerProcess(folder, flags) as server:
            log_key = server.ready["log_key"]
            filler = disk / "filler"
            with Players(server.ready["grpc"], log_key) as players:
                account.did("started rngsvc with its store on a disk of 12 MiB; four game servers play")
                players.play(hands=20)
                free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                filler.write_bytes(bytes(max(0, free - ROOM_BYTES)))
                account.did("filled the disk up to 2 MiB")
                _until_full(account, server, players)
                at_full = players.hands
                filler.unlink()
                account.did(f"made room again, after {at_full} hands")
                if server.process and server.process.poll() is not None:
                    server.start()
                    account.did("started it again")
                players.play(hands=40)
            account.check("game servers went on by themselves", not players.failures, players.failures)
            account.saw(f"the longest wait for a hand was {players.longest_wait_s():.2f} s")
            players.check_told(account)
            check_log(account, server.ready["http"], log_key)
            account.check("SIGTERM ends it with exit code 0", server.terminate() == 0)


def _until_full(account: Account, server: ServerProcess, players: Players) -> None:
    """Wait until the service refuses writes, or has stopped on doubt; both are right."""
    deadline = time.monotonic() + 60
    assert server.process
    while time.monotonic() < deadline:
        if (code := server.process.poll()) is not None:
            account.check("it stopped on doubt with exit code 4", code == 4, server.log_text[-1000:])
            return
        if refused(server.ready["operator"]):
            account.check("writes are refused: UNAVAILABLE, and the callers wait", True)
            time.sleep(1)
            account.check("the service lives on", server.process.poll() is None, server.log_text[-1000:])
            return
        time.sleep(0.1)
    account.check("the disk became full", False, f"{players.hands} hands")
