"""What strangers may ask for and what costs work is rationed, so that play does not wait for it.

A `Ration` gives one piece of work after another its turn, together a small share of the process's time: after a piece
that took a millisecond comes a pause of many. Who comes when enough wait already is refused, not at once but after a
moment: a client that asks again and again is thereby slowed down, which costs next to nothing.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from rngsvc.errors import Overloaded, Reason

_LEAST_RETRY_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 1.0


@dataclass(slots=True)
class Ration:
    """Turns for work that may take ``share`` of the time; at most ``waiting_limit`` wait for one.

    The first ``held_limit`` that are refused learn it after ``hold_s``. ``cpu_s`` is the time that a turn is charged
    with: all that the thread has done meanwhile, so that under load the ration is smaller.
    """

    share: float = 0.1
    waiting_limit: int = 64
    hold_s: float = 0.5
    held_limit: int = 1024
    cpu_s: Callable[[], float] = time.thread_time
    waiting: int = 0
    _held: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _free_at: float = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; the work is done in it. Overloaded if too many wait."""
        if self.waiting >= self.waiting_limit:
            await self._hold()
            raise Overloaded(Reason.OVERLOADED, "too many ask for hands just now", _LEAST_RETRY_S)
        self.waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(self._free_at - asyncio.get_running_loop().time())
                began = self.cpu_s()
                try:
                    yield
                finally:
                    pause = (self.cpu_s() - began) * (1 / self.share - 1)
                    self._free_at = asyncio.get_running_loop().time() + min(pause, _LONGEST_PAUSE_S)
        finally:
            self.waiting -= 1

    async def _hold(self) -> None:
        if self._held < self.held_limit:
            self._held += 1
            try:
                await asyncio.sleep(self.hold_s)
            finally:
                self._held -= 1


class Bodies:
    """The answers that were asked for last, ``most_bytes`` together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def get(self, key: tuple[str, int]) -> bytes | None:
        """Return what is kept for ``key``."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def put(self, key: tuple[str, int], body: bytes) -> None:
        """Keep it, unless it is larger than a sixteenth of all."""
        if len(body) > self._most_bytes // 16:
            return
        self._bytes += len(body) - len(self._kept.pop(key, b""))
        self._kept[key] = body
        while self._bytes > self._most_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)
