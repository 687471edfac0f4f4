"""The rules of a table in their plainest form, written from the protocol alone: what a call must come to.

`Model` says of each call whether it is new, a repeat or refused, and keeps what new calls did. It knows no bytes, no
log and no storage.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SEEDS = {b"alice": b"\x01" * 32, b"bob": b"\x02" * 48, b"carol": b"\x03" * 64}
CHOICES = {b"alice": b"\x04" * 32, b"bob": b"\x05" * 48, b"carol": b"\x06" * 64}
Location = tuple[int, int]


class Verdict(Enum):
    NEW = "new"
    REPEAT = "repeat"
    REFUSED = "refused"


@dataclass
class ModelHand:
    reserved_at: int
    reservation: tuple[int, int]
    promise: tuple[int, Any] | None = None  # the promise call: first hand, all its promises
    promised: tuple[bytes, ...] = ()
    contributions: frozenset[bytes] = frozenset()
    sizes: list[int] = field(default_factory=list)
    inputs: list[tuple[Location, ...]] = field(default_factory=list)
    opened: set[Location] = field(default_factory=set)
    named: set[Location] = field(default_factory=set)
    draw: tuple[Any, ...] | None = None
    close: tuple[str, str | None] | None = None
    started_at: int = 0
    choices: frozenset[bytes] | None = None  # who chose, once that is decided


@dataclass
class Model:
    mode: str
    ttl_ms: int
    twin: bool = False
    hands: list[ModelHand] = field(default_factory=list)
    closed: int = 0
    closed_at: int = 0

    def hand(self, seq: int) -> ModelHand | None:
        return self.hands[seq - 1] if 1 <= seq <= len(self.hands) else None

    def expires_at(self) -> int | None:
        hand = self.hand(self.closed + 1)
        return max(hand.reserved_at, self.closed_at, hand.started_at) + self.ttl_ms if hand else None

    def _playable(self, seq: int, now: int) -> ModelHand | None:
        """The hand, if it is the lowest unclosed one and its time is not up."""
        expires = self.expires_at()
        return self.hand(seq) if seq == self.closed + 1 and expires is not None and now < expires else None

    def reserve(self, now: int, first: int, count: int) -> Verdict:
        known = self.hand(first)
        if known:
            return Verdict.REPEAT if known.reservation == (first, count) else Verdict.REFUSED
        if first != len(self.hands) + 1:
            return Verdict.REFUSED
        self.hands += [ModelHand(now, (first, count)) for _ in range(count)]
        return Verdict.NEW

    def promise(self, now: int, first: int, *promises: tuple[bytes, ...]) -> Verdict:
        hands = [self.hand(seq) for seq in range(first, first + len(promises))]
        if hands[0] and hands[0].promise == (first, promises):
            return Verdict.REPEAT
        for seq, hand in enumerate(hands, first):
            if hand is None or hand.promise or hand.sizes or hand.draw or hand.close:
                return Verdict.REFUSED
            if seq == self.closed + 1 and self._playable(seq, now) is None:
                return Verdict.REFUSED
        for hand, promised in zip(hands, promises, strict=True):
            assert hand
            hand.promise, hand.promised = (first, promises), promised
        return Verdict.NEW

    def _given(self, hand: ModelHand, given: dict[bytes, bytes], secrets: dict[bytes, bytes] = SEEDS) -> bool:
        return all(who in hand.promised and secrets[who] == secret for who, secret in given.items())

    def _decided(self, hand: ModelHand) -> bool:
        """Whether it is known which deck is the hand's: at a twin table two are sealed first."""
        return bool(hand.sizes) and (not self.twin or hand.choices is not None)

    def seal(self, now: int, seq: int, n: int, contributions: dict[bytes, bytes]) -> Verdict:
        hand = self.hand(seq)
        if hand is None or not self._given(hand, contributions):
            return Verdict.REFUSED
        if hand.sizes:
            same = (hand.sizes[0], hand.contributions) == (n, frozenset(contributions))
            return Verdict.REPEAT if same else Verdict.REFUSED
        if hand.draw or hand.close or not self._playable(seq, now):
            return Verdict.REFUSED
        hand.sizes, hand.inputs = [n], [()]
        hand.contributions, hand.started_at = frozenset(contributions), now
        return Verdict.NEW

    def choose(self, now: int, seq: int, choices: dict[bytes, bytes]) -> Verdict:
        hand = self.hand(seq)
        if hand is None or not self.twin or not self._given(hand, choices, CHOICES):
            return Verdict.REFUSED
        if hand.choices is not None:
            return Verdict.REPEAT if hand.choices == frozenset(choices) else Verdict.REFUSED
        if not hand.sizes or hand.close or not self._playable(seq, now):
            return Verdict.REFUSED
        hand.choices = frozenset(choices)
        return Verdict.NEW

    def draw(
        self, now: int, seq: int, purpose: bytes, modulus: int, count: int, contributions: dict[bytes, bytes]
    ) -> Verdict:
        hand = self.hand(seq)
        if hand is None or self.twin or not self._given(hand, contributions):
            return Verdict.REFUSED
        call = (purpose, modulus, count, frozenset(contributions))
        if hand.draw:
            return Verdict.REPEAT if hand.draw == call else Verdict.REFUSED
        if hand.sizes or hand.close or not self._playable(seq, now):
            return Verdict.REFUSED
        hand.draw, hand.started_at = call, now
        return Verdict.NEW

    def reshuffle(self, now: int, seq: int, k: int, locations: tuple[Location, ...]) -> Verdict:
        hand = self.hand(seq)
        if hand is None:
            return Verdict.REFUSED
        if k < len(hand.sizes):
            return Verdict.REPEAT if hand.inputs[k] == locations else Verdict.REFUSED
        if not self._decided(hand) or hand.close or k != len(hand.sizes) or not self._playable(seq, now):
            return Verdict.REFUSED
        if any(j >= k or p >= hand.sizes[j] or (j, p) in hand.named for j, p in locations):
            return Verdict.REFUSED
        hand.sizes.append(len(locations))
        hand.inputs.append(locations)
        hand.named |= set(locations)
        return Verdict.NEW

    def open(self, now: int, seq: int, k: int, places: tuple[int, ...]) -> Verdict:
        hand = self.hand(seq)
        if hand is None or not self._decided(hand) or k >= len(hand.sizes) or places[-1] >= hand.sizes[k]:
            return Verdict.REFUSED
        wanted = {(k, place) for place in places}
        if self.mode == "full" or wanted <= hand.opened:
            return Verdict.REPEAT
        if hand.close or not self._playable(seq, now) or (wanted - hand.opened) & hand.named:
            return Verdict.REFUSED
        hand.opened |= wanted
        return Verdict.NEW

    def close(self, now: int, seq: int, outcome: str, reason: str | None) -> Verdict:
        hand = self.hand(seq)
        if hand is None:
            return Verdict.REFUSED
        if hand.close:
            return Verdict.REPEAT if hand.close == (outcome, reason) else Verdict.REFUSED
        if not self._playable(seq, now) or (outcome == "complete" and not (hand.draw or self._decided(hand))):
            return Verdict.REFUSED
        self._close(hand, now, outcome, reason)
        return Verdict.NEW

    def sweep(self, now: int) -> int:
        """Close what has expired; return how many."""
        expires = self.expires_at()
        if expires is None or now < expires:
            return 0
        self._close(self.hands[self.closed], now, "aborted", "expired")
        return 1

    def _close(self, hand: ModelHand, now: int, outcome: str, reason: str | None) -> None:
        hand.close = (outcome, reason)
        self.closed += 1
        self.closed_at = now
