"""Entropy sources of the kinds that fail in the field: real implementations of the readers and of the port."""

import errno
import random
from collections.abc import Callable

from rngsvc.entropy import NoiseSource

Read = Callable[[int], bytes]


def even(seed: int = 1) -> Read:
    """Return a reader that is good in the eye of any test, and the same for the same seed."""
    return random.Random(seed).randbytes


def stuck(value: int = 0) -> Read:
    return lambda n: bytes([value]) * n


def biased(seed: int = 1) -> Read:
    """Return a reader whose bytes have their upper half at zero."""
    good = random.Random(seed)
    return lambda n: bytes(b & 0x0F for b in good.randbytes(n))


def short(read: Read, at_most: int = 7) -> Read:
    return lambda n: read(min(n, at_most))


def ends_after(read: Read, total: int) -> Read:
    left = [total]

    def ending(n: int) -> bytes:
        n = min(n, left[0])
        left[0] -= n
        return read(n) if n else b""

    return ending


def fails_with(number: int) -> Read:
    def failing(n: int) -> bytes:
        raise OSError(number, errno.errorcode[number])

    return failing


def turns(before: Read, after: Read, when: Callable[[], bool]) -> Read:
    return lambda n: after(n) if when() else before(n)


def noise(read: Read, name: str = "noise", bits_per_byte: float = 8) -> NoiseSource:
    return NoiseSource(name, read, bits_per_byte)
