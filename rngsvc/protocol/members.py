"""How the members of our JSON objects are read and written: one accepted spelling for each value.

A codec turns a value as `json` gives it (int, str, list) into the value the program works with, or raises
MalformedError naming the member; and back. Integers are plain and bounded, bytes are lower-case hex, words come from
a list, and there is neither null nor a float anywhere. Nothing here knows what the members mean.
"""

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, Generic, TypeVar

from rngsvc.protocol.errors import MalformedError

T = TypeVar("T")


class Codec(ABC, Generic[T]):
    """How one member is spelled."""

    @abstractmethod
    def read(self, value: object, field: str) -> T:
        """Return what ``value`` stands for; MalformedError naming ``field`` if it is not spelled so."""

    @abstractmethod
    def write(self, value: T) -> Any:
        """Return ``value`` as `json` writes it."""

    def text(self, value: T) -> str:
        """Return ``value`` as canonical JSON text."""
        return json.dumps(self.write(value))


@dataclasses.dataclass(frozen=True)
class Integer(Codec[int]):
    """A whole number from ``low`` to ``high``."""

    low: int
    high: int

    def read(self, value: object, field: str) -> int:
        """Refuse anything but an int in range; a bool is none."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise MalformedError(field, f"must be an integer {self.low}..{self.high}")
        return value

    def write(self, value: int) -> int:
        """Return the number itself."""
        return value

    def text(self, value: int) -> str:
        """Return its digits."""
        return str(value)


@dataclasses.dataclass(frozen=True)
class Octets(Codec[bytes]):
    """``low`` to ``high`` bytes (exactly ``low`` without ``high``) in lower-case hex."""

    low: int
    high: int | None = None

    def read(self, value: object, field: str) -> bytes:
        """Refuse upper case, spaces and any other length."""
        high = self.low if self.high is None else self.high
        # bytes.fromhex alone would let spaces and capitals through.
        if (
            not isinstance(value, str)
            or len(value) % 2
            or not self.low <= len(value) // 2 <= high
            or not _HEX.issuperset(value)
        ):
            length = f"{self.low}" if high == self.low else f"{self.low}..{high}"
            raise MalformedError(field, f"must be {length} bytes in lower-case hex")
        return bytes.fromhex(value)

    def write(self, value: bytes) -> str:
        """Return lower-case hex."""
        return value.hex()

    def text(self, value: bytes) -> str:
        """Return it in quotes."""
        return f'"{value.hex()}"'


_HEX: Final = frozenset("0123456789abcdef")


@dataclasses.dataclass(frozen=True)
class Word(Codec[str]):
    """One of ``words``."""

    words: tuple[str, ...]

    def read(self, value: object, field: str) -> str:
        """Refuse a word that is not in the list."""
        if not isinstance(value, str) or value not in self.words:
            raise MalformedError(field, f"must be one of {', '.join(self.words)}")
        return value

    def write(self, value: str) -> str:
        """Return the word itself."""
        return value

    def text(self, value: str) -> str:
        """Return it in quotes; our words need no escapes."""
        return f'"{value}"'


@dataclasses.dataclass(frozen=True)
class Text(Codec[str]):
    """``low`` to ``high`` characters of printable ASCII, and those in ``besides``."""

    low: int
    high: int
    besides: str = ""

    def read(self, value: object, field: str) -> str:
        """Refuse other characters and lengths."""
        if (
            not isinstance(value, str)
            or not self.low <= len(value) <= self.high
            or not all(" " <= each <= "~" or each in self.besides for each in value)
        ):
            raise MalformedError(field, f"must be {self.low}..{self.high} printable ASCII characters")
        return value

    def write(self, value: str) -> str:
        """Return the text itself."""
        return value


@dataclasses.dataclass(frozen=True)
class Array(Codec[tuple[T, ...]]):
    """``low`` to ``high`` values of one kind."""

    item: Codec[T]
    low: int
    high: int

    def read(self, value: object, field: str) -> tuple[T, ...]:
        """Refuse anything but a list of that length; each item names its index."""
        if not isinstance(value, list) or not self.low <= len(value) <= self.high:
            raise MalformedError(field, f"must be an array of {self.low}..{self.high}")
        read = self.item.read
        return tuple([read(each, f"{field}[{i}]") for i, each in enumerate(value)])

    def write(self, value: Iterable[T]) -> list[Any]:
        """Return a list of the written items."""
        write = self.item.write
        return [write(each) for each in value]

    def text(self, value: Iterable[T]) -> str:
        """Return the items' texts in brackets."""
        return f"[{','.join(map(self.item.text, value))}]"


