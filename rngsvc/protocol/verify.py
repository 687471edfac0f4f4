"""What the holder of a receipt can check by himself, with nothing but the log's first public key.

Every check is a step with a name that stays, and ends in one of three ways: checked, failed, or not shown, when the
receipt does not hold what the step needs. No step relies on another's success, so that a report names everything that
is wrong. The steps are explained in `receipt.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.protocol.card_seal import card_leaf, cards_root, salts, seal
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.commitment import commit, contribution_leaf, hand_context, promise, reshuffle_context
from rngsvc.protocol.derivation import draw_numbers, permute
from rngsvc.protocol.entries import NO_PREVIOUS, DrawEntry, HandEntry, Location, SealEntry
from rngsvc.protocol.errors import MalformedError, ProofError, StreamExhaustedError
from rngsvc.protocol.escrow import escrow_info, open_seed
from rngsvc.protocol.evidence import NOT_SEALED, Hand, NotShownError, needed, read_hand
from rngsvc.protocol.merkle import root_of, verify_inclusion
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.receipt import HistoryEvent, Receipt, parse_document
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.twin import choice_digest, played_deck, promise_choice

MAX_CLOCK_AHEAD_MS: Final = 300_000  # how far a service's clock may be ahead of the verifier's


class Outcome(StrEnum):
    """How a step ended."""

    CHECKED = "checked"
    FAILED = "failed"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Step:
    """One check: ``id`` stays the same for ever, ``claim`` says what is checked, ``detail`` what was found."""

    id: str
    claim: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True)
class Report:
    """All steps, in order."""

    steps: tuple[Step, ...]

    @property
    def failures(self) -> tuple[Step, ...]:
        """The steps that failed. Without any, what was not shown is still not checked."""
        return tuple(step for step in self.steps if step.outcome is Outcome.FAILED)

    def step(self, step_id: str) -> Step:
        """Return the step with this id; KeyError if there is none."""
        return {step.id: step for step in self.steps}[step_id]

    def require(self) -> "Report":
        """Return this report, or raise ProofError naming every failure."""
        if self.failures:
            raise ProofError("; ".join(f"{step.id}: {step.detail}" for step in self.failures))
        return self


def verify(
    document: str | bytes,
    log_key: str | bytes,
    now: int | None = None,
    auditor: X25519PrivateKey | None = None,
    policy: Policy | None = None,
) -> Report:
    """Check a receipt or a dealer's history, offline.

    ``document`` is its JSON text, ``log_key`` the log's first key: a vkey text, which fixes the origin too, or the raw
    32 bytes. With ``now`` (ms since 1970) entries from the future are seen. ``auditor`` is the table's X25519 key,
    with which an escrowed seed is opened and the derivation checked. With ``policy`` a step more, "witnesses", asks for
    its quorum of cosignatures on every checkpoint. A hand of a twin table has the steps `TWIN_STEP_IDS` more.
    MalformedError if ``log_key`` is no key; whatever is wrong with the document stands in the report.
    """
    # A raw key has no name of its own and takes the receipt's; until that is read any other will do.
    pinned = NoteKey.from_vkey(log_key) if isinstance(log_key, str) else NoteKey("unnamed", log_key)
    steps: list[Step] = []
    try:
        read = parse_document(document if isinstance(document, str) else _decoded(document))
        receipt, events = (read, None) if isinstance(read, Receipt) else (read.receipt, read.events)
    except MalformedError as error:
        return _stopped(steps, str(error))
    steps.append(Step(*_READING[0], Outcome.CHECKED, "a receipt" if events is None else "a history"))
    try:
        hand = read_hand(receipt)
    except ProofError as error:
        return _stopped(steps, str(error))
    steps.append(Step(*_READING[1], Outcome.CHECKED, _count(len(hand.logged), "entry", "entries")))
    if isinstance(log_key, bytes):
        pinned = NoteKey(receipt.origin, log_key)
    evidence = _Evidence(hand, pinned, events, now, auditor, policy)
    for step_id, claim, check in (*_CHECKS, *(_TWIN_CHECKS if hand.twin else ()), *((_WITNESSES,) if policy else ())):
        try:
            outcome, detail = Outcome.CHECKED, check(evidence)
        except NotShownError as why:
            outcome, detail = Outcome.NOT_SHOWN, str(why)
        except (ProofError, MalformedError, StreamExhaustedError) as error:
            outcome, detail = Outcome.FAILED, str(error)
        steps.append(Step(step_id, claim, outcome, detail))
    return Report(tuple(steps))


def _decoded(document: bytes) -> str:
    try:
        return document.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError("document", "must be UTF-8") from error


def _stopped(steps: list[Step], failure: str) -> Report:
    """Return the report of a document that cannot be read any further."""
    claims = (*_READING, *((step_id, claim) for step_id, claim, _ in _CHECKS))
    at = len(steps)
    rest = [Step(*each, Outcome.NOT_SHOWN, "the document could not be read") for each in claims[at + 1 :]]
    return Report((*steps, Step(*claims[at], Outcome.FAILED, failure), *rest))


@dataclass(frozen=True)
class _Evidence:
    """The hand, and what else the verifier knows."""

    hand: Hand
    log_key: NoteKey
    events: Sequence[HistoryEvent] | None
    now: int | None
    auditor: X25519PrivateKey | None
    policy: Policy | None

    @property
    def receipt(self) -> Receipt:
        return self.hand.receipt

    @property
    def origin(self) -> str:
        """The log's name as the verifier knows it."""
        return self.log_key.name

    def seeds(self) -> list[tuple[int, bytes | None]]:
        """Return each deck that the close reveals with its seed, shown there or opened with the auditor's key, or None.

        That is the deck that was played; both, where a twin table's hand ended without a choice.
        """
        hand = self.hand
        close = needed(hand.close, _NOT_CLOSED)
        decks = [(hand.deck, self._seed(close.seed, close.escrow, hand.commitments[hand.deck]))]
        if hand.twin and hand.choose is None:
            decks.append((1, self._seed(close.twin_seed, close.twin_escrow, hand.commitments[1])))
        return decks

    def _seed(self, seed: bytes | None, escrow: bytes | None, commitment: bytes) -> bytes | None:
        if seed is not None or escrow is None or self.auditor is None:
            return seed
        info = escrow_info(self.origin, self.receipt.table, self.receipt.seq, commitment)
        return open_seed(escrow, self.auditor, info)

    def promise_of(self, contributor: bytes, seed: bytes) -> bytes:
        """Return the promise that this seed would fulfil."""
        return promise(self.origin, self.receipt.table, self.receipt.seq, contributor, seed)

    def choice_promise_of(self, contributor: bytes, choice: bytes) -> bytes:
        """Return the promise that this choice would fulfil."""
        return promise_choice(self.origin, self.receipt.table, self.receipt.seq, contributor, choice)


