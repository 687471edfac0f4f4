"""What the members of a JSON document must be: small checks, put together to the form of the whole.

A check looks at every member once, at the edge, and names the first one that is wrong: `events[0].seat: is missing`.
"""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from dealer.house_rules import Form, Structure

MOST_CHIPS: Final = 2**53 - 1
MOST_SEAT: Final = 99
LONGEST_TEXT: Final = 200
MOST_ELEMENTS: Final = 1_000
# What stands for the document itself: its members are named without it.
WHOLE: Final = ("case", "history")

Check = Callable[[object, str], None]
"""Looks at a value and where it stands; raises ValueError if it is not what it must be there."""


def text(value: object, at: str) -> None:
    """Check a short string that is printed as it is."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.isprintable():
        raise ValueError(f"{at}: must be a string of 1..{LONGEST_TEXT} printable characters")


def string(value: object, at: str) -> None:
    """Check any string."""
    if not isinstance(value, str):
        raise ValueError(f"{at}: must be a string")


def flag(value: object, at: str) -> None:
    """Check true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{at}: must be true or false")


def whole(least: int, most: int = MOST_CHIPS) -> Check:
    """Return the check of an integer."""

    def check(value: object, at: str) -> None:
        # JSON's true and false are integers to Python.
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{at}: must be an integer {least}..{most}")

    return check


def word(words: Sequence[str]) -> Check:
    """Return the check of one of ``words``."""

    def check(value: object, at: str) -> None:
        if value not in words:
            raise ValueError(f"{at}: {reprlib.repr(value):.60} is not one of {', '.join(words)}")

    return check


def array(element: Check, least: int = 0, most: int = MOST_ELEMENTS) -> Check:
    """Return the check of an array whose elements all have one form."""

    def check(value: object, at: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ValueError(f"{at}: must be an array of {least}..{most} elements")
        for index, each in enumerate(cast("list[object]", value)):
            element(each, f"{at}[{index}]")

    return check


def _of_object(value: object, at: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{at}: must be an object")
    return cast("dict[str, object]", value)


def members(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Return the check of an object; members other than these are not looked at."""
    optional = optional or {}

    def check(value: object, at: str) -> None:
        found = _of_object(value, at)
        inside = f"{at}." if at not in WHOLE else ""
        for name, inner in needed.items():
            if name not in found:
                raise ValueError(f"{inside}{name}: is missing")
            inner(found[name], f"{inside}{name}")
        for name, inner in optional.items():
            if name in found:
                inner(found[name], f"{inside}{name}")

    return check


def only(optional: Mapping[str, Check]) -> Check:
    """Return the check of an object that may have these members and no others."""

    def check(value: object, at: str) -> None:
        for name in _of_object(value, at):
            word(tuple(optional))(name, at)
        members({}, optional)(value, at)

    return check


def exactly(needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Return the check of an object that has the needed members, may have the optional ones, and no others."""
    optional = optional or {}

    def check(value: object, at: str) -> None:
        members(needed)(value, at)
        only({**needed, **optional})(value, at)

    return check


def by_name(element: Check) -> Check:
    """Return the check of an object whose members, whatever their names, all have one form."""

    def check(value: object, at: str) -> None:
        for player, each in _of_object(value, at).items():
            element(each, f"{at}.{player}")

    return check


def check_stakes(stakes: Mapping[str, Any], form: Form, structure: Structure) -> None:
    """Check that the stakes have the bets that a game and its structure are played with."""
    needed = ["small_bet", "big_bet"] if structure is Structure.FIXED_LIMIT else []
    if form is Form.FIVE_CARD_DRAW:
        needed.append("big_blind")
    elif not needed:
        needed.append("small_bet")
    for name in needed:
        members({name: whole(1)})(stakes, "stakes")
    if stakes.get("bring_in", 0) >= stakes.get("small_bet", MOST_CHIPS):
        raise ValueError("stakes.bring_in: must be less than the small bet")
