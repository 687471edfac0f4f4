"""What players may do, and the refusal when they try something else."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from dealer.cards import names


class Act(StrEnum):
    """Everything a player can do in a hand."""

    FOLD = "fold"
    CHECK = "check"
    CALL = "call"
    BRING_IN = "bring_in"
    COMPLETE = "complete"
    BET = "bet"
    RAISE = "raise"
    DISCARD = "discard"
    STAND_PAT = "stand_pat"
    SHOW = "show"
    MUCK = "muck"


class Action(NamedTuple):
    """One player's act. ``to``: his total on this street after it (never by how much); ``cards``: his discards."""

    seat: int
    act: Act
    to: int | None = None
    cards: tuple[int, ...] = ()

    def __str__(self) -> str:
        to = "" if self.to is None else f" to {self.to}"
        cards = f" {names(self.cards)}" if self.cards else ""
        return f"seat {self.seat}: {self.act.value}{to}{cards}"


class Choice(NamedTuple):
    """One legal act of the player to act.

    For a bet of any kind ``lowest`` and ``highest`` bound the total on this street and ``adds`` is what ``lowest``
    costs; for a discard they bound the number of cards.
    """

    act: Act
    lowest: int = 0
    highest: int = 0
    adds: int = 0

    def __str__(self) -> str:
        match self.act:
            case Act.CALL | Act.BRING_IN | Act.COMPLETE | Act.BET | Act.RAISE:
                upto = "" if self.highest == self.lowest else f"..{self.highest}"
                return f"{self.act.value} to {self.lowest}{upto} (adds {self.adds})"
            case Act.DISCARD:
                return f"discard {self.lowest}..{self.highest} cards"
            case _:
                return self.act.value


class IllegalAction(Exception):
    """The act is not legal here; nothing has changed (AL-7). ``legal`` holds what the player to act may do."""

    def __init__(self, action: Action, why: str, to_act: int | None, legal: Sequence[Choice]) -> None:
        whose = "nobody is to act" if to_act is None else f"seat {to_act} may: " + ", ".join(map(str, legal))
        super().__init__(f"{action}: {why}; {whose}")
        self.action = action
        self.why = why
        self.to_act = to_act
        self.legal = tuple(legal)