_AUDITORS: Final = "the seed is not public: this step is the auditor's"
_NOT_CLOSED: Final = "the hand was not closed when this receipt was made"
_NOT_CHOSEN: Final = "nobody had decided between the two decks when this receipt was made"
_NO_CHOICE: Final = "the hand ended without a choice between its two decks"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


# --- The log ---


def _check_keys(evidence: _Evidence) -> str:
    changes = evidence.hand.key_changes
    current = evidence.log_key.public_key
    for index, entry in changes:
        if entry.old != current:
            raise ProofError(f"the key entry {index} does not follow the key before it")
        entry.verify(evidence.origin)
        current = entry.new
    return _count(len(changes), "change of key", "changes of key")


def _check_checkpoints(evidence: _Evidence) -> str:
    if evidence.receipt.origin != evidence.origin:
        raise ProofError(f"the receipt is of the log {evidence.receipt.origin}, the key of {evidence.origin}")
    roots: dict[int, bytes] = {}
    for logged in evidence.hand.logged:
        note = SignedNote.parse(logged.proof.checkpoint)
        checkpoint = Checkpoint.parse(note.text)
        if checkpoint.origin != evidence.origin:
            raise ProofError(f"the checkpoint under entry {logged.index} is of the log {checkpoint.origin}")
        key = evidence.log_key
        for index, entry in evidence.hand.key_changes:
            if index < checkpoint.size:
                key = NoteKey(evidence.origin, entry.new)
        note.verified([key])
        if roots.setdefault(checkpoint.size, checkpoint.root) != checkpoint.root:
            raise ProofError(f"two checkpoints of {checkpoint.size} entries have different roots: the log is forked")
    return f"{_count(len(roots), 'checkpoint')}, the newest of {_count(max(roots), 'entry', 'entries')}"


