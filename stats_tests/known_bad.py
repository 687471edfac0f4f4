"""Generators that the battery is tried on: one good one, and shufflers that went wrong in known ways.

Each gives any stretch of its stream by itself, so that workers need not share a state: item i is a function of the
seed and i alone. Their randomness, where it is not itself the fault, is AES-256 in counter mode.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from stats_tests.accumulator import Items
from stats_tests.byte_rule import ample_row, shuffle_rows
from stats_tests.catalogue import Kind
from stats_tests.shuffles.deck import Decks

Words = NDArray[np.uint32]


def key_stream(seed: int, start: int, count: int) -> NDArray[np.uint8]:
    """Return bytes start..start+count-1 of the stream that belongs to `seed`."""
    key = hashlib.sha256(b"stats_tests generator" + seed.to_bytes(8, "big")).digest()
    skipped = start % 16
    cipher = Cipher(algorithms.AES256(key), modes.CTR((start // 16).to_bytes(16, "big"))).encryptor()
    return np.frombuffer(cipher.update(bytes(skipped + count)), dtype=np.uint8)[skipped:]


def _rows(seed: int, start: int, count: int, length: int) -> NDArray[np.uint8]:
    """Return rows start..start+count-1 of the stream cut into rows of `length` bytes."""
    return key_stream(seed, start * length, count * length).reshape(count, length)


def _words(seed: int, start: int, count: int, each: int) -> Words:
    """Return `each` words of 32 bits for each of the items, a row for each word."""
    words = _rows(seed, start, count, 4 * each).view(">u4").astype(np.uint32)
    return np.ascontiguousarray(words.T)


def _below(words: Words, bound: int) -> NDArray[np.int64]:
    """Scale words to 0..bound-1; for bounds of a deck the bias is below 2^-21 and cannot be seen in any sample."""
    return ((words.astype(np.uint64) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def _swapped(n: int, count: int, swaps: Iterable[tuple[int, NDArray[np.int64]]]) -> Decks:
    """Start from sorted decks and swap, for each (place, other places), the place with each deck's other place."""
    columns = np.arange(count)
    order = np.repeat(np.arange(n, dtype=np.uint8 if n <= 256 else np.uint16), count).reshape(n, count)
    for place, others in swaps:
        moved = order[others, columns]
        order[others, columns] = order[place]
        order[place] = moved
    return np.ascontiguousarray(order.T)


# --- Good ---


def good_bits(seed: int, _size: int, start: int, count: int) -> NDArray[np.uint8]:
    """The key stream itself."""
    return key_stream(seed, start, count)


def good_numbers(seed: int, m: int, start: int, count: int) -> NDArray[np.uint64]:
    """The first of two words of 64 bits below the largest multiple of m, modulo m.

    Were both refused (chance below 2^-22 for m < 2^53), the second would be taken modulo m all the same.
    """
    words = _rows(seed, start, count, 16).view(">u8").astype(np.uint64)
    refused_from = 2**64 - 2**64 % m
    first_good = np.ones(count, dtype=bool) if refused_from == 2**64 else words[:, 0] < np.uint64(refused_from)
    return np.where(first_good, words[:, 0], words[:, 1]) % np.uint64(m)


def good_decks(seed: int, n: int, start: int, count: int) -> Decks:
    """The protocol's own byte rule on a stream for each deck."""
    return shuffle_rows(_rows(seed, start, count, ample_row(n)), n)[0]


# --- Wrong loops ---


def swaps_with_all(seed: int, n: int, start: int, count: int) -> Decks:
    """Each place is swapped with any of all n places: n^n ways, not a multiple of n!."""
    words = _words(seed, start, count, n)
    return _swapped(n, count, ((i, _below(words[i], n)) for i in range(n)))


def sattolo(seed: int, n: int, start: int, count: int) -> Decks:
    """The partner is never the place itself (range off by one): only decks of one single cycle."""
    words = _words(seed, start, count, n)
    return _swapped(n, count, ((i, _below(words[i], i)) for i in range(n - 1, 0, -1)))


