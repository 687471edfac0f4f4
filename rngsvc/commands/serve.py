"""`rngsvc serve`: run the service."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.config import SETTINGS, ConfigurationRefused, load


def _settings_as_flags(command: Callable[..., None]) -> Callable[..., None]:
    for name, setting in reversed(SETTINGS.items()):
        text = f"{setting.description} [{setting.variable}; default: {setting.default}]"
        command = click.option(setting.flag, name, help=text)(command)
    return command


@click.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="TOML file with settings. [RNGSVC_CONFIG]")
@click.option(
    "--ephemeral",
    is_flag=True,
    help="Try it out: new keys and a store in a temporary folder, any free loopback ports. All is gone at the end.",
)
@_settings_as_flags
def command(file: Path | None, ephemeral: bool, **flags: str | None) -> None:
    """Run the service until SIGTERM or SIGINT.

    When it is ready it prints one JSON line with its addresses and the log's public key on stdout; logs go to stderr.
    """
    from rngsvc import serve  # noqa: PLC0415  (gRPC is loaded only to serve)

    try:
        if ephemeral:
            with serve.ephemeral(flags) as (settings, auditor_keys):
                code = _run(serve.run(settings, auditor_keys=auditor_keys, watch_parent=True))
        else:
            code = _run(serve.run(load(flags, os.environ, file).settings))
    except ConfigurationRefused as refused:
        raise Ended(ExitCode.CONFIGURATION, str(refused)) from None
    sys.exit(code)


def _run(work: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # noqa: PLC0415  (optional; the answers are the same without, only slower)
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)
