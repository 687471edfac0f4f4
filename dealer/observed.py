"""What feeds the metrics: the dealer's own calls, its store and its shuffle service, each watched from outside."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from dealer.cashier import Transfer
from dealer.metrics import Metrics
from dealer.store import FinishedHand, Store, StoredTable, StoreFailed, StoreLost
from rngsvc.client import Credentials
from rngsvc.client.calls import AioTransport

_UNREACHABLE: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})

Context = Any  # grpc.aio.ServicerContext, generic in its stubs only


class ObservedCalls(grpc.aio.ServerInterceptor):
    """Counts and times the calls of one gRPC service; others pass as they are."""

    def __init__(self, service: str, metrics: Metrics) -> None:
        self._prefix = f"/{service}/"
        self._metrics = metrics
        self._wrapped: dict[str, Any] = {}

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Return the method's handler, wrapped once."""
        path = handler_call_details.method
        if path not in self._wrapped:
            handler = await continuation(handler_call_details)
            if handler is None or not path.startswith(self._prefix):
                return handler
            self._wrapped[path] = self._wrap(path.removeprefix(self._prefix), handler)
        return self._wrapped[path]

    def _wrap(self, method: str, handler: Any) -> Any:
        async def unary(request: Message, context: Context) -> Any:
            with self._watched(method, context):
                return await handler.unary_unary(request, context)

        async def stream(request: Message, context: Context) -> AsyncIterator[Any]:
            with self._watched(method, context):
                async for answer in handler.unary_stream(request, context):
                    yield answer

        forms = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, **forms)
        return grpc.unary_unary_rpc_method_handler(unary, **forms)

    @contextmanager
    def _watched(self, method: str, context: Context) -> Iterator[None]:
        began = time.monotonic()
        code = "OK"
        self._metrics.in_flight.labels(method).inc()
        try:
            yield
            # A stream ends in order when its watcher has left; that he has is all that its task was told.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                code = "CANCELLED"
        except grpc.aio.AbortError:
            code = _name(context.code())
            raise
        except (asyncio.CancelledError, GeneratorExit):
            code = "CANCELLED"
            raise
        except Exception:
            code = "UNKNOWN"
            raise
        finally:
            self._metrics.in_flight.labels(method).dec()
            self._metrics.requests.labels(method, code).inc()
            self._metrics.request_seconds.labels(method).observe(time.monotonic() - began)


def _name(code: grpc.StatusCode | int) -> str:
    """Return a status's name; grpc gives its number after an abort with details."""
    return (
        code.name if isinstance(code, grpc.StatusCode) else next(c.name for c in grpc.StatusCode if c.value[0] == code)
    )


class ObservedStore:
    """A `Store` whose writes are timed, and whose failures and finished hands are counted."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._games: dict[bytes, str] = {}

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except StoreFailed as error:
            self._metrics.store_failures.labels("lost" if isinstance(error, StoreLost) else "failed").inc()
            raise

    @contextmanager
    def _timed(self, verb: str) -> Iterator[None]:
        with self._counted(), self._metrics.store_seconds.labels(verb).time():
            yield

    def create(self, table: bytes, game: str, stakes: str) -> None:
        """Keep a new table."""
        with self._timed("create"):
            self._store.create(table, game, stakes)
        self._games[table] = game

    def tables(self) -> list[StoredTable]:
        """Return all tables."""
        with self._counted():
            found = self._store.tables()
        self._games.update((each.table, each.game) for each in found)
        return found

    def table(self, table: bytes) -> StoredTable:
        """Return one table."""
        with self._counted():
            return self._store.table(table)

    def append(self, table: bytes, entries: Iterable[Mapping[str, Any]], transfers: Iterable[Transfer]) -> None:
        """Add to a table's journal and to the ledger."""
        with self._timed("append"):
            self._store.append(table, entries, transfers)

    def finish(self, hand: FinishedHand, snapshot: Mapping[str, Any]) -> None:
        """Keep a finished hand."""
        with self._timed("finish"):
            self._store.finish(hand, snapshot)
        self._metrics.hands.labels(self._games[hand.table], snapshot["table"]["outcome"]).inc()

    def finished(self, table: bytes, hand: int) -> FinishedHand:
        """Return a finished hand."""
        with self._counted():
            return self._store.finished(table, hand)

    def balances(self) -> dict[str, int]:
        """Return the ledger's accounts."""
        with self._counted():
            return self._store.balances()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


class ObservedTransport(AioTransport):
    """The channel to the shuffle service, each call counted, timed, and a sign of whether it can be reached."""

    def __init__(self, target: str, credentials: Credentials | None, metrics: Metrics) -> None:
        super().__init__(target, credentials)
        self._metrics = metrics
        self.reachable = False

    async def unary(self, method: Any, request: Message, timeout_s: float) -> Any:
        """Make one call."""
        name = type(request).__name__.removesuffix("Request")
        code = "OK"
        began = time.monotonic()
        try:
            return await super().unary(method, request, timeout_s)
        except grpc.RpcError as error:
            code = error.code().name
            raise
        except asyncio.CancelledError:
            code = ""  # we have left, which says nothing of the service
            raise
        finally:
            if code:
                self._metrics.service_calls.labels(name, code).inc()
                self._metrics.service_seconds.labels(name).observe(time.monotonic() - began)
                self.reachable = code not in _UNREACHABLE
                self._metrics.service_reachable.set(self.reachable)
