"""One setting for how much a test does: small in `make test`, the full count in `make prove`."""

import os

PROVING = os.environ.get("PROVE") == "1"


def scaled(small: int, full: int) -> int:
    """Return the loop count for this run: ``full`` under ``PROVE=1``, else ``small``."""
    return full if PROVING else small
