"""Hands played over gRPC by players who know only what their streams show them."""

import asyncio
import contextlib
import json
import random
import signal
import sqlite3
from pathlib import Path
from typing import Any

import grpc
import pytest

from dealer.cashier import rack
from dealer.rooms import GAMES
from dealer.tokens import Role
from dealer.v1 import table_pb2
from rngsvc.protocol.verify import Outcome, verify
from tests.dealer.server import world
from tests.scale import scaled

NAMES = ["ann", "ben", "cleo", "dan", "eve"]


async def settled(players: list[world.Player]) -> list[int]:
    """Wait until the last hand that everybody saw end is closed; return the hands that all have seen end."""
    hands = sorted(set.intersection(*(player.hands_over for player in players)))
    async with asyncio.timeout(world.TIMEOUT_S):
        while not await is_closed(players[0], hands[-1]):  # noqa: ASYNC110  (the room tells nobody)
            await asyncio.sleep(0.05)
    return hands


async def is_closed(player: world.Player, hand: int) -> bool:
    try:
        await player.history(hand)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return False
    return True


async def check_histories(players: list[world.Player], hands: list[int]) -> None:
    """Have every player verify his own file of every hand, offline."""
    for hand in hands:
        for player in players:
            document = await player.history(hand)
            report = verify(document, player.house.log_key).require()
            written = json.loads(document)
            # Who was not dealt in may have nothing to see.
            was_in = player.name in {each["name"] for each in written["seats"]}
            for step in ("inclusion", "seals", "history", "close", *(("openings", "items") if was_in else ())):
                assert report.step(step).outcome is Outcome.CHECKED
            assert sum(written["net"].values()) == 0
            seen = {(each["k"], each["p"]): each["item"] for each in written["receipt"].get("openings", ())}
            for (at, k, p), item in player.items.items():
                assert at != hand or seen[k, p] == item
            # The receipt opens what the events tell and no card more.
            told = [card for event in written["events"] for card in event.get("cards", ()) if "item" in card]
            assert seen.keys() <= {(card["k"], card["p"]) for card in told}
            assert_folded_hands_stay_down(written, player.name)


def assert_folded_hands_stay_down(written: dict[str, Any], reader: str) -> None:
    """CC-15: a player's history has his own cards and hands that reached the showdown, nobody else's down cards."""
    own = {each["seat"] for each in written["seats"] if each["name"] == reader}
    seats = {each["seat"] for each in written["seats"]}
    folded = {event["seat"] for event in written["events"] if event["event"] == "acted" and event["act"] == "fold"}
    shown = {event["seat"] for event in written["events"] if event["event"] == "shown"}
    uncalled = seats - folded if len(seats - folded) == 1 else set()
    for event in written["events"]:
        if event["event"] == "dealt" and event["face"] == "down" and event["seat"] in (folded | uncalled) - own - shown:
            assert "item" not in event["cards"][0]


@pytest.mark.rule("CC-15")
@pytest.mark.parametrize("game", sorted(GAMES))
def test_players_play_verify_and_contribute(house: world.House, game: str) -> None:
    async def story() -> None:
        players = await world.seated(house, game, NAMES[:3])
        await world.play_hands(players, 2)
        hands = await settled(players)
        assert len(hands) >= 2
        await check_histories(players, hands)
        for hand in hands[:2]:
            for player in players:
                if hand in player.revealed:
                    report = verify(await player.history(hand), house.log_key)
                    assert report.step("own").outcome is Outcome.CHECKED, "his own seed is in the shuffle"
        assert all(player.revealed for player in players)

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(scaled(1, 40)))
@pytest.mark.parametrize("game", ["poker777", "pokerkings", "limit_stud_high_low"])
def test_nothing_of_anothers_hole_card_is_in_a_stream_before_it_is_shown(
    house: world.House, game: str, seed: int
) -> None:
    async def story() -> list[world.Player]:
        players = await world.seated(house, game, NAMES[:4], seed=100 * seed)
        bystander = world.Player(house, "zoe", players[0].table, game, 0)
        watching = asyncio.create_task(bystander.play())
        await world.play_hands(players, 2)
        await settled(players)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return [*players, bystander]

    *players, bystander = asyncio.run(story())
    for owner in players:
        secrets = hole_cards(owner)
        assert secrets, "there is something to be kept"
        for other in [*players, bystander]:
            if other is not owner:
                assert_nothing_leaks(other, secrets)


