"""Recorded hands: the engine asks, refuses and pays as the rooms did that dealt them."""

import copy
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dealer import draw
from dealer.events import Post, Posting
from dealer.hand import start
from dealer.house_rules import Form, HouseRules, Stakes, Structure
from dealer.recorded_case import read_case
from dealer.replay import differences, replay_case
from dealer.rooms import recorded
from tests.dealer.case_of import case_of
from tests.dealer.play import Shoe, at_random, call_down, play
from tests.scale import scaled

HERE = Path(__file__).parent
CARRIED = sorted((HERE / "hands" / "recorded").glob("*.json"))
COLLECTION = sorted((HERE.parents[2] / "shared" / "cases" / "hands").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return read_case(path.read_bytes())


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


def test_an_unknown_act_and_a_card_that_is_dealt_twice_are_refused_where_they_stand() -> None:
    case = CASES["stud-pokerstars-f7c61611"]
    refused = replay_case(changed(case, 3, action="straddle"))["rejected"]
    assert refused["index"] == 3
    assert "'straddle' is not one of" in refused["reason"]
    twice = copy.deepcopy(case)
    first, second = list(twice["cards"])[:2]
    twice["cards"][first]["third"][2] = twice["cards"][second]["third"][2]
    assert replay_case(twice)["rejected"]["index"] == 0
    assert "not different cards" in replay_case(twice)["rejected"]["reason"]


def test_a_record_without_its_answers_is_replayed_and_compared_in_the_rest() -> None:
    for case in CASES.values():
        answers = ("pots", "total_pot", "rake", "collected", "net", "uncalled_returns", "checks", "notes")
        bare = {key: value for key, value in case.items() if key not in answers}
        assert replay_case(bare) == replay_case(case)
        assert differences(bare, replay_case(bare)) == []


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


def test_a_record_whose_own_sums_do_not_agree_is_told() -> None:
    for case in CASES.values():
        (first, *_), replayed = case["collected"], replay_case(case)
        loser = next(player for player, net in case["net"].items() if net < 0)
        post = {**case["forced"][0], "amount": case["forced"][0]["amount"] + 1}
        for begins, wrong in (
            ("collected", {**case, "collected": [{**first, "player": loser}, *case["collected"][1:]]}),
            ("collected", {**case, "collected": [{**first, "amount": first["amount"] + 1}, *case["collected"][1:]]}),
            ("collected", {**case, "forced": [post, *case["forced"][1:]]}),
            ("total_pot", {**case, "total_pot": case["total_pot"] + 1}),
        ):
            assert any(difference.startswith(begins) for difference in differences(wrong, replayed)), case["id"]


STAKES = {
    Form.SEVEN_CARD_STUD: Stakes(name="5/10", ante=1, bring_in=2, small_bet=5, big_bet=10),
    Form.FIVE_CARD_DRAW: Stakes(name="5/10", ante=1, small_blind=2, big_blind=5, small_bet=5, big_bet=10),
}


def random_case(game: str, rng: random.Random, rules: HouseRules | None = None) -> dict[str, Any]:
    rules = rules or recorded.GAMES[game]
    stakes = STAKES[rules.form]
    if rules.form is Form.SEVEN_CARD_STUD:
        seats, button, posts = sorted(rng.sample(range(1, 10), rng.randint(2, 8))), 0, None
    else:
        stakes = replace(stakes, structure=rng.choice(list(Structure)))
        seats = sorted(rng.sample(range(1, 10), rng.randint(2, 7)))
        button = rng.randint(1, 9)  # an empty seat may have it
        posts = random_posts(rules, stakes, seats, button, rng)
    # Where nobody posts the small blind, a big blind who is all-in for his ante leaves no trace of his place.
    traced = posts is None or any(posting.post is Post.SMALL_BLIND for posting in posts)
    stacks = [(seat, rng.choice([rng.randint(1 if traced else 2, 30), 2 - traced, 500])) for seat in seats]
    choose = rng.choice([call_down, at_random(rng)])
    return case_of(play(start(rules, stakes, stacks, button=button, posts=posts), Shoe(rng), choose), game)


def random_posts(rules: HouseRules, stakes: Stakes, seats: list[int], button: int, rng: random.Random) -> list[Posting]:
    """Return forced money as rooms take it: antes of all, of the big blind or of nobody, and what newcomers post."""
    order = sorted(seats, key=lambda seat: (seat <= button, seat))
    small, big = (order[position] for position in draw.usual_blinds(rules, len(seats)))
    antes = rng.choice([[], [], rng.sample(seats, len(seats)), [big]])
    posts = [Posting(seat, Post.DEAD if antes == [big] else Post.ANTE, stakes.ante) for seat in antes]
    if rng.random() < 0.8:
        posts.append(Posting(small, Post.SMALL_BLIND, stakes.small_blind))
    posts.append(Posting(big, Post.BIG_BLIND, stakes.big_blind))
    for seat in rng.sample(order[2:], rng.choice([0, 0, min(1, len(order) - 2), len(order) - 2])):
        if rng.random() < 0.5:
            posts.append(Posting(seat, Post.DEAD, stakes.small_blind))
        posts.append(Posting(seat, Post.LIVE_POST, stakes.big_blind))
    return posts


@pytest.mark.parametrize("game", list(recorded.GAMES))
def test_what_the_engine_plays_it_replays(game: str) -> None:
    rng = random.Random(game)
    community = 0
    for _ in range(scaled(150, 10_000)):
        case = random_case(game, rng)
        community += "community_card" in case
        replayed = replay_case(case)
        assert differences(case, replayed) == []
        assert not replayed["unknown"]
    assert bool(community) is (recorded.GAMES[game].form is Form.SEVEN_CARD_STUD)


@pytest.mark.parametrize("game", ["seven-card-stud", "seven-card-stud-hi-lo", "razz"])
def test_a_room_that_reads_a_rule_otherwise_is_replayed_by_its_reading_and_says_so(game: str) -> None:
    usual, *others = recorded.readings(recorded.GAMES[game], frozenset())
    rng = random.Random(f"readings {game}")
    for reading in others:
        profiles = set()
        for _ in range(scaled(400, 5_000)):
            case = random_case(game, rng, reading)
            replayed = replay_case(case)
            profiles.add(replayed["profile"])
            assert differences(case, replayed) == []
        assert profiles == {usual.name, reading.name}, "most hands do not show the difference, and then say nothing"


@pytest.mark.parametrize("game", list(recorded.GAMES))
def test_one_chip_more_anywhere_in_a_record_differs(game: str) -> None:
    rng = random.Random(f"chip {game}")
    for _ in range(scaled(40, 2_000)):
        case = random_case(game, rng)
        spoilt = copy.deepcopy(case)
        members = [(pot, "total") for pot in spoilt["pots"]]
        members += [(share, "amount") for share in (*spoilt["collected"], *spoilt["uncalled_returns"])]
        members += [(action, "amount") for action in spoilt["actions"] if "amount" in action]
        members += [(spoilt["net"], player) for player in spoilt["net"]]
        members += [(spoilt, "total_pot"), (spoilt, "rake")]
        inside, name = rng.choice(members)
        inside[name] += 1
        assert differences(spoilt, replay_case(spoilt)) != [], name


@pytest.mark.parametrize("game", list(recorded.GAMES))
def test_cards_that_nobody_saw_change_neither_betting_nor_pots(game: str) -> None:
    """Of those who folded everything but what lay open; of discards all: the record then has ``??`` there."""
    rng = random.Random(f"hidden {game}")
    for _ in range(scaled(60, 4_000)):
        case = random_case(game, rng)
        if len(case["seats"]) > 5 or "community_card" in case:
            continue  # the deck runs short, and then an unseen card may be one that is named later
        shown = {entry["player"] for entry in case["showdown"]}
        for player, cards in case["cards"].items():
            if player not in shown:
                for street, names in cards.items():
                    if isinstance(names, list):
                        down = {"third": 2, "seventh": 1, "fourth": 0, "fifth": 0, "sixth": 0}.get(street, len(names))
                        cards[street] = ["??"] * down + names[down:]
            else:
                cards.pop("discarded", None)
                cards.pop("drawn", None)
                if "predraw" in cards:
                    cards["predraw"] = ["??"] * 5
        for action in case["actions"]:
            action.pop("cards", None)
        replayed = replay_case(case)
        assert differences(case, replayed) == []
        assert not replayed["unknown"]


@pytest.mark.parametrize("game", ["seven-card-stud", "seven-card-stud-hi-lo", "razz"])
def test_unseen_upcards_are_found_that_let_the_record_go_through(game: str) -> None:
    """Hands are shown whole at the end, but of one player at most is it known which of his cards lay open."""
    rng = random.Random(f"upcards {game}")
    for _ in range(scaled(25, 1_000)):
        case = random_case(game, rng)
        if "community_card" in case:
            continue
        seen = rng.choice([None, *case["cards"]])
        for player, cards in case["cards"].items():
            for street, names in cards.items() if player != seen else ():
                cards[street] = ["??"] * len(names)
        assert differences(case, replay_case(case)) == []


def test_the_losers_unseen_hand_makes_the_result_unknown_and_the_recorded_winner_still_wins() -> None:
    rng = random.Random(9)
    unknown = 0
    for _ in range(scaled(60, 2_000)):
        case = random_case("five-card-draw", rng)
        losers = {entry["player"] for entry in case["showdown"] if entry["how"] == "mucked"}
        for player in losers:
            case["cards"][player] = {
                "predraw": ["??"] * 5,
                "discard_count": case["cards"][player].get("discard_count", 0),
            }
        case["showdown"] = [entry for entry in case["showdown"] if entry["player"] not in losers]
        for action in case["actions"]:
            if action["player"] in losers:
                action.pop("cards", None)
        replayed = replay_case(case)
        unknown += replayed["unknown"]
        assert replayed["rejected"] is None
        assert replayed["pots"] == [{k: pot[k] for k in ("name", "total", "eligible")} for pot in case["pots"]]
        if losers:
            assert replayed["net_before_rake"] == case["net"]
    assert unknown > 5


def test_a_discard_of_no_card_is_to_stand_pat() -> None:
    for case in CASES.values():
        written = copy.deepcopy(case)
        for action in written["actions"]:
            if action["action"] == "stand-pat":
                action |= {"action": "discard", "count": 0}
        assert replay_case(written) == replay_case(case)


def test_whether_a_blind_is_live_is_the_records_word() -> None:
    """A newcomer's big blind that is dead is no bet of his; a dead blind that is said to be live is one."""
    stakes = {"small_bet": 10, "big_bet": 20, "small_blind": 5, "big_blind": 10}
    for kind, live in itertools.product(("big-blind", "dead-blind"), (True, False, None)):
        is_live = live if live is not None else kind == "big-blind"
        newcomer = {"player": "P4", "kind": kind, "amount": 10} | ({"live": live} if live is not None else {})
        case = {
            "id": "newcomer",
            "game": "five-card-draw",
            "structure": "fixed-limit",
            "stakes": stakes,
            "button": 1,
            "seats": [{"seat": seat, "player": f"P{seat}", "stack": 100} for seat in range(1, 5)],
            "forced": [
                {"player": "P2", "kind": "small-blind", "amount": 5},
                {"player": "P3", "kind": "big-blind", "amount": 10},
                newcomer,
            ],
            "cards": {},
            "actions": [
                {"street": "predraw", "player": "P4", "action": "check" if is_live else "call"},
                *({"street": "predraw", "player": player, "action": "fold"} for player in ("P1", "P2")),
            ],
        }
        replayed = replay_case(read_case(json.dumps(case).encode()))
        # It is the big blind's turn then: the record ends before it does.
        assert replayed["rejected"] == {"index": 3, "reason": "the record ends and P3 is asked on predraw"}
        assert replayed["net_before_rake"]["P4"] == (-10 if is_live else -20)
