"""What a hand's secrets give: its seed, the contributed seeds, and every shuffle that follows from them.

Secrets come sealed from the hand's stored steps and are unsealed only for the moment in which they are used; a shuffle
of an open hand is kept in a cache. Whatever was derived once is derived again, never drawn again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rngsvc.calls import Contributions
from rngsvc.errors import Reason, Refused
from rngsvc.hand import Hand, State
from rngsvc.protocol.card_seal import cards_root, salts, seal
from rngsvc.protocol.commitment import SEED_BYTES, commit, contribution_leaf, promise
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.errors import StreamExhaustedError
from rngsvc.protocol.merkle import EMPTY_ROOT, root_of
from rngsvc.protocol.twin import promise_choice
from rngsvc.shuffles import Dealt, DealtCache
from rngsvc.vault import SecretLost, Vault, day_of


@dataclass(frozen=True, slots=True)
class Given:
    """Contributed seeds by number (b"" for an absent one), their leaf hashes, root CR, and who is absent."""

    seeds: tuple[bytes, ...]
    leaves: tuple[bytes, ...]
    root: bytes
    absent: tuple[int, ...]


NOTHING_GIVEN: Final = Given((), (), EMPTY_ROOT, ())


@dataclass(frozen=True, slots=True)
class HandSecrets:
    """Secrets and shuffles of the hands of the log ``origin``.

    A hand's data key must be in memory (`Vault.load`); else KeyNotLoaded. Refused with SEED_LOST if a secret cannot be
    read any more.
    """

    origin: str
    vault: Vault
    cache: DealtCache

    def given(self, table: bytes, hand: Hand, contributions: Contributions) -> Given:
        """Step 2. Match given seeds with the hand's promises; one that does not match refuses the whole call."""
        if not hand.promises and not contributions:
            return NOTHING_GIVEN

        def fits(promised: tuple[bytes, ...], seed: bytes) -> bool:
            return promise(self.origin, table, hand.seq, promised[0], seed) == promised[1]

        try:
            seeds = _matched(hand, contributions, fits, "seed")
        except ValueError as wrong:
            raise Refused(Reason.SEED_MISMATCH, f"contributions: {wrong}") from None
        leaves = tuple(contribution_leaf(i, hand.promises[i][0], seed) for i, seed in enumerate(seeds))
        absent = tuple(i for i, seed in enumerate(seeds) if seed is None)
        return Given(tuple(seed or b"" for seed in seeds), leaves, root_of(leaves), absent)

    def chosen(self, table: bytes, hand: Hand, choices: Contributions) -> tuple[bytes | None, ...]:
        """Twin mode. Match given choices with the hand's promises, like `given`; None for one that was not given."""

        def fits(promised: tuple[bytes, ...], choice: bytes) -> bool:
            return promise_choice(self.origin, table, hand.seq, promised[0], choice) == promised[2]

        try:
            return tuple(_matched(hand, choices, fits, "choice"))
        except ValueError as wrong:
            raise Refused(Reason.CHOICE_MISMATCH, f"choices: {wrong}") from None

    def seal_new(self, table: bytes, seq: int, day: int, *seeds: bytes) -> tuple[tuple[bytes, ...], bytes]:
        """Return the commitment to each new seed of hand ``seq`` (a twin table's has two), and how they are stored."""
        commitments = tuple([commit(table, seq, seed) for seed in seeds])
        return commitments, self.vault.seal(table, day, b"".join(seeds), self.context(table, seq, commitments[0]))

    def context(self, table: bytes, seq: int, commitment: bytes) -> bytes:
        """Return what a hand's secrets are bound to where they are stored."""
        return b"rs1/secret" + self.origin.encode() + table + seq.to_bytes(8, "big") + commitment

    def _unseal(self, table: bytes, hand: Hand, sealed: bytes) -> bytes:
        context = self.context(table, hand.seq, hand.reserved.commitment)
        try:
            return self.vault.unseal(table, day_of(hand.reserved.time), sealed, context)
        except SecretLost as lost:
            raise Refused(Reason.SEED_LOST, f"seq: the hand's secrets cannot be read: {lost}") from None

    def seed(self, table: bytes, hand: Hand) -> bytes:
        """Return s, of the deck that is played."""
        if hand.reserved.twin:
            return self.seeds(table, hand)[hand.chosen.deck if hand.chosen else 0]
        seed = self._unseal(table, hand, hand.reserved.secret)
        # The commitment is public: if these differ, nothing derived from the seed may ever be shown.
        assert commit(table, hand.seq, seed) == hand.reserved.commitment, "a stored seed is the committed one"
        return seed

    def seeds(self, table: bytes, hand: Hand) -> tuple[bytes, bytes]:
        """Return s and s' of a twin table's hand."""
        both = self._unseal(table, hand, hand.reserved.secret)
        seed, twin_seed = both[:SEED_BYTES], both[SEED_BYTES:]
        assert commit(table, hand.seq, seed) == hand.reserved.commitment, "stored seeds are the committed ones"
        assert commit(table, hand.seq, twin_seed) == hand.reserved.twin, "stored seeds are the committed ones"
        return seed, twin_seed

    def seal_contributed(self, table: bytes, hand: Hand, seeds: Sequence[bytes]) -> bytes:
        """Return the given seeds, b"" for an absent contributor, as they are stored."""
        if not seeds:
            return b""
        packed = b"".join(bytes([len(seed)]) + seed for seed in seeds)
        context = self.context(table, hand.seq, hand.reserved.commitment)
        return self.vault.seal(table, day_of(hand.reserved.time), packed, context)

    def to_reveal(self, table: bytes, hand: Hand, *, lost: bool) -> tuple[bytes, ...] | None:
        """Return the contributed seeds by number; for a lost hand None if they are lost too."""
        try:
            return self.contributed(table, hand)
        except Refused:
            if lost:
                return None
            raise

    def contributed(self, table: bytes, hand: Hand) -> tuple[bytes, ...]:
        """Return the contributed seeds by number, b"" for an absent contributor."""
        if not hand.contributed_secret:
            return ()
        packed = self._unseal(table, hand, hand.contributed_secret)
        seeds = []
        while packed:
            length, packed = packed[0], packed[1:]
            seeds.append(packed[:length])
            packed = packed[length:]
        return tuple(seeds)

    # --- Shuffles ---

    def deal(self, table: bytes, hand: Hand, k: int, context: bytes, items: Sequence[int]) -> Dealt:
        """Steps 4 and 5, for the deck that is played."""
        return self.deal_from(self.seed(table, hand), k, context, items)

    def deal_from(self, seed: bytes, k: int, context: bytes, items: Sequence[int]) -> Dealt:
        """Steps 4 and 5, for either deck of a twin table's hand."""
        try:
            order, used = permute(seed, context, k, items)
        except StreamExhaustedError as error:
            raise Refused(Reason.STREAM_EXHAUSTED, f"seq: {error}; the hand can only be aborted") from None
        salted = salts(seed, context, k, len(order))
        leaves = seal(k, order, salted)
        return Dealt(order, salted, leaves, cards_root(k, leaves), used)

    def dealt(self, table: bytes, hand: Hand, k: int) -> Dealt:
        """Return a sealed shuffle again."""
        return self.cache.get((table, hand.seq, k)) or self.all_dealt(table, hand, k + 1)[k]

    def all_dealt(self, table: bytes, hand: Hand, count: int) -> list[Dealt]:
        """Return the first ``count`` shuffles, derived anew where they are no longer at hand; never drawn anew."""
        assert count <= hand.shown_shuffles, "of two decks none is looked at before the choice"
        found: list[Dealt] = []
        for k, shuffle in enumerate(hand.shuffles[:count]):
            key = (table, hand.seq, k)
            dealt = self.cache.get(key)
            if dealt is None:
                items = [found[j].order[p] for j, p in shuffle.inputs] if k else range(shuffle.n)
                dealt = self.deal(table, hand, k, shuffle.context, items)
                assert dealt.root == shuffle.root, "what is derived again is what was sealed"
                if hand.state is not State.CLOSED:
                    self.cache.put(key, dealt)
            found.append(dealt)
        return found


def _matched(
    hand: Hand, given: Contributions, fits: Callable[[tuple[bytes, ...], bytes], bool], thing: str
) -> list[bytes | None]:
    """Return what each contributor of ``hand`` gave, None if nothing; ValueError if something was not promised."""
    rest = dict(given)
    matched = []
    for promised in hand.promises:
        value = rest.pop(promised[0], None)
        if value is not None and not fits(promised, value):
            raise ValueError(f"the {thing} of {promised[0].hex()} is not the promised one")
        matched.append(value)
    if rest:
        raise ValueError(f"{min(rest).hex()} has promised nothing for this hand")
    return matched
