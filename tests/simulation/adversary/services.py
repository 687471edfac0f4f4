"""The shipped service, bent in one place each: what an operator who cheats could run instead.

Each bends the real code as little as the cheat needs; all that it does not bend (log, chain, signatures) stays right,
as if a competent cheat had written it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rngsvc.calls import Contributions, OpenCards
from rngsvc.hand import Event, Hand
from rngsvc.hand_secrets import Given, HandSecrets
from rngsvc.protocol.card_seal import cards_root, salts, seal
from rngsvc.protocol.commitment import contribution_leaf
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.merkle import root_of
from rngsvc.sequencer import Batch
from rngsvc.service import Service
from rngsvc.shuffles import Dealt, Openings
from rngsvc.tables import Table
from tests.rngsvc.service.world import World


def other_seed(seed: bytes, attempt: int) -> bytes:
    """The seeds that a grinding service tries instead of the committed one."""
    return attempt.to_bytes(4, "big") + seed[4:]


@dataclass(frozen=True, slots=True)
class Grinding(HandSecrets):
    """Tries seeds until the first card of the first shuffle is an ace, now that it knows every contribution.

    With ``reveals_other`` the close shows the seed that it dealt from, else the one that it had committed to.
    """

    reveals_other: bool

    def deal(self, table: bytes, hand: Hand, k: int, context: bytes, items: Sequence[int]) -> Dealt:
        committed = HandSecrets.seed(self, table, hand)
        for attempt in range(1000):
            seed = other_seed(committed, attempt)
            order, used = permute(seed, context, k, items)
            if order[0] >= 48:
                break
        salted = salts(seed, context, k, len(order))
        leaves = seal(k, order, salted)
        GROUND[committed] = seed
        return Dealt(order, salted, leaves, cards_root(k, leaves), used)

    def seed(self, table: bytes, hand: Hand) -> bytes:
        committed = HandSecrets.seed(self, table, hand)
        return GROUND.get(committed, committed) if self.reveals_other else committed


GROUND: dict[bytes, bytes] = {}
"""Which seed was dealt from instead of the committed one."""


@dataclass(frozen=True, slots=True)
class Forgetful(HandSecrets):
    """Takes the seeds that it is given, and says that Anna gave none."""

    def given(self, table: bytes, hand: Hand, contributions: Contributions) -> Given:
        return HandSecrets.given(self, table, hand, tuple(each for each in contributions if each[0] != b"anna"))


@dataclass(frozen=True, slots=True)
class Unasking(HandSecrets):
    """Takes seeds that nobody promised: those of an earlier hand, say."""

    def given(self, table: bytes, hand: Hand, contributions: Contributions) -> Given:
        seeds = dict(contributions)
        listed = [seeds.get(contributor) for contributor, _ in hand.promises]
        leaves = tuple(
            contribution_leaf(i, contributor, seed)
            for i, ((contributor, _), seed) in enumerate(zip(hand.promises, listed, strict=True))
        )
        absent = tuple(i for i, seed in enumerate(listed) if seed is None)
        return Given(tuple(seed or b"" for seed in listed), leaves, root_of(leaves), absent)


STACKED_DECK = (51, 50, 49, 48, 51, *range(4, 51))
"""Four aces on top, and one of them a second time: no order that the rule gives, and no permutation."""


@dataclass(frozen=True, slots=True)
class Stacking(HandSecrets):
    """At a twin table: seals `STACKED_DECK` as deck 1 of every hand, and the honest deck 0 beside it."""

    stacked: set[bytes]

    def seeds(self, table: bytes, hand: Hand) -> tuple[bytes, bytes]:
        both = HandSecrets.seeds(self, table, hand)
        self.stacked.add(both[1])
        return both

    def deal_from(self, seed: bytes, k: int, context: bytes, items: Sequence[int]) -> Dealt:
        honest = HandSecrets.deal_from(self, seed, k, context, items)
        if seed not in self.stacked or k > 0:
            return honest
        leaves = seal(k, STACKED_DECK, honest.salts)
        return Dealt(list(STACKED_DECK), honest.salts, leaves, cards_root(k, leaves), honest.used)


@dataclass(frozen=True, slots=True)
class PassingOver(HandSecrets):
    """At a twin table: takes Anna's choice, and says that she gave none."""

    def chosen(self, table: bytes, hand: Hand, choices: Contributions) -> tuple[bytes | None, ...]:
        return HandSecrets.chosen(self, table, hand, tuple(each for each in choices if each[0] != b"anna"))


class Swapping(Service):
    """Opens another card than it sealed at the place: the ace that lies somewhere else in the deck."""

    def _openings(self, table: Table, hand: Hand, request: OpenCards) -> Openings:
        dealt = self.secrets.dealt(table.id, hand, request.k)
        ace = next(place for place, item in enumerate(dealt.order) if item >= 48 and place != request.places[0])
        honest = dealt.openings(request.k, request.places)
        return honest._replace(items=(dealt.order[ace], *honest.items[1:]))


class Tardy(Service):
    """Knows no deadline: it carries on when the hand has expired."""

    def _check_step(
        self, table: Table, hand: Hand, event: Event, batch: Batch, *, may_be_overdue: bool = False
    ) -> None:
        Service._check_step(self, table, hand, event, batch, may_be_overdue=True)


def bend_secrets(world: World, kind: Callable[..., HandSecrets], **settings: Any) -> None:
    """Have the running service derive as ``kind`` does."""
    honest = world.service.secrets
    world.service.secrets = kind(honest.origin, honest.vault, honest.cache, **settings)


def bend_service(world: World, kind: type[Service]) -> None:
    """Run ``kind`` in the place of the running service."""
    old = world.service
    world.service = kind(old.origin, old.store, old.log, old.tables, old.sequencer, old.secrets)
