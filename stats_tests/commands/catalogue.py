"""`stats_tests list`."""

import click
from rich.table import Table

from stats_tests.battery import CATALOGUE
from stats_tests.catalogue import Kind
from stats_tests.commands.options import choice_of
from stats_tests.commands.output import json_option, print_json, print_table
from stats_tests.requirements import JURISDICTIONS, REQUIREMENTS, clauses_of


@click.command("list")
@click.option("--kind", type=choice_of(Kind), help="Only tests of this kind of sample.")
@click.option(
    "--clause",
    type=click.Choice([one.id for one in REQUIREMENTS], case_sensitive=False),
    help="Only tests that stand for this requirement of docs/certification.md.",
)
@click.option("--jurisdiction", type=choice_of(JURISDICTIONS), help="Only tests that its clauses ask for; names them.")
@json_option
def command(kind: str | None, clause: str | None, jurisdiction: str | None, as_json: bool) -> None:
    """List the tests: id, what each looks at, its null distribution, who asks for it."""
    asked_by = {one.id: list(one.asked_by) for one in REQUIREMENTS}
    if jurisdiction is not None:
        asked_by = clauses_of(JURISDICTIONS[jurisdiction])
    if clause is not None:
        asked_by = {requirement: clauses for requirement, clauses in asked_by.items() if requirement == clause}
    entries = [
        entry
        for entry in CATALOGUE.values()
        if kind in {None, str(entry.kind)} and not asked_by.keys().isdisjoint(entry.clauses)
    ]
    if as_json:
        print_json(
            [
                {
                    "id": entry.id,
                    "title": entry.title,
                    "kind": str(entry.kind),
                    "clauses": list(entry.clauses),
                    "asked_by": [clause for one in entry.clauses for clause in asked_by.get(one, ())],
                    "null": entry.null,
                    "source": entry.source,
                    "parameters": dict(entry.parameters),
                    "primary": entry.primary,
                }
                for entry in entries
            ]
        )
        return
    narrowed = jurisdiction is not None or clause is not None
    table = Table(
        "id", "title", "null distribution", "asked for by" if narrowed else "clauses", box=None, pad_edge=False
    )
    for entry in entries:
        clauses = [clause for one in entry.clauses for clause in asked_by.get(one, ())]
        table.add_row(entry.id, entry.title, entry.null, "; ".join(clauses) if narrowed else " ".join(entry.clauses))
    print_table(table)
    if not entries:
        click.echo("no test of the battery; docs/certification.md says what stands for it")
