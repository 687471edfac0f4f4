"""What can be wrong with something this package is asked to read, derive or check.

The family says who must act: a `MalformedError` is mended by whoever wrote the bytes, a `ProofError` means that
well-formed evidence does not show what it claims, a `StreamExhaustedError` ends the hand (it is aborted).
"""


class MalformedError(ValueError):
    """Bytes, text or a value that the page does not allow.

    ``field`` names the member or argument (for nested ones with a dot or an index: ``promises[2][0]``), ``allowed``
    says what may stand there.
    """

    def __init__(self, field: str, allowed: str) -> None:
        super().__init__(f"{field}: {allowed}")
        self.field = field
        self.allowed = allowed


class ProofError(Exception):
    """A signature, an inclusion or consistency proof, or an opening does not show what it claims."""


class StreamExhaustedError(Exception):
    """The 65,536 bytes of one derivation are used up before it is complete; the hand must be aborted (Step 4)."""
