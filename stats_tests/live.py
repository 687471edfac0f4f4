"""The live service as a source: AuditService.Sample, fresh output of the production path, never used for play.

The request is in the public log before the first byte is sent, and the client checks the service's own SHA-256 and
counts of the sample. This module alone of the battery knows the service.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rngsvc.client import Bits, Credentials, Numbers, SampleSummary, Shuffles, SyncClient
from stats_tests.accumulator import Items
from stats_tests.catalogue import Kind
from stats_tests.samples import binary_format, from_bytes


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is and whose log it must be."""

    target: str
    log_key: str
    credentials: Credentials | None = None

    def connect(self) -> SyncClient:
        """Return a client that trusts nothing that the log's key has not signed."""
        return SyncClient.connect(self.target, log_key=self.log_key, credentials=self.credentials)


@dataclass
class LiveSource:
    """Samples of the live service. Each asks for fresh items: the first item's index only counts on."""

    service: Service
    kind: Kind
    size: int
    count: int | None = None
    divisible: bool = False
    renewable: bool = True
    sample_id: bytes = field(default=b"", init=False)
    summary: SampleSummary | None = field(default=None, init=False)
    log_index: int = field(default=-1, init=False)

    def items(self, start: int, stop: int | None) -> Iterator[Items]:
        """Ask for stop - start items and yield them; `summary` is there afterwards."""
        assert stop is not None, "a live sample has a size"
        self.summary, self.sample_id = None, secrets.token_bytes(16)
        format_ = binary_format(self.kind, self.size)
        with self.service.connect() as client:
            sample = client.audit.sample(self._what(stop - start), self.sample_id)
            self.log_index = sample.logged.index
            at = 0
            for chunk in sample:
                yield from_bytes(chunk, format_, self.size, at)
                at += len(chunk)
            self.summary = sample.summary

    def describe(self) -> dict[str, Any]:
        """Return which sample of which log it was, and how the service accounts for it."""
        description: dict[str, Any] = {"source": "rngsvc", "log_key": self.service.log_key}
        if self.summary is None:
            return description
        return description | {
            "sample_id": self.sample_id.hex(),
            "log_index": self.log_index,
            "sha256": self.summary.sha256.hex(),
            "words_read": self.summary.words_read,
            "words_refused": self.summary.words_refused,
            "reseeds": self.summary.reseeds,
            "service_code": self.summary.code_manifest.hex(),
            "checkpoint": self.summary.checkpoint,
        }

    def _what(self, count: int) -> Bits | Numbers | Shuffles:
        match self.kind:
            case Kind.BITS:
                return Bits(count)
            case Kind.NUMBERS:
                return Numbers(self.size, count)
            case Kind.SHUFFLES:
                return Shuffles(self.size, count)
