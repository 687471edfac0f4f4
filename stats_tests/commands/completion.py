"""`stats_tests completion`."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script, to be sourced by SHELL.

    For bash: `stats_tests completion bash >> ~/.bashrc`.
    """
    script = get_completion_class(shell)
    assert script is not None  # click knows all three
    click.echo(script(ctx.find_root().command, {}, "stats_tests", "_STATS_TESTS_COMPLETE").source())
