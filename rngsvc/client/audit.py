"""What an auditor asks of the service: samples, closed hands to re-derive, and a place in the log for his verdict."""

import json
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.client.connection import Connection
from rngsvc.client.errors import AnswerMalformed, EntryMismatch, RevealMismatch, SampleMismatch
from rngsvc.client.log_view import Logged, split_hashes
from rngsvc.client.table import proven_from
from rngsvc.protocol.entries import AuditEntry, IntegrityEntry, SampleEntry
from rngsvc.proven_hand import ProvenHand, entry_of, opened_seeds
from rngsvc.v1 import audit_pb2

MAX_CHUNK_BYTES = 1024 * 1024

VERDICTS = {
    "pass": audit_pb2.VERDICT_PASS,
    "fail": audit_pb2.VERDICT_FAIL,
    "undecided": audit_pb2.VERDICT_UNDECIDED,
}


@dataclass(frozen=True, slots=True)
class Bits:
    """``count`` bytes of the DRBG's output."""

    count: int

    kind = "bits"
    item_bytes = 1

    def put_into(self, request: audit_pb2.SampleRequest) -> None:
        """Ask for this."""
        request.bits.byte_count = self.count


@dataclass(frozen=True, slots=True)
class Numbers:
    """``count`` numbers 0..modulus-1, each 8 bytes big-endian."""

    modulus: int
    count: int

    kind = "numbers"
    item_bytes = 8

    def put_into(self, request: audit_pb2.SampleRequest) -> None:
        """Ask for this."""
        request.numbers.modulus = self.modulus
        request.numbers.count = self.count


@dataclass(frozen=True, slots=True)
class Shuffles:
    """``count`` decks of items 0..n-1, each item one byte up to n = 256, else two bytes big-endian."""

    n: int
    count: int

    kind = "shuffles"

    @property
    def item_bytes(self) -> int:
        """Bytes of one deck."""
        return self.n if self.n <= 256 else 2 * self.n

    def put_into(self, request: audit_pb2.SampleRequest) -> None:
        """Ask for this."""
        request.shuffles.item_count = self.n
        request.shuffles.count = self.count


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """What the service says of a whole sample; ``sha256`` and the counts were checked against the data received."""

    byte_count: int
    item_count: int
    words_read: int
    words_refused: int
    reseeds: int
    sha256: bytes
    code_manifest: bytes
    checkpoint: str