def _check_witnesses(evidence: _Evidence) -> str:
    assert evidence.policy, "asked for with a policy only"
    cosigners = set()
    for logged in evidence.hand.logged:
        try:
            cosigners |= evidence.policy.verify_quorum(SignedNote.parse(logged.proof.checkpoint))
        except ProofError as error:
            raise ProofError(f"the checkpoint under entry {logged.index}: {error}") from error
    return f"cosigned by {', '.join(sorted(cosigners)) or 'nobody, as the policy allows'}"


def _check_inclusion(evidence: _Evidence) -> str:
    for logged in evidence.hand.logged:
        checkpoint = Checkpoint.parse(SignedNote.parse(logged.proof.checkpoint).text)
        try:
            verify_inclusion(logged.leaf, logged.index, checkpoint.size, logged.proof.hashes, checkpoint.root)
        except ProofError as error:
            raise ProofError(f"the {logged.entry.type} entry {logged.index}: {error}") from error
    return _count(len(evidence.hand.logged), "entry", "entries")


def _check_chain(evidence: _Evidence) -> str:
    chain = [(each.index, each.leaf, each.entry) for each in evidence.hand.logged if isinstance(each.entry, HandEntry)]
    leaves = {leaf for _, leaf, _ in chain}
    gaps = []
    for (before, leaf, _), (index, _, entry) in pairwise(chain):
        if entry.prev == leaf:
            continue
        if entry.prev == NO_PREVIOUS or entry.prev in leaves or index == before + 1:
            raise ProofError(f"entry {index} does not follow the table's entry before it: the table is forked")
        gaps.append(f"{before} and {index}")
    if gaps:
        raise NotShownError(f"other entries of the table stand between {', '.join(gaps)}; the rest follow each other")
    return f"all {len(chain)} follow each other"


# --- Contributions and context ---


def _check_promises(evidence: _Evidence) -> str:
    hand = evidence.hand
    tied_to = "promise" if hand.promise else "reserve"
    if hand.first.pre != hand.pre:
        raise ProofError(f"pre is not the leaf hash of the {tied_to} entry")
    return f"tied to the {tied_to} entry, with {_count(len(hand.promised), 'promise')}"


def _check_contributions(evidence: _Evidence) -> str:
    hand = evidence.hand
    if any(i >= len(hand.promised) for i in hand.absent):
        raise ProofError("somebody who promised nothing is listed as absent")
    given = needed(evidence.receipt.contributions, "the receipt does not list the contributions")
    if len(given) != len(hand.promised):
        raise ProofError(f"{_count(len(given), 'contribution')} for {_count(len(hand.promised), 'promise')}")
    for i, (leaf, promised) in enumerate(zip(given, hand.promised, strict=True)):
        if (leaf == contribution_leaf(i, promised[0], None)) != (i in hand.absent):
            raise ProofError(f"contribution {i} and the list of absent ones do not fit")
    if root_of(given) != hand.first.cr:
        raise ProofError("the contributions do not have the logged root")
    return f"{_count(len(given), 'contribution')}, {len(hand.absent)} absent"


