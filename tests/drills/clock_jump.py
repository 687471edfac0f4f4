"""The machine's clock jumps: back a little, back by hours, forwards by days, and home again."""

import time
from pathlib import Path

from rngsvc.client import SyncClient
from rngsvc.client.errors import CallFailed
from rngsvc.commands.exit_codes import ExitCode
from tests.drills.account import Account
from tests.drills.players import Players, check_log, free_port
from tests.simulation.process import ServerProcess

PROGRAM = Path(__file__).with_name("moved_clock.py")
TABLE = b"forgotten table."
HOUR_S, DAY_S = 3600, 86_400


class Clock:
    """A process's wall clock, moved while the process runs."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0)
        self.program = (str(PROGRAM), str(self._file))

    def set(self, ahead_s: int) -> None:
        """Let it be so far ahead of the machine's."""
        new = self._file.with_suffix(".new")
        new.write_text(str(ahead_s))
        new.replace(self._file)


def run(folder: Path, account: Account) -> None:
    clock = Clock(folder)
    listen = f"--listen=127.0.0.1:{free_port()}"
    with ServerProcess(folder, (listen,), program=clock.program) as server:
        log_key, grpc = server.ready["log_key"], server.ready["grpc"]
        with Players(grpc, log_key, timeout_s=40) as players:
            account.did("started rngsvc under a clock that can be moved; four game servers play")
            players.play(hands=30)
            clock.set(-30)
            account.did("the clock went back by 30 seconds")
            players.play(hands=30)
            account.check("up to a minute is outwaited: hands go on, with the log's last time", True)
            clock.set(-HOUR_S)
            account.did("the clock went back by an hour")
            code = server.ended(within_s=30)
            account.check("the service stops with exit code 4", code == ExitCode.STOPPED, f"exit code {code}")
            account.check("its log says why", "behind the log's last time" in server.log_text, server.log_text[-500:])
            server.launch()
            code = server.ended(within_s=30)
            account.check("it does not start by that clock: exit code 4", code == ExitCode.STOPPED, f"exit code {code}")
            clock.set(0)
            server.start()
            account.did("mended the clock, and started again")
            players.play(hands=30)
        account.check("game servers went on by themselves", not players.failures, players.failures)
        players.check_told(account)

        with SyncClient.connect(grpc, log_key=log_key) as client:
            client.register_table(TABLE, ttl_s=DAY_S).reserve()
        clock.set(3 * DAY_S)
        account.did("the clock went three days forwards, with a hand open whose time is a day")
        deadline = time.monotonic() + 20
        with SyncClient.connect(grpc, log_key=log_key) as client:
            while (state := client.hand(TABLE, 1).state) != "closed" and time.monotonic() < deadline:
                time.sleep(0.2)
            account.check("the hand is closed as expired", state == "closed", state)
            client.register_table(b"table of the day").reserve()
        check_log(account, server.ready["http"], log_key, but_for="integrity")
        clock.set(0)
        account.did("the clock went home, three days back")
        with SyncClient.connect(grpc, log_key=log_key, timeout_s=2) as client:
            try:
                client.register_table(b"one more table..")
            except CallFailed as error:
                account.saw(f"{error}")
        code = server.ended(within_s=30)
        account.check("the service stops with exit code 4 until three days have passed", code == ExitCode.STOPPED, code)
        clock.set(3 * DAY_S)
        server.start()
        account.did("started it three days later, as it were")
        players.check_told(account)
        check_log(account, server.ready["http"], log_key, but_for="integrity")