def stops_one_early(seed: int, n: int, start: int, count: int) -> Decks:
    """The last swap, of the first two places, is never made."""
    words = _words(seed, start, count, n)
    return _swapped(n, count, ((i, _below(words[i], i + 1)) for i in range(n - 1, 1, -1)))


def random_comparator(seed: int, n: int, start: int, count: int) -> Decks:
    """Insertion sort that asks a coin instead of comparing: cards move down a few places only."""
    coins = _words(seed, start, count, n)
    order = np.repeat(np.arange(n, dtype=np.uint8 if n <= 256 else np.uint16), count).reshape(n, count)
    columns = np.arange(count)
    for i in range(1, n):
        # How many heads in a row: the trailing ones of a word.
        heads = np.bitwise_count(coins[i] & ~(coins[i] + np.uint32(1)))
        moves = np.minimum(heads.astype(np.int64), i)
        moved = order[i].copy()
        for step in range(int(moves.max(initial=0))):
            goes = moves > step
            order[i - step, goes] = order[i - step - 1, goes]
        order[i - moves, columns] = moved
    return np.ascontiguousarray(order.T)


# --- Wrong scaling ---


def byte_modulo(seed: int, n: int, start: int, count: int) -> Decks:
    """A byte modulo m, nothing refused."""
    drawn = _rows(seed, start, count, n).T
    return _swapped(n, count, ((i, drawn[i].astype(np.int64) % (i + 1)) for i in range(n - 1, 0, -1)))


def word_modulo(seed: int, n: int, start: int, count: int) -> Decks:
    """Two bytes modulo m, nothing refused."""
    drawn = _rows(seed, start, count, 2 * n).view(">u2").T
    return _swapped(n, count, ((i, drawn[i].astype(np.int64) % (i + 1)) for i in range(n - 1, 0, -1)))


# --- Wrong generators ---


def _powers(base: int, count: int, modulus: int) -> NDArray[np.uint64]:
    """Return base^0 .. base^(count-1) modulo a power of two up to 2^32, by doubling."""
    powers = np.ones(1, dtype=np.uint64)
    while len(powers) < count:
        powers = np.concatenate([powers, powers * np.uint64(pow(base, len(powers), modulus)) % np.uint64(modulus)])
    return powers[:count]


def randu(seed: int, n: int, start: int, count: int) -> Decks:
    """IBM's RANDU, x -> 65539 x mod 2^31, scaled by its high bits: any three in a row lie on fifteen planes."""
    modulus, draws = 1 << 31, n - 1
    first = (2 * seed + 1) * pow(65539, start * draws + 1, modulus) % modulus
    stream = _powers(65539, count * draws, modulus) * np.uint64(first) % np.uint64(modulus)
    words = (stream.reshape(count, draws).T << np.uint64(1)).astype(np.uint32)
    return _swapped(n, count, ((n - 1 - k, _below(words[k], n - k)) for k in range(draws)))


def ansi_low_bits(seed: int, n: int, start: int, count: int) -> Decks:
    """ANSI C's x -> 1103515245 x + 12345 mod 2^31 modulo m: low bits of short period."""
    modulus, draws, a, c = 1 << 31, n - 1, 1103515245, 12345
    # x_k = a^k x_0 + c (a^k - 1)/(a - 1); the division is exact modulo (a - 1) 2^31.
    index = start * draws + 1
    series = (pow(a, index, (a - 1) * modulus) - 1) // (a - 1)
    first = (pow(a, index, modulus) * seed + c * series) % modulus
    powers = _powers(a, count * draws, modulus)
    # sum of the powers before each: c (1 + a + .. + a^(k-1)).
    sums = np.concatenate([[np.uint64(0)], np.cumsum(powers, dtype=np.uint64)[:-1]]) % np.uint64(modulus)
    stream = (powers * np.uint64(first) + sums * np.uint64(c)) % np.uint64(modulus)
    drawn = stream.reshape(count, draws).T.astype(np.int64)
    return _swapped(n, count, ((n - 1 - k, drawn[k] % (n - k)) for k in range(draws)))


