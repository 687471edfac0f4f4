"""The certificates of the server and of a client expire while it runs; renewed ones are used without a restart."""

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rngsvc.client import Credentials, SyncClient
from rngsvc.client.errors import CallFailed
from rngsvc.keys.development_ca import CERTIFICATE_DAYS, issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, Role
from tests.drills.account import Account
from tests.drills.figures import metric
from tests.drills.players import Players, check_log, free_port
from tests.simulation.process import ServerProcess

LIFE_S = 12


def refusal(target: str, log_key: str, credentials: Credentials) -> str:
    """Try to connect; return the error, "" if there was none."""
    try:
        with SyncClient.connect(target, log_key=log_key, credentials=credentials, timeout_s=2) as client:
            client.log.checkpoint()
    except CallFailed as error:
        return str(error)
    return ""


def run(folder: Path, account: Account) -> None:
    ca, live = folder / "ca", folder / "live"
    now = datetime.now(UTC)
    nearly_over = now - timedelta(days=CERTIFICATE_DAYS) + timedelta(seconds=LIFE_S)
    make_ca(ca, now)
    issue_server(ca, "short", ["127.0.0.1"], nearly_over)
    issue_server(ca, "renewed", ["127.0.0.1"], now)
    names = [
        issue_client(ca, Identity(Role.GAME_SERVER, name), issued)
        for name, issued in (("short", nearly_over), ("renewed", now))
    ]
    short, renewed = (Credentials(ca / "ca.pem", ca / f"{name}.pem", ca / f"{name}.key") for name in names)
    live.mkdir()

    def install(name: str) -> None:
        for suffix in ("key", "pem"):
            shutil.copy(ca / f"{name}.{suffix}", live / f"server.{suffix}")

    install("short")
    flags = (
        f"--listen=127.0.0.1:{free_port()}",
        f"--tls-certificate={live / 'server.pem'}",
        f"--tls-key={live / 'server.key'}",
        f"--tls-client-ca={ca / 'ca.pem'}",
    )
    with ServerProcess(folder, flags) as server:
        log_key, grpc = server.ready["log_key"], server.ready["grpc"]
        with Players(grpc, log_key, count=2, credentials=short) as players:
            account.did(f"started rngsvc with certificates that end {LIFE_S} seconds after they were issued")
            players.play(hands=10)
            ends = metric(server.ready["operator"], "rngsvc_certificate_expires_seconds")
            account.saw(f"rngsvc_certificate_expires_seconds says {ends - time.time():.1f} s from now")
            time.sleep(max(0.0, ends - time.time()) + 1)
            account.did("waited until they had ended")
            said = refusal(grpc, log_key, renewed)
            account.check("nobody can connect any more: the server's certificate is refused", said, "somebody could")
            account.saw(said)
            players.play(hands=10)
            account.check("who is connected plays on", not players.failures, players.failures)
            install("renewed")
            account.did("put the server's renewed certificate and key in place of the old files")
            said = refusal(grpc, log_key, renewed)
            account.check("a client with a good certificate connects, without a restart", not said, said)
            said = refusal(grpc, log_key, short)
            account.check("a client with an expired certificate does not", said, "it did")
            account.saw(said)
            reloaded = "certificates reloaded" in server.log_text
            account.check("the log says that the certificates were reloaded", reloaded, server.log_text[-500:])
            days = (metric(server.ready["operator"], "rngsvc_certificate_expires_seconds") - time.time()) / 86_400
            account.check("the metric, and so the alert, follows", days > CERTIFICATE_DAYS - 1, f"{days:.1f} days")
            players.play(hands=10)
        account.check("no game server noticed anything", not players.failures, players.failures)
        check_log(account, server.ready["http"], log_key)
