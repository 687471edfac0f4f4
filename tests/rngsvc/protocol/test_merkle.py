"""The Merkle tree: outside proofs, RFC 6962's recursion, and every small tree in full."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from rngsvc.protocol import merkle
from rngsvc.protocol.errors import ProofError
from tests.reference import rfc6962
from tests.scale import scaled

CASES = json.loads((Path(__file__).parents[2] / "vectors/merkle/proofs.json").read_text())
LARGEST = scaled(40, 130)
LEAVES = [merkle.leaf_hash(i.to_bytes(4, "big")) for i in range(LARGEST)]


def node(level: int, i: int) -> bytes:
    """Read a complete subtree of the tree over LEAVES, and nothing that is not complete."""
    assert (i + 1) << level <= LARGEST
    return rfc6962.mth(LEAVES[i << level : (i + 1) << level])


def hashes(values) -> list[bytes]:
    return [b64decode(value) for value in values or ()]


@pytest.mark.parametrize("case", CASES["inclusion"], ids=lambda case: case["desc"])
def test_an_inclusion_proof_of_others_is_accepted_or_refused_as_they_say(case):
    def check():
        leaf, root = hashes([case["leafHash"] or "", case["root"] or ""])
        merkle.verify_inclusion(leaf, case["leafIdx"], case["treeSize"], hashes(case["proof"]), root)

    if case["wantErr"]:
        with pytest.raises(ProofError):
            check()
    else:
        check()


@pytest.mark.parametrize("case", CASES["consistency"], ids=lambda case: case["desc"])
def test_a_consistency_proof_of_others_is_accepted_or_refused_as_they_say(case):
    def check():
        old, new = hashes([case["root1"] or "", case["root2"] or ""])
        merkle.verify_consistency(case["size1"], old, case["size2"], new, hashes(case["proof"]))

    if case["wantErr"]:
        with pytest.raises(ProofError):
            check()
    else:
        check()


def test_every_small_tree_has_the_root_and_the_proofs_of_the_rfc():
    for size in range(1, LARGEST + 1):
        leaves = LEAVES[:size]
        root = rfc6962.mth(leaves)
        prover = merkle.InclusionProver(size, node)
        assert merkle.root_of(leaves) == merkle.root_from_nodes(size, node) == prover.root == root
        for index in range(size):
            proof = prover.proof(index)
            assert proof == rfc6962.path(index, leaves) == merkle.inclusion_proof(index, size, node)
            merkle.verify_inclusion(leaves[index], index, size, proof, root)
        for old in range(1, size + 1):
            proof = merkle.consistency_proof(old, size, node)
            assert proof == rfc6962.proof(old, leaves)
            merkle.verify_consistency(old, rfc6962.mth(leaves[:old]), size, root, proof)


def test_the_empty_tree_has_the_hash_of_nothing():
    assert merkle.root_of([]) == merkle.root_from_nodes(0, node) == merkle.EMPTY_ROOT == rfc6962.mth([])
    assert merkle.consistency_proof(0, 5, node) == []


def test_an_inclusion_proof_shows_one_leaf_on_one_way_up_only():
    largest = scaled(13, 33)
    for size in range(1, largest):
        root = rfc6962.mth(LEAVES[:size])
        for index in range(size):
            proof = merkle.inclusion_proof(index, size, node)
            for other_size in range(largest):
                for other in range(largest):
                    if other < other_size and _walk(other, other_size) == _walk(index, size):
                        # The same way up in another size: it is the signed checkpoint that fixes the size.
                        assert other_size != size or other == index
                        continue
                    with pytest.raises(ProofError):
                        merkle.verify_inclusion(LEAVES[index], other, other_size, proof, root)


def _walk(index, size):
    """Return on which side each sibling stands on the way from the leaf to the root."""
    sides = []
    while size > 1:
        if index ^ 1 < size:
            sides.append(index & 1)
        index, size = index // 2, (size + 1) // 2
    return sides


@pytest.mark.parametrize(("old", "new"), [(1, 2), (3, 7), (4, 8), (6, 13), (8, 9)])
def test_a_changed_bit_of_a_consistency_proof_is_refused(old, new):
    before, after = rfc6962.mth(LEAVES[:old]), rfc6962.mth(LEAVES[:new])
    proof = merkle.consistency_proof(old, new, node)
    for at in range(len(proof)):
        for bit in range(256):
            changed = bytearray(proof[at])
            changed[bit // 8] ^= 1 << bit % 8
            with pytest.raises(ProofError):
                merkle.verify_consistency(old, before, new, after, [*proof[:at], bytes(changed), *proof[at + 1 :]])
    for shorter_or_longer in (proof[:-1], proof[1:], [*proof, bytes(32)], [bytes(32), *proof]):
        with pytest.raises(ProofError):
            merkle.verify_consistency(old, before, new, after, shorter_or_longer)
    with pytest.raises(ProofError):
        merkle.verify_consistency(old, after, new, after, proof)


@pytest.mark.parametrize(
    "call",
    [
        lambda: merkle.inclusion_proof(5, 5, node),
        lambda: merkle.inclusion_proof(-1, 5, node),
        lambda: merkle.consistency_proof(6, 5, node),
        lambda: merkle.consistency_proof(-1, 5, node),
    ],
)
def test_a_proof_of_what_is_not_in_the_tree_is_not_built(call):
    with pytest.raises(IndexError):
        call()


def test_many_proofs_of_one_size_read_one_complete_subtree_a_level_each():
    reads = []

    def counting(level, i):
        reads.append((level, i))
        return node(level, i)

    prover = merkle.InclusionProver(LARGEST - 1, counting)
    reads.clear()
    for index in range(LARGEST - 1):
        prover.proof(index)
    assert len(reads) <= (LARGEST - 1) * (LARGEST - 1).bit_length()
