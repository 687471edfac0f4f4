"""What an audit of a log can find wrong."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Check(StrEnum):
    """What was checked."""

    ENTRY = "entry"
    """Each entry is in the one accepted form."""
    TIME = "time"
    """Times never go back."""
    TABLE = "table"
    """A table is registered once, before anything else happens at it."""
    CHAIN = "chain"
    """Each entry of a table names the one before it."""
    SEQUENCE = "sequence"
    """Hands are reserved without gaps, with one commitment each, and sealed and closed in order."""
    STEP = "step"
    """Each entry of a hand is a legal step: promises before the seal, reshuffles of what is there, one close."""
    CONTEXT = "context"
    """What is sealed follows from the commitment, the promises, the contributions and the shuffle before."""
    MEMBERS = "members"
    """An entry's members agree with the hand's other entries, openings included."""
    CHOICE = "choice"
    """The choices at a twin table are the promised ones, and decide which deck is played."""
    TWIN = "twin"
    """The deck that was not played at a twin table follows, whole, from the seed that is shown."""
    REVEAL = "reveal"
    """What a close reveals gives commitment, promises, shuffles and numbers."""
    DEADLINE = "deadline"
    """Nothing happens after a hand's expiry, and nothing expires before it."""
    OVERDUE = "overdue"
    """No hand stays unclosed long after its expiry."""
    KEY = "key"
    """Each change of the log's key is signed by both keys, and follows the one before; none comes back."""
    VERDICT = "verdict"
    """Each auditor's verdict is signed, covers entries that were there, and is no "fail"."""
    INTEGRITY = "integrity"
    """The service checked itself at its start and daily, and passed."""
    ABORTS = "aborts"
    """No more hands were given up than chance explains."""
    ESCROW = "escrow"
    """The auditor's key opens each escrow to the committed seed."""
    DERIVATION = "derivation"
    """Under escrow too, every shuffle and number follows from the seed."""
    HISTORY = "history"
    """Dealers' histories tell the cards that were sealed."""


BY_AUDITOR: Final = (Check.ESCROW, Check.DERIVATION, Check.HISTORY)
"""What only an auditor with his key checks."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong: the ``check`` that failed, at which log position, and what it found."""

    check: Check
    index: int
    message: str
    table: bytes | None = None
    seq: int | None = None
