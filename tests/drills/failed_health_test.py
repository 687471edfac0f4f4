"""A hardware source of entropy gets stuck while hands are played: the service stops before it deals from it."""

import fcntl
import os
import threading
import time
from pathlib import Path

from rngsvc.commands.exit_codes import ExitCode
from tests.drills.account import Account
from tests.drills.players import Players, check_log, free_port
from tests.simulation.process import ServerProcess


class Device:
    """A named pipe that gives random bytes like /dev/hwrng, until it sticks at zero."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Open for both, so that it stays open while the service opens and closes its end.
        self._pipe = os.open(path, os.O_RDWR)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, 4096)  # little that is still good when it sticks
        self._stuck = False
        threading.Thread(target=self._run, daemon=True).start()

    def stick(self) -> None:
        """Give nothing but zeros from now on."""
        self._stuck = True

    def _run(self) -> None:
        while True:
            os.write(self._pipe, bytes(1024) if self._stuck else os.urandom(1024))


def run(folder: Path, account: Account) -> None:
    device = Device(folder / "hwrng")
    listen = f"--listen=127.0.0.1:{free_port()}"
    with ServerProcess(folder, (listen, f"--entropy-device={folder / 'hwrng'}")) as server:
        log_key = server.ready["log_key"]
        with Players(server.ready["grpc"], log_key, timeout_s=30) as players:
            account.did("started rngsvc with a hardware source; four game servers play")
            players.play(hands=30)
            device.stick()
            stuck_at = time.monotonic()
            account.did("the hardware source gives only zeros now")
            code = server.ended(within_s=30)
            account.check("the service stops with exit code 4", code == ExitCode.STOPPED, f"exit code {code}")
            account.saw(f"it had stopped after {time.monotonic() - stuck_at:.2f} s")
            (why,) = [line for line in server.log_text.splitlines() if "signing stopped" in line]
            account.check("its log names the source and the test", "hwrng" in why and "test" in why, why)
            account.saw(why)
            server.launch()
            code = server.ended(within_s=30)
            account.check(
                "it does not start with that source: exit code 4", code == ExitCode.STOPPED, f"exit code {code}"
            )
            server.flags = (listen,)
            server.start()
            account.did("took the source out of the configuration, and started again")
            players.play(hands=30)
        account.check("game servers went on by themselves", not players.failures, players.failures)
        players.check_told(account)
        check_log(account, server.ready["http"], log_key)
