"""From a configuration to a running service, and back down again. All wiring is here and nowhere else.

Start: self-tests and entropy, keys, the store and its lock, the log's edge against its checkpoint and the head guard,
a change of the log's key if one is due, an `integrity` entry; only then the listeners. Stop: health says so, no new
calls, calls in flight are finished, the store is closed. Every doubt at start or later ends the process with exit
code 4.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import Certificate, load_pem_x509_certificates

from rngsvc import logs, server, site
from rngsvc.config import COMMAND_FACTS, Address, ConfigurationRefused, IntegrityPolicy, Problem, Settings, load
from rngsvc.cosigning import Cosigner
from rngsvc.daily_runs import COMMAND, DONE, FAILED, LogAudit, Place, ScheduledRuns, SchedulerChild, command_job
from rngsvc.entropy import EntropySource, GeneratorFailed, OperatorFile, device_source, kernel_source
from rngsvc.errors import SigningStopped, TryAgain
from rngsvc.generator import Generator
from rngsvc.hand_secrets import HandSecrets
from rngsvc.head_guard import FileGuard
from rngsvc.http import address_of, bound, serving
from rngsvc.keys.loading import load_changing_key, load_key_encryption_key, load_signer
from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import make_auditor_keys, make_key_encryption_key, make_signing_key
from rngsvc.log import Log
from rngsvc.log_keys import KeysRefused, LogKeys
from rngsvc.manifest import manifest_hash
from rngsvc.metrics import Metrics
from rngsvc.ports import Head, KeyEncryptionKey, Store, StoreDamaged, StoreHeld, StoreRefused
from rngsvc.protocol.checkpoint import Checkpoint, verify_checkpoint
from rngsvc.protocol.entries import IntegrityEntry, parse_entry
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import root_from_nodes
from rngsvc.protocol.policy import NO_WITNESSES, Policy
from rngsvc.results import Results
from rngsvc.sampling import Sampler
from rngsvc.sequencer import BatchReport, Limits, Sequencer
from rngsvc.service import Service
from rngsvc.shuffles import DealtCache
from rngsvc.status import Board, integrity_trouble
from rngsvc.store.memory import MemoryStore
from rngsvc.store.sqlite import SqliteStore
from rngsvc.tables import Tables
from rngsvc.vault import Vault
from rngsvc.web import operator_app, public_app

if TYPE_CHECKING:
    from rngsvc.tracing import Tracing

EXIT_OK: Final = 0
EXIT_STOPPED: Final = 4
EXIT_CONFIGURATION: Final = 78

_EXPIRY_SWEEP_S: Final = 2.0
_STATUS_S: Final = 10.0
_STORE_CHECK_S: Final = 2.0
_STANDBY_S: Final = 0.5
_STOPPED_DRAIN_S: Final = 1.0
_STOPPED_ENDS_S: Final = 5.0
_RESULTS_SOUGHT: Final = 100
_ORPHAN_CHECK_S: Final = 1.0
_PR_SET_DUMPABLE: Final = 4
_EPHEMERAL_ORIGIN: Final = "ephemeral.example/rng"

_log = structlog.get_logger("rngsvc.serve")


class StartRefused(Exception):
    """The service may not start: what it finds and what it should find do not agree."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return ms since 1970 UTC."""
        return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class FreshEntropy:
    """The generator for play, reseeded before each batch: a restored snapshot of the machine repeats nothing."""

    generator: Generator

    def generate(self, count: int) -> bytes:
        """Return ``count`` bytes with prediction resistance (about 25 us more)."""
        return self.generator.generate(count, prediction_resistance=True)


@dataclass(frozen=True, slots=True)
class Core:
    """The service without its listeners."""

    service: Service
    log: Log
    store: Store
    sequencer: Sequencer
    sampler: Sampler
    results: Results
    generator: Generator
    keys: LogKeys


