"""The options that say what is tested and where it comes from, and what they come to."""

from dataclasses import dataclass
from typing import Any

import click

from stats_tests.battery import EXTENTS, Battery, Plan, plan_for
from stats_tests.catalogue import Kind, Mode
from stats_tests.commands.options import Command, choice_of
from stats_tests.commands.service import service_at
from stats_tests.samples import KIND_OF, Format, GeneratorSource, Source, generator_named, open_source

DEFAULT_DECK = 52
DEFAULT_RANGE = 1_000_000


def plan_options(command: Command) -> Command:
    """Add the options that fix a plan."""
    for option in (
        click.option("--battery", type=choice_of(Battery), default="smoke", show_default=True, help="Which tests."),
        click.option(
            "--mode", type=choice_of(Mode), default="corrected", show_default=True, help="SP 800-22 constants."
        ),
        click.option("--kind", type=choice_of(Kind), help="What is tested, where the format does not say it."),
        click.option("--range", "range_", type=click.IntRange(2, 2**53 - 1), help="Numbers are 0..RANGE-1."),
        click.option("--n", "n", type=click.IntRange(2, 1020), help="Cards in a deck.  [default: 52]"),
    ):
        command = option(command)
    return command


def source_options(command: Command) -> Command:
    """Add the options that say where the sample comes from."""
    for option in (
        click.option("--count", type=click.IntRange(min=1), help="Items: bytes, numbers or decks.  [default: all]"),
        click.option("--start", type=click.IntRange(min=0), default=0, help="First item, for a shard.  [default: 0]"),
        click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, help="Seed of a generator.  [default: 1]"),
        click.option("--format", "format_", type=choice_of(Format), help="How a file or stream is written."),
        click.option(
            "--source",
            required=True,
            metavar="SOURCE",
            help="file:PATH, stdin, generator:NAME, or rngsvc:HOST:PORT (with --log-key).",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options come to: a plan, a source and the stretch of it to test."""

    plan: Plan
    source: Source
    start: int
    stop: int | None


def kind_of(kind: str | None, n: int | None, range_: int | None, battery: str) -> Kind:
    """Return the kind of sample that the options mean where no format says it."""
    if kind is not None:
        return Kind(kind)
    if n is not None and range_ is not None:
        raise click.UsageError("--n and --range do not go together")
    if range_ is not None:
        return Kind.NUMBERS
    return Kind.BITS if battery == Battery.SP800_22 and n is None else Kind.SHUFFLES


def size_of(kind: Kind, n: int | None, range_: int | None) -> int:
    """Return deck size or range."""
    match kind:
        case Kind.BITS:
            return 0
        case Kind.NUMBERS:
            return range_ or DEFAULT_RANGE
        case Kind.SHUFFLES:
            return n or DEFAULT_DECK


def plan_from(battery: str, kind: Kind, n: int | None, range_: int | None, mode: str) -> Plan:
    """Return the plan; UsageError if the options do not go together."""
    try:
        return plan_for(Battery(battery), kind, size_of(kind, n, range_), Mode(mode))
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def asked_for(
    *,
    source: str,
    format_: str | None,
    kind: str | None,
    n: int | None,
    range_: int | None,
    battery: str,
    mode: str,
    seed: int,
    start: int,
    count: int | None,
    **connection: Any,
) -> Asked:
    """Return what a file, a stream, a generator or the service is asked for.

    Raises:
        click.UsageError: the options do not go together.
        SampleError: the file is not there, or its size does not fit its format.
    """
    if source == "stdin" or source.startswith("file:"):
        return _file(source, format_, kind, n, range_, battery, mode, start, count)
    if not source.startswith(("generator:", "rngsvc:")):
        raise click.UsageError(f"--source {source}: must be file:PATH, stdin, generator:NAME or rngsvc:HOST:PORT")
    if format_ is not None:
        raise click.UsageError("--format is of files and streams")
    if source.startswith("generator:"):
        return _generator(source.removeprefix("generator:"), kind, n, range_, battery, mode, seed, start, count)
    plan = plan_from(battery, kind_of(kind, n, range_, battery), n, range_, mode)
    live = live_source(plan, source.removeprefix("rngsvc:"), connection)
    drawn = EXTENTS[plan.battery][plan.setting.kind].drawn if count is None else count
    return Asked(plan, live, start, start + drawn)


def live_source(plan: Plan, target: str, connection: dict[str, Any]) -> Source:
    """Return the live service as a source for a plan; UsageError if the connection's options do not go together."""
    from stats_tests.live import LiveSource  # noqa: PLC0415 - gRPC is loaded only by who needs it

    setting = plan.setting
    size = 0 if setting.kind is Kind.BITS else setting.size
    return LiveSource(service_at(target, **connection), setting.kind, size)


def _file(
    source: str,
    format_: str | None,
    kind: str | None,
    n: int | None,
    range_: int | None,
    battery: str,
    mode: str,
    start: int,
    count: int | None,
) -> Asked:
    if format_ is None:
        raise click.UsageError(f"--source {source} needs --format")
    chosen = Format(format_)
    if kind not in {None, str(KIND_OF[chosen])}:
        raise click.UsageError(f"--format {format_} holds {KIND_OF[chosen]}, not {kind}")
    if KIND_OF[chosen] is Kind.NUMBERS and range_ is None:
        raise click.UsageError(f"--format {format_} needs --range")
    plan = plan_from(battery, KIND_OF[chosen], n, range_, mode)
    opened = open_source(source, chosen, size_of(plan.setting.kind, n, range_))
    if start and not opened.divisible:
        raise click.UsageError("--start: a stream is read from its beginning")
    end = opened.count if count is None else start + count
    if opened.count is not None and end is not None:
        end = min(end, opened.count)
    return Asked(plan, opened, start, end)


def _generator(
    name: str,
    kind: str | None,
    n: int | None,
    range_: int | None,
    battery: str,
    mode: str,
    seed: int,
    start: int,
    count: int | None,
) -> Asked:
    try:
        generator = generator_named(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    made = kind_of(kind, n, range_, battery)
    if kind is None and made not in generator.makes and len(generator.makes) == 1:
        made = next(iter(generator.makes))
    if made not in generator.makes:
        raise click.UsageError(f"generator {name} makes {' and '.join(map(str, generator.makes))}, not {made}")
    plan = plan_from(battery, made, n, range_, mode)
    size = size_of(made, n, range_)
    if made is Kind.SHUFFLES and size > generator.largest_deck:
        raise click.UsageError(f"generator {name} makes decks of up to {generator.largest_deck} cards")
    drawn = EXTENTS[plan.battery][made].drawn if count is None else count
    return Asked(plan, GeneratorSource(generator, made, size, seed), start, start + drawn)