def asf_1999(seed: int, n: int, start: int, count: int) -> Decks:
    """A card site of 1999: seeded by the millisecond of the day, Random(n - 1), n swaps (Arkin and others, 1999)."""
    milliseconds = _below(_words(seed, start, count, 1)[0], 86_400_000)
    state = milliseconds.astype(np.uint32)

    def swaps() -> Iterable[tuple[int, NDArray[np.int64]]]:
        nonlocal state
        for i in range(n):
            state = state * np.uint32(134775813) + np.uint32(1)
            yield i, _below(state, n - 1)

    return _swapped(n, count, swaps())


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the output function of SplitMix64, a good mixer."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def seed_of_32_bits(seed: int, n: int, start: int, count: int) -> Decks:
    """A good shuffle from a fresh seed of only 32 bits for each deck."""
    seeds = _words(seed, start, count, 1)[0].astype(np.uint64) << np.uint64(32)

    def swaps() -> Iterable[tuple[int, NDArray[np.int64]]]:
        for i in range(n - 1, 0, -1):
            yield i, _below((_mixed(seeds + np.uint64(i)) >> np.uint64(32)).astype(np.uint32), i + 1)

    return _swapped(n, count, swaps())


def mersenne_twister_reseeded(seed: int, n: int, start: int, count: int) -> Decks:
    """MT19937 seeded with 32 bits for each deck (init_genrand), its first n - 1 outputs."""
    size, middle = 624, 397
    needed = min(size, middle + n)
    state = np.empty((needed, count), dtype=np.uint32)
    state[0] = _words(seed, start, count, 1)[0]
    for k in range(1, needed):
        state[k] = np.uint32(1812433253) * (state[k - 1] ^ (state[k - 1] >> np.uint32(30))) + np.uint32(k)

    def output(k: int) -> Words:
        joined = (state[k] & np.uint32(0x80000000)) | (state[k + 1] & np.uint32(0x7FFFFFFF))
        word = state[k + middle] ^ (joined >> np.uint32(1)) ^ (joined & np.uint32(1)) * np.uint32(0x9908B0DF)
        word = word ^ (word >> np.uint32(11))
        word = word ^ ((word << np.uint32(7)) & np.uint32(0x9D2C5680))
        word = word ^ ((word << np.uint32(15)) & np.uint32(0xEFC60000))
        tempered: Words = word ^ (word >> np.uint32(18))
        return tempered

    return _swapped(n, count, ((n - 1 - k, _below(output(k), n - k)) for k in range(n - 1)))


def mersenne_twister_bits(seed: int, _size: int, start: int, count: int) -> NDArray[np.uint8]:
    """The raw output of one well-seeded MT19937, 32 bits a word, most significant first."""
    generator = np.random.MT19937(seed)
    first, last = start // 4, -(-(start + count) // 4)
    # No random access: what comes before is made and dropped, a piece at a time.
    for at in range(0, first, 1 << 20):
        generator.random_raw(min(1 << 20, first - at), output=False)
    words = generator.random_raw(last - first).astype(">u4")
    return words.view(np.uint8)[start - 4 * first :][:count]


