"""What a command's exit code means; the same as in `rngsvc` and `dealer`."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click

from stats_tests.evidence import EvidenceError
from stats_tests.ledger import LedgerError
from stats_tests.p_values import Verdict
from stats_tests.report.document import ReportError
from stats_tests.samples import SampleError
from stats_tests.tally import StateError


class ExitCode(IntEnum):
    """Why a command ended."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    UNDECIDED = 3
    STOPPED = 4
    CONFIGURATION = 78


class Ended(click.ClickException):
    """Ends the command with ``code`` and one line on stderr."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click declares it for the class and reads the instance


def exit_code_of(verdict: Verdict) -> ExitCode:
    """Return the exit code of a verdict; doubt that no second sample resolved is failure."""
    match verdict:
        case Verdict.PASS:
            return ExitCode.OK
        case Verdict.FAIL | Verdict.DOUBTFUL:
            return ExitCode.CHECK_FAILED
        case Verdict.UNDECIDED:
            return ExitCode.UNDECIDED


@contextmanager
def bad_input_as_usage() -> Iterator[None]:
    """Turn what is wrong with the caller's files, also those to write, into exit code 2 and one line."""
    try:
        yield
    except (SampleError, StateError, ReportError, EvidenceError, LedgerError) as error:
        raise Ended(ExitCode.USAGE, str(error)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Ended(ExitCode.USAGE, f"{error.filename or 'file'}: {error.strerror}") from error
