"""One writer, one order: everything that changes the log goes through here in micro-batches.

There is no linger timer: whatever was queued while the last commit was being made durable is the next batch. A batch is
one call of the generator, one run of steps in order of arrival, one signed checkpoint and one transaction with
compare-and-swap on the head; only then are its answers given. A commit that was certainly refused is undone in memory
and its callers may try again. On any doubt (unknown outcome, another writer, a clock that went far back, a generator
or a key that fails) the sequencer stops for good: a restart loads and checks what is really there.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from rngsvc.errors import Overloaded, Reason, ServiceError, SigningStopped, TryAgain
from rngsvc.log import Log
from rngsvc.ports import (
    Clock,
    Commit,
    DataKeyRow,
    Entropy,
    EntryRow,
    Head,
    HeadGuard,
    SampleRow,
    StepRow,
    Store,
    StoreRefused,
    TableRow,
)
from rngsvc.protocol.merkle import InclusionProver, leaf_hash
from rngsvc.tables import Table, Tables

MAX_CLOCK_BACK_MS: Final = 60_000
_QUIET_PASSES: Final = 8  # a call takes a few passes from its arrival to the queue
T = TypeVar("T")


class Batch:
    """What the steps of one batch have staged. A step checks first and stages then, so it stages all or nothing.

    ``undo`` collects what must be called if the store refuses the batch, ``shuffled`` (items, stream bytes used) and
    ``closed`` (outcome, reason) what metrics count if it does not.
    """

    def __init__(self, time_ms: int, log: Log, tables: Tables, randomness: bytes) -> None:
        self.time = time_ms
        self.entries: list[EntryRow] = []
        self.table_rows: list[TableRow] = []
        self.steps: list[StepRow] = []
        self.data_keys: list[DataKeyRow] = []
        self.samples: list[SampleRow] = []
        self.changed: dict[bytes, Table] = {}
        self.undo: list[Callable[[], None]] = []
        self.shuffled: list[tuple[int, int]] = []
        self.closed: list[tuple[str, str]] = []
        self._first = log.size
        self._tree = log.tree
        self._tables = tables
        self._randomness = memoryview(randomness)

    def append(self, kind: str, entry: bytes) -> tuple[int, bytes]:
        """Stage a log entry; return its position and leaf hash."""
        position = self._first + len(self.entries)
        leaf = leaf_hash(entry)
        self.entries.append(EntryRow(kind, entry))
        self._tree.append(leaf)
        return position, leaf

    def random(self, count: int) -> bytes:
        """Return ``count`` bytes of what the step announced when it was submitted."""
        assert count <= len(self._randomness), "a step announces its random bytes"
        taken, self._randomness = bytes(self._randomness[:count]), self._randomness[count:]
        return taken

    def table(self, table: bytes) -> Table | None:
        """Return the table as earlier steps of this batch left it; None if it is not in memory."""
        return self.changed.get(table) or self._tables.get(table)

    def put(self, table: Table) -> None:
        """Stage the table's new state."""
        self.changed[table.id] = table

    def weight(self) -> int:
        """Count everything staged."""
        staged: tuple[Sequence[object], ...] = (
            self.entries,
            self.table_rows,
            self.steps,
            self.data_keys,
            self.samples,
        )
        return sum(map(len, staged))

    def commit(self, expected: Head | None, head: Head) -> Commit:
        """Return the staged batch as one commit."""
        tiles = self._tree.tiles_since(self._first)
        return Commit(expected, head, self.entries, tiles, self.table_rows, self.steps, self.data_keys, self.samples)


