"""The options that say what is tested and where it comes from, and what they come to."""

from dataclasses import dataclass
from typing import Any, Final

import click

from stats_tests.battery import EXTENTS, Battery, Plan, plan_for
from stats_tests.catalogue import Kind, Mode
from stats_tests.commands.exit_codes import Ended, ExitCode
from stats_tests.commands.options import DECK_SIZE, NUMBER_RANGE, Command, choice_of
from stats_tests.commands.service import service_at
from stats_tests.samples import KIND_OF, Format, GeneratorSource, Source, generator_named, open_source

DEFAULT_DECK: Final = 52
DEFAULT_RANGE: Final = 1_000_000
DEFAULT_SEED: Final = 1


def plan_options(command: Command) -> Command:
    """Add the options that fix a plan; `PlanOptions` takes what they give."""
    for option in (
        click.option("--battery", type=choice_of(Battery), default="smoke", show_default=True, help="Which tests."),
        click.option(
            "--mode", type=choice_of(Mode), default="corrected", show_default=True, help="SP 800-22 constants."
        ),
        click.option("--kind", type=choice_of(Kind), help="What is tested, where the format does not say it."),
        click.option("--range", "range_", type=NUMBER_RANGE, help="Numbers are 0..RANGE-1."),
        click.option("--n", "n", type=DECK_SIZE, help="Cards in a deck.  [default: 52]"),
    ):
        command = option(command)
    return command


