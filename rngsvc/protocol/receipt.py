"""The file in which one hand is handed to somebody: its log entries with proofs, and what he may see of its cards.

A receipt is read strictly into frozen records; whether it shows what it claims is `rngsvc.protocol.verify`'s business.
A dealer's history is read too: a receipt and the events in which cards moved. The page is `receipt.md`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rngsvc.protocol.card_seal import SALT_BYTES
from rngsvc.protocol.commitment import (
    HASH_BYTES,
    MAX_CONTRIBUTION_BYTES,
    MAX_CONTRIBUTOR_ID_BYTES,
    MAX_CONTRIBUTORS,
    MAX_ITEMS,
    MAX_SEQ,
    MAX_SHUFFLES,
    MIN_CONTRIBUTION_BYTES,
    TABLE_BYTES,
)
from rngsvc.protocol.entries import MAX_ENTRY_BYTES
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.members import Array, Codec, Integer, Octets, Record, Text, Word, load, member
from rngsvc.protocol.signed_note import MAX_NOTE_CHARACTERS, check_key_name
from rngsvc.protocol.twin import MAX_CHOICE_BYTES, MIN_CHOICE_BYTES

FORMAT: Final = "rs1-receipt/1"
MAX_DOCUMENT_CHARACTERS: Final = 2**24

_HASH: Final = Octets(HASH_BYTES)
_K: Final = Integer(0, MAX_SHUFFLES - 1)
_PLACE: Final = Integer(0, MAX_ITEMS - 1)


class LogName(Codec[str]):
    """A log's origin, which is its key's name too."""

    def read(self, value: object, field: str) -> str:
        """Refuse what cannot be a key's name."""
        name = value if isinstance(value, str) else ""
        check_key_name(name, field)
        return name

    def write(self, value: str) -> str:
        """Return the name itself."""
        return value


@dataclass(frozen=True, kw_only=True)
class LoggedEntry:
    """An entry's canonical text, and the tlog-proof text that shows it in the log."""

    entry: str = member(Text(1, MAX_ENTRY_BYTES))
    proof: str = member(Text(1, MAX_NOTE_CHARACTERS, besides="\n—"))


@dataclass(frozen=True, kw_only=True)
class OwnContribution:
    """The holder's own id and seed, and at a twin table his choice."""

    id: bytes = member(Octets(1, MAX_CONTRIBUTOR_ID_BYTES))
    seed: bytes = member(Octets(MIN_CONTRIBUTION_BYTES, MAX_CONTRIBUTION_BYTES))
    choice: bytes | None = member(Octets(MIN_CHOICE_BYTES, MAX_CHOICE_BYTES), optional=True)


@dataclass(frozen=True, kw_only=True)
class SealedShuffle:
    """All leaves of shuffle ``k`` of ``n`` items, place 0 first."""

    k: int = member(_K)
    n: int = member(Integer(1, MAX_ITEMS))
    leaves: tuple[bytes, ...] = member(Array(_HASH, 1, MAX_ITEMS))


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Step 6. The ``item`` at place ``p`` of shuffle ``k``, with the salt that its leaf was made of."""

    k: int = member(_K)
    p: int = member(_PLACE)
    item: int = member(Integer(0, MAX_ITEMS - 1))
    salt: bytes = member(Octets(SALT_BYTES))


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What somebody holds of hand ``seq`` at ``table``; what he may not see is None.

    ``contributions`` are the Merkle leaf hashes of Step 2 in order.
    """

    origin: str = member(LogName())
    table: bytes = member(Octets(TABLE_BYTES))
    seq: int = member(Integer(1, MAX_SEQ))
    entries: tuple[LoggedEntry, ...] = member(Array(Record(LoggedEntry), 1, 256))
    own: OwnContribution | None = member(Record(OwnContribution), optional=True)  # noqa: RUF009  (`member` declares a field)
    contributions: tuple[bytes, ...] | None = member(Array(_HASH, 0, MAX_CONTRIBUTORS), optional=True)
    shuffles: tuple[SealedShuffle, ...] | None = member(Array(Record(SealedShuffle), 0, MAX_SHUFFLES), optional=True)
    openings: tuple[Opening, ...] | None = member(Array(Record(Opening), 0, MAX_SHUFFLES * MAX_ITEMS), optional=True)

    def members(self) -> dict[str, Any]:
        """Return the receipt as a JSON object."""
        return {"format": FORMAT, **Record(Receipt).write(self)}

    def encode(self) -> str:
        """Return the receipt as JSON text."""
        return json.dumps(self.members(), indent=1) + "\n"

    @classmethod
    def from_members(cls, value: object, field: str) -> "Receipt":
        """Read a JSON object strictly; MalformedError names the member, below ``field`` where that is not empty."""
        prefix = f"{field}." if field else ""
        if not isinstance(value, dict):
            raise MalformedError(field or "document", "must be an object")
        rest = dict(value)
        if rest.pop("format", None) != FORMAT:
            raise MalformedError(f"{prefix}format", f'must be "{FORMAT}"')
        return Record(cls).read(rest, field)

    @classmethod
    def parse(cls, text: str) -> "Receipt":
        """Read a receipt's JSON text strictly."""
        return cls.from_members(_load(text), "")


@dataclass(frozen=True, kw_only=True)
class CardMove:
    """One card in an event: its location, how it came there to be seen, and its item where that may be shown.

    A card is ``dealt`` or ``burnt`` once, each taking the shuffle's next place; later it can be ``shown``.
    """

    how: str = member(Word(("dealt", "burnt", "shown")))
    k: int = member(_K)
    p: int = member(_PLACE)
    item: int | None = member(Integer(0, MAX_ITEMS - 1), optional=True)


@dataclass(frozen=True)
class HistoryEvent:
    """What an event says about cards: ``shuffle`` k was sealed here, these ``cards`` moved; both may be absent."""

    shuffle: int | None
    cards: tuple[CardMove, ...]


@dataclass(frozen=True)
class History:
    """A dealer's history as far as a receipt can vouch for it; all that it says about the game is passed over."""

    receipt: Receipt
    events: tuple[HistoryEvent, ...]

    @classmethod
    def from_members(cls, members: Mapping[str, object]) -> "History":
        """Read ``receipt`` and, from each of ``events``, ``shuffle`` and ``cards``; MalformedError names the member."""
        receipt = Receipt.from_members(members.get("receipt"), "receipt")
        events = members.get("events")
        if not isinstance(events, list):
            raise MalformedError("events", "must be an array")
        return cls(receipt, tuple(_read_event(event, f"events[{i}]") for i, event in enumerate(events)))


def parse_document(text: str) -> Receipt | History:
    """Read a receipt, or the history of a dealer that holds one; MalformedError names what is wrong."""
    members = _load(text)
    if isinstance(members, dict) and "format" not in members:
        return History.from_members(members)
    return Receipt.from_members(members, "")


def _load(text: str) -> object:
    if len(text) > MAX_DOCUMENT_CHARACTERS:
        raise MalformedError("document", f"must be at most {MAX_DOCUMENT_CHARACTERS} characters")
    return load(text, "document")


def _read_event(event: object, field: str) -> HistoryEvent:
    if not isinstance(event, dict):
        raise MalformedError(field, "must be an object")
    shuffle = _K.read(event["shuffle"], f"{field}.shuffle") if "shuffle" in event else None
    cards = _CARDS.read(event["cards"], f"{field}.cards") if "cards" in event else ()
    return HistoryEvent(shuffle, cards)


_CARDS: Final = Array(Record(CardMove), 0, MAX_ITEMS)
