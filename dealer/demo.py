"""`dealer demo`: hands of every game, played from a sealed shoe, told as a card room tells them, and verified.

One process plays all parts, but each keeps to his own: the house deals, every player guards a secret seed and checks
the log before he gives it, and when the hand is closed the auditor opens its escrow and everything is verified again,
offline, from the files that house and players take home.
"""

import json
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dealer import demo_players
from dealer.blinds import Blinds, Chair, Deal, next_deal
from dealer.demo_service import Service
from dealer.hand import apply, start
from dealer.history import Reader, history, open_locations
from dealer.house_rules import Button, HouseRules, Stakes
from dealer.own_seed import OwnSeed
from dealer.show import Telling, money, title
from dealer.shufflers import SealedShoe, register
from dealer.state import Hand, NeedAction
from rngsvc.client import Client, Table
from rngsvc.protocol.verify import Outcome, Report, verify

MOST_STUD_PLAYERS: Final = 6

# The steps of `rngsvc verify`, under the questions that they answer; "own" is each player's.
STEP_GROUPS: Final = (
    ("the log", ("document", "entries", "keys", "checkpoints", "inclusion", "chain")),
    ("players' seeds", ("promises", "contributions", "seeds")),
    ("the shuffles", ("context", "seals", "reshuffles")),
    ("every card", ("openings", "items", "history")),
    ("the close", ("reveal", "derivation", "close", "deadline")),
)
# Nothing but the chain of the table's entries may stay open: between a later hand's and the first stand other hands'.
_SHOWN_TO_THE_HOUSE: Final = {step for _, ids in STEP_GROUPS for step in ids} - {"chain"}
# The auditor alone derives; else a player checks all, and that his own seed is in the shuffle.
_SHOWN_TO_A_PLAYER: Final = _SHOWN_TO_THE_HOUSE - {"derivation"} | {"own"}
HOUSE: Final = "house"


@dataclass(frozen=True, slots=True)
class Played:
    """One hand of the demonstration: its documents, and the verdicts on them. A player's report is named after him."""

    rules: HouseRules
    stakes: Stakes
    table: bytes
    seq: int
    net: Mapping[int, int]
    history: str
    reports: Mapping[str, Report]

    @property
    def failures(self) -> list[str]:
        """Every step that failed, or was not checked although it must be, with the document that it belongs to."""
        return [
            f"{name}: {step.id}: {step.detail}"
            for name, report in self.reports.items()
            for step in report.steps
            if step.outcome is Outcome.FAILED
            or (
                step.outcome is Outcome.NOT_SHOWN
                and step.id in (_SHOWN_TO_THE_HOUSE if name == HOUSE else _SHOWN_TO_A_PLAYER)
            )
        ]


@dataclass
class Seated:
    """A player of the demonstration at his seat."""

    seat: int
    name: str
    stack: int

    @property
    def contributor(self) -> bytes:
        """His id as a contributor of entropy."""
        return self.name.lower().encode("ascii")


