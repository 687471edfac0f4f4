"""Each drill of the handbook, in its small form: what was seen is what is promised."""

from pathlib import Path

import pytest

from tests.drills.__main__ import DRILLS, about, drill
from tests.drills.account import Account, CannotRun, Failed


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", DRILLS)
def test_drill(name: str, tmp_path: Path) -> None:
    try:
        drill(name)(tmp_path, Account())
    except CannotRun as lacking:
        pytest.skip(str(lacking))


def test_every_drill_says_what_it_does_in_one_sentence() -> None:
    for name in DRILLS:
        assert about(name).endswith("."), name


def test_a_promise_that_is_not_kept_ends_the_drill_with_what_was_seen(capsys: pytest.CaptureFixture[str]) -> None:
    account = Account()
    account.check("it serves", kept=True)
    with pytest.raises(Failed, match="it stops: exit code 0"):
        account.check("it stops", kept=False, seen="exit code 0")
    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["ok", "FAIL"]
