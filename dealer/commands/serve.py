"""`dealer serve`."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import click
import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dealer.card_room import CardRoom
from dealer.commands.exit_codes import Ended, ExitCode
from dealer.config import SETTINGS, ConfigurationRefused, Settings, load, read_token_key
from dealer.demo_service import NoService, child_service
from dealer.server import MAX_REQUEST_BYTES, TableServicer
from dealer.store import Store, StoreFailed
from dealer.store.memory import MemoryStore
from dealer.store.sqlite import SqliteStore
from dealer.tokens import KEY_BYTES
from dealer.v1 import table_pb2, table_pb2_grpc
from rngsvc.client import CallFailed, Client, Credentials, Unproven

DRAIN_S = 5.0
# Short, so that players soon see why there are no cards; the table goes on trying (AL-22).
SHUFFLE_CALL_S = 3.0
STOPPED = 4
# Calls at a time, watchers included; more are refused with RESOURCE_EXHAUSTED.
MOST_CALLS = 4_096
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    # A player whose network is gone says nothing: only an unanswered ping shows that he is disconnected (P7-9, AL-16).
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)
_SERVICE = table_pb2.DESCRIPTOR.services_by_name["TableService"].full_name


@click.command()
@click.option(
    "--ephemeral",
    is_flag=True,
    help="Try it out: with a shuffle service, keys and a store of its own, all gone when it ends.",
)
@click.option("--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="A TOML file.")
@click.pass_context
def command(ctx: click.Context, /, ephemeral: bool, config_file: Path | None, **flags: str | None) -> None:
    """Run the card room until SIGTERM.

    Prints one JSON line on stdout when it is ready: the grpc address; with --ephemeral also token_key, the file with
    the key for `dealer token`, and the shuffle service's address and log_key. Logs go to stderr.
    """
    try:
        if ephemeral:
            code = asyncio.run(_ephemeral(flags))
        else:
            settings = load(flags, os.environ, config_file)
            code = asyncio.run(_serve(settings, {}))
    except ConfigurationRefused as error:
        raise Ended(ExitCode.CONFIGURATION, str(error)) from error
    except StoreFailed as error:
        raise Ended(ExitCode.CONFIGURATION, str(error)) from error
    except (NoService, CallFailed) as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    except Unproven as error:
        raise Ended(ExitCode.CHECK_FAILED, str(error)) from error
    ctx.exit(code)


command.params += [
    click.Option(["--" + name.replace("_", "-"), name], metavar="VALUE", help=setting.about)
    for name, setting in SETTINGS.items()
]


async def _ephemeral(flags: dict[str, str | None]) -> int:
    """Run with everything of its own."""
    async with child_service() as service:
        with tempfile.TemporaryDirectory(prefix="dealer-") as folder:
            token_key = Path(folder) / "token.key"
            token_key.touch(0o600)
            token_key.write_text(secrets.token_bytes(KEY_BYTES).hex())
            x25519, ed25519 = service.auditor.public_keys
            own = {
                "listen": "127.0.0.1:0",
                "rngsvc": service.address,
                "log_key": service.log_key,
                "auditor_x25519": x25519.hex(),
                "auditor_ed25519": ed25519.hex(),
                "store": f"sqlite:{folder}/tables.sqlite3",
                "token_key": str(token_key),
            }
            given = {name: value for name, value in flags.items() if value is not None}
            settings = load({**own, **given}, {}, None)
            shown = {"token_key": str(settings.token_key), "rngsvc": service.address, "log_key": service.log_key}
            return await _serve(settings, shown)


def _log_to_stderr() -> None:
    """Write one JSON line an event to stderr; stdout is for the address."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def _serve(settings: Settings, shown: dict[str, str]) -> int:
    """Serve until told to stop; return the exit code."""
    _log_to_stderr()
    token_key = read_token_key(settings.token_key)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with _card_room(settings) as room:
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
        table_pb2_grpc.add_TableServiceServicer_to_server(TableServicer(room, token_key), server)
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        reflection.enable_server_reflection((_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        host = settings.listen.rpartition(":")[0]
        port = _bind(server, settings)
        await server.start()
        room.start()
        await checks.set(_SERVICE, health_pb2.HealthCheckResponse.SERVING)
        click.echo(json.dumps({"grpc": f"{host}:{port}", "tls": settings.tls_key is not None, **shown}))
        await _first(stopping, room.stopped)
        await checks.enter_graceful_shutdown()
        await server.stop(DRAIN_S)
        return STOPPED if room.stopped.is_set() else int(ExitCode.OK)


def _bind(server: grpc.aio.Server, settings: Settings) -> int:
    if settings.tls_certificate is None or settings.tls_key is None:
        return server.add_insecure_port(settings.listen)
    pair = (settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes())
    return server.add_secure_port(settings.listen, grpc.ssl_server_credentials([pair]))


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


@contextlib.asynccontextmanager
async def _card_room(settings: Settings) -> AsyncIterator[CardRoom]:
    credentials = None
    if settings.rngsvc_ca and settings.rngsvc_certificate and settings.rngsvc_key:
        credentials = Credentials(settings.rngsvc_ca, settings.rngsvc_certificate, settings.rngsvc_key)
    store: Store = SqliteStore(settings.store) if settings.store else MemoryStore()
    try:
        async with await Client.connect(
            settings.rngsvc, log_key=settings.log_key, credentials=credentials, timeout_s=SHUFFLE_CALL_S
        ) as service:
            auditor = (settings.auditor_x25519, settings.auditor_ed25519)
            room = CardRoom(store, service, auditor, settings.grant, lambda: time.time_ns() // 1_000_000)
            try:
                yield room
            finally:
                await room.stop()
    finally:
        store.close()
