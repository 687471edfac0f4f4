"""Hands dealt by a real service, for the pages to show: every deck, mode and reveal, reshuffles, draws, twin tables."""

import os
import random
from dataclasses import dataclass

from rngsvc.client import SyncClient
from rngsvc.client.blocking import SyncHand
from rngsvc.keys.making import AuditorKeys
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.twin import promise_choice
from tests.rngsvc.conftest import RunningService

NAMES = (b"ann", b"ben", b"cleo", b"dan")
SIZES = (52, 52, 36, 32, 1, 2, 9, 104, 257, 1020)


@dataclass(frozen=True)
class Dealt:
    """A hand's name in the log, and the file that one of its players holds."""

    table: str
    seq: int
    receipt: str


class Croupier:
    """Deals hands at tables of one service, each hand by chance but repeatable in what is asked."""

    def __init__(self, service: RunningService, seed: int = 1) -> None:
        self._client = SyncClient.connect(service.grpc, log_key=service.log_key)
        self._auditor = AuditorKeys.load(f"file:{service.auditor_keys}").public_keys
        self._rng = random.Random(seed)

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def hand(self, number: int) -> Dealt:
        """Deal hand ``number``; numbers in a row go through all kinds."""
        rng = self._rng
        reveal = ("public", "escrow")[number % 2]
        mode = ("shoe", "shoe", "full")[number % 3]
        auditor = self._auditor if reveal == "escrow" else None
        draws, twin = number % 8 == 7, number % 8 in {2, 5}
        gives_up = number % 13 == 12 or (twin and number % 10 == 5)
        table = self._client.register_table(os.urandom(16), mode=mode, reveal=reveal, auditor=auditor, twin=twin)
        hand = table.reserve()
        names = NAMES[: rng.randrange(len(NAMES) + 1)]
        seeds = {name: os.urandom(rng.choice((32, 48, 64))) for name in names}
        choices = {name: os.urandom(32) for name in names} if twin else {}
        if names:
            of_hand = self._client.origin, table.id, hand.seq
            promises = {name: promise(*of_hand, name, seeds[name]) for name in names}
            of_choices = {name: promise_choice(*of_hand, name, choice) for name, choice in choices.items()}
            hand.promise(promises, of_choices or None)
        given = {name: seed for name, seed in seeds.items() if name == names[0] or rng.random() < 0.8}
        n = SIZES[number % len(SIZES)]
        if draws:
            hand.draw(b"button", rng.choice((2, 9, 10**6)), rng.randrange(1, 30), given)
        elif twin:
            hand.seal_twin(n, given)
            choices = {name: choice for name, choice in choices.items() if rng.random() < 0.8}
            if not gives_up:
                hand.choose(choices)
                self._play(hand, n, mode)
        else:
            hand.seal(n, given)
            self._play(hand, n, mode)
        if gives_up:
            hand.close("aborted", "misdeal")
        elif number % 11 != 10:
            hand.close()
        own = None
        if names:
            own = (names[0], seeds[names[0]], *(choice for name, choice in choices.items() if name == names[0]))
        return Dealt(table.id.hex(), hand.seq, hand.receipt(own=own).decode())

    def _play(self, hand: SyncHand, n: int, mode: str) -> None:
        """Open some cards from the top; shuffle burns and stub again, as far as there are any."""
        dealt = min(n, self._rng.randrange(1, 12))
        if mode == "shoe":
            hand.open(0, range(dealt))
        rest = [(0, p) for p in range(dealt, n)]
        for k in range(1, self._rng.randrange(4)):
            if not rest:
                return
            hand.reshuffle(rest)
            if mode == "shoe":
                hand.open(k, [0])
            rest = [(k, p) for p in range(1, len(rest))]
