"""`stats_tests collect`."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np

from stats_tests.accumulator import Items
from stats_tests.catalogue import Kind
from stats_tests.commands.exit_codes import Ended, ExitCode, bad_input_as_usage
from stats_tests.commands.options import DECK_SIZE, NEW_FILE, NUMBER_RANGE, WritingCommand, choice_of
from stats_tests.commands.output import json_option, print_json, progress_bar
from stats_tests.commands.sampling import DEFAULT_DECK, Asked, SampleOptions, asked_for, require_all
from stats_tests.commands.service import connection_options, service_failures_as_exit_codes
from stats_tests.manifest import module_hash_set
from stats_tests.samples import KIND_OF, Format, Source, to_bytes


@click.command(cls=WritingCommand)
@click.option("--source", required=True, metavar="SOURCE", help="rngsvc:HOST:PORT, generator:NAME, or file:PATH.")
@click.option("--from-format", "from_format", type=choice_of(Format), help="How a file is written.")
@click.option("--format", "format_", type=choice_of(Format), required=True, help="How to write.")
@click.option("--count", type=click.IntRange(min=1), help="Items: bytes, numbers or decks.  [default: all of a file]")
@click.option("--n", "n", type=DECK_SIZE, help="Cards in a deck.  [default: 52]")
@click.option("--range", "range_", type=NUMBER_RANGE, help="Numbers are 0..RANGE-1.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of a generator.  [default: 1]")
@connection_options
@click.option("-o", "--output", type=NEW_FILE, required=True, help="File to write.")
@json_option
def command(
    source: str,
    from_format: str | None,
    format_: str,
    count: int | None,
    n: int | None,
    range_: int | None,
    seed: int | None,
    output: Path,
    as_json: bool,
    **connection: Any,
) -> None:
    """Write raw output (bits) or final outcomes (numbers, decks) to a file, as test laboratories ask for them.

    The data come by the same path as the battery's. Prints the file's SHA-256 and the hashes of the modules that
    decide fairness. Formats raw, ascii-bits and dieharder are what other batteries read.
    """
    chosen = Format(format_)
    kind = KIND_OF[chosen]
    if count is None and not source.startswith("file:"):
        raise click.UsageError("--count: how many items to draw")
    if kind is Kind.NUMBERS and range_ is None:
        raise click.UsageError(f"--format {format_} needs --range")
    if chosen is Format.DECKS_U8 and (n or DEFAULT_DECK) > 256:
        raise click.UsageError("--format decks-u8 holds decks of up to 256 cards")
    with bad_input_as_usage(), service_failures_as_exit_codes():
        options = SampleOptions(
            source=source, format_=from_format, kind=str(kind), n=n, range_=range_, seed=seed, count=count
        )
        asked = asked_for(options, **connection)
        digest, items = _write(asked, chosen, output, quiet=as_json)
    facts = {
        "output": str(output),
        "format": format_,
        "items": items,
        "sha256": digest,
        "sample": asked.source.describe(),
        "fairness_relevant_modules": module_hash_set(),
    }
    if as_json:
        print_json(facts)
    else:
        click.echo(f"{digest}  {output}")
        click.echo("# SHA-256 of the modules that decide fairness:")
        for path, module_digest in module_hash_set().items():
            click.echo(f"{module_digest}  {path}")


def _write(asked: Asked, format_: Format, output: Path, *, quiet: bool) -> tuple[str, int]:
    """Write the items; the file appears under its name only when it is whole."""
    source, stop = asked.source, asked.stop
    part = output.with_name(f"{output.name}.part")
    items = 0
    try:
        with part.open("wb") as file, progress_bar("items", stop, quiet=quiet) as tick:
            if format_ is Format.DIEHARDER:
                items = _write_dieharder(file, source, stop, tick)
            else:
                for chunk in source.items(0, stop):
                    file.write(_written(chunk, format_))
                    items += len(chunk)
                    tick(len(chunk))
        require_all(asked.plan.setting.kind, items, stop)
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.replace(output)
    return digest, items


def _written(items: Items, format_: Format) -> bytes:
    """Return items as they stand in a file."""
    match format_:
        case Format.ASCII_BITS:
            return (np.unpackbits(items) + ord("0")).tobytes()
        case Format.NUMBERS:
            return "".join(f"{number}\n" for number in items.tolist()).encode()
        case Format.DECKS_TEXT:
            return "".join(f"{' '.join(map(str, deck))}\n" for deck in items.tolist()).encode()
        case Format.DECKS_U16:
            return items.astype(">u2").tobytes()
        case Format.RAW | Format.NUMBERS_U64 | Format.DECKS_U8:
            return to_bytes(items)
        case Format.DIEHARDER:
            raise AssertionError("dieharder files have a header and are written as a whole")


def _write_dieharder(file: BinaryIO, source: Source, stop: int | None, tick: Any) -> int:
    """Write 32-bit numbers; the header says how many, so a sample of unknown length cannot be written."""
    if stop is None or stop % 4:
        raise Ended(ExitCode.USAGE, "--count: dieharder files hold numbers of 32 bits: give a multiple of 4 bytes")
    file.write(f"type: d\ncount: {stop // 4}\nnumbit: 32\n".encode())
    items = 0
    for chunk in _by_four(source.items(0, stop)):
        numbers = chunk.view(">u4")
        file.write("".join(f"{number}\n" for number in numbers.tolist()).encode())
        items += len(chunk)
        tick(len(chunk))
    return items


def _by_four(chunks: Iterator[Items]) -> Iterator[Items]:
    held = np.empty(0, dtype=np.uint8)
    for chunk in chunks:
        held = np.concatenate([held, chunk])
        whole = len(held) // 4 * 4
        yield held[:whole]
        held = held[whole:]
