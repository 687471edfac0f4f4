"""Entropy sources, each under its health tests, and how they are mixed.

A source hands over, at each seeding, so much that it would do alone: `SEED_ENTROPY_BITS` by its own claim. The mix is a
MAC over all of it, so a source that is broken or known to an adversary takes nothing away as long as one other is good.
A configured source that is missing, stuck or biased still stops the generator: its failure is news, and the operator
asked for it. There is no way to go on without it but to take it out of the configuration.
"""

import errno
import os
import select
import time
from collections.abc import Callable, Iterable
from hmac import digest
from math import ceil
from pathlib import Path
from typing import Final, Protocol

from rngsvc.health_tests import HealthTests, HealthTestTripped

SEED_ENTROPY_BITS: Final = 384
"""Min-entropy that each source alone brings to a seeding: 1.5 times the strength of 256 bits (SP 800-90A, 8.6.7)."""

STARTUP_SAMPLES: Final = 1024
"""Samples that a noise source is tested on before the first one is used (SP 800-90B, 4.3)."""

ALARM_EXPONENT: Final = 40
"""A good source raises a false alarm with a chance of 2^-40 a sample: rare, because an alarm stops the service."""

OPERATOR_FILE_BITS_PER_BYTE: Final = 1.0
"""What a byte of the operator's file counts for: a coin toss written as text is one bit, a die 2.58, raw bytes more."""

MOST_OPERATOR_FILE_BYTES: Final = 65_536

_PAUSE_S: Final = 0.005

_MIX_LABEL: Final = b"rngsvc/entropy mix/1"


class GeneratorFailed(Exception):
    """Randomness is in doubt: nothing may be sealed or drawn until the service has been restarted."""


class EntropyUnavailable(GeneratorFailed):
    """An entropy source is missing, unreadable, or did not deliver in time."""


class HealthTestFailed(GeneratorFailed):
    """A health test has tripped on an entropy source or on the generator's output."""


class EntropySource(Protocol):
    """Where entropy comes from.

    `samples` counts the bytes that went through its health tests.
    """

    @property
    def name(self) -> str:
        """Return the name that errors and metrics carry."""

    @property
    def samples(self) -> int:
        """Return how many bytes have gone through the health tests."""

    def start(self) -> None:
        """Run the start-up tests; called in each process before the first `gather`.

        Raises:
            EntropyUnavailable: the source does not deliver.
            HealthTestFailed: what it delivers is stuck or biased.
        """

    def gather(self) -> bytes:
        """Return health-tested bytes that by the source's claim hold `SEED_ENTROPY_BITS` of min-entropy.

        Raises:
            EntropyUnavailable: the source does not deliver.
            HealthTestFailed: what it delivers is stuck or biased.
        """


class NoiseSource:
    """A source that can be read without end, under continuous health tests.

    Args:
        name: for errors and metrics.
        read: returns 1 to n bytes; none at the end of the source. May raise OSError.
        bits_per_byte: the min-entropy claimed for a byte, above 0, at most 8.
    """

    def __init__(self, name: str, read: Callable[[int], bytes], bits_per_byte: float) -> None:
        self.name = name
        self._read = read
        self._tests = HealthTests(bits_per_byte, ALARM_EXPONENT)
        self._bytes_per_seeding = ceil(SEED_ENTROPY_BITS / bits_per_byte)

    @property
    def samples(self) -> int:
        """Return how many bytes have gone through the health tests."""
        return self._tests.samples

    def start(self) -> None:
        """Test `STARTUP_SAMPLES` bytes and throw them away."""
        self._read_tested(STARTUP_SAMPLES)

    def gather(self) -> bytes:
        """Return the next health-tested bytes, so many that they hold `SEED_ENTROPY_BITS`."""
        return self._read_tested(self._bytes_per_seeding)

    def _read_tested(self, n: int) -> bytes:
        gathered = b""
        while len(gathered) < n:
            try:
                piece = self._read(n - len(gathered))
            except OSError as error:
                raise EntropyUnavailable(f"entropy source {self.name}: {error.strerror or error}") from error
            if not piece:
                raise EntropyUnavailable(f"entropy source {self.name}: ended after {len(gathered)} of {n} bytes")
            gathered += piece
        try:
            self._tests.feed(gathered)
        except HealthTestTripped as tripped:
            raise HealthTestFailed(f"entropy source {self.name}: {tripped}") from tripped
        return gathered


