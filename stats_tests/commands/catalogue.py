"""`stats_tests list`."""

import click
from rich.table import Table

from stats_tests.battery import CATALOGUE
from stats_tests.catalogue import Kind
from stats_tests.commands.output import json_option, print_json, print_table


@click.command("list")
@click.option("--kind", type=click.Choice([str(kind) for kind in Kind]), help="Only tests of this kind of sample.")
@json_option
def command(kind: str | None, as_json: bool) -> None:
    """List the tests: id, what each looks at, its null distribution, the requirements that ask for it."""
    entries = [entry for entry in CATALOGUE.values() if kind in {None, str(entry.kind)}]
    if as_json:
        print_json(
            [
                {
                    "id": entry.id,
                    "title": entry.title,
                    "kind": str(entry.kind),
                    "clauses": list(entry.clauses),
                    "null": entry.null,
                    "source": entry.source,
                    "parameters": dict(entry.parameters),
                    "primary": entry.primary,
                }
                for entry in entries
            ]
        )
        return
    table = Table("id", "title", "null distribution", "clauses", box=None, pad_edge=False)
    for entry in entries:
        table.add_row(entry.id, entry.title, entry.null, " ".join(entry.clauses))
    print_table(table)
