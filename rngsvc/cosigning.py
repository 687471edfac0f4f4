"""Collects witnesses' cosignatures for the log's checkpoints, beside the deal and never in its way.

In rounds: the newest checkpoint goes to every witness of the policy at once, with the proof that it continues what that
witness has cosigned before. What comes back is verified; with the quorum there, the cosigned checkpoint is published. A
witness that is away or slow costs nothing but its cosignature.
"""

import asyncio
import http.client
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import structlog

from rngsvc.log import Log
from rngsvc.ports import Head
from rngsvc.protocol.checkpoint import parse_decimal
from rngsvc.protocol.cosignature import cosignatures
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.policy import Policy, Witness
from rngsvc.protocol.signed_note import Signature, SignedNote
from rngsvc.witness import request_body

_MAX_ANSWER_BYTES: Final = 65_536

_log = structlog.get_logger("rngsvc.cosigning")


@dataclass(frozen=True, slots=True)
class Cosigned:
    """The newest checkpoint that the policy's quorum has cosigned, as a note."""

    size: int
    note: str


@dataclass(slots=True)
class Cosigner:
    """Runs the rounds. ``known`` holds what size each witness has cosigned, by name; ``failures`` why one did not."""

    log: Log
    policy: Policy
    interval_s: float
    timeout_s: float = 5.0
    newest: Cosigned | None = None
    known: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def newest_note(self) -> str:
        """Return the newest cosigned checkpoint, "" if there is none."""
        return self.newest.note if self.newest else ""

    def size_known(self, name: str) -> int:
        """Return how many entries that witness has cosigned, as far as we know."""
        return self.known.get(name, 0)

    async def run(self) -> None:
        """Hold a round whenever the log has grown, at most every ``interval_s`` seconds; for ever."""
        while self.policy.witnesses:
            head = self.log.head
            if head and (self.newest is None or head.size > self.newest.size):
                await self.round(head)
            await asyncio.sleep(self.interval_s)

    async def round(self, head: Head) -> None:
        """Ask every witness to cosign ``head``."""
        names = [name for name, witness in self.policy.witnesses.items() if witness.url]
        lines = await asyncio.gather(*(self._ask(name, self.policy.witnesses[name], head) for name in names))
        note = SignedNote.parse(head.checkpoint.decode())
        cosigned = SignedNote(note.text, (*note.signatures, *(line for line in lines if line)))
        try:
            self.policy.verify_quorum(cosigned)
        except ProofError as error:
            _log.warning("no quorum", size=head.size, why=str(error), failures=self.failures)
        else:
            self.newest = Cosigned(head.size, cosigned.encode())

    async def _ask(self, name: str, witness: Witness, head: Head) -> Signature | None:
        """Return the witness's verified cosignature line, None if there is none this time."""
        try:
            line = await self._cosignature(name, witness, head)
        except (OSError, http.client.HTTPException, MalformedError, ProofError, ValueError) as error:
            self.failures[name] = f"{type(error).__name__}: {error}"
            return None
        self.failures.pop(name, None)
        self.known[name] = head.size
        return line

    async def _cosignature(self, name: str, witness: Witness, head: Head) -> Signature:
        status, body = await self._submit(witness, self.size_known(name), head)
        if status == http.client.CONFLICT:
            # It has cosigned another size than we thought; more than the whole log would be a fork of ours.
            self.known[name] = parse_decimal(body.strip(), "size")
            if self.known[name] > head.size:
                raise ProofError(f"it has cosigned {self.known[name]} entries, this log has {head.size}")
            status, body = await self._submit(witness, self.known[name], head)
        if status != http.client.OK:
            raise ProofError(f"it answers {status}: {body.strip()[:200]}")
        note = SignedNote.parse(head.checkpoint.decode().split("\n\n")[0] + "\n\n" + body)
        for line in note.signatures:
            if cosignatures(SignedNote(note.text, (line,)), [witness.key]):
                return line
        raise ProofError("its answer has no cosignature of its own")

    async def _submit(self, witness: Witness, old_size: int, head: Head) -> tuple[int, str]:
        proof = await self.log.consistency(old_size, head.size)
        body = request_body(old_size, proof, head.checkpoint.decode())
        return await asyncio.to_thread(_post, witness.url.rstrip("/") + "/add-checkpoint", body, self.timeout_s)


def _post(url: str, body: bytes, timeout_s: float) -> tuple[int, str]:
    parts = urlsplit(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    if parts.scheme not in kinds or not parts.hostname:
        raise ValueError(f"a witness's URL must begin with http:// or https://, not {url}")
    connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=timeout_s)
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "text/plain; charset=utf-8"})
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_ANSWER_BYTES).decode()
    finally:
        connection.close()
