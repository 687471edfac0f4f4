"""An auditor's look into closed hands: what only his key opens, and what dealers' histories tell of it.

Pure; documents come in as text. Every hand is derived again from its seed, folded cards and stub included, so that a
history's cards can be compared whether or not anybody saw them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.findings import Check, Finding
from rngsvc.monitor import Examined
from rngsvc.protocol.commitment import commit
from rngsvc.protocol.entries import KeyEntry, parse_entry
from rngsvc.protocol.errors import MalformedError, ProofError, StreamExhaustedError
from rngsvc.protocol.receipt import History, Receipt, parse_document
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.verify import verify
from rngsvc.proven_hand import ProvenHand, Unproven, opened_seeds


@dataclass(frozen=True, slots=True)
class Document:
    """A history or receipt of one hand, ``name`` saying where it was found."""

    name: str
    text: str
    table: bytes
    seq: int


@dataclass
class HandExaminer:
    """The auditor with the X25519 key ``opening``; ``log_key`` is the log's first key, for ``documents``' proofs.

    Each document is taken out once its hand's close was examined: what is left in the end is of no closed hand.
    """

    log_key: NoteKey
    opening: X25519PrivateKey
    documents: dict[tuple[bytes, int], list[Document]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.public_key = self.opening.public_key().public_bytes_raw()

    def add(self, documents: Iterable[Document]) -> None:
        """Take in documents to be compared with the log."""
        for each in documents:
            self.documents.setdefault((each.table, each.seq), []).append(each)

    def examine(self, hand: ProvenHand) -> Examined:
        """Open, derive again, and compare with the histories of the hand."""
        assert hand.close is not None, "only closed hands are examined"
        documents = self.documents.pop((hand.table, hand.seq), [])
        seed, twin_seed, outcome = hand.close.seed, hand.close.twin_seed, "revealed to all"
        if hand.close.outcome == "lost":
            outcome = "lost, not examined"
        elif hand.close.escrow is not None:
            if hand.terms.auditor is None or hand.terms.auditor[0] != self.public_key:
                outcome = "escrowed to another auditor"
            else:
                outcome = "opened"
                try:
                    seed, twin_seed = self._opened(hand)
                except ProofError as error:
                    return Examined("that does not open", [(Check.ESCROW, str(error))])
        orders: list[list[int]] | None = None
        # What was revealed to all, the monitor has derived already.
        if seed is not None and (documents or hand.close.seed is None):
            try:
                orders = hand.rederived(seed, twin_seed)
            except (Unproven, StreamExhaustedError) as error:
                return Examined("that does not follow from its seed", [(Check.DERIVATION, str(error))])
        faults = [fault for each in documents for fault in self._compared(hand, orders, each)]
        return Examined(outcome, faults)

    def unmatched(self, index: int) -> list[Finding]:
        """Return a finding for each document of a hand that was not closed up to log position ``index``."""
        text = "tells of a hand that is not closed in this log"
        left = [each for documents in self.documents.values() for each in documents]
        return [Finding(Check.HISTORY, index, f"{each.name}: {text}", each.table, each.seq) for each in left]

    def _opened(self, hand: ProvenHand) -> tuple[bytes, bytes | None]:
        seeds = opened_seeds(hand, self.opening)
        for seed, commitment in zip(seeds, (hand.commitment, hand.commitments[-1]), strict=True):
            if seed is not None and commit(hand.table, hand.seq, seed) != commitment:
                raise ProofError("the escrowed seed is not the committed one")
        return seeds

    def _compared(
        self, hand: ProvenHand, orders: list[list[int]] | None, document: Document
    ) -> Iterator[tuple[Check, str]]:
        report = verify(document.text, self.log_key.vkey, auditor=self._key_for(hand))
        for step in report.failures:
            yield Check.HISTORY, f"{document.name}: {step.id}: {step.detail}"
        if report.failures:
            return
        parsed = parse_document(document.text)
        receipt = parsed if isinstance(parsed, Receipt) else parsed.receipt
        logged = {each.raw for each in (hand.table_entry, *hand.entries)}
        for i, offered in enumerate(receipt.entries):
            raw = offered.entry.encode("ascii")
            if raw not in logged and not isinstance(parse_entry(raw), KeyEntry):
                # Proven under a checkpoint of this log, and not in it: there are two logs.
                yield Check.HISTORY, f"{document.name}: entries[{i}] of its receipt stands in another log of this name"
        if orders is not None and isinstance(parsed, History):
            for i, event in enumerate(parsed.events):
                for card in event.cards:
                    if card.item is not None and orders[card.k][card.p] != card.item:
                        text = f"events[{i}] tells item {card.item} at place {card.p} of shuffle {card.k}"
                        yield Check.HISTORY, f"{document.name}: {text}, where item {orders[card.k][card.p]} lay"

    def _key_for(self, hand: ProvenHand) -> X25519PrivateKey | None:
        mine = hand.terms.auditor is not None and hand.terms.auditor[0] == self.public_key
        return self.opening if mine else None


def documents_in(name: str, text: str) -> Iterator[Document]:
    """Give the documents in a file: one history or receipt, or one a line, bare or as member `history` of an object.

    The last form is what `dealer demo --json` prints. MalformedError names what is wrong.
    """
    try:
        whole = json.loads(text)
    except ValueError:
        lines = [(f"{name}:{number}", line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    else:
        lines = [(name, text)]
        if not isinstance(whole, dict):
            raise MalformedError(name, "must be a history or receipt, or one a line")
    for where, line in lines:
        yield _document(where, line)


def _document(name: str, text: str) -> Document:
    try:
        members = json.loads(text)
    except ValueError as error:
        raise MalformedError(name, "must be JSON") from error
    if isinstance(members, dict) and isinstance(members.get("history"), dict):
        text = json.dumps(members["history"])
    try:
        parsed = parse_document(text)
    except MalformedError as error:
        raise MalformedError(f"{name}: {error.field}", error.allowed) from error
    receipt = parsed if isinstance(parsed, Receipt) else parsed.receipt
    return Document(name, text, receipt.table, receipt.seq)
