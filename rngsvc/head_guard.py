"""Remembers the newest checkpoint in a file outside the store, so that a restored older store is noticed.

Best on another disk than the store. The file has two slots that are written in turn, in place: whatever happens while
one is written, the other is whole, and signatures tell which is. (Replacing a file by rename would wait for the disk at
every batch.) It need not reach the disk at once: if it is behind after a power cut, that is no fault.
"""

import os
from pathlib import Path
from typing import Final

_SLOT_BYTES: Final = 1024
_SLOTS: Final = 2


class FileGuard:
    """See `rngsvc.ports.HeadGuard`. ``path``'s folder must exist."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._next = 0

    def remembered(self) -> list[bytes]:
        """Return what the slots hold, without the padding; nothing for a new file."""
        slots = os.pread(self._fd, _SLOT_BYTES * _SLOTS, 0)
        return [slot for i in range(_SLOTS) if (slot := slots[_SLOT_BYTES * i : _SLOT_BYTES * (i + 1)].rstrip(b"\0"))]

    def advance(self, checkpoint: bytes) -> None:
        """Write the slot that is older."""
        assert len(checkpoint) <= _SLOT_BYTES, "a checkpoint with our own signatures is a few hundred bytes"
        os.pwrite(self._fd, checkpoint.ljust(_SLOT_BYTES, b"\0"), _SLOT_BYTES * self._next)
        self._next = (self._next + 1) % _SLOTS

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
