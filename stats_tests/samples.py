"""Where a sample comes from: files, standard input, built-in generators. The live service is in `stats_tests.live`.

A source gives its items in chunks, checked: numbers below the range, each deck a permutation. What is wrong with a
file is told with the byte offset at which it is wrong, and nothing is judged.
"""

import os
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stats_tests.accumulator import Items
from stats_tests.catalogue import LARGEST, Kind
from stats_tests.known_bad import GENERATORS, Generator
from stats_tests.shuffles.deck import Decks

CHUNK_BYTES: Final = 1 << 20
MOST_LINE_BYTES: Final = 1 << 16

RANKS: Final = "23456789TJQKA"
SUITS: Final = "cdhs"


class SampleError(ValueError):
    """The sample is not what its format promises; the message names the byte offset."""


class Format(StrEnum):
    """How items stand in a file."""

    RAW = "raw"
    """Bits: the bytes themselves, most significant bit first."""
    ASCII_BITS = "ascii-bits"
    """Bits: characters 0 and 1, white space between them ignored."""
    DIEHARDER = "dieharder"
    """Bits: dieharder's text file of numbers, header with type, count and numbit, one number a line."""
    NUMBERS = "numbers"
    """Numbers: decimal, separated by white space."""
    NUMBERS_U64 = "numbers-u64"
    """Numbers: eight bytes each, big-endian."""
    DECKS_TEXT = "decks-text"
    """Decks: one a line, card numbers 0..n-1 or, for 52, 36 and 32 cards, names like As; the first is dealt first."""
    DECKS_U8 = "decks-u8"
    """Decks: n bytes each, n <= 256."""
    DECKS_U16 = "decks-u16"
    """Decks: n numbers of two bytes each, big-endian."""


KIND_OF: Final[Mapping[Format, Kind]] = {
    Format.RAW: Kind.BITS,
    Format.ASCII_BITS: Kind.BITS,
    Format.DIEHARDER: Kind.BITS,
    Format.NUMBERS: Kind.NUMBERS,
    Format.NUMBERS_U64: Kind.NUMBERS,
    Format.DECKS_TEXT: Kind.SHUFFLES,
    Format.DECKS_U8: Kind.SHUFFLES,
    Format.DECKS_U16: Kind.SHUFFLES,
}


class Source(Protocol):
    """Something that a sample can be drawn from."""

    @property
    def kind(self) -> Kind:
        """What the items are."""

    @property
    def size(self) -> int:
        """The deck size n or the range m; 0 for bits."""

    @property
    def count(self) -> int | None:
        """How many items there are; None where only the end will tell."""

    @property
    def divisible(self) -> bool:
        """Whether any stretch can be read by itself, so that workers can share the work."""

    @property
    def renewable(self) -> bool:
        """Whether more can be drawn after a doubtful result."""

    @abstractmethod
    def items(self, start: int, stop: int | None) -> Iterator[Items]:
        """Yield items start..stop-1 in chunks; all that follow when `stop` is None.

        Raises:
            SampleError: the items are not what the format promises.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what a report says about where the sample came from."""


def binary_format(kind: Kind, size: int) -> Format:
    """Return the format in which items of a kind are stored and hashed."""
    match kind:
        case Kind.BITS:
            return Format.RAW
        case Kind.NUMBERS:
            return Format.NUMBERS_U64
        case Kind.SHUFFLES:
            return Format.DECKS_U8 if size <= 256 else Format.DECKS_U16


def item_bytes(format_: Format, size: int) -> int:
    """Return the bytes of one item in a binary format."""
    match format_:
        case Format.NUMBERS_U64:
            return 8
        case Format.DECKS_U8:
            return size
        case Format.DECKS_U16:
            return 2 * size
        case _:
            return 1


def to_bytes(items: Items) -> bytes:
    """Return items in their kind's binary format."""
    return items.astype(items.dtype.newbyteorder(">")).tobytes()


