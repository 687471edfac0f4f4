"""What a caller can meet, in two families by who must act.

`CallFailed`: the service answered with an error, or not at all; nothing was learnt. `Unproven`: the service did
answer, but its answer does not show what it must; it is evidence, not an answer, and is never returned. The first is
for the caller's retry and alarm rules; the second is for his auditor.
"""

from dataclasses import dataclass

from rngsvc.proven_hand import (
    ChoiceMismatch,
    ContextMismatch,
    ContributionMismatch,
    EntryMismatch,
    LeavesMismatch,
    OpeningMismatch,
    RevealMismatch,
    StepMismatch,
    TwinMismatch,
    Unproven,
)

__all__ = [
    "AnswerMalformed",
    "CallFailed",
    "CheckpointRejected",
    "ChoiceMismatch",
    "ContextMismatch",
    "ContributionMismatch",
    "EntryMismatch",
    "InclusionUnproven",
    "InvalidRequest",
    "LeavesMismatch",
    "LogBroken",
    "LogForked",
    "LogRolledBack",
    "NotFound",
    "OpeningMismatch",
    "OutcomeUnknown",
    "PermissionDenied",
    "Refused",
    "RevealMismatch",
    "SampleMismatch",
    "ServiceBroken",
    "ServiceStopped",
    "StepMismatch",
    "TwinMismatch",
    "Unavailable",
    "Unproven",
    "Violation",
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One field of a request that the service refused: its name as in the proto, and what may stand there."""

    field: str
    allowed: str


class CallFailed(Exception):
    """A call without an answer.

    ``code`` is the gRPC status name, ``reason`` the service's stable word (`rngsvc.errors.Reason`; "" if the failure
    did not come from the service itself), ``violations`` the refused fields, ``retry_after_s`` the service's wish.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        reason: str = "",
        violations: tuple[Violation, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code}{f' ({reason})' if reason else ''}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.violations = violations
        self.retry_after_s = retry_after_s


class InvalidRequest(CallFailed):
    """A field is malformed or out of range; ``violations`` names it. Nothing has changed."""


class NotFound(CallFailed):
    """The table, hand, log position or sample does not exist."""


class Refused(CallFailed):
    """The request is illegal in the hand's present state, or repeats a key with other content. Nothing has changed."""


class PermissionDenied(CallFailed):
    """The caller's role covers neither this call nor this table, or his identity is unknown."""


class Unavailable(CallFailed):
    """The service cannot be reached or is overloaded, and still was when the retries ended."""


class OutcomeUnknown(CallFailed):
    """The deadline passed before the answer came. The step may have been logged: repeat the same call."""


class ServiceStopped(CallFailed):
    """The service is in doubt about its randomness, keys, clock or log and signs nothing more; no other took over."""


class ServiceBroken(CallFailed):
    """The service failed in a way that its interface does not foresee."""


class AnswerMalformed(Unproven):
    """A part of the answer is missing, has the wrong length, or cannot be read."""


class CheckpointRejected(Unproven):
    """The checkpoint is malformed, of another log, or not signed by the log's key."""


class UnknownLogKey(CheckpointRejected):
    """The checkpoint is signed with a key of the log that no change of key known here leads to."""


class InclusionUnproven(Unproven):
    """The entry is not shown to be in the log at the index that the answer gives."""


class SampleMismatch(Unproven):
    """A sample's data are not those that its last message sums up."""


class LogBroken(Unproven):
    """Two signed checkpoints that cannot both be of one append-only log.

    ``held`` is the one that was trusted before, ``offered`` the new one, both as signed notes: together they are
    proof to anybody that the log's key signed two histories.
    """

    def __init__(self, message: str, held: str, offered: str) -> None:
        super().__init__(message)
        self.held = held
        self.offered = offered


class LogForked(LogBroken):
    """The newer tree does not continue the older one, or one size has two roots."""


class LogRolledBack(LogBroken):
    """The log's newest checkpoint is smaller than one that was seen before."""
