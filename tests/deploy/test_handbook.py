"""The operator's handbook names what there is: each drill with its command, and no place that is not there.

That each alert has its section is shown by `test_alerts.py`.
"""

import re
from pathlib import Path

import pytest

from tests.drills.__main__ import DRILLS

ROOT = Path(__file__).parent.parent.parent
HANDBOOK = (ROOT / "docs" / "operations.md").read_text()
MONITORING = (ROOT / "docs" / "monitoring.md").read_text()


def section(title: str) -> str:
    """Return the text of a section of the handbook."""
    (found,) = re.findall(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", HANDBOOK, re.MULTILINE | re.DOTALL)
    return str(found)


def rows(text: str) -> list[list[str]]:
    """Return the cells of each row of a table, heads left out."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]


def test_each_drill_has_its_row_and_there_is_no_other() -> None:
    _, *drills = rows(section("Drills"))
    assert [name.strip("`") for name, *_ in drills] == list(DRILLS)
    for name, does, seen, _needs in drills:
        assert does, name
        assert seen, name
    assert "python -m tests.drills" in section("Drills")


def test_what_disaster_recovery_is_practised_by_are_drills() -> None:
    _, *cases = rows(section("Disaster recovery"))
    practised = {case[-1].strip("`") for case in cases if len(case) == 4} - {"-"}
    assert practised <= set(DRILLS)
    # Load and slow callers are no disasters; all else that is practised has its row.
    assert set(DRILLS) - practised == {"slow-client", "overload"}


@pytest.mark.parametrize("page", [HANDBOOK, MONITORING], ids=["operations", "monitoring"])
def test_each_place_within_the_pages_that_is_linked_to_is_there(page: str) -> None:
    anchors = {name: {anchor(title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)} for name, text in
               {"": page, "operations.md": HANDBOOK, "monitoring.md": MONITORING}.items()}  # fmt: skip
    for target, place in re.findall(r"\]\((operations\.md|monitoring\.md|)#([^)]+)\)", page):
        assert place in anchors[target], f"{target}#{place}"


def anchor(title: str) -> str:
    """Return what a heading is linked by."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