class Row(Codec[Any]):
    """A fixed row of values, each of its own kind; a tuple in the program, an array in JSON."""

    def __init__(self, *columns: Codec[Any]) -> None:
        self.columns = columns

    def read(self, value: object, field: str) -> tuple[Any, ...]:
        """Refuse anything but a list with one value for each column."""
        if not isinstance(value, list) or len(value) != len(self.columns):
            raise MalformedError(field, f"must be an array of {len(self.columns)}")
        return tuple(
            [
                column.read(each, f"{field}[{i}]")
                for i, (column, each) in enumerate(zip(self.columns, value, strict=True))
            ]
        )

    def write(self, value: Iterable[Any]) -> list[Any]:
        """Return a list of the written values."""
        return [column.write(each) for column, each in zip(self.columns, value, strict=True)]

    def text(self, value: Iterable[Any]) -> str:
        """Return the values' texts in brackets."""
        return f"[{','.join([column.text(each) for column, each in zip(self.columns, value, strict=True)])}]"


class Record(Codec[T]):
    """A JSON object that is read into a frozen dataclass whose fields were declared with `member`."""

    def __init__(self, kind: type[T]) -> None:
        self.kind: Any = kind

    def read(self, value: object, field: str) -> T:
        """Refuse a missing and an unknown member, each by name."""
        if not isinstance(value, dict):
            raise MalformedError(field, "must be an object")
        prefix = f"{field}." if field else ""
        codecs = members_of(self.kind)
        for name in value:
            if name not in codecs:
                raise MalformedError(f"{prefix}{_shown(name)}", "is not a member here")
        found: dict[str, Any] = {}
        for name, (codec, optional) in codecs.items():
            if name in value:
                found[name] = codec.read(value[name], f"{prefix}{name}")
            elif not optional:
                raise MalformedError(f"{prefix}{name}", "is missing")
        read: T = self.kind(**found)
        return read

    def write(self, value: T) -> dict[str, Any]:
        """Return an object without the members that do not apply (None)."""
        written = {}
        for name, (codec, _) in members_of(self.kind).items():
            each = getattr(value, name)
            if each is not None:
                written[name] = codec.write(each)
        return written


def member(codec: Codec[Any], *, optional: bool = False) -> Any:
    """Declare a dataclass field that is a JSON member spelled by ``codec``; an optional one is None where absent."""
    if optional:
        return dataclasses.field(default=None, metadata={"codec": codec})
    return dataclasses.field(metadata={"codec": codec})


@cache
def members_of(kind: type) -> Mapping[str, tuple[Codec[Any], bool]]:
    """Return for each member of the dataclass ``kind`` its codec and whether it may be absent."""
    return {
        each.name: (each.metadata["codec"], each.default is None)
        for each in dataclasses.fields(kind)
        if "codec" in each.metadata
    }


def load(text: str, field: str) -> object:
    """Parse JSON strictly: no duplicate member, no float, no NaN; MalformedError naming ``field``.

    For an entry ``field`` is empty: its members are named without it.
    """
    whole = field or "entry"

    def refuse_number(literal: str) -> object:
        raise MalformedError(whole, f"must hold integers only, not {literal[:20]}")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise MalformedError(f"{field}.{_shown(twice)}" if field else _shown(twice), "stands twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique, parse_float=refuse_number, parse_constant=refuse_number)
    except MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedError(whole, "must be JSON") from error


def _shown(name: str) -> str:
    """Return a member's name as it may stand in a message: somebody else chose it."""
    return ascii(name[:40])[1:-1]
