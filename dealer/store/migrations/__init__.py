"""Numbered changes of a store's layout, a folder for each kind of store. A released script never changes."""

from importlib.resources import files

from dealer.store import StoreFailed


def layout_changes(kind: str, since: int) -> list[tuple[int, str]]:
    """Return number and SQL of what a store of layout ``since`` lacks. Raises StoreFailed if it is from the future."""
    scripts = sorted(each.name for each in files(__name__).joinpath(kind).iterdir() if each.name.endswith(".sql"))
    if since > len(scripts):
        raise StoreFailed(f"has the layout {since}, this dealer knows {len(scripts)}")
    return [
        (number, files(__name__).joinpath(kind, name).read_text())
        for number, name in enumerate(scripts, start=1)
        if number > since
    ]
