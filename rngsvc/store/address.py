"""Where a PostgreSQL store lies, as one line of configuration says it."""

from typing import Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

DEFAULT_SCHEMA: Final = "rngsvc"


def split_address(address: str) -> tuple[str, str]:
    """Return the connection URI and the schema of ``postgresql://[user@]host[:port]/database[?schema=NAME]``.

    ValueError if it has a password (that belongs into PGPASSFILE or PGPASSWORD), or the schema's name is not plain.
    """
    parts = urlsplit(address)
    query = parse_qs(parts.query, keep_blank_values=True)
    schema = query.pop("schema", [DEFAULT_SCHEMA])[-1]
    if parts.password is not None:
        raise ValueError("must hold no password; use PGPASSFILE or PGPASSWORD")
    if not (schema.isascii() and schema.isidentifier() and schema.lower() == schema):
        raise ValueError("schema: must be a lower-case identifier")
    options = "&".join(f"{name}={value}" for name, values in query.items() for value in values)
    return urlunsplit(parts._replace(query=options)), schema
