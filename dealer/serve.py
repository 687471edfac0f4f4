"""From settings to a running card room, and back down again. All wiring is here and nowhere else.

Start: the token key, the store and its lock (a standby waits for it), the shuffle service, the tables; only then the
listeners. Stop: health says so, no hand begins, running hands may end, calls are finished, the store is let go.
"""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import grpc
import structlog
from cryptography.x509 import load_pem_x509_certificates
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dealer import logs
from dealer.card_room import CardRoom
from dealer.config import ConfigurationRefused, Settings, read_token_key
from dealer.metrics import Metrics
from dealer.observed import ObservedCalls, ObservedStore, ObservedTransport
from dealer.server import MAX_REQUEST_BYTES, TableServicer, add_to
from dealer.store import Store, StoreFailed, StoreHeld, StoreUnreachable
from dealer.store.location import open_store
from dealer.v1 import table_pb2
from dealer.web import listening, operator_pages
from rngsvc.client import CallFailed, Client, Consistency, Credentials, Unproven

EXIT_OK: Final = 0
EXIT_STOPPED: Final = 4

# What is being answered may end; a stream never does by itself.
GOODBYE_S = 1.0
STANDBY_S = 0.5
PROBE_S = 5.0
LEDGER_S = 60.0
# Short, so that players soon see why there are no cards; the table goes on trying (AL-22).
SHUFFLE_CALL_S = 3.0
# Calls at a time, watchers included; more are refused with RESOURCE_EXHAUSTED.
MOST_CALLS = 4_096
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    # Otherwise two dealers could listen at one address, and a player's calls would go to either.
    ("grpc.so_reuseport", 0),
    # A player whose network is gone says nothing: only an unanswered ping shows that he is disconnected (P7-9, AL-16).
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)
_SERVICE = table_pb2.DESCRIPTOR.services_by_name["TableService"].full_name

_log = structlog.get_logger("dealer.serve")


