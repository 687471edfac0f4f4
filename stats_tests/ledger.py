"""The ledger of attempts: a line before each campaign, a line after it, so that no failed run can be forgotten.

A file of canonical JSON lines; each line carries the SHA-256 of the line before, so that one taken out shows.
"""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import rfc8785


class LedgerError(ValueError):
    """The ledger was changed, or is none."""


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines, oldest first; none if there is no file yet.

    Raises:
        LedgerError: a line does not follow from the one before.
    """
    if not path.exists():
        return []
    lines: list[dict[str, Any]] = []
    previous = ""
    for number, raw in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise LedgerError(f"{path}: line {number} is not JSON") from error
        if not isinstance(line, dict) or line.get("previous") != previous:
            raise LedgerError(f"{path}: line {number} does not follow the line before it")
        lines.append(line)
        previous = sha256(raw).hexdigest()
    return lines


def append(path: Path, event: dict[str, Any]) -> None:
    """Add a line and have it on disk before anything else happens; LedgerError if the ledger is broken."""
    read(path)
    written = path.read_bytes().splitlines() if path.exists() else []
    line = rfc8785.dumps({**event, "previous": sha256(written[-1]).hexdigest() if written else ""})
    with path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
