"""`rngsvc keygen`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from rngsvc.commands.exit_codes import Ended, ExitCode
from rngsvc.commands.output import json_option, print_json
from rngsvc.keys.development_ca import issue_client, issue_server, make_ca
from rngsvc.keys.identity import Identity, IdentityRefused, Role
from rngsvc.keys.loading import token_keys
from rngsvc.keys.location import KeyUnavailable
from rngsvc.keys.making import make_auditor_keys, make_key_encryption_key, make_signing_key, make_witness_key
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.signed_note import NoteKey, check_key_name

_NEW_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option(
        "--pkcs11", "uri", metavar="URI", help="Make it in a token instead, which it never leaves."
    )(function)
    return click.option("-o", "--output", type=_NEW_FILE, help="File for the private key.")(function)


@click.group()
def command() -> None:
    """Make the keys that a service needs, each in a new file of mode 0600. Nothing is ever overwritten."""


@command.command()
@click.option("--origin", required=True, help="Name of the log, for ever, for example cardroom.example/rng.")
@_place_options
@json_option
def log(origin: str, output: Path | None, uri: str | None, as_json: bool) -> None:
    """Make the log's signing key, and print the verifier key that callers and players are given."""
    with _refusals():
        check_key_name(origin, "origin")
        if output := _in_file(output, uri):
            public = make_signing_key(output, origin)
        else:
            public = NoteKey(origin, token_keys().make_token_signing_key(uri).public_key)
    if as_json:
        print_json({"file": str(output) if output else uri, "origin": origin, "log_key": public.vkey})
    else:
        click.echo(public.vkey)


@command.command()
@click.option("--name", required=True, help="Name of the witness, for example witness.example/w1.")
@click.option("-o", "--output", type=_NEW_FILE, required=True, help="File for the private key (PEM).")
@json_option
def witness(name: str, output: Path, as_json: bool) -> None:
    """Make a witness's signing key, and print the verifier key that stands in trust policies."""
    with _refusals():
        public = make_witness_key(output, name)
    if as_json:
        print_json({"file": str(output), "name": name, "key": public.vkey})
    else:
        click.echo(public.vkey)


@command.command()
@_place_options
def seeds(output: Path | None, uri: str | None) -> None:
    """Make the key-encryption key, under which the seeds of open hands are stored."""
    with _refusals():
        if output := _in_file(output, uri):
            make_key_encryption_key(output)
        else:
            token_keys().make_token_key_encryption_key(uri)


@command.command()
@click.option("-o", "--output", type=_NEW_FILE, required=True, help="File for both private keys (PEM).")
@json_option
def auditor(output: Path, as_json: bool) -> None:
    """Make an auditor's pair of keys, and print the public ones that tables under escrow are registered with."""
    with _refusals():
        x25519, ed25519 = make_auditor_keys(output).public_keys
    if as_json:
        print_json({"file": str(output), "x25519": x25519.hex(), "ed25519": ed25519.hex()})
    else:
        click.echo(f"x25519 {x25519.hex()}\ned25519 {ed25519.hex()}")


@command.command()
@click.argument("folder", type=_FOLDER)
def ca(folder: Path) -> None:
    """Make a certificate authority in FOLDER, to try out mutual TLS."""
    with _refusals():
        make_ca(folder, datetime.now(UTC))


@command.command()
@click.argument("folder", type=_FOLDER)
@click.argument("hosts", nargs=-1, required=True)
def server(folder: Path, hosts: tuple[str, ...]) -> None:
    """Issue a server's certificate for HOSTS (DNS names, IP addresses) from the authority in FOLDER."""
    with _refusals():
        issue_server(folder, "server", hosts, datetime.now(UTC))


@command.command()
@click.argument("folder", type=_FOLDER)
@click.argument("role", type=click.Choice([each.value for each in Role]))
@click.argument("name")
@json_option
def client(folder: Path, role: str, name: str, as_json: bool) -> None:
    """Issue a client's certificate for ROLE and NAME from the authority in FOLDER."""
    with _refusals():
        identity = Identity(Role(role), name)
        files = issue_client(folder, identity, datetime.now(UTC))
    if as_json:
        print_json(
            {"uri": identity.uri, "certificate": str(folder / f"{files}.pem"), "key": str(folder / f"{files}.key")}
        )
    else:
        click.echo(f"{folder / files}.pem {identity.uri}")


def _in_file(output: Path | None, uri: str | None) -> Path | None:
    """Return the file that a key is made in, None if it is made in the token at ``uri``."""
    if (output is None) == (uri is None):
        raise click.UsageError("either --output or --pkcs11 is needed")
    return output


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (KeyUnavailable, IdentityRefused, MalformedError, ValueError) as error:
        raise Ended(ExitCode.USAGE, str(error)) from error
