"""Upgrades receipts: proofs to a checkpoint that only the log signed become proofs to one that witnesses cosigned."""

from dataclasses import replace
from functools import cache

from rngsvc.audit import TilesUrl, key_entries_in
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.merkle import InclusionProver
from rngsvc.protocol.receipt import LoggedEntry, Receipt
from rngsvc.protocol.signed_note import SignedNote
from rngsvc.protocol.tiles import nodes_from_tiles
from rngsvc.protocol.tlog_proof import TlogProof


class NotCosignedYet(Exception):
    """The cosigned checkpoint does not cover the receipt's newest entry yet; a few seconds later it will."""


def upgrade(receipt: Receipt, source: TilesUrl) -> Receipt:
    """Return ``receipt`` with every proof leading to the newest cosigned checkpoint of ``source``.

    Nothing is trusted here: whoever verifies the receipt checks the signatures and that each proof fits. Raises
    SourceUnreadable, NotCosignedYet, or MalformedError if what the source gives is not of the form.
    """
    note = source.cosigned_checkpoint()
    checkpoint = Checkpoint.parse(SignedNote.parse(note).text)
    prover = InclusionProver(checkpoint.size, nodes_from_tiles(checkpoint.size, cache(source.hashes)))
    proofs = [TlogProof.parse(each.proof) for each in receipt.entries]
    entries = {proof.index: each.entry for proof, each in zip(proofs, receipt.entries, strict=True)}
    if max(entries) >= checkpoint.size:
        raise NotCosignedYet(f"entry {max(entries)} is not among the {checkpoint.size} cosigned entries yet")
    entries.update(_later_key_entries(receipt, proofs, note, source))
    return replace(
        receipt,
        entries=tuple(
            LoggedEntry(entry=entry, proof=TlogProof(index, tuple(prover.proof(index)), note).encode())
            for index, entry in sorted(entries.items())
        ),
    )


def _later_key_entries(receipt: Receipt, proofs: list[TlogProof], note: str, source: TilesUrl) -> dict[int, str]:
    """Return the changes of the log's key between the receipt's checkpoints and the new one, which it needs now."""
    before = [SignedNote.parse(each.checkpoint) for each in proofs]
    known = {line.key_id for each in before for line in each.signatures}
    after = SignedNote.parse(note)
    if all(line.key_id in known for line in after.signatures if line.name == receipt.origin):
        return {}
    first = max(Checkpoint.parse(each.text).size for each in before)
    found = key_entries_in(source, first, Checkpoint.parse(after.text).size)
    return {index: raw.decode("ascii", "replace") for index, raw in found}