def _check_own(evidence: _Evidence) -> str:
    own = needed(evidence.receipt.own, "the receipt holds no seed of its holder")
    hand = evidence.hand
    ids = [promised[0] for promised in hand.promised]
    if own.id not in ids:
        raise ProofError("the own id is not among those who promised")
    i = ids.index(own.id)
    if evidence.promise_of(own.id, own.seed) != hand.promised[i][1]:
        raise ProofError("the own seed is not the promised one")
    if own.choice is not None and not hand.twin:
        raise ProofError("there is an own choice, but the table has no twin mode")
    if i in hand.absent:
        raise ProofError("the own contribution is listed as absent")
    given = needed(evidence.receipt.contributions, "as promised; but the receipt does not list the contributions")
    if i >= len(given) or given[i] != contribution_leaf(i, own.id, own.seed):
        raise ProofError("the own seed did not go into the hand")
    return f"the own seed is contribution {i}, as promised"


def _check_context(evidence: _Evidence) -> str:
    hand, receipt = evidence.hand, evidence.receipt
    first = hand.first
    assert first.cr is not None, "an entry is read with all its members"
    assert first.pre is not None, "an entry is read with all its members"
    decks: list[SealEntry | DrawEntry] = [first]
    if hand.twin:
        decks = [hand.sealed_deck(0), hand.sealed_deck(1)]
    for deck, commitment in zip(decks, hand.commitments, strict=True):
        if deck.hc != hand_context(evidence.origin, receipt.table, receipt.seq, commitment, first.cr, first.pre):
            raise ProofError("the hand's context does not follow from commitment, contributions and pre")
    for before, sealed in pairwise(hand.seals):
        if sealed.hc != reshuffle_context(before.hc, before.root, sealed.k, sealed.inputs or ()):
            raise ProofError(f"the context of reshuffle {sealed.k} does not follow from the shuffle before it")
    return _count(len(decks) + max(0, len(hand.seals) - 1), "context")


# --- Cards ---


def _check_seals(evidence: _Evidence) -> str:
    seals = evidence.hand.seals
    shown = needed(evidence.receipt.shuffles, "the receipt holds no leaves")
    if evidence.hand.twin and evidence.hand.choose is None and shown:
        raise ProofError("the receipt holds leaves, but no choice between the two decks")
    if any(before.k >= after.k for before, after in pairwise(shown)):
        raise ProofError("the receipt's shuffles do not ascend by k")
    for shuffle in shown:
        if shuffle.k >= len(seals):
            raise ProofError(f"there is no seal entry of shuffle {shuffle.k}")
        if not shuffle.n == seals[shuffle.k].n == len(shuffle.leaves):
            raise ProofError(f"shuffle {shuffle.k} was sealed with {_count(seals[shuffle.k].n, 'item')}")
        if cards_root(shuffle.k, shuffle.leaves) != seals[shuffle.k].root:
            raise ProofError(f"the leaves of shuffle {shuffle.k} do not have the logged root")
    missing = sorted({each.k for each in seals} - {each.k for each in shown})
    if missing:
        raise NotShownError(f"the receipt does not hold the leaves of shuffle {', '.join(map(str, missing))}")
    return _count(len(shown), "shuffle")


def _check_reshuffles(evidence: _Evidence) -> str:
    seals = evidence.hand.seals
    if not seals:
        raise NotShownError(NOT_SEALED)
    named: set[Location] = set()
    for sealed in seals[1:]:
        for j, p in sealed.inputs or ():
            if p >= seals[j].n:
                raise ProofError(f"reshuffle {sealed.k} names place {p} of shuffle {j}, which has {seals[j].n}")
            if (j, p) in named:
                raise ProofError(f"reshuffle {sealed.k} names {(j, p)}, which an earlier one took")
            named.add((j, p))
    return f"{_count(len(seals) - 1, 'reshuffle')} of {_count(len(named), 'location')}"


