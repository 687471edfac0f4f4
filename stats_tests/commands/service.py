"""The options by which commands reach the live service, and what its failures exit with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from stats_tests.commands.exit_codes import Ended, ExitCode
from stats_tests.commands.options import FILE, Command

CONNECTION_OPTIONS: Final = ("log_key", "tls_server_ca", "tls_certificate", "tls_key")
"""The names of what `connection_options` gives."""


def connection_options(command: Command) -> Command:
    """Add the options of a connection to the service."""
    for option in (
        click.option("--tls-key", type=FILE, help="The caller's private key (PEM)."),
        click.option("--tls-certificate", type=FILE, help="The caller's certificate chain (PEM)."),
        click.option("--tls-server-ca", type=FILE, help="Who may vouch for the server (PEM)."),
        click.option(
            "--log-key",
            metavar="VKEY",
            envvar="RNGSVC_LOG_KEY",
            help="The log's verifier key, or a file that holds it.",
        ),
    ):
        command = option(command)
    return command


def service_at(
    target: str,
    log_key: str | None,
    tls_server_ca: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> Any:
    """Return the service; UsageError if the options do not go together."""
    from rngsvc.client import Credentials  # noqa: PLC0415 - gRPC is loaded only by who needs it
    from stats_tests.live import Service  # noqa: PLC0415 - as above

    if log_key is None:
        raise click.UsageError("a live service needs --log-key, the public key of its log")
    files = (tls_server_ca, tls_certificate, tls_key)
    credentials = None
    if tls_server_ca and tls_certificate and tls_key:
        credentials = Credentials(tls_server_ca, tls_certificate, tls_key)
    elif any(files):
        raise click.UsageError("--tls-server-ca, --tls-certificate and --tls-key go together")
    file = Path(log_key)
    return Service(target, file.read_text(encoding="ascii").strip() if file.is_file() else log_key, credentials)


@contextmanager
def service_failures_as_exit_codes() -> Iterator[None]:
    """Turn the client's errors into exit codes: who asked wrongly, what is false, what could not be decided."""
    from rngsvc.client import errors  # noqa: PLC0415 - gRPC is loaded only by who needs it

    try:
        yield
    except errors.Unproven as error:
        raise Ended(ExitCode.CHECK_FAILED, f"{type(error).__name__}: {error}") from error
    except errors.ServiceStopped as error:
        raise Ended(ExitCode.STOPPED, str(error)) from error
    except (errors.InvalidRequest, errors.NotFound, errors.Refused, errors.PermissionDenied) as error:
        raise Ended(ExitCode.USAGE, str(error)) from error
    except errors.CallFailed as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