def kernel_source() -> NoiseSource:
    """Return the kernel's generator, getrandom(2): full entropy by claim, blocks until the kernel is seeded."""
    return NoiseSource("getrandom", os.getrandom, 8)


def device_source(path: Path, bits_per_byte: float, timeout_s: float) -> NoiseSource:
    """Return a hardware source that is read from a character device, such as /dev/hwrng."""
    return NoiseSource(str(path), DeviceReader(path, timeout_s), bits_per_byte)


class DeviceReader:
    """Reads a device, and waits for it no longer than `timeout_s`: a hung device must not hang the service."""

    def __init__(self, path: Path, timeout_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._monotonic = monotonic

    def __call__(self, n: int) -> bytes:
        """Return `n` bytes, fewer only at the end of a file.

        Raises:
            OSError: the device is missing, cannot be read, or did not give `n` bytes within the time allowed.
        """
        deadline = self._monotonic() + self._timeout_s
        gathered = b""
        # Opened for each read: reseeding is rare, and a device that was unplugged is noticed at once.
        device = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            ready = select.poll()
            ready.register(device, select.POLLIN)
            while len(gathered) < n and (left_s := deadline - self._monotonic()) > 0:
                if not ready.poll(left_s * 1000):
                    continue
                try:
                    piece = os.read(device, n - len(gathered))
                except BlockingIOError:
                    # The kernel's hwrng says that it is ready when it is not.
                    time.sleep(_PAUSE_S)
                    continue
                if not piece:
                    return gathered
                gathered += piece
        finally:
            os.close(device)
        if len(gathered) < n:
            raise TimeoutError(errno.ETIMEDOUT, f"gave {len(gathered)} of {n} bytes within {self._timeout_s:g} s")
        return gathered


class OperatorFile:
    """Entropy that the operator has written to a file: dice, coins, another machine's generator.

    Read anew at each seeding, so that it may be replaced while the service runs. Its whole content enters the mix, but
    after the first time it brings nothing that an adversary who has seen the state does not know.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.samples = 0
        self._path = path

    def start(self) -> None:
        """Read and test the file once."""
        self.gather()

    def gather(self) -> bytes:
        """Return the whole file, health-tested."""
        least = ceil(SEED_ENTROPY_BITS / OPERATOR_FILE_BITS_PER_BYTE)
        try:
            with self._path.open("rb") as file:
                content = file.read(MOST_OPERATOR_FILE_BYTES + 1)
        except OSError as error:
            raise EntropyUnavailable(f"entropy file {self.name}: {error.strerror or error}") from error
        if not least <= len(content) <= MOST_OPERATOR_FILE_BYTES:
            size = f"{len(content)}" if len(content) <= MOST_OPERATOR_FILE_BYTES else "more"
            allowed = f"{least} to {MOST_OPERATOR_FILE_BYTES} bytes"
            raise EntropyUnavailable(f"entropy file {self.name}: {allowed} allowed, it holds {size}")
        tests = HealthTests(OPERATOR_FILE_BITS_PER_BYTE, ALARM_EXPONENT)
        try:
            tests.feed(content)
        except HealthTestTripped as tripped:
            raise HealthTestFailed(f"entropy file {self.name}: {tripped}") from tripped
        self.samples += tests.samples
        return content


def mix(inputs: Iterable[tuple[str, bytes]]) -> bytes:
    """Return 64 bytes from all inputs, each a source's name and what it gave.

    HMAC-SHA-512 under a fixed key, as HKDF-Extract does it. Names and lengths stand before the bytes, so that no input
    can be shifted into another: two different lists of inputs never make the same message.
    """
    message = bytearray()
    for name, gathered in inputs:
        for part in (name.encode(), gathered):
            message += len(part).to_bytes(4) + part
    return digest(_MIX_LABEL, message, "sha512")