async def run(
    settings: Settings, child: SchedulerChild, *, auditor_keys: Path | None = None, watch_parent: bool = False
) -> int:
    """Run the service until it is told to stop, or must; return the exit code.

    Prints one JSON line with its addresses and public key when it is ready. ``child`` runs what is done daily.
    ``auditor_keys`` is named in that line; with ``watch_parent`` it also stops when the process that started it is
    gone.
    """
    logs.configure(settings.log_level, settings.log_format)
    _keep_secrets_out_of_dumps()
    _collect_rarely()
    metrics = Metrics()
    stopping = asyncio.Event()
    tracing: Tracing | None = None
    try:
        policy = _witness_policy(settings)
        tracing = _tracing(settings)
        core = await start(settings, metrics, stopping, tracing)
    except (KeyUnavailable, ConfigurationRefused) as error:
        _log.critical("not started", why=str(error))
        return EXIT_CONFIGURATION
    except (
        GeneratorFailed,
        StoreRefused,
        StoreDamaged,
        StartRefused,
        KeysRefused,
        SigningStopped,
        TryAgain,
    ) as error:
        _log.critical("not started", why=str(error))
        return EXIT_STOPPED
    try:
        return await _serve(
            settings, core, policy, metrics, stopping, child, tracing, auditor_keys, watch_parent=watch_parent
        )
    finally:
        await core.store.close()
        if tracing:
            await asyncio.to_thread(tracing.close)


async def start(
    settings: Settings, metrics: Metrics, stopping: asyncio.Event, tracing: "Tracing | None" = None
) -> Core:
    """Bring everything up but the listeners; raises if anything is in doubt. ``stopping`` is set on doubt later."""
    generator = Generator(
        _sources(settings),
        reseed_after_requests=settings.reseed_after_requests,
        reseed_after_s=settings.reseed_after_s,
    )
    signer = load_signer(settings.signing_key)
    previous = load_signer(settings.previous_signing_key) if settings.previous_signing_key else None
    kek = _key_encryption_key(settings)
    store = _store(settings)
    guard = _guard(settings)
    head = await _taken(store, wait=settings.standby)
    try:
        log = await Log.load(store, head)
        keys = await LogKeys.load(settings.origin, log, signer, previous, SystemClock().now_ms())
        await _check_log(log, keys, guard)
        tables = Tables(store, log)
        await tables.load_unclosed()

        def observe(report: BatchReport) -> None:
            metrics.observe_batch(report)
            if tracing:
                tracing.batch(report)

        def on_stop(why: str) -> None:
            _log.critical("signing stopped", why=why)
            metrics.stopped.set(1)
            stopping.set()

        sequencer = Sequencer(
            store,
            log,
            tables,
            SystemClock(),
            FreshEntropy(generator),
            keys.sign,
            guard,
            Limits(settings.queue_limit, settings.batch_limit),
            on_stop,
            observe,
        )
        vault = Vault(settings.origin, kek, store, generator)
        secrets = HandSecrets(settings.origin, vault, DealtCache())
        service = Service(settings.origin, store, log, tables, sequencer, secrets)
        results = Results(store, log, sequencer, manifest_hash())
        sampler = Sampler(store, log, sequencer, generator, settings.sample_bytes_per_s)
        sequencer.start()
        if keys.change_is_due:
            log.key_positions.append(await sequencer.submit(keys.change))
            _log.warning("the log's key has changed", old=keys.changes[-1].old.hex(), new=keys.current.vkey)
        await results.start(json.dumps(generator.self_test()).encode())
    except BaseException:
        await store.close()
        raise
    metrics.describe_build(version("sealed-shoe"), results.code, settings.origin)
    metrics.watch(
        generator,
        {
            "rngsvc_log_size": ("Entries that the newest checkpoint covers.", lambda: log.size),
            "rngsvc_hands_unclosed": ("Reserved hands that are not closed.", lambda: tables.unclosed_hands),
            "rngsvc_tables_in_play": ("Tables with an unclosed hand.", lambda: len(tables.with_unclosed_hands())),
            "rngsvc_queue": ("Calls that wait for the next batch.", lambda: sequencer.queued),
            "rngsvc_queue_limit": ("Calls that may wait; more are refused.", lambda: settings.queue_limit),
        },
    )
    return Core(service, log, store, sequencer, sampler, results, generator, keys)


def _tracing(settings: Settings) -> "Tracing | None":
    if settings.tracing_endpoint is None:
        return None
    try:
        from rngsvc.tracing import Tracing  # noqa: PLC0415  (OpenTelemetry is an extra)
    except ImportError:
        allowed = "needs the extra: pip install 'sealed-shoe[tracing]'"
        raise ConfigurationRefused([Problem("tracing_endpoint", settings.tracing_endpoint, allowed)]) from None
    return Tracing(settings.tracing_endpoint, settings.tracing_ratio, settings.origin, version("sealed-shoe"))