def hole_cards(owner: world.Player) -> dict[tuple[int, int, int], bytes]:
    """Return the salts of a player's own down cards, by hand, shuffle and place."""
    down = set()
    for message in owner.seen:
        mine = {seat.seat for seat in message.state.seats if seat.player == owner.name}
        for written in message.events:
            event = json.loads(written.json)
            if event["event"] == "dealt" and event["face"] == "down" and event["seat"] in mine:
                down.add((message.state.hand, event["cards"][0]["k"], event["cards"][0]["p"]))
    return {
        (message.state.hand, each.k, each.place): each.salt
        for message in owner.seen
        for each in message.openings
        if (message.state.hand, each.k, each.place) in down
    }


def assert_nothing_leaks(other: world.Player, secrets: dict[tuple[int, int, int], bytes]) -> None:
    shown: set[tuple[int, int, int]] = set()
    for message in other.seen:
        hand = message.state.hand
        events = [json.loads(each.json) for each in message.events]
        shown |= {(hand, c["k"], c["p"]) for e in events if e["event"] == "shown" for c in e["cards"]}
        raw = message.SerializeToString()
        for place, salt in secrets.items():
            if place not in shown:
                assert salt not in raw
                assert salt.hex().encode() not in raw
        assert not [each for each in message.openings if (hand, each.k, each.place) in set(secrets) - shown]
        for event in events:
            for card in event.get("cards", ()):
                assert (
                    (hand, card["k"], card["p"]) in shown
                    or (hand, card["k"], card["p"]) not in secrets
                    or ("item" not in card)
                )
            assert "discards" not in event or not {(hand, k, p) for k, p in event["discards"]} & set(secrets)


@pytest.mark.parametrize("game", ["casino_club", "poker777", "pokerkings"])
def test_a_killed_dealer_goes_on_with_the_same_cards(tmp_path: Path, service: dict[str, Any], game: str) -> None:
    rng = random.Random(game)

    async def until_killed(house: world.House, players: list[world.Player], *, everybody_says_so: bool) -> None:
        watching = [asyncio.create_task(player.play()) for player in players]
        if everybody_says_so:
            await world.all_in(players)
        await asyncio.sleep(rng.uniform(0.02, 0.7))
        house.stop(signal.SIGKILL)
        for result in await asyncio.gather(*watching, return_exceptions=True):
            assert isinstance(result, grpc.aio.AioRpcError), result

    async def to_the_end(players: list[world.Player]) -> None:
        await world.until_over(players, 2)
        await check_histories(players, await settled(players))

    with world.house(tmp_path, service) as house:
        players = asyncio.run(world.seated(house, game, NAMES[:3]))
        for round_number in range(scaled(3, 70)):
            asyncio.run(until_killed(house, players, everybody_says_so=round_number == 0))
            house.start()
        asyncio.run(to_the_end(players))
        house.stop()
    with contextlib.closing(sqlite3.connect(tmp_path / "tables.sqlite3")) as db:
        balances = dict(db.execute("SELECT name, balance FROM accounts").fetchall())
        brought = db.execute("SELECT sum(amount) FROM ledger WHERE credit LIKE 'table:%'").fetchone()[0]
    assert sum(balances.values()) == 0
    assert balances[rack(players[0].table.hex())] == brought, "nobody has left"
    assert stacks_in(tmp_path / "tables.sqlite3", players[0].table) == brought


def stacks_in(path: Path, table: bytes) -> int:
    """Return all chips of a stored table, those in the pot of an unfinished hand too."""
    from dealer.store.sqlite import SqliteStore
    from dealer.table_live import LiveTable

    store = SqliteStore(path)
    stored = store.table(table)
    rules = GAMES[stored.game]
    live: Any = LiveTable(stored, rules, rules.stakes[0], store, None, None, lambda: 0)  # type: ignore[arg-type]
    store.close()
    hand = live.table.hand
    in_pots = sum(total for _, total, _ in hand.pots()) if live.table.playing and not hand.settlement else 0
    return in_pots + sum(live.table.stack(seat) for seat in live.table.seats)


async def told_why(player: world.Player) -> None:
    """Wait until a player's stream says why there are no cards; the stream itself comes from elsewhere."""
    while not (player.seen and player.seen[-1].state.delay):  # noqa: ASYNC110  (the player tells nobody)
        await asyncio.sleep(0.05)


