"""A backup taken under load audits clean, is refused while a newer log is known, and serves when none is."""

import subprocess
import sys
import time
from pathlib import Path

from rngsvc.commands.exit_codes import ExitCode
from tests.drills.account import Account
from tests.drills.players import Players, check_log, free_port
from tests.postgres import Postgres
from tests.simulation.process import ServerProcess


def rngsvc(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    command = [sys.executable, "-m", "rngsvc", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)


def run(folder: Path, account: Account) -> None:
    database = Postgres()
    try:
        for name, store, moved_to in (
            ("SQLite", f"sqlite:{folder / 'log.sqlite3'}", f"sqlite:{folder / 'restored.sqlite3'}"),
            ("PostgreSQL", database.address(), database.address()),
        ):
            (folder / name).mkdir()
            back_up_and_restore(folder / name, account, name, store, moved_to)
    finally:
        database.remove()


def back_up_and_restore(folder: Path, account: Account, name: str, store: str, moved_to: str) -> None:
    """Do it with one kind of store; what is restored lies at ``moved_to``."""
    backup = folder / "backup.sqlite3"
    guard = f"--head-guard={folder / 'head'}"
    listen = f"--listen=127.0.0.1:{free_port()}"
    server = ServerProcess(folder, (listen, f"--store={store}", guard))
    with server, Players(server.ready["grpc"], server.ready["log_key"]) as players:
        log_key = server.ready["log_key"]
        account.did(f"started rngsvc on {name}; four game servers play")
        players.play(hands=40)
        started, before = time.monotonic(), players.hands
        done = rngsvc("store", "copy", store, f"sqlite:{backup}")
        account.check("a backup is taken while they play", done.returncode == ExitCode.OK, done.stderr)
        account.saw(f"it took {time.monotonic() - started:.2f} s, in which {players.hands - before} hands were played")
        players.play(hands=20)
    account.check("no game server met an error", not players.failures, players.failures)
    server.terminate()
    audited = rngsvc("audit", backup, "--log-key", log_key)
    account.check("the backup audits clean", audited.returncode == ExitCode.OK, audited.stdout + audited.stderr)

    moved = rngsvc("store", "copy", f"sqlite:{backup}", moved_to)
    account.check(f"it is restored to {name}", moved.returncode == ExitCode.OK, moved.stderr)
    restored = ServerProcess(folder, (listen, f"--store={moved_to}", guard))
    code = restored.launch().ended(within_s=60)
    said = "older copy" in restored.log_text
    account.check("the head guard knows a newer log, so it is refused: exit code 4", code == 4 and said, code)
    (folder / "head").unlink()
    account.did("lost the head guard too: nobody here knows anything later than the backup")
    with restored:
        with Players(restored.ready["grpc"], log_key) as again:
            again.play(hands=20)
        account.check("the restored log goes on", not again.failures, again.failures)
        check_log(account, restored.ready["http"], log_key)
        account.check("SIGTERM ends it with exit code 0", restored.terminate() == ExitCode.OK)
