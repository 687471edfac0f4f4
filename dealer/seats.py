"""The seats of a table: who sits there with how many chips, and whether he wants to be dealt in."""

from dataclasses import asdict, dataclass
from typing import Any

from dealer.blinds import Chair, Owes


@dataclass(slots=True)
class Seat:
    """A taken seat.

    ``stack`` are the chips before the hand that is being played; `dealer.state.Hand` has those of the hand. ``posts``:
    come in by posting what is owed. ``folds``: has left or sat out in this hand and folds in turn. ``asks_each_hand``:
    must say "I play" for every hand (CC-1).
    """

    seat: int
    player: str
    stack: int
    owes: Owes = Owes.NOTHING
    sits_out: bool = False
    posts: bool = False
    asks_each_hand: bool = False
    folds: bool = False
    leaving: bool = False
    connected: bool = True

    @property
    def ready(self) -> bool:
        """Say whether he is to be dealt into the next hand, as far as it depends on him."""
        return not self.sits_out and not self.leaving and self.stack > 0

    @property
    def chair(self) -> Chair:
        """Return the seat as the blinds see it."""
        return Chair(self.seat, self.ready, self.owes, self.posts)

    def written(self) -> dict[str, Any]:
        """Return the seat as a JSON object."""
        return {**asdict(self), "owes": self.owes.value}

    @classmethod
    def read(cls, written: dict[str, Any]) -> "Seat":
        """Return the seat that `written` gave."""
        return cls(**{**written, "owes": Owes(written["owes"])})
