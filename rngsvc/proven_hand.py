"""What is proven of one hand, entry by entry: each piece is checked before it is taken in.

Pure: plain values come in; what is kept is proven to belong to this hand, or an `Unproven` error says what does not
fit. The client feeds it answers, the log's monitor entries. The steps are those of `protocol/hand-protocol.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.hand import Event, IllegalStep, State, next_state
from rngsvc.protocol.card_seal import SALT_BYTES, card_leaf, cards_root, salts, seal
from rngsvc.protocol.commitment import commit, contribution_leaf, hand_context, promise, reshuffle_context
from rngsvc.protocol.derivation import draw_numbers, permute
from rngsvc.protocol.entries import (
    ChooseEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    Location,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
)
from rngsvc.protocol.errors import ProofError, StreamExhaustedError
from rngsvc.protocol.escrow import escrow_info, open_seed
from rngsvc.protocol.merkle import root_of
from rngsvc.protocol.twin import choice_digest, played_deck, promise_choice

E = TypeVar("E", bound=Entry)

Contributions = Mapping[bytes, bytes]
"""Contributor id -> his seed, or his choice between two decks."""


class Unproven(ProofError):
    """Something does not show what it must: evidence against who says it, so keep it."""


class EntryMismatch(Unproven):
    """An entry does not say what it must; ``member`` is the one that differs."""

    def __init__(self, member: str, expected: object, found: object) -> None:
        super().__init__(f"the entry's {member} is {_shown(found)} where {_shown(expected)} was due")
        self.member = member


class StepMismatch(Unproven):
    """An entry is no legal step in its hand's life."""


class ContextMismatch(Unproven):
    """A sealed context does not follow from the commitment, promises and contributions, or the shuffle before."""


class LeavesMismatch(Unproven):
    """The leaves of a shuffle do not give its sealed root."""


class ContributionMismatch(Unproven):
    """The contributions that were given are not those that went into the shuffle."""


class OpeningMismatch(Unproven):
    """An opening is not what was sealed at its place, or not what was asked."""


class RevealMismatch(Unproven):
    """What a close reveals does not give the commitment, the promises, or the shuffles that were sealed."""


class ChoiceMismatch(Unproven):
    """A choice between two decks is not the promised or the given one, or another deck follows from the choices."""


class TwinMismatch(Unproven):
    """The deck that was not played does not follow from the seed that was shown for it."""


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry at its place: number ``index`` of the log, its bytes ``raw`` and their leaf hash."""

    index: int
    raw: bytes
    entry: Entry
    leaf: bytes


@dataclass(frozen=True, slots=True)
class Opening:
    """The ``item`` (0..n-1) that lies at ``place`` of shuffle ``k``; ``salt`` proves it against the sealed leaf."""

    k: int
    place: int
    item: int
    salt: bytes


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A sealed shuffle: its context HC_k and root R_k, the stream bytes it used, the locations of its items (k >= 1).

    ``leaves`` is None while they are not known to this caller, after a restart.
    """

    k: int
    n: int
    context: bytes
    root: bytes
    used: int
    inputs: tuple[Location, ...]
    leaves: tuple[bytes, ...] | None
    logged: Placed


@dataclass(frozen=True, slots=True)
class Choice:
    """At a twin table: ``deck`` (0 or 1) is played, by ``choices`` in the order of the promises (b"" if not given).

    ``order`` are the items by place of the other deck, which anybody can derive from its ``seed``.
    """

    deck: int
    choices: tuple[bytes, ...]
    seed: bytes
    order: tuple[int, ...]
    logged: Placed

    @property
    def given(self) -> int:
        """How many contributors gave a choice. Without any the hand proves nothing to the public."""
        return sum(map(bool, self.choices))


@dataclass(frozen=True, slots=True)
class Draw:
    """Numbers 0..modulus-1 that were drawn for ``purpose``."""

    purpose: bytes
    modulus: int
    values: tuple[int, ...]
    logged: Placed


@dataclass(frozen=True, slots=True)
class Close:
    """How a hand ended. ``seed`` (public reveal) or ``escrow`` is its reveal, neither when it is lost.

    A twin table's hand that ended without a choice reveals deck 1 too, as ``twin_seed`` or ``twin_escrow``.
    """

    outcome: str
    reason: str | None
    seeds: tuple[bytes, ...]
    seed: bytes | None
    escrow: bytes | None
    logged: Placed
    twin_seed: bytes | None = None
    twin_escrow: bytes | None = None


