"""`rngsvc version`."""

import platform
from importlib.metadata import version

import click

from rngsvc.commands.output import json_option, print_json


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Say which version this is."""
    facts = {
        "version": version("sealed-shoe"),
        "api": "rngsvc.v1",
        "protocol": "rs1",
        "python": platform.python_version(),
    }
    if as_json:
        print_json(facts)
    else:
        click.echo("rngsvc {version} (interface {api}, hand protocol {protocol}, Python {python})".format(**facts))
