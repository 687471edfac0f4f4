"""Cards from the shuffle service: one hand's sealed shoe, opened street by street as the rules need it.

The client returns only what it has verified, so whatever comes from here is proven: each card was sealed at its place
before the first one was opened.
"""

from collections.abc import Iterable, Mapping

from dealer.cards import of_item
from dealer.hand import reshuffled, supply
from dealer.state import Hand, NeedCards, NeedShuffle
from dealer.stub import Location
from rngsvc import client
from rngsvc.client import CallFailed, Client, Opening, Unproven
from rngsvc.client.errors import NotFound


class CardsLost(Exception):
    """The next card cannot be had: the service is away or has stopped (AL-22)."""


class NotTrusted(CardsLost):
    """What the service answered does not show what it must: evidence, and no card of it is dealt any more."""


async def register(service: Client, table: bytes, auditor: tuple[bytes, bytes]) -> client.Table:
    """Return a table at the shuffle service: a sealed shoe, whose seeds only ``auditor`` can open after the close."""
    with _lost_cards():
        return await service.register_table(table, mode="shoe", reveal="escrow", auditor=auditor)


class SealedShoe:
    """The cards of one hand, from the reserve to the close. Every step may be repeated, after a crash too."""

    def __init__(self, hand: client.Hand) -> None:
        self._hand = hand

    @classmethod
    async def reserve(cls, table: client.Table) -> "SealedShoe":
        """Have the service commit itself to the table's next hand."""
        with _lost_cards():
            return cls(await table.reserve())

    @classmethod
    async def at(cls, table: client.Table, seq: int) -> "SealedShoe":
        """Return the shoe of hand ``seq``, reserved by now or long ago: so a dealer that was killed goes on."""
        with _lost_cards():
            try:
                return cls(await table.hand(seq))
            except NotFound:
                hand = await table.reserve()
        if hand.seq != seq:
            raise CardsLost(f"hand {hand.seq} was reserved where {seq} was due: somebody else uses this table")
        return cls(hand)

    @property
    def seq(self) -> int:
        """The hand's sequence number at its table."""
        return self._hand.seq

    @property
    def state(self) -> str:
        """`reserved`, `promised`, `sealed` or `closed`."""
        return self._hand.state

    @property
    def commitment(self) -> bytes:
        """What the service is bound to since the reserve, 32 bytes."""
        return self._hand.commitment

    @property
    def knows_its_shuffle(self) -> bool:
        """Say whether the first shuffle is sealed and its leaves are known to this process."""
        return bool(self._hand.shuffles) and self._hand.shuffles[0].leaves is not None

    @property
    def roots(self) -> tuple[bytes, ...]:
        """The sealed root of each shuffle, 32 bytes each."""
        return tuple(shuffle.root for shuffle in self._hand.shuffles)

    async def promise(self, promises: Mapping[bytes, bytes]) -> None:
        """Have the players' promises logged: contributor id -> promise."""
        with _lost_cards():
            await self._hand.promise(promises)

    async def seal(self, deck_size: int, seeds: Mapping[bytes, bytes]) -> None:
        """Have the deck shuffled with the seeds that came in time, and every place of it sealed."""
        with _lost_cards():
            await self._hand.seal(deck_size, seeds)

    async def answer(self, hand: Hand) -> Hand:
        """Return the hand with the cards or the shuffle that it waits for."""
        need = hand.awaits
        with _lost_cards():
            if isinstance(need, NeedCards):
                places = need.to_open()
                openings = await self._hand.open(need.k, places) if places else ()
                return supply(hand, [of_item(each.item, hand.deck_size) for each in openings])
            assert isinstance(need, NeedShuffle), "a hand that waits for a player wants nothing of the shoe"
            if need.k == len(self._hand.shuffles):
                await self._hand.reshuffle(need.locations)
            return reshuffled(hand)

    async def close(self, outcome: str = "complete", reason: str = "") -> None:
        """End the hand with its reveal: `complete`, or `aborted` with a reason."""
        with _lost_cards():
            await self._hand.close(outcome, reason)

    def receipt(self, seen: Iterable[Location] | None = None) -> bytes:
        """Return the hand's receipt with the openings of ``seen``; without it with all, for the house's own files."""
        return self._hand.receipt(seen=None if seen is None else [(k, p) for k, p in seen])

    async def reopen(self, locations: Iterable[Location]) -> None:
        """After a restart: learn all leaves and what was opened before again; nothing new is opened."""
        by_shuffle: dict[int, list[int]] = {}
        for k, p in locations:
            by_shuffle.setdefault(k, []).append(p)
        with _lost_cards():
            for shuffle in self._hand.shuffles:
                await self._hand.learn_leaves(shuffle.k)
            for k, places in by_shuffle.items():
                await self._hand.open(k, places)

    @property
    def openings(self) -> Mapping[tuple[int, int], Opening]:
        """Everything opened, as far as this process knows it, by shuffle and place."""
        return self._hand.openings

    async def draw(self, purpose: bytes, modulus: int) -> int:
        """Draw one number 0..modulus-1 instead of a shuffle."""
        with _lost_cards():
            (value,) = await self._hand.draw(purpose, modulus, 1)
        return value


class _lost_cards:  # noqa: N801  (used as a context manager, read as a verb)
    """Turn the client's errors into `CardsLost`; whatever else is raised is a defect of ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, Unproven):
            raise NotTrusted(f"the shuffle service's answer proves nothing: {error}") from error
        if isinstance(error, CallFailed):
            raise CardsLost(f"the shuffle service: {error}") from error
