"""From a proven hand to the receipt file that its players take home, and back after a restart."""

from collections.abc import Iterable

from rngsvc.client.log_view import Logged
from rngsvc.protocol.entries import DrawEntry, Location, SealEntry
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.receipt import LoggedEntry, Opening, OwnContribution, Receipt, SealedShuffle
from rngsvc.proven_hand import EntryMismatch, ProvenHand


def receipt_of(
    hand: ProvenHand,
    entries: Iterable[Logged],
    own: tuple[bytes, ...] | None,
    seen: Iterable[Location] | None,
) -> Receipt:
    """Return the receipt of ``hand`` with its log ``entries``; see `Hand.receipt`."""
    locations = sorted(hand.openings if seen is None else set(seen))
    if unopened := [location for location in locations if location not in hand.openings]:
        raise ValueError(f"seen: {unopened[0]} was not opened")
    openings = [hand.openings[location] for location in locations]
    known = [(each, each.leaves) for each in hand.shuffles if each.leaves is not None]
    return Receipt(
        origin=hand.origin,
        table=hand.table,
        seq=hand.seq,
        entries=tuple(
            LoggedEntry(entry=each.raw.decode("ascii"), proof=each.proof_text)
            for each in sorted(entries, key=lambda logged: logged.index)
        ),
        own=OwnContribution(**dict(zip(("id", "seed", "choice"), own, strict=False))) if own else None,
        contributions=hand.contribution_leaves,
        shuffles=tuple(SealedShuffle(k=each.k, n=each.n, leaves=leaves) for each, leaves in known) or None,
        openings=tuple(Opening(k=each.k, p=each.place, item=each.item, salt=each.salt) for each in openings) or None,
    )


def restore_from(hand: ProvenHand, receipt: bytes) -> None:
    """Take leaves, contributions and openings of ``receipt`` into ``hand``; see `Hand.restore`."""
    try:
        kept = Receipt.parse(receipt.decode("ascii"))
    except UnicodeDecodeError as error:
        raise MalformedError("document", "must be ASCII") from error
    for name, due, found in (
        ("origin", hand.origin, kept.origin),
        ("table", hand.table, kept.table),
        ("seq", hand.seq, kept.seq),
    ):
        if due != found:
            raise EntryMismatch(name, due, found)
    started = hand.start_entry
    if kept.contributions is not None and started is not None:
        assert isinstance(started.entry, SealEntry | DrawEntry), "that is how a hand starts"
        hand.contributed(started.entry, kept.contributions)
    for shuffle in kept.shuffles or ():
        hand.learned(shuffle.k, shuffle.leaves)
    for each in kept.openings or ():
        hand.opened(each.k, (each.p,), (each.item,), each.salt)
