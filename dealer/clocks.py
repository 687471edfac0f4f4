"""How long a player may think. Pure: the time comes in as milliseconds, and nothing here waits.

A house gives seconds to act and perhaps a visible timer after them (CC-12, P7-8, AL-5), a time to show or muck
(AL-19), and seconds to who comes back in time (P7-9).
"""

from typing import NamedTuple

from dealer.house_rules import Clock
from dealer.state import SHOWDOWN


class Turn(NamedTuple):
    """One player's time for one decision, all in ms since 1970.

    Until ``timer_ms`` only he is asked; from then on everybody sees the timer run to ``deadline_ms``. An action
    received before the deadline counts (AL-16). ``extended``: the time for coming back was given already (P7-9).
    """

    seat: int
    asked_ms: int
    timer_ms: int
    deadline_ms: int
    extended: bool = False

    def is_out(self, now_ms: int) -> bool:
        """Say whether his time is over."""
        return now_ms >= self.deadline_ms


def asked(clock: Clock, seat: int, street: str, now_ms: int) -> Turn:
    """Return the time of a player who is asked now."""
    if street == SHOWDOWN:
        deadline_ms = now_ms + 1000 * clock.show_s
        return Turn(seat, now_ms, deadline_ms, deadline_ms)
    timer_ms = now_ms + 1000 * clock.act_s
    return Turn(seat, now_ms, timer_ms, timer_ms + 1000 * clock.timer_s)


def reconnected(clock: Clock, turn: Turn, now_ms: int) -> Turn:
    """Return the time of a player who is back in time: moved once an action, where the house moves it (P7-9)."""
    if turn.extended or not clock.reconnect_s or turn.is_out(now_ms):
        return turn
    return turn._replace(deadline_ms=turn.deadline_ms + 1000 * clock.reconnect_s, extended=True)
