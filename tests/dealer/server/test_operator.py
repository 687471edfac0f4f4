"""What the operator sees of a dealer: metrics as their page says, readiness, and an orderly stop."""

import asyncio
import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from dealer.card_room import CardRoom
from dealer.cashier import BANK, RAKE, Transfer, rack, wallet
from dealer.config import load
from dealer.metrics import Metrics
from dealer.rooms import GAMES
from dealer.store.memory import MemoryStore
from dealer.v1 import table_pb2
from tests.dealer.server import world
from tests.dealer.server.test_settings import GOOD

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
NAMES = ["ann", "ben", "cleo"]


def get(house: world.House, path: str) -> tuple[int, str]:
    try:
        with urlopen(house.ready["operator"] + path, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def scrape(house: world.House) -> list[Any]:
    status, text = get(house, "/metrics")
    assert status == 200
    return list(text_string_to_metric_families(text))


def figure(families: list[Any], name: str, **labels: str) -> float:
    """Return the sum of the series of ``name`` that have ``labels``."""
    found = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert found, f"{name} {labels} is not there"
    return sum(found)


@pytest.fixture
def played(house: world.House) -> world.House:
    """A room in which some hands were played, and some calls refused."""

    async def story() -> None:
        players = await world.seated(house, "limit_stud", NAMES)
        await world.play_hands(players, 2)
        async with world.stub(house.address, house.token("zoe")) as room:
            for call, request in (
                (room.GetHistory, table_pb2.GetHistoryRequest(table=bytes(16))),
                (room.CreateTable, table_pb2.CreateTableRequest(table=bytes(16), game="limit_stud")),
                (room.Act, table_pb2.ActRequest(table=b"short")),
            ):
                with pytest.raises(grpc.aio.AioRpcError):
                    await call(request)

    asyncio.run(story())
    ends = time.monotonic() + 10
    while figure(scrape(house), "dealer_requests_in_flight", method="Watch"):
        assert time.monotonic() < ends, "the watchers have left"
        time.sleep(0.05)
    return house


def test_the_page_of_metrics_is_what_a_scrape_shows(played: world.House) -> None:
    scraped = {}
    for family in scrape(played):
        if not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            scraped[name] = (family.type, labels)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    written = {
        row[0].strip("`"): (row[1], set(re.findall(r"`(\w+)`", row[2])))
        for row in cells
        if len(row) == 4 and re.fullmatch(r"`(dealer|process)_\w+`", row[0])
    }
    # Without TLS no certificate is said to expire.
    assert scraped.pop("dealer_certificate_expires_seconds") == ("gauge", set())
    assert written.pop("dealer_certificate_expires_seconds") == ("gauge", {"use"})
    assert scraped == written


def test_figures_follow_what_was_done(played: world.House) -> None:
    now = scrape(played)
    assert figure(now, "dealer_tables", game="limit_stud") == 1
    assert figure(now, "dealer_tables") == 1
    assert figure(now, "dealer_seats_taken", game="limit_stud") == 3
    assert figure(now, "dealer_hands_total", game="limit_stud", outcome="complete") >= 1
    assert figure(now, "dealer_hands_total", outcome="aborted") == 0
    assert figure(now, "dealer_decisions_total", game="limit_stud", by="player") >= 4
    decided = figure(now, "dealer_decisions_total", game="limit_stud")
    assert figure(now, "dealer_decision_seconds_count", game="limit_stud") == decided
    assert figure(now, "dealer_requests_total", method="Sit", code="OK") == 3
    assert figure(now, "dealer_requests_total", method="GetHistory", code="NOT_FOUND") == 1
    assert figure(now, "dealer_requests_total", method="CreateTable", code="PERMISSION_DENIED") == 1
    assert figure(now, "dealer_requests_total", method="Act", code="INVALID_ARGUMENT") == 1
    assert figure(now, "dealer_requests_total", method="Watch", code="CANCELLED") == 3
    assert figure(now, "dealer_requests_in_flight", method="Watch") == 0
    assert figure(now, "dealer_request_seconds_count", method="Sit") == 3
    assert figure(now, "dealer_store_write_seconds_count", verb="create") == 1
    assert figure(now, "dealer_store_write_seconds_count", verb="finish") == figure(now, "dealer_hands_total")
    assert figure(now, "dealer_store_write_seconds_count", verb="append") > 10
    assert figure(now, "dealer_store_failures_total") == 0
    assert figure(now, "dealer_rngsvc_calls_total", method="SealShuffle", code="OK") >= 2
    assert figure(now, "dealer_rngsvc_reachable") == 1
    assert figure(now, "dealer_ledger_imbalance_cents") == 0
    assert time.time() - figure(now, "dealer_ledger_checked_time_seconds") < 70
    for name in ("dealer_tables_delayed", "dealer_tables_distrusting", "dealer_tables_overdue"):
        assert figure(now, name) == 0


def test_every_game_is_counted_from_zero() -> None:
    """Prometheus sees no rise in a series that appears with its first event."""
    registry = Metrics().registry
    for game in GAMES:
        for name, labels in (
            ("dealer_hands_total", {"outcome": "aborted"}),
            ("dealer_decisions_total", {"by": "clock"}),
        ):
            assert registry.get_sample_value(name, {"game": game, **labels}) == 0


def test_no_figure_names_a_player_a_table_or_a_card(played: world.House) -> None:
    _, text = get(played, "/metrics")
    labels = {sample.labels[name] for family in scrape(played) for sample in family.samples for name in sample.labels}
    assert not labels & set(NAMES)
    assert not re.search(r"\b[0-9a-f]{32}\b", text)


def test_the_operators_pages_are_for_this_machine_unless_told_otherwise() -> None:
    assert load(GOOD, {}, None).http_operator.startswith("127.0.0.1:")


# --- The ledger


@pytest.mark.parametrize(
    ("tampered", "cents"),
    [
        ([], 0),
        ([Transfer(BANK, wallet("ann"), 7)], 0),
        # Money that is at the table's account and not on the table, then the other way round.
        ([Transfer(BANK, rack("74" * 16), 7)], 7),
        ([Transfer(rack("74" * 16), RAKE, 7)], 7),
        ([Transfer(wallet("ben"), RAKE, 5)], 5),
    ],
)
def test_the_ledger_is_out_by_so_many_cents(tampered: list[Transfer], cents: int) -> None:
    async def story() -> None:
        store = MemoryStore()
        room = CardRoom(store, None, (b"", b""), 100_000, lambda: 1_000)  # type: ignore[arg-type]  (nothing is dealt)
        live = room.open(b"t" * 16, "limit_stud", "")
        live.sit("ann", 1, live.stakes.buy_in, b"1")
        assert room.imbalance_cents() == 0
        store.append(b"t" * 16, [], tampered)
        assert room.imbalance_cents() == cents
        await room.stop()

    asyncio.run(story())


def test_a_ledger_whose_accounts_do_not_add_up_is_out_by_that_much() -> None:
    class Leaking(MemoryStore):
        def balances(self) -> dict[str, int]:
            return {**super().balances(), RAKE: 3}

    assert CardRoom(MemoryStore(), None, (b"", b""), 1, lambda: 0).imbalance_cents() == 0  # type: ignore[arg-type]
    room = CardRoom(MemoryStore(), None, (b"", b""), 1, lambda: 0)  # type: ignore[arg-type]
    room._store = Leaking()
    assert room.imbalance_cents() == 3


# --- Readiness


def test_a_dealer_is_ready_while_its_shuffle_service_answers(tmp_path: Path) -> None:
    def wait_until(house: world.House, status: int, seconds: float) -> dict[str, Any]:
        ends = time.monotonic() + seconds
        while True:
            found, text = get(house, "/readyz")
            if found == status:
                answer: dict[str, Any] = json.loads(text)
                return answer
            assert time.monotonic() < ends, text
            time.sleep(0.2)

    with world.shuffle_service() as (service, ready), world.house(tmp_path, ready) as house:
        assert get(house, "/healthz") == (200, '{"status":"alive"}')
        assert wait_until(house, 200, 5) == {"status": "ready", "why": "", "tables": 0}
        service.send_signal(signal.SIGSTOP)
        assert wait_until(house, 503, 15)["why"] == "the shuffle service does not answer"
        assert figure(scrape(house), "dealer_rngsvc_reachable") == 0
        assert get(house, "/healthz")[0] == 200
        service.send_signal(signal.SIGCONT)
        wait_until(house, 200, 15)
        assert get(house, "/elsewhere")[0] == 404


# --- Stopping


async def in_a_hand(house: world.House, game: str = "limit_stud") -> list[world.Player]:
    """Seat players and play until a hand has begun."""
    players = await world.seated(house, game, NAMES)
    await world.all_in(players)
    watching = [asyncio.create_task(player.play()) for player in players]
    async with asyncio.timeout(world.TIMEOUT_S):
        while not all(player.cards for player in players):  # noqa: ASYNC110  (a stream tells only its own player)
            await asyncio.sleep(0.01)
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return players


def test_told_to_stop_it_lets_the_hand_end_and_begins_no_other(tmp_path: Path, service: dict[str, Any]) -> None:
    house = world.House(tmp_path, service)
    house.arguments += ["--drain-s", "30"]
    house.start()

    async def story() -> None:
        players = await in_a_hand(house)
        hand = max(message.state.hand for player in players for message in player.seen)
        assert house.process
        house.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            while get(house, "/readyz")[0] != 503:  # noqa: ASYNC110  (a page tells nobody)
                await asyncio.sleep(0.05)
        async with grpc.aio.insecure_channel(house.address) as channel:
            check = health_pb2.HealthCheckRequest(service="dealer.v1.TableService")
            answer = await health_pb2_grpc.HealthStub(channel).Check(check)
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        results = await asyncio.gather(*(player.play() for player in players), return_exceptions=True)
        assert all(result is None or isinstance(result, grpc.aio.AioRpcError) for result in results), results
        assert max(message.state.hand for player in players for message in player.seen) == hand

    asyncio.run(story())
    assert house.stop() == 0
    (said,) = [json.loads(line) for line in house.complaints.splitlines() if '"stopped"' in line]
    assert said["hands"] == 0
    house.start()
    assert house.stop() == 0


@pytest.mark.parametrize(("drain_s", "signals"), [("0.5", 1), ("60", 2)], ids=["its time is over", "told twice"])
def test_a_hand_that_does_not_end_is_kept_for_the_next_start(
    tmp_path: Path, service: dict[str, Any], drain_s: str, signals: int
) -> None:
    house = world.House(tmp_path, service)
    house.arguments += ["--drain-s", drain_s]
    house.start()
    players = asyncio.run(in_a_hand(house))
    before = [dict(player.cards) for player in players]
    assert house.process
    began = time.monotonic()
    for _ in range(signals - 1):
        house.process.send_signal(signal.SIGTERM)
        while get(house, "/readyz")[0] != 503:
            time.sleep(0.05)
    assert house.stop() == 0
    assert time.monotonic() - began < 30
    assert '"hands": 1, "event": "stopped"' in house.complaints
    house.start()

    async def story() -> None:
        for player in players:
            player.seen.clear()
        with contextlib.suppress(TimeoutError):
            await world.until_over(players, 1)

    asyncio.run(story())
    for player, cards in zip(players, before, strict=True):
        assert set(cards.values()) <= set(player.items.values()), "the same cards"
    house.stop(signal.SIGKILL)  # another hand is being played, which it would wait for


def test_a_room_logs_its_life_in_json_lines(tmp_path: Path, service: dict[str, Any]) -> None:
    with world.house(tmp_path, service) as house:
        asyncio.run(world.open_table(house, "casino_club"))
        house.stop()
    lines = [json.loads(line) for line in house.complaints.splitlines()]
    assert [line["event"] for line in lines] == ["ready", "stopping", "stopped"]
    assert all({"level", "timestamp"} <= set(line) for line in lines)
    assert lines[0]["operator"].startswith("http://127.0.0.1:")


def test_a_ledger_that_does_not_balance_is_said_in_one_line(tmp_path: Path, service: dict[str, Any]) -> None:
    with world.house(tmp_path, service) as house:
        house.stop()
        with contextlib.closing(sqlite3.connect(tmp_path / "tables.sqlite3")) as db:
            db.execute("INSERT INTO accounts VALUES ('player:ann', 5)")
            db.commit()
        again = subprocess.run(
            [sys.executable, "-m", *house.arguments],
            capture_output=True,
            text=True,
            timeout=world.TIMEOUT_S,
            check=False,
        )
    assert again.returncode == 4
    assert again.stderr == "Error: the ledger does not balance: its accounts add up to 5 cents, not to 0\n"


def test_an_address_that_is_taken_is_said_in_one_line(tmp_path: Path, service: dict[str, Any]) -> None:
    with world.house(tmp_path, service) as first:
        other = tmp_path / "other"
        other.mkdir()
        for setting, address in (
            ("http-operator", first.ready["operator"].removeprefix("http://")),
            ("listen", first.address),
        ):
            second = world.House(other, service)
            second.arguments += [f"--{setting}", address]
            with pytest.raises(AssertionError, match=setting.replace("-", "_") + ": ") as refused:
                second.start()
            assert "Traceback" not in str(refused.value)
        assert get(first, "/healthz")[0] == 200
