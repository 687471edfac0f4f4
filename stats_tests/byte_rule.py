"""Step 4 of the hand protocol for many decks at once: the NumPy twin of `rngsvc.protocol.derivation.fisher_yates`.

The service has no NumPy; the battery shuffles millions of decks. Both must agree to the bit, which a test proves by
exhaustion of small decks and by comparison on large ones.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

ONE_BYTE_UP_TO: Final = 256
DECKS_AT_ONCE: Final = 8128
"""So many that NumPy's overhead is small, so few that a batch stays in the processor's cache. No power of two: rows
that far apart would fall on the same lines of the cache."""


class StreamTooShortError(ValueError):
    """Some deck needs more bytes than its row holds."""


def ample_row(n: int) -> int:
    """Return a row length in bytes that a shuffle of n cards exceeds less often than hardware fails.

    A draw is refused with chance below one half, so that the bytes used have a geometric tail above their mean.
    """
    return 2 * n + 128 if n <= ONE_BYTE_UP_TO else 4 * n + 256


def shuffle_rows(rows: NDArray[np.uint8], n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Shuffle one deck of 0..n-1 with each row of random bytes.

    Args:
        rows: of shape (decks, bytes); each row is the beginning of a deck's byte stream.
        n: cards in a deck, 1..1020; a draw is one byte up to 256 cards, else two, big-endian.

    Returns:
        The decks, of shape (decks, n), one byte a card up to n = 256, else two; and the bytes that each used.

    Raises:
        StreamTooShortError: a row ends before its deck is shuffled.
    """
    width = 1 if n <= ONE_BYTE_UP_TO else 2
    usable = rows.shape[1] // width * width
    decks = np.empty((len(rows), n), dtype=np.uint8 if width == 1 else np.uint16)
    used = np.empty(len(rows), dtype=np.int64)
    for first in range(0, len(rows), DECKS_AT_ONCE):
        batch = np.ascontiguousarray(rows[first : first + DECKS_AT_ONCE, :usable])
        draws = batch if width == 1 else batch.view(">u2").astype(np.uint16)
        shuffled, taken = _shuffle(draws, n)
        decks[first : first + len(batch)] = shuffled.T
        used[first : first + len(batch)] = taken * width
    return decks, used


def _shuffle(draws: NDArray[Any], n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Shuffle a column of cards for each row of draws; return the columns and how many draws each took."""
    count, length = draws.shape
    space = 1 << (8 * draws.itemsize)
    # A row that runs out reads on in the next one, the last row in a guard draw of 0, which no limit refuses; that it
    # ran out is seen at the end. (`clip` never clips: it only saves NumPy a copy.)
    flat = np.append(draws.ravel(), draws.dtype.type(0))
    columns = np.arange(count)
    beginnings = columns * length
    at = beginnings.copy()
    order = np.repeat(np.arange(n, dtype=draws.dtype), count).reshape(n, count)
    cards = order.ravel()
    drawn = np.empty(count, dtype=draws.dtype)
    places = np.empty(count, dtype=np.intp)
    swapped = np.empty(count, dtype=draws.dtype)
    for i in range(n - 1, 0, -1):
        m = i + 1
        flat.take(at, out=drawn, mode="clip")
        limit = space - space % m
        if limit < space:
            while len(refused := np.flatnonzero(drawn >= limit)):
                at[refused] += 1
                drawn[refused] = flat.take(at[refused], mode="clip")
        at += 1
        # Swap places i and j of each column; `cards` is the same memory as `order`.
        if space == 256:
            _row_offsets(m, count).take(drawn, out=places, mode="clip")
        else:
            np.multiply(drawn % m, count, out=places, dtype=np.intp, casting="unsafe")
        places += columns
        cards.take(places, out=swapped, mode="clip")
        cards[places] = order[i]
        order[i] = swapped
    taken = at - beginnings
    if count and int(taken.max()) > length:
        raise StreamTooShortError(f"a row of {length} draws is too short for {n} cards")
    return order, taken


def _row_offsets(m: int, count: int) -> NDArray[np.intp]:
    """Return, for each byte, where the row of place ``byte mod m`` begins among rows of `count`."""
    offsets: NDArray[np.intp] = np.arange(256, dtype=np.intp) % m * count
    return offsets
