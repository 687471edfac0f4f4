"""`python -m tests.drills [NAME...]`: break a scratch instance on purpose, and see that it does what the handbook says.

A drill makes its own keys, store and ports in a temporary folder; it touches no service that runs. Exit codes: 0 all
passed, 1 something else was seen than promised, 2 usage, 3 a drill cannot run on this machine.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click

from rngsvc.commands.exit_codes import ExitCode
from tests.drills.account import Account, CannotRun

DRILLS = (
    "kill-9",
    "disk-full",
    "postgres-restart",
    "cut-network",
    "clock-jump",
    "expired-certificate",
    "slow-client",
    "overload",
    "failed-health-test",
    "lost-key",
    "restored-backup",
)


def drill(name: str) -> Callable[[Path, Account], None]:
    """Return what runs the drill ``name`` in an empty folder."""
    run: Callable[[Path, Account], None] = import_module(f"tests.drills.{name.replace('-', '_')}").run
    return run


def about(name: str) -> str:
    """Return the drill in one sentence."""
    return (import_module(f"tests.drills.{name.replace('-', '_')}").__doc__ or "").splitlines()[0]


def rehearse(name: str) -> ExitCode:
    """Run one drill in a temporary folder; the folder stays if it fails."""
    click.echo(f"\n== {name}: {about(name)}")
    folder = Path(tempfile.mkdtemp(prefix=f"drill-{name}-"))
    try:
        drill(name)(folder, Account())
    except CannotRun as lacking:
        shutil.rmtree(folder, ignore_errors=True)
        click.echo(f"SKIP  {name}: {lacking}")
        return ExitCode.UNDECIDED
    except (AssertionError, subprocess.TimeoutExpired) as failed:
        click.echo(f"FAIL  {name}: {failed}\n      keys, store and log of the service are in {folder}")
        return ExitCode.CHECK_FAILED
    shutil.rmtree(folder, ignore_errors=True)
    click.echo(f"PASS  {name}")
    return ExitCode.OK


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(DRILLS), metavar="[NAME]...")
def main(names: tuple[str, ...]) -> None:
    """Run the drills NAME, or all of them."""
    codes = {rehearse(name) for name in names or DRILLS}
    for code in (ExitCode.CHECK_FAILED, ExitCode.UNDECIDED):
        if code in codes:
            sys.exit(code)


if __name__ == "__main__":
    main(prog_name="python -m tests.drills")
