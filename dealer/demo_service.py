"""A shuffle service for the demonstration: one that runs already, or a child process of our own."""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 15.0
_PEM_END: Final = b"-----END PRIVATE KEY-----\n"


class NoService(Exception):
    """The shuffle service could not be started."""


@dataclass(frozen=True, slots=True)
class Auditor:
    """Who opens the escrowed seeds of closed hands: his X25519 key, and the Ed25519 key of his reports."""

    opening: X25519PrivateKey
    signing: Ed25519PrivateKey

    @property
    def public_keys(self) -> tuple[bytes, bytes]:
        """The raw public keys that a table under escrow is registered with."""
        return self.opening.public_key().public_bytes_raw(), self.signing.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> "Auditor":
        """Make an auditor for one demonstration."""
        return cls(X25519PrivateKey.generate(), Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> "Auditor":
        """Read the file that an ephemeral service names: two PEM blocks, X25519 first. Raises ValueError, OSError."""
        first, separator, second = path.read_bytes().partition(_PEM_END)
        opening = load_pem_private_key(first + separator, password=None)
        signing = load_pem_private_key(second, password=None)
        if not isinstance(opening, X25519PrivateKey) or not isinstance(signing, Ed25519PrivateKey):
            raise ValueError(f"{path}: must hold an X25519 key and then an Ed25519 key")
        return cls(opening, signing)


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is (host:port), the log's verifier key, and the auditor for the demonstration's tables."""

    address: str
    log_key: str
    auditor: Auditor


@contextlib.asynccontextmanager
async def child_service() -> AsyncIterator[Service]:
    """Run an ephemeral service for as long as the context lasts. Raises NoService."""
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rngsvc", "serve", "--ephemeral"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
        )
        try:
            assert process.stdout is not None, "it was asked for"
            try:
                line = await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT_S)
                ready = json.loads(line)
            except (TimeoutError, ValueError):
                complaints.seek(0)
                said = complaints.read(2000).decode(errors="replace").strip()
                raise NoService(f"the shuffle service did not start: {said or 'it said nothing'}") from None
            auditor = Auditor.load(Path(ready["auditor_keys"]))
            yield Service(ready["grpc"], ready["log_key"], auditor)
        finally:
            await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
