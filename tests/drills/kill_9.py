"""The service is killed under load, as by a power switch, and started again."""

import time
from pathlib import Path

from tests.drills.account import Account
from tests.drills.players import Players, check_log, free_port
from tests.scale import scaled
from tests.simulation.process import ServerProcess


def run(folder: Path, account: Account) -> None:
    with ServerProcess(folder, (f"--listen=127.0.0.1:{free_port()}",)) as server:
        log_key = server.ready["log_key"]
        with Players(server.ready["grpc"], log_key) as players:
            account.did("started rngsvc on SQLite; four game servers play")
            for _ in range(scaled(2, 20)):
                players.play(hands=30)
                server.kill()
                killed_at = time.monotonic()
                account.did("kill -9")
                server.start()
                account.did("started it again")
                account.saw(f"it served again after {time.monotonic() - killed_at:.2f} s, start-up checks included")
                players.play(hands=30)
        account.check("game servers went on by themselves", not players.failures, players.failures)
        account.saw(f"the longest wait for a hand was {players.longest_wait_s():.2f} s")
        players.check_told(account)
        check_log(account, server.ready["http"], log_key)
        account.check("SIGTERM ends it with exit code 0", server.terminate() == 0)
