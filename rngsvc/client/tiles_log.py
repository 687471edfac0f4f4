"""Reads a log from its tiles (C2SP tlog-tiles): no service is asked, a copy on any web server or disk will do."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rngsvc.audit import LogSource, SourceUnreadable, key_entries_in
from rngsvc.client.errors import CheckpointRejected, InclusionUnproven, UnknownLogKey
from rngsvc.client.log_reader import Run
from rngsvc.client.log_view import Logged, SignedCheckpoint, TrustedLog
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import (
    InclusionProver,
    consistency_proof,
    root_from_nodes,
    verify_consistency,
)
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.tiles import WIDTH, Tile, nodes_from_tiles

_CACHED_TILES: Final = 256


class TilesLog:
    """The log in ``source``, at the checkpoint that it had when this was made; ``key`` signs, or signed, for it.

    The methods are those of `SyncClient.log`, and what they return is proven alike. They raise SourceUnreadable where
    a file is missing.
    """

    def __init__(self, source: LogSource, key: NoteKey) -> None:
        self._source = source
        self._log = TrustedLog([key])
        note = source.checkpoint()
        try:
            size = Checkpoint.parse(SignedNote.parse(note).text).size
        except MalformedError as error:
            raise CheckpointRejected(f"the checkpoint is refused: {error}") from error
        self._bundle = lru_cache(2)(self._read_bundle)
        self._node = nodes_from_tiles(size, lru_cache(_CACHED_TILES)(source.hashes))
        self._prover = InclusionProver(size, self._node)
        try:
            self._newest = self._log.checkpoint(note)
        except UnknownLogKey:
            self._follow(note, size)
            self._newest = self._log.checkpoint(note)
        if self._prover.root != self._newest.root:
            raise InclusionUnproven("the tiles do not give the signed root")

    @property
    def origin(self) -> str:
        """The log's name."""
        return self._log.origin

    def checkpoint(self) -> SignedCheckpoint:
        """Return the checkpoint."""
        return self._newest

    def key_entries(self) -> tuple[Logged, ...]:
        """Return the changes of the log's key, in log order; the whole log is read for it."""
        self._follow(self._newest.note, self._newest.size)
        return self._log.key_entries

    def _follow(self, note: str, size: int) -> None:
        found = key_entries_in(self._source, 0, size)
        self._log.follow(note, [(index, raw, b"".join(self._prover.proof(index))) for index, raw in found])

    def entry(self, index: int) -> Logged:
        """Return the entry at ``index`` with its proof. Raises IndexError past the end, InclusionUnproven."""
        if not 0 <= index < self._newest.size:
            raise IndexError(f"index: must be 0..{self._newest.size - 1}")
        bundle = self._bundle(index // WIDTH)
        proof = b"".join(self._prover.proof(index))
        return self._log.logged(index, bundle[index % WIDTH], proof, self._newest)

    def consistency(self, old_size: int) -> tuple[bytes, ...]:
        """Return the hashes that prove the tree of ``old_size`` (at least 1) a beginning of this one."""
        if not 1 <= old_size <= self._newest.size:
            raise IndexError(f"old_size: must be 1..{self._newest.size}")
        proof = consistency_proof(old_size, self._newest.size, self._node)
        old_root = root_from_nodes(old_size, self._node)
        try:
            verify_consistency(old_size, old_root, self._newest.size, self._newest.root, proof)
        except ProofError as error:
            raise InclusionUnproven(f"the tiles contradict each other: {error}") from error
        return tuple(proof)

    def entries(self, first: int = 0, end: int = 0) -> Iterator[Run]:
        """Give the entries at ``first`` .. ``end`` - 1 (0: up to the newest), a bundle at a time."""
        end = min(end or self._newest.size, self._newest.size)
        while first < end:
            stop = min(end, (first // WIDTH + 1) * WIDTH)
            yield Run(first, tuple(self.entry(index).raw for index in range(first, stop)), self._newest)
            first = stop

    def _read_bundle(self, index: int) -> list[bytes]:
        tile = Tile.covering(None, index, self._newest.size)
        entries = self._source.entries(tile)
        if len(entries) != tile.width:
            raise SourceUnreadable(f"{tile.path}: has {len(entries)} entries, not {tile.width}")
        return entries
