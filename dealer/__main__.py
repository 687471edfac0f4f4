"""The command line `dealer`.

Each command lives in the module of its name in `dealer.commands`, as `command`, and is imported only when it is called.
"""

from importlib import import_module
from typing import Final

import click

COMMANDS: Final = {
    "demo": "Play and verify hands of every game.",
    "serve": "Run a card room.",
    "token": "Let a player into a card room.",
    "store": "Look after a card room's store.",
    "history": "Print a hand for people.",
    "replay": "Play recorded hands again and compare.",
    "completion": "Print a shell's completion script.",
}


class Commands(click.Group):
    """The commands of `COMMANDS`, each imported when it is first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return their names in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  (click's signature)
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"dealer.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (click's signature)
        """Write the list for `--help` without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """A card room's stud and draw games, dealt from a sealed shoe.

    Exit codes: 0 ok, 1 a check failed, 2 usage, 3 undecided or unreachable, 4 stopped by a defect,
    78 configuration.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    cli(prog_name="dealer")


if __name__ == "__main__":
    main()
