"""`dealer completion`."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script, to be sourced by SHELL.

    For bash: `dealer completion bash >> ~/.bashrc`.
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows all three"
    click.echo(script(ctx.find_root().command, {}, "dealer", "_DEALER_COMPLETE").source())
