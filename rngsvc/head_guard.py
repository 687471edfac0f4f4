"""Remembers the newest checkpoint in a file outside the store, so that a restored older store is noticed.

Best on another disk than the store. It is replaced after each commit and before its answers; it need not reach the disk
at once: if it is lost in a power cut it is older than the store, which is no fault.
"""

import os
from pathlib import Path


class FileGuard:
    """See `rngsvc.ports.HeadGuard`. ``path``'s folder must exist."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._next = f"{path}.next"

    def newest(self) -> bytes | None:
        """Return the checkpoint in the file; None if there is no file yet."""
        try:
            return Path(self._path).read_bytes()
        except FileNotFoundError:
            return None

    def advance(self, checkpoint: bytes) -> None:
        """Replace the file in one step."""
        # Plain system calls: this is done for every batch, and pathlib would double its cost.
        fd = os.open(self._next, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, checkpoint)
        finally:
            os.close(fd)
        os.rename(self._next, self._path)
