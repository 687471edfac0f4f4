"""The whole service without its listeners, on fakes that are real implementations of its ports.

A `World` is what survives a crash (disk, clock, keys) and, between `start` and `kill`, a running service on it.
`audited` reads the whole log from outside, as a stranger would, and finds nothing wrong or fails.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.calls import (
    Caller,
    ChooseTwin,
    CloseHand,
    Contributions,
    DrawNumbers,
    Numbers,
    OpenCards,
    PromiseSeeds,
    RegisterTable,
    ReserveHands,
    Reshuffle,
    SealShuffle,
    Shuffled,
)
from rngsvc.errors import Reason, ServiceError
from rngsvc.hand_secrets import HandSecrets
from rngsvc.keys.signing import SigningKey
from rngsvc.keys.wrapping import KeyEncryptionKey
from rngsvc.log import Log, Logged
from rngsvc.log_keys import LogKeys
from rngsvc.monitor import Monitor
from rngsvc.ports import Head, Store
from rngsvc.protocol.checkpoint import Checkpoint, verify_checkpoint
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.entries import ReserveEntry, TableEntry, parse_entry
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.twin import promise_choice
from rngsvc.protocol.verify import verify
from rngsvc.results import Results
from rngsvc.sampling import Sampler
from rngsvc.sequencer import Limits, Sequencer
from rngsvc.serve import _check_log
from rngsvc.service import Service
from rngsvc.shuffles import DealtCache, Openings
from rngsvc.store.memory import Disk, MemoryStore
from rngsvc.tables import Tables
from rngsvc.vault import Vault
from rngsvc.web import public_receipt

T = TypeVar("T")

ORIGIN = "cardroom.example/rng"
START_MS = 1_790_000_000_000
CASINO = Caller("casino")
CLUB = Caller("club")
OPERATOR = Caller("operator", is_operator=True)
AUDITOR = X25519PrivateKey.from_private_bytes(bytes(range(32)))
AUDITOR_SIGNING = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64))))
AUDITOR_KEYS = (AUDITOR.public_key().public_bytes_raw(), AUDITOR_SIGNING.public_key)


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


class SeededEntropy:
    """Bytes that differ at each call and are the same in each run. Raises once `failing` is set, or `good_for` is 0."""

    def __init__(self, seed: bytes = b"") -> None:
        self._stream = hashlib.shake_256(b"entropy" + seed)
        self._calls = 0
        self.failing = False
        self.good_for: int | None = None
        self.given: list[bytes] = []

    def generate(self, count: int) -> bytes:
        if self.failing or self.good_for == 0:
            raise RuntimeError("the generator has failed")
        if self.good_for:
            self.good_for -= 1
        self._calls += 1
        stream = self._stream.copy()
        stream.update(self._calls.to_bytes(8, "big"))
        self.given.append(stream.digest(count))
        return self.given[-1]


class MemoryGuard:
    """A head guard that outlives the store."""

    def __init__(self) -> None:
        self.checkpoint: bytes | None = None
        self.seen: list[bytes] = []

    def remembered(self) -> list[bytes]:
        return [self.checkpoint] if self.checkpoint else []

    def advance(self, checkpoint: bytes) -> None:
        self.checkpoint = checkpoint
        self.seen.append(checkpoint)


def table_id(number: int) -> bytes:
    return hashlib.sha256(b"table %d" % number).digest()[:16]


def snapshot(disk: Disk) -> dict[str, Any]:
    """Everything that a memory store keeps, to be compared later."""
    return {
        "head": disk.head,
        "entries": list(disk.entries),
        "results": list(disk.results),
        "tiles": dict(disk.tiles),
        "tables": dict(disk.tables),
        "steps": {table: {seq: list(steps) for seq, steps in hands.items()} for table, hands in disk.steps.items()},
        "data_keys": dict(disk.data_keys),
        "samples": dict(disk.samples),
    }


@dataclass
class World:
    """See the module's text. ``make_store`` is called at each start and may wrap or replace the memory store."""

    disk: Disk = field(default_factory=Disk)
    clock: FakeClock = field(default_factory=FakeClock)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    kek: KeyEncryptionKey = field(default_factory=lambda: KeyEncryptionKey(bytes(range(32))))
    guard: MemoryGuard | None = field(default_factory=MemoryGuard)
    limits: Limits = field(default_factory=Limits)
    make_store: Callable[["World"], Store] = lambda world: MemoryStore(world.disk)
    signing_key: SigningKey = field(
        default_factory=lambda: SigningKey(Ed25519PrivateKey.from_private_bytes(b"log key".ljust(32, b".")))
    )
    sign: Callable[[bytes], bytes] | None = None
    stops: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.note_key = NoteKey(ORIGIN, self.signing_key.public_key)

    async def start(self) -> "World":
        """Start a service as `rngsvc.serve.start` does; raises what that raises."""
        self.store = self.make_store(self)
        head = await self.store.open()
        try:
            self.log = await Log.load(self.store, head)
            keys = await LogKeys.load(ORIGIN, self.log, self.signing_key, None, self.clock.now_ms())
            await _check_log(self.log, keys, self.guard)  # type: ignore[arg-type]
            self.tables = Tables(self.store, self.log)
            await self.tables.load_unclosed()
        except BaseException:
            await self.store.close()
            raise
        self.sequencer = Sequencer(
            self.store,
            self.log,
            self.tables,
            self.clock,
            self.entropy,
            self._sign_checkpoint,
            self.guard,
            self.limits,
            self.stops.append,
        )
        vault = Vault(ORIGIN, self.kek, self.store, self.entropy)
        secrets = HandSecrets(ORIGIN, vault, DealtCache())
        self.service = Service(ORIGIN, self.store, self.log, self.tables, self.sequencer, secrets)
        self.results = Results(self.store, self.log, self.sequencer, bytes(32))
        self.sampler = Sampler(self.store, self.log, self.sequencer, self.entropy, 1 << 30)
        self.sequencer.start()
        return self

    def _sign_checkpoint(self, size: int, root: bytes, _time_ms: int) -> bytes:
        return Checkpoint(ORIGIN, size, root).sign(self.note_key, self.sign or self.signing_key.sign).encode()

    async def kill(self) -> None:
        """End the service as a crash would: nothing is finished, only the lock is free again."""
        task = self.sequencer._task
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.store.close()

    async def restart(self) -> "World":
        await self.kill()
        return await self.start()

    async def play(self, number: int = 0, caller: Caller = CASINO, **terms: Any) -> "Play":
        """Register a table and return the calls for it."""
        wanted = {"mode": "shoe", "reveal": "public", "ttl_s": 86_400, "auditor": None, **terms}
        if wanted["reveal"] == "escrow":
            wanted["auditor"] = AUDITOR_KEYS
        await self.service.register(caller, RegisterTable(table_id(number), **wanted))
        return Play(self, table_id(number), caller)

    async def refused(self, reason: Reason, call: Awaitable[object], *words: str) -> ServiceError:
        """The call is refused for `reason`, with `words` in its message, and has changed nothing."""
        before = snapshot(self.disk)
        with pytest.raises(ServiceError) as error:
            await call
        assert error.value.reason is reason, error.value.message
        for word in words:
            assert word in error.value.message
        assert snapshot(self.disk) == before
        return error.value

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        """The call gives the same answer again, in this process and in the next, and changes nothing."""
        first = await call()
        before = snapshot(self.disk)
        assert content(await call()) == content(first)
        await self.restart()
        assert content(await call()) == content(first)
        assert snapshot(self.disk) == before
        return first