@pytest.mark.rule("AL-22")
def test_a_shuffle_service_that_is_away_for_a_while_delays_the_hand_and_all_see_why(tmp_path: Path) -> None:
    async def story(house: world.House, process: Any) -> None:
        players = await world.seated(house, "casino_club", NAMES[:2])
        playing = asyncio.create_task(world.play_hands(players, 100_000))
        await asyncio.sleep(0.2)
        process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(world.TIMEOUT_S):
            await asyncio.gather(*map(told_why, players))
        process.send_signal(signal.SIGCONT)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await world.until_over(players, 2)
        await check_histories(players, await settled(players))

    with world.shuffle_service() as (process, ready), world.house(tmp_path, ready) as house:
        asyncio.run(story(house, process))


def test_an_operator_sees_nobodys_cards_whatever_his_name(house: world.House) -> None:
    async def story() -> None:
        players = await world.seated(house, "casino_club", NAMES[:2])
        await world.play_hands(players, 1)
        (hand, *_) = await settled(players)
        async with world.stub(house.address, house.token("ann", Role.OPERATOR)) as room:
            answer = await room.GetHistory(table_pb2.GetHistoryRequest(table=players[0].table, hand=hand))
            first = await anext(aiter(room.Watch(table_pb2.WatchRequest(table=players[0].table))))
        for event in [*json.loads(answer.json)["events"], *(json.loads(each.json) for each in first.events)]:
            assert event.get("face") != "down" or "item" not in event["cards"][0] or is_shown(event, answer.json)

    asyncio.run(story())


def is_shown(event: dict[str, Any], history: str) -> bool:
    """Say whether the card of a deal was shown at the end."""
    shown = [each for each in json.loads(history)["events"] if each["event"] == "shown"]
    (card,) = event["cards"]
    return any((card["k"], card["p"]) == (each["k"], each["p"]) for event in shown for each in event["cards"])


@pytest.mark.rule("P7-6")
def test_nobody_else_hears_of_a_fold_out_of_turn_before_its_time(house: world.House) -> None:
    async def story() -> None:
        players = await world.seated(house, "poker777", NAMES[:3])
        streams, states = {}, {}
        async with contextlib.AsyncExitStack() as stack:
            rooms = {
                player.name: await stack.enter_async_context(world.stub(house.address, house.token(player.name)))
                for player in players
            }
            for name, room in rooms.items():
                streams[name] = aiter(room.Watch(table_pb2.WatchRequest(table=players[0].table)))
            for name, stream in streams.items():
                async for message in stream:
                    states[name] = message.state
                    everybody = len(message.state.seats) == 3 and all(each.connected for each in message.state.seats)
                    if everybody and message.state.HasField("turn"):
                        break
            state = states["cleo"]
            in_hand = [seat for seat in state.seats if seat.in_hand and seat.seat != state.turn.seat]
            folder = in_hand[-1].player
            fold = table_pb2.ActRequest(
                table=players[0].table, hand=state.hand, decision=state.decision, action=table_pb2.ACTION_FOLD
            )
            await rooms[folder].Act(fold)
            own = await asyncio.wait_for(anext(streams[folder]), 5)
            assert [json.loads(event.json)["event"] for event in own.events] == ["fold_kept"]
            others = [asyncio.create_task(anext(stream)) for name, stream in streams.items() if name != folder]
            told, _ = await asyncio.wait(others, timeout=0.5)
            assert not told
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    asyncio.run(story())


def test_who_promises_and_does_not_reveal_is_listed_absent_and_the_hand_goes_on(house: world.House) -> None:
    async def story() -> None:
        players = await world.seated(house, "limit_stud", NAMES[:3])
        players[1].reveals = False
        await world.play_hands(players, 2)
        hands = await settled(players)
        details = [
            verify(await players[0].history(hand), house.log_key).require().step("contributions").detail
            for hand in hands
        ]
        assert any("1 absent" in detail for detail in details), details

    asyncio.run(story())


def test_a_seed_that_comes_too_late_or_is_another_is_refused(house: world.House) -> None:
    async def story() -> None:
        (player, other) = await world.seated(house, "limit_stud", NAMES[:2])
        async with world.stub(house.address, house.token(player.name)) as room:
            for call, request in (
                (room.PromiseSeed, table_pb2.PromiseSeedRequest(table=player.table, hand=9, promise=bytes(32))),
                (room.RevealSeed, table_pb2.RevealSeedRequest(table=player.table, hand=9, seed=bytes(32))),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refusal:
                    await call(request)
                assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        del other

    asyncio.run(story())
