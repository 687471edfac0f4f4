"""`rngsvc serve`."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from rngsvc.commands.settings import merged, refused, settings_options
from rngsvc.config import ConfigurationRefused
from rngsvc.daily_runs import SchedulerChild


@click.command()
@click.option(
    "--ephemeral",
    "is_ephemeral",
    is_flag=True,
    help="Try it out: new keys, free ports and a store that is removed when the service or its parent ends.",
)
@settings_options
@click.pass_context
def command(ctx: click.Context, /, is_ephemeral: bool, config_file: Path | None, **flags: str | None) -> None:
    """Run the service until SIGTERM.

    Prints one JSON line on stdout when it is ready: grpc, http and operator addresses, origin and log_key; with
    --ephemeral also auditor_keys, the file with the keys for tables under escrow. Logs go to stderr.
    """
    if not is_ephemeral:
        settings = merged(config_file, flags).settings
        with _scheduler() as child, asyncio.Runner(loop_factory=_new_event_loop) as runner:
            from rngsvc.serve import run  # noqa: PLC0415  (it loads gRPC, and the scheduler must be there before)

            ctx.exit(runner.run(run(settings, child)))
    if config_file:
        raise click.UsageError("--ephemeral makes its own configuration; --config does not go with it")
    try:
        with _scheduler() as child, asyncio.Runner(loop_factory=_new_event_loop) as runner:
            from rngsvc.serve import ephemeral, run  # noqa: PLC0415  (as above)

            with ephemeral(flags) as (settings, auditor_keys):
                code = runner.run(run(settings, child, auditor_keys=auditor_keys, watch_parent=True))
    except ConfigurationRefused as error:
        raise refused(error) from error
    ctx.exit(code)


@contextmanager
def _scheduler() -> Iterator[SchedulerChild]:
    child = SchedulerChild.spawn()
    try:
        yield child
    finally:
        child.end()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop where there is one for this platform: the standard one is slower, not different."""
    module = import_module("uvloop" if find_spec("uvloop") else "asyncio")
    loop: asyncio.AbstractEventLoop = module.new_event_loop()
    return loop
