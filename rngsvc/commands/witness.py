"""`rngsvc witness`."""

import asyncio
from pathlib import Path

import click

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.keys import LogKey
from rngsvc.config import Address
from rngsvc.keys.loading import load_signer
from rngsvc.keys.location import KeyUnavailable
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import NoteKey, check_key_name


class ListenAddress(click.ParamType[Address]):
    """HOST:PORT."""

    name = "host:port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Read it."""
        try:
            return value if isinstance(value, Address) else Address.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group()
def command() -> None:
    """An independent witness: checks that logs only grow, and cosigns their checkpoints (C2SP tlog-witness)."""


@command.command()
@click.option("--name", required=True, help="The witness's name, for example witness.example/w1.")
@click.option("--key", "key_uri", required=True, metavar="URI", help="Its signing key: file:, env: or pkcs11:.")
@click.option("--state", type=click.Path(path_type=Path), required=True, help="File with what it has seen (SQLite).")
@click.option("--log-key", "logs", type=LogKey(), multiple=True, required=True, help="A log to witness; repeatable.")
@click.option(
    "--listen",
    type=ListenAddress(),
    default="127.0.0.1:7481",
    show_default=True,
    help="HTTP address; TLS is a proxy's.",
)
def serve(name: str, key_uri: str, state: Path, logs: tuple[NoteKey, ...], listen: Address) -> None:
    """Run the witness until SIGTERM or SIGINT. Prints one JSON line with its URL and key when it is ready.

    Keep its state: a witness that has forgotten what it cosigned would cosign a fork.
    """
    from rngsvc import witness_server  # noqa: PLC0415  (the HTTP server is loaded only to serve)

    by_origin: dict[str, list[NoteKey]] = {}
    for log in logs:
        by_origin.setdefault(log.name, []).append(log)
    try:
        check_key_name(name, "name")
        key = load_signer(key_uri)
        asyncio.run(witness_server.run(name, key, by_origin, state, listen))
    except (MalformedError, KeyUnavailable, OSError) as error:
        raise Ended(ExitCode.CONFIGURATION, str(error)) from None
