"""`dealer demo`."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import click
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme

from dealer.commands.exit_codes import Ended, ExitCode
from dealer.demo import Demonstration, Played, tables
from dealer.demo_service import Auditor, NoService, Service, child_service
from dealer.house_rules import HouseRules
from dealer.rooms import GAMES
from dealer.shufflers import CardsLost, NotTrusted
from rngsvc.client import CallFailed, Client, Credentials
from rngsvc.protocol.errors import ProofError


class _Felt(RegexHighlighter):
    """Colours for a terminal: red suits, headings, verdicts."""

    highlights = [  # noqa: RUF012  (rich's own protocol)
        r"(?P<red>\b[2-9TJQKA][dh]\b)",
        r"(?P<heading>^[═─].*$)",
        r"(?P<good>✓)",
        r"(?P<bad>✗.*$)",
        r"(?P<winner>\bwins .*$)",
    ]
    base_style = "felt."


class _Named(click.Choice[str]):
    """One of some names, written with a dash or an underscore."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is in the code."""
        spelt = value.replace("-", "_")
        return super().convert(spelt if spelt in self.choices else value, param, ctx)


_STYLES = {
    "felt.red": "red",
    "felt.heading": "bold",
    "felt.good": "green",
    "felt.bad": "bold red",
    "felt.winner": "green",
}


@click.command()
@click.option(
    "--house",
    type=_Named(sorted({rules.room for rules in GAMES.values()})),
    help="One house only; a dash will do for an underscore.",
)
@click.option("--game", type=_Named(list(GAMES)), help="One game only.")
@click.option("--hands", default=1, show_default=True, type=click.IntRange(1, 10_000), help="Hands of each game.")
@click.option("--seat", type=click.IntRange(1, 8), help="Tell what this seat sees; without it the house's view.")
@click.option("--seed", type=int, help="Repeat the players' decisions of an earlier run; cards are always new.")
@click.option("--rngsvc", "address", metavar="HOST:PORT", help="A service that runs; without it one is started.")
@click.option("--log-key", metavar="VKEY", help="The log's verifier key; goes with --rngsvc.")
@click.option(
    "--auditor-keys",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The auditor's private keys as `rngsvc keygen` writes them; without it new ones for this run.",
)
@click.option(
    "--tls",
    nargs=3,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="CA CERTIFICATE KEY",
    help="PEM files to reach the service by mutual TLS; without them on loopback only.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line a hand instead of text.")
def command(
    house: str | None,
    game: str | None,
    hands: int,
    seat: int | None,
    seed: int | None,
    address: str | None,
    log_key: str | None,
    auditor_keys: Path | None,
    tls: tuple[Path, Path, Path] | None,
    as_json: bool,
) -> None:
    """Play hands of every game from a sealed shoe, print them as a card room would, and verify each.

    Exit code 0: every step of every hand was checked; 1: something failed; 3: the service could not be reached.
    """
    games = [r for r in GAMES.values() if house in (None, r.room) and game in (None, r.name)]
    if not games:
        raise click.UsageError(f"--house {house} has no game {game}")
    if (address is None) != (log_key is None):
        raise click.UsageError("--rngsvc and --log-key go together")
    if tls and address is None:
        raise click.UsageError("--tls goes with --rngsvc")
    service = child_service() if address is None or log_key is None else _running(address, log_key, auditor_keys)
    console = Console(highlighter=_Felt(), theme=Theme(_STYLES), soft_wrap=True, markup=False)
    say: Callable[[str], None] = (lambda _line: None) if as_json else console.print
    rng = random.Random(seed)  # noqa: S311  (decisions of demonstration players, never cards)
    try:
        credentials = Credentials(*tls) if tls else None
        failures = asyncio.run(_play(service, credentials, games, hands, rng, say, seat, as_json=as_json))
    except (NotTrusted, ProofError) as error:
        raise Ended(ExitCode.CHECK_FAILED, str(error)) from error
    except (NoService, CallFailed, CardsLost) as error:
        raise Ended(ExitCode.UNDECIDED, str(error)) from error
    if failures:
        raise Ended(ExitCode.CHECK_FAILED, "failed: " + "; ".join(failures))


@contextlib.asynccontextmanager
async def _running(address: str, log_key: str, auditor_keys: Path | None) -> AsyncIterator[Service]:
    """Give a service that runs already."""
    try:
        auditor = Auditor.load(auditor_keys) if auditor_keys else Auditor.new()
    except (OSError, ValueError) as error:
        raise Ended(ExitCode.USAGE, f"--auditor-keys: {error}") from error
    yield Service(address, log_key, auditor)


async def _play(
    where: contextlib.AbstractAsyncContextManager[Service],
    credentials: Credentials | None,
    games: list[HouseRules],
    hands: int,
    rng: random.Random,
    say: Callable[[str], None],
    seat: int | None,
    *,
    as_json: bool,
) -> list[str]:
    """Play and tell everything; return what failed."""
    failures: list[str] = []
    played, began = 0, time.monotonic()
    async with where as service, await _connect(service, credentials) as client:
        for rules, stakes in tables(games):
            table = Demonstration(client, service, rules, stakes, rng, say, seat)
            async for hand in table.hands(hands):
                played += 1
                failures += hand.failures
                if as_json:
                    click.echo(json.dumps(_json(hand, service.log_key)))
        verdict = "verified" if not failures else "NOT verified"
        say(f"\n{played} hand{'s' if played > 1 else ''} played and {verdict} in {time.monotonic() - began:.1f} s")
    return failures


async def _connect(service: Service, credentials: Credentials | None) -> Client:
    try:
        return await Client.connect(service.address, log_key=service.log_key, credentials=credentials)
    except (ValueError, OSError) as error:
        raise Ended(ExitCode.USAGE, str(error)) from error


def _json(hand: Played, log_key: str) -> dict[str, object]:
    return {
        # Without it nobody could check the history again: the key of a child service ends with this run.
        "log_key": log_key,
        "game": hand.rules.name,
        "stakes": hand.stakes.name,
        "table": hand.table.hex(),
        "seq": hand.seq,
        "net": {str(seat): net for seat, net in hand.net.items()},
        "verdict": "fail" if hand.failures else "pass",
        "failed": hand.failures,
        "reports": {
            name: {step.id: step.outcome.value for step in report.steps} for name, report in hand.reports.items()
        },
        "history": json.loads(hand.history),
    }
