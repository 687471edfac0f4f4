"""PostgreSQL is restarted in order, and crashes, under an active node, its standby and their supervisor."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rngsvc.client import SyncClient
from rngsvc.commands.exit_codes import ExitCode
from tests.drills.account import Account
from tests.drills.players import Players, check_log, free_port
from tests.drills.supervisor import Supervisor
from tests.postgres import Postgres
from tests.simulation.process import ServerProcess


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL of the drill's own."""
    server = Postgres()
    try:
        yield server
    finally:
        server.remove()


def run(folder: Path, account: Account) -> None:
    ports = [free_port(), free_port()]
    target = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    with postgres() as database:
        store = f"--store={database.address()}"
        nodes = [ServerProcess(folder, (store, f"--listen=127.0.0.1:{port}", "--standby=true")) for port in ports]
        with Supervisor(nodes) as supervisor:
            log_key = supervisor.wait_for_active().ready["log_key"]
            account.did("started two nodes on one PostgreSQL under a supervisor that restarts them; four players")
            with Players(target, log_key) as players:
                for mode, what in (("fast", "stopped PostgreSQL in order"), ("immediate", "PostgreSQL crashed")):
                    players.play(hands=20)
                    database.stop(mode)
                    account.did(what)
                    time.sleep(2)
                    database.start()
                    back_at = time.monotonic()
                    account.did("started PostgreSQL again, two seconds later")
                    players.play(hands=20)
                    account.saw(f"twenty hands were played {time.monotonic() - back_at:.2f} s after that")
            account.check("game servers went on by themselves", not players.failures, players.failures)
            account.saw(f"the longest wait for a hand was {players.longest_wait_s():.2f} s")
            codes = supervisor.exit_codes
            account.check(
                "nodes that lost it ended with exit code 4", codes and set(codes) == {ExitCode.STOPPED}, codes
            )
            players.check_told(account)
            active = supervisor.wait_for_active()
            with SyncClient.connect(target, log_key=log_key) as client:
                account.saw(f"the log has {client.log.checkpoint().size} entries")
            check_log(account, active.ready["http"], log_key)
