"""The neutral form of recorded hands: what does not have it is refused by the member that is wrong, in one line."""

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dealer.commands.replay import command
from dealer.recorded_case import read_case
from dealer.replay import differences, replay_case
from tests.scale import scaled

FILES = sorted((Path(__file__).parent / "hands" / "recorded").glob("*.json"))
CASES = [json.loads(path.read_text()) for path in FILES]
DRAW = next(case for case in CASES if case["game"] == "five-card-draw" and case["button"])
STUD = next(case for case in CASES if case["game"] == "seven-card-stud" and case["showdown"])
# Nobody looks at these: they are for people.
FREE = ("source", "not_dealt", "notes", "checks")

Path_ = tuple[str | int, ...]


def within(case: dict[str, Any], **change: Any) -> dict[str, Any]:
    """Return a case with some members changed, ``actions__0__to`` being that of the first action."""
    changed = copy.deepcopy(case)
    for name, value in change.items():
        *path, last = (int(part) if part.isdigit() else part for part in name.split("__"))
        inside: Any = changed
        for part in path:
            inside = inside[part]
        inside[last] = value
    return changed


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ({}, "id: is missing"),
        ([], "case: must be an object"),
        (None, "case: must be an object"),
        (within(STUD, game="whist"), "game: 'whist' is not one of seven-card-stud, "),
        (within(STUD, game=["razz"]), "game: ['razz'] is not one of seven-card-stud, "),
        (within(STUD, structure="limit"), "structure: 'limit' is not one of fixed-limit, pot-limit, no-limit"),
        (within(STUD, id="two\nlines"), "id: must be a string of 1..200 printable characters"),
        (within(STUD, id="\ud800"), "id: must be a string of 1..200 printable characters"),
        (within(STUD, actions=None), "actions: is missing"),
        (within(STUD, actions={}), "actions: must be an array of 0..1000 elements"),
        (within(STUD, seats=STUD["seats"][:1]), "seats: must be an array of 2..8 elements"),
        (within(STUD, seats__0__stack=1.5), "seats[0].stack: must be an integer 1.."),
        (within(STUD, seats__0__stack=0), "seats[0].stack: must be an integer 1.."),
        (within(STUD, seats__0__stack=10**30), "seats[0].stack: must be an integer 1.."),
        (within(STUD, seats__0__seat=True), "seats[0].seat: must be an integer 1..99"),
        (within(STUD, seats__1__seat=STUD["seats"][0]["seat"]), "seats[1].seat: "),
        (within(STUD, seats__1__player="P1"), "seats[1].player: 'P1' has a seat already"),
        (within(STUD, forced__0__kind="straddle"), "forced[0].kind: 'straddle' is not one of ante, small-blind, "),
        (within(STUD, forced__0__player="P9"), "forced[0].player: 'P9' is not one of P1, "),
        (within(STUD, forced__0__live="no"), "forced[0].live: must be true or false"),
        (within(STUD, stakes={"small_bet": 2}), "stakes.big_bet: is missing"),
        (within(STUD, stakes__small_bet=0), "stakes.small_bet: must be an integer 1.."),
        (within(STUD, stakes__bring_in=10**6), "stakes.bring_in: must be less than the small bet"),
        (within(STUD, stakes__blind=1), "stakes: 'blind' is not one of ante, bring_in, "),
        (within(DRAW, stakes={"small_bet": 2, "big_bet": 4}), "stakes.big_blind: is missing"),
        (within(STUD, cards__P9={}), "cards: 'P9' is not one of P1, "),
        (within(STUD, cards__P1__third=["As", "Ah"]), "cards.P1.third: must be an array of 3..3 elements"),
        (within(STUD, cards__P1__third=["As", "Ah", "1d"]), "cards.P1.third[2]: must be a card such as 'Td', or '??'"),
        (within(STUD, cards__P1__final=["As"] * 5), "cards.P1: 'final' is not one of third, fourth, "),
        (within(DRAW, cards__P1__third=["As"] * 3), "cards.P1: 'third' is not one of predraw, "),
        (within(DRAW, cards__P1__discard_count=6), "cards.P1.discard_count: must be an integer 0..5"),
        (within(DRAW, button="P1"), "button: must be an integer 0..99"),
        (within(STUD, community_card="joker"), "community_card: must be a card such as 'Td', or '??'"),
        (within(STUD, actions__0=7), "actions[0]: must be an object"),
        (within(STUD, actions__0__to=-1), "actions[0].to: must be an integer 0.."),
        (within(STUD, actions__0__player="P9"), "actions[0].player: 'P9' is not one of P1, "),
        (within(STUD, actions__0__action="discard"), "actions[0].count: is missing, and so are the cards"),
        (
            within(STUD, actions__0__action="discard", actions__0__count=2, actions__0__cards=["As"]),
            "actions[0].count: must be 1, as many as its cards",
        ),
        (within(STUD, actions__0__action="stand-pat", actions__0__count=1), "actions[0].count: must be 0"),
        (within(STUD, pots=[1]), "pots[0]: must be an object"),
        (within(STUD, pots__0__total="all"), "pots[0].total: must be an integer 0.."),
        (within(STUD, pots__0__eligible=["P9"]), "pots[0].eligible[0]: 'P9' is not one of P1, "),
        (within(STUD, showdown=7), "showdown: must be an array of 0..1000 elements"),
        (within(STUD, showdown__0__how="held"), "showdown[0].how: 'held' is not one of shown, mucked"),
        (within(STUD, showdown__0__cards=["As"] * 8), "showdown[0].cards: must be an array of 0..7 elements"),
        (within(STUD, collected=[{"player": "P1"}]), "collected[0].amount: is missing"),
        (within(STUD, collected__0__part="high"), "collected[0].part: 'high' is not one of hi, lo"),
        (within(STUD, uncalled_returns="none"), "uncalled_returns: must be an array of 0..1000 elements"),
        (within(STUD, net={"P1": 0}), "net.P2: is missing"),
        (within(STUD, net__P1="won"), "net.P1: must be an integer "),
        (within(STUD, rake="5%"), "rake: must be an integer 0.."),
        (within(STUD, total_pot=[]), "total_pot: must be an integer 0.."),
        (within(STUD, tags="deviates"), "tags: must be an array of 0..1000 elements"),
    ],
)
def test_a_file_that_is_no_case_is_refused_by_the_member_that_is_wrong(case: object, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
        read_case(json.dumps(case).encode())


@pytest.mark.parametrize("text", [b"", b"\x7fELF\xff", b"[" * 100_000, b'{"id": NaN', b"1" * 10_000])
def test_a_file_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^must be JSON"):
        read_case(text)


def paths(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Yield where every member and element stands, but for those that nobody looks at."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        if not (at == () and name in FREE):
            yield (*at, name)
            yield from paths(each, (*at, name))


def of(value: Any, path: Path_) -> Any:
    for part in path:
        value = value[part]
    return value


def written(path: Path_) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def test_every_member_of_every_case_is_checked_where_it_stands() -> None:
    """No member takes 1.5, and none an object in an object: the message names it, or the list that it is a word of."""
    for case in CASES[:: scaled(4, 1)]:
        for path in paths(case):
            for wrong in (1.5, {"x": {}}, "\0"):
                if isinstance(of(case, path), dict) and isinstance(wrong, dict):
                    continue
                changed = copy.deepcopy(case)
                of(changed, path[:-1])[path[-1]] = wrong
                with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
                    read_case(json.dumps(changed).encode())
                assert str(refused.value).startswith(f"{written(path)}: "), path


def test_null_is_as_good_as_absent() -> None:
    for case in CASES:
        optional = [name for name in case if name not in read_case(json.dumps(case).encode())]
        assert read_case(json.dumps({name: case[name] for name in case if name not in optional}).encode()) == read_case(
            json.dumps(case).encode()
        )


WRONG: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**53, 10**30, 1.5, "", "x", "??", "Td", "P1", "P9", "fold", "call", "third", 5, 100),
    *([], {}, [1], ["??"], {"P1": 1}),
)