def _check_openings(evidence: _Evidence) -> str:
    openings = needed(evidence.receipt.openings, "the receipt opens no card")
    leaf_at = {
        (shuffle.k, p): leaf for shuffle in evidence.receipt.shuffles or () for p, leaf in enumerate(shuffle.leaves)
    }
    for opening in openings:
        # Each leaf serves once, so that no opening stands twice.
        leaf = leaf_at.pop((opening.k, opening.p), None)
        if leaf is None:
            raise ProofError(f"{_place(opening.k, opening.p)} has no leaf in the receipt, or is opened twice")
        if card_leaf(opening.k, opening.p, opening.item, opening.salt) != leaf:
            raise ProofError(f"the opening of {_place(opening.k, opening.p)} does not give the sealed leaf")
    return _count(len(openings), "card")


def _check_items(evidence: _Evidence) -> str:
    openings = needed(evidence.receipt.openings, "the receipt opens no card")
    hand = evidence.hand
    if not hand.seals:
        raise NotShownError(NOT_SEALED)
    item_at = {(each.k, each.p): each.item for each in openings}
    seen: dict[int, Location] = {}
    for (k, p), item in sorted(item_at.items()):
        if item >= hand.seals[0].n:
            raise ProofError(f"{_place(k, p)} holds item {item}, but the hand has {hand.seals[0].n}")
        before = seen.get(item)
        # Seen before, an item can only come again out of a reshuffle that took it from there.
        if before is not None and (before[0] == k or hand.named.get(before, k + 1) > k):
            raise ProofError(f"item {item} lies at {_place(*before)} and at {_place(k, p)}")
        seen[item] = (k, p)
    for sealed in hand.seals[1:]:
        went_in = [item_at.get(location) for location in sealed.inputs or ()]
        came_out = [item_at.get((sealed.k, p)) for p in range(sealed.n)]
        for some, every in ((came_out, went_in), (went_in, came_out)):
            if None not in every and not {item for item in some if item is not None} <= set(every):
                raise ProofError(f"reshuffle {sealed.k} does not hold the items that went into it")
    return f"{_count(len(seen), 'item')}, each at one place"


def _place(k: int, p: int) -> str:
    return f"place {p} of shuffle {k}"


# --- Reveal and close ---


def _check_reveal(evidence: _Evidence) -> str:
    hand = evidence.hand
    close = needed(hand.close, _NOT_CLOSED)
    if close.outcome == "lost":
        raise NotShownError("the hand is lost: its seed cannot be shown")
    shown = "escrow" if close.seed is None else "public"
    if shown != hand.table.reveal:
        raise ProofError(f"the close reveals by {shown}, the table was registered with {hand.table.reveal}")
    seeds = evidence.seeds()
    for deck, seed in seeds:
        if seed is None:
            return "escrowed to the table's auditor"
        if commit(evidence.receipt.table, evidence.receipt.seq, seed) != hand.commitments[deck]:
            raise ProofError("the revealed seed is not the committed one")
    return f"the committed {'seed' if len(seeds) == 1 else 'seeds of both decks'}"


def _check_derivation(evidence: _Evidence) -> str:
    hand = evidence.hand
    first = hand.first
    if hand.twin and hand.choose is None:
        for deck, shown in evidence.seeds():
            _derive_sealed(needed(shown, _AUDITORS), hand.sealed_deck(deck), range(hand.sealed_deck(deck).n))
        return "both decks derived again"
    (_, shown), *_ = evidence.seeds()
    seed = needed(shown, _AUDITORS)
    if isinstance(first, DrawEntry):
        if tuple(draw_numbers(seed, first.hc, first.purpose, first.m, len(first.values))) != first.values:
            raise ProofError("the numbers do not follow from the seed")
        return _count(len(first.values), "number")
    _check_reshuffles(evidence)
    orders: list[list[int]] = []
    for sealed in hand.seals:
        items = range(sealed.n) if sealed.inputs is None else [orders[j][p] for j, p in sealed.inputs]
        orders.append(_derive_sealed(seed, sealed, items))
    return f"{_count(len(orders), 'shuffle')} derived again"


