"""How commands show progress and results."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from stats_tests.report.view import p_text


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; it appears under its name only when it is whole. A device is written to as it is."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    part.replace(path)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print inside; whoever reads may close the pipe early, and the exit code still is that of the verdict."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        # What is still buffered would be written, and fail, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output, and nothing else.")


def print_json(value: Any) -> None:
    """Print JSON for programs and people."""
    with reader_may_leave():
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@contextmanager
def progress_bar(what: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while work goes on; only where a person watches. Yields what advances it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda items: progress.advance(task, items)


def result_table(rows: list[dict[str, Any]]) -> Table:
    """Return the results as a table."""
    table = Table(box=None, pad_edge=False)
    table.add_column("test", no_wrap=True)
    for column in ("statistic", "p", "adjusted p", "note"):
        table.add_column(column)
    for row in rows:
        note = row.get("reason", "") or ("" if row["primary"] else "exploratory")
        statistic = "" if row.get("statistic") is None else f"{row['statistic']:.4f}"
        adjusted = p_text(row.get("log10_adjusted_p"))
        table.add_row(row["test"], statistic, p_text(row.get("log10_p")), adjusted, note)
    return table


def print_table(table: Table) -> None:
    """Print a table, in the width of the terminal or, where nobody watches, in a fixed one."""
    with reader_may_leave():
        Console(width=None if Console().is_terminal else 160).print(table)
