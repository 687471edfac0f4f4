"""B5 and B6 with the rules compiled: the same Python files as extension modules, made by mypyc in a temporary folder.

The plain files stay the only source; `compile_rules` serves whoever wants the speed, and the test that both are the
same. It needs mypy (of the development tools) and a C compiler.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Everything that a hand runs through, in the order of import.
RULES = (
    "actions",
    "cards",
    "stub",
    "ranking",
    "house_rules",
    "pot",
    "stud",
    "events",
    "betting",
    "draw",
    "showdown",
    "state",
    "hand",
)


def compile_rules(folder: Path) -> None:
    """Put the packages into ``folder``, the modules of the rules compiled; `CalledProcessError` if that fails."""
    for package in ("dealer", "benchmarks", "tests", "rngsvc"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    modules = [f"dealer/{name}.py" for name in RULES]
    command = [sys.executable, "-m", "mypyc", *modules]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=900)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which Python finds the compiled modules first."""
    return {**os.environ, "PYTHONPATH": str(folder)}


def main() -> None:
    """Compile and print both ratios."""
    if shutil.which("cc") is None:
        print("B5, B6 compiled: not run, there is no C compiler")
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        compile_rules(folder)
        play = (
            "import dealer.hand, benchmarks.dealer_play as play; "
            "assert not dealer.hand.__file__.endswith('.py'), 'the compiled modules were not found'; play.main()"
        )
        subprocess.run([sys.executable, "-c", play], cwd=folder, env=environment(folder), check=True, timeout=900)


if __name__ == "__main__":
    main()
