"""A store that was altered, or put back from a copy, while the service was down: it is refused, or what was altered is
never built upon."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.errors import ServiceError, SigningStopped
from rngsvc.keys.signing import SigningKey
from rngsvc.ports import StepRow, StoreDamaged
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.merkle import leaf_hash, verify_inclusion
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.serve import StartRefused
from rngsvc.store.memory import Disk
from tests.rngsvc.service.world import ORIGIN, Play, SeededEntropy, World, audited, table_id


async def long_evening(entries: int = 600) -> World:
    """A log of several full tiles; hand 1 of table 0 is sealed early, other tables fill the log."""
    world = await World().start()
    play = await world.play(0)
    await play.reserve(1, 2)
    await play.seal(1)
    await play.open(1, 0, 0, 1)
    await play.reshuffle(1, 1, (0, 5), (0, 6))
    filler = await world.play(1)
    for seq in range(1, (entries - 5) // 2 + 1):
        await filler.reserve(seq)
        await filler.close(seq, "aborted", "caller")
    await audited(world)
    await world.kill()
    return world


def flipped(value: bytes, at: int = -2) -> bytes:
    changed = bytearray(value)
    changed[at] ^= 1
    return bytes(changed)


def steps(disk: Disk) -> list[StepRow]:
    """The steps of hand 1 of table 0: reserve, seal, open, reshuffle."""
    return disk.steps[table_id(0)][1]


def other_key(world: World) -> None:
    head = world.disk.head
    assert head
    thief = SigningKey(Ed25519PrivateKey.generate())
    note = Checkpoint(ORIGIN, head.size, head.root).sign(NoteKey(ORIGIN, thief.public_key), thief.sign)
    world.disk.head = replace(head, checkpoint=note.encode())


def other_origin(world: World) -> None:
    head = world.disk.head
    assert head
    key = NoteKey("other.example/rng", world.signing_key.public_key)
    note = Checkpoint(key.name, head.size, head.root).sign(key, world.signing_key.sign)
    world.disk.head = replace(head, checkpoint=note.encode())


def edit(change: Callable[[Disk], None]) -> Callable[[World], None]:
    return lambda world: change(world.disk)


def set_entry(disk: Disk, at: int, entry: bytes) -> None:
    disk.entries[at] = entry


def set_step(disk: Disk, number: int, **changes: object) -> None:
    steps(disk)[number] = steps(disk)[number]._replace(**changes)  # type: ignore[arg-type]


def set_head(disk: Disk, **changes: object) -> None:
    assert disk.head
    disk.head = replace(disk.head, **changes)  # type: ignore[arg-type]


REFUSED_AT_START: dict[str, Callable[[World], None]] = {
    "newest entry flipped": edit(lambda disk: set_entry(disk, -1, flipped(disk.entries[-1]))),
    "newest entry gone": edit(lambda disk: disk.entries.__delitem__(-1)),
    "entries of the edge swapped": edit(lambda disk: disk.entries.__setitem__(slice(-2, None), disk.entries[:-3:-1])),
    "entry of an unclosed hand flipped": edit(lambda disk: set_entry(disk, 1, flipped(disk.entries[1]))),
    "entry of an unclosed hand is another": edit(lambda disk: set_entry(disk, 1, disk.entries[5])),
    "entry of an unclosed hand is no JSON": edit(lambda disk: set_entry(disk, 1, b"{")),
    "table entry flipped": edit(lambda disk: set_entry(disk, 0, flipped(disk.entries[0]))),
    "full tile flipped": edit(lambda disk: disk.tiles.update({(0, 1): flipped(disk.tiles[0, 1])})),
    "full tiles swapped": edit(lambda disk: disk.tiles.update({(0, 0): disk.tiles[0, 1], (0, 1): disk.tiles[0, 0]})),
    "full tile gone": edit(lambda disk: disk.tiles.__delitem__((0, 1))),
    "checkpoint flipped": edit(lambda disk: set_head(disk, checkpoint=flipped(disk.head.checkpoint, -10))),  # type: ignore[union-attr]
    "checkpoint is no text": edit(lambda disk: set_head(disk, checkpoint=b"\xff\xfe")),
    "checkpoint of another key": other_key,
    "checkpoint of another origin": other_origin,
    "head's root flipped": edit(lambda disk: set_head(disk, root=bytes(32))),
    "head's size smaller": edit(lambda disk: set_head(disk, size=500)),
    "head's size larger": edit(lambda disk: set_head(disk, size=601)),
    "step gone": edit(lambda disk: steps(disk).__delitem__(1)),
    "reservation's step gone": edit(lambda disk: steps(disk).__delitem__(0)),
    "step names another entry": edit(lambda disk: set_step(disk, 1, position=20)),
    "step names an entry past the end": edit(lambda disk: set_step(disk, 1, position=5000)),
    "reservation names another entry": edit(lambda disk: set_step(disk, 0, position=2)),
    "seal and reshuffle swapped": edit(lambda disk: set_step(disk, 1, position=steps(disk)[3].position)),
    "opening listed twice": edit(lambda disk: steps(disk).insert(3, steps(disk)[2]._replace(n=3))),
    "all gone but the head guard": edit(lambda disk: disk.__init__()),  # type: ignore[misc]
}


@pytest.mark.asyncio
@pytest.mark.parametrize("tamper", REFUSED_AT_START.values(), ids=REFUSED_AT_START)
async def test_a_store_that_was_altered_is_refused(tamper: Callable[[World], None]) -> None:
    world = await long_evening()
    tamper(world)
    with pytest.raises((StartRefused, StoreDamaged)):
        await world.start()
    # It was let go of again.
    assert not world.disk.held


@pytest.mark.asyncio
async def test_the_evening_itself_is_not_refused() -> None:
    world = await long_evening()
    await world.start()
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
@pytest.mark.parametrize("at", [6, 255, 256, 511])
async def test_an_old_entry_that_was_altered_is_never_proved_or_built_on(at: int) -> None:
    """It is of a closed hand and in a full tile, so nobody looks at it at start; its proof then shows it."""
    world = await long_evening()
    world.disk.entries[at] = flipped(world.disk.entries[at])
    await world.start()
    logged = await world.log.logged(at)
    head = world.log.head
    assert head
    with pytest.raises(ProofError):
        verify_inclusion(leaf_hash(logged.entry), at, head.size, logged.proof, head.root)
    hand = (at - 5) // 2 + 1
    with pytest.raises((StoreDamaged, ServiceError)):
        await Play(world, table_id(1)).close(hand, "aborted", "caller")
    await world.kill()


@pytest.mark.asyncio
async def test_a_seed_that_is_not_the_committed_one_stops_the_service() -> None:
    """It unseals, so whoever put it there has the keys: nothing derived from it may ever be shown."""
    world = await long_evening()
    await world.start()
    service, play = world.service, Play(world, table_id(0))
    table = world.tables.get(play.table)
    assert table
    hand = table.hand(1)
    context = service.secrets.context(table.id, 1, hand.reserved.commitment)
    await service._load_key(table, 1)
    forged = service.secrets.vault.seal(play.table, hand.reserved.time // 86_400_000, bytes(48), context)
    await world.kill()
    set_step(world.disk, 0, secret=forged)
    await world.start()
    size = world.log.size
    with pytest.raises(SigningStopped):
        await Play(world, play.table).close(1, "aborted", "caller")
    assert world.stops
    assert len(world.disk.entries) == size
    await world.kill()


# --- Restored copies ---


@pytest.mark.asyncio
async def test_a_restored_older_store_is_refused_where_a_newer_checkpoint_is_known() -> None:
    world = await World().start()
    play = await world.play()
    await play.reserve(1)
    await world.kill()
    backup = deepcopy(world.disk)
    await world.start()
    await play.seal(1)
    await play.close(1)
    await world.kill()
    newest = world.disk
    world.disk = backup
    with pytest.raises(StartRefused, match="older copy"):
        await world.start()
    world.disk = newest
    await world.start()
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
async def test_a_store_that_went_another_way_is_refused_even_if_it_is_longer() -> None:
    world = await World().start()
    play = await world.play()
    await world.kill()
    backup = deepcopy(world.disk)
    await world.start()
    await play.reserve(1)
    await world.kill()
    # On another machine, without the head guard, the copy goes on.
    elsewhere = await World(disk=backup, guard=None, entropy=SeededEntropy(b"elsewhere")).start()
    for seq in range(1, 4):
        await Play(elsewhere, play.table).reserve(seq)
    await elsewhere.kill()
    world.disk = backup
    with pytest.raises(StartRefused, match="differs"):
        await world.start()


@pytest.mark.asyncio
async def test_a_head_guard_that_is_behind_is_no_fault() -> None:
    world = await World().start()
    assert world.guard
    play = await world.play()
    older = world.guard.checkpoint
    await play.reserve(1)
    await world.kill()
    world.guard.checkpoint = older
    await world.start()
    await audited(world)
    await world.kill()


@pytest.mark.asyncio
@pytest.mark.parametrize("content", [b"rubbish", b"\xff", b"cardroom.example/rng\n5\n"])
async def test_a_head_guard_that_holds_no_checkpoint_of_ours_is_refused(content: bytes) -> None:
    world = await World().start()
    assert world.guard
    await world.play()
    await world.kill()
    world.guard.checkpoint = content
    with pytest.raises(StartRefused, match="head guard"):
        await world.start()
