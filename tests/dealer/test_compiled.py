"""The rules compiled by mypyc are the same rules: the tests of the houses and of any hand pass with them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.dealer_compiled import ROOT, compile_rules, environment
from tests.scale import PROVING

TESTS = ["rules_of_stud", "rules_of_draw", "rules_of_all_houses", "reported_faults", "any_hand", "replay", "history"]


@pytest.mark.skipif(not PROVING, reason="compiling takes a minute: in the full form only")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.timeout(1800)
def test_the_compiled_rules_pass_the_tests_of_the_plain_ones(tmp_path: Path) -> None:
    compile_rules(tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    files = [f"tests/dealer/test_{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", *files]
    plain_form = {**environment(tmp_path), "PROVE": "0"}
    run = subprocess.run(
        command, check=False, cwd=tmp_path, env=plain_form, capture_output=True, text=True, timeout=1500
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    where = [sys.executable, "-c", "import dealer.hand; print(dealer.hand.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert not found.stdout.strip().endswith(".py")
