"""The public part of a hand over HTTP: it verifies, and holds nothing that is not public."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from rngsvc.protocol.verify import Outcome, verify
from rngsvc.web import public_app
from tests.rngsvc.service.world import AUDITOR, ORIGIN, Play, World, running, table_id
from tests.rngsvc.web.http import Answer, get

pytestmark = pytest.mark.asyncio
ALICE = (b"seat-1", b"\x11" * 32)
BOB = (b"seat-3", b"\x22" * 64)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with running() as world:
        yield world


async def asked(world: World, path: str) -> Answer:
    return await get(public_app(world.service, world.log, world.store, ORIGIN, lambda: "", []), path)


async def played(world: World, reveal: str, state: str) -> Play:
    """Bring hand 1 of table 0 into a state."""
    play = await world.play(0, reveal=reveal)
    await play.reserve(1, 2)
    if state == "reserved":
        return play
    await play.promise(1, (ALICE, BOB))
    if state == "promised":
        return play
    if state == "drawn":
        await play.draw(1, contributions=(ALICE,))
        return play
    await play.seal(1, 52, (ALICE,))
    await play.open(1, 0, 0, 1, 7)
    await play.reshuffle(1, 1, (0, 7), (0, 51))
    if state == "closed":
        await play.close(1)
    return play


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize("state", ["reserved", "promised", "drawn", "sealed", "closed"])
async def test_the_public_part_of_a_hand_verifies_and_shows_nothing_else(world: World, reveal: str, state: str) -> None:
    play = await played(world, reveal, state)
    answer = await asked(world, f"/hands/{play.table.hex()}/1")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    shown: dict[str, Any] = json.loads(answer.body)
    assert shown["openings"] == []
    assert "own" not in shown
    report = verify(answer.body, world.note_key.vkey, world.clock.ms + 10_000, AUDITOR)
    assert not report.failures
    checked = {step.id for step in report.steps if step.outcome is Outcome.CHECKED}
    assert {"inclusion", "checkpoints", "chain"} <= checked
    # Before the close nobody's seed is anywhere in it, sealed or not.
    if state != "closed":
        seed = next(given for given in world.entropy.given if len(given) == 96)[:48]
        for secret in (seed, ALICE[1], BOB[1]):
            assert secret.hex().encode() not in answer.body
    sealed = state in {"sealed", "closed"}
    assert [len(each["leaves"]) for each in shown["shuffles"]] == ([52, 2] if sealed else [])


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize("state", ["unchosen", "chosen", "closed", "closed without a choice"])
async def test_the_public_part_of_a_twin_tables_hand_shows_no_deck_before_its_time(
    world: World, reveal: str, state: str
) -> None:
    play = await world.play(0, reveal=reveal, twin=True)
    choice = (ALICE[0], b"\x33" * 32)
    await play.reserve(1)
    await play.promise_twin(1, [(*ALICE, choice[1])])
    await play.seal(1, 52, (ALICE,))
    if state in {"chosen", "closed"}:
        await play.choose(1, (choice,))
    if state.startswith("closed"):
        await play.close(1, *(() if state == "closed" else ("aborted", "misdeal")))
    answer = await asked(world, f"/hands/{play.table.hex()}/1")
    shown: dict[str, Any] = json.loads(answer.body)
    chosen = state in {"chosen", "closed"}
    kinds = ["table", "reserve", "promise", "seal", *(["choose"] if chosen else [])]
    kinds += ["close"] if state.startswith("closed") else []
    assert [json.loads(each["entry"])["type"] for each in shown["entries"]] == kinds
    assert [len(each["leaves"]) for each in shown["shuffles"]] == ([52] if chosen else [])
    report = verify(answer.body, world.note_key.vkey, world.clock.ms + 10_000, AUDITOR)
    assert not report.failures
    assert (report.step("twin").outcome is Outcome.CHECKED) is chosen
    if state == "unchosen":
        both = next(given for given in world.entropy.given if len(given) == 96)
        for secret in (both[:48], both[48:], choice[1]):
            assert secret.hex().encode() not in answer.body


async def test_leaves_hide_the_cards(world: World) -> None:
    """The salts that would open a leaf are in no answer before the card is opened."""
    play = await played(world, "public", "sealed")
    body = (await asked(world, f"/hands/{play.table.hex()}/1")).body
    for dealt in (world.service.secrets.cache.get((play.table, 1, k)) for k in (0, 1)):
        assert dealt
        for place in range(len(dealt.order)):
            assert dealt.salts[16 * place : 16 * place + 16].hex().encode() not in body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/hands/{table_id(0).hex()}/3", 404),
        (f"/hands/{table_id(9).hex()}/1", 404),
        (f"/hands/{table_id(0).hex()}/0", 400),
        (f"/hands/{table_id(0).hex()}/{2**53}", 400),
        (f"/hands/{table_id(0).hex()}/{2**64}", 400),
        (f"/hands/{table_id(0).hex()}/" + "9" * 4000, 400),
        (f"/hands/{table_id(0).hex()}/" + "9" * 6000, 400),
        (f"/hands/{table_id(0).hex().upper()}/1", 400),
        ("/hands/zz/1", 400),
        (f"/hands/{table_id(0).hex()}/one", 400),
        (f"/hands/{table_id(0).hex()}/-1", 400),
        (f"/hands/{table_id(0).hex()}", 404),
        ("/hands/", 404),
    ],
)
async def test_what_is_no_hand_is_refused_by_name(world: World, path: str, status: int) -> None:
    await played(world, "public", "reserved")
    answer = await asked(world, path)
    assert answer.status == status
    if status == 400:
        assert json.loads(answer.body)["reason"] == "INVALID_FIELD"


async def test_only_reading_is_allowed(world: World) -> None:
    play = await played(world, "public", "closed")
    app = public_app(world.service, world.log, world.store, ORIGIN, lambda: "", [])
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/checkpoint", "/tile/0/000", f"/hands/{play.table.hex()}/1"):
            assert (await get(app, path, method)).status == 405
