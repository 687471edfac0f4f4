"""What stands before every method: who calls, by when, how it ended; errors become statuses by one table.

A handler never lets `CancelledError` escape while its call is alive, since that would leave the client waiting for ever
(grpc/grpc#29248).
"""

from __future__ import annotations  # grpc's classes are generic in its stubs only

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Self, cast

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from rngsvc.access import METHOD_ROLES, caller_of
from rngsvc.calls import Caller
from rngsvc.errors import (
    InvalidField,
    NotFound,
    Overloaded,
    PermissionDenied,
    Reason,
    Refused,
    ServiceError,
    SigningStopped,
    TryAgain,
    Unauthenticated,
)
from rngsvc.metrics import Metrics

ERROR_DOMAIN: Final = "rngsvc"
STATUS: Final[dict[type[ServiceError], int]] = {
    InvalidField: code_pb2.INVALID_ARGUMENT,
    NotFound: code_pb2.NOT_FOUND,
    Refused: code_pb2.FAILED_PRECONDITION,
    PermissionDenied: code_pb2.PERMISSION_DENIED,
    Unauthenticated: code_pb2.UNAUTHENTICATED,
    Overloaded: code_pb2.RESOURCE_EXHAUSTED,
    TryAgain: code_pb2.UNAVAILABLE,
    SigningStopped: code_pb2.UNAVAILABLE,
}

Context = grpc.aio.ServicerContext[Any, Any]
UnaryMethod = Callable[[Any, Context], Awaitable[Any]]
StreamMethod = Callable[[Any, Context], AsyncIterator[Any]]
Parse = Callable[[bytes], Any]
BeginCall = Callable[[str, Sequence[tuple[str, str | bytes]]], Callable[[str], None]]
"""Told of each call, "service/method" and metadata, when it begins; what it returns is told its status code."""

caller: ContextVar[Caller] = ContextVar("caller")
"""Who makes the call that is being answered."""

_log = structlog.get_logger("rngsvc.server")


def to_status(error: ServiceError) -> status_pb2.Status:
    """Return the rich status of an error: ErrorInfo always, BadRequest and RetryInfo where they apply."""
    details = [error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN)]
    if isinstance(error, InvalidField):
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=error.allowed)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, TryAgain):
        delay = Duration()
        delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=STATUS[type(error)], message=error.message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status


