"""Who judges: strangers with the public log, players with their own files, an auditor with his key.

They run the shipped checks and nothing else, and see nothing that the service did not give them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rngsvc.audit import Audit
from rngsvc.examiner import HandExaminer
from rngsvc.findings import BY_AUDITOR
from rngsvc.protocol.entries import (
    ChooseEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
)
from rngsvc.protocol.receipt import Opening, OwnContribution, Receipt, SealedShuffle
from rngsvc.protocol.verify import verify
from rngsvc.web import public_receipt
from tests.rngsvc.audit.books import Book, book_of
from tests.rngsvc.service.world import AUDITOR, ORIGIN, World


@dataclass
class Shown:
    """What a service showed: its log, and to each player a receipt of his hand."""

    book: Book
    receipts: list[Receipt] = field(default_factory=list)


def judged(shown: Shown) -> frozenset[str]:
    """Return which checks fail, as "who: check"."""
    failed = set()
    audited = Audit(shown.book.key, examiner=HandExaminer(shown.book.key, AUDITOR)).run(shown.book)
    assert not audited.log_faults, "these cheats sign what they log"
    for finding in audited.findings:
        who = "auditor" if finding.check in BY_AUDITOR else "anybody"
        failed.add(f"{who}: {finding.check}")
    for receipt in shown.receipts:
        report = verify(receipt.encode(), shown.book.key.vkey)
        failed |= {f"player: {step.id}" for step in report.failures}
    return frozenset(failed)


async def receipt(
    world: World,
    table: bytes,
    seq: int,
    own: tuple[bytes, ...] | None = None,
    openings: Iterable[Opening] = (),
) -> Receipt:
    """Return what a player holds of a hand: the public part, his own seed and choice, the cards that he saw."""
    shown = await world.service.public_hand(table, seq)
    members = public_receipt(shown, ORIGIN, table.hex(), seq)
    public = Receipt.parse(json.dumps(members))
    mine = OwnContribution(**dict(zip(("id", "seed", "choice"), own, strict=False))) if own else None
    return replace(public, own=mine, openings=tuple(openings) or None)


async def shown_by(world: World, *receipts: Receipt) -> Shown:
    """Stop the service and return what it has shown."""
    await world.kill()
    return Shown(book_of(world), list(receipts))


def receipt_from(
    book: Book,
    table: bytes,
    seq: int,
    contributions: Sequence[bytes] | None = None,
    shuffles: Sequence[SealedShuffle] | None = None,
) -> Receipt:
    """Return a hand's receipt from a log that was rewritten: the first entry of each kind, as its player saw it."""
    chosen: list[int] = []
    kinds: set[tuple[str, int]] = set()
    for index, entry in book.parsed():
        if getattr(entry, "table", None) == table and _is_of(entry, seq):
            kind = (entry.type, getattr(entry, "k", 0))
            if kind not in kinds:
                kinds.add(kind)
                chosen.append(index)
    return Receipt(
        origin=book.key.name,
        table=table,
        seq=seq,
        entries=tuple(map(book.logged, chosen)),
        contributions=None if contributions is None else tuple(contributions),
        shuffles=None if shuffles is None else tuple(shuffles),
    )


def _is_of(entry: Entry, seq: int) -> bool:
    match entry:
        case TableEntry():
            return True
        case ReserveEntry():
            return entry.first <= seq < entry.first + len(entry.commitments)
        case PromiseEntry():
            return entry.first <= seq < entry.first + len(entry.promises)
        case SealEntry() | ChooseEntry() | DrawEntry() | CloseEntry():
            return entry.seq == seq
        case _:
            return False