def changed_at_random(case: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a case that somebody has put his hands on: members swapped, dropped, doubled, or nearly right."""
    case = copy.deepcopy(case)
    for _ in range(rng.choice([1, 1, 2, 4])):
        where = list(paths(case))
        path = rng.choice(where)
        inside, name = of(case, path[:-1]), path[-1]
        match rng.randrange(6):
            case 0:
                inside[name] = copy.deepcopy(rng.choice(WRONG))
            case 1:
                del inside[name]
            case 2:
                inside[name] = copy.deepcopy(of(case, rng.choice(where)))
            case 3 if isinstance(inside, list):
                inside.insert(rng.randint(0, len(inside)), copy.deepcopy(inside[int(name)]))
            case 4 if isinstance(inside, list):
                rng.shuffle(inside)
            case _:
                inside[name] = nearly(inside[name], rng)
    return case


def nearly(value: Any, rng: random.Random) -> Any:
    """Return another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice([value + 1, value - 1, 2 * value, value // 2, rng.randint(0, 300)])
        case str() if len(value) == 2:
            return rng.choice(["??", f"{rng.choice('23456789TJQKA')}{rng.choice('cdhs')}", f"P{rng.randint(1, 8)}"])
        case str():
            return rng.choice(
                ["fold", "check", "call", "raise", "bet", "complete", "discard", "third", "fourth", "draw"]
            )
        case [*cards] if all(isinstance(card, str) for card in cards):
            return ["??"] * len(cards)
        case _:
            return value


def test_a_changed_case_gives_a_result_or_one_clear_error() -> None:
    rng = random.Random("changed")
    outcomes = dict.fromkeys(("unfit", "differs", "agrees"), 0)
    trials = scaled(600, 100_000)
    for _ in range(trials):
        text = json.dumps(changed_at_random(rng.choice(CASES), rng)).encode()
        try:
            case = read_case(text)
        except ValueError as refused:
            outcomes["unfit"] += re.fullmatch(r"[^\n]{1,400}", str(refused)) is not None
            continue
        replayed = replay_case(case)
        assert json.loads(json.dumps(replayed)) == replayed
        assert [*replayed] == ["id", "profile", "asked", "rejected", "pots", "net_before_rake", "unknown"]
        assert sum(replayed["net_before_rake"].values()) <= 0
        outcomes["differs" if differences(case, replayed) else "agrees"] += 1
    assert sum(outcomes.values()) == trials, "every error is one line"
    assert min(outcomes.values()) > trials // 30


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_exit_codes_say_whether_all_agree_one_differs_or_one_is_no_case(tmp_path: Path) -> None:
    good, other, bad = tmp_path / "good.json", tmp_path / "other.json", tmp_path / "bad.json"
    good.write_text(json.dumps(STUD))
    other.write_text(json.dumps(within(STUD, pots__0__total=1)))
    bad.write_text(json.dumps(within(STUD, pots=[1])))
    agrees, differs, unfit, mixed = run(str(good)), run(str(other)), run(str(bad)), run(str(bad), str(other), str(good))
    assert (agrees.exit_code, agrees.output) == (0, f"{STUD['id']}: agrees\n")
    assert (differs.exit_code, differs.stdout) == (1, f"{STUD['id']}: differs\n")
    assert (unfit.exit_code, unfit.output) == (2, f"Error: {bad}: is no recorded hand: pots[0]: must be an object\n")
    # The others are played all the same.
    assert (mixed.exit_code, mixed.stdout) == (2, f"{STUD['id']}: differs\n{STUD['id']}: agrees\n")
    assert run(str(tmp_path / "none.json")).exit_code == 2


def test_a_json_line_has_what_the_engine_asked_refused_and_paid() -> None:
    for path, case in zip(FILES, CASES, strict=True):
        (line,) = run(str(path), "--json").stdout.splitlines()
        result = json.loads(line)
        assert [*result] == ["id", "profile", "asked", "rejected", "pots", "net_before_rake", "unknown"]
        assert result["asked"] == [[action["player"], action["street"]] for action in case["actions"]]
        assert result["pots"] == [{key: pot[key] for key in ("name", "total", "eligible")} for pot in case["pots"]]
        assert result["net_before_rake"].keys() == {seat["player"] for seat in case["seats"]}
        assert (result["id"], result["rejected"]) == (case["id"], None)