def from_bytes(raw: bytes, format_: Format, size: int, offset: int) -> Items:
    """Return whole items from a binary format, checked; `offset` is where `raw` begins, for messages."""
    width = item_bytes(format_, size)
    match KIND_OF[format_]:
        case Kind.BITS:
            return np.frombuffer(raw, dtype=np.uint8)
        case Kind.NUMBERS:
            numbers = np.frombuffer(raw, dtype=">u8").astype(np.uint64)
            _check_numbers(numbers, size, lambda item: f"byte offset {offset + width * item}")
            return numbers
        case Kind.SHUFFLES:
            cards = np.frombuffer(raw, dtype=np.uint8 if format_ is Format.DECKS_U8 else ">u2")
            decks = cards.astype(np.uint16).reshape(-1, size) if width > size else cards.reshape(-1, size)

            def described(deck: int, place: int) -> str:
                at, number = offset + width * deck + width // size * place, offset // width + deck + 1
                return f"byte offset {at}: card {place + 1} of deck {number} is {decks[deck, place]}"

            _check_decks(decks, described)
            return decks.astype(np.uint8) if size <= 256 else decks


def _check_numbers(numbers: NDArray[np.uint64], m: int, where: Callable[[int], str]) -> None:
    """Raise SampleError unless all are below m; `where` says where a number stands."""
    wrong = np.flatnonzero(numbers >= np.uint64(m))
    if len(wrong):
        first = int(wrong[0])
        raise SampleError(f"{where(first)}: {int(numbers[first])} is not in the range 0..{m - 1}")


def _check_decks(decks: Decks, described: Callable[[int, int], str]) -> None:
    """Raise SampleError unless each row is a permutation of 0..n-1; `described` says which card is where, and what."""
    count, n = decks.shape
    too_large = (decks >= n).any(axis=1)
    seen = np.zeros((count, n), dtype=bool)
    seen[np.arange(count)[:, None], np.where(too_large[:, None], 0, decks).astype(np.intp)] = True
    wrong = np.flatnonzero(too_large | ~seen.all(axis=1))
    if not len(wrong):
        return
    first = int(wrong[0])
    deck = decks[first].tolist()
    for place, card in enumerate(deck):
        if card >= n:
            raise SampleError(f"{described(first, place)}; {n} cards are numbered 0..{n - 1}")
        if card in deck[:place]:
            raise SampleError(f"{described(first, place)}, which the deck holds already")