def _derive_sealed(seed: bytes, sealed: SealEntry, items: Sequence[int]) -> list[int]:
    """Return the order that follows from ``seed``; ProofError unless it is the ``sealed`` one."""
    order, used = permute(seed, sealed.hc, sealed.k, items)
    leaves = seal(sealed.k, order, salts(seed, sealed.hc, sealed.k, sealed.n))
    if cards_root(sealed.k, leaves) != sealed.root:
        raise ProofError(f"shuffle {sealed.k} does not follow from the seed")
    if used != sealed.used:
        raise ProofError(f"shuffle {sealed.k} used {_count(used, 'byte')}, not {sealed.used}")
    return order


def _check_seeds(evidence: _Evidence) -> str:
    hand = evidence.hand
    close = needed(hand.close, _NOT_CLOSED)
    if not hand.seals and hand.draw is None:
        if close.seeds is not None:
            raise ProofError("the close shows seeds of a hand that was neither sealed nor drawn")
        return "no seeds: the hand was neither sealed nor drawn"
    if close.seeds is None and close.outcome == "lost":
        raise NotShownError("the contributed seeds were lost with the hand")
    if close.seeds is None or len(close.seeds) != len(hand.promised):
        raise ProofError(f"the close must show {_count(len(hand.promised), 'contributed seed')}")
    leaves = []
    for i, (seed, (contributor, promised, *_)) in enumerate(zip(close.seeds, hand.promised, strict=True)):
        if bool(seed) == (i in hand.absent):
            raise ProofError(f"seed {i} and the list of absent ones do not fit")
        if seed and evidence.promise_of(contributor, seed) != promised:
            raise ProofError(f"seed {i} is not the promised one")
        leaves.append(contribution_leaf(i, contributor, seed or None))
    if root_of(leaves) != hand.first.cr:
        raise ProofError("the seeds do not give the logged root of contributions")
    return f"{_count(len(leaves) - len(hand.absent), 'seed')}, each as promised"


def _check_close(evidence: _Evidence) -> str:
    hand = evidence.hand
    close = needed(hand.close, _NOT_CLOSED)
    if (close.opened is not None) != (hand.table.mode == "shoe"):
        raise ProofError("the close lists openings in mode shoe, and only there")
    listed: set[Location] = set()
    for time, k, places in close.opened or ():
        if k >= len(hand.seals) or places[-1] >= hand.seals[k].n:
            raise ProofError(f"the close lists places of shuffle {k} that there are not")
        if time < hand.seals[k].time:
            raise ProofError(f"the close lists an opening of shuffle {k} from before its seal")
        if hand.twin and (hand.choose is None or time < hand.choose.time):
            raise ProofError(f"the close lists an opening of shuffle {k} from before the choice between the decks")
        for p in places:
            taken = hand.named.get((k, p))
            if taken is not None and time > hand.seals[taken].time:
                raise ProofError(f"{_place(k, p)} was opened after reshuffle {taken} had taken it")
        listed.update((k, p) for p in places)
    for opening in evidence.receipt.openings or () if hand.table.mode == "shoe" else ():
        if (opening.k, opening.p) not in listed:
            raise ProofError(f"the close does not list the opening of {_place(opening.k, opening.p)}")
    reason = f" ({close.reason})" if close.reason else ""
    return f"{close.outcome}{reason}, {_count(len(listed), 'opening')} listed"