def _key_encryption_key(settings: Settings) -> KeyEncryptionKey:
    if settings.previous_key_encryption_key:
        return load_changing_key(settings.key_encryption_key, settings.previous_key_encryption_key)
    return load_key_encryption_key(settings.key_encryption_key)


def _store(settings: Settings) -> Store:
    if settings.store.postgres:
        try:
            from rngsvc.store.postgres import PostgresStore  # noqa: PLC0415  (asyncpg is an extra)
        except ImportError:
            problem = Problem("store", settings.store.postgres, "needs the extra: pip install 'sealed-shoe[postgres]'")
            raise ConfigurationRefused([problem]) from None
        return PostgresStore(settings.store.postgres)
    return SqliteStore(settings.store.path) if settings.store.path else MemoryStore()


def _guard(settings: Settings) -> FileGuard | None:
    """Return the head guard: where it is configured, else beside the store's file. None where the store is no file."""
    beside = settings.store.path
    path = settings.head_guard or (beside.with_name(beside.name + ".checkpoint") if beside else None)
    try:
        return FileGuard(path) if path else None
    except OSError as error:
        setting = "head_guard" if settings.head_guard else "store"
        raise ConfigurationRefused([Problem(setting, str(path), f"cannot be opened: {error.strerror}")]) from None


async def _taken(store: Store, *, wait: bool) -> Head | None:
    """Open the store; a standby waits for as long as another process holds it."""
    waiting = False
    while True:
        try:
            return await store.open()
        except StoreHeld as held:
            if not wait:
                raise
            if not waiting:
                _log.info("standby", why=str(held))
                waiting = True
            await asyncio.sleep(_STANDBY_S)


async def _check_log(log: Log, keys: LogKeys, guard: FileGuard | None) -> None:
    """Raise StartRefused unless checkpoint, tree and guard agree."""
    head = log.head
    size = 0
    if head:
        size = head.size
        try:
            checkpoint = verify_checkpoint(head.checkpoint.decode(), keys.origin, [keys.current])
        except (UnicodeDecodeError, MalformedError, ProofError) as error:
            raise StartRefused(f"the store's checkpoint is not one of this origin and signing key: {error}") from None
        if (checkpoint.size, checkpoint.root) != (head.size, head.root):
            raise StartRefused("the store's checkpoint does not say what the store's head says")
        if root_from_nodes(head.size, log.tree.node) != head.root:
            raise StartRefused("the store's entries and tiles do not give the root of its checkpoint")
    known = _remembered(guard, keys) if guard else None
    if known:
        if known.size > size:
            raise StartRefused(
                f"the store has {size} entries, but a checkpoint over {known.size} was signed: it is an older copy, and"
                " going on from it would fork the log"
            )
        if known.root != await log.root(known.size):
            raise StartRefused(f"the store differs from the log whose checkpoint over {known.size} entries was signed")


def _remembered(guard: FileGuard, keys: LogKeys) -> Checkpoint | None:
    """Return the newest checkpoint that the guard holds, None if it is new. A slot may be torn, but not all of them."""
    slots = guard.remembered()
    checkpoints = []
    for slot in slots:
        with contextlib.suppress(UnicodeDecodeError, MalformedError, ProofError):
            checkpoints.append(verify_checkpoint(slot.decode(), keys.origin, keys.configured))
    if slots and not checkpoints:
        raise StartRefused("the head guard holds no checkpoint of this origin and signing key")
    return max(checkpoints, key=lambda checkpoint: checkpoint.size, default=None)


def _sources(settings: Settings) -> list[EntropySource]:
    sources: list[EntropySource] = [kernel_source()]
    if settings.entropy_device:
        device = settings.entropy_device
        sources.append(device_source(device, settings.entropy_device_bits_per_byte, settings.entropy_device_timeout_s))
    if settings.entropy_file:
        sources.append(OperatorFile(settings.entropy_file))
    return sources


def _witness_policy(settings: Settings) -> Policy:
    if settings.witness_policy is None:
        return NO_WITNESSES
    try:
        return Policy.parse(settings.witness_policy.read_bytes())
    except (OSError, MalformedError) as error:
        raise ConfigurationRefused([Problem("witness_policy", str(settings.witness_policy), str(error))]) from None


