"""Reading samples: each format gives the same items, and what is wrong is told with its offset."""

import io
from pathlib import Path

import numpy as np
import pytest

from stats_tests.catalogue import Kind
from stats_tests.known_bad import GENERATORS
from stats_tests.samples import (
    BinaryFile,
    Format,
    GeneratorSource,
    SampleError,
    StreamSource,
    generator_named,
    open_source,
)


def read(source: object) -> np.ndarray:
    return np.concatenate(list(source.items(0, None)))


def written(folder: Path, content: bytes) -> str:
    path = folder / "sample"
    path.write_bytes(content)
    return f"file:{path}"


DECK = bytes([3, 1, 0, 2])
GOOD_FILES = [
    # format, size, content, items
    (Format.RAW, 0, b"\x00\xa5", [0, 0xA5]),
    (Format.ASCII_BITS, 0, b"1010 0101\r\n1111\t0000", [0xA5, 0xF0]),
    (Format.ASCII_BITS, 0, b"1010010111", [0xA5]),
    (Format.DIEHARDER, 0, b"# x\ntype: d\ncount: 2\nnumbit: 32\n4294967295\n 256\n", [255, 255, 255, 255, 0, 0, 1, 0]),
    (Format.DIEHARDER, 0, b"type: d\ncount: 4\nnumbit: 2\n1\n2\n3\n0\n", [0b01101100]),
    (Format.NUMBERS, 49, b"1 48\n\n0", [1, 48, 0]),
    (Format.NUMBERS, 7, b"5 " * 700_000 + b"6", [5] * 700_000 + [6]),
    (Format.NUMBERS_U64, 300, bytes([0] * 6 + [1, 2]), [258]),
    (Format.DECKS_U8, 4, DECK + DECK, [[3, 1, 0, 2], [3, 1, 0, 2]]),
    (Format.DECKS_U16, 4, bytes([0, 3, 0, 1, 0, 0, 0, 2]), [[3, 1, 0, 2]]),
    (Format.DECKS_TEXT, 4, b"# a deck\n3 1 0 2\n3,1,0,2\n", [[3, 1, 0, 2], [3, 1, 0, 2]]),
]


@pytest.mark.parametrize(("format_", "size", "content", "items"), GOOD_FILES)
def test_a_file_and_a_stream_give_the_same_items(
    tmp_path: Path, format_: Format, size: int, content: bytes, items: list
) -> None:
    from_file = read(open_source(written(tmp_path, content), format_, size))
    from_stream = read(StreamSource("stdin", format_, size, lambda: io.BytesIO(content)))
    assert from_file.tolist() == from_stream.tolist() == items


def test_cards_may_have_names(tmp_path: Path) -> None:
    names = [f"{rank}{suit}" for rank in "23456789TJQKA" for suit in "cdhs"]
    decks = " ".join(reversed(names)) + "\n" + " ".join(names)
    assert read(open_source(written(tmp_path, decks.encode()), Format.DECKS_TEXT, 52)).tolist() == [
        list(range(51, -1, -1)),
        list(range(52)),
    ]
    stripped = " ".join(names[20:])
    assert read(open_source(written(tmp_path, stripped.encode()), Format.DECKS_TEXT, 32)).tolist() == [list(range(32))]


