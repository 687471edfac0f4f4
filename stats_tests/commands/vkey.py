"""`stats_tests vkey`."""

from pathlib import Path

import click

from stats_tests.commands.exit_codes import bad_input_as_usage
from stats_tests.commands.options import FILE
from stats_tests.report.signature import load_key


@click.command()
@click.option("--key", "key_path", type=FILE, required=True, help="Ed25519 private key (PEM).")
@click.option("--key-name", default="auditor", show_default=True, help="The name that signs.")
def command(key_path: Path, key_name: str) -> None:
    """Print the verifier key that others need to check what this key signs."""
    with bad_input_as_usage():
        click.echo(load_key(key_path, key_name).key.vkey)
