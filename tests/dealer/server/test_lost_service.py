"""AL-22 with the clock in the test's hand: the shuffle service dies in a hand and does not come back."""

import asyncio
import time
from collections.abc import Callable

import pytest

from dealer.actions import Act
from dealer.card_room import CardRoom
from dealer.demo_service import child_service
from dealer.state import NeedAction
from dealer.store.memory import MemoryStore
from dealer.table_commands import Play, SitIn
from dealer.table_live import LiveTable, Phase
from rngsvc.client import Client

T = b"t" * 16


class Clock:
    """Real time, which the test can move on."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


async def until(live: LiveTable, wanted: Callable[[], bool]) -> None:
    """Wait until something is true of the table."""
    async with asyncio.timeout(30):
        while not wanted():
            await live.changes(live.version)


@pytest.mark.rule("AL-22")
def test_after_two_minutes_without_cards_the_hand_is_void_and_every_chip_is_back() -> None:
    async def story() -> None:
        clock = Clock()
        async with child_service() as service:
            client = await Client.connect(service.address, log_key=service.log_key, timeout_s=0.5)
            room = CardRoom(MemoryStore(), client, service.auditor.public_keys, 100_000, clock)
            live = room.open(T, "casino_club", "")
            buy_in = live.stakes.buy_in
            for seat, player in enumerate(("ann", "ben"), start=1):
                live.sit(player, seat, buy_in, player.encode())
                live.do(SitIn(player))
            await until(live, lambda: live.table.turn is not None)
        # The service is gone; what was dealt can still be played.
        for act in (Act.BRING_IN, Act.CALL):
            hand = live.table.hand
            assert hand is not None
            assert isinstance(hand.awaits, NeedAction)
            name = live.table.seats[hand.awaits.seat].player
            live.do(Play(name, live.table.number, live.table.turns, act))
        await until(live, lambda: live.table.delayed is not None)
        assert live.table.turn is None, "no clock runs"
        assert "shuffle service" in live.delay
        clock.ahead_ms = 119_000
        await asyncio.sleep(0.3)
        assert live.table.playing
        clock.ahead_ms = 121_000
        await until(live, lambda: not live.table.playing)
        assert live.table.outcome == "aborted"
        assert [live.table.stack(seat) for seat in (1, 2)] == [buy_in, buy_in]
        await until(live, lambda: live.phase is Phase.CLOSING)
        await room.stop()
        await client.close()

    asyncio.run(story())
