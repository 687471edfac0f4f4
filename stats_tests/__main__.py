"""The command line `stats_tests`.

Each command lives in the module of its name in `stats_tests.commands`, as `command`, and is imported only when it is
called: `--help` and completion stay fast.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click

COMMANDS: Final = {
    "list": "List the tests.",
    "plan": "Say what a battery would do, and what it could see.",
    "run": "Test a sample.",
    "merge": "Join the counts of shards, and judge them.",
    "compare": "Compare two samples: idle and under load, or of two instances.",
    "daily": "Test fresh output of the service each day, and watch it over the days.",
    "selftest": "Show that the battery catches what it must.",
    "report": "Make HTML and PDF of a report.",
    "verify": "Check a report: signature, counts, data.",
    "collect": "Write raw output or final outcomes to a file, for a test laboratory.",
    "vkey": "Print the public part of the key that signs.",
    "completion": "Print a shell's completion script.",
}

MODULES: Final = {"list": "catalogue"}
"""Modules that are not called as their command, because a name of Python's own would be shadowed."""

EXTRA: Final = ("jinja2", "matplotlib", "numpy", "rfc8785", "scipy", "typst")
"""The modules that the extra `stats` brings."""


@contextmanager
def missing_extra_as_usage() -> Iterator[None]:
    """Turn the lack of a module of the extra into a usage error that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise click.UsageError(f"{error.name} is not installed: pip install 'sealed-shoe[stats]'") from error


class Commands(click.Group):
    """The commands of `COMMANDS`, each imported when it is first asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return their names in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  (click's signature)
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        with missing_extra_as_usage():
            module = import_module(f"stats_tests.commands.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; some import what is slow to load only then."""
        with missing_extra_as_usage():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (click's signature)
        """Write the list for `--help` without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sealed-shoe")
def cli() -> None:
    """Statistical tests of shuffles, numbers and bits, with one verdict for all of them together.

    Exit codes: 0 ok, 1 a check failed, 2 usage or bad input, 3 undecided (too little data, service unreachable),
    4 the service has stopped signing, 78 configuration.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    cli(prog_name="stats_tests")


if __name__ == "__main__":
    main()
