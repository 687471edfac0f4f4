"""One remote call: retries, deadlines and errors, against a scripted transport with its own time."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from rngsvc.client import errors
from rngsvc.client.calls import Caller, check_plain_target, complete, failure_of, hosts_in
from rngsvc.errors import Reason
from rngsvc.v1 import log_pb2


class Failed(grpc.RpcError):
    """What grpc raises for a call that failed."""

    def __init__(self, code: grpc.StatusCode, *details: object, message: str = "no") -> None:
        self._code = code
        self._message = message
        status = status_pb2.Status(code=code.value[0], message=message)
        for detail in details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        self._trailing = (("grpc-status-details-bin", status.SerializeToString()),) if details else ()

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return self._trailing


class Script:
    """A transport that answers from a list; time passes only by sleeping, and a little with every call."""

    def __init__(self, *answers: object) -> None:
        self.answers: Iterator[object] = iter(answers)
        self.now = 0.0
        self.calls = 0
        self.pauses: list[float] = []

    async def unary(self, method: object, request: object, timeout_s: float) -> object:
        self.calls += 1
        self.now += 0.001
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def caller(self, timeout_s: float = 10.0) -> Caller:
        return Caller(self, timeout_s=timeout_s, clock=lambda: self.now, jitter=lambda: 1.0)  # type: ignore[arg-type]


UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def retry_info(seconds: float) -> error_details_pb2.RetryInfo:
    delay = Duration()
    delay.FromTimedelta(timedelta(seconds=seconds))
    return error_details_pb2.RetryInfo(retry_delay=delay)


def reason(word: Reason) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=word, domain="rngsvc")


TRIED_AGAIN = [
    ("the server is away", Failed(UNAVAILABLE)),
    ("a stopping server cancels what it has not begun", Failed(grpc.StatusCode.CANCELLED)),
    ("the queue is full", Failed(EXHAUSTED, reason(Reason.OVERLOADED), retry_info(0.25))),
    ("a node has stopped signing, and its standby comes", Failed(UNAVAILABLE, reason(Reason.SIGNING_STOPPED))),
]


@pytest.mark.parametrize(("title", "failure"), TRIED_AGAIN, ids=[row[0] for row in TRIED_AGAIN])
def test_a_repeatable_call_is_tried_again_while(title: str, failure: Failed) -> None:
    script = Script(failure, failure, "answer")
    assert complete(script.caller().repeatable(None, log_pb2.GetCheckpointRequest())) == "answer"  # type: ignore[arg-type]
    assert script.calls == 3


NOT_TRIED_AGAIN = [
    (Failed(grpc.StatusCode.INVALID_ARGUMENT), errors.InvalidRequest),
    (Failed(grpc.StatusCode.OUT_OF_RANGE), errors.InvalidRequest),
    (Failed(grpc.StatusCode.NOT_FOUND), errors.NotFound),
    (Failed(grpc.StatusCode.FAILED_PRECONDITION), errors.Refused),
    (Failed(grpc.StatusCode.PERMISSION_DENIED), errors.PermissionDenied),
    (Failed(grpc.StatusCode.UNAUTHENTICATED), errors.PermissionDenied),
    (Failed(grpc.StatusCode.DEADLINE_EXCEEDED), errors.OutcomeUnknown),
    (Failed(grpc.StatusCode.INTERNAL), errors.ServiceBroken),
    (Failed(grpc.StatusCode.UNIMPLEMENTED), errors.ServiceBroken),
    # grpc's own "message larger than max" comes without a RetryInfo and would be as large the next time.
    (Failed(EXHAUSTED), errors.Unavailable),
]


@pytest.mark.parametrize(("failure", "expected"), NOT_TRIED_AGAIN)
def test_a_failure_that_would_repeat_is_raised_at_once(failure: Failed, expected: type[Exception]) -> None:
    script = Script(failure, "answer")
    with pytest.raises(expected) as raised:
        complete(script.caller().repeatable(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
    assert type(raised.value) is expected
    assert script.calls == 1


def test_a_service_that_has_stopped_and_is_followed_by_none_is_told_as_such() -> None:
    script = Script(Failed(UNAVAILABLE, reason(Reason.SIGNING_STOPPED)), *[Failed(UNAVAILABLE)] * 100)
    with pytest.raises(errors.ServiceStopped):
        complete(script.caller(timeout_s=10).repeatable(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
    assert script.now > 5


def test_a_call_that_may_not_repeat_is_made_once() -> None:
    script = Script(Failed(UNAVAILABLE), "answer")
    with pytest.raises(errors.Unavailable):
        complete(script.caller().once(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
    assert script.calls == 1


def test_pauses_double_up_to_a_limit_and_end_before_the_deadline() -> None:
    script = Script(*[Failed(UNAVAILABLE)] * 100)
    with pytest.raises(errors.Unavailable):
        complete(script.caller(timeout_s=10).repeatable(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
    assert script.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert script.now <= 10


def test_the_services_own_wish_is_waited_for() -> None:
    script = Script(Failed(EXHAUSTED, retry_info(1.5)), "answer")
    complete(script.caller().repeatable(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
    assert 1.5 <= script.pauses[0] <= 2.25


def test_a_wish_past_the_deadline_is_not_waited_for() -> None:
    script = Script(Failed(EXHAUSTED, retry_info(60)), "answer")
    with pytest.raises(errors.Unavailable) as raised:
        complete(script.caller(timeout_s=10).repeatable(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
    assert raised.value.retry_after_s == 60
    assert script.pauses == []


def test_our_own_cancellation_is_not_swallowed() -> None:
    class Never(Script):
        async def unary(self, method: object, request: object, timeout_s: float) -> object:
            await asyncio.Event().wait()
            raise AssertionError

    async def cancel_it() -> None:
        call = asyncio.ensure_future(Never().caller().repeatable(None, log_pb2.GetCheckpointRequest()))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_it())


def test_rich_details_arrive_whole() -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="count", description="must be 1..64")
    failure = failure_of(
        Failed(
            grpc.StatusCode.INVALID_ARGUMENT,
            reason(Reason.INVALID_FIELD),
            error_details_pb2.BadRequest(field_violations=[violation]),
            message="count: must be 1..64",
        )
    )
    assert failure.reason == Reason.INVALID_FIELD
    assert failure.violations == (errors.Violation("count", "must be 1..64"),)
    assert str(failure) == "INVALID_ARGUMENT (INVALID_FIELD): count: must be 1..64"


@pytest.mark.parametrize(
    "target", ["127.0.0.1:5000", "localhost:1", "[::1]:9", "unix:/run/rng.sock", "dns:///localhost:1"]
)
def test_without_tls_this_machine_may_be_called(target: str) -> None:
    check_plain_target(target)


@pytest.mark.parametrize(
    ("target", "hosts"),
    [
        ("rng.example:443", ["rng.example"]),
        ("dns:///rng.example:1", ["rng.example"]),
        ("[::1]:9", ["::1"]),
        ("ipv4:10.0.0.1:7443,10.0.0.2:7443", ["10.0.0.1", "10.0.0.2"]),
        ("ipv6:[fd00::1]:7443,[fd00::2]:7443", ["fd00::1", "fd00::2"]),
    ],
)
def test_the_hosts_of_a_target(target: str, hosts: list[str]) -> None:
    """Of several nodes, the first one's host is looked for in each certificate (tests/drills/cut_network.py)."""
    assert hosts_in(target) == hosts


@pytest.mark.parametrize(
    "target", ["rng.example:443", "10.0.0.1:5000", "dns:///rng.example:1", "localhost.evil.example:1", ""]
)
def test_without_tls_no_other_machine_may_be_called(target: str) -> None:
    with pytest.raises(ValueError, match="target"):
        check_plain_target(target)
