"""The certification matrix is made from the code, complete, and names only what is there."""

from pathlib import Path

import pytest

from stats_tests.battery import CATALOGUE
from stats_tests.manifest import FAIRNESS_RELEVANT, manifest_of, module_hash_set
from stats_tests.rejections import ENTRY
from stats_tests.requirements import (
    JURISDICTIONS,
    REQUIREMENTS,
    Requirement,
    asked_for_by,
    clauses_of,
    entries_of,
    evidence_of,
    page,
)

ROOT = Path(__file__).parent.parent.parent

FIFTEEN = {
    # Pennsylvania's list, and what carries out each.
    "chi-square": "numbers.frequency",
    "equidistribution": "numbers.equidistribution",
    "gap": "numbers.gaps",
    "overlaps": "numbers.overlaps",
    "poker": "numbers.poker",
    "coupon collector": "numbers.coupon-collector",
    "permutation": "numbers.permutation",
    "Kolmogorov-Smirnov": "numbers.frequency",
    "adjacency": "numbers.serial-pairs",
    "order statistics": "numbers.order-statistics",
    "runs": "numbers.runs",
    "interplay correlation": "numbers.interplay",
    "serial correlation": "numbers.serial-correlation",
    "subsequences": "numbers.subsequences",
    "Poisson": "numbers.poisson",
}


def test_the_page_is_what_its_maker_makes() -> None:
    assert (ROOT / "docs/certification.md").read_text() == page()


def test_every_requirement_has_its_row() -> None:
    assert [requirement.id for requirement in REQUIREMENTS] == [f"R{number:02}" for number in range(1, 26)]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.id)
def test_a_row_names_code_and_tests_that_are_there(requirement: Requirement) -> None:
    for path in (*requirement.code, *requirement.tests):
        assert (ROOT / path).exists(), path


def test_every_folder_of_evidence_says_what_it_shows() -> None:
    known = {requirement.id for requirement in REQUIREMENTS}
    folders = [page.parent.name for page in (ROOT / "docs/evidence").glob("*/README.md")]
    shown = {name for requirement in known for name in evidence_of(requirement)}
    assert folders
    assert shown == set(folders)


def test_every_clause_that_a_test_names_has_a_row() -> None:
    known = {requirement.id for requirement in REQUIREMENTS}
    for entry in (*CATALOGUE.values(), ENTRY):
        assert set(entry.clauses) <= known, entry.id


def test_every_clause_is_of_one_jurisdiction() -> None:
    for requirement in REQUIREMENTS:
        for clause in requirement.asked_by:
            askers = [
                name for name, asker in JURISDICTIONS.items() if clause in clauses_of(asker).get(requirement.id, [])
            ]
            assert len(askers) == 1, clause
    assert all(clauses_of(asker) for asker in JURISDICTIONS.values())


def test_a_report_names_every_clause_that_its_tests_stand_for() -> None:
    told = asked_for_by(["R02", "R03", "R05", "R02"])
    assert [(row["requirement"], row["clauses"]) for row in told if row["jurisdiction"].startswith("Gaming")] == [
        ("R02", ["GLI-19 3.2.2"])
    ]
    assert {row["jurisdiction"] for row in told if row["requirement"] == "R05"} == {
        "Virginia", "South Dakota", "New Mexico", "West Virginia"
    }  # fmt: skip
    assert len(told) == 6


def test_the_fifteen_tests_are_there() -> None:
    assert len(FIFTEEN) == 15
    assert set(FIFTEEN.values()) <= set(entries_of("R03"))


def test_a_change_to_a_fairness_relevant_module_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "protocol").mkdir(parents=True)
    for name in ("drbg.py", "server.py", "protocol/derivation.py"):
        (package / name).write_text("a = 1\n")
    before = manifest_of(package, FAIRNESS_RELEVANT)
    (package / "server.py").write_text("a = 2\n")
    assert manifest_of(package, FAIRNESS_RELEVANT) == before
    (package / "protocol/derivation.py").write_text("a = 2\n")
    assert manifest_of(package, FAIRNESS_RELEVANT) != before


def test_the_modules_that_decide_fairness_are_found() -> None:
    for name in FAIRNESS_RELEVANT:
        assert any(path.startswith(f"rngsvc/{name}") for path in module_hash_set()), name
