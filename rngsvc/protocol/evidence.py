"""A hand as the entries of a receipt tell it: which entry is what, before anything is proved.

Reading puts each entry where it belongs in the life of one hand, in the log's order, or refuses it. Whether the
entries hold against each other and against the log is checked step by step in `rngsvc.protocol.verify`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from rngsvc.protocol.entries import (
    ChooseEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    HandEntry,
    KeyEntry,
    Location,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import leaf_hash
from rngsvc.protocol.receipt import Receipt
from rngsvc.protocol.tlog_proof import TlogProof

T = TypeVar("T")
E = TypeVar("E", bound=Entry)

NOT_SEALED: Final = "the hand was not sealed when this receipt was made"


class NotShownError(Exception):
    """The receipt does not hold what a check needs."""


def needed(value: T | None, why_not: str) -> T:
    """Return the value; NotShownError saying ``why_not`` if there is none."""
    if value is None:
        raise NotShownError(why_not)
    return value


@dataclass(frozen=True)
class Logged:
    """An entry, its leaf hash, and the proof that the receipt offers for it."""

    entry: Entry
    leaf: bytes
    proof: TlogProof

    @property
    def index(self) -> int:
        """Its number in the log, as the proof claims."""
        return self.proof.index


@dataclass
class Hand:
    """The entries of a receipt, in the log's order and each by what it is."""

    receipt: Receipt
    logged: list[Logged] = field(default_factory=list)

    def _all(self, kind: type[E]) -> list[E]:
        return [each.entry for each in self.logged if isinstance(each.entry, kind)]

    def _leaf(self, kind: type[Entry]) -> bytes:
        return next(each.leaf for each in self.logged if isinstance(each.entry, kind))

    @cached_property
    def table(self) -> TableEntry:
        """Step 0: always there."""
        return self._all(TableEntry)[0]

    @cached_property
    def reserve(self) -> ReserveEntry:
        """Step 1: always there."""
        return self._all(ReserveEntry)[0]

    @cached_property
    def promise(self) -> PromiseEntry | None:
        """Step 2, if anybody promised."""
        return next(iter(self._all(PromiseEntry)), None)

    @property
    def twin(self) -> bool:
        """Whether the hand is of a twin table."""
        return self.table.twin is not None

    @cached_property
    def sealed(self) -> SealEntry | None:
        """Step 5: the seal of k = 0 as it stands in the log, at a twin table of both decks."""
        return next(iter(self._all(SealEntry)), None)

    def sealed_deck(self, number: int) -> SealEntry:
        """Return the seal of k = 0 as far as it is about one deck; NotShownError before it."""
        return needed(self.sealed, NOT_SEALED).deck(number)

    @cached_property
    def choose(self) -> ChooseEntry | None:
        """Twin mode: the choice between the decks, once it was made."""
        return next(iter(self._all(ChooseEntry)), None)

    @property
    def deck(self) -> int:
        """The number of the deck that is played; 0 at an ordinary table and until the choice."""
        return self.choose.deck if self.choose else 0

    @cached_property
    def seals(self) -> list[SealEntry]:
        """Steps 5 and 7, by k from 0, of the deck that is played."""
        return [each.deck(self.deck if each.k == 0 else 0) for each in self._all(SealEntry)]

    @cached_property
    def draw(self) -> DrawEntry | None:
        """Step 9, instead of seals."""
        return next(iter(self._all(DrawEntry)), None)

    @cached_property
    def close(self) -> CloseEntry | None:
        """Step 8, once the hand is closed."""
        return next(iter(self._all(CloseEntry)), None)

    @property
    def key_changes(self) -> list[tuple[int, KeyEntry]]:
        """The changes of the log's key, with their numbers in the log."""
        return [(each.index, each.entry) for each in self.logged if isinstance(each.entry, KeyEntry)]

    @property
    def first(self) -> SealEntry | DrawEntry:
        """What fixed the contributions: the seal of k = 0 or the draw. NotShownError before either."""
        if self.seals:
            return self.seals[0]
        return needed(self.draw, "the hand was neither sealed nor drawn")

    @property
    def commitments(self) -> tuple[bytes, ...]:
        """C, at a twin table C and C'."""
        return self.reserve.commitments_of(self.receipt.seq)

    @property
    def commitment(self) -> bytes:
        """C of the deck that is played."""
        return self.commitments[self.deck]

    @property
    def promised(self) -> tuple[tuple[bytes, ...], ...]:
        """(id, P), at a twin table (id, P, Q), of each contributor, in order."""
        return self.promise.promises[self.receipt.seq - self.promise.first] if self.promise else ()

    @property
    def pre(self) -> bytes:
        """What `pre` must be: the leaf hash of the promise entry, without one of the reserve entry."""
        return self._leaf(PromiseEntry if self.promise else ReserveEntry)

    @property
    def absent(self) -> tuple[int, ...]:
        """The numbers of the absent contributors."""
        return self.first.absent or ()

    @cached_property
    def named(self) -> dict[Location, int]:
        """For each named location the first reshuffle that took it."""
        return {location: each.k for each in reversed(self.seals) for location in each.inputs or ()}