Maker = Callable[[int, int, int, int], Items]
"""Takes seed, size (m, n or sequence length), index of the first item and number of items; returns the items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """A built-in generator and what the battery must find in it.

    Attributes:
        name: as in ``--source generator:NAME``.
        title: what it does.
        makes: by kind of sample, the function that makes its items.
        caught_at: decks (bytes for bits) at which it must fail; None for one that must not.
        caught_by: ids of results that must then have P below 1e-6.
        unseen_by: ids of results that must not, being blind to its fault.
        largest_deck: it makes decks up to this size.
    """

    name: str
    title: str
    makes: dict[Kind, Maker]
    caught_at: int | None = None
    caught_by: tuple[str, ...] = ()
    unseen_by: tuple[str, ...] = ()
    largest_deck: int = 1020


def _decks(maker: Callable[[int, int, int, int], Any]) -> dict[Kind, Maker]:
    return {Kind.SHUFFLES: maker}


TABLE: Final = "shuffles.position-card/table"
CYCLES: Final = "shuffles.cycles"
FIXED: Final = "shuffles.fixed-points"
INVERSIONS: Final = "shuffles.inversions"
LONGEST: Final = "shuffles.increasing-subsequence"
DESCENTS: Final = "shuffles.descents"
ADJACENCY: Final = "shuffles.adjacency"
DUPLICATES: Final = "shuffles.duplicates"

GENERATORS: Final = (
    Generator(
        name="good",
        title="Good: the protocol's rules on AES-256 in counter mode",
        makes={Kind.BITS: good_bits, Kind.NUMBERS: good_numbers, Kind.SHUFFLES: good_decks},
    ),
    Generator(
        name="swaps-with-all",
        title=str(swaps_with_all.__doc__),
        makes=_decks(swaps_with_all),
        caught_at=1000,
        caught_by=(TABLE, INVERSIONS, LONGEST),
        unseen_by=(DUPLICATES,),
    ),
    Generator(
        name="sattolo",
        title=str(sattolo.__doc__),
        makes=_decks(sattolo),
        caught_at=1000,
        caught_by=(FIXED, CYCLES, TABLE),
        unseen_by=(DESCENTS,),
    ),
    Generator(
        name="stops-one-early",
        title=str(stops_one_early.__doc__),
        makes=_decks(stops_one_early),
        caught_at=1000,
        caught_by=(CYCLES,),
        unseen_by=(INVERSIONS, LONGEST, DESCENTS),
    ),
    Generator(
        name="byte-modulo",
        title=str(byte_modulo.__doc__),
        makes=_decks(byte_modulo),
        caught_at=10_000,
        caught_by=(TABLE, INVERSIONS),
        unseen_by=(ADJACENCY, "shuffles.deck-to-deck/lag-1"),
        largest_deck=256,
    ),
    Generator(
        name="word-modulo",
        title=f"{word_modulo.__doc__} Its bias needs 3.3e8 decks; exhausting its 65,536 words shows it at once.",
        makes=_decks(word_modulo),
    ),
    Generator(
        name="randu",
        title=str(randu.__doc__),
        makes=_decks(randu),
        caught_at=1_000_000,
        caught_by=(ADJACENCY,),
    ),
    Generator(
        name="ansi-low-bits",
        title=str(ansi_low_bits.__doc__),
        makes=_decks(ansi_low_bits),
        caught_at=1000,
        caught_by=(TABLE, LONGEST),
        unseen_by=(),
    ),
    Generator(
        name="asf-1999",
        title=str(asf_1999.__doc__),
        makes=_decks(asf_1999),
        caught_at=1000,
        caught_by=(TABLE, CYCLES),
    ),
    Generator(
        name="seed-of-32-bits",
        title=str(seed_of_32_bits.__doc__),
        makes=_decks(seed_of_32_bits),
        caught_at=1_000_000,
        caught_by=(DUPLICATES,),
        unseen_by=(TABLE, CYCLES, FIXED, INVERSIONS, LONGEST, DESCENTS, ADJACENCY),
    ),
    Generator(
        name="mersenne-twister-reseeded",
        title=str(mersenne_twister_reseeded.__doc__),
        makes=_decks(mersenne_twister_reseeded),
        caught_at=300_000,
        caught_by=(DUPLICATES,),
        unseen_by=(TABLE, CYCLES, FIXED, INVERSIONS, LONGEST, DESCENTS, ADJACENCY),
        largest_deck=227,
    ),
    Generator(
        name="random-comparator",
        title=str(random_comparator.__doc__),
        makes=_decks(random_comparator),
        caught_at=1000,
        caught_by=(TABLE, INVERSIONS, DESCENTS),
    ),
    Generator(
        name="mersenne-twister",
        title=str(mersenne_twister_bits.__doc__),
        makes={Kind.BITS: mersenne_twister_bits},
        caught_at=4 * 45_000,
        caught_by=("bits.structure.lane-complexity",),
    ),
)
