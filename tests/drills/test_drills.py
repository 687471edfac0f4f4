"""Each drill of the handbook, in its small form."""

from pathlib import Path

import pytest

from tests.drills.__main__ import DRILLS, drill
from tests.drills.account import Account, CannotRun


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", DRILLS)
def test_drill(name: str, tmp_path: Path) -> None:
    try:
        drill(name)(tmp_path, Account())
    except CannotRun as lacking:
        pytest.skip(str(lacking))