def _check_deadline(evidence: _Evidence) -> str:
    hand = evidence.hand
    newest = hand.logged[-1].entry.time
    if evidence.now is not None and newest > evidence.now + MAX_CLOCK_AHEAD_MS:
        raise ProofError(f"the newest entry is {newest - evidence.now} ms ahead of this clock")
    # Sealing needs every lower hand closed, so that from the seal on only its own time counts. Before it the
    # close of the hand before may count, which a receipt does not hold: then the expiry is not before this one.
    started = hand.seals[0] if hand.seals else hand.draw
    expiry = (started or hand.reserve).time + 1000 * hand.table.ttl
    if hand.choose and hand.choose.time > expiry:
        raise ProofError("the choice between the decks was made after the hand had expired")
    for sealed in hand.seals[1:]:
        if sealed.time > expiry:
            raise ProofError(f"reshuffle {sealed.k} was sealed after the hand had expired")
    close = needed(hand.close, _NOT_CLOSED)
    if close.reason == "expired":
        if close.time < expiry:
            raise ProofError("the hand was closed as expired before its time was up")
        return "closed as expired"
    if started is not None and close.outcome != "lost" and close.time > expiry:
        raise ProofError("the hand had expired before it was closed")
    return "closed in time"


# --- A dealer's history ---


def _check_history(evidence: _Evidence) -> str:
    events = needed(evidence.events, "the document is a receipt alone")
    hand = evidence.hand
    item_at = {(each.k, each.p): each.item for each in evidence.receipt.openings or ()}
    next_place: list[int] = []  # of each shuffle sealed so far
    out: set[Location] = set()
    for i, event in enumerate(events):
        if event.shuffle is not None:
            if event.shuffle != len(next_place) or event.shuffle >= len(hand.seals):
                raise ProofError(f"events[{i}]: shuffle {event.shuffle} was not sealed then")
            next_place.append(0)
        for at, card in enumerate(event.cards):
            name = f"events[{i}].cards[{at}]"
            location = (card.k, card.p)
            if card.k >= len(next_place) or card.p >= hand.seals[card.k].n:
                raise ProofError(f"{name}: there is no {_place(*location)} yet")
            if card.how != "shown":
                expected = _next_place(hand, next_place, card.k)
                if card.p != expected:
                    raise ProofError(f"{name}: the next card of shuffle {card.k} is at place {expected}, not {card.p}")
                next_place[card.k] = card.p + 1
                out.add(location)
            elif location not in out:
                raise ProofError(f"{name}: {_place(*location)} was neither dealt nor burnt")
            if card.item is not None and item_at.get(location) != card.item:
                raise ProofError(f"{name}: no opening shows item {card.item} at {_place(*location)}")
    for _, k, places in (hand.close.opened or ()) if hand.close else ():
        for p in places:
            if (k, p) not in out:
                raise ProofError(f"{_place(k, p)} was opened, but no event deals or burns it")
    return f"{_count(len(out), 'card')} dealt or burnt, in the order of the shuffles"


def _next_place(hand: Hand, next_place: Sequence[int], k: int) -> int:
    """Return the next place of shuffle ``k`` that no reshuffle so far has taken."""
    sealed_so_far = len(next_place)
    p = next_place[k]
    while hand.named.get((k, p), sealed_so_far) < sealed_so_far:
        p += 1
    return p


# --- Twin mode ---


def _check_choice(evidence: _Evidence) -> str:
    hand, receipt = evidence.hand, evidence.receipt
    own = receipt.own.choice if receipt.own else None
    if receipt.own is not None and own is not None:
        promised = {row[0]: row[2] for row in hand.promised}
        if evidence.choice_promise_of(receipt.own.id, own) != promised.get(receipt.own.id):
            raise ProofError("the own choice is not the promised one")
    choose = needed(hand.choose, _NO_CHOICE if hand.close else _NOT_CHOSEN)
    if len(choose.choices) != len(hand.promised):
        raise ProofError(f"{_count(len(choose.choices), 'choice')} for {_count(len(hand.promised), 'promise')}")
    for i, (choice, (contributor, _, promised_choice)) in enumerate(zip(choose.choices, hand.promised, strict=True)):
        if choice and evidence.choice_promise_of(contributor, choice) != promised_choice:
            raise ProofError(f"choice {i} is not the promised one")
        if receipt.own is not None and own is not None and contributor == receipt.own.id and choice != own:
            raise ProofError("the own choice is not among those that decided")
    zero, one = hand.sealed_deck(0), hand.sealed_deck(1)
    digest = choice_digest((zero.hc, one.hc), (zero.root, one.root), [choice or None for choice in choose.choices])
    if played_deck(digest) != choose.deck:
        raise ProofError(f"the choices make deck {1 - choose.deck} the one that is played, not {choose.deck}")
    given = sum(map(bool, choose.choices))
    if not given:
        raise NotShownError("nobody gave a choice: the service knew which deck it would open before it sealed both")
    return f"deck {choose.deck}, by {_count(given, 'choice')} of {len(choose.choices)}"


