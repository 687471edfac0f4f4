"""One sequence of bits and the views of it that several tests share, each computed once."""

from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

LONGEST_WINDOW: Final = 16


class Sequence:
    """A finite sequence of bits, first bit first."""

    def __init__(self, bits: NDArray[np.uint8]) -> None:
        """Take an array of zeros and ones."""
        self.bits = bits

    @classmethod
    def of(cls, bits: ArrayLike) -> Self:
        """Make a sequence of a list, an array or a text of zeros and ones.

        Raises:
            ValueError: not one-dimensional, empty, or holding anything but 0 and 1.
        """
        array = np.array([int(bit) for bit in bits]) if isinstance(bits, str) else np.asarray(bits)
        if array.ndim != 1 or not array.size or not np.isin(array, (0, 1)).all():
            raise ValueError("bits: expected a non-empty one-dimensional row of zeros and ones")
        return cls(array.astype(np.uint8))

    @classmethod
    def packed(cls, row: NDArray[np.uint8]) -> Self:
        """Make a sequence of whole bytes, most significant bit first."""
        return cls(np.unpackbits(row))

    def __len__(self) -> int:
        return int(self.bits.size)

    @cached_property
    def ones(self) -> int:
        """How many bits are one."""
        return int(np.count_nonzero(self.bits))

    @cached_property
    def walk(self) -> NDArray[np.int32]:
        """The partial sums S_1 .. S_n of the steps +1 (a one) and -1 (a zero)."""
        steps = self.bits.view(np.int8) * np.int8(2) - np.int8(1)
        return np.cumsum(steps, dtype=np.int32)

    def blocks(self, length: int) -> NDArray[np.uint8]:
        """Return the whole blocks of `length` bits as rows; left-over bits at the end are dropped."""
        whole = len(self) // length
        return self.bits[: whole * length].reshape(whole, length)

    def windows(self, length: int) -> NDArray[np.uint16]:
        """Return the value of the `length` bits from each position on, most significant first, the sequence closed
        to a ring.
        """
        assert 0 < length <= LONGEST_WINDOW, "a window fits sixteen bits"
        return self._windows >> np.uint16(LONGEST_WINDOW - length)

    @cached_property
    def _windows(self) -> NDArray[np.uint16]:
        n = len(self)
        ring = np.concatenate([self.bits, np.resize(self.bits, LONGEST_WINDOW + 8)])
        octets = np.packbits(ring).astype(np.uint32)
        triples = octets[:-2] << np.uint32(16) | octets[1:-1] << np.uint32(8) | octets[2:]
        values = np.empty((triples.size, 8), dtype=np.uint16)
        for shift in range(8):
            values[:, shift] = triples >> np.uint32(8 - shift)  # the cast keeps the low sixteen bits
        return values.reshape(-1)[:n]