def content(answer: object) -> object:
    """What of an answer must be the same at a repeat: all but the proof, which may lead to a newer checkpoint."""
    match answer:
        case Logged():
            return answer.position, answer.entry
        case Shuffled():
            return content(answer.logged), tuple(answer.leaves), answer.contribution_leaves, answer.openings
        case Numbers():
            return content(answer.logged), answer.values, answer.contribution_leaves
        case _:
            return answer


@asynccontextmanager
async def running(**parts: Any) -> AsyncIterator[World]:
    """A started world, whose log is audited at the end."""
    world = await World(**parts).start()
    try:
        yield world
        if not world.sequencer.stopped:
            await audited(world)
    finally:
        await world.kill()


@dataclass(frozen=True)
class Play:
    """The calls of one caller at one table, each raising its error."""

    world: World
    table: bytes
    caller: Caller = CASINO

    async def reserve(self, first: int, count: int = 1) -> Logged:
        return _only(await self.world.service.reserve(self.caller, [ReserveHands(self.table, first, count)]))

    async def promise(self, first: int, *hands: Contributions) -> Logged:
        """Log the promises of the seeds that `hands` give for the hands from `first` on."""
        promises = tuple(
            tuple((who, promise(ORIGIN, self.table, seq, who, seed)) for who, seed in hand)
            for seq, hand in enumerate(hands, first)
        )
        return await self.world.service.promise(self.caller, PromiseSeeds(self.table, first, promises))

    async def promise_twin(self, first: int, *hands: Sequence[tuple[bytes, bytes, bytes]]) -> Logged:
        """Log the promises of the seeds and choices, (id, seed, choice), of the hands from `first` on."""
        promises = tuple(
            tuple(
                (who, promise(ORIGIN, self.table, seq, who, seed), promise_choice(ORIGIN, self.table, seq, who, choice))
                for who, seed, choice in hand
            )
            for seq, hand in enumerate(hands, first)
        )
        return await self.world.service.promise(self.caller, PromiseSeeds(self.table, first, promises))

    async def choose(self, seq: int, choices: Contributions = ()) -> Shuffled:
        return _only(await self.world.service.choose(self.caller, [ChooseTwin(self.table, seq, choices)]))

    async def seal(self, seq: int, n: int = 52, contributions: Contributions = ()) -> Shuffled:
        return _only(await self.world.service.seal(self.caller, [SealShuffle(self.table, seq, n, contributions)]))

    async def reshuffle(self, seq: int, k: int, *locations: tuple[int, int]) -> Shuffled:
        return await self.world.service.reshuffle(self.caller, Reshuffle(self.table, seq, k, locations))

    async def open(self, seq: int, k: int, *places: int) -> Openings:
        return _only(await self.world.service.open(self.caller, [OpenCards(self.table, seq, k, places)]))

    async def close(self, seq: int, outcome: str = "complete", reason: str | None = None) -> Logged:
        return _only(await self.world.service.close(self.caller, [CloseHand(self.table, seq, outcome, reason)]))

    async def draw(
        self, seq: int, purpose: bytes = b"button", modulus: int = 8, count: int = 1, contributions: Contributions = ()
    ) -> Numbers:
        request = DrawNumbers(self.table, seq, purpose, modulus, count, contributions)
        return await self.world.service.draw(self.caller, request)


