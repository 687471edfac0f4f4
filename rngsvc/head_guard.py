"""Remembers the newest checkpoint in a file outside the store, so that a restored older store is noticed.

Best on another disk than the store. The file has two slots that are written in turn, in place: whatever happens while
one is written, the other is whole, and signatures tell which is. (Replacing a file by rename would wait for the disk at
every batch.) It need not reach the disk at once: if it is behind after a power cut, that is no fault.
"""

import errno
import os
from pathlib import Path
from typing import Final

from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import SignedNote

_SLOT_BYTES: Final = 1024
_SLOTS: Final = 2


class FileGuard:
    """See `rngsvc.ports.HeadGuard`. ``path``'s folder must exist."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # The newest checkpoint must not be the one that the first write after a restart puts at risk.
        self._next = min(range(_SLOTS), key=lambda i: _claimed_size(self._slots()[i]))

    def remembered(self) -> list[bytes]:
        """Return what the slots hold, without the padding; nothing for a new file."""
        return [slot for slot in self._slots() if slot]

    def advance(self, checkpoint: bytes) -> None:
        """Write the slot that is older."""
        assert len(checkpoint) <= _SLOT_BYTES, "a checkpoint with our own signatures is a few hundred bytes"
        slot = checkpoint.ljust(_SLOT_BYTES, b"\0")
        if os.pwrite(self._fd, slot, _SLOT_BYTES * self._next) != _SLOT_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._next = (self._next + 1) % _SLOTS

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def _slots(self) -> list[bytes]:
        content = os.pread(self._fd, _SLOT_BYTES * _SLOTS, 0)
        return [content[_SLOT_BYTES * i : _SLOT_BYTES * (i + 1)].rstrip(b"\0") for i in range(_SLOTS)]


def _claimed_size(slot: bytes) -> int:
    """Return over how many entries a checkpoint says it is, -1 for what is none. Who starts the service verifies it."""
    try:
        return Checkpoint.parse(SignedNote.parse(slot.decode()).text).size
    except (UnicodeDecodeError, MalformedError):
        return -1
