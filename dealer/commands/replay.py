"""`dealer replay`."""

import json
from pathlib import Path

import click

from dealer.commands.exit_codes import Ended, ExitCode, reason_of
from dealer.recorded_case import read_case
from dealer.replay import differences, replay_case


@click.command()
@click.argument("cases", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line a case: what the engine's own play gives.")
def command(cases: tuple[Path, ...], as_json: bool) -> None:
    """Play recorded hands again, by the engine's own rules, and compare.

    CASES are JSON files in the neutral form of recorded hands. Exit code 0: the engine asks, refuses and pays as each
    record does; 1: one differs; 2: a file is no recorded hand. The other files are played all the same.
    """
    differ, unfit = [], []
    for path in cases:
        try:
            case = read_case(path.read_bytes())
        except (OSError, ValueError) as error:
            unfit.append(f"{path}: is no recorded hand: {reason_of(error)}")
            continue
        played = replay_case(case)
        found = differences(case, played)
        if found:
            differ.append(played["id"])
        if as_json:
            click.echo(json.dumps(played))
        else:
            click.echo(f"{played['id']}: {'agrees' if not found else 'differs'}")
        for difference in found:
            click.echo(f"  {difference}", err=True)
    told = [*unfit, *([f"{len(differ)} of {len(cases)} differ: {', '.join(differ)}"] if differ else [])]
    if told:
        raise Ended(ExitCode.USAGE if unfit else ExitCode.CHECK_FAILED, "\n".join(told))
