"""Which code is running: one hash over every file of the installed package.

The manifest is the sorted list of "sha256  path" lines, as `sha256sum` prints them, of all files of `rngsvc` but
compiled ones; its SHA-256 goes into `integrity` entries and samples.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

_PACKAGE = Path(__file__).parent


def manifest() -> str:
    """Return the lines, each ended by a line break."""
    files = sorted(
        path
        for path in _PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    )
    return "".join(
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(_PACKAGE.parent).as_posix()}\n" for path in files
    )


@cache
def manifest_hash() -> bytes:
    """Return the SHA-256 of the manifest, taken once for this process."""
    return sha256(manifest().encode()).digest()
