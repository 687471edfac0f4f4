"""What a command's exit code means; the same in `rngsvc` and `stats_tests`, whose page is `docs/exit-codes.md`."""

from enum import IntEnum

import click


class ExitCode(IntEnum):
    """Why a command ended."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    UNDECIDED = 3
    CONFIGURATION = 78


class Ended(click.ClickException):
    """Ends the command with ``code`` and one line on stderr."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click declares it for the class and reads the instance


def reason_of(error: Exception) -> str:
    """Return what is wrong with a file, in words, of what reading it has raised."""
    match error:
        case KeyError():
            return f"{error} is missing or unknown"
        case OSError():
            return error.strerror or "cannot be read"
        case _:
            return str(error)