def source_options(command: Command) -> Command:
    """Add the options that say where the sample comes from; `SampleOptions` takes them with those of the plan."""
    for option in (
        click.option("--count", type=click.IntRange(min=1), help="Items: bytes, numbers or decks.  [default: all]"),
        click.option("--start", type=click.IntRange(min=0), default=0, help="First item, for a shard.  [default: 0]"),
        click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of a generator.  [default: 1]"),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What `plan_options` give, as click gives it."""

    battery: str = str(Battery.SMOKE)
    mode: str = str(Mode.CORRECTED)
    kind: str | None = None
    n: int | None = None
    range_: int | None = None

    def kind_by_options(self) -> Kind:
        """Return the kind of sample that the options mean where no format says it."""
        if self.kind is not None:
            return Kind(self.kind)
        if self.n is not None and self.range_ is not None:
            raise click.UsageError("--n and --range do not go together")
        if self.range_ is not None:
            return Kind.NUMBERS
        return Kind.BITS if self.battery == Battery.SP800_22 and self.n is None else Kind.SHUFFLES

    def size(self, kind: Kind) -> int:
        """Return deck size or range; 0 for bits. UsageError if one is given that a sample of this kind does not have.

        What is silently ignored would be taken for tested.
        """
        if self.n is not None and kind is not Kind.SHUFFLES:
            raise click.UsageError(f"--n is the size of a deck and does not apply to {kind}")
        if self.range_ is not None and kind is not Kind.NUMBERS:
            raise click.UsageError(f"--range is of numbers and does not apply to {kind}")
        match kind:
            case Kind.BITS:
                return 0
            case Kind.NUMBERS:
                return self.range_ or DEFAULT_RANGE
            case Kind.SHUFFLES:
                return self.n or DEFAULT_DECK

    def plan(self, kind: Kind) -> Plan:
        """Return the plan; UsageError if the options do not go together."""
        try:
            return plan_for(Battery(self.battery), kind, self.size(kind), Mode(self.mode))
        except ValueError as error:
            raise click.UsageError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions(PlanOptions):
    """What `source_options` and `plan_options` give, as click gives it."""

    source: str
    format_: str | None = None
    seed: int | None = None
    start: int = 0
    count: int | None = None

    @property
    def is_file(self) -> bool:
        """Whether the sample is a file or a stream, written in some format."""
        return self.source == "stdin" or self.source.startswith("file:")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options come to: a plan, a source and the stretch of it to test."""

    plan: Plan
    source: Source
    start: int
    stop: int | None


def items_of(kind: Kind) -> str:
    """Return what the items of a sample are called."""
    match kind:
        case Kind.BITS:
            return "bytes"
        case Kind.NUMBERS:
            return "numbers"
        case Kind.SHUFFLES:
            return "decks"


def require_all(kind: Kind, items: int, wanted: int | None) -> None:
    """End undecided if a stream ended before it gave what --count asks for."""
    if wanted is not None and items < wanted:
        raise Ended(ExitCode.UNDECIDED, f"the sample ends after {items} {items_of(kind)}; --count asks for {wanted}")


def asked_for(options: SampleOptions, **connection: Any) -> Asked:
    """Return what a file, a stream, a generator or the service is asked for.

    Raises:
        click.UsageError: the options do not go together.
        SampleError: the file is not there, or its size does not fit its format.
        Ended: the file holds fewer items than asked for.
    """
    if not options.is_file and not options.source.startswith(("generator:", "rngsvc:")):
        raise click.UsageError(
            f"--source {options.source}: must be file:PATH, stdin, generator:NAME or rngsvc:HOST:PORT"
        )
    if options.format_ is not None and not options.is_file:
        raise click.UsageError("--format is of files and streams")
    if options.seed is not None and not options.source.startswith("generator:"):
        raise click.UsageError("--seed is of generators")
    if options.is_file:
        return _file(options)
    if options.source.startswith("generator:"):
        return _generator(options)
    plan = options.plan(options.kind_by_options())
    live = live_source(plan, options.source.removeprefix("rngsvc:"), connection)
    return _drawn(options, plan, live)


def live_source(plan: Plan, target: str, connection: dict[str, Any]) -> Source:
    """Return the live service as a source for a plan; UsageError if the connection's options do not go together."""
    from stats_tests.live import LiveSource  # noqa: PLC0415 - gRPC is loaded only by who needs it

    setting = plan.setting
    size = 0 if setting.kind is Kind.BITS else setting.size
    return LiveSource(service_at(target, **connection), setting.kind, size)


def _file(options: SampleOptions) -> Asked:
    if options.format_ is None:
        raise click.UsageError(f"--source {options.source} needs --format")
    format_ = Format(options.format_)
    kind = KIND_OF[format_]
    if options.kind not in {None, str(kind)}:
        raise click.UsageError(f"--format {format_} holds {kind}, not {options.kind}")
    if kind is Kind.NUMBERS and options.range_ is None:
        raise click.UsageError(f"--format {format_} needs --range")
    plan = options.plan(kind)
    source = open_source(options.source, format_, options.size(kind))
    if options.start and not source.divisible:
        raise click.UsageError("--start: a stream is read from its beginning")
    stop = source.count if options.count is None else options.start + options.count
    if source.count is not None and stop is not None and max(stop, options.start) > source.count:
        asks = f"--count {options.count}" if options.count else "--start alone"
        needed = f"from --start {options.start} on, {asks} asks for more"
        raise Ended(ExitCode.UNDECIDED, f"{options.source} holds {source.count} {items_of(kind)}; {needed}")
    return Asked(plan, source, options.start, stop)


def _generator(options: SampleOptions) -> Asked:
    name = options.source.removeprefix("generator:")
    try:
        generator = generator_named(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    kind = options.kind_by_options()
    if options.kind is None and kind not in generator.makes and len(generator.makes) == 1:
        kind = next(iter(generator.makes))
    if kind not in generator.makes:
        raise click.UsageError(f"generator {name} makes {' and '.join(map(str, generator.makes))}, not {kind}")
    plan, size = options.plan(kind), options.size(kind)
    if kind is Kind.SHUFFLES and size > generator.largest_deck:
        raise click.UsageError(f"generator {name} makes decks of up to {generator.largest_deck} cards")
    seed = DEFAULT_SEED if options.seed is None else options.seed
    return _drawn(options, plan, GeneratorSource(generator, kind, size, seed))


def _drawn(options: SampleOptions, plan: Plan, source: Source) -> Asked:
    """Ask a source that gives as much as one likes for the battery's own size, or for --count."""
    drawn = options.count or EXTENTS[plan.battery][plan.setting.kind].drawn
    return Asked(plan, source, options.start, options.start + drawn)