def _only(answers: Sequence[T | ServiceError]) -> T:
    (answer,) = answers
    if isinstance(answer, ServiceError):
        raise answer
    return answer


async def audited(world: World) -> Monitor:
    """Check the whole log as a stranger would: every entry, the tree, the signature, every hand's receipt."""
    head = await _stored_head(world)
    monitor = Monitor(world.note_key)
    seeds: set[bytes] = set()
    if head is None:
        return monitor
    for raw in await world.store.entries(0, head.size):
        findings = monitor.feed(raw)
        assert not findings, findings
        entry = parse_entry(raw)
        if isinstance(entry, ReserveEntry):
            made = {*entry.commitments, *(entry.twin_commitments or ())}
            assert seeds.isdisjoint(made), "a seed was used twice"
            seeds.update(made)
    checkpoint = verify_checkpoint(head.checkpoint.decode(), ORIGIN, [world.note_key])
    assert (checkpoint.size, checkpoint.root) == (head.size, head.root) == (monitor.size, monitor.root)
    for table in world.disk.tables:
        for seq in range(1, (await world.store.sequence(table))[0] + 1):
            shown = await world.service.public_hand(table, seq)
            text = json.dumps(public_receipt(shown, ORIGIN, table.hex(), seq))
            terms = parse_entry(shown.view.entries[0].entry)
            assert isinstance(terms, TableEntry)
            # A table may have been registered with an auditor who is somebody else.
            auditor = AUDITOR if terms.auditor in (None, AUDITOR_KEYS) else None
            report = verify(text, world.note_key.vkey, world.clock.ms + 60_000, auditor)
            assert not report.failures, report.failures
    return monitor


async def _stored_head(world: World) -> Head | None:
    assert world.disk.head == world.log.head
    return world.disk.head
