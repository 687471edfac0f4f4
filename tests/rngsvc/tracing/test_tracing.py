"""Traces as a real collector receives them: what is in a span, whose trace it belongs to, and what is never in one."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from rngsvc.client import SyncClient
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.config import ConfigurationRefused, load
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.entries import CloseEntry, parse_entry
from rngsvc.sequencer import BatchReport
from rngsvc.tracing import Tracing
from rngsvc.v1 import log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.conftest import RunningService, serve_ephemeral

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTRIBUTED = {b"seat-1": b"planted contribution of seat one", b"seat-2": os.urandom(32)}


@dataclass
class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """An OTLP collector on a loopback port, which keeps what it is sent."""

    requests: list[trace_service_pb2.ExportTraceServiceRequest] = field(default_factory=list)
    address: str = ""

    def Export(self, request: Any, context: Any) -> trace_service_pb2.ExportTraceServiceResponse:  # noqa: N802
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name.endswith(name)]

    def until(self, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 30
        while not (said := found()):
            assert time.monotonic() < deadline, [span.name for span in self.spans]
            time.sleep(0.05)
        return said


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.address = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(1).wait(5)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def traced(collector: Collector) -> Iterator[RunningService]:
    yield from serve_ephemeral(f"--tracing-endpoint={collector.address}")


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def call(service: RunningService, method: str, request: Message, *metadata: tuple[str, str]) -> Any:
    with grpc.insecure_channel(service.grpc) as channel:
        stub: Any = log_pb2_grpc.LogServiceStub(channel)
        if hasattr(shuffle_pb2_grpc.ShuffleServiceServicer, method):
            stub = shuffle_pb2_grpc.ShuffleServiceStub(channel)
        return getattr(stub, method)(request, timeout=20, metadata=metadata)


def test_each_call_is_a_span_with_method_and_status(collector: Collector, traced: RunningService) -> None:
    call(traced, "GetCheckpoint", log_pb2.GetCheckpointRequest())
    with pytest.raises(grpc.RpcError):
        call(traced, "GetHand", shuffle_pb2.GetHandRequest(table=bytes(15), seq=1))
    good = collector.until(lambda: collector.named("GetCheckpoint"))[0]
    assert attributes(good) == {
        "rpc.system": "grpc",
        "rpc.service": "rngsvc.v1.LogService",
        "rpc.method": "GetCheckpoint",
        "rpc.grpc.status_code": "OK",
    }
    assert good.kind == Span.SPAN_KIND_SERVER
    assert not good.parent_span_id
    assert 0 < good.end_time_unix_nano - good.start_time_unix_nano < 10 * 10**9
    refused = collector.until(lambda: collector.named("GetHand"))[0]
    assert attributes(refused)["rpc.grpc.status_code"] == "INVALID_ARGUMENT"
    assert refused.status.code == Status.STATUS_CODE_UNSET, "what the caller did wrong is no fault of the server"
    (resource,) = {str(each.resource) for request in collector.requests for each in request.resource_spans}
    assert "ephemeral.example/rng" in resource
    assert "service.name" in resource


def test_a_span_of_a_stream_ends_with_it(collector: Collector, traced: RunningService) -> None:
    with grpc.insecure_channel(traced.grpc) as channel:
        stub = log_pb2_grpc.LogServiceStub(channel)
        following = stub.StreamEntries(log_pb2.StreamEntriesRequest(follow=True), timeout=30)
        next(following)
        time.sleep(0.3)
        following.cancel()
    span = collector.until(lambda: collector.named("StreamEntries"))[-1]
    assert span.end_time_unix_nano - span.start_time_unix_nano > 0.25 * 10**9
    assert attributes(span)["rpc.grpc.status_code"] == "CANCELLED", "who leaves is no fault of the service"
    assert span.status.code == Status.STATUS_CODE_UNSET


@pytest.mark.parametrize(
    ("metadata", "trace", "parent"),
    [
        ((("traceparent", f"00-{TRACE}-{PARENT}-01"),), TRACE, PARENT),
        ((("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "room=7")), TRACE, PARENT),
        ((("traceparent", f"00-{TRACE}-{PARENT}-00"),), None, ""),  # the caller does not sample it
        ((("traceparent", "00-nonsense"),), "", ""),
        ((("traceparent", f"00-{'0' * 32}-{PARENT}-01"),), "", ""),
        ((("traceparent-bin", b"\x00\xff"), ("traceparent", "x" * 4000)), "", ""),
        ((("tracestate", "room=7"),), "", ""),
    ],
)
def test_the_callers_trace_is_continued_and_a_malformed_one_is_not(
    collector: Collector, traced: RunningService, metadata: Any, trace: str | None, parent: str
) -> None:
    """``trace`` is "" where a new one begins, None where there is to be no span."""
    before = len(collector.named("GetCheckpoint"))
    call(traced, "GetCheckpoint", log_pb2.GetCheckpointRequest(), *metadata)
    if trace is None:
        call(traced, "GetCheckpoint", log_pb2.GetCheckpointRequest())
    spans = collector.until(lambda: collector.named("GetCheckpoint")[before:])
    assert len(spans) == 1
    assert spans[0].parent_span_id.hex() == parent
    assert (spans[0].trace_id.hex() == TRACE) == bool(trace)


def test_a_batch_is_a_span_with_its_steps_and_its_commit(collector: Collector, traced: RunningService) -> None:
    with SyncClient.connect(traced.grpc, log_key=traced.log_key) as client:
        hand = client.register_table(os.urandom(16)).reserve()
        hand.seal(52)
        hand.close()
    batch = collector.until(lambda: [s for s in collector.named("batch") if attributes(s)["rngsvc.batch.shuffles"]])[0]
    said = attributes(batch)
    assert said["rngsvc.batch.steps"] >= 1
    assert said["rngsvc.batch.entries"] >= 1
    children = collector.until(lambda: [s for s in collector.spans if s.parent_span_id == batch.span_id])
    steps, commit = sorted(children, key=lambda span: span.start_time_unix_nano)
    assert (steps.name, commit.name) == ("steps", "commit")
    assert batch.start_time_unix_nano == steps.start_time_unix_nano
    assert steps.end_time_unix_nano == commit.start_time_unix_nano
    assert commit.end_time_unix_nano == batch.end_time_unix_nano


def spelt(secret: bytes) -> list[bytes]:
    """A secret as it might be written."""
    return [secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode()]


def test_no_secret_is_in_what_the_collector_receives(collector: Collector, traced: RunningService) -> None:
    """Contributed seeds, the service's own seed, the salts and the table's name are planted, and searched for."""
    table_id = os.urandom(16)
    with SyncClient.connect(traced.grpc, log_key=traced.log_key) as client:
        table = client.register_table(table_id)
        hand = table.reserve()
        origin = hand.inner.proven.origin
        hand.promise({who: promise(origin, table_id, 1, who, seed) for who, seed in CONTRIBUTED.items()})
        hand.seal(52, CONTRIBUTED)
        openings = hand.open(0, [0, 1, 2])
        hand.close()
        # Refusals too, whose messages name what is wrong.
        with pytest.raises(Exception, match=r"promised|already|step|hand"):
            hand.promise({b"seat-1": bytes(32)})
        (close,) = (
            entry
            for run in client.log.entries()
            for raw in run.entries
            if isinstance(entry := parse_entry(raw), CloseEntry) and entry.table == table_id
        )
    assert close.seed
    before = len(collector.named("CloseHand"))
    collector.until(lambda: len(collector.named("CloseHand")) >= before > 0)
    sent = b"".join(request.SerializeToString() for request in collector.requests)
    assert b"SealShuffle" in sent
    salts = (
        [opening.salt for opening in openings.values()] if isinstance(openings, dict) else [o.salt for o in openings]
    )
    for secret in (*CONTRIBUTED.values(), *CONTRIBUTED, close.seed, table_id, *salts):
        for written in spelt(secret):
            assert written not in sent
    assert {name.partition(".")[0] for span in collector.spans for name in attributes(span)} == {"rpc", "rngsvc"}


# --- Without a collector ---


def test_off_by_default_nothing_of_opentelemetry_is_loaded() -> None:
    script = "import sys, rngsvc.serve; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_play_goes_on_and_the_service_stops_in_time_where_the_collector_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "rngsvc", "serve", "--ephemeral", f"--tracing-endpoint={address}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            ready = json.loads(process.stdout.readline())
            with SyncClient.connect(ready["grpc"], log_key=ready["log_key"]) as client:
                table = client.register_table(os.urandom(16))
                taken = []
                for _ in range(20):
                    hand = table.reserve()
                    began = time.perf_counter()
                    hand.seal(52)
                    taken.append(time.perf_counter() - began)
                    hand.close()
            began = time.monotonic()
            process.terminate()
            assert process.wait(60) == ExitCode.OK
            assert time.monotonic() - began < 25
    assert sorted(taken)[10] < 1


def test_more_spans_than_the_queue_holds_are_lost_and_nothing_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tracing = Tracing(f"http://127.0.0.1:{silent.getsockname()[1]}", 1.0, "o", "1")
        began = time.monotonic()
        for _ in range(10_000):
            tracing.call("rngsvc.v1.LogService/GetCheckpoint", [])("OK")
        tracing.batch(BatchReport(1, 1, [(52, 53)], [], 0.001, 0.001, 0.001))
        assert time.monotonic() - began < 10
        began = time.monotonic()
        tracing.close()
        assert time.monotonic() - began < 12


def test_a_share_of_the_traces_is_begun() -> None:
    with collecting() as collector:
        for ratio, most in ((0.0, 0), (0.5, 160), (1.0, 200)):
            collector.requests.clear()
            tracing = Tracing(collector.address, ratio, "o", "1")
            for _ in range(200):
                tracing.call("rngsvc.v1.LogService/GetCheckpoint", [])("OK")
            tracing.close()
            assert most * 0.25 <= len(collector.spans) <= most


@pytest.mark.parametrize("address", ["127.0.0.1:4317", "ftp://h:1", "http://h", "http://user:secret@h:1", "http://"])
def test_what_is_no_collectors_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationRefused, match="tracing_endpoint") as refused:
        load({"tracing_endpoint": address}, {})
    assert "secret" not in str(refused.value)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rngsvc.tracing", None)
    ran = rngsvc("serve", "--ephemeral", "--tracing-endpoint=http://127.0.0.1:1")
    assert ran.code == ExitCode.CONFIGURATION
