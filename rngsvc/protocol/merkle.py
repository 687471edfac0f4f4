"""The log's Merkle tree as RFC 6962 section 2.1 defines it: roots, inclusion and consistency proofs.

Verifying needs only hashes; building needs a reader of complete subtrees, so that the caller keeps the tree wherever
he likes (tiles, a table, a list). Leaves are numbered from 0 and every function works on leaf *hashes*.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

from rngsvc.protocol.errors import ProofError

EMPTY_ROOT: Final = sha256(b"").digest()

NodeReader = Callable[[int, int], bytes]
"""``node(level, i)``: the hash of the complete subtree over leaves ``i * 2**level`` to ``(i + 1) * 2**level - 1``."""


def leaf_hash(leaf: bytes) -> bytes:
    """Return H(0x00 || leaf)."""
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return H(0x01 || left || right)."""
    return sha256(b"\x01" + left + right).digest()


def root_of(leaf_hashes: Iterable[bytes]) -> bytes:
    """Return the root of the tree over ``leaf_hashes``; `EMPTY_ROOT` without any."""
    level = list(leaf_hashes)
    if not level:
        return EMPTY_ROOT
    while len(level) > 1:
        # Pairs from the left; a last one without a neighbour rises unchanged, which is RFC 6962's split.
        pairs = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def root_from_nodes(size: int, node: NodeReader) -> bytes:
    """Return the root of the first ``size`` leaves from complete subtrees."""
    return InclusionProver(size, node).root


# --- Checking ---


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that the leaf hash ``leaf`` is number ``index`` in the tree of ``size`` leaves with ``root``.

    ``proof`` runs from the leaf's sibling upwards. Raises ProofError if it does not show that.
    """
    if not 0 <= index < size:
        raise ProofError(f"index {index} is not in a tree of {size} leaves")
    _, found = _climb(leaf, index, size - 1, proof)
    if found != root:
        raise ProofError("the inclusion proof does not lead to the root")


def verify_consistency(old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the tree of ``new_size`` leaves begins with the ``old_size`` leaves of the older tree.

    Raises ProofError if ``proof`` (RFC 6962 section 2.1.2) does not show that. Every tree continues the empty one,
    so that nothing can be shown from size 0: refused, lest an empty proof pass for evidence.
    """
    if old_size <= 0:
        raise ProofError("from the empty tree there is nothing to prove")
    if old_size > new_size:
        raise ProofError(f"a tree of {new_size} leaves cannot continue one of {old_size}")
    if old_size == new_size:
        if proof:
            raise ProofError("between equal sizes a consistency proof has no hashes")
        if old_root != new_root:
            raise ProofError("two different roots for one size")
        return
    # The proof walks up from the largest complete subtree that ends the old tree. When that subtree is the
    # whole old tree, its hash is the old root and is not repeated in the proof.
    level = (old_size & -old_size).bit_length() - 1
    if old_size == 1 << level:
        proof = [old_root, *proof]
    if not proof:
        raise ProofError("the consistency proof is empty")
    found_old, found_new = _climb(proof[0], (old_size - 1) >> level, (new_size - 1) >> level, proof[1:])
    if found_old != old_root:
        raise ProofError("the consistency proof does not lead to the old root")
    if found_new != new_root:
        raise ProofError("the consistency proof does not lead to the new root")


def _climb(node: bytes, index: int, last: int, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Follow ``path`` up from node ``index`` of a level whose last node is ``last``.

    Return the root of the tree that ends with the node (only left siblings count) and the root of the whole tree.
    """
    if any(len(each) != 32 for each in (node, *path)):
        raise ProofError("a hash in a proof is 32 bytes")
    # On the lowest `inner` levels the sibling stands on the side that the index says; above them the node lies on
    # the tree's right edge, where a level without a left sibling takes no hash.
    inner = (index ^ last).bit_length()
    if len(path) != inner + (index >> inner).bit_count():
        raise ProofError(f"a proof of {len(path)} hashes does not fit these sizes")
    ended = whole = node
    for level, sibling in enumerate(path):
        if level < inner and not index >> level & 1:
            whole = node_hash(whole, sibling)
        else:
            ended = node_hash(sibling, ended)
            whole = node_hash(sibling, whole)
    return ended, whole


# --- Building ---


class InclusionProver:
    """Inclusion proofs for many leaves of one tree size; the right edge is folded once.

    ``root`` is the tree's root. ``proof(index)`` reads at most one complete subtree a level.
    """

    def __init__(self, size: int, node: NodeReader) -> None:
        self._size = size
        self._node = node
        # _edge[level] is the hash of the incomplete subtree that ends the tree at that level, if there is one.
        self._edge: dict[int, bytes] = {}
        folded = b""
        for level in range(size.bit_length()):
            if size >> level & 1:
                complete = node(level, (size >> level) - 1)
                folded = node_hash(complete, folded) if folded else complete
            if folded:
                self._edge[level + 1] = folded
        self.root = folded or EMPTY_ROOT

    def proof(self, index: int) -> list[bytes]:
        """Return the proof that leaf ``index`` is in the tree; IndexError outside it."""
        if not 0 <= index < self._size:
            raise IndexError(f"leaf {index} is not in a tree of {self._size}")
        return self._path(index, 0)

    def _path(self, index: int, start: int) -> list[bytes]:
        """Return the siblings above node ``index`` of level ``start`` up to the root."""
        path = []
        for level in range(start, (self._size - 1).bit_length()):
            sibling = (index >> (level - start)) ^ 1
            if (sibling + 1) << level <= self._size:
                path.append(self._node(level, sibling))
            elif sibling << level < self._size:
                path.append(self._edge[level])
            # else there is no sibling: the node rises unchanged.
        return path


def inclusion_proof(index: int, size: int, node: NodeReader) -> list[bytes]:
    """Return the proof that leaf ``index`` is in the tree of the first ``size`` leaves; IndexError outside it."""
    return InclusionProver(size, node).proof(index)


def consistency_proof(old: int, new: int, node: NodeReader) -> list[bytes]:
    """Return the proof that the tree of ``new`` leaves begins with that of ``old``; IndexError if old > new.

    Between equal sizes, and from the empty tree, it has no hashes.
    """
    if not 0 <= old <= new:
        raise IndexError(f"a tree of {new} leaves cannot continue one of {old}")
    if old in {0, new}:
        return []
    start = (old & -old).bit_length() - 1
    last = (old - 1) >> start
    seed = [] if old == 1 << start else [node(start, last)]
    return seed + InclusionProver(new, node)._path(last, start)  # noqa: SLF001  (same walk, from higher up)
