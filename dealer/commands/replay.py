"""`dealer replay`."""

import json
from pathlib import Path

import click

from dealer.commands.exit_codes import Ended, ExitCode, reason_of
from dealer.replay import differences, read_case, replay_case


@click.command()
@click.argument("cases", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line a case: what the engine's own play gives.")
def command(cases: tuple[Path, ...], as_json: bool) -> None:
    """Play recorded hands again, by the engine's own rules, and compare.

    CASES are JSON files in the neutral form of recorded hands. Exit code 0: the engine asks, refuses and pays as each
    record does; 1: one differs; 2: a file is no recorded hand.
    """
    differ = []
    for path in cases:
        try:
            case = read_case(path.read_bytes())
            played = replay_case(case)
            found = differences(case, played)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Ended(ExitCode.USAGE, f"{path}: is no recorded hand: {reason_of(error)}") from error
        if found:
            differ.append(played["id"])
        if as_json:
            click.echo(json.dumps(played))
        else:
            click.echo(f"{played['id']}: {'agrees' if not found else 'differs'}")
        for difference in found:
            click.echo(f"  {difference}", err=True)
    if differ:
        raise Ended(ExitCode.CHECK_FAILED, f"{len(differ)} of {len(cases)} differ: {', '.join(differ)}")