class Gate(grpc.aio.ServerInterceptor):
    """Wraps every method of ours: role, load, deadline, errors, metrics. Health and reflection pass as they are."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        has_tls: bool,
        default_deadline_s: float,
        most_calls: int,
        begin_call: BeginCall | None = None,
    ) -> None:
        self._metrics = metrics
        self._begin_call = begin_call
        self._has_tls = has_tls
        self._default_deadline_s = default_deadline_s
        self._most_calls = most_calls
        self._calls = 0
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the method's handler, wrapped once."""
        method = handler_call_details.method.lstrip("/")
        if method not in METHOD_ROLES:
            return await continuation(handler_call_details)
        if method not in self._wrapped:
            handler = await continuation(handler_call_details)
            assert handler, "every method in the table is served"
            assert handler.request_deserializer, "generated code has one"
            # gRPC itself would answer a message that is none with INTERNAL; so the bytes come through as they are.
            parse = handler.request_deserializer
            wrapped: grpc.RpcMethodHandler[Any, Any]
            if handler.response_streaming:
                wrapped = grpc.unary_stream_rpc_method_handler(
                    partial(self._stream, method, cast("StreamMethod", handler.unary_stream), parse),
                    response_serializer=handler.response_serializer,
                )
            else:
                wrapped = grpc.unary_unary_rpc_method_handler(
                    partial(self._unary, method, cast("UnaryMethod", handler.unary_unary), parse),
                    response_serializer=handler.response_serializer,
                )
            self._wrapped[method] = wrapped
        return self._wrapped[method]

    async def _unary(
        self, method: str, behaviour: UnaryMethod, parse: Parse, message: bytes, context: Context
    ) -> object:
        with self._watch(method, context) as watch, self._counted():
            try:
                request = self._admit(method, parse, message, context)
                if context.time_remaining() is None:
                    async with asyncio.timeout(self._default_deadline_s):
                        return await behaviour(request, context)
                return await behaviour(request, context)
            except (asyncio.CancelledError, Exception) as error:
                await self._end(watch, context, error)
                raise AssertionError("abort raises") from error

    async def _stream(
        self,
        method: str,
        behaviour: StreamMethod,
        parse: Parse,
        message: bytes,
        context: Context,
    ) -> AsyncIterator[object]:
        with self._watch(method, context) as watch, self._counted():
            try:
                request = self._admit(method, parse, message, context)
                async for answer in behaviour(request, context):
                    yield answer
            except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001  (each ends as a status)
                await self._end(watch, context, error)

    def _watch(self, method: str, context: Context) -> _Watch:
        ended = self._begin_call(method, _pairs(context)) if self._begin_call else None
        return _Watch(self._metrics, method, ended)

    def _admit(self, method: str, parse: Parse, message: bytes, context: Context) -> object:
        """Return the request if its caller may make it and there is room for it."""
        shown = context.auth_context().get("x509_pem_cert", ()) if self._has_tls else ()
        caller.set(caller_of(method, next(iter(shown), None), has_tls=self._has_tls))
        if self._calls > self._most_calls:
            raise Overloaded(Reason.OVERLOADED, f"{self._most_calls} calls are being answered already")
        try:
            return parse(message)
        except DecodeError:
            raise InvalidField("request", "a protobuf message of this method's request type") from None

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    async def _end(self, watch: _Watch, context: Context, error: BaseException) -> None:
        """End the call with the status of ``error``; re-raises what gRPC itself must see."""
        if isinstance(error, grpc.aio.AbortError) or (
            isinstance(error, asyncio.CancelledError) and context.cancelled()
        ):
            watch.code = "CANCELLED"
            raise error
        if isinstance(error, ServiceError):
            status = to_status(error)
        elif isinstance(error, TimeoutError):
            message = f"no answer within the server's default deadline of {self._default_deadline_s} s"
            status = status_pb2.Status(code=code_pb2.DEADLINE_EXCEEDED, message=message)
        elif isinstance(error, asyncio.CancelledError):
            status = to_status(TryAgain(Reason.STARTING_OR_STOPPING, "the call was broken off by the server"))
        else:
            # What went wrong inside is for the operator's log, not for the caller.
            _log.error("internal error", method=watch.method, exc_info=error)
            status = status_pb2.Status(code=code_pb2.INTERNAL, message="internal error")
        # grpc.aio does not say why it cancels. It is the client who left, but for the last moments of a drain; whoever
        # is still there must be answered.
        watch.code = "CANCELLED" if isinstance(error, asyncio.CancelledError) else code_pb2.Code.Name(status.code)
        await context.abort_with_status(rpc_status.to_status(status))


def _pairs(context: Context) -> list[tuple[str, str | bytes]]:
    # In grpc.aio it is a tuple of pairs, whatever the stubs say.
    return [(key, value) for key, value in cast("Any", context.invocation_metadata()) or ()]


class _Watch:
    """Counts and times one call; ``ended`` is told its status code."""

    def __init__(self, metrics: Metrics, method: str, ended: Callable[[str], None] | None) -> None:
        self.method = method.rpartition("/")[2]
        self._ended = ended
        self.code = "OK"
        self._metrics = metrics
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        self._metrics.in_flight.inc()
        return self

    def __exit__(self, *_: object) -> None:
        self._metrics.in_flight.dec()
        self._metrics.finished(self.method, self.code, time.monotonic() - self._started)
        if self._ended:
            self._ended(self.code)
