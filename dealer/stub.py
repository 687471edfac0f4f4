"""The undealt cards as places in shuffles. No card value is known here; a place stays sealed until it is opened."""

from typing import NamedTuple


class Location(NamedTuple):
    """Place ``p`` of the hand's shuffle ``k``, both counted from 0: what an opening or a reshuffle names."""

    k: int
    p: int


class Stub(NamedTuple):
    """The current shuffle, of which places are taken in order and none is skipped (DK-5)."""

    size: int
    k: int = 0
    place: int = 0
    # Places of earlier shuffles that no one will be dealt any more (CC-11 leaves the old stub aside).
    set_aside: int = 0

    @property
    def left(self) -> int:
        """Count of cards still to be dealt."""
        return self.size - self.place

    def take(self, count: int) -> "Stub":
        """Return the stub after the next ``count`` places went."""
        assert 0 <= count <= self.left, "the caller asks for a reshuffle first"
        return self._replace(place=self.place + count)

    def rest(self) -> tuple[Location, ...]:
        """Return the locations not yet dealt, lowest first."""
        return tuple(Location(self.k, p) for p in range(self.place, self.size))

    def reshuffled(self, count: int, *, rest_is_in_it: bool) -> "Stub":
        """Return the next shuffle, of ``count`` cards; what was left of this one is part of it or is set aside."""
        return Stub(size=count, k=self.k + 1, set_aside=self.set_aside + (0 if rest_is_in_it else self.left))
