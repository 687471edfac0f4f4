"""Every setting as a flag: for the commands that read the configuration."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.config import SETTINGS, Configuration, ConfigurationRefused, load

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_options(command: Command) -> Command:
    """Add `--config` and a flag for every setting; `merged` takes what they give."""
    for setting in reversed(list(SETTINGS.values())):
        text = f"{setting.description}  [{setting.variable}; default: {setting.default}]"
        command = click.option(setting.flag, setting.name, metavar="VALUE", help=text)(command)
    file = click.Path(dir_okay=False, path_type=Path)
    return click.option("--config", "config_file", type=file, help="TOML file.  [RNGSVC_CONFIG]")(command)


def merged(config_file: Path | None, flags: dict[str, str | None]) -> Configuration:
    """Return the merged configuration, or end the command with exit code 78 and everything that is wrong."""
    try:
        return load(flags, os.environ, config_file)
    except ConfigurationRefused as error:
        raise refused(error) from error


def refused(error: ConfigurationRefused) -> Ended:
    """Return how a command ends that cannot use its configuration."""
    lines = "".join(f"\n  {problem}" for problem in error.problems)
    return Ended(ExitCode.CONFIGURATION, f"the configuration is not usable:{lines}")