@dataclass(slots=True)
class _Queued(Generic[T]):
    step: Callable[[Batch], T]
    random_bytes: int
    weight: int
    answer: "asyncio.Future[T]"
    since: float
    result: T | None = None


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one durable batch did, for metrics: counts and seconds, and `Batch.shuffled` and `Batch.closed`."""

    steps: int
    entries: int
    shuffled: Sequence[tuple[int, int]]
    closed: Sequence[tuple[str, str]]
    oldest_wait_s: float
    steps_s: float
    commit_s: float


@dataclass(slots=True)
class Limits:
    """How many steps may wait, and what those of one batch weigh together, unless it is a single one."""

    queue: int = 4096
    batch: int = 1024


@dataclass(slots=True)
class Sequencer:
    """Runs steps in batches; see the module's text.

    ``sign_checkpoint(size, root, time_ms)`` returns the signed note. ``on_stop(why)`` is called once when signing
    stops, ``observe(report)`` after each batch.
    """

    store: Store
    log: Log
    tables: Tables
    clock: Clock
    entropy: Entropy
    sign_checkpoint: Callable[[int, bytes, int], bytes]
    guard: HeadGuard | None = None
    limits: Limits = field(default_factory=Limits)
    on_stop: Callable[[str], None] = lambda _why: None
    observe: Callable[[BatchReport], None] = lambda _report: None
    stopped: SigningStopped | None = None
    _queue: "deque[_Queued[Any]]" = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _task: "asyncio.Task[None] | None" = None
    _draining: bool = False

    def start(self) -> None:
        """Begin to take batches; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="sequencer")

    @property
    def queued(self) -> int:
        """How many steps wait."""
        return len(self._queue)

    def now_ms(self) -> int:
        """Return the time that a batch would have now: never before the log's last."""
        return max(self.clock.now_ms(), self.log.head.time if self.log.head else 0)

    async def submit(self, step: Callable[[Batch], T], *, random_bytes: int = 0, weight: int = 1) -> T:
        """Run ``step`` in the next batch and return its result once the batch is durable.

        ``random_bytes`` is how much the step will take from `Batch.random`, ``weight`` how many hands it is about:
        nothing else runs while a batch is made, so its weight is bounded. A caller that is cancelled while his step
        waits has it dropped; once it runs it is committed whether or not he still waits. Raises what the step raises,
        Overloaded, TryAgain (certainly nothing stored) or SigningStopped.
        """
        if self.stopped:
            raise self.stopped
        if self._draining:
            raise TryAgain(
                Reason.STARTING_OR_STOPPING, "the service is stopping; another or a restarted one takes over"
            )
        if len(self._queue) >= self.limits.queue:
            raise Overloaded(Reason.OVERLOADED, f"{self.limits.queue} requests are waiting already")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        queued = _Queued(step, random_bytes, weight, answer, time.monotonic())
        self._queue.append(queued)
        self._wake.set()
        return await answer

    async def drain(self) -> None:
        """Take no more steps, finish those that wait, and return."""
        self._draining = True
        self._wake.set()
        if self._task:
            await self._task

    def stop(self, why: str) -> None:
        """Stop signing for good and answer everything that waits with the reason."""
        if self.stopped:
            return
        self.stopped = SigningStopped(why)
        for queued in self._queue:
            _fail(queued, SigningStopped(why))
        self._queue.clear()
        self._wake.set()
        self.on_stop(why)

    async def _run(self) -> None:
        while not self.stopped:
            if not self._queue:
                if self._draining:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._settle()
            steps = self._taken()
            if steps:
                try:
                    await self._run_batch(steps)
                except Exception as error:  # noqa: BLE001  (on any doubt at all: stop)
                    why = f"{type(error).__name__} in a batch: {error}"
                    self.stop(why)
                    for queued in steps:
                        _fail(queued, SigningStopped(why))

    def _taken(self) -> "list[_Queued[Any]]":
        """Take the steps of the next batch from the queue. Who left while he waited gets nothing sealed."""
        steps: list[_Queued[Any]] = []
        weight = 0
        while self._queue and (not steps or weight + self._queue[0].weight <= self.limits.batch):
            queued = self._queue.popleft()
            if not queued.answer.done():
                steps.append(queued)
                weight += queued.weight
        return steps

    async def _settle(self) -> None:
        """Let calls that have arrived already come into this batch: wait for event loop passes, never for a time."""
        quiet = 0
        while quiet < _QUIET_PASSES and len(self._queue) < self.limits.batch:
            before = len(self._queue)
            await asyncio.sleep(0)
            quiet = 0 if len(self._queue) > before else quiet + 1

    async def _run_batch(self, steps: "list[_Queued[Any]]") -> None:
        started = time.monotonic()
        head = self.log.head
        batch = Batch(self._time(head), self.log, self.tables, self._randomness(steps))
        mark = self.log.tree.mark()
        done = [queued for queued in steps if self._run_step(queued, batch)]
        staged = time.monotonic()
        if batch.weight():
            try:
                await self._commit(batch, head)
            except StoreRefused as refused:
                self.log.tree.back_to(mark)
                for undo in batch.undo:
                    undo()
                for queued in done:
                    _fail(queued, TryAgain(Reason.STORE_REFUSED, f"the store refused the write: {refused}"))
                return
        self.observe(
            BatchReport(
                steps=len(steps),
                entries=len(batch.entries),
                shuffled=batch.shuffled,
                closed=batch.closed,
                oldest_wait_s=started - min(queued.since for queued in steps),
                steps_s=staged - started,
                commit_s=time.monotonic() - staged,
            )
        )
        for queued in done:
            if not queued.answer.done():
                queued.answer.set_result(queued.result)

    def _run_step(self, queued: "_Queued[Any]", batch: Batch) -> bool:
        before = batch.weight()
        try:
            queued.result = queued.step(batch)
        except ServiceError as error:
            assert batch.weight() == before, "a step that is refused stages nothing"
            _fail(queued, error)
            return False
        return True

    async def _commit(self, batch: Batch, head: Head | None) -> None:
        prover = None
        if batch.entries:
            tree = self.log.tree
            prover = InclusionProver(tree.size, tree.node)
            checkpoint = self.sign_checkpoint(tree.size, prover.root, batch.time)
            new = Head(tree.size, prover.root, checkpoint, batch.time)
        else:
            assert head is not None, "the first batch of a log has an entry"
            new = Head(head.size, head.root, head.checkpoint, batch.time)
        await self.store.commit(batch.commit(head, new))
        # Between here and the answers: a crash loses nothing, the caller repeats and gets the same.
        if self.guard and prover:
            self.guard.advance(new.checkpoint)
        self.log.advance(new, prover)
        self.log.tree.trim()
        self.tables.put_all(batch.changed.values())

    def _time(self, head: Head | None) -> int:
        now = self.clock.now_ms()
        last = head.time if head else 0
        if now < last - MAX_CLOCK_BACK_MS:
            raise RuntimeError(f"the clock is {last - now} ms behind the log's last time")
        return max(now, last)

    def _randomness(self, steps: "list[_Queued[Any]]") -> bytes:
        count = sum(queued.random_bytes for queued in steps)
        return self.entropy.generate(count) if count else b""


def _fail(queued: "_Queued[Any]", error: ServiceError) -> None:
    if not queued.answer.done():
        queued.answer.set_exception(error)