# --- Listeners and life ---


async def _serve(
    settings: Settings,
    core: Core,
    policy: Policy,
    metrics: Metrics,
    stopping: asyncio.Event,
    child: SchedulerChild,
    tracing: "Tracing | None",
    auditor_keys: Path | None,
    *,
    watch_parent: bool,
) -> int:
    cosigner = Cosigner(core.log, policy, settings.witness_interval_s)
    metrics.watch_witnesses(cosigner)
    grpc_server, healthy = server.build(
        service=core.service,
        log=core.log,
        store=core.store,
        sampler=core.sampler,
        results=core.results,
        metrics=metrics,
        reseeds=lambda: core.generator.reseeds,
        cosigned=cosigner.newest_note,
        has_tls=settings.has_tls,
        default_ttl_s=settings.default_ttl_s,
        default_deadline_s=settings.default_deadline_s,
        max_message_bytes=settings.max_message_bytes,
        max_concurrent=settings.queue_limit,
        begin_call=tracing.call if tracing else None,
    )
    try:
        port = _add_port(grpc_server, settings, metrics)
        public = bound(settings.http_public)
        operator = bound(settings.http_operator)
    except (RuntimeError, OSError, CertificateUnusable) as error:
        _log.critical("not started", why=f"cannot listen: {error}")
        return EXIT_CONFIGURATION
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    await grpc_server.start()
    await server.set_health(healthy, serving=True)

    def ready() -> tuple[bool, dict[str, object]]:
        stopped = core.sequencer.stopped
        able = stopped is None and not stopping.is_set()
        return able, {"log_size": core.log.size, "why": stopped.why if stopped else ""}

    log_audit = LogAudit(core.sequencer.clock.now_ms())
    board = Board(core.service, core.results, cosigner, log_audit)
    pages = site.routes(core.keys.first.vkey, board.read)
    web = public_app(
        core.service, core.log, core.store, settings.origin, cosigner.newest_note, pages, metrics.hand_asked
    )
    async with (
        serving(web, public),
        serving(operator_app(metrics.registry, ready), operator),
        _background(_close_expired(core)),
        _background(_watch_status(settings, core, board, metrics)),
        _background(_watch_store(core)),
        _background(cosigner.run()),
        _scheduled(settings, core, metrics, child, log_audit, Address(settings.listen.host, port), public),
        _background(_until_orphaned(stopping) if watch_parent else asyncio.sleep(0)),
    ):
        ready_line = {
            "grpc": str(Address(settings.listen.host, port)),
            "http": f"http://{address_of(public)}",
            "operator": f"http://{address_of(operator)}",
            "origin": settings.origin,
            "log_key": core.keys.first.vkey,
            "tls": settings.has_tls,
            **({"auditor_keys": str(auditor_keys)} if auditor_keys else {}),
        }
        print(json.dumps(ready_line), flush=True)
        _log.info("ready", **ready_line)
        if not settings.has_tls:
            _log.warning("without TLS: loopback only, every local process has every role")
        await stopping.wait()
        _log.info("stopping")
        await server.set_health(healthy, serving=False)
        core.log.end()
        if core.sequencer.stopped:
            # All that waited was refused. What is left may wait for a store out of reach, behind a cut network or on a
            # disk that hangs; it must not keep a process from ending that signs no more.
            loop.call_later(_STOPPED_ENDS_S, os._exit, EXIT_STOPPED)
        await grpc_server.stop(_STOPPED_DRAIN_S if core.sequencer.stopped else settings.drain_s)
        await core.sequencer.drain()
    if core.sequencer.stopped:
        return EXIT_STOPPED
    _log.info("stopped", log_size=core.log.size)
    return EXIT_OK


def _add_port(grpc_server: grpc.aio.Server, settings: Settings, metrics: Metrics) -> int:
    address = str(settings.listen)
    if not settings.has_tls:
        return grpc_server.add_insecure_port(address)
    certificates = _Certificates(settings, metrics)
    credentials = grpc.dynamic_ssl_server_credentials(
        certificates.load(),
        cast("Callable[[], grpc.ServerCertificateConfiguration]", certificates.reload),  # None: no change
        require_client_authentication=True,
    )
    return grpc_server.add_secure_port(address, credentials)


