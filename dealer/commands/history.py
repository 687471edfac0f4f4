"""`dealer history`."""

import json
from pathlib import Path

import click

from dealer.commands.exit_codes import Ended, ExitCode, reason_of
from dealer.history import replay
from dealer.history_phh import phh
from dealer.rooms import GAMES
from dealer.show_history import text


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--phh", "as_phh", is_flag=True, help="Write PHH, for the house's own histories of games that it has.")
def command(file: Path, as_phh: bool) -> None:
    """Print a hand's history for people.

    FILE is its JSON, the house's own or a player's (`-` for standard input). Whether its cards are the sealed ones is
    another question: `rngsvc verify` answers it.
    """
    try:
        with click.open_file(str(file)) as stream:
            written = json.load(stream)
        rules = GAMES[written["game"]]
        click.echo(phh(replay(written, rules)) if as_phh else text(written, rules), nl=False)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Ended(ExitCode.USAGE, f"{file}: cannot be printed so: {reason_of(error)}") from error
