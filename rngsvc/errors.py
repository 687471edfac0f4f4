"""What can go wrong, in families by who must act.

`CallerFault`: the caller must change his request. `TryAgain`: nobody is at fault, the same request may pass later.
`SigningStopped`: an operator must look; the service signs nothing more. A proof that fails is
`rngsvc.protocol.errors.ProofError`'s family and concerns whoever checks.

Only `server.py` knows which gRPC status each becomes. Messages go to callers: they name fields and limits, never a
secret.
"""

from enum import StrEnum
from typing import ClassVar


class Reason(StrEnum):
    """The stable word behind an error, sent as ErrorInfo.reason."""

    INVALID_FIELD = "INVALID_FIELD"
    UNKNOWN_TABLE = "UNKNOWN_TABLE"
    UNKNOWN_HAND = "UNKNOWN_HAND"
    UNKNOWN_INDEX = "UNKNOWN_INDEX"
    UNKNOWN_SAMPLE = "UNKNOWN_SAMPLE"
    NOT_YOUR_TABLE = "NOT_YOUR_TABLE"
    WRONG_ROLE = "WRONG_ROLE"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    OTHER_CONTENT = "OTHER_CONTENT"
    OUT_OF_SEQUENCE = "OUT_OF_SEQUENCE"
    WRONG_STATE = "WRONG_STATE"
    LOWER_HAND_OPEN = "LOWER_HAND_OPEN"
    EXPIRED = "EXPIRED"
    LOCATION_NAMED = "LOCATION_NAMED"
    SEED_MISMATCH = "SEED_MISMATCH"
    CHOICE_MISMATCH = "CHOICE_MISMATCH"
    TWIN_MODE = "TWIN_MODE"
    ENTRY_TOO_LARGE = "ENTRY_TOO_LARGE"
    TOO_MANY_OPEN_HANDS = "TOO_MANY_OPEN_HANDS"
    NOT_CLOSED = "NOT_CLOSED"
    BAD_SIGNATURE = "BAD_SIGNATURE"
    STREAM_EXHAUSTED = "STREAM_EXHAUSTED"
    SEED_LOST = "SEED_LOST"
    OVERLOADED = "OVERLOADED"
    STARTING_OR_STOPPING = "STARTING_OR_STOPPING"
    STORE_REFUSED = "STORE_REFUSED"
    KEY_UNAVAILABLE = "KEY_UNAVAILABLE"
    SIGNING_STOPPED = "SIGNING_STOPPED"


class ServiceError(Exception):
    """Any error that the service answers with; ``reason`` is its stable word."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class CallerFault(ServiceError):
    """The request cannot be carried out as it is. Nothing has changed."""


class InvalidField(CallerFault):
    """A field is malformed or out of range; ``field`` names it as the proto does."""

    def __init__(self, field: str, allowed: str) -> None:
        super().__init__(Reason.INVALID_FIELD, f"{field}: must be {allowed}")
        self.field = field
        self.allowed = allowed


class NotFound(CallerFault):
    """The thing that the request names does not exist."""


class Refused(CallerFault):
    """The request is well-formed but illegal in the present state."""


class PermissionDenied(CallerFault):
    """The caller's role does not cover this call or this table."""


class Unauthenticated(CallerFault):
    """The caller showed no identity that this service knows."""


class TryAgain(ServiceError):
    """Nothing has changed; the same request may pass after ``retry_after_s`` seconds."""

    default_retry_after_s: ClassVar[float] = 0.25

    def __init__(self, reason: Reason, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason, message)
        self.retry_after_s = self.default_retry_after_s if retry_after_s is None else retry_after_s


class Overloaded(TryAgain):
    """A queue is full."""


class SigningStopped(ServiceError):
    """The service is in doubt about its randomness, keys, clock or log, and has stopped signing for good."""

    def __init__(self, why: str) -> None:
        super().__init__(Reason.SIGNING_STOPPED, f"the service has stopped signing: {why}")
        self.why = why
