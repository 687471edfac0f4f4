"""The wheel with compiled rules, built and installed into a folder: what is timed and tested is what users install."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


class NotBuilt(Exception):
    """The wheel cannot be built here; the message says what is missing, or what the compiler said."""


def modules() -> list[str]:
    """Return the names of the modules that the wheel has compiled, as `pyproject.toml` lists them."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    return [path.removesuffix(".py").strip("/").replace("/", ".") for path in wheel["hooks"]["mypyc"]["include"]]


def build(folder: Path) -> Path:
    """Build the wheel into an empty folder and return its path; `NotBuilt` if that cannot be done."""
    command = [str(ROOT / "deploy" / "compiled_wheel.sh"), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise NotBuilt(done.stderr.strip())
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> dict[str, str]:
    """Install the wheel into ``folder`` and return an environment in which Python finds it before the sources."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True, timeout=300)
    # The sources come after it, for `benchmarks` and `tests`.
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
