"""`docs/threat-model.md`: each claim names the test that carries it out, and that test is there."""

import re
from pathlib import Path

import pytest

from tests.simulation.adversary.test_dropped_hands import ROWS as DROPPED
from tests.simulation.adversary.test_twin_mode import ROWS as TWIN

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not re.match(r"\| (---|\w+ tries to)", line)]


def test_every_party_has_claims_and_says_what_remains() -> None:
    for party in ("operator", "dealer", "player", "witness", "auditor"):
        section = PAGE.split(f"## A compromised {party}\n")[1].split("\n## ")[0]
        assert NAMED.search(section)
        assert re.search(r"\*\*What (he|it) still can do\*\*", section)


def test_its_figures_are_those_of_the_simulation() -> None:
    tenth = next(row for row in DROPPED if row.dropped == 0.1)
    assert f"within {tenth.half} hands with probability 1/2, within {tenth.surely} with 0.99" in PAGE
    honest, colluding = TWIN[:2]
    assert f"within {honest.half} hand with probability 1/2, within {honest.surely} with 0.99" in PAGE
    assert f"speaks last 1/4: within {colluding.half} and {colluding.surely}" in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0].removeprefix("| "))
def test_every_claim_names_a_test(row: str) -> None:
    assert NAMED.search(row.rsplit(" | ", 1)[1])


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED.findall(PAGE))), ids=lambda part: part.rsplit("/")[-1])
def test_every_test_that_is_named_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
