"""Recorded hands: the engine asks, refuses and pays as the rooms did that dealt them."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from dealer.replay import differences, replay_case

HERE = Path(__file__).parent
CARRIED = sorted((HERE / "hands" / "recorded").glob("*.json"))
COLLECTION = sorted((HERE.parents[2] / "shared" / "cases" / "hands").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


CASES = {path.stem: load(path) for path in CARRIED}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_recorded_hand_replays(case: dict[str, Any]) -> None:
    assert differences(case, replay_case(case)) == []


@pytest.mark.skipif(not COLLECTION, reason="the collection of recorded hands does not lie beside the project")
def test_the_whole_collection_replays() -> None:
    assert len(COLLECTION) >= 221
    for path in COLLECTION:
        case = load(path)
        assert differences(case, replay_case(case)) == [], case["id"]


def test_a_replay_is_the_same_each_time() -> None:
    for case in CASES.values():
        assert replay_case(case) == replay_case(copy.deepcopy(case))


def test_a_room_that_is_known_to_differ_is_replayed_under_its_own_rule_and_says_so() -> None:
    case = CASES["razz-kingsclub-25250a93"]
    assert replay_case(case)["profile"] == "recorded/deviates"
    usual = {**case, "tags": [tag for tag in case["tags"] if tag != "deviates"]}
    refused = replay_case(usual)["rejected"]
    assert refused["index"] == 6
    assert "complete to 50000" in refused["reason"]


@pytest.mark.parametrize(
    ("case_id", "unknown"),
    [
        ("draw5-boss-b4ecd969", True),  # the loser's cards were never shown
        ("razz-kingsclub-25250a93", False),  # two last cards unseen, but no card saves the ten-high hand
        ("stud-everleaf-fdcca052", False),  # unseen cards of players who folded
        ("stud-pokerstars-f7c61611", False),
    ],
)
def test_unknown_says_whether_an_unseen_card_decides(case_id: str, unknown: bool) -> None:
    assert replay_case(CASES[case_id])["unknown"] is unknown


def changed(case: dict[str, Any], index: int, **change: Any) -> dict[str, Any]:
    case = copy.deepcopy(case)
    case["actions"][index].update(change)
    return case


def known_boards() -> list[dict[str, Any]]:
    return [case for case in CASES.values() if "upcards-unknown" not in case["tags"]]


def test_an_act_of_the_wrong_player_is_refused_where_it_stands() -> None:
    for case in known_boards():
        for index, action in enumerate(case["actions"]):
            other = next(seat["player"] for seat in case["seats"] if seat["player"] != action["player"])
            assert replay_case(changed(case, index, player=other))["rejected"]["index"] == index


def test_a_wrong_total_is_refused_where_it_stands() -> None:
    for case in known_boards():
        for index, action in enumerate(case["actions"]):
            if action.get("to") and action["action"] in ("call", "bring-in"):
                assert replay_case(changed(case, index, to=action["to"] + 1))["rejected"]["index"] == index
            elif action.get("to") and case["structure"] == "fixed-limit":
                assert replay_case(changed(case, index, to=action["to"] - 1))["rejected"]["index"] == index


def test_a_check_facing_a_bet_and_a_call_of_nothing_are_refused() -> None:
    for case in known_boards():
        for index, action in enumerate(case["actions"]):
            wrong = {"call": "check", "check": "call"}.get(action["action"])
            if wrong:
                refused = replay_case(changed(case, index, action=wrong))["rejected"]
                assert refused["index"] == index
                assert action["action"] in refused["reason"]


def test_a_record_that_stops_early_is_refused_at_its_end_and_names_who_is_asked() -> None:
    for case in known_boards():
        last = case["actions"][-1]
        short = {**case, "actions": case["actions"][:-1]}
        replayed = replay_case(short)
        assert replayed["rejected"]["index"] == len(short["actions"])
        assert last["player"] in replayed["rejected"]["reason"]


def test_a_record_that_goes_on_after_the_end_is_refused() -> None:
    for case in known_boards():
        longer = {**case, "actions": [*case["actions"], case["actions"][-1]]}
        assert replay_case(longer)["rejected"] == {"index": len(case["actions"]), "reason": "the hand is over"}


def test_each_kind_of_difference_is_told() -> None:
    case = CASES["stud8-merge-13c04acd"]
    replayed = replay_case(case)
    player = random.Random(1).choice(list(case["net"]))
    for key, value in (
        ("rejected", {"index": 0, "reason": "made up"}),
        ("asked", []),
        ("pots", []),
        ("net_before_rake", {**replayed["net_before_rake"], player: 12345}),
    ):
        (difference,) = differences(case, {**replayed, key: value})
        assert difference.startswith(key)