def entry_of(logged: Placed, kind: type[E], /, **members: object) -> E:
    """Return the entry if it is of ``kind`` and its members are the given ones; EntryMismatch if not."""
    entry = logged.entry
    if not isinstance(entry, kind):
        raise EntryMismatch("type", kind.type, entry.type)
    for name, due in members.items():
        found = getattr(entry, name)
        if found != due:
            raise EntryMismatch(name, due, found)
    return entry


class ProvenHand:
    """What is proven of hand ``seq``: its table's entry, the reserve entry with its commitment, and what follows."""

    def __init__(self, origin: str, table_entry: Placed, reserve_entry: Placed, seq: int) -> None:
        self.origin = origin
        self.seq = seq
        self.table_entry = table_entry
        self.reserve_entry = reserve_entry
        self.terms = entry_of(table_entry, TableEntry)
        self.table = self.terms.table
        reserve = entry_of(reserve_entry, ReserveEntry, table=self.table)
        if not 0 <= seq - reserve.first < len(reserve.commitments):
            raise EntryMismatch("first", seq, reserve.first)
        self._check_twin("twin_commitments", has=reserve.twin_commitments is not None)
        self.commitments = reserve.commitments_of(seq)
        self.promise_entry: Placed | None = None
        self.promises: tuple[tuple[bytes, ...], ...] = ()
        self.contribution_leaves: tuple[bytes, ...] | None = None
        self.seal_entry: Placed | None = None
        self.choice: Choice | None = None
        self.shuffles: list[Shuffle] = []
        self.draw: Draw | None = None
        self.openings: dict[Location, Opening] = {}
        self.opened_before: frozenset[Location] = frozenset()
        self.close: Close | None = None

    @property
    def twin(self) -> bool:
        """Whether it is a hand of a twin table."""
        return self.terms.twin is not None

    @property
    def deck(self) -> int:
        """The number of the deck that is played; 0 before the choice and at ordinary tables."""
        return self.choice.deck if self.choice else 0

    @property
    def commitment(self) -> bytes:
        """C, of the deck that is played."""
        return self.commitments[self.deck]

    @property
    def start_entry(self) -> Placed | None:
        """The entry that fixed the contributions: of the first seal, or the draw; None before either."""
        return self.draw.logged if self.draw else self.seal_entry

    @property
    def entries(self) -> list[Placed]:
        """What was taken in of the hand, from its reserve entry on, in log order."""
        placed = (
            self.reserve_entry,
            self.promise_entry,
            self.start_entry,
            self.choice and self.choice.logged,
            *(each.logged for each in self.shuffles[1:]),
            self.close and self.close.logged,
        )
        return [each for each in placed if each]

    def _check_twin(self, member: str, *, has: bool) -> None:
        if has != self.twin:
            raise EntryMismatch(member, "there at twin tables, and only there", "there" if has else "not there")

    def taken(self, logged: Placed) -> None:
        """Take in the hand's next entry as the log gives it, without the answer that it once came with.

        StepMismatch if it is no legal next step.
        """
        try:
            next_state(State(self.state), _event_of(logged.entry))
        except IllegalStep as error:
            raise StepMismatch(str(error)) from error
        match logged.entry:
            case PromiseEntry():
                self.promised(logged)
            case SealEntry(k=0) if self.twin:
                self.sealed_twin(logged)
            case SealEntry(k=0):
                self.sealed(logged)
            case SealEntry():
                self.reshuffled(logged, len(self.shuffles))
            case ChooseEntry():
                self.chosen(logged)
            case DrawEntry():
                self.drawn(logged)
            case CloseEntry():
                self.closed(logged)
            case other:
                raise AssertionError(f"a {other.type} entry is no event")

    @property
    def state(self) -> str:
        """Where the hand is in its life, by what is known here."""
        if self.close:
            return "closed"
        if self.draw:
            return "drawn"
        if self.shuffles:
            return "sealed"
        if self.seal_entry:
            return "unchosen"
        return "promised" if self.promise_entry else "reserved"

    # --- Step 2 ---

    def promised(self, logged: Placed, asked: Sequence[tuple[bytes, ...]] | None = None) -> None:
        """Take in the hand's promise entry; ``asked`` are the (id, P) or (id, P, Q) that were handed in."""
        entry = entry_of(logged, PromiseEntry, table=self.table)
        if not 0 <= self.seq - entry.first < len(entry.promises):
            raise EntryMismatch("first", self.seq, entry.first)
        promises = entry.promises[self.seq - entry.first]
        if promises:
            self._check_twin("promises' choices", has=bool(entry.twin))
        if asked is not None and promises != tuple(sorted(asked)):
            raise EntryMismatch("promises", sorted(asked), promises)
        self.promise_entry = logged
        self.promises = promises

    @property
    def pre(self) -> bytes:
        """Step 3's pre: leaf hash of the promise entry, or of the reserve entry when there is none."""
        return (self.promise_entry or self.reserve_entry).leaf

    # --- Steps 3 to 5, 7 and 9 ---

    def sealed(
        self,
        logged: Placed,
        n: int | None = None,
        given: Contributions | None = None,
        contribution_leaves: Sequence[bytes] | None = None,
        leaves: Sequence[bytes] | None = None,
    ) -> Shuffle:
        """Take in the first shuffle: its entry, and what this caller asked for and was answered, where he knows."""
        entry = self._first_sealed(logged, n, given, contribution_leaves)
        self._check_leaves(entry, leaves)
        self.seal_entry = logged
        return self._take_shuffle(logged, entry, leaves)

    def sealed_twin(
        self,
        logged: Placed,
        n: int | None = None,
        given: Contributions | None = None,
        contribution_leaves: Sequence[bytes] | None = None,
    ) -> None:
        """Take in the seal of a twin table's two decks, like `sealed`. Which is the hand's shuffle, `chosen` tells."""
        self._first_sealed(logged, n, given, contribution_leaves)
        self.seal_entry = logged

    def _first_sealed(
        self,
        logged: Placed,
        n: int | None,
        given: Contributions | None,
        contribution_leaves: Sequence[bytes] | None,
    ) -> SealEntry:
        entry = entry_of(logged, SealEntry, table=self.table, seq=self.seq, k=0, **({} if n is None else {"n": n}))
        self._check_twin("twin_hc", has=entry.twin_hc is not None)
        for deck, commitment in enumerate(self.commitments):
            self._check_context(entry.deck(deck), commitment, given)
        if contribution_leaves is not None:
            self.contributed(entry, contribution_leaves)
        if self.seal_entry and self.seal_entry.leaf != logged.leaf:
            raise EntryMismatch("entry", "the same as the first time", "another")
        return entry

    def chosen(
        self, logged: Placed, given: Contributions | None = None, leaves: Sequence[bytes] | None = None
    ) -> Shuffle:
        """Take in the choice between two decks, and derive the one that is not played from the seed that is shown.

        ``given`` are the choices that were handed in. The deck that is played is the hand's first shuffle from then on.
        """
        entry = entry_of(logged, ChooseEntry, table=self.table, seq=self.seq)
        if self.seal_entry is None:
            raise StepMismatch("there is a choice, but no seal of two decks")
        sealed = entry_of(self.seal_entry, SealEntry)
        self._check_choices(entry, sealed, given)
        other = 1 - entry.deck
        if commit(self.table, self.seq, entry.seed) != self.commitments[other]:
            raise TwinMismatch(f"the seed that is shown is not the committed one of deck {other}")
        shown = _shuffle_of(self.seal_entry, sealed.deck(other), None)
        try:
            (order,) = rederive(entry.seed, [shown], None)
        except (RevealMismatch, StreamExhaustedError) as error:
            raise TwinMismatch(f"deck {other}: {error}") from error
        played = sealed.deck(entry.deck)
        self._check_leaves(played, leaves)
        if self.choice and self.choice.logged.leaf != logged.leaf:
            raise EntryMismatch("entry", "the same as the first time", "another")
        self.choice = Choice(entry.deck, entry.choices, entry.seed, tuple(order), logged)
        return self._take_shuffle(self.seal_entry, played, leaves)

    def _check_choices(self, entry: ChooseEntry, sealed: SealEntry, given: Contributions | None) -> None:
        if len(entry.choices) != len(self.promises):
            raise ChoiceMismatch(f"{len(entry.choices)} choices where {len(self.promises)} were promised")
        for (contributor, _, promised), choice in zip(self.promises, entry.choices, strict=True):
            if choice and promise_choice(self.origin, self.table, self.seq, contributor, choice) != promised:
                raise ChoiceMismatch(f"the choice of contributor {contributor!r} is not the promised one")
            if given is not None and choice != given.get(contributor, b""):
                raise ChoiceMismatch(f"the choice of contributor {contributor!r} is not the one that was handed in")
        zero, one = sealed.deck(0), sealed.deck(1)
        digest = choice_digest((zero.hc, one.hc), (zero.root, one.root), [choice or None for choice in entry.choices])
        if played_deck(digest) != entry.deck:
            raise ChoiceMismatch(f"the choices make deck {1 - entry.deck} the one that is played, not {entry.deck}")

    def reshuffled(
        self,
        logged: Placed,
        k: int,
        inputs: Sequence[Location] | None = None,
        leaves: Sequence[bytes] | None = None,
    ) -> Shuffle:
        """Take in shuffle ``k`` >= 1; ``inputs`` are the locations that were asked for."""
        asked = {} if inputs is None else {"inputs": tuple(inputs), "n": len(inputs)}
        entry = entry_of(logged, SealEntry, table=self.table, seq=self.seq, k=k, **asked)
        if k > len(self.shuffles):
            raise EntryMismatch("k", len(self.shuffles), k)
        before = self.shuffles[k - 1]
        assert entry.inputs is not None, "parsed entries of k >= 1 have inputs"
        self._check_locations(k, entry.inputs)
        if reshuffle_context(before.context, before.root, k, entry.inputs) != entry.hc:
            raise ContextMismatch(f"hc of shuffle {k} does not follow from the shuffle before it and the locations")
        self._check_leaves(entry, leaves)
        return self._take_shuffle(logged, entry, leaves)

    def _check_locations(self, k: int, inputs: Sequence[Location]) -> None:
        """Step 7: each location exists, and is named at most once in a hand."""
        named = {location for earlier in self.shuffles[:k] for location in earlier.inputs}
        for j, p in inputs:
            if p >= self.shuffles[j].n:
                raise StepMismatch(f"location ({j}, {p}) does not exist in this hand")
            if (j, p) in named:
                raise StepMismatch(f"location ({j}, {p}) was named by an earlier reshuffle")

    def drawn(
        self,
        logged: Placed,
        asked: tuple[bytes, int, int] | None = None,
        given: Contributions | None = None,
        contribution_leaves: Sequence[bytes] | None = None,
    ) -> Draw:
        """Take in drawn numbers; ``asked`` is purpose, modulus and count."""
        entry = entry_of(logged, DrawEntry, table=self.table, seq=self.seq)
        if self.twin:
            raise StepMismatch("numbers were drawn at a twin table")
        found = (entry.purpose, entry.m, len(entry.values))
        for name, due, is_ in zip(("purpose", "m", "number of values"), asked or found, found, strict=True):
            if due != is_:
                raise EntryMismatch(name, due, is_)
        self._check_context(entry, self.commitment, given)
        if contribution_leaves is not None:
            self.contributed(entry, contribution_leaves)
        self.draw = Draw(entry.purpose, entry.m, entry.values, logged)
        return self.draw

    def _check_context(self, entry: SealEntry | DrawEntry, commitment: bytes, given: Contributions | None) -> None:
        """Check what went into HC_0: the promises that were logged, the contributions that were given."""
        if entry.pre != self.pre:
            raise EntryMismatch("pre", self.pre.hex(), entry.pre.hex() if entry.pre else None)
        assert entry.cr is not None, "parsed entries of k = 0 have cr and absent"
        assert entry.absent is not None, "parsed entries of k = 0 have cr and absent"
        if entry.absent and entry.absent[-1] >= len(self.promises):
            raise EntryMismatch("absent", f"numbers below {len(self.promises)}", entry.absent)
        if given is not None:
            absent = tuple(i for i, promised in enumerate(self.promises) if promised[0] not in given)
            if entry.absent != absent:
                raise EntryMismatch("absent", absent, entry.absent)
            if root_of(self._contribution_leaves_of(given)) != entry.cr:
                raise ContributionMismatch("the contributions' root (cr) is not that of the seeds that were given")
        context = hand_context(self.origin, self.table, self.seq, commitment, entry.cr, self.pre)
        if context != entry.hc:
            raise ContextMismatch("hc does not follow from the commitment, cr and pre")

    def _contribution_leaves_of(self, given: Contributions) -> tuple[bytes, ...]:
        return tuple(
            contribution_leaf(i, contributor, given.get(contributor))
            for i, (contributor, *_) in enumerate(self.promises)
        )

    def contributed(self, entry: SealEntry | DrawEntry, leaves: Sequence[bytes]) -> None:
        """Take in the contributions' leaf hashes, by which each contributor finds his own seed in the shuffle."""
        if len(leaves) != len(self.promises) or root_of(leaves) != entry.cr:
            raise ContributionMismatch("the contributions' leaves do not give their root (cr)")
        self.contribution_leaves = tuple(leaves)

    def _check_leaves(self, entry: SealEntry, leaves: Sequence[bytes] | None) -> None:
        if leaves is not None and (len(leaves) != entry.n or cards_root(entry.k, leaves) != entry.root):
            raise LeavesMismatch(f"the leaves of shuffle {entry.k} do not give its root")

    def _take_shuffle(self, logged: Placed, entry: SealEntry, leaves: Sequence[bytes] | None) -> Shuffle:
        k = entry.k
        shuffle = _shuffle_of(logged, entry, leaves)
        if k == len(self.shuffles):
            self.shuffles.append(shuffle)
        elif self.shuffles[k].logged.leaf == logged.leaf:
            self.shuffles[k] = shuffle  # a repeat, perhaps to learn the leaves
        else:
            raise EntryMismatch("entry", "the same as the first time", "another")
        return shuffle

    def learned(self, k: int, leaves: Sequence[bytes]) -> None:
        """Take in the leaves of a shuffle that is known from the log only."""
        if k >= len(self.shuffles):
            raise LeavesMismatch(f"k: must be one of the {len(self.shuffles)} shuffles of the hand")
        entry = self.shuffles[k].logged.entry
        assert isinstance(entry, SealEntry), "a shuffle is made from one"
        entry = entry.deck(0 if k else self.deck)
        self._check_leaves(entry, leaves)
        self._take_shuffle(self.shuffles[k].logged, entry, leaves)

    @property
    def nobody_contributed(self) -> bool:
        """Whether the first shuffle can be repeated without any contributor's seed."""
        entry = self.shuffles[0].logged.entry
        assert isinstance(entry, SealEntry), "a shuffle is made from one"
        return len(entry.absent or ()) == len(self.promises)

    @property
    def choices(self) -> Contributions:
        """The choices that decided, by contributor."""
        given = self.choice.choices if self.choice else ()
        return {promised[0]: choice for promised, choice in zip(self.promises, given, strict=False) if choice}

    # --- Step 6 ---

    def opened(self, k: int, places: Sequence[int], items: Sequence[int], joined_salts: bytes) -> tuple[Opening, ...]:
        """Take in the openings of ``places`` of shuffle ``k``, each against its sealed leaf."""
        if k >= len(self.shuffles) or any(place >= self.shuffles[k].n for place in places):
            raise OpeningMismatch(f"shuffle {k} does not have all of these places")
        shuffle = self.shuffles[k]
        if shuffle.leaves is None:
            raise ValueError(f"leaves: those of shuffle {k} are not known here; repeat the seal, or restore a receipt")
        if len(items) != len(places) or len(joined_salts) != SALT_BYTES * len(places):
            raise OpeningMismatch("openings: must be one item and one salt of 16 bytes for each place")
        openings = []
        for i, (place, item) in enumerate(zip(places, items, strict=True)):
            salt = joined_salts[SALT_BYTES * i : SALT_BYTES * (i + 1)]
            if not 0 <= item < self.shuffles[0].n or card_leaf(k, place, item, salt) != shuffle.leaves[place]:
                raise OpeningMismatch(f"the opening of place {place} of shuffle {k} is not what was sealed there")
            openings.append(Opening(k, place, item, salt))
        self._check_each_item_once(openings)
        self.openings.update({(each.k, each.place): each for each in openings})
        return tuple(openings)

    def _check_each_item_once(self, new: Sequence[Opening]) -> None:
        """Step 7: each item lies at exactly one location that no reshuffle has named."""
        named = {location for shuffle in self.shuffles for location in shuffle.inputs}
        lies_at: dict[int, Location] = {}
        for each in (*self.openings.values(), *new):
            location = (each.k, each.place)
            if location not in named and lies_at.setdefault(each.item, location) != location:
                raise OpeningMismatch(f"item {each.item} lies at both {lies_at[each.item]} and {location}")

    # --- Step 8 ---

    def closed(self, logged: Placed, outcome: str | None = None, reason: str | None = None) -> Close:
        """Take in the hand's close, and re-derive the hand where the seed is public."""
        asked = {} if outcome is None else {"outcome": outcome, "reason": reason}
        entry = entry_of(logged, CloseEntry, table=self.table, seq=self.seq, **asked)
        self._check_opened_list(entry)
        self._check_contributed_seeds(entry)
        if entry.outcome != "lost":
            self._check_reveal(entry)
        self.close = Close(
            entry.outcome,
            entry.reason,
            entry.seeds or (),
            entry.seed,
            entry.escrow,
            logged,
            entry.twin_seed,
            entry.twin_escrow,
        )
        return self.close

    def _check_opened_list(self, entry: CloseEntry) -> None:
        if (entry.opened is None) != (self.terms.mode == "full"):
            raise EntryMismatch("opened", "there in mode shoe only", entry.opened)
        if entry.opened is None:
            return
        named_at = {location: shuffle.logged.entry.time for shuffle in self.shuffles for location in shuffle.inputs}
        listed: set[Location] = set()
        for time, k, places in entry.opened:
            for place in places:
                if k >= len(self.shuffles) or place >= self.shuffles[k].n:
                    raise EntryMismatch("opened", "only locations of this hand", (k, place))
                shown_from = self.shuffles[k].logged if k or not self.choice else self.choice.logged
                if time < shown_from.entry.time:
                    raise EntryMismatch("opened", "nothing before its seal and choice", (time, k, place))
                if time > named_at.get((k, place), time):
                    raise EntryMismatch("opened", "nothing after it was named", (time, k, place))
                listed.add((k, place))
        if missing := (self.opened_before | set(self.openings)) - listed:
            raise EntryMismatch("opened", f"{min(missing)} among them", "not there")

    def _check_contributed_seeds(self, entry: CloseEntry) -> None:
        start = self.start_entry
        lost_too = entry.outcome == "lost" and entry.seeds is None
        if (entry.seeds is None) != (start is None) and not lost_too:
            raise EntryMismatch("seeds", "there if sealed or drawn, and only then", entry.seeds)
        if start is None or entry.seeds is None:
            return
        if len(entry.seeds) != len(self.promises):
            raise RevealMismatch(f"{len(entry.seeds)} contributed seeds where {len(self.promises)} were promised")
        given = {promised[0]: seed for promised, seed in zip(self.promises, entry.seeds, strict=True) if seed}
        assert isinstance(start.entry, SealEntry | DrawEntry), "that is how a hand starts"
        absent = tuple(i for i, seed in enumerate(entry.seeds) if not seed)
        if absent != start.entry.absent:
            raise RevealMismatch(f"the close shows no seed of {absent}, absent were {start.entry.absent}")
        for contributor, promised, *_ in self.promises:
            seed = given.get(contributor)
            if seed is not None and promise(self.origin, self.table, self.seq, contributor, seed) != promised:
                raise RevealMismatch(f"the revealed seed of contributor {contributor!r} is not the promised one")
        if root_of(self._contribution_leaves_of(given)) != start.entry.cr:
            raise RevealMismatch("the revealed contributed seeds do not give the contributions' root (cr)")

    def _check_reveal(self, entry: CloseEntry) -> None:
        if (entry.seed is not None) != (self.terms.reveal == "public"):
            raise EntryMismatch("seed", f"the reveal of a table with {self.terms.reveal}", entry.seed)
        unchosen = self.twin and self.choice is None
        if unchosen and entry.outcome == "complete":
            raise StepMismatch("a hand is complete without a choice between its two decks")
        if ((entry.twin_seed or entry.twin_escrow) is not None) != unchosen:
            raise EntryMismatch("twin_seed or twin_escrow", "there without a choice, and only then", entry.twin_seed)
        if entry.seed is None:
            return  # only the auditor can open the escrow
        self.rederived(entry.seed, entry.twin_seed)

    def rederived(self, seed: bytes, twin_seed: bytes | None = None) -> list[list[int]]:
        """Check what follows from the revealed ``seed``: commitment, shuffles, numbers; RevealMismatch if not.

        ``twin_seed`` is that of deck 1 where a hand ended without a choice. Return the items by place of each shuffle;
        none where nobody chose one.
        """
        seeds = (seed,) if twin_seed is None else (seed, twin_seed)
        decks = (self.deck,) if twin_seed is None else (0, 1)
        for deck, shown in zip(decks, seeds, strict=True):
            if commit(self.table, self.seq, shown) != self.commitments[deck]:
                raise RevealMismatch("the revealed seed is not the committed one")
        if twin_seed is None:
            return rederive(seed, self.shuffles, self.draw)
        if self.seal_entry:
            sealed = entry_of(self.seal_entry, SealEntry)
            for deck, shown in zip(decks, seeds, strict=True):
                rederive(shown, [_shuffle_of(self.seal_entry, sealed.deck(deck), None)], None)
        return []