def read_hand(receipt: Receipt) -> Hand:
    """Return the hand; ProofError unless the entries are those of this one hand in the log's order."""
    hand = Hand(receipt)
    placed: list[HandEntry] = []
    for i, offered in enumerate(receipt.entries):
        raw = offered.entry.encode("ascii")
        try:
            logged = Logged(parse_entry(raw), leaf_hash(raw), TlogProof.parse(offered.proof))
        except MalformedError as error:
            raise ProofError(f"entries[{i}] is malformed: {error}") from error
        name = f"entries[{i}] ({logged.entry.type})"
        if hand.logged and logged.index <= hand.logged[-1].index:
            raise ProofError(f"{name} does not stand behind the one before it in the log")
        if hand.logged and logged.entry.time < hand.logged[-1].entry.time:
            raise ProofError(f"{name} is older than the one before it in the log")
        if isinstance(logged.entry, HandEntry):
            if logged.entry.table != receipt.table:
                raise ProofError(f"{name} is of another table")
            if not _fits(logged.entry, placed, receipt.seq):
                raise ProofError(f"{name} does not belong here in hand {receipt.seq}")
            placed.append(logged.entry)
        elif not isinstance(logged.entry, KeyEntry):
            raise ProofError(f"{name} does not belong to a hand")
        hand.logged.append(logged)
    if len(placed) < 2:
        raise ProofError("the table entry and the reserve entry must be there")
    _check_twin_members(hand)
    return hand


def _check_twin_members(hand: Hand) -> None:
    """Raise ProofError unless the entries have the members of a twin table, or none of them at an ordinary one."""
    rows = [("reserve", hand.reserve.twin_commitments is not None, hand.twin)]
    if hand.promise and hand.promise.twin is not None:
        rows.append(("promise", hand.promise.twin, hand.twin))
    if hand.sealed:
        rows.append(("seal", hand.sealed.twin_hc is not None, hand.twin))
    if hand.close:
        has = hand.close.twin_seed is not None or hand.close.twin_escrow is not None
        rows.append(("close", has, hand.twin and hand.choose is None and hand.close.outcome != "lost"))
    for kind, has, must in rows:
        if has != must:
            raise ProofError(f"the {kind} entry {'lacks the' if must else 'has'} members of twin mode")


def _fits(entry: HandEntry, placed: Sequence[HandEntry], seq: int) -> bool:
    """Say whether ``entry`` can follow those ``placed`` so far in the life of hand ``seq``."""
    types = [each.type for each in placed]
    twin = bool(placed) and isinstance(placed[0], TableEntry) and placed[0].twin is not None
    match entry:
        case TableEntry():
            return not types
        case ReserveEntry():
            return types == ["table"] and _covers(entry.first, entry.commitments, seq)
        case PromiseEntry():
            return types == ["table", "reserve"] and _covers(entry.first, entry.promises, seq)
        case SealEntry():
            reserved = len(types) >= 2 and "draw" not in types and "close" not in types
            chosen = entry.k == 0 or not twin or "choose" in types
            return reserved and chosen and (entry.seq, entry.k) == (seq, types.count("seal"))
        case ChooseEntry():
            return twin and types[-1] == "seal" and "choose" not in types and entry.seq == seq
        case DrawEntry():
            return not twin and types in (["table", "reserve"], ["table", "reserve", "promise"]) and entry.seq == seq
        case CloseEntry():
            chosen = entry.outcome != "complete" or not twin or "choose" in types
            return len(types) >= 2 and "close" not in types and chosen and entry.seq == seq


def _covers(first: int, listed: Sequence[object], seq: int) -> bool:
    return first <= seq < first + len(listed)