BAD_FILES = [
    # format, size, content, what the message says
    (Format.ASCII_BITS, 0, b"1010" * 300_000 + b"2", "byte offset 1200000: '2' is neither 0 nor 1"),
    (Format.ASCII_BITS, 0, b"10\x00\xff", "byte offset 2: '\\\\x00' is neither 0 nor 1"),
    (Format.DECKS_U8, 4, DECK + b"\x00\x01", "byte offset 4: the file ends within an item"),
    (
        Format.DECKS_U8,
        4,
        DECK * 3 + b"\x01\x01\x02\x03",
        "byte offset 13: card 2 of deck 4 is 1, which the deck holds already",
    ),
    (Format.DECKS_U8, 4, DECK + b"\x01\x00\x02\x04", "byte offset 7: card 4 of deck 2 is 4; 4 cards are numbered 0..3"),
    (Format.DECKS_U8, 4, b"text in a binary file!! ", "byte offset 0: card 1 of deck 1 is 116"),
    (Format.DECKS_U8, 52, DECK * 13, "byte offset 4: card 5 of deck 1 is 3, which the deck holds already"),
    (Format.DECKS_U16, 4, bytes([0, 3, 0, 1, 1, 0, 0, 2]), "byte offset 4: card 3 of deck 1 is 256"),
    (Format.NUMBERS_U64, 10, bytes(7) + b"\x09" + bytes(7) + b"\x0a", r"byte offset 8: 10 is not in the range 0\.\.9"),
    (Format.NUMBERS, 10, b"1 2 3\n4 12", r"byte offset 8: 12 is not in the range 0\.\.9"),
    (Format.NUMBERS, 10, b"1 # 2", "byte offset 2: '#' is no number"),
    (Format.NUMBERS, 10, b"1 " + b"7" * 2_000_000, "byte offset 2: '7+' is no number"),
    (Format.NUMBERS, 10, b"1 -2", "byte offset 2: '-2' is no number"),
    (Format.DECKS_TEXT, 3, b"0 1 2\n0 1\n", "byte offset 6, line 2: deck 2 has 2 cards instead of 3"),
    (Format.DECKS_TEXT, 3, b"0 1 2\n0 1 x\n", "byte offset 10, line 2, column 5: card 3 of deck 2 is 'x'"),
    (
        Format.DECKS_TEXT,
        3,
        b"0 1 2\n1 2 3\n",
        r"byte offset 10, line 2, column 5: card 3 of deck 2 is '3', not a card number 0\.\.2",
    ),
    (
        Format.DECKS_TEXT,
        3,
        b"# a\r\n0 1 2\r\n1, 2, 2\r\n",
        "byte offset 18, line 3, column 7: card 3 of deck 2 is '2', which the",
    ),
    (Format.DECKS_TEXT, 3, b"0 1 2\n" + b"7" * 70_000, "byte offset 6, line 2: a line is longer than 65536 bytes"),
    (Format.DECKS_TEXT, 52, b"\x00\x01\x02\xff", "byte offset 0, line 1: deck 1 has 1 cards instead of 52"),
    (Format.DECKS_TEXT, 3, b"\xef\xbb\xbf0 1 2\n", "line 1, column 1: card 1 of deck 1 is .* .a byte order mark"),
    (Format.ASCII_BITS, 0, b"\x1f\x8b\x08", "byte offset 0: .* .the beginning of gzip data"),
    (Format.NUMBERS, 10, b"\xff\xfe1\x00", "byte offset 0: .* .the beginning of UTF-16"),
    (Format.NUMBERS, 10, b"1 nan", "byte offset 2: 'nan' is no number"),
    (Format.NUMBERS, 10, b"1 2.5", "byte offset 2: '2.5' is no number"),
    (Format.DIEHARDER, 0, b"1\n2\n", "byte offset 0: before the first number the header must say"),
    (Format.DIEHARDER, 0, b"type: d\ncount: 3\nnumbit: 65\n1\n", "byte offset 28: the header must give numbit"),
    (Format.DIEHARDER, 0, b"type: d\ncount: 3\nnumbit: 8\n1\n2\n", "promises 3 numbers, the file holds 2"),
    (Format.DIEHARDER, 0, b"type: d\ncount: " + b"9" * 5000 + b"\nnumbit: 8\n1\n", "the header must give count"),
    (Format.DIEHARDER, 0, b"type: d\ncount: 1\nnumbit: 8\n1\nnumbit: 99\n", "'numbit: 99' is no number"),
    (Format.DIEHARDER, 0, b"type: d\ncount: 1\nnumbit: 8\n256\n", "byte offset 27: 256 is not in the range"),
]