def opened_seeds(hand: ProvenHand, auditor: X25519PrivateKey) -> tuple[bytes, bytes | None]:
    """Return what the close of ``hand`` escrows: its seed, and that of deck 1 where it ended without a choice.

    Raises ProofError if the key does not open it.
    """
    assert hand.close is not None, "only a closed hand has a reveal"
    assert hand.close.escrow is not None, "asked for under escrow only"

    def opened(escrow: bytes, commitment: bytes) -> bytes:
        return open_seed(escrow, auditor, escrow_info(hand.origin, hand.table, hand.seq, commitment))

    seed = opened(hand.close.escrow, hand.commitment)
    twin = hand.close.twin_escrow
    return seed, None if twin is None else opened(twin, hand.commitments[1])


def _shuffle_of(logged: Placed, entry: SealEntry, leaves: Sequence[bytes] | None) -> Shuffle:
    known = None if leaves is None else tuple(leaves)
    return Shuffle(entry.k, entry.n, entry.hc, entry.root, entry.used, entry.inputs or (), known, logged)


def rederive(seed: bytes, shuffles: Sequence[Shuffle], draw: Draw | None) -> list[list[int]]:
    """Check that a hand's shuffles and numbers are what its ``seed`` gives (steps 4, 5, 9); RevealMismatch if not.

    Return the shuffles' items by place.
    """
    orders: list[list[int]] = []
    for each in shuffles:
        items = [orders[j][p] for j, p in each.inputs] if each.k else list(range(each.n))
        order, used = permute(seed, each.context, each.k, items)
        orders.append(order)
        if cards_root(each.k, seal(each.k, order, salts(seed, each.context, each.k, each.n))) != each.root:
            raise RevealMismatch(f"the revealed seed does not give the sealed order of shuffle {each.k}")
        if used != each.used:
            raise RevealMismatch(f"shuffle {each.k} used {used} bytes, not {each.used} as its entry says")
    if draw is not None:
        entry = draw.logged.entry
        assert isinstance(entry, DrawEntry), "a Draw is made from one"
        values = draw_numbers(seed, entry.hc, draw.purpose, draw.modulus, len(draw.values))
        if tuple(values) != draw.values:
            raise RevealMismatch("the revealed seed does not give the drawn numbers")
    return orders


def _event_of(entry: Entry) -> Event:
    match entry:
        case PromiseEntry():
            return Event.PROMISE
        case SealEntry():
            if entry.k:
                return Event.RESHUFFLE
            return Event.SEAL if entry.twin_hc is None else Event.SEAL_TWIN
        case ChooseEntry():
            return Event.CHOOSE
        case DrawEntry():
            return Event.DRAW
        case CloseEntry():
            return Event.CLOSE
        case _:
            raise StepMismatch(f"a {entry.type} entry is no step of a hand")
