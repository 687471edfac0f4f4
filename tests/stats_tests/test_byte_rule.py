"""The vectorised step 4 against the service's own, and uniform by exhaustion of every stream of small decks."""

import hashlib
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rngsvc.protocol.derivation import fisher_yates
from stats_tests.byte_rule import StreamTooShortError, ample_row, shuffle_rows
from tests.scale import scaled


def scalar(row: bytes, n: int) -> tuple[list[int], int]:
    left = [row]

    def refill(_count: int) -> bytes:
        return left.pop()

    return fisher_yates(range(n), refill)


def rows(count: int, length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, length), dtype=np.uint8)


@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 36, 52, 54, 128, 129, 255, 256, 257, 416, 1020])
def test_decks_and_bytes_used_are_those_of_the_service(n: int) -> None:
    stream = rows(scaled(200, 5000), ample_row(n), seed=n)
    decks, used = shuffle_rows(stream, n)
    for row, deck, bytes_used in zip(stream, decks, used, strict=True):
        assert scalar(row.tobytes(), n) == (deck.tolist(), bytes_used)


@settings(max_examples=scaled(50, 2000), deadline=None)
@given(st.integers(2, 300), st.sampled_from([0x00, 0xFF, 0xFE, 0xC0]), st.binary(min_size=1, max_size=40))
def test_streams_full_of_refused_draws_agree(n: int, often: int, seed: bytes) -> None:
    noise = np.frombuffer(hashlib.shake_128(seed).digest(3 * 2000), dtype=np.uint8).reshape(3, 2000)
    stream = np.where(noise[:, ::-1] < 160, np.uint8(often), noise)
    try:
        expected = [scalar(row.tobytes(), n) for row in stream]
    except IndexError:
        with pytest.raises(StreamTooShortError):
            shuffle_rows(stream, n)
        return
    decks, used = shuffle_rows(stream, n)
    assert [(deck.tolist(), int(u)) for deck, u in zip(decks, used, strict=True)] == expected


@pytest.mark.parametrize("n", [2, 3])
def test_every_order_comes_equally_often_over_all_streams_of_one_byte_a_draw(n: int) -> None:
    # Streams whose first n - 1 bytes are all accepted: exactly uniform. (The others are these after a refused draw.)
    every = np.array(list(product(range(256), repeat=n - 1)), dtype=np.uint8)
    limits = [256 - 256 % m for m in range(n, 1, -1)]
    accepted = every[(every < np.array(limits)).all(axis=1)]
    decks, used = shuffle_rows(accepted, n)
    assert set(used.tolist()) == {n - 1}
    counts = np.unique(decks, axis=0, return_counts=True)[1]
    assert counts.tolist() == [math.prod(limits) // math.factorial(n)] * math.factorial(n)


def test_every_two_byte_draw_is_scaled_as_the_limit_says() -> None:
    # All 65,536 first draws of a deck of 257: the accepted ones spread evenly, the others are passed over.
    draws = np.arange(65_536, dtype=np.uint16).astype(">u2").view(np.uint8).reshape(-1, 2)
    rest = np.zeros((65_536, 2 * 260), dtype=np.uint8)
    decks, used = shuffle_rows(np.hstack([draws, rest]), 257)
    once = used == 2 * 256
    assert once.sum() == 65_536 - 65_536 % 257
    assert set(np.bincount(decks[once, 256], minlength=257).tolist()) == {65_536 // 257}


@pytest.mark.parametrize("n", [52, 300])
def test_a_row_that_is_too_short_is_refused(n: int) -> None:
    stream = rows(9000, ample_row(n), seed=1)
    _, used = shuffle_rows(stream, n)
    shortest = int(used.max())
    shuffle_rows(stream[:, :shortest], n)
    with pytest.raises(StreamTooShortError, match="too short"):
        shuffle_rows(stream[:, : shortest - 1], n)


def test_no_decks_are_no_decks() -> None:
    decks, used = shuffle_rows(np.empty((0, 100), dtype=np.uint8), 52)
    assert decks.shape == (0, 52)
    assert used.shape == (0,)
