"""Seeds that cannot be read any more: the service says so, signs nothing in doubt, and an operator can go on."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from rngsvc.errors import Reason
from rngsvc.keys.wrapping import KeyEncryptionKey
from rngsvc.protocol.entries import CloseEntry, parse_entry
from tests.rngsvc.service.world import OPERATOR, Play, World, running, snapshot, table_id

pytestmark = pytest.mark.asyncio

ALICE = (b"seat-1", b"\x11" * 32)
TTL_S = 3_600


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with running() as world:
        yield world


def another_key_encryption_key(world: World) -> None:
    world.kek = KeyEncryptionKey(b"\xff" * 32)


def destroyed_data_keys(world: World) -> None:
    world.disk.data_keys.clear()


def another_tables_data_key(world: World) -> None:
    (key,) = {key for key in world.disk.data_keys if key[0] == table_id(0)}
    (other,) = {key for key in world.disk.data_keys if key[0] == table_id(1)}
    world.disk.data_keys[key] = world.disk.data_keys[other]


def flipped_seed(world: World) -> None:
    steps = world.disk.steps[table_id(0)][1]
    steps[0] = steps[0]._replace(secret=steps[0].secret[:-1] + bytes([steps[0].secret[-1] ^ 1]))


def seed_of_another_hand(world: World) -> None:
    hands = world.disk.steps[table_id(0)]
    hands[1][0] = hands[1][0]._replace(secret=hands[2][0].secret)


LOSSES: list[Callable[[World], None]] = [
    another_key_encryption_key,
    destroyed_data_keys,
    another_tables_data_key,
    flipped_seed,
    seed_of_another_hand,
]


async def lose(world: World, loss: Callable[[World], None], state: str) -> Play:
    """Bring hand 1 of a table into `state`, then lose its seed."""
    other = await world.play(1, ttl_s=TTL_S)
    await other.reserve(1)
    play = await world.play(0, ttl_s=TTL_S)
    await play.reserve(1, 2)
    if state in {"promised", "sealed with seeds"}:
        await play.promise(1, (ALICE,))
    if state.startswith("sealed"):
        await play.seal(1, 52, (ALICE,) if "with" in state else ())
        await play.open(1, 0, 0)
    if state == "drawn":
        await play.draw(1)
    await world.kill()
    loss(world)
    await world.start()
    return play


STATES = ["reserved", "promised", "sealed", "sealed with seeds", "drawn"]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("state", STATES)
async def test_a_hand_whose_seed_is_lost_can_only_be_declared_lost(
    world: World, loss: Callable[[World], None], state: str
) -> None:
    play = await lose(world, loss, state)
    if state in {"reserved", "promised"}:
        await world.refused(Reason.SEED_LOST, play.seal(1))
        await world.refused(Reason.SEED_LOST, play.draw(1))
    elif state.startswith("sealed"):
        await world.refused(Reason.SEED_LOST, play.open(1, 0, 1))
        await world.refused(Reason.SEED_LOST, play.open(1, 0, 0))
        await world.refused(Reason.SEED_LOST, play.reshuffle(1, 1, (0, 1)))
    await world.refused(Reason.SEED_LOST, play.close(1, "aborted", "caller"))
    lost = parse_entry((await Play(world, play.table, OPERATOR).close(1, "lost", "seed_lost")).entry)
    assert isinstance(lost, CloseEntry)
    assert (lost.outcome, lost.seed) == ("lost", None)
    shown = await world.service.public_hand(play.table, 1)
    assert not shown.leaves
    assert (await world.service.opened_hand(play.table, 1)).seed == b""
    assert not world.sequencer.stopped


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("state", STATES)
async def test_an_overdue_lost_hand_waits_for_the_operator_and_holds_up_nobody_else(
    world: World, loss: Callable[[World], None], state: str
) -> None:
    play = await lose(world, loss, state)
    world.clock.advance(TTL_S)
    closed = await world.service.close_expired(world.clock.now_ms())
    # The other table's hand is closed where its own key is still there.
    assert closed == (0 if loss in {another_key_encryption_key, destroyed_data_keys} else 1)
    await world.refused(Reason.EXPIRED, play.close(1, "aborted", "caller"))
    await Play(world, play.table, OPERATOR).close(1, "lost", "key_lost")
    assert not world.sequencer.stopped


@pytest.mark.parametrize("loss", [another_key_encryption_key, another_tables_data_key], ids=lambda loss: loss.__name__)
async def test_a_data_key_that_cannot_be_used_is_never_replaced(world: World, loss: Callable[[World], None]) -> None:
    """A second one under the same name would shut off for good what the right key could still open."""
    play = await lose(world, loss, "reserved")
    await world.refused(Reason.SEED_LOST, play.reserve(3))
    keys = snapshot(world.disk)["data_keys"]
    # A new day has a new key.
    world.clock.advance(86_400)
    other = await world.play(2, ttl_s=10 * 86_400)
    await other.reserve(1)
    await play.reserve(3)
    assert keys.items() <= world.disk.data_keys.items()
    await Play(world, play.table, OPERATOR).close(1, "lost", "key_lost")


async def test_the_right_key_encryption_key_brings_everything_back(world: World) -> None:
    right = world.kek
    play = await lose(world, another_key_encryption_key, "sealed with seeds")
    await world.refused(Reason.SEED_LOST, play.close(1))
    world.kek = right
    await world.restart()
    await play.close(1)


async def test_a_reservation_around_midnight_has_its_key(world: World) -> None:
    """A batch never has a time before the log's last, so the clock alone does not say which day it is."""
    play = await world.play(0)
    day_ms = 86_400_000
    world.clock.ms = (world.clock.ms // day_ms + 1) * day_ms
    await play.reserve(1)
    world.clock.advance(-10)
    other = await world.play(1)
    await other.reserve(1)
    await play.reserve(2)
    assert {day for _, day in world.disk.data_keys} == {(world.clock.ms + 10_000) // day_ms}
