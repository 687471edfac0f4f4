"""The network between the active node and PostgreSQL is cut, while game servers still reach the node.

The hardest cut: the node does not know that its standby has taken over, and its callers wait for it. In the full form
the node is then cut off from everybody, so that its callers must find out by keepalive.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rngsvc.client import Credentials
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, Role
from tests.drills.account import Account
from tests.drills.network import Cable, Machine, Proxy, has_namespaces
from tests.drills.players import Players, check_log, free_port
from tests.postgres import Postgres
from tests.scale import scaled
from tests.simulation.process import ServerProcess

# PostgreSQL gives the lock of a vanished node back after seven seconds, the standby asks for it twice a second and
# starts. Through the proxy the lock is free only when the node has stopped, after seven seconds, and ended, five later.
TAKEOVER_S = 15
TAKEOVER_BY_PROXY_S = 25


@dataclass(frozen=True)
class Site:
    """Where two nodes and their PostgreSQL are, and the cables of the first node."""

    hosts: tuple[str, str]
    prefix: tuple[str, ...]
    addresses: tuple[str, str]
    to_store: Cable | Proxy
    to_callers: Cable | None = None


@contextmanager
def site(account: Account) -> Iterator[Site]:
    """Lay the network, with PostgreSQL at its end."""
    if has_namespaces():
        with Machine() as machine:
            clients, store = machine.connect(), machine.connect()
            database = Postgres(store.here)
            account.saw("the network is one of namespaces; a cut cable drops packets, and no interface goes down")
            try:
                remote, local = addresses(database, store.here, database.port)
                yield Site((clients.there, clients.here), machine.prefix, (remote, local), store, clients)
            finally:
                database.remove()
        return
    database = Postgres("127.0.0.1", free_port())
    proxy = Proxy((database.host, database.port))
    account.saw("no network namespaces here: a TCP proxy in this process stops passing bytes instead")
    try:
        yield Site(("127.0.0.1", "127.0.0.1"), (), addresses(database, database.host, proxy.port), proxy)
    finally:
        database.remove()


def addresses(database: Postgres, host: str, port: int) -> tuple[str, str]:
    """Return the address of a new schema for who comes over the network, and for who is on PostgreSQL's machine."""
    local = database.address()
    return f"postgresql://rngsvc@{host}:{port}/postgres?schema={local.partition('schema=')[2]}", local


def certificates(folder: Path, hosts: tuple[str, ...]) -> tuple[tuple[str, ...], Credentials]:
    """Make certificates for both nodes and a game server; return the flags that name them, and the game server's."""
    now = datetime.now(UTC)
    make_ca(folder, now)
    issue_server(folder, "server", sorted(set(hosts)), now)
    client = issue_client(folder, Identity(Role.GAME_SERVER, "floor"), now)
    files = {"tls-certificate": "server.pem", "tls-key": "server.key", "tls-client-ca": "ca.pem"}
    flags = tuple(f"--{setting}={folder / file}" for setting, file in files.items())
    return flags, Credentials(folder / "ca.pem", folder / f"{client}.pem", folder / f"{client}.key")


@contextmanager
def launched(standby: ServerProcess) -> Iterator[None]:
    """Run a standby, which serves nobody yet, while the block lasts."""
    try:
        standby.launch()
        yield
    finally:
        standby.kill()


def cut_off(account: Account, node: ServerProcess, standby: ServerProcess, *cables: Cable | Proxy) -> None:
    """Cut the cables of the active node, and check what becomes of it and of its standby."""
    for cable in cables:
        cable.cut()
    cut_at = time.monotonic()
    standby.wait_until_ready()
    took_s = time.monotonic() - cut_at
    allowed_s = TAKEOVER_S if isinstance(cables[0], Cable) else TAKEOVER_BY_PROXY_S
    account.check(f"the standby serves within {allowed_s} s", took_s < allowed_s, f"{took_s:.1f} s")
    account.saw(f"it took {took_s:.2f} s")
    code = node.ended(within_s=20)
    account.check("the node that was cut off ends by itself with exit code 4", code == ExitCode.STOPPED, code)
    account.saw(f"it ended within {time.monotonic() - cut_at:.2f} s of the cut")


def run(folder: Path, account: Account) -> None:
    with site(account) as here:
        tls, credentials = certificates(folder / "ca", here.hosts)
        port = free_port()
        ports = (port, port) if len(set(here.hosts)) == 2 else (port, free_port())
        places = [f"{host}:{port}" for host, port in zip(here.hosts, ports, strict=True)]
        flags = [
            (*tls, f"--store={address}", f"--listen={place}", "--standby=true")
            for address, place in zip(here.addresses, places, strict=True)
        ]
        node = ServerProcess(folder, flags[0], prefix=here.prefix)
        standby = ServerProcess(folder, flags[1])
        with node, launched(standby):
            log_key = node.ready["log_key"]
            with Players(f"ipv4:{','.join(places)}", log_key, credentials=credentials) as players:
                account.did("started a node and its standby on one PostgreSQL; four game servers play")
                players.play(hands=20)
                account.did("cut the network between the active node and PostgreSQL; game servers still reach the node")
                cut_off(account, node, standby, here.to_store)
                players.play(hands=20)
                here.to_store.mend()
                node.launch()
                account.did("mended the network and started the node again, as a standby")
                players.play(hands=20)
                if here.to_callers and scaled(0, 1):
                    standby.kill()
                    node.wait_until_ready()
                    standby.launch()
                    account.did("let the node take over again")
                    players.play(hands=20)
                    account.did("cut it off from PostgreSQL and from game servers")
                    cut_off(account, node, standby, here.to_store, here.to_callers)
                    players.play(hands=20, within_s=90)
                    for cable in (here.to_store, here.to_callers):
                        cable.mend()
                    node.launch()
                    account.did("mended the network and started the node again, as a standby")
            if scaled(0, 1):
                standby.kill()
                node.wait_until_ready()
                standby.launch()
                time.sleep(1)
                account.did("let the node take over again, and cut it off from PostgreSQL while nobody plays")
                cut_off(account, node, standby, here.to_store)
            account.check("game servers went on by themselves", not players.failures, players.failures)
            account.saw(f"the longest wait for a hand was {players.longest_wait_s():.2f} s")
            players.check_told(account)
            check_log(account, standby.ready["http"], log_key)