class CertificateUnusable(Exception):
    """A certificate file holds something else, or a key that is another's."""


def _pem_certificates(setting: str, file: Path, pem: bytes) -> list[Certificate]:
    try:
        return load_pem_x509_certificates(pem)
    except ValueError:
        raise CertificateUnusable(f"{setting}: {file} holds no PEM certificate") from None


class _Certificates:
    """The server's certificate files, read again for a new connection when they have changed."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        assert settings.tls_certificate, "asked for only with TLS"
        assert settings.tls_key, "the configuration wants all three"
        assert settings.tls_client_ca, "the configuration wants all three"
        self._files = (settings.tls_key, settings.tls_certificate, settings.tls_client_ca)
        self._metrics = metrics
        self._read_at = self._changed()

    def load(self) -> grpc.ServerCertificateConfiguration:
        """Read them. OSError if one cannot be read, CertificateUnusable if they are none or do not go together."""
        key, chain, authorities = (file.read_bytes() for file in self._files)
        key_file, chain_file, authorities_file = self._files
        try:
            private_key = load_pem_private_key(key, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # Not chained: what the parser has to say about a secret stays unsaid.
            raise CertificateUnusable(f"tls_key: {key_file} is no unencrypted PEM private key") from None
        certificates = _pem_certificates("tls_certificate", chain_file, chain)
        _pem_certificates("tls_client_ca", authorities_file, authorities)
        # While one is renewed after the other they do not go together for a moment.
        if private_key.public_key() != certificates[0].public_key():
            raise CertificateUnusable(f"tls_key: {key_file} is not the key of {chain_file}")
        self._metrics.show_certificate(min(each.not_valid_after_utc for each in certificates).timestamp())
        return grpc.ssl_server_certificate_configuration([(key, chain)], authorities)

    def reload(self) -> grpc.ServerCertificateConfiguration | None:
        """Return them if they have changed; what cannot be used leaves the old ones in use."""
        try:
            changed = self._changed()
            if changed == self._read_at:
                return None
            configuration = self.load()
        except (OSError, CertificateUnusable) as error:
            _log.error("certificates not reloaded", why=str(error))
            return None
        self._read_at = changed
        _log.info("certificates reloaded")
        return configuration

    def _changed(self) -> tuple[int, ...]:
        return tuple(file.stat().st_mtime_ns for file in self._files)


@contextlib.asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine while the context lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _close_expired(core: Core) -> None:
    while True:
        await asyncio.sleep(_EXPIRY_SWEEP_S)
        try:
            closed = await core.service.close_expired(core.sequencer.clock.now_ms())
        except (TryAgain, SigningStopped) as error:
            _log.warning("expired hands not closed", why=str(error))
        except Exception as error:  # noqa: BLE001  (whatever it is, the next sweep must come)
            _log.error("expired hands not closed", exc_info=error)
        else:
            if closed:
                _log.warning("expired hands closed", hands=closed)


async def _watch_status(settings: Settings, core: Core, board: Board, metrics: Metrics) -> None:
    while True:
        try:
            read = await board.read()
            metrics.show_status(read)
        except Exception as error:  # noqa: BLE001  (a figure that is not read is no reason to end the service)
            _log.warning("status not read", why=f"{type(error).__name__}: {error}")
        else:
            if settings.integrity_policy is IntegrityPolicy.STOP and (trouble := integrity_trouble(read)):
                core.sequencer.stop(trouble)
        await asyncio.sleep(_STATUS_S)


@contextlib.asynccontextmanager
async def _scheduled(
    settings: Settings,
    core: Core,
    metrics: Metrics,
    child: SchedulerChild,
    log_audit: LogAudit,
    calls: Address,
    public: socket.socket,
) -> AsyncIterator[None]:
    """Have the daily jobs done while the context lasts."""
    log_key = core.keys.first.vkey
    place = _audit_place(settings, f"http://{_reached_from_here(address_of(public))}", log_key)
    newest = await _newest_daily_ms(core)
    facts = dict(zip(COMMAND_FACTS, (str(_reached_from_here(calls)), log_key), strict=True))
    line = settings.daily_command
    command = command_job(line, facts, newest, settings.daily_limit_s) if line else None
    afterwards: set[asyncio.Task[None]] = set()

    def ended(job: str, outcome: str, began_ms: int) -> None:
        afterwards.add(asyncio.create_task(_count_run(core, metrics, job, outcome, began_ms)))

    def audit_failed(report: bytes) -> None:
        afterwards.add(asyncio.create_task(_log_damage(core, report)))

    clock = core.sequencer.clock
    runs = ScheduledRuns(child, place, log_audit, clock, ended, audit_failed, metrics.scheduler_gone)
    async with _background(runs.run(settings.daily, command)):
        yield
    await asyncio.gather(*afterwards)


def _audit_place(settings: Settings, url: str, log_key: str) -> Place:
    """Say where the own log is audited; where nothing keeps how far it is, a folder does for this run."""
    if settings.log_audit_state:
        return Place(url, log_key, settings.log_audit_state)
    if settings.store.path:
        return Place(url, log_key, settings.store.path.with_name(settings.store.path.name + ".audit"))
    # The scheduler removes it: it outlives a service that is killed.
    scratch = Path(tempfile.mkdtemp(prefix="rngsvc-audit-"))
    return Place(url, log_key, scratch / "state", scratch)


def _reached_from_here(address: Address) -> Address:
    """Return where this machine reaches a listener, also one that is bound to all addresses."""
    return Address({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host), address.port)  # noqa: S104


async def _newest_daily_ms(core: Core) -> int | None:
    """Return the time of the newest daily result in the log; None if there is none among the newest entries."""
    for logged in await core.results.newest(0, _RESULTS_SOUGHT):
        entry = parse_entry(logged.entry)
        if isinstance(entry, IntegrityEntry) and entry.kind == "daily":
            return entry.time
    return None


async def _count_run(core: Core, metrics: Metrics, job: str, outcome: str, began_ms: int) -> None:
    """Count the end of a daily job. A command that broke down may end with the code of a failed check: look closer."""
    if job == COMMAND and outcome == DONE and (await _newest_daily_ms(core) or 0) < began_ms:
        _log.error("daily command has handed in no result")
        outcome = FAILED
    metrics.run_ended(job, outcome)


async def _log_damage(core: Core, report: bytes) -> None:
    try:
        logged = await core.results.log_damaged(report)
    except (TryAgain, SigningStopped) as error:
        _log.error("the log's audit failed, which was not logged", why=str(error))
    else:
        _log.critical("the log's audit failed, which is logged", index=logged.position)


async def _watch_store(core: Core) -> None:
    """Stop if the store gets out of reach while nothing is written: a standby may serve already."""
    while True:
        await asyncio.sleep(_STORE_CHECK_S)
        try:
            await core.store.check()
        except Exception as error:  # noqa: BLE001  (whatever it is, what the store holds now is unknown)
            core.sequencer.stop(f"the store cannot be reached: {type(error).__name__}: {error}")
            return


async def _until_orphaned(stopping: asyncio.Event) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  (nobody tells a process that its parent is gone)
        await asyncio.sleep(_ORPHAN_CHECK_S)
    stopping.set()


def _collect_rarely() -> None:
    """Keep the garbage collector from walking modules and open hands again and again: nearly all dies by reference."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _keep_secrets_out_of_dumps() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


# --- Trying it out ---


@contextlib.contextmanager
def ephemeral(flags: Mapping[str, object]) -> Iterator[tuple[Settings, Path]]:
    """Yield settings for a service of its own: new keys and a SQLite store in a folder that is removed afterwards.

    ``flags`` overrides settings by name. The second value is the file with an auditor's keys, for tables with escrow.
    """
    folder = Path(tempfile.mkdtemp(prefix="rngsvc-"))
    try:
        make_signing_key(folder / "log.key", _EPHEMERAL_ORIGIN)
        make_key_encryption_key(folder / "seeds.key")
        make_auditor_keys(folder / "auditor.key")
        settings = {
            "origin": _EPHEMERAL_ORIGIN,
            "signing_key": f"file:{folder / 'log.key'}",
            "key_encryption_key": f"file:{folder / 'seeds.key'}",
            "listen": "127.0.0.1:0",
            "http_public": "127.0.0.1:0",
            "http_operator": "127.0.0.1:0",
            "store": f"sqlite:{folder / 'log.sqlite3'}",
            "log_level": "warning",
        }
        given = {name: value for name, value in flags.items() if value is not None}
        yield load({**settings, **given}, {}).settings, folder / "auditor.key"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