class Sample:
    """A sample that was logged as ``logged`` before its first byte.

    Iterate over it once, to the end: it gives the data in chunks of whole items, and then has a ``summary``.
    """

    def __init__(
        self,
        connection: Connection,
        what: Bits | Numbers | Shuffles,
        logged: Logged,
        messages: AsyncIterator[audit_pb2.SampleResponse],
    ) -> None:
        self.what = what
        self.logged = logged
        self.summary: SampleSummary | None = None
        self._connection = connection
        self._messages = messages

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the chunks; SampleMismatch if they are not what was asked, or not what the summary says."""
        digest = sha256()
        received = 0
        async for message in self._messages:
            part = message.WhichOneof("part")
            if part == "end":
                self.summary = self._checked(message.end, received, digest.digest())
                continue
            if part != "chunk" or self.summary:
                raise AnswerMalformed("part: must be chunks, then one end")
            chunk = message.chunk
            if not 1 <= len(chunk) <= MAX_CHUNK_BYTES or len(chunk) % self.what.item_bytes:
                raise AnswerMalformed("chunk: must be whole items, at most 1048576 bytes")
            digest.update(chunk)
            received += len(chunk)
            yield chunk
        if self.summary is None:
            raise SampleMismatch("the sample breaks off without its last message")
        await self._connection.see(self._connection.log.checkpoint(self.summary.checkpoint), surely=True)

    def _checked(self, end: audit_pb2.SampleEnd, received: int, digest: bytes) -> SampleSummary:
        due = self.what.count * self.what.item_bytes
        if not received == end.byte_count == due:
            raise SampleMismatch(f"{received} bytes came, {end.byte_count} were announced, {due} asked for")
        if end.item_count != self.what.count:
            raise SampleMismatch(f"{end.item_count} items were announced, {self.what.count} asked for")
        if end.sha256 != digest:
            raise SampleMismatch("the data do not have the SHA-256 that their last message gives")
        if self._connection.log.checkpoint(end.checkpoint).size <= self.logged.index:
            raise SampleMismatch("the last checkpoint does not contain the sample's entry")
        return SampleSummary(
            end.byte_count,
            end.item_count,
            end.words_read,
            end.words_refused,
            end.reseeds,
            end.sha256,
            end.code_manifest,
            end.checkpoint,
        )


@dataclass(frozen=True, slots=True)
class OpenedHand:
    """A closed hand with its leaves; contributed ``seeds`` by number, b"" for an absent contributor."""

    proven: ProvenHand
    seeds: tuple[bytes, ...]

    def rederive(self, auditor: X25519PrivateKey | None = None) -> bytes:
        """Re-derive every shuffle and number from the seed, and return the seed.

        Under escrow ``auditor`` opens it. Raises RevealMismatch, or ProofError if the key does not open the escrow.
        Where a twin table's hand ended without a choice both decks are derived, and the seed of deck 0 is returned.
        """
        hand = self.proven
        assert hand.close is not None, "only closed hands are opened"
        seed, twin_seed = hand.close.seed, hand.close.twin_seed
        if hand.close.escrow is not None:
            if auditor is None:
                raise ValueError("auditor: the X25519 key of the table's auditor is needed under escrow")
            seed, twin_seed = opened_seeds(hand, auditor)
        if seed is None:
            raise RevealMismatch("the hand is lost: it has no reveal")
        hand.rederived(seed, twin_seed)
        return seed


class Audit:
    """The auditor's calls; `Client.audit`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._service = connection.audit_service

    async def sample(self, what: Bits | Numbers | Shuffles, sample_id: bytes | None = None) -> Sample:
        """Ask for fresh output of the production path. ``sample_id`` is 16 bytes, new for each sample."""
        sample_id = sample_id or secrets.token_bytes(16)
        request = audit_pb2.SampleRequest(sample_id=sample_id)
        what.put_into(request)
        messages = self._connection.caller.stream(self._service.Sample, request)
        async for message in messages:
            if message.WhichOneof("part") != "start":
                break
            logged = await self._connection.logged(message.start.logged)
            entry_of(logged, SampleEntry, id=sample_id, kind=what.kind, count=what.count)
            return Sample(self._connection, what, logged, messages)
        raise AnswerMalformed("part: must be the start, with the sample's entry, first")

    async def open_hand(self, table: bytes, seq: int) -> OpenedHand:
        """Fetch what is needed to re-derive a closed hand."""
        request = audit_pb2.OpenHandRequest(table=table, seq=seq)
        answer = await self._connection.caller.repeatable(self._service.OpenHand, request)
        proven, _ = await proven_from(self._connection, table, seq, answer.entries)
        if proven.close is None:
            raise AnswerMalformed("entries: must end with the hand's close")
        if (answer.seed or None, answer.escrow or None) != (proven.close.seed, proven.close.escrow):
            raise RevealMismatch("the reveal is not that of the close entry")
        if tuple(answer.contributed_seeds) != proven.close.seeds:
            raise RevealMismatch("the contributed seeds are not those of the close entry")
        for each in answer.shuffles:
            proven.learned(each.k, split_hashes(each.leaves, "leaves"))
        return OpenedHand(proven, proven.close.seeds)

    async def record_verdict(
        self,
        first_index: int,
        last_index: int,
        result_sha256: bytes,
        verdict: str,
        signer: bytes,
        sign: Callable[[bytes], bytes],
    ) -> Logged:
        """Log a verdict (`pass`, `fail`, `undecided`) over log positions ``first_index`` .. ``last_index``.

        ``signer`` is the raw Ed25519 public key, ``sign`` gives its signature. The service proposes the entry with its
        time; it is signed only if it says exactly what was asked.
        """
        result = audit_pb2.AuditResult(
            first_index=first_index,
            last_index=last_index,
            result_sha256=result_sha256,
            verdict=VERDICTS[verdict],
            signer=signer,
        )
        proposal = await self._connection.caller.once(
            self._service.RecordResult, audit_pb2.RecordResultRequest(audit=result)
        )
        entry = AuditEntry(
            time=_time_in(proposal.to_sign),
            first=first_index,
            last=last_index,
            result=result_sha256,
            verdict=verdict,
            signer=signer,
            sig=bytes(64),
        )
        if entry.signed_bytes() != proposal.to_sign:
            raise EntryMismatch("proposal", entry.signed_bytes(), proposal.to_sign)
        result.time_ms = entry.time
        result.signature = sign(proposal.to_sign)
        answer = await self._connection.caller.once(
            self._service.RecordResult, audit_pb2.RecordResultRequest(audit=result)
        )
        logged = await self._connection.logged(answer.logged)
        due = replace(entry, sig=result.signature)
        if logged.entry != due:
            raise EntryMismatch("verdict", due, logged.entry)
        return logged

    async def record_integrity(self, sample_id: bytes, sample_sha256: bytes, report: str, verdict: str) -> Logged:
        """Log the signed ``report`` (a signed note) of a battery over a sample; the log holds its SHA-256."""
        noted = report.encode()
        request = audit_pb2.RecordResultRequest(
            integrity=audit_pb2.IntegrityResult(
                sample_id=sample_id, sample_sha256=sample_sha256, report=noted, verdict=VERDICTS[verdict]
            )
        )
        answer = await self._connection.caller.once(self._service.RecordResult, request)
        logged = await self._connection.logged(answer.logged)
        entry_of(logged, IntegrityEntry, kind="daily", results=(sha256(noted).digest(), verdict))
        return logged

    async def results(self, before_index: int = 0, page_size: int = 0) -> list[Logged]:
        """Return logged `integrity` and `audit` entries below position ``before_index`` (0: all), newest first."""
        request = audit_pb2.ListResultsRequest(before_index=before_index, page_size=page_size)
        answer = await self._connection.caller.repeatable(self._service.ListResults, request)
        found = [await self._connection.logged(each) for each in answer.results]
        for each in found:
            if not isinstance(each.entry, IntegrityEntry | AuditEntry):
                raise EntryMismatch("type", "integrity or audit", each.entry.type)
        return found


def _time_in(to_sign: bytes) -> int:
    try:
        return int(json.loads(to_sign)["time"])
    except (ValueError, TypeError, KeyError) as error:
        raise AnswerMalformed("to_sign: must be the canonical bytes of an audit entry") from error
