"""`dealer history`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dealer.commands.exit_codes import Ended, ExitCode, reason_of
from dealer.history import replay
from dealer.history_check import Undecided, check
from dealer.history_form import read_history
from dealer.history_phh import phh
from dealer.house_rules import HouseRules
from dealer.show_history import text


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--phh", "as_phh", is_flag=True, help="Write PHH, for the house's own histories of games that it has.")
@click.option("--check", "is_check", is_flag=True, help="Play it again by the rules: turns, bets, winners, every chip.")
def command(file: Path, as_phh: bool, is_check: bool) -> None:
    """Print a hand's history for people, or check that it was played by the rules of its game.

    FILE is its JSON, the house's own or a player's (`-` for standard input). Whether its cards are the sealed ones is
    another question: `rngsvc verify` answers it.
    """
    if as_phh and is_check:
        raise Ended(ExitCode.USAGE, "--phh and --check: one of them")
    try:
        with click.open_file(str(file), "rb") as stream:
            written, rules = read_history(stream.read())
    except (ValueError, OSError) as error:
        raise Ended(ExitCode.USAGE, f"{file}: is no history: {reason_of(error)}") from error
    if is_check:
        _check(file, written, rules)
    elif as_phh:
        click.echo(_phh(file, written, rules), nl=False)
    else:
        click.echo(text(written, rules), nl=False)


def _phh(file: Path, written: Mapping[str, Any], rules: HouseRules) -> str:
    try:
        return phh(replay(written, rules))
    except ValueError as error:
        raise Ended(ExitCode.USAGE, f"{file}: cannot be written as PHH: {error}") from error


def _check(file: Path, written: Mapping[str, Any], rules: HouseRules) -> None:
    try:
        hand = check(written, rules)
    except ValueError as differs:
        raise Ended(ExitCode.CHECK_FAILED, f"{file}: not by the rules of {rules.name}: {differs}") from differs
    except Undecided as undecided:
        raise Ended(ExitCode.UNDECIDED, f"{file}: {undecided}") from undecided
    state = "every chip is where it belongs" if hand.over else "as far as it goes: it is not over"
    click.echo(f"by the rules of {rules.name}: {len(written['events'])} events, {state}")
