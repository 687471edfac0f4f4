"""`dealer token`."""

import time
from pathlib import Path

import click

from dealer.commands.exit_codes import Ended, ExitCode
from dealer.config import ConfigurationRefused, read_token_key
from dealer.tokens import MAX_LIFE_S, Identity, Role, make_token


@click.command()
@click.option("--player", metavar="ID", required=True, help="Whom it names: 1..64 characters of A-Z a-z 0-9 . _ -")
@click.option("--operator", is_flag=True, help="A token that opens tables instead of one that plays.")
@click.option(
    "--token-key",
    type=click.Path(path_type=Path),
    envvar="DEALER_TOKEN_KEY",
    required=True,
    help="The file with the key, as `dealer serve` has it.",
)
@click.option("--life", "life_s", default=3600, show_default=True, type=click.IntRange(1, MAX_LIFE_S), help="Seconds.")
def command(player: str, operator: bool, token_key: Path, life_s: int) -> None:
    """Print a token that lets a player (or an operator) call `dealer serve`."""
    try:
        identity = Identity(player, Role.OPERATOR if operator else Role.PLAYER)
    except ValueError as error:
        raise Ended(ExitCode.USAGE, str(error)) from error
    try:
        key = read_token_key(token_key)
    except ConfigurationRefused as error:
        raise Ended(ExitCode.CONFIGURATION, str(error)) from error
    click.echo(make_token(key, identity, int(time.time()) + life_s))
