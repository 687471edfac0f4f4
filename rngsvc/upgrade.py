"""Upgrades receipts: proofs to a checkpoint that only the log signed become proofs to one that witnesses cosigned."""

from dataclasses import replace
from functools import cache

from rngsvc.audit import TilesUrl
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.merkle import InclusionProver
from rngsvc.protocol.receipt import Receipt
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
    entries = []
    for logged in receipt.entries:
        index = TlogProof.parse(logged.proof).index
        if index >= checkpoint.size:
            raise NotCosignedYet(f"entry {index} is not among the {checkpoint.size} cosigned entries yet")
        entries.append(replace(logged, proof=TlogProof(index, tuple(prover.proof(index)), note).encode()))
    return replace(receipt, entries=tuple(entries))
