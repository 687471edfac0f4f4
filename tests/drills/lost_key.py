"""A key file is gone: the running service goes on, a start without the right keys is refused by name."""

import subprocess
from pathlib import Path

from rngsvc.client import SyncClient
from rngsvc.client.errors import CallFailed
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from tests.drills.account import Account
from tests.drills.players import Players, check_log, free_port
from tests.simulation.process import ORIGIN, ServerProcess

TABLE = b"unfinished table"


def check_refused(account: Account, server: ServerProcess, code: ExitCode, words: tuple[str, ...]) -> None:
    """Try to start it, and check with which exit code and words it refuses."""
    done = subprocess.run(server.command(), check=False, capture_output=True, text=True, timeout=60)
    said = all(word in done.stderr for word in words) and "Traceback" not in done.stderr
    seen = f"exit code {done.returncode}: {done.stderr[-500:]}"
    account.check(
        f"it does not start: exit code {int(code)}, naming {words[0]}", done.returncode == code and said, seen
    )


def run(folder: Path, account: Account) -> None:
    safe = folder / "safe"
    safe.mkdir()
    log_file, seeds_file = folder / "log.key", folder / "seeds.key"
    with ServerProcess(folder, (f"--listen=127.0.0.1:{free_port()}",)) as server:
        log_key, grpc = server.ready["log_key"], server.ready["grpc"]
        with Players(grpc, log_key, count=2) as players:
            players.play(hands=10)
            for file in (log_file, seeds_file):
                file.rename(safe / file.name)
            account.did("took both key files away from the running service")
            players.play(hands=10)
        account.check("the running service goes on: its keys are in memory", not players.failures, players.failures)
        with SyncClient.connect(grpc, log_key=log_key) as client:
            client.register_table(TABLE).reserve()
        account.check("SIGTERM ends it with exit code 0", server.terminate() == ExitCode.OK)

        account.did("started it without key files")
        check_refused(account, server, ExitCode.CONFIGURATION, ("log.key",))
        make_signing_key(log_file, ORIGIN)
        make_key_encryption_key(seeds_file)
        account.did("made new keys under the old names, as somebody in a hurry would")
        check_refused(account, server, ExitCode.STOPPED, ("signing key",))
        (safe / "log.key").replace(log_file)
        account.did("brought the log's key back from its offline copy; the seeds' key is still another")
        server.start()
        with SyncClient.connect(grpc, log_key=log_key, timeout_s=5) as client:
            try:
                client.hand(TABLE, 1).seal(52, {})
                reason = "it was sealed"
            except CallFailed as error:
                reason = error.reason
        account.check("a hand whose seed cannot be read is not dealt: SEED_LOST", reason == "SEED_LOST", reason)
        server.terminate()
        (safe / "seeds.key").replace(seeds_file)
        account.did("brought the seeds' key back too")
        server.start()
        with SyncClient.connect(grpc, log_key=log_key) as client:
            hand = client.hand(TABLE, 1)
            hand.seal(52, {})
            hand.close()
        account.check("the same hand is dealt now", True)
        players.check_told(account)
        check_log(account, server.ready["http"], log_key)
