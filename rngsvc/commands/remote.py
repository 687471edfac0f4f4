"""What the commands share that talk to a running service: options, connection, and what a failure exits with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from rngsvc.client import Credentials, SyncClient
from rngsvc.client.errors import (
    CallFailed,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Refused,
    ServiceStopped,
    Unproven,
)
from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.keys import log_key_option
from rngsvc.protocol.signed_note import NoteKey

Command = TypeVar("Command", bound=Callable[..., Any])

_CALLERS_FAULT = (InvalidRequest, NotFound, Refused, PermissionDenied)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def connection_options(command: Command, *, target_required: bool = True) -> Command:
    """Add the options by which a service is reached: `connect` takes what they give."""
    for option in (
        click.option("--timeout", "timeout_s", type=float, default=10.0, show_default=True, help="Seconds for a call."),
        click.option("--tls-key", type=_FILE, help="The caller's private key (PEM)."),
        click.option("--tls-certificate", type=_FILE, help="The caller's certificate chain (PEM)."),
        click.option("--tls-server-ca", type=_FILE, help="Who may vouch for the server (PEM)."),
        log_key_option,
        click.option("--target", required=target_required, metavar="HOST:PORT", help="The service's gRPC address."),
    ):
        command = option(command)
    return command


def connect(
    target: str,
    log_key: NoteKey,
    tls_server_ca: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    timeout_s: float,
    known_checkpoint: str | None = None,
) -> SyncClient:
    """Return a client; UsageError if the options do not go together.

    With a ``known_checkpoint`` the service must show a log that continues it.
    """
    files = (tls_server_ca, tls_certificate, tls_key)
    credentials = None
    if any(files):
        if not (tls_server_ca and tls_certificate and tls_key):
            raise click.UsageError("--tls-server-ca, --tls-certificate and --tls-key go together")
        credentials = Credentials(tls_server_ca, tls_certificate, tls_key)
    try:
        return SyncClient.connect(
            target,
            log_key=log_key.vkey,
            credentials=credentials,
            timeout_s=timeout_s,
            known_checkpoint=known_checkpoint,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@contextmanager
def failures_as_exit_codes() -> Iterator[None]:
    """Turn the client's errors into exit codes: who asked wrongly, what is false, what could not be decided."""
    try:
        yield
    except Unproven as error:
        raise Ended(ExitCode.CHECK_FAILED, f"{type(error).__name__}: {error}") from error
    except ServiceStopped as error:
        raise Ended(ExitCode.STOPPED, str(error)) from error
    except _CALLERS_FAULT as error:
        raise Ended(ExitCode.USAGE, str(error)) from error
    except CallFailed as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