class Demonstration:
    """One table of one game at the service; `hands` plays there.

    ``say`` takes each line as it is told; ``viewer`` is the seat whose view is told, None for the house's.
    """

    def __init__(
        self,
        client: Client,
        service: Service,
        rules: HouseRules,
        stakes: Stakes,
        rng: random.Random,
        say: Callable[[str], None],
        viewer: int | None = None,
    ) -> None:
        self._client = client
        self._service = service
        self._rules = rules
        self._stakes = stakes
        self._rng = rng
        self._say = say
        self._viewer = viewer
        players = min(MOST_STUD_PLAYERS, rules.most_players)
        self._players = [Seated(n + 1, demo_players.NAMES[n], stakes.buy_in) for n in range(players)]

    async def hands(self, number: int) -> AsyncIterator[Played]:
        """Play so many hands and yield each. Raises CallFailed, Unproven, CardsLost, ProofError."""
        table = await register(self._client, uuid.uuid4().bytes, self._service.auditor.public_keys)
        chairs = [Chair(player.seat, ready=True) for player in self._players]
        drawn = await self._draw_button(table) if self._rules.button is Button.MOVES else None
        last: Blinds | None = None
        for _ in range(number):
            deal = next_deal(self._rules, self._stakes, chairs, last, drawn)
            assert deal is not None, "everybody is ready"
            yield await self._one(table, deal)
            last = deal.blinds
            for player in self._players:
                if player.stack < self._stakes.big_bet:
                    player.stack = self._stakes.buy_in

    async def _draw_button(self, table: Table) -> int:
        """PK-14: the shuffle service draws who has the first button."""
        shoe = await SealedShoe.reserve(table)
        player = self._players[await shoe.draw(b"button", len(self._players))]
        await shoe.close()
        verify(shoe.receipt(), self._service.log_key, auditor=self._service.auditor.opening).require()
        self._tell(["", f"the shuffle service draws the first button: seat {player.seat}, {player.name}"])
        return player.seat

    async def _one(self, table: Table, deal: Deal) -> Played:
        shoe = await SealedShoe.reserve(table)
        seeds = await self._contributions(table, shoe)
        stacks = [(player.seat, player.stack) for player in self._players]
        hand = start(self._rules, self._stakes, stacks, button=deal.button, posts=deal.posts)
        await shoe.seal(hand.deck_size, {p.contributor: seeds[p.seat].reveal(shoe.receipt([])) for p in self._players})
        self._announce(table, shoe)
        telling = Telling(self._rules, {p.seat: p.name for p in self._players}, viewer=self._viewer, button=deal.button)
        self._tell(telling.seats({p.seat: p.stack for p in self._players}))
        self._tell(telling.tell(hand.events))
        while not hand.over:
            told = len(hand.events)
            if isinstance(hand.awaits, NeedAction):
                hand = apply(hand, demo_players.decide(hand, hand.awaits, self._rng))
            else:
                hand = await shoe.answer(hand)
            self._tell(telling.tell(hand.events[told:]))
        await shoe.close()
        for player in self._players:
            player.stack = hand.stack(player.seat)
        self._tell(["  " + "  ".join(f"{p.name} {_signed(hand.net()[p.seat])}" for p in self._players)])
        return self._verified(table, shoe, hand, seeds)

    async def _contributions(self, table: Table, shoe: SealedShoe) -> Mapping[int, OwnSeed]:
        """Have every player promise a seed of his own for the hand that was just reserved."""
        seeds = {
            player.seat: OwnSeed(player.contributor, self._service.log_key, table.id, shoe.seq)
            for player in self._players
        }
        await shoe.promise({player.contributor: seeds[player.seat].promise for player in self._players})
        return seeds

    def _announce(self, table: Table, shoe: SealedShoe) -> None:
        self._tell(
            [
                "",
                f"═══ {title(self._rules, self._stakes)} · hand {shoe.seq}",
                f"  committed  {shoe.commitment.hex()}",
                f"  sealed     {shoe.roots[0].hex()}",
                f"  table      {uuid.UUID(bytes=table.id)}, {len(self._players)} players' seeds promised and given",
            ]
        )

    def _tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._say(line)

    def _verified(self, table: Table, shoe: SealedShoe, hand: Hand, seeds: Mapping[int, OwnSeed]) -> Played:
        """Check the house's history with the auditor's key, and each player's own file without it."""
        log_key = self._service.log_key
        names = {player.seat: player.name for player in self._players}
        document = json.dumps(history(hand, Reader.HOUSE, names=names, receipt=json.loads(shoe.receipt())))
        reports = {HOUSE: verify(document, log_key, auditor=self._service.auditor.opening)}
        for player in self._players:
            receipt = seeds[player.seat].with_own(shoe.receipt(open_locations(hand, player.seat)))
            own = history(hand, player.seat, names=names, receipt=json.loads(receipt))
            reports[player.name] = verify(json.dumps(own), log_key)
        self._tell(["  ─ verified", *_report_lines(reports)])
        return Played(self._rules, self._stakes, table.id, shoe.seq, hand.net(), document, reports)


def _signed(cents: int) -> str:
    return f"{'+' if cents > 0 else '-' if cents < 0 else ''}{money(abs(cents))}"


def _report_lines(reports: Mapping[str, Report]) -> list[str]:
    """Return the house's report group by group, and one line for all that players checked by themselves."""
    house, *players = reports.values()
    lines = []
    for name, ids in STEP_GROUPS:
        steps = [house.step(step_id) for step_id in ids]
        checked = [step for step in steps if step.outcome is Outcome.CHECKED]
        failed = [step for step in steps if step.outcome is Outcome.FAILED]
        mark = "✗" if failed else "✓"
        unseen = [step for step in steps if step.outcome is Outcome.NOT_SHOWN]
        details = "; ".join(f"{step.id}: {step.detail}" for step in failed or checked)
        details += "".join(f"; {step.id} not shown: {step.detail}" for step in unseen)
        lines.append(f"  {mark} {name:<15} {details}")
    own = sum(report.step("own").outcome is Outcome.CHECKED for report in players)
    mark = "✗" if own < len(players) or any(report.failures for report in players) else "✓"
    return [*lines, f"  {mark} {'by each player':<15} {own} of {len(players)} found their own seed in the shuffle"]


def tables(games: Sequence[HouseRules]) -> list[tuple[HouseRules, Stakes]]:
    """Return each game with its first stakes of every betting structure."""
    found = []
    for rules in games:
        first = {stakes.structure: stakes for stakes in reversed(rules.stakes)}
        found += [(rules, stakes) for stakes in rules.stakes if first[stakes.structure] is stakes]
    return found