def _check_twin(evidence: _Evidence) -> str:
    hand, receipt = evidence.hand, evidence.receipt
    choose = needed(hand.choose, _NO_CHOICE if hand.close else _NOT_CHOSEN)
    other = 1 - choose.deck
    if commit(receipt.table, receipt.seq, choose.seed) != hand.commitments[other]:
        raise ProofError(f"the seed that was shown is not the committed one of deck {other}")
    sealed = hand.sealed_deck(other)
    _derive_sealed(choose.seed, sealed, range(sealed.n))
    return f"deck {other} derived again, {_count(sealed.n, 'card')}"


# --- The steps ---

_READING: Final = (
    ("document", "The file is a receipt or a history in the one accepted form."),
    ("entries", "The entries are those of this hand, in the order of the log."),
)
_CHECKS: Final[tuple[tuple[str, str, Callable[[_Evidence], str]], ...]] = (
    ("keys", "Each change of the log's key is signed by the old and the new key.", _check_keys),
    ("checkpoints", "Each checkpoint is signed with the key that the log had then.", _check_checkpoints),
    ("inclusion", "Each entry stands in the log.", _check_inclusion),
    ("chain", "The table's entries follow each other without gap or fork.", _check_chain),
    ("promises", "The hand is tied to the promises that were logged before it.", _check_promises),
    (
        "contributions",
        "The contributions have the logged root; who gave none is listed as absent.",
        _check_contributions,
    ),
    ("own", "The holder's own seed is the promised one and went into the hand.", _check_own),
    ("context", "Commitment, contributions and earlier shuffles are bound into each shuffle.", _check_context),
    ("seals", "The leaves of each shuffle have the root that was logged before a card was opened.", _check_seals),
    ("reshuffles", "What was shuffled again was there, and was not taken before.", _check_reshuffles),
    ("openings", "Each opened card is the sealed one.", _check_openings),
    ("items", "No item lies at two places.", _check_items),
    ("reveal", "The close reveals the committed seed in the way the table was registered with.", _check_reveal),
    ("derivation", "Orders and numbers follow from the revealed seed.", _check_derivation),
    ("seeds", "The contributed seeds are the promised ones.", _check_seeds),
    ("close", "The close lists what was opened, and nothing was opened out of turn.", _check_close),
    ("deadline", "The hand was played and closed within its time.", _check_deadline),
    ("history", "The history's cards are the opened ones, in the order of the shuffles.", _check_history),
)
_TWIN_CHECKS: Final[tuple[tuple[str, str, Callable[[_Evidence], str]], ...]] = (
    ("choice", "The contributors' choices are the promised ones and decide which deck is played.", _check_choice),
    ("twin", "The deck that was not played follows from its seed, in every card.", _check_twin),
)
_WITNESSES: Final = ("witnesses", "A quorum of independent witnesses has seen the same log.", _check_witnesses)
STEP_IDS: Final = (*(step_id for step_id, _ in _READING), *(step_id for step_id, _, _ in _CHECKS))
TWIN_STEP_IDS: Final = tuple(step_id for step_id, _, _ in _TWIN_CHECKS)
