"""`rngsvc sample`."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import click

from rngsvc.client import Bits, Numbers, SampleSummary, Shuffles
from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.output import json_option, print_json, refuse_to_overwrite
from rngsvc.commands.progress import progress_bar
from rngsvc.commands.remote import connect, connection_options, failures_as_exit_codes


@click.command()
@click.option("--kind", type=click.Choice(["bits", "numbers", "shuffles"]), required=True, help="What is sampled.")
@click.option("--count", type=click.IntRange(1, 2**64 - 1), required=True, help="Bytes of bits, numbers, or decks.")
@click.option("--modulus", type=click.IntRange(1, 2**53 - 1), help="With numbers: values lie below it.")
@click.option("--items", type=click.IntRange(1, 1020), help="With shuffles: items in a deck.  [default: 52]")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    required=True,
    help="File to write; - for stdout.",
)
@connection_options
@json_option
def command(
    kind: str,
    count: int,
    modulus: int | None,
    items: int | None,
    output: Path,
    as_json: bool,
    **connection: Any,
) -> None:
    """Fetch fresh output of the production path, for a test laboratory. Role: auditor.

    The request is in the log before the first byte is sent. Bits are bytes of the DRBG; numbers 8 bytes each,
    big-endian; decks one byte an item up to 256 items, else two. The file appears under its name only when it is
    whole and its SHA-256 is the one that the service gives.
    """
    what = _what(kind, count, modulus, items)
    refuse_to_overwrite("--output", output, connection.values())
    with failures_as_exit_codes(), connect(**connection) as client:
        sample = client.audit.sample(what)
        received, due = 0, what.count * what.item_bytes
        with _Destination(output) as file, progress_bar("bytes") as progress:
            for chunk in sample:
                file.write(chunk)
                received += len(chunk)
                progress(received, due)
        assert sample.summary is not None, "a sample that was read to its end has one"
        facts = _facts(kind, sample.logged.index, sample.summary)
    if as_json:
        print_json(facts)
    elif str(output) != "-":
        click.echo(f"{output}: {facts['byte_count']} bytes, SHA-256 {facts['sha256']}, log entry {facts['log_index']}")


def _what(kind: str, count: int, modulus: int | None, items: int | None) -> Bits | Numbers | Shuffles:
    if modulus is not None and kind != "numbers":
        raise click.UsageError("--modulus goes with --kind numbers")
    if items is not None and kind != "shuffles":
        raise click.UsageError("--items goes with --kind shuffles")
    if kind == "numbers":
        if modulus is None:
            raise click.UsageError("--kind numbers needs --modulus")
        return Numbers(modulus, count)
    return Bits(count) if kind == "bits" else Shuffles(items or 52, count)


def _facts(kind: str, index: int, summary: SampleSummary) -> dict[str, object]:
    return {
        "kind": kind,
        "log_index": index,
        "byte_count": summary.byte_count,
        "item_count": summary.item_count,
        "words_read": summary.words_read,
        "words_refused": summary.words_refused,
        "reseeds": summary.reseeds,
        "sha256": summary.sha256.hex(),
        "code_manifest": summary.code_manifest.hex(),
        "checkpoint": summary.checkpoint,
    }


class _Destination:
    """Standard output, or a file that is renamed into its place once everything is in it."""

    def __init__(self, output: Path) -> None:
        self._output = None if str(output) == "-" else output
        self._stack = ExitStack()

    def __enter__(self) -> BinaryIO:
        if self._output is None:
            return sys.stdout.buffer
        self._part = self._output.with_name(f"{self._output.name}.part")
        try:
            return self._stack.enter_context(self._part.open("wb"))
        except OSError as error:
            raise Ended(ExitCode.USAGE, f"{self._part}: {error.strerror}") from error

    def __exit__(self, kind: object, *_: object) -> None:
        self._stack.close()
        if self._output is None:
            sys.stdout.buffer.flush()
        elif kind is None:
            os.replace(self._part, self._output)
        else:
            self._part.unlink(missing_ok=True)
