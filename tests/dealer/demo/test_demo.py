"""`dealer demo` as a newcomer runs it: with a service of its own, and against services that are not what they say."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from dealer.demo import Played
from dealer.rooms import GAMES
from rngsvc.protocol.verify import verify

TIMEOUT_S = 120


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dealer", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def service() -> Iterator[dict[str, str]]:
    """A shuffle service in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rngsvc", "serve", "--ephemeral"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
        process.stdout.close()


def test_every_game_is_played_and_every_step_of_every_document_holds() -> None:
    run = demo("--json", "--seed", "7")
    assert run.returncode == 0, run.stderr
    hands = [json.loads(line) for line in run.stdout.splitlines()]
    assert {hand["game"] for hand in hands} == set(GAMES)
    for hand in hands:
        assert hand["verdict"] == "pass"
        assert sum(hand["net"].values()) == 0
        house = hand["reports"].pop("house")
        # The house's own file holds everything but a player's seed.
        unseen = {step for step, outcome in house.items() if outcome != "checked"}
        # Between a later hand and its table's first entry stand those of earlier ones, such as the drawn button's.
        assert unseen == ({"own"} if hand["seq"] == 1 else {"own", "chain"})
        for report in hand["reports"].values():
            assert report["own"] == report["history"] == report["seeds"] == "checked"
            assert report["derivation"] == "not shown"  # the auditor's alone


def test_what_is_not_shown_counts_as_not_verified(service: dict[str, str]) -> None:
    run = demo("--game", "limit_stud", "--json", "--rngsvc", service["grpc"], "--log-key", service["log_key"])
    hand = json.loads(run.stdout)
    assert hand["log_key"] == service["log_key"]
    written = hand["history"]
    del written["receipt"]["openings"]
    for event in written["events"]:
        for card in event.get("cards", ()):
            card.pop("item", None)
    reports = {"house": verify(json.dumps(written), service["log_key"])}
    rules = GAMES["limit_stud"]
    played = Played(rules, rules.stakes[0], b"", 1, {}, "", reports)
    assert {failure.split(": ")[1] for failure in played.failures} == {"openings", "items", "derivation"}


def test_the_text_of_a_players_view_hides_the_other_hole_cards() -> None:
    run = demo("--game", "casino_club", "--seat", "2", "--seed", "1")
    assert run.returncode == 0, run.stderr
    third = [line.strip() for line in run.stdout.split("Third street")[1].splitlines()[1:7]]
    assert [line.startswith("Ben") for line in third] == ["?? ??" not in line for line in third]
    assert "1 hand played and verified" in run.stdout


def test_several_hands_go_on_at_one_table(service: dict[str, str]) -> None:
    run = demo(
        "--house", "pokerkings", "--hands", "3", "--json", "--rngsvc", service["grpc"], "--log-key", service["log_key"]
    )
    assert run.returncode == 0, run.stderr
    hands = [json.loads(line) for line in run.stdout.splitlines()]
    # The first sequence number of each table draws the button.
    assert [hand["seq"] for hand in hands] == [2, 3, 4] * 3
    buttons = [hand["history"]["button"] for hand in hands]
    assert all(later % 5 == (earlier + 1) % 5 for n, (earlier, later) in enumerate(pairwise(buttons)) if n % 3 < 2)


@pytest.mark.parametrize(
    ("address", "log_key", "exit_code"),
    [
        ("127.0.0.1:1", None, 3),
        (None, "ephemeral.example/rng+2ae4a1b1+AfvUVqYn4lE1c8vHc0L3cM9a1bIOLgNTVp7Wqkm0n5cW", 2),
        (None, "other", 1),
    ],
    ids=["nobody listens", "no verifier key", "the log is signed by another key"],
)
def test_a_service_that_is_not_what_it_should_be_ends_the_demonstration(
    service: dict[str, str], address: str | None, log_key: str | None, exit_code: int
) -> None:
    if log_key == "other":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        from rngsvc.protocol.signed_note import NoteKey

        public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        log_key = NoteKey(service["origin"], public).vkey
    run = demo("--rngsvc", address or service["grpc"], "--log-key", log_key or service["log_key"])
    assert run.returncode == exit_code, run.stderr
    assert "Traceback" not in run.stderr


def test_the_child_service_ends_with_the_demonstration() -> None:
    async def addresses() -> str:
        from dealer.demo_service import child_service

        async with child_service() as service:
            return service.address

    host, port = asyncio.run(addresses()).split(":")

    async def connect() -> None:
        await asyncio.open_connection(host, int(port))

    with pytest.raises(ConnectionRefusedError):
        asyncio.run(connect())


@pytest.mark.parametrize("house", ["casino-club", "casino_club"])
def test_a_house_may_be_written_with_a_dash_or_an_underscore(house: str) -> None:
    run = demo("--house", house, "--json")
    assert run.returncode == 0, run.stderr
    assert [json.loads(line)["game"] for line in run.stdout.splitlines()] == ["casino_club"]


@pytest.mark.parametrize("option", ["--house", "--game"])
def test_an_unknown_name_is_a_usage_error_that_lists_the_known_ones(option: str) -> None:
    run = demo(option, "elm-room")
    assert run.returncode == 2
    assert f"Invalid value for '{option}': 'elm-room' is not one of 'casino_club', " in run.stderr
    assert "'pokerkings'" in run.stderr