class _Signals:
    """SIGTERM or SIGINT once: stop in order. Twice: stop now."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.stop_now = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._told)

    def _told(self) -> None:
        (self.stop_now if self.stop.is_set() else self.stop).set()


async def run(settings: Settings, shown: dict[str, str]) -> int:
    """Serve until told to stop; return the exit code.

    Prints one JSON line when it is ready: its addresses, and what is ``shown`` besides. Raises ConfigurationRefused,
    StoreFailed, ExtraMissing, OSError, CallFailed or Unproven if it cannot start.
    """
    logs.to_stderr()
    token_key = read_token_key(settings.token_key)
    signals = _Signals()
    metrics = Metrics()
    metrics.build.info({"version": version("sealed-shoe")})
    lost = asyncio.Event()
    loop = asyncio.get_running_loop()

    def lose(why: str) -> None:
        _log.critical("the store is lost", store=str(settings.store), why=why)
        lost.set()

    store = await _taken(settings, lambda why: loop.call_soon_threadsafe(lose, why), signals.stop)
    if store is None:
        return EXIT_OK
    async with _card_room(settings, ObservedStore(store, metrics), metrics) as (room, service):
        server = grpc.aio.server(
            options=_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS, interceptors=[ObservedCalls(_SERVICE, metrics)]
        )
        add_to(server, TableServicer(room, token_key))
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        reflection.enable_server_reflection((_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        port = _bind(server, settings, metrics)

        def ready() -> dict[str, Any]:
            why = {
                "the store is lost": lost.is_set() or room.stopped.is_set(),
                "it stops": signals.stop.is_set(),
                service.trouble: True,
            }
            return {"why": next(reason for reason, holds in why.items() if holds), "tables": len(room.live)}

        async with listening(settings.http_operator, operator_pages(metrics.registry, ready)) as operator:
            await server.start()
            room.start()
            metrics.watch(room)
            await checks.set(_SERVICE, health_pb2.HealthCheckResponse.SERVING)
            host = settings.listen.rpartition(":")[0]
            line = {"grpc": f"{host}:{port}", "operator": f"http://{operator}", "tls": settings.tls_key is not None}
            print(json.dumps(line | shown), flush=True)
            _log.info("ready", **line, tables=len(room.live))
            async with _beside(service.probe(), _check_ledger(room, metrics)):
                await _first(signals.stop, room.stopped, lost)
                await checks.enter_graceful_shutdown()
                _log.info("stopping", hands=sum(live.in_hand for live in room.live))
                await _drain(room, settings.drain_s, signals.stop_now, room.stopped, lost)
            stopped = room.stopped.is_set() or lost.is_set()
            await server.stop(None if stopped else GOODBYE_S)
        _log.info("stopped", hands=sum(live.in_hand for live in room.live))
        return EXIT_STOPPED if stopped else EXIT_OK


async def _taken(settings: Settings, lost: Callable[[str], object], stop: asyncio.Event) -> Store | None:
    """Take the store. A standby waits until nobody else has it; None if it was told to stop meanwhile."""
    said = ""
    while not stop.is_set():
        try:
            return open_store(settings.store, lost)
        except (StoreHeld, StoreUnreachable) as reason:
            if not settings.standby:
                raise
            if said != str(reason):
                said = str(reason)
                _log.info("standby", why=said)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), STANDBY_S)
    return None


async def _drain(room: CardRoom, seconds: float, *but: asyncio.Event) -> None:
    """Let hands end: for so many seconds, or until one of ``but``. What has not ended is kept for the next start."""
    ending = asyncio.create_task(room.drain())
    done = asyncio.create_task(_first(*but))
    await asyncio.wait([ending, done], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in (ending, done):
        task.cancel()
    await asyncio.gather(ending, done, return_exceptions=True)


async def _check_ledger(room: CardRoom, metrics: Metrics) -> None:
    while True:
        with contextlib.suppress(StoreFailed):  # counted where it fails
            out = room.imbalance_cents()
            if out:
                _log.critical("the ledger is out of balance", cents=out)
            metrics.imbalance_cents.set(out)
            metrics.ledger_checked.set_to_current_time()
        await asyncio.sleep(LEDGER_S)


def _bind(server: grpc.aio.Server, settings: Settings, metrics: Metrics) -> int:
    """Return the port for players. Raises ConfigurationRefused, OSError."""
    try:
        return _port(server, settings, metrics)
    except RuntimeError as error:  # gRPC's own, which names the address
        raise ConfigurationRefused([f"listen: {error}"]) from error


def _port(server: grpc.aio.Server, settings: Settings, metrics: Metrics) -> int:
    if settings.tls_certificate is None or settings.tls_key is None:
        return server.add_insecure_port(settings.listen)
    _show_certificate("server", settings.tls_certificate, metrics)
    pair = (settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes())
    return server.add_secure_port(settings.listen, grpc.ssl_server_credentials([pair]))


def _show_certificate(use: str, file: Path, metrics: Metrics) -> None:
    try:
        chain = load_pem_x509_certificates(file.read_bytes())
    except ValueError:
        raise ConfigurationRefused([f"{file}: holds no PEM certificate"]) from None
    metrics.certificate_expires.labels(use).set(min(each.not_valid_after_utc for each in chain).timestamp())


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


@contextlib.asynccontextmanager
async def _beside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have work go on while the context lasts."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ShuffleService:
    """The connection to the shuffle service, asked now and then when nobody needs it."""

    def __init__(self, client: Client, transport: ObservedTransport) -> None:
        self._client = client
        self._transport = transport
        self._doubt = ""

    @property
    def trouble(self) -> str:
        """What is wrong with it as far as was seen when it was last asked; empty if nothing is."""
        return self._doubt if self._transport.reachable else "the shuffle service does not answer"

    async def probe(self) -> None:
        """Ask for the newest checkpoint again and again, so that it is known before a hand needs a card."""
        while True:
            try:
                await self._client.log.checkpoint()
                self._doubt = ""
            except CallFailed:
                pass  # the transport has seen it
            except Unproven as error:
                if not self._doubt:
                    _log.critical("the shuffle service's log does not hold", why=str(error))
                self._doubt = "the shuffle service's log does not hold"
            await asyncio.sleep(PROBE_S)


@contextlib.asynccontextmanager
async def _card_room(
    settings: Settings, store: Store, metrics: Metrics
) -> AsyncIterator[tuple[CardRoom, _ShuffleService]]:
    try:
        credentials = None
        if settings.rngsvc_ca and settings.rngsvc_certificate and settings.rngsvc_key:
            credentials = Credentials(settings.rngsvc_ca, settings.rngsvc_certificate, settings.rngsvc_key)
            _show_certificate("rngsvc", settings.rngsvc_certificate, metrics)
        transport = ObservedTransport(settings.rngsvc, credentials, metrics)
        async with await Client.over(
            transport,
            log_key=settings.log_key,
            consistency=Consistency.SAMPLED,
            timeout_s=SHUFFLE_CALL_S,
            known_checkpoint=None,
        ) as client:
            auditor = (settings.auditor_x25519, settings.auditor_ed25519)
            clock = lambda: time.time_ns() // 1_000_000
            room = CardRoom(store, client, auditor, settings.grant, clock, metrics.decided)
            try:
                yield room, _ShuffleService(client, transport)
            finally:
                await room.stop()
    finally:
        store.close()
