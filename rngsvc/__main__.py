"""The command line `rngsvc`.

Each command lives in the module of its name in `rngsvc.commands`, as `command`, and is imported only when it is
called: `rngsvc --help` and completion stay fast, and `verify` runs where gRPC is not installed.
"""

from importlib import import_module
from typing import Final

import click

COMMANDS: Final = {
    "serve": "Run the service.",
    "keygen": "Make the keys that a service needs.",
    "verify": "Check a receipt or a hand history, offline.",
    "audit": "Check a whole log.",
    "log": "Read a log: checkpoint, entries, proofs.",
    "sample": "Fetch fresh output for a test laboratory.",
    "store": "Look after a service's store: copies, a change of its key, retention.",
    "witness": "Run an independent witness of logs.",
    "config": "Show or check the configuration.",
    "version": "Say which version this is.",
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
        command: click.Command = import_module(f"rngsvc.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (click's signature)
        """Write the list for `--help` without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Committed, sealed and logged shuffles for card rooms.

    Exit codes: 0 ok, 1 a check failed, 2 usage, 3 undecided or unreachable, 4 the service has stopped signing,
    78 configuration.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    cli(prog_name="rngsvc")


if __name__ == "__main__":
    main()
