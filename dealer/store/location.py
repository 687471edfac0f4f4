"""Where a store lies, as one line of configuration says it: `sqlite:PATH`, `postgresql://...` or `memory:`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from dealer.store import Store
from dealer.store.memory import MemoryStore
from dealer.store.sqlite import SqliteStore

ALLOWED: Final = "must be sqlite:PATH, postgresql://[user@]host/database[?schema=NAME] or memory:"
DEFAULT_SCHEMA: Final = "dealer"


class ExtraMissing(Exception):
    """PostgreSQL's client is not installed."""

    def __init__(self) -> None:
        super().__init__("needs the extra: pip install 'sealed-shoe[postgres]'")


class Location(NamedTuple):
    """A SQLite file, a schema of a PostgreSQL database, or (without ``path`` and ``uri``) this process's memory."""

    path: Path | None = None
    uri: str = ""
    schema: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address. Raises ValueError, which says what is allowed; a password is refused."""
        scheme, _, rest = text.partition(":")
        if scheme == "sqlite" and rest:
            return cls(Path(rest))
        if scheme == "postgresql":
            return cls._parse_postgres(text)
        if text != "memory:":
            raise ValueError(ALLOWED)
        return cls()

    @classmethod
    def _parse_postgres(cls, text: str) -> Self:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = options.pop("schema", DEFAULT_SCHEMA)
        if parts.password is not None or "password" in options:
            raise ValueError("must hold no password; use PGPASSFILE or PGPASSWORD")
        if not schema.isascii() or not schema.isidentifier() or schema != schema.lower():
            raise ValueError("schema: must be a lower-case identifier")
        return cls(None, parts._replace(query=urlencode(options, safe="/")).geturl(), schema)

    def __str__(self) -> str:
        if self.uri:
            return f"{self.uri}{'&' if '?' in self.uri else '?'}schema={self.schema}"
        return f"sqlite:{self.path}" if self.path else "memory:"


def open_store(location: Location, lost: Callable[[str], object] = lambda _: None) -> Store:
    """Take a store, which is made if it is not there.

    ``lost`` is called with the reason, perhaps from another thread, when the store turns out to be gone for good.
    Raises StoreHeld, StoreUnreachable, another StoreFailed, or ExtraMissing.
    """
    if location.path:
        return SqliteStore(location.path, lost)
    if not location.uri:
        return MemoryStore()
    try:
        from dealer.store.postgres import PostgresStore  # noqa: PLC0415  (asyncpg is an extra)
    except ImportError:
        raise ExtraMissing from None
    return PostgresStore(location.uri, location.schema, lost)
