"""The same client without an event loop: each method blocks until it has its answer.

There is no second implementation here: the coroutines of the async client run over a transport that blocks, so that
they never suspend. A `SyncClient` may be used from several threads, one thread a table at a time.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from rngsvc.client.audit import Audit, Bits, Numbers, Sample, SampleSummary, Shuffles
from rngsvc.client.calls import DEFAULT_TIMEOUT_S, BlockingTransport, Credentials, complete
from rngsvc.client.client import Client
from rngsvc.client.connection import Consistency
from rngsvc.client.errors import CallFailed
from rngsvc.client.log_reader import LogReader, Run
from rngsvc.client.log_view import SignedCheckpoint
from rngsvc.client.table import Hand, HandSummary, Table
from rngsvc.protocol.entries import Location
from rngsvc.proven_hand import Choice, Close, Contributions, Opening, Shuffle

P = ParamSpec("P")
T = TypeVar("T")


class _Blocking:
    """Something of the async client, in hand as ``inner``."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the blocking form of a coroutine method, with its parameters, answer and documentation."""

    @wraps(method)
    def blocks(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return complete(method(self.inner, *args, **kwargs))

    return blocks


def _iterate(items: AsyncIterator[T]) -> Iterator[T]:
    while True:
        try:
            yield complete(items.__anext__())  # type: ignore[arg-type]  # an async generator gives something to send to
        except StopAsyncIteration:
            return


class SyncHand(_Blocking):
    """`rngsvc.client.Hand`, blocking."""

    inner: Hand

    @property
    def seq(self) -> int:
        """Its sequence number at its table."""
        return self.inner.seq

    @property
    def state(self) -> str:
        """`reserved`, `promised`, `unchosen`, `sealed`, `drawn` or `closed`, by what is known here."""
        return self.inner.state

    @property
    def choice(self) -> Choice | None:
        """At a twin table: which deck is played, and the other one, once that is decided."""
        return self.inner.choice

    @property
    def commitment(self) -> bytes:
        """C, 32 bytes."""
        return self.inner.commitment

    @property
    def shuffles(self) -> tuple[Shuffle, ...]:
        """The sealed shuffles, k = 0 first."""
        return self.inner.shuffles

    @property
    def openings(self) -> Mapping[Location, Opening]:
        """Everything opened so far, by (k, place)."""
        return self.inner.openings

    def receipt(self, own: tuple[bytes, ...] | None = None, seen: Iterable[Location] | None = None) -> bytes:
        """Return the hand's receipt; see `rngsvc.client.Hand.receipt`."""
        return self.inner.receipt(own, seen)

    def restore(self, receipt: bytes) -> None:
        """Take in what a receipt of this hand holds; see `rngsvc.client.Hand.restore`."""
        self.inner.restore(receipt)

    promise = _blocking(Hand.promise)
    seal = _blocking(Hand.seal)
    seal_twin = _blocking(Hand.seal_twin)
    choose = _blocking(Hand.choose)
    reshuffle = _blocking(Hand.reshuffle)
    open = _blocking(Hand.open)
    draw = _blocking(Hand.draw)
    close = _blocking(Hand.close)


class SyncTable(_Blocking):
    """`rngsvc.client.Table`, blocking."""

    inner: Table

    @property
    def id(self) -> bytes:
        """The table, 16 bytes."""
        return self.inner.id

    next_seq = _blocking(Table.next_seq)

    def reserve(self) -> SyncHand:
        """Commit the service to one more hand."""
        return SyncHand(complete(self.inner.reserve()))

    def reserve_many(self, count: int) -> tuple[SyncHand, ...]:
        """Commit the service to the next ``count`` (1..64) hands."""
        return tuple(map(SyncHand, complete(self.inner.reserve_many(count))))

    def promise_many(
        self,
        hands: Sequence[SyncHand],
        promises: Sequence[Mapping[bytes, bytes]],
        choice_promises: Sequence[Mapping[bytes, bytes]] | None = None,
    ) -> None:
        """Log the promises of consecutive hands in one entry; see `Table.promise_many`."""
        complete(self.inner.promise_many([hand.inner for hand in hands], promises, choice_promises))

    def hands(self, after_seq: int = 0, state: str = "") -> Iterator[HandSummary]:
        """List the table's hands; see `Table.hands`."""
        return _iterate(self.inner.hands(after_seq, state))

    def hand(self, seq: int) -> SyncHand:
        """Return hand ``seq`` as far as it has come, from the log."""
        return SyncHand(complete(self.inner.hand(seq)))


class SyncLog(_Blocking):
    """`rngsvc.client.LogReader`, blocking."""

    inner: LogReader

    checkpoint = _blocking(LogReader.checkpoint)
    entry = _blocking(LogReader.entry)
    consistency = _blocking(LogReader.consistency)
    key_entries = _blocking(LogReader.key_entries)

    def entries(self, first: int = 0, end: int = 0, *, follow: bool = False) -> Iterator[Run]:
        """Give the entries at ``first`` .. ``end`` - 1; see `LogReader.entries`."""
        return _iterate(self.inner.entries(first, end, follow=follow))


class SyncSample:
    """`rngsvc.client.Sample`, blocking: iterate once over its chunks, then it has a ``summary``."""

    def __init__(self, inner: Sample) -> None:
        self.inner = inner
        self.logged = inner.logged

    @property
    def summary(self) -> SampleSummary | None:
        """What the service says of the whole sample, once all chunks were read."""
        return self.inner.summary

    def __iter__(self) -> Iterator[bytes]:
        return _iterate(aiter(self.inner))


class SyncAudit(_Blocking):
    """`rngsvc.client.Audit`, blocking."""

    inner: Audit

    open_hand = _blocking(Audit.open_hand)
    record_verdict = _blocking(Audit.record_verdict)
    record_integrity = _blocking(Audit.record_integrity)
    results = _blocking(Audit.results)

    def sample(self, what: Bits | Numbers | Shuffles, sample_id: bytes | None = None) -> SyncSample:
        """Ask for fresh output of the production path."""
        return SyncSample(complete(self.inner.sample(what, sample_id)))


class SyncClient(_Blocking):
    """`rngsvc.client.Client`, blocking."""

    inner: Client

    def __init__(self, inner: Client) -> None:
        super().__init__(inner)
        self.log = SyncLog(inner.log)
        self.audit = SyncAudit(inner.audit)

    @classmethod
    def connect(
        cls,
        target: str,
        *,
        log_key: str | Iterable[str],
        credentials: Credentials | None = None,
        consistency: str = Consistency.SAMPLED,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        known_checkpoint: str | None = None,
    ) -> Self:
        """Reach the service at ``target`` and trust its newest checkpoint; see `Client.connect`."""
        transport = BlockingTransport(target, credentials)
        return cls(
            complete(
                Client.over(
                    transport,
                    log_key=log_key,
                    consistency=consistency,
                    timeout_s=timeout_s,
                    known_checkpoint=known_checkpoint,
                )
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def origin(self) -> str:
        """The log's name, which promises are made for."""
        return self.inner.origin

    @property
    def newest_checkpoint(self) -> SignedCheckpoint:
        """The newest trusted checkpoint. Keep its ``note`` over restarts."""
        return self.inner.newest_checkpoint

    close = _blocking(Client.close)

    def register_table(
        self,
        table: bytes,
        *,
        mode: str = "shoe",
        reveal: str = "public",
        ttl_s: int = 0,
        auditor: tuple[bytes, bytes] | None = None,
        twin: bool = False,
    ) -> SyncTable:
        """Register the table, or find it again; see `Client.register_table`."""
        registering = self.inner.register_table(
            table, mode=mode, reveal=reveal, ttl_s=ttl_s, auditor=auditor, twin=twin
        )
        return SyncTable(complete(registering))

    def table(self, table: bytes) -> SyncTable:
        """Return a table that has at least one reserved hand."""
        return SyncTable(complete(self.inner.table(table)))

    def hand(self, table: bytes, seq: int) -> SyncHand:
        """Return a hand as far as it has come, from the log."""
        return SyncHand(complete(self.inner.hand(table, seq)))

    def reserve_all(self, tables: Sequence[SyncTable], count: int = 1) -> list[tuple[SyncHand, ...] | CallFailed]:
        """Reserve hands at each of 1..256 different tables."""
        results = complete(self.inner.reserve_all([table.inner for table in tables], count))
        return [each if isinstance(each, CallFailed) else tuple(map(SyncHand, each)) for each in results]

    def seal_all(
        self, hands: Sequence[SyncHand], n: int, contributions: Sequence[Contributions] | None = None
    ) -> list[Shuffle | CallFailed]:
        """Seal a shuffle for one hand at each of 1..256 tables."""
        return complete(self.inner.seal_all([hand.inner for hand in hands], n, contributions))

    def seal_twin_all(
        self, hands: Sequence[SyncHand], n: int, contributions: Sequence[Contributions] | None = None
    ) -> list[CallFailed | None]:
        """Seal two decks for one hand at each of 1..256 twin tables."""
        return complete(self.inner.seal_twin_all([hand.inner for hand in hands], n, contributions))

    def choose_all(
        self, hands: Sequence[SyncHand], choices: Sequence[Contributions] | None = None
    ) -> list[Shuffle | CallFailed]:
        """Decide which deck is played in one hand at each of 1..256 twin tables."""
        return complete(self.inner.choose_all([hand.inner for hand in hands], choices))

    def open_all(self, asked: Sequence[tuple[SyncHand, int, Iterable[int]]]) -> list[tuple[Opening, ...] | CallFailed]:
        """Open places at 1..256 tables."""
        return complete(self.inner.open_all([(hand.inner, k, places) for hand, k, places in asked]))

    def close_all(
        self, hands: Sequence[SyncHand], outcome: str = "complete", reason: str = ""
    ) -> list[Close | CallFailed]:
        """Close one hand at each of 1..256 tables."""
        return complete(self.inner.close_all([hand.inner for hand in hands], outcome, reason))
