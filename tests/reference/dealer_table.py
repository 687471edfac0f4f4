"""A second, slow model of button, blinds and clocks, written from `docs/table.md` and nothing else.

It knows no classes of the dealer. A table is a list of rows, one for each chair in clockwise order; every rule is a
numbered step over that list, as on the page.
"""

from dataclasses import dataclass


@dataclass
class Row:
    """One taken chair: what a person with a pencil would write down about it."""

    seat: int
    ready: bool
    debt: str  # "", "new", "MS", "ML"
    wants_to_post: bool


@dataclass
class Result:
    """One hand's blinds: money as (seat, kind), in no particular order."""

    button: int
    small: int | None
    bigs: list[int]
    dealt: set[int]
    money: set[tuple[int, str]]
    debts: dict[int, str]


def walk(start: int, seats: int) -> list[int]:
    """Every chair number once, beginning left of ``start``."""
    return [(start + step - 1) % seats + 1 for step in range(1, seats + 1)]


def strictly_between(first: int, last: int, seats: int) -> set[int]:
    found: set[int] = set()
    for seat in walk(first, seats):
        if seat == last:
            break
        found.add(seat)
    return found - {first}


def next_hand(  # noqa: C901, PLR0912, PLR0915  (one page, top to bottom)
    rows: list[Row], last: tuple[int, int | None, list[int]] | None, seats: int, drawn: int | None
) -> Result | None:
    """One hand by the page's rules 1 to 8."""
    debts = {row.seat: row.debt for row in rows}
    ready = {row.seat for row in rows if row.ready}
    if len(ready) < 2:
        return None

    def first_of(start: int, wanted: set[int]) -> int:
        return next(seat for seat in walk(start, seats) if seat in wanted)

    def usual(button: int, players: set[int]) -> tuple[int, int, list[int]]:
        one = first_of(button, players - {button})
        if len(players) == 2:
            return button, button, [one]
        return button, one, [first_of(one, players - {button, one})]

    # Rule 1.
    if last is None:
        assert drawn is not None
        for seat in ready:
            debts[seat] = ""
        return finish(rows, usual(drawn, ready), ready, debts)

    # Rule 2.
    if len([seat for seat in ready if debts[seat] == ""]) < 2:
        debts = dict.fromkeys(debts, "")
    clear = {seat for seat in ready if debts[seat] == ""}
    forgiven = dict(debts)

    # Rule 3.
    _, last_small, last_bigs = last
    heir = last_small if last_small is not None else last_bigs[0]
    button = heir
    went_past: set[int] = set()
    if heir not in clear:
        button = first_of(heir, clear)
        went_past = {button} | strictly_between(heir, button, seats)

    # Rule 4.
    due = last_bigs[-1]
    small: int | None = due if due in clear else None
    begin = due
    if due in went_past or due == button:
        small = begin = first_of(button, clear - {button})
    if debts.get(due) == "" and due not in ready:
        debts[due] = "MS"

    # Rule 5.
    bigs: list[int] = []
    taken = {row.seat for row in rows}
    for seat in walk(begin, seats):
        if seat == button or len(bigs) == (1 if small is not None else 2):
            break
        if seat not in taken:
            continue
        if seat in ready:
            bigs.append(seat)
            debts[seat] = ""
        elif debts[seat] in ("", "MS"):
            debts[seat] = "ML"

    # Rules 6 and 7.
    must_wait = strictly_between(button, begin, seats)
    if bigs:
        too_early = strictly_between(button, bigs[-1], seats)
        dealt = {seat for seat in clear if seat not in must_wait} | set(bigs)
        dealt |= {
            row.seat
            for row in rows
            if row.ready and row.wants_to_post and forgiven[row.seat] and row.seat not in too_early
        }
        if len(dealt) >= 3:
            return finish(rows, (button, small, bigs), dealt, debts)

    # Rule 8.
    players = clear - strictly_between(button, due, seats)
    if len(players) != 2:
        players = clear
    if len(players) > 2:
        return finish(rows, usual(button, players), players, forgiven)
    for candidate in [*last_bigs, last_small]:
        if candidate in players:
            holder = candidate
            break
    else:
        holder = first_of(last[0], players)
    assert holder is not None
    (other,) = players - {holder}
    return finish(rows, (holder, holder, [other]), players, forgiven)


def finish(
    rows: list[Row], places: tuple[int, int | None, list[int]], dealt: set[int], debts: dict[int, str]
) -> Result:
    """Write down who pays what (rule 7) and what is owed afterwards."""
    button, small, bigs = places
    money = {(seat, "big") for seat in bigs}
    if small is not None:
        money.add((small, "small"))
    after = dict(debts)
    owed = {"new": ["live"], "MS": ["dead"], "ML": ["live", "dead"], "": []}
    for row in rows:
        if row.seat in dealt and debts[row.seat]:
            money |= {(row.seat, kind) for kind in owed[row.debt]}
            after[row.seat] = ""
    return Result(button, small, bigs, dealt, money, after)


# --- Clocks: one row for each house, seconds as on the page.

CLOCKS = {
    # house: (to act, visible timer, back in time, out of time)
    "casino_club": (10, 0, 0, "check or fold"),
    "poker777": (10, 20, 20, "protected"),
    "limit_stud": (30, 0, 0, "check or fold"),
    "limit_stud_high_low": (30, 0, 0, "check or fold"),
    "pokerkings": (30, 0, 0, "check or fold"),
}


SHOW_S = 5  # to show or muck, in every house


def runs_out_at(house: str, asked_s: float, comings_back_s: list[float]) -> float:
    """When a decision's time ends, for a player who comes back after lost connections at these times."""
    act, timer, back, _ = CLOCKS[house]
    end = asked_s + act + timer
    for at in sorted(comings_back_s):
        if back and asked_s <= at < end:
            return end + back
    return end


# What becomes of a player who is out of time: the first row that fits, from the page and the houses' pages.
# (house protects, a protection is left, what he is asked for) -> what happens. "any" fits everything.
OUT_OF_TIME = [
    ("any", "any", "to show", ["mucked"]),
    ("any", "any", "to draw", ["stand_pat"]),
    (True, True, "the bring-in", ["bring_in", "protected"]),
    ("any", "any", "the bring-in", ["bring_in"]),
    (True, True, "any", ["protected"]),
    ("any", "any", "a bet or nothing", ["check"]),
    ("any", "any", "a bet to match", ["fold"]),
]


def out_of_time(house: str, protection_left: bool, asked_for: str) -> list[str]:
    """What the house does for a player whose time is over. The ante is always money in the pot (P7-8)."""
    protects = CLOCKS[house][3] == "protected"
    for row_protects, row_left, row_asked, happens in OUT_OF_TIME:
        if (
            row_protects in ("any", protects)
            and row_left in ("any", protection_left)
            and row_asked in ("any", asked_for)
        ):
            return list(happens)
    raise AssertionError("the last rows fit everything")
