"""`dealer serve`."""

import asyncio
import os
import secrets
import tempfile
from pathlib import Path

import click

from dealer.commands.exit_codes import Ended, ExitCode
from dealer.config import SETTINGS, ConfigurationRefused, load
from dealer.demo_service import NoService, child_service
from dealer.serve import EXIT_STOPPED, run
from dealer.store import StoreDoubted, StoreFailed, StoreHeld, StoreLost, StoreUnreachable
from dealer.store.location import ExtraMissing
from dealer.tokens import KEY_BYTES
from rngsvc.client import CallFailed, Unproven


@click.command()
@click.option(
    "--ephemeral",
    is_flag=True,
    help="Try it out: with a shuffle service, keys and a store of its own, all gone when it ends.",
)
@click.option("--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="A TOML file.")
@click.pass_context
def command(ctx: click.Context, /, ephemeral: bool, config_file: Path | None, **flags: str | None) -> None:
    """Run the card room until SIGTERM.

    Prints one JSON line on stdout when it is ready: its addresses, grpc for players and operator for /metrics; with
    --ephemeral also token_key, the file with the key for `dealer token`, and the shuffle service's address and log_key.
    Logs go to stderr. After SIGTERM no hand begins; those that are being played may end (drain_s), else they go on at
    the next start.
    """
    try:
        if ephemeral:
            code = asyncio.run(_ephemeral(flags))
        else:
            settings = load(flags, os.environ, config_file)
            code = asyncio.run(run(settings, {}))
    except ConfigurationRefused as error:
        raise Ended(ExitCode.CONFIGURATION, str(error)) from error
    except (StoreDoubted, StoreHeld, StoreLost) as error:
        click.echo(f"Error: {error}", err=True)
        code = EXIT_STOPPED
    except StoreUnreachable as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    except (StoreFailed, ExtraMissing, OSError) as error:  # a file of the configuration, an address
        raise Ended(ExitCode.CONFIGURATION, str(error)) from error
    except (NoService, CallFailed) as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    except Unproven as error:
        raise Ended(ExitCode.CHECK_FAILED, str(error)) from error
    ctx.exit(code)


command.params += [
    click.Option(["--" + name.replace("_", "-"), name], metavar="VALUE", help=setting.about)
    for name, setting in SETTINGS.items()
]


async def _ephemeral(flags: dict[str, str | None]) -> int:
    """Run with everything of its own."""
    async with child_service() as service:
        with tempfile.TemporaryDirectory(prefix="dealer-") as folder:
            token_key = Path(folder) / "token.key"
            token_key.touch(0o600)
            token_key.write_text(secrets.token_bytes(KEY_BYTES).hex())
            x25519, ed25519 = service.auditor.public_keys
            own = {
                "listen": "127.0.0.1:0",
                "http_operator": "127.0.0.1:0",
                "rngsvc": service.address,
                "log_key": service.log_key,
                "auditor_x25519": x25519.hex(),
                "auditor_ed25519": ed25519.hex(),
                "store": f"sqlite:{folder}/tables.sqlite3",
                "token_key": str(token_key),
            }
            given = {name: value for name, value in flags.items() if value is not None}
            settings = load({**own, **given}, {}, None)
            shown = {"token_key": str(settings.token_key), "rngsvc": service.address, "log_key": service.log_key}
            return await run(settings, shown)
