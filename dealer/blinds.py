"""Who has the button and who posts what: the next hand of a house with blinds, from the last one and the seats.

Pure. The rules are PK-2 and PK-10 to PK-20; what the page leaves open is settled in `docs/table.md`. A house without a
button deals to everybody who is ready.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from dealer.events import Post, Posting
from dealer.house_rules import Button, HeadsUpButton, HouseRules, MissedBlinds, Newcomer, Stakes


class Owes(Enum):
    """What a seat owes before it is dealt in again; the values stand at the table as buttons."""

    NOTHING = ""
    NEWCOMER = "new"  # a live big blind, or the wait for his own (PK-11)
    MISSED_SMALL = "MS"  # a dead small blind (PK-13)
    MISSED_BIG = "ML"  # a dead small blind and a live big blind (PK-12)


class Chair(NamedTuple):
    """A taken seat before a hand: ``ready`` to be dealt in, and ``posts`` to come in now instead of waiting."""

    seat: int
    ready: bool
    owes: Owes = Owes.NOTHING
    posts: bool = False


class Blinds(NamedTuple):
    """Who had which place in a hand. ``small`` is None when nobody posted it; then there were two ``bigs`` (PK-13)."""

    button: int
    small: int | None
    bigs: tuple[int, ...]


class Deal(NamedTuple):
    """The next hand before a card is dealt: its ``dealt`` seats clockwise, ``posts`` in order, debts afterwards.

    ``posts`` is None where the rules of the game know by themselves what is posted.
    """

    blinds: Blinds | None
    dealt: tuple[int, ...]
    posts: tuple[Posting, ...] | None
    owes: Mapping[int, Owes]

    @property
    def button(self) -> int:
        """The seat of the button; 0 where there is none."""
        return self.blinds.button if self.blinds else 0


def next_deal(
    rules: HouseRules, stakes: Stakes, chairs: Sequence[Chair], last: Blinds | None, drawn: int | None = None
) -> Deal | None:
    """Return the next hand, or None while fewer than the house's fewest players are ready (AL-21).

    ``last`` are the places of the last hand; before the first one ``drawn`` is the seat that drew the button (PK-14).
    """
    ready = [chair.seat for chair in chairs if chair.ready]
    if len(ready) < rules.fewest_players:
        return None
    owes = {chair.seat: chair.owes for chair in chairs}
    match rules.button:
        case Button.NONE:
            return Deal(None, tuple(sorted(ready)), None, dict.fromkeys(owes, Owes.NOTHING))
        case Button.MOVES:
            pass
    if last is None:
        assert drawn in ready, "the button is drawn among those who are ready"
        # PK-14: no one present owes a newcomer's post.
        owes |= dict.fromkeys(ready, Owes.NOTHING)
        return _deal(rules, stakes, _from_the_button(rules, drawn, ready), ready, chairs, owes)
    if sum(owes[seat] is Owes.NOTHING for seat in ready) < 2:
        owes = dict.fromkeys(owes, Owes.NOTHING)  # PK-18
    clear = [seat for seat in ready if owes[seat] is Owes.NOTHING]
    found = _three_or_more(chairs, ready, clear, owes, last)
    if found is not None:
        blinds, dealt, owes = found
        return _deal(rules, stakes, blinds, dealt, chairs, owes)
    # Nobody is left to post a big blind between the blinds and the button. With two it is heads-up, where nobody misses
    # anything (PK-18); else the blinds begin again at the button's left.
    waiting = _between(_next_button(clear, last), last.bigs[-1])
    pair = [seat for seat in clear if seat not in waiting]
    if len(pair) != 2:
        pair = clear
    blinds = (
        _heads_up(rules, pair, last) if len(pair) == 2 else _from_the_button(rules, _next_button(clear, last), pair)
    )
    return _deal(rules, stakes, blinds, pair, chairs, owes)


def _after(seat: int, seats: Iterable[int]) -> list[int]:
    """Return seats clockwise, the first one left of ``seat`` first and ``seat`` itself last."""
    return sorted(seats, key=lambda other: (other <= seat, other))


class _between:  # noqa: N801  (reads as a question)
    """The seats strictly between two seats, clockwise."""

    def __init__(self, first: int, last: int) -> None:
        self._first = first
        self._last = last

    def __contains__(self, seat: int) -> bool:
        return seat not in (self._first, self._last) and _after(self._first, (seat, self._last))[0] == seat


def _next_button(clear: Sequence[int], last: Blinds) -> int:
    """Return who has the button: the last small blind, or after two big blinds the first of them (PK-10, PK-13).

    If he is gone it is the next active player to his left (PK-16). A marked player is passed over: who wants the button
    has paid his blinds.
    """
    due = last.bigs[0] if last.small is None else last.small
    return due if due in clear else _after(due, clear)[0]


def _three_or_more(
    chairs: Sequence[Chair], ready: Sequence[int], clear: Sequence[int], owes: Mapping[int, Owes], last: Blinds
) -> tuple[Blinds, list[int], dict[int, Owes]] | None:
    """Return places, dealt seats and debts of a hand between three or more; None if there are not as many."""
    after = dict(owes)
    button = _next_button(clear, last)
    # The last big blind is next to post the small one, unless the button came to him or went past him (PK-16).
    due = last.bigs[-1]
    was_due_the_button = last.bigs[0] if last.small is None else last.small
    passed = button == due or (button != was_due_the_button and due in _between(was_due_the_button, button))
    small: int | None
    if passed:
        small = begin = _after(button, clear)[0]
    else:
        small, begin = (due if due in clear else None), due
    absent = {chair.seat for chair in chairs if not chair.ready}
    if due in absent and after[due] is Owes.NOTHING:
        after[due] = Owes.MISSED_SMALL  # PK-13
    bigs: list[int] = []
    for seat in _after(begin, (chair.seat for chair in chairs)):
        if seat == button or len(bigs) == (2 if small is None else 1):
            break
        if seat in ready:
            bigs.append(seat)
            after[seat] = Owes.NOTHING  # his own big blind clears everything (PK-11, PK-17)
        elif after[seat] is not Owes.NEWCOMER:
            after[seat] = Owes.MISSED_BIG  # PK-12, PK-17
    if not bigs:
        return None
    # Who sits between the button and the blinds waits until the button has passed (PK-11, PK-12, PK-13, PK-15).
    waiting, blinds_end = _between(button, begin), _between(button, bigs[-1])
    comes_in = {chair.seat for chair in chairs if chair.ready and chair.posts and chair.seat not in blinds_end}
    dealt = [
        seat
        for seat in ready
        if seat in bigs or (seat in clear and seat not in waiting) or (seat in comes_in and seat not in clear)
    ]
    if len(dealt) < 3:
        return None
    return Blinds(button, small, tuple(bigs)), dealt, after


def _from_the_button(rules: HouseRules, button: int, dealt: Sequence[int]) -> Blinds:
    """Return the usual places: left of the button the small blind, next to it the big one (PK-2)."""
    others = _after(button, dealt)
    if len(dealt) == 2:
        return _pair(rules, button, others[0])
    return Blinds(button, others[0], (others[1],))


def _heads_up(rules: HouseRules, pair: Sequence[int], last: Blinds) -> Blinds:
    """Return the places between two: no one is the big blind twice running (PK-10, PK-15)."""
    had_a_blind = [seat for seat in (*last.bigs, last.small) if seat is not None and seat in pair]
    small = had_a_blind[0] if had_a_blind else _after(last.button, pair)[0]
    (big,) = (seat for seat in pair if seat != small)
    match rules.heads_up_button:
        case HeadsUpButton.SMALL_BLIND:
            return Blinds(small, small, (big,))
        case HeadsUpButton.BIG_BLIND:
            return Blinds(big, small, (big,))


def _pair(rules: HouseRules, button: int, other: int) -> Blinds:
    match rules.heads_up_button:
        case HeadsUpButton.SMALL_BLIND:
            return Blinds(button, button, (other,))
        case HeadsUpButton.BIG_BLIND:
            return Blinds(button, other, (button,))


def _deal(
    rules: HouseRules,
    stakes: Stakes,
    blinds: Blinds,
    dealt: Sequence[int],
    chairs: Sequence[Chair],
    owes: Mapping[int, Owes],
) -> Deal:
    """Return the hand with everything that is posted, the small blind first, then clockwise."""
    before = {chair.seat: chair.owes for chair in chairs}
    after = dict(owes)
    posts = [Posting(seat, Post.ANTE, stakes.ante) for seat in _after(blinds.button, dealt) if stakes.ante]
    if blinds.small is not None:
        posts.append(Posting(blinds.small, Post.SMALL_BLIND, stakes.small_blind))
    posts += [Posting(seat, Post.BIG_BLIND, stakes.big_blind) for seat in blinds.bigs]
    for seat in _after(blinds.bigs[-1], dealt):
        if after[seat] is Owes.NOTHING:
            continue
        # PK-19: of a short stack the live part is taken first.
        if before[seat] is not Owes.MISSED_SMALL:
            posts.append(Posting(seat, Post.LIVE_POST, stakes.big_blind))
        if before[seat] is not Owes.NEWCOMER:
            posts.append(Posting(seat, Post.DEAD, stakes.small_blind))
        after[seat] = Owes.NOTHING
    if rules.missed_blinds is MissedBlinds.NONE:
        after = {seat: debt if debt is Owes.NEWCOMER else Owes.NOTHING for seat, debt in after.items()}
    return Deal(blinds, tuple(_after(blinds.button, dealt)), tuple(posts), after)


def owed_on_sitting_down(rules: HouseRules) -> Owes:
    """Return what a newcomer owes (LS-10, PK-11)."""
    match rules.newcomer:
        case Newcomer.NEXT_HAND:
            return Owes.NOTHING
        case Newcomer.POSTS_A_LIVE_BIG_BLIND_OR_WAITS:
            return Owes.NEWCOMER
