"""Ports that fail when told to: a store whose nth write goes wrong, a signer and a guard that raise."""

from dataclasses import dataclass, field
from typing import Any

from rngsvc.ports import Commit, Head, HeadMoved, Store, StoreRefused


class Unknown(Exception):
    """A write of which nobody knows whether it was stored, as after an I/O error of fsync."""


REFUSED = "refused"
"""Not stored, and said so."""
STORED_BUT_FAILED = "stored but reported failed"
LOST_AND_FAILED = "not stored and reported as unknown"
HEAD_MOVED = "head moved"
FAULTS = (REFUSED, STORED_BUT_FAILED, LOST_AND_FAILED, HEAD_MOVED)


@dataclass
class FaultyStore:
    """Passes everything on to ``inner``, but its write number ``at`` (from 0) comes to the ``fault``."""

    inner: Store
    fault: str
    at: int
    writes: int = 0
    committed: list[Head] = field(default_factory=list)

    async def commit(self, commit: Commit) -> None:
        number, self.writes = self.writes, self.writes + 1
        if number != self.at:
            await self.inner.commit(commit)
            return
        match self.fault:
            case "refused":
                raise StoreRefused("told to")
            case "stored but reported failed":
                await self.inner.commit(commit)
                raise Unknown("told to")
            case "not stored and reported as unknown":
                raise Unknown("told to")
            case "head moved":
                raise HeadMoved("told to")

    @property
    def hit(self) -> bool:
        """Whether the fault has come up."""
        return self.writes > self.at

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