@pytest.mark.parametrize(("format_", "size", "content", "message"), BAD_FILES)
def test_what_is_wrong_is_told_with_its_offset(
    tmp_path: Path, format_: Format, size: int, content: bytes, message: str
) -> None:
    with pytest.raises(SampleError, match=message):
        read(open_source(written(tmp_path, content), format_, size))


@pytest.mark.parametrize(
    ("format_", "size", "message"),
    [
        (Format.DECKS_U8, 0, "--n: must be 2..256"),
        (Format.DECKS_U8, 257, "--n: must be 2..256"),
        (Format.DECKS_U16, 1021, "--n: must be 2..1020"),
        (Format.DECKS_TEXT, 1, "--n: must be 2..1020"),
        (Format.NUMBERS, 1, "--range: must be"),
        (Format.NUMBERS_U64, 2**53, "--range: must be"),
    ],
)
def test_sizes_out_of_range_are_refused(tmp_path: Path, format_: Format, size: int, message: str) -> None:
    with pytest.raises(SampleError, match=message):
        open_source(written(tmp_path, b""), format_, size)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(SampleError, match="nowhere: there is no such file"):
        open_source("file:nowhere", Format.RAW, 0)


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.name)
def test_a_generator_gives_each_stretch_of_its_stream_alone(generator: object) -> None:
    for kind, size in ((Kind.BITS, 0), (Kind.NUMBERS, 1000), (Kind.SHUFFLES, 52), (Kind.SHUFFLES, 7)):
        if kind in generator.makes:
            source = GeneratorSource(generator, kind, size, seed=5)
            whole = np.concatenate(list(source.items(0, 100)))
            stretches = [np.concatenate(list(source.items(a, b))) for a, b in ((0, 1), (1, 33), (33, 100))]
            assert np.concatenate(stretches).tolist() == whole.tolist()
            other = np.concatenate(list(GeneratorSource(generator, kind, size, seed=6).items(0, 100)))
            assert other.tolist() != whole.tolist()
            if kind is Kind.SHUFFLES:
                assert (np.sort(whole, axis=1) == np.arange(size)).all()


def test_the_linear_generators_are_the_published_ones() -> None:
    # x -> 65539 x: 65539, 393225, 1769499 from 1; and MT19937's first outputs for seed 5489 by NumPy.
    randu = generator_named("randu").makes[Kind.SHUFFLES]
    x, deck = 65539, list(range(4))
    for i in (3, 2, 1):
        j = (x << 1) * (i + 1) >> 32
        deck[i], deck[j] = deck[j], deck[i]
        x = x * 65539 % 2**31
    assert randu(0, 4, 0, 1)[0].tolist() == deck

    ansi = generator_named("ansi-low-bits").makes[Kind.SHUFFLES]
    x, decks = 9, []
    for _ in range(5):
        deck = list(range(6))
        for i in range(5, 0, -1):
            x = (x * 1103515245 + 12345) % 2**31
            j = x % (i + 1)
            deck[i], deck[j] = deck[j], deck[i]
        decks.append(deck)
    assert ansi(9, 6, 2, 3).tolist() == decks[2:]


def test_the_reseeded_mersenne_twister_is_the_published_one() -> None:
    from stats_tests.known_bad import _words

    seeds = _words(3, 0, 4, 1)[0]
    decks = generator_named("mersenne-twister-reseeded").makes[Kind.SHUFFLES](3, 52, 0, 4)
    for seed, deck in zip(seeds, decks, strict=True):
        words = np.random.RandomState(int(seed)).randint(0, 2**32, 51, dtype=np.uint32)
        expected = list(range(52))
        for i, word in zip(range(51, 0, -1), words, strict=True):
            j = int(word) * (i + 1) >> 32
            expected[i], expected[j] = expected[j], expected[i]
        assert deck.tolist() == expected


def test_a_file_that_shrinks_while_it_is_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "decks"
    path.write_bytes(DECK * 600_000)
    source = BinaryFile(path, Format.DECKS_U8, 4)
    items = source.items(0, None)
    next(items)
    path.write_bytes(DECK)
    with pytest.raises(SampleError, match="became shorter"):
        list(items)
