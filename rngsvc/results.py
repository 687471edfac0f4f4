"""Results in the log: auditors' verdicts, daily batteries, and the service's own start.

An auditor signs the entry that will stand in the log, time included; so he first asks for a proposal, whose time lies a
little ahead, and has until then to send his signature.
"""

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Final

from rngsvc.errors import InvalidField, NotFound, Overloaded, Reason, Refused
from rngsvc.log import Log, Logged
from rngsvc.ports import Clock, Store
from rngsvc.protocol.entries import AuditEntry, IntegrityEntry
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.sequencer import Batch, Sequencer

PROPOSAL_MS: Final = 2_000  # how far ahead of the log a proposed time lies
# Each verdict moves the log's time on. Many in a row must not take it so far from the clock that signing would stop.
MAX_AHEAD_MS: Final = 10_000
_NO_SIGNATURE: Final = bytes(64)


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """An auditor's verdict on entries ``first`` to ``last``; without ``sig`` he asks what to sign."""

    first: int
    last: int
    result: bytes
    verdict: str
    signer: bytes
    time: int = 0
    sig: bytes = b""


@dataclass(frozen=True, slots=True)
class BatteryVerdict:
    """What a battery says of a sample: the digest of the data that it saw, its signed ``report``, and the verdict."""

    sample_id: bytes
    sample_sha256: bytes
    report: bytes
    verdict: str


@dataclass(frozen=True, slots=True)
class Results:
    """Records and lists results. ``code`` is the manifest hash of the running service."""

    store: Store
    log: Log
    sequencer: Sequencer
    code: bytes

    async def audit(self, verdict: AuditVerdict) -> Logged | bytes:
        """Log an auditor's signed verdict, or return the bytes that he is to sign."""
        if verdict.last >= self.log.size:
            raise InvalidField("last_index", f"0..{self.log.size - 1}, the log's last entry")
        if not verdict.sig:
            proposed = self.sequencer.now_ms() + PROPOSAL_MS
            if proposed > self.sequencer.clock.now_ms() + MAX_AHEAD_MS:
                raise Overloaded(Reason.OVERLOADED, "the log's time is ahead of the clock", PROPOSAL_MS / 1000)
            return _audit_entry(verdict, proposed, _NO_SIGNATURE).signed_bytes()
        entry = _audit_entry(verdict, verdict.time, verdict.sig)
        try:
            entry.verify()
        except ProofError as error:
            raise Refused(Reason.BAD_SIGNATURE, f"signature: {error}") from None
        position, raw = await self.sequencer.submit(partial(_log_audit, entry, self.sequencer.clock))
        return await self.log.logged(position, raw)

    async def battery(self, verdict: BatteryVerdict) -> Logged:
        """Log the verdict of a daily battery, if it is on data that this service has sent."""
        sample = await self.store.sample(verdict.sample_id)
        if sample is None:
            raise NotFound(Reason.UNKNOWN_SAMPLE, "sample_id: no such sample was made")
        if not sample.sha256:
            raise Refused(Reason.WRONG_STATE, "sample_id: the sample was not sent to its end")
        if sample.sha256 != verdict.sample_sha256:
            raise Refused(Reason.OTHER_CONTENT, "sample_sha256: is not the digest of what was sent")
        return await self._integrity("daily", sha256(verdict.report).digest(), verdict.verdict)

    async def log_damaged(self, report: bytes) -> Logged:
        """Log that the service has found its own log damaged, with the SHA-256 of its audit's ``report``."""
        return await self._integrity("daily", sha256(report).digest(), "fail")

    async def start(self, report: bytes) -> Logged:
        """Log that the service starts, with the SHA-256 of what its self-tests said."""
        return await self._integrity("start", sha256(report).digest(), "pass")

    async def newest(self, before: int, limit: int) -> list[Logged]:
        """Return at most ``limit`` results below position ``before`` (0: the log's end), newest first."""
        positions = await self.store.results(min(before or self.log.size, self.log.size), limit)
        entries = await self.store.entries_at(positions)
        head = self.log.head
        return [await self.log.logged(*each, head) for each in zip(positions, entries, strict=True)]

    async def _integrity(self, kind: str, result: bytes, verdict: str) -> Logged:
        position, raw = await self.sequencer.submit(partial(_log_integrity, kind, self.code, result, verdict))
        return await self.log.logged(position, raw)


def _audit_entry(verdict: AuditVerdict, time: int, sig: bytes) -> AuditEntry:
    entry = AuditEntry(
        time=time,
        first=verdict.first,
        last=verdict.last,
        result=verdict.result,
        verdict=verdict.verdict,
        signer=verdict.signer,
        sig=sig,
    )
    try:
        entry.check()
    except MalformedError as error:
        raise InvalidField(error.field, error.allowed) from None
    return entry


def _log_audit(entry: AuditEntry, clock: Clock, batch: Batch) -> tuple[int, bytes]:
    latest = min(batch.time + PROPOSAL_MS, clock.now_ms() + MAX_AHEAD_MS)
    if not batch.time <= entry.time <= latest:
        raise Refused(Reason.OUT_OF_SEQUENCE, "time_ms: the proposal has run out; ask for a new one and sign that")
    # The log's clock jumps to the signed time; it never goes back, and real time catches up within the proposal.
    batch.time = entry.time
    raw = entry.encode()
    position, _ = batch.append(entry.type, raw)
    return position, raw


def _log_integrity(kind: str, code: bytes, result: bytes, verdict: str, batch: Batch) -> tuple[int, bytes]:
    entry = IntegrityEntry(time=batch.time, kind=kind, code=code, results=(result, verdict))
    raw = entry.encode()
    position, _ = batch.append(entry.type, raw)
    return position, raw
