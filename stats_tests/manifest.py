"""Which code is judging: one hash over every file of the installed package.

The lines are those of `sha256sum`, sorted by path; their SHA-256 binds reports and self-test evidence to the code.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import rngsvc
import stats_tests

FAIRNESS_RELEVANT: Final = (
    "protocol",
    "drbg.py",
    "entropy.py",
    "generator.py",
    "health_tests.py",
    "sampling.py",
    "shuffles.py",
)
"""What of `rngsvc` decides a shuffle: a change there voids a certificate."""


def manifest_of(folder: Path, only: tuple[str, ...] = ()) -> str:
    """Return the manifest of a package's folder, of the named files and subfolders alone if any are named."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    )
    kept = [path for path in files if not only or path.relative_to(folder).parts[0] in only]
    return "".join(
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder.parent).as_posix()}\n" for path in kept
    )


@cache
def code_hash() -> str:
    """Return the hash of the battery's own code, in hex."""
    return sha256(manifest_of(Path(stats_tests.__file__).parent).encode()).hexdigest()


@cache
def module_hash_set() -> dict[str, str]:
    """Return path and SHA-256 of each fairness-relevant module: scaling, shuffle and generator."""
    lines = manifest_of(Path(rngsvc.__file__).parent, FAIRNESS_RELEVANT).splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}