@dataclass(frozen=True)
class GeneratorSource:
    """A built-in generator; its stream goes on as long as anybody asks."""

    generator: Generator
    kind: Kind
    size: int
    seed: int
    count: int | None = None
    divisible: bool = True
    renewable: bool = True

    def items(self, start: int, stop: int | None) -> Iterator[Items]:
        """Yield items start..stop-1."""
        assert stop is not None, "a generator is asked for a stretch that ends"
        make = self.generator.makes[self.kind]
        step = max(1, CHUNK_BYTES // item_bytes(binary_format(self.kind, self.size), self.size))
        for at in range(start, stop, step):
            yield make(self.seed, self.size, at, min(step, stop - at))

    def describe(self) -> dict[str, Any]:
        """Return name and seed."""
        return {"source": "generator", "name": self.generator.name, "seed": self.seed}


def generator_named(name: str) -> Generator:
    """Return a built-in generator; ValueError lists those that there are."""
    for generator in GENERATORS:
        if generator.name == name:
            return generator
    raise ValueError(f"no generator {name!r}; there are {', '.join(g.name for g in GENERATORS)}")


@dataclass(frozen=True)
class BinaryFile:
    """A file of items of equal size."""

    path: Path
    format: Format
    size: int
    divisible: bool = True
    renewable: bool = False

    @property
    def kind(self) -> Kind:
        """What the items are."""
        return KIND_OF[self.format]

    @property
    def count(self) -> int:
        """Whole items in the file."""
        return self.path.stat().st_size // item_bytes(self.format, self.size)

    def items(self, start: int, stop: int | None) -> Iterator[Items]:
        """Yield items start..stop-1."""
        width = item_bytes(self.format, self.size)
        length = self.path.stat().st_size
        if length % width:
            what = "decks" if self.kind is Kind.SHUFFLES else "numbers"
            whole = length // width * width
            raise SampleError(
                f"{self.path}: byte offset {whole}: the file ends within an item; its {length} bytes are no whole "
                f"number of {width}-byte {what}"
            )
        stop = length // width if stop is None else stop
        with self.path.open("rb") as file:
            file.seek(start * width)
            step = max(1, CHUNK_BYTES // width)
            for at in range(start, stop, step):
                wanted = (min(stop, at + step) - at) * width
                raw = file.read(wanted)
                if len(raw) < wanted:
                    raise SampleError(f"{self.path}: byte offset {at * width + len(raw)}: the file became shorter")
                try:
                    yield from_bytes(raw, self.format, self.size, at * width)
                except SampleError as error:
                    raise SampleError(f"{self.path}: {error}") from error

    def describe(self) -> dict[str, Any]:
        """Return name and format; the digest of the items is in the report anyhow."""
        return {"source": "file", "name": self.path.name, "format": str(self.format)}


@dataclass
class StreamSource:
    """A stream that can be read once, from its beginning: text files and standard input."""

    name: str
    format: Format
    size: int
    open: Any
    count: int | None = None
    divisible: bool = False
    renewable: bool = False
    left_over_bits: int = field(default=0, init=False)

    @property
    def kind(self) -> Kind:
        """What the items are."""
        return KIND_OF[self.format]

    def items(self, start: int, stop: int | None) -> Iterator[Items]:
        """Yield the items from the beginning."""
        assert start == 0, "a stream is read from its beginning"
        taken = 0
        with self.open() as file:
            try:
                for chunk in self._chunks(file):
                    if stop is not None and taken + len(chunk) >= stop:
                        yield chunk[: stop - taken]
                        return
                    taken += len(chunk)
                    yield chunk
            except SampleError as error:
                raise SampleError(f"{self.name}: {error}") from error

    def _chunks(self, file: BinaryIO) -> Iterator[Items]:
        match self.format:
            case Format.ASCII_BITS:
                yield from self._packed(_ascii_bits(file))
            case Format.DIEHARDER:
                yield from self._packed(_dieharder_bits(file))
            case Format.NUMBERS:
                yield from _decimal_numbers(file, self.size)
            case Format.DECKS_TEXT:
                yield from self._text_decks(file)
            case Format.RAW | Format.NUMBERS_U64 | Format.DECKS_U8 | Format.DECKS_U16:
                yield from self._binary(file)

    def _binary(self, file: BinaryIO) -> Iterator[Items]:
        width = item_bytes(self.format, self.size)
        at, held = 0, b""
        while read := file.read(CHUNK_BYTES):
            held += read
            whole = len(held) // width * width
            yield from_bytes(held[:whole], self.format, self.size, at)
            held, at = held[whole:], at + whole
        if held:
            raise SampleError(f"byte offset {at}: the stream ends within an item of {width} bytes")

    def _packed(self, bits: Iterator[NDArray[np.uint8]]) -> Iterator[Items]:
        """Pack bits into bytes; up to seven bits at the end do not fill one and are left out (and reported)."""
        held = np.empty(0, dtype=np.uint8)
        for chunk in bits:
            held = np.concatenate([held, chunk])
            whole = len(held) // 8 * 8
            yield np.packbits(held[:whole])
            held = held[whole:]
        self.left_over_bits = len(held)

    def _text_decks(self, file: BinaryIO) -> Iterator[Items]:
        lines: list[Line] = []
        before = 0
        for line in _lines(file):
            if line.text.strip() and not line.text.lstrip().startswith(b"#"):
                lines.append(line)
            if len(lines) >= 4096:
                yield _parse_decks(lines, self.size, before)
                before += len(lines)
                lines = []
        if lines:
            yield _parse_decks(lines, self.size, before)

    def describe(self) -> dict[str, Any]:
        """Return name and format."""
        description: dict[str, Any] = {"source": "stream", "name": Path(self.name).name, "format": str(self.format)}
        return description | ({"left_over_bits": self.left_over_bits} if self.left_over_bits else {})


def _ascii_bits(file: BinaryIO) -> Iterator[NDArray[np.uint8]]:
    at = 0
    while read := file.read(CHUNK_BYTES):
        characters = np.frombuffer(read, dtype=np.uint8)
        digits = (characters | 1) == ord("1")
        space = (characters == ord(" ")) | ((characters >= 9) & (characters <= 13))
        wrong = np.flatnonzero(~digits & ~space)
        if len(wrong):
            offset = int(wrong[0])
            raise SampleError(f"byte offset {at + offset}: {_shown(read[offset:], 1)} is neither 0 nor 1")
        yield characters[digits] & 1
        at += len(read)


class Line(NamedTuple):
    """A line of a text file.

    Attributes:
        number: counted from 1.
        offset: of its first byte in the file.
        text: with its end.
    """

    number: int
    offset: int
    text: bytes


def _lines(file: BinaryIO) -> Iterator[Line]:
    """Yield the lines; none is longer than `MOST_LINE_BYTES`."""
    number, at = 1, 0
    while text := file.readline(MOST_LINE_BYTES + 1):
        if len(text) > MOST_LINE_BYTES:
            raise SampleError(f"byte offset {at}, line {number}: a line is longer than {MOST_LINE_BYTES} bytes")
        yield Line(number, at, text)
        number, at = number + 1, at + len(text)


_HEADER: Final = re.compile(rb"\s*(type|count|numbit)\s*:\s*(\S+)\s*")


def _dieharder_bits(file: BinaryIO) -> Iterator[NDArray[np.uint8]]:
    header: dict[bytes, bytes] = {}
    numbers: list[tuple[int, bytes]] = []
    seen = 0
    for _, offset, text in _lines(file):
        stripped = text.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        if not seen and (match := _HEADER.fullmatch(text)):
            header[match[1]] = match[2]
            continue
        if not seen:
            _check_dieharder_header(offset, header)
        numbers.append((offset, stripped))
        seen += 1
        if len(numbers) >= 1 << 16:
            yield _bits_of_numbers(numbers, int(header[b"numbit"]))
            numbers = []
    if numbers:
        yield _bits_of_numbers(numbers, int(header[b"numbit"]))
    if b"count" in header and seen != int(header[b"count"]):
        raise SampleError(f"the header promises {int(header[b'count'])} numbers, the file holds {seen}")


def _check_dieharder_header(offset: int, header: Mapping[bytes, bytes]) -> None:
    if header.get(b"type") != b"d":
        raise SampleError(f"byte offset {offset}: before the first number the header must say 'type: d'")
    for name, most in ((b"count", 10**15), (b"numbit", 64)):
        value = header.get(name, b"")
        if not value.isdigit() or len(value) > len(str(most)) or not 1 <= int(value) <= most:
            raise SampleError(f"byte offset {offset}: the header must give {name.decode()} as 1..{most}")


def _bits_of_numbers(numbers: list[tuple[int, bytes]], numbit: int) -> NDArray[np.uint8]:
    values = _integers(numbers)
    _check_numbers(values, 1 << numbit, _places(numbers)) if numbit < 64 else None
    octets = values.astype(">u8").view(np.uint8).reshape(-1, 8)
    return np.unpackbits(octets, axis=1)[:, 64 - numbit :].ravel()


def _places(tokens: list[tuple[int, bytes]]) -> Callable[[int], str]:
    return lambda i: f"byte offset {tokens[i][0]}"


def _integers(tokens: list[tuple[int, bytes]]) -> NDArray[np.uint64]:
    for offset, token in tokens:
        if not token.isdigit() or len(token) > 20 or int(token) >= 1 << 64:
            raise SampleError(f"byte offset {offset}: {_shown(token)} is no number of 64 bits")
    return np.array([int(token) for _, token in tokens], dtype=np.uint64)


def _decimal_numbers(file: BinaryIO, m: int) -> Iterator[Items]:
    # By portions, not by lines: all numbers may stand in one.
    at, held = 0, b""
    while True:
        read = file.read(CHUNK_BYTES)
        held += read
        whole = len(held) if not read else max(held.rfind(space) for space in (b" ", b"\n", b"\t", b"\r")) + 1
        if read and len(held) - whole > MOST_LINE_BYTES:
            raise SampleError(f"byte offset {at + whole}: {_shown(held[whole:])} is no number of 64 bits")
        tokens = [(at + match.start(), match[0]) for match in re.finditer(rb"\S+", held[:whole])]
        numbers = _integers(tokens)
        _check_numbers(numbers, m, _places(tokens))
        yield numbers
        held, at = held[whole:], at + whole
        if not read:
            return


_CARD: Final = re.compile(rb"[^\s,]+")


def _parse_decks(lines: list[Line], n: int, before: int) -> Items:
    """Return the decks of some lines, checked; `before` decks stand in the lines before them."""
    rows = [_CARD.findall(line.text) for line in lines]
    for deck, (line, row) in enumerate(zip(lines, rows, strict=True), start=before + 1):
        if len(row) != n:
            where = f"byte offset {line.offset}, line {line.number}"
            raise SampleError(f"{where}: deck {deck} has {len(row)} cards instead of {n}")

    def described(deck: int, place: int) -> str:
        line = lines[deck]
        column = [match.start() for match in _CARD.finditer(line.text)][place]
        where = f"byte offset {line.offset + column}, line {line.number}, column {column + 1}"
        return f"{where}: card {place + 1} of deck {before + deck + 1} is {_shown(rows[deck][place])}"

    names = {
        f"{rank}{suit}".encode(): 4 * r + s - (52 - n) for r, rank in enumerate(RANKS) for s, suit in enumerate(SUITS)
    }
    named = n in {52, 36, 32} and rows[0][0] in names
    cards = np.empty((len(rows), n), dtype=np.uint8 if n <= 256 else np.uint16)
    for i, row in enumerate(rows):
        for place, token in enumerate(row):
            card = names.get(token, -1) if named else int(token) if token.isdigit() and len(token) <= 4 else -1
            if not 0 <= card < n:
                allowed = "one of its cards" if named else f"a card number 0..{n - 1}"
                raise SampleError(f"{described(i, place)}, not {allowed}")
            cards[i, place] = card
    _check_decks(cards, described)
    return cards


OTHER_FORMS: Final[Mapping[bytes, str]] = {
    b"\xef\xbb\xbf": "a byte order mark; save the file as plain ASCII",
    b"\xff\xfe": "the beginning of UTF-16; save the file as plain ASCII",
    b"\x1f\x8b": "the beginning of gzip data; unpack it and give it to --source stdin",
}
"""What files of text often turn out to be, by their first bytes."""


def _shown(raw: bytes, most: int = 32) -> str:
    """Return the first bytes as text; what gives another form of file away is named."""
    form = next((f" ({form})" for begin, form in OTHER_FORMS.items() if raw.startswith(begin)), "")
    return ascii(raw[:most].decode("latin-1")) + form


def open_source(location: str, format_: Format, size: int) -> Source:
    """Return the source that ``file:PATH`` or ``stdin`` names.

    A device or a pipe with a name is read as a stream.

    Raises:
        SampleError: there is no such file, it cannot be read, or the size is wrong for the format.
    """
    _check_size(format_, size)
    if location == "stdin":
        return StreamSource("stdin", format_, size, lambda: sys.stdin.buffer)
    path = Path(location.removeprefix("file:"))
    if not path.exists():
        raise SampleError(f"{path}: there is no such file")
    if path.is_dir():
        raise SampleError(f"{path}: is a directory, not a file")
    if not os.access(path, os.R_OK):
        raise SampleError(f"{path}: may not be read")
    if path.is_file() and format_ in {Format.RAW, Format.NUMBERS_U64, Format.DECKS_U8, Format.DECKS_U16}:
        return BinaryFile(path, format_, size)
    return StreamSource(str(path), format_, size, lambda: path.open("rb"))


def _check_size(format_: Format, size: int) -> None:
    match KIND_OF[format_]:
        case Kind.BITS:
            return
        case Kind.NUMBERS:
            if not 2 <= size <= LARGEST[Kind.NUMBERS]:
                raise SampleError(f"--range: must be 2..2^53-1 for format {format_}")
        case Kind.SHUFFLES:
            most = 256 if format_ is Format.DECKS_U8 else LARGEST[Kind.SHUFFLES]
            if not 2 <= size <= most:
                raise SampleError(f"--n: must be 2..{most} for format {format_}")
