"""A store in memory: the contract in its plainest form, for tests and for `serve --ephemeral` without a file.

It keeps what a durable store keeps, but only as long as the process lives.
"""

from collections.abc import Sequence

from rngsvc.hand import Event
from rngsvc.ports import Commit, Head, HeadMoved, SampleRow, StepRow, StoreHeld, TableRow

_RESULTS = frozenset({"audit", "integrity"})


class Disk:
    """What survives a `MemoryStore`: hand it to the next one to test a restart."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.entries: list[bytes] = []
        self.results: list[int] = []
        self.key_entries: list[int] = []
        self.tiles: dict[tuple[int, int], bytes] = {}
        self.tables: dict[bytes, TableRow] = {}
        self.steps: dict[bytes, dict[int, list[StepRow]]] = {}
        self.data_keys: dict[tuple[bytes, int], bytes] = {}
        self.samples: dict[bytes, SampleRow] = {}
        self.held = False


class MemoryStore:
    """See `rngsvc.ports.Store`."""

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()
        self._holds = False

    async def open(self) -> Head | None:
        """Take the disk."""
        if self._disk.held:
            raise StoreHeld("another writer holds this store")
        self._disk.held = self._holds = True
        return self._disk.head

    async def commit(self, commit: Commit) -> None:
        """Take all of it, or nothing."""
        disk = self._disk
        if disk.head != commit.expected:
            raise HeadMoved("the head is another than the writer believes")
        first = len(disk.entries)
        disk.head = commit.head
        disk.entries += [row.entry for row in commit.entries]
        disk.results += [at for at, row in enumerate(commit.entries, first) if row.kind in _RESULTS]
        disk.key_entries += [at for at, row in enumerate(commit.entries, first) if row.kind == "key"]
        disk.tiles.update({(tile.level, tile.number): tile.hashes for tile in commit.tiles})
        disk.tables.update({row.table: row for row in commit.tables})
        for step in commit.steps:
            disk.steps.setdefault(step.table, {}).setdefault(step.seq, []).append(step)
        disk.data_keys.update({(row.table, row.day): row.wrapped for row in commit.data_keys})
        disk.samples.update({row.sample_id: row for row in commit.samples})

    async def entries(self, first: int, end: int) -> list[bytes]:
        """Return a run of entries."""
        return self._disk.entries[first:end]

    async def entries_at(self, positions: Sequence[int]) -> list[bytes]:
        """Return entries by position."""
        try:
            return [self._disk.entries[position] for position in positions]
        except IndexError:
            raise KeyError(max(positions)) from None

    async def tile(self, level: int, number: int) -> bytes:
        """Return a full tile."""
        return self._disk.tiles[level, number]

    async def table(self, table: bytes) -> TableRow | None:
        """Return a table."""
        return self._disk.tables.get(table)

    async def tables_with_unclosed_hands(self) -> list[bytes]:
        """Return the tables whose newest hand is not closed."""
        return [table for table, hands in self._disk.steps.items() if hands[max(hands)][-1].kind != Event.CLOSE]

    async def sequence(self, table: bytes) -> tuple[int, int]:
        """Return last reserved and last closed."""
        hands = self._disk.steps.get(table, {})
        closed = [seq for seq, steps in hands.items() if steps[-1].kind == Event.CLOSE]
        return max(hands, default=0), max(closed, default=0)

    async def steps(self, table: bytes, first_seq: int, end_seq: int) -> list[StepRow]:
        """Return the steps of a run of hands."""
        hands = self._disk.steps.get(table, {})
        return [step for seq in sorted(hands) if first_seq <= seq < end_seq for step in hands[seq]]

    async def last_steps(self, table: bytes, after_seq: int, limit: int) -> list[StepRow]:
        """Return the newest logged step of each hand of a run."""
        hands = self._disk.steps.get(table, {})
        seqs = [seq for seq in sorted(hands) if seq > after_seq][:limit]
        return [next(step for step in reversed(hands[seq]) if step.position is not None) for seq in seqs]

    async def data_key(self, table: bytes, day: int) -> bytes | None:
        """Return a wrapped data key."""
        return self._disk.data_keys.get((table, day))

    async def sample(self, sample_id: bytes) -> SampleRow | None:
        """Return a sample."""
        return self._disk.samples.get(sample_id)

    async def results(self, before: int, limit: int) -> list[int]:
        """Return positions of results, newest first."""
        return [at for at in reversed(self._disk.results) if at < before][:limit]

    async def key_entries(self) -> list[int]:
        """Return positions of changes of the log's key."""
        return list(self._disk.key_entries)

    async def check(self) -> None:
        """Do nothing: memory does not go away."""

    async def close(self) -> None:
        """Let go of the disk, if this store has it."""
        if self._holds:
            self._disk.held = self._holds = False
