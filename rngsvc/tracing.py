"""Traces (OpenTelemetry) of calls and batches, sent to a collector by OTLP; off unless a collector is configured.

A span says which method was called, when, and with which status; a batch's, how much it did and where its time went. No
request and no answer is looked at here, so that no card and no seed can be in a span. The caller's trace is continued
(W3C trace context in his metadata). Spans are sent from a thread of their own out of a bounded queue: where the
collector is slow or away, spans are lost and nothing waits.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rngsvc.sequencer import BatchReport

_QUEUE: Final = 4096
_EVERY_MS: Final = 2_000
_TIMEOUT_S: Final = 5.0
_GOODBYE_S: Final = 2.0
_TRACE_CONTEXT: Final = ("traceparent", "tracestate")
# Of these the service is the cause; the others are the caller's affair, and no error of a server's span.
_OURS: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})


class Tracing:
    """Makes and sends the spans of one service process.

    ``endpoint`` is the collector's http:// or https:// address, ``ratio`` the share of traces that are begun here;
    a trace that a caller has begun is followed as he decided.
    """

    def __init__(self, endpoint: str, ratio: float, origin: str, version: str) -> None:
        resource = Resource({"service.name": "rngsvc", "service.version": version, "rngsvc.origin": origin})
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=resource,
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attributes=16, max_attribute_length=200, max_events=0, max_links=0),
        )
        self._exporter = OTLPSpanExporter(endpoint, insecure=endpoint.startswith("http://"), timeout=_TIMEOUT_S)
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, max_queue_size=_QUEUE, schedule_delay_millis=_EVERY_MS)
        )
        self._tracer = self._provider.get_tracer("rngsvc", version)
        self._caller = TraceContextTextMapPropagator()

    def call(self, method: str, metadata: Sequence[tuple[str, str | bytes]]) -> Callable[[str], None]:
        """Begin the span of a call of "service/method"; what is returned ends it with the name of its status code."""
        shown = {key: value for key, value in metadata if key in _TRACE_CONTEXT and isinstance(value, str)}
        service, _, name = method.rpartition("/")
        span = self._tracer.start_span(
            method,
            context=self._caller.extract(shown),
            kind=SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": name},
        )

        def end(code: str) -> None:
            span.set_attribute("rpc.grpc.status_code", code)
            if code in _OURS:
                span.set_status(Status(StatusCode.ERROR, code))
            span.end()

        return end

    def batch(self, report: BatchReport) -> None:
        """Record a batch that has just become durable, with its steps and its commit."""
        end = time.time_ns()
        commit = end - int(report.commit_s * 1e9)
        steps = commit - int(report.steps_s * 1e9)
        span = self._tracer.start_span(
            "batch",
            start_time=steps,
            attributes={
                "rngsvc.batch.steps": report.steps,
                "rngsvc.batch.entries": report.entries,
                "rngsvc.batch.shuffles": len(report.shuffled),
                "rngsvc.batch.hands_closed": len(report.closed),
                "rngsvc.batch.oldest_wait_s": report.oldest_wait_s,
            },
        )
        within = set_span_in_context(span)
        for name, began, ended in (("steps", steps, commit), ("commit", commit, end)):
            self._tracer.start_span(name, within, start_time=began).end(ended)
        span.end(end)

    def close(self) -> None:
        """Send what waits, and stop; takes a few seconds at most where the collector is away."""
        # Its own limit of time is not kept to.
        sending = threading.Thread(target=self._provider.force_flush, daemon=True)
        sending.start()
        sending.join(_GOODBYE_S)
        self._exporter.shutdown()  # what could not be sent is dropped
        self._provider.shutdown()
