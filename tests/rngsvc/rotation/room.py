"""A service whose log changes its key: real processes over one SQLite store, and the keys that lie beside it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rngsvc.keys.making import make_key_encryption_key, make_signing_key

ORIGIN = "cardroom.example/rng"


class Room:
    """Four log keys ``a`` to ``d``, of which ``a`` is the log's first, and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vkeys = {name: make_signing_key(folder / f"{name}.key", ORIGIN).vkey for name in "abcd"}
        make_key_encryption_key(folder / "seeds.key")
        self.store = folder / "log.sqlite3"

    def process(self, keys: str) -> "subprocess.Popen[str]":
        """Start a service with ``keys``: the signing key, and the previous one if there is a second letter."""
        signing, *previous = keys
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "rngsvc", "serve", f"--origin={ORIGIN}", f"--store=sqlite:{self.store}"),
                f"--signing-key=file:{self.folder / signing}.key",
                *(f"--previous-signing-key=file:{self.folder / each}.key" for each in previous),
                f"--key-encryption-key=file:{self.folder / 'seeds.key'}",
                *("--listen=127.0.0.1:0", "--http-public=127.0.0.1:0", "--http-operator=127.0.0.1:0"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def serving(self, keys: str) -> Iterator[Mapping[str, str]]:
        """Run the service; yield its ready line."""
        with self.process(keys) as process:
            assert process.stdout
            try:
                yield json.loads(process.stdout.readline())
            finally:
                process.terminate()
                process.communicate(timeout=20)
