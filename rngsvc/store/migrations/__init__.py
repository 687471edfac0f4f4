"""Numbered schema changes, one folder a kind of store; a file that has been released never changes."""

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Migration:
    """Script number ``number``."""

    number: int
    sql: str


def migrations_after(kind: str, version: int) -> list[Migration]:
    """Return what a store of this ``kind`` and schema ``version`` lacks; ValueError if it is newer than we know."""
    folder = resources.files(__name__) / kind
    scripts = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    if version > len(scripts):
        raise ValueError(f"the store has schema {version}, this version knows up to {len(scripts)}")
    return [Migration(number, script.read_text()) for number, script in enumerate(scripts[version:], version + 1)]
