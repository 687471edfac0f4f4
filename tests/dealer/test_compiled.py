"""The compiled wheel is the same dealer: it has what it must, passes the rules' tests and writes the same bytes."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.compiled_wheel import ROOT, NotBuilt, build, install, modules
from tests.scale import PROVING, scaled

pytestmark = [
    pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc").split()[0]) is None, reason="there is no C compiler"),
    pytest.mark.timeout(scaled(600, 1800)),
]

# Rules and known answers; the full form adds random and recorded hands and whole tables, each with its small count.
TESTS = ["rules_of_stud", "rules_of_draw", "rules_of_all_houses", "reported_faults", "stud_hand"]
MORE = ["any_hand", "ranking", "replay", "history", "slow_model", "against_pokerkit"]

# Runs pytest on the arguments and then says which dealer the tests have used.
RUN = """
import json, sys, pytest
code = pytest.main(sys.argv[1:])
print(json.dumps({name: module.__file__ for name, module in sys.modules.items() if name.startswith("dealer.")}))
sys.exit(code)
"""

# Random hands of every house, with time-outs and folds out of turn, as the house keeps them.
HISTORIES = """
import json, random, sys
from dealer.history import Reader, history
from dealer.rooms import GAMES
from tests.dealer.play import Shoe
from tests.dealer.test_any_hand import any_start, any_step
rng = random.Random(11)
for number in range(int(sys.argv[1])):
    for rules in GAMES.values():
        hand = any_start(rules, rng)
        shoe = Shoe(rng, deck_size=hand.deck_size)
        while not hand.over:
            hand = any_step(hand, shoe, rng)
        print(json.dumps(history(hand, Reader.HOUSE)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**install(wheel, tmp_path_factory.mktemp("installed")), "PROVE": "0"}


def output(command: list[str], environment: dict[str, str], cwd: Path) -> bytes:
    done = subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, timeout=1500)
    assert done.returncode == 0, (done.stdout[-3000:] + done.stderr[-3000:]).decode()
    return done.stdout


def compiled_in(names: list[str]) -> set[str]:
    """Return the modules of ours that are extension modules, of files named as in a wheel."""
    paths = [name.split(".")[0] for name in names if name.endswith((".so", ".pyd"))]
    return {path.replace("/", ".") for path in paths if "/" in path}


def test_the_wheel_has_the_listed_modules_compiled_and_is_for_this_python_only(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert compiled_in(names) == set(modules())
    # The sources go with them, for tracebacks and readers.
    assert {f"{module.replace('.', '/')}.py" for module in modules()} <= set(names)
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in wheel.name
    assert not list((ROOT / "dealer").glob("*.so")), "nothing is left beside the sources"


def test_without_a_compiler_it_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    with pytest.raises(NotBuilt, match="a C compiler is needed"):
        build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_ordinary_wheel_has_nothing_compiled(tmp_path: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HATCH_")}
    output([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], plain, ROOT)
    (ordinary,) = tmp_path.glob("*.whl")
    assert ordinary.name.endswith("-py3-none-any.whl")
    assert not compiled_in(zipfile.ZipFile(ordinary).namelist())


def test_the_compiled_rules_pass_the_tests_of_the_plain_ones(environment: dict[str, str], tmp_path: Path) -> None:
    folder = ROOT / "tests" / "dealer"
    files = [folder / f"test_{name}.py" for name in TESTS]
    if PROVING:
        files += [folder / f"test_{name}.py" for name in MORE] + sorted(folder.glob("table/test_*.py"))
    found_first = f"pythonpath={environment['PYTHONPATH'].replace(os.pathsep, ' ')}"
    options = ["-q", "-p", "no:cacheprovider", "-o", found_first]
    said = output([sys.executable, "-c", RUN, *options, *map(str, files)], environment, tmp_path)
    used = json.loads(said.splitlines()[-1])
    assert not [module for module in modules() if used[module].endswith(".py")]


def test_the_compiled_rules_write_the_same_histories(environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", HISTORIES, str(scaled(20, 500))]
    plain = output(command, {**environment, "PYTHONPATH": str(ROOT)}, tmp_path)
    assert len(plain) > 10_000
    assert output(command, environment, tmp_path) == plain
