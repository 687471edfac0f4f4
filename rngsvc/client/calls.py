"""One remote call: its deadline, its retries, and its errors as exceptions.

The client's own code is written once, as coroutines over the `Transport` port. Under the aio transport they run in an
event loop; under the blocking one no call ever suspends, so that `complete` can run them to their end on the spot.
"""

import asyncio
import ipaddress
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from rngsvc.client import errors
from rngsvc.errors import Reason

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer")

DEFAULT_TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0

_CHANNEL_OPTIONS: Final = (
    # A run of 256 entries of the largest size, which grpc's own limit of 4 MiB would cut off.
    ("grpc.max_receive_message_length", 32 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A restart or a takeover takes a second or two; gRPC by itself would look again after up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)

_FAILURES: Final[dict[str, type[errors.CallFailed]]] = {
    "INVALID_ARGUMENT": errors.InvalidRequest,
    "OUT_OF_RANGE": errors.InvalidRequest,
    "NOT_FOUND": errors.NotFound,
    "ALREADY_EXISTS": errors.Refused,
    "FAILED_PRECONDITION": errors.Refused,
    "ABORTED": errors.Refused,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "UNAUTHENTICATED": errors.PermissionDenied,
    "UNAVAILABLE": errors.Unavailable,
    "RESOURCE_EXHAUSTED": errors.Unavailable,
    # Ours would be asyncio.CancelledError: this one comes from a server that stops before it has begun the call.
    "CANCELLED": errors.Unavailable,
    "DEADLINE_EXCEEDED": errors.OutcomeUnknown,
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM files for mutual TLS: who may vouch for the server, and the caller's own certificate chain and key."""

    server_ca_file: Path
    certificate_file: Path
    key_file: Path

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Read the files. Raises OSError."""
        return grpc.ssl_channel_credentials(
            root_certificates=self.server_ca_file.read_bytes(),
            private_key=self.key_file.read_bytes(),
            certificate_chain=self.certificate_file.read_bytes(),
        )


class Transport(Protocol):
    """A channel, and the ways to wait that go with it."""

    channel: Any
    """What the generated stubs are made from: a `grpc.Channel` or a `grpc.aio.Channel`."""

    async def unary(self, method: Any, request: Message, timeout_s: float) -> Any:
        """Make one call. Raises grpc.RpcError."""

    def stream(self, method: Any, request: Message, timeout_s: float | None) -> AsyncIterator[Any]:
        """Make one call that is answered with many messages. Raises grpc.RpcError while it is read."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def close(self) -> None:
        """End the channel and what still runs in it."""


class AioTransport:
    """grpc.aio in the caller's event loop."""

    def __init__(self, target: str, credentials: Credentials | None) -> None:
        if credentials is None:
            check_plain_target(target)
            self.channel = grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
        else:
            self.channel = grpc.aio.secure_channel(
                target, credentials.channel_credentials(), options=_secure_options(target)
            )

    async def unary(self, method: Any, request: Message, timeout_s: float) -> Any:
        """Make one call."""
        return await method(request, timeout=timeout_s)

    async def stream(self, method: Any, request: Message, timeout_s: float | None) -> AsyncIterator[Any]:
        """Make one call that is answered with many messages; it is cancelled when the reader leaves."""
        call = method(request, timeout=timeout_s)
        try:
            async for message in call:
                yield message
        finally:
            call.cancel()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up the loop."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the channel."""
        await self.channel.close()


class BlockingTransport:
    """Plain grpc in the caller's thread: no event loop, no thread of its own."""

    def __init__(self, target: str, credentials: Credentials | None) -> None:
        if credentials is None:
            check_plain_target(target)
            self.channel = grpc.insecure_channel(target, options=_CHANNEL_OPTIONS)
        else:
            self.channel = grpc.secure_channel(
                target, credentials.channel_credentials(), options=_secure_options(target)
            )

    async def unary(self, method: Any, request: Message, timeout_s: float) -> Any:
        """Make one call; blocks."""
        return method(request, timeout=timeout_s)

    async def stream(self, method: Any, request: Message, timeout_s: float | None) -> AsyncIterator[Any]:
        """Make one call that is answered with many messages; each blocks until it is there."""
        call = method(request, timeout=timeout_s)
        try:
            for message in call:
                yield message
        finally:
            call.cancel()

    async def sleep(self, seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)  # noqa: ASYNC251  (blocking is what this transport is for)

    async def close(self) -> None:
        """Close the channel."""
        self.channel.close()


def complete(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run ``work`` to its end here and now. Only for coroutines over a `BlockingTransport`, which never suspend."""
    try:
        work.send(None)
    except StopIteration as finished:
        answer: Answer = finished.value
        return answer
    work.close()
    raise AssertionError("a blocking call has suspended")  # nothing awaits anything but the blocking transport


class Caller:
    """Makes calls over a transport until they are answered, refused, or out of time.

    ``clock`` gives seconds that only rise, ``jitter`` a number 0..1 for each pause.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self._clock = clock
        self._jitter = jitter

    async def repeatable(self, method: Callable[[Request], Awaitable[Answer]], request: Request) -> Answer:
        """Make a call that may be made twice, trying again while it is in vain and time is left.

        All calls are of this kind except Sample and RecordResult. Raises CallFailed; ServiceStopped if a service has
        said that it signs no more, and no other has taken its place in time.
        """
        deadline = self._clock() + self.timeout_s
        pause_s = FIRST_PAUSE_S
        stopped: errors.ServiceStopped | None = None
        while True:
            try:
                answer: Answer = await self.transport.unary(method, request, max(deadline - self._clock(), 0.001))
            except grpc.RpcError as error:
                failure = failure_of(error)
                if not _may_pass_later(failure):
                    raise failure from error
                # Spread in both cases, so that callers refused together do not come back together.
                wait_s = (failure.retry_after_s or 0.0) * (1 + self._jitter() / 2) or pause_s * self._jitter()
                if isinstance(failure, errors.ServiceStopped):
                    stopped = failure
                if self._clock() + wait_s >= deadline:
                    raise stopped or failure from error
            else:
                return answer
            await self.transport.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def once(self, method: Callable[[Request], Awaitable[Answer]], request: Request) -> Answer:
        """Make a call that may not be repeated blindly. Raises CallFailed."""
        try:
            answer: Answer = await self.transport.unary(method, request, self.timeout_s)
        except grpc.RpcError as error:
            raise failure_of(error) from error
        return answer

    async def stream(self, method: Any, request: Message, timeout_s: float | None = None) -> AsyncIterator[Any]:
        """Read a stream's messages; never retried. Raises CallFailed."""
        try:
            async for message in self.transport.stream(method, request, timeout_s):
                yield message
        except grpc.RpcError as error:
            raise failure_of(error) from error


def _may_pass_later(failure: errors.CallFailed) -> bool:
    if not isinstance(failure, errors.Unavailable | errors.ServiceStopped):
        return False
    # Without the service's own word for it, RESOURCE_EXHAUSTED is grpc's "message too large", which stays too large.
    return failure.code != "RESOURCE_EXHAUSTED" or failure.retry_after_s is not None


def failure_of(error: grpc.RpcError) -> errors.CallFailed:
    """Return the exception for a failed call, with the service's rich details where it sent any."""
    code = error.code().name
    reason = ""
    violations: list[errors.Violation] = []
    retry_after_s: float | None = None
    for detail in _details(error):
        info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
        elif detail.Unpack(bad):
            violations += [errors.Violation(each.field, each.description) for each in bad.field_violations]
    family = _FAILURES.get(code, errors.ServiceBroken)
    if reason == Reason.SIGNING_STOPPED:
        family = errors.ServiceStopped
    return family(code, error.details() or "", reason=reason, violations=tuple(violations), retry_after_s=retry_after_s)


def failure_in_batch(status: int, reason: str, message: str) -> errors.CallFailed:
    """Return the exception that the single call would have raised, from a batch's ``status`` number."""
    code = next((each.name for each in grpc.StatusCode if each.value[0] == status), "UNKNOWN")
    return _family(code, reason)(code, message, reason=reason)


def _family(code: str, reason: str) -> type[errors.CallFailed]:
    if reason == Reason.SIGNING_STOPPED:
        return errors.ServiceStopped
    return _FAILURES.get(code, errors.ServiceBroken)


def _details(error: grpc.RpcError) -> Sequence[Any]:
    metadata: Any = error.trailing_metadata() or ()
    return [
        detail
        for key, value in metadata
        if key == "grpc-status-details-bin"
        for detail in status_pb2.Status.FromString(value).details
    ]


def check_plain_target(target: str) -> None:
    """Refuse a call without TLS to anywhere but this machine: contributed seeds travel in requests."""
    if target.startswith("unix:"):
        return
    if not all(map(_is_loopback, hosts_in(target))):
        raise ValueError(f"target: {target!r} is not a loopback address; without credentials only those are allowed")


def hosts_in(target: str) -> list[str]:
    """Return the hosts of a target: one, or those of gRPC's ``ipv4:HOST:PORT,HOST:PORT``."""
    addresses = target.rpartition("/")[2]
    for scheme in ("ipv4:", "ipv6:"):
        addresses = addresses.removeprefix(scheme)
    return [address.rpartition(":")[0].strip("[]") for address in addresses.split(",")]


def _secure_options(target: str) -> tuple[tuple[str, Any], ...]:
    first, *others = hosts_in(target)
    # Of several nodes, gRPC would look for the whole list in the certificate; each must be issued for the first's host.
    return (*_CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", first)) if others else _CHANNEL_OPTIONS


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
