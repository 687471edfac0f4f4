"""What Prometheus sees, as documented in `docs/metrics.md`. No label grows with tables or hands."""

from collections import Counter as Counts
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rngsvc.cosigning import Cosigner
from rngsvc.daily_runs import JOBS, OUTCOMES
from rngsvc.generator import Generator
from rngsvc.protocol.entries import ABORT_REASONS, INTEGRITY_KINDS, LOST_REASONS
from rngsvc.sequencer import BatchReport

_LATENCY_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8)
_DECKS: Final = frozenset({32, 36, 52})  # sizes with a label of their own
_BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_CLOSES: Final = (
    ("complete", ""),
    *(("aborted", reason) for reason in ABORT_REASONS),
    *(("lost", reason) for reason in LOST_REASONS),
)


class Metrics:
    """All instruments of one service process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "rngsvc_requests", "Finished calls by method and gRPC status code.", ["method", "code"], registry=r
        )
        self.latency = Histogram(
            "rngsvc_request_seconds",
            "From a call's start to its end.",
            ["method"],
            registry=r,
            buckets=_LATENCY_BUCKETS,
        )
        self.in_flight = Gauge("rngsvc_requests_in_flight", "Calls that are being answered.", registry=r)
        self._batch_steps = Histogram(
            "rngsvc_batch_steps", "Calls that shared one commit.", registry=r, buckets=_BATCH_BUCKETS
        )
        self._batch_wait = Histogram(
            "rngsvc_batch_wait_seconds",
            "How long a batch's oldest call had waited.",
            registry=r,
            buckets=_LATENCY_BUCKETS,
        )
        self._commit = Histogram(
            "rngsvc_commit_seconds", "Making a batch durable (fsync included).", registry=r, buckets=_LATENCY_BUCKETS
        )
        self._entries = Counter("rngsvc_log_entries", "Entries logged by this process.", registry=r)
        self.shuffles = Counter("rngsvc_shuffles", "Shuffles sealed by number of items.", ["items"], registry=r)
        self.bytes_used = Counter(
            "rngsvc_shuffle_bytes_used", "Stream bytes that shuffles took, by number of items.", ["items"], registry=r
        )
        self.closed = Counter(
            "rngsvc_hands_closed", "Hands closed, by outcome and reason.", ["outcome", "reason"], registry=r
        )
        # Each series from the start: Prometheus does not see a rise from "absent" to 1, and the first lost hand counts.
        for items in (*map(str, _DECKS), "other"):
            self.shuffles.labels(items)
            self.bytes_used.labels(items)
        for close in _CLOSES:
            self.closed.labels(*close)
        self._overdue = Gauge(
            "rngsvc_hands_overdue", "Tables whose lowest unclosed hand is past its expiry.", registry=r
        )
        self._integrity_time = Gauge(
            "rngsvc_integrity_time_seconds", "Unix time of the newest result of each kind.", ["kind"], registry=r
        )
        self._integrity_failed = Gauge(
            "rngsvc_integrity_failed", "1 if the newest result of that kind is no pass.", ["kind"], registry=r
        )
        self._integrity_overdue = Gauge(
            "rngsvc_integrity_overdue", "1 if no daily result came for 26 hours.", registry=r
        )
        self._audited = Gauge(
            "rngsvc_log_audited_size", "Entries of its own log that the service has audited.", registry=r
        )
        self._audit_time = Gauge(
            "rngsvc_log_audit_time_seconds", "Unix time of the newest audit that came to its end.", registry=r
        )
        self._audit_failed = Gauge(
            "rngsvc_log_audit_failed", "1 if the newest audit of its own log found damage.", registry=r
        )
        self._runs = Counter(
            "rngsvc_scheduled_runs", "Ended runs of the daily jobs, by how they ended.", ["job", "outcome"], registry=r
        )
        self._failing = Gauge(
            "rngsvc_scheduled_failing", "1 if the newest run of that job did not do its work.", ["job"], registry=r
        )
        for job in JOBS:
            self._failing.labels(job).set(0)
            for outcome in OUTCOMES:
                self._runs.labels(job, outcome)
        self._public_hands = Counter(
            "rngsvc_public_hands", "Answers to /hands/..., by how they came about.", ["answer"], registry=r
        )
        for answer in ("derived", "kept", "refused"):
            self._public_hands.labels(answer)
        self._certificate_expires = Gauge(
            "rngsvc_certificate_expires_seconds",
            "Unix time at which the first certificate of the server's chain expires.",
            ["use"],
            registry=r,
        )
        self._cosigned = Gauge(
            "rngsvc_cosigned_log_size", "Entries that the newest cosigned checkpoint covers.", registry=r
        )
        self._witness_size = Gauge(
            "rngsvc_witness_log_size", "Entries that each witness has cosigned.", ["witness"], registry=r
        )
        self.stopped = Gauge("rngsvc_signing_stopped", "1 once the service has stopped signing.", registry=r)
        self._build = Info("rngsvc_build", "Version and code manifest of the running service.", registry=r)
        ProcessCollector(registry=r)

    def describe_build(self, version: str, code: bytes, origin: str) -> None:
        """Say what is running."""
        self._build.info({"version": version, "code_manifest": code.hex(), "origin": origin})

    def finished(self, method: str, code: str, seconds: float) -> None:
        """Count one finished call."""
        self.requests.labels(method, code).inc()
        self.latency.labels(method).observe(seconds)

    def observe_batch(self, report: BatchReport) -> None:
        """Count one batch."""
        self._batch_steps.observe(report.steps)
        self._batch_wait.observe(report.oldest_wait_s)
        if report.commit_s:
            self._commit.observe(report.commit_s)
        self._entries.inc(report.entries)
        # Summed up first: finding a labelled counter takes longer than half a card seal.
        shuffles: Counts[str] = Counts()
        bytes_used: Counts[str] = Counts()
        for n, used in report.shuffled:
            items = str(n) if n in _DECKS else "other"
            shuffles[items] += 1
            bytes_used[items] += used
        for items, count in shuffles.items():
            self.shuffles.labels(items).inc(count)
            self.bytes_used.labels(items).inc(bytes_used[items])
        for (outcome, reason), count in Counts(report.closed).items():
            self.closed.labels(outcome, reason).inc(count)

    def show_status(self, board: Mapping[str, Any]) -> None:
        """Show what `status.Board` has read: hands that nobody closed, and the service's checks of itself."""
        self._overdue.set(board["hands"]["overdue"])
        self._integrity_overdue.set(board["integrity"]["daily_overdue"])
        audit = board["integrity"]["log_audit"]
        self._audited.set(audit["size"])
        self._audit_time.set(audit["time"] / 1000)
        self._audit_failed.set(audit["verdict"] == "fail")
        for kind in INTEGRITY_KINDS:
            if newest := board["integrity"]["newest"].get(kind):
                self._integrity_time.labels(kind).set(newest["time"] / 1000)
                self._integrity_failed.labels(kind).set(newest["verdict"] != "pass")

    def run_ended(self, job: str, outcome: str) -> None:
        """Count the end of a daily job."""
        self._runs.labels(job, outcome).inc()
        self._failing.labels(job).set(outcome != "done")

    def hand_asked(self, answer: str) -> None:
        """Count an answer to a question for a hand's public part."""
        self._public_hands.labels(answer).inc()

    def scheduler_gone(self) -> None:
        """Show that nothing runs daily any more."""
        for job in JOBS:
            self._failing.labels(job).set(1)

    def show_certificate(self, expires_s: float) -> None:
        """Show until when (Unix time) the gRPC server's certificate is good."""
        self._certificate_expires.labels("server").set(expires_s)

    def watch_witnesses(self, cosigner: Cosigner) -> None:
        """Read at each scrape how far the witnesses have come."""
        self._cosigned.set_function(lambda: cosigner.newest.size if cosigner.newest else 0)
        for name in cosigner.policy.witnesses:
            self._witness_size.labels(name).set_function(partial(cosigner.size_known, name))

    def watch(self, generator: Generator, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        """Read the generator's counters and ``gauges`` (name -> help, value) at each scrape."""
        self.registry.register(_Watched(generator, gauges))


class _Watched(Collector):
    """Figures that their owners keep anyway, read when they are scraped."""

    def __init__(self, generator: Generator, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        self._generator = generator
        self._gauges = gauges

    def collect(self) -> "list[Metric]":
        """Return the families."""
        g = self._generator
        families: list[Metric] = [
            CounterMetricFamily("rngsvc_drbg_requests", "Requests answered by the DRBG.", value=g.requests),
            CounterMetricFamily("rngsvc_drbg_reseeds", "Reseeds of the DRBG.", value=g.reseeds),
            CounterMetricFamily("rngsvc_drbg_bytes", "Bytes given out by the DRBG.", value=g.bytes),
            CounterMetricFamily(
                "rngsvc_health_tested_bytes", "Output bytes that went through RCT and APT.", value=g.health_tested
            ),
            GaugeMetricFamily("rngsvc_drbg_failed", "1 once the generator has failed.", value=float(bool(g.failure))),
        ]
        sources = CounterMetricFamily(
            "rngsvc_entropy_samples", "Noise samples that went through RCT and APT.", labels=["source"]
        )
        for source in g.sources:
            sources.add_metric([source.name], source.samples)
        families.append(sources)
        families += [GaugeMetricFamily(name, text, value=read()) for name, (text, read) in self._gauges.items()]
        return families
