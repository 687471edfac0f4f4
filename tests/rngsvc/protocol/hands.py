"""A log in memory and hands played in it by the rules of the page: what the tests of receipts start from."""

from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.protocol import card_seal, commitment, derivation, entries, escrow, merkle, twin
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.receipt import LoggedEntry, Opening, OwnContribution, Receipt, SealedShuffle
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tlog_proof import TlogProof

ORIGIN = "cardroom.example/rng"
TABLE = bytes.fromhex("00112233445566778899aabbccddeeff")
START = 1_760_000_000_000
AUDITOR = X25519PrivateKey.from_private_bytes(bytes(range(32)))
AUDITOR_KEYS = (AUDITOR.public_key().public_bytes_raw(), b"\x55" * 32)


def private_key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def public_key(number: int) -> bytes:
    return private_key(number).public_key().public_bytes_raw()


@dataclass
class MemoryLog:
    """A log with key number 1, entry by entry."""

    origin: str = ORIGIN
    time: int = START
    raw: list[bytes] = field(default_factory=list)
    prev: dict[bytes, bytes] = field(default_factory=dict)
    key: int = 1

    def __post_init__(self):
        self.vkey = NoteKey(self.origin, public_key(self.key)).vkey

    def append(self, kind, /, **members) -> int:
        """Log an entry, a second after the last one; return its index."""
        self.time += members.pop("after", 1000)
        if "table" in members:
            members["prev"] = self.prev.get(members["table"], entries.NO_PREVIOUS)
        raw = kind(time=self.time, **members).encode()
        if "table" in members:
            self.prev[members["table"]] = merkle.leaf_hash(raw)
        self.raw.append(raw)
        return len(self.raw) - 1

    def change_key(self, new: int) -> int:
        old, self_new = public_key(self.key), public_key(new)
        message = entries.KeyEntry.signed_bytes(self.origin, old, self_new)
        sigs = (private_key(self.key).sign(message), private_key(new).sign(message))
        index = self.append(entries.KeyEntry, old=old, new=self_new, sigs=sigs)
        self.key = new
        return index

    def leaves(self, size: int) -> list[bytes]:
        return [merkle.leaf_hash(raw) for raw in self.raw[:size]]

    def logged(self, index: int, size: int | None = None, key: int | None = None) -> LoggedEntry:
        """Return the entry with its proof in the tree of ``size`` leaves, all of them unless said otherwise."""
        leaves = self.leaves(len(self.raw) if size is None else size)
        signer = key or self.key
        note = Checkpoint(self.origin, len(leaves), merkle.root_of(leaves)).sign(
            NoteKey(self.origin, public_key(signer)), private_key(signer).sign
        )
        hashes = merkle.inclusion_proof(index, len(leaves), lambda k, i: merkle.root_of(leaves[i << k : (i + 1) << k]))
        return LoggedEntry(entry=self.raw[index].decode(), proof=TlogProof(index, tuple(hashes), note).encode())


@dataclass
class HandInLog:
    """One hand as service and players live it; each method is a step, `receipt` what a player holds."""

    log: MemoryLog = field(default_factory=MemoryLog)
    mode: str = "shoe"
    reveal: str = "escrow"
    ttl: int = 3600
    n: int = 52
    contributions: tuple = ((b"seat-1", b"\x11" * 32), (b"seat-3", b"\x22" * 32))
    seq: int = 1
    seed: bytes = bytes(range(48))

    def __post_init__(self):
        self.indices: list[int] = []
        self.orders: list[list[int]] = []
        self.salts: list[bytes] = []
        self.contexts: list[bytes] = []
        self.roots: list[bytes] = []
        self.shuffles: list[SealedShuffle] = []
        self.opened: list[tuple] = []
        self.openings: list[Opening] = []
        self.drawn = False

    def add(self, kind, /, **members) -> None:
        self.indices.append(self.log.append(kind, table=TABLE, **members))

    def reserve(self, count: int = 1) -> "HandInLog":
        auditor = AUDITOR_KEYS if self.reveal == "escrow" else None
        self.add(entries.TableEntry, mode=self.mode, reveal=self.reveal, ttl=self.ttl, auditor=auditor)
        commitments = tuple(commitment.commit(TABLE, self.seq + i, self.seed) for i in range(count))
        self.add(entries.ReserveEntry, first=self.seq, commitments=commitments)
        self.commitment = commitments[0]
        self.pre = self.log.leaves(len(self.log.raw))[-1]
        return self

    def promise(self) -> "HandInLog":
        """Promise with every seed; an absent contributor promised one too."""
        promises = tuple(
            (name, commitment.promise(self.log.origin, TABLE, self.seq, name, seed or b"\x99" * 32))
            for name, seed in self.contributions
        )
        self.add(entries.PromiseEntry, first=self.seq, promises=(promises,))
        self.pre = self.log.leaves(len(self.log.raw))[-1]
        return self

    def _fix_contributions(self) -> dict:
        self.leaves = [commitment.contribution_leaf(i, name, seed) for i, (name, seed) in enumerate(self.contributions)]
        root = merkle.root_of(self.leaves)
        absent = tuple(i for i, (_, seed) in enumerate(self.contributions) if seed is None)
        context = commitment.hand_context(self.log.origin, TABLE, self.seq, self.commitment, root, self.pre)
        self.contexts.append(context)
        return {"hc": context, "cr": root, "absent": absent, "pre": self.pre}

    def seal(self, **bent) -> "HandInLog":
        """Seal k = 0; ``bent`` members are logged instead of the right ones."""
        fixed = self._fix_contributions() | bent
        self._shuffle(0, list(range(self.n)), **fixed)
        return self

    def reshuffle(self, *locations) -> "HandInLog":
        k = len(self.roots)
        context = commitment.reshuffle_context(self.contexts[-1], self.roots[-1], k, locations)
        self.contexts.append(context)
        self._shuffle(k, [self.orders[j][p] for j, p in locations], hc=context, inputs=locations)
        return self

    def _shuffle(self, k, items, **members) -> None:
        order, used = derivation.permute(self.seed, members["hc"], k, items)
        salts = card_seal.salts(self.seed, members["hc"], k, len(order))
        leaves = card_seal.seal(k, order, salts)
        root = card_seal.cards_root(k, leaves)
        logged = {"seq": self.seq, "k": k, "n": len(order), "root": root, "used": used} | members
        self.add(entries.SealEntry, **logged)
        self.orders.append(order)
        self.salts.append(salts)
        self.roots.append(root)
        self.shuffles.append(SealedShuffle(k=k, n=len(order), leaves=tuple(leaves)))

    def opening(self, k, p) -> Opening:
        return Opening(k=k, p=p, item=self.orders[k][p], salt=self.salts[k][16 * p : 16 * p + 16])

    def open(self, k, *places) -> "HandInLog":
        self.log.time += 10
        self.opened.append((self.log.time, k, places))
        self.openings += [self.opening(k, p) for p in places]
        return self

    def draw(self, purpose=b"button", m=8, count=3) -> "HandInLog":
        fixed = self._fix_contributions()
        values = tuple(derivation.draw_numbers(self.seed, fixed["hc"], purpose, m, count))
        self.add(entries.DrawEntry, seq=self.seq, purpose=purpose, m=m, values=values, **fixed)
        self.drawn = True
        return self

    def close(self, outcome="complete", **members) -> "HandInLog":
        shown = {"opened": tuple(self.opened)} if self.mode == "shoe" else {}
        if self.drawn or self.roots:
            shown["seeds"] = tuple(seed or b"" for _, seed in self.contributions)
        if outcome != "lost":
            info = escrow.escrow_info(self.log.origin, TABLE, self.seq, self.commitment)
            if self.reveal == "public":
                shown["seed"] = self.seed
            else:
                shown["escrow"] = escrow.seal_seed(self.seed, AUDITOR_KEYS[0], info)
        self.add(entries.CloseEntry, seq=self.seq, outcome=outcome, **(shown | members))
        return self

    def receipt(self, own: int | None = 0) -> Receipt:
        started = self.drawn or bool(self.roots)
        mine = None
        if own is not None and own < len(self.contributions):
            name, seed = self.contributions[own]
            mine = OwnContribution(id=name, seed=seed)
        return Receipt(
            origin=self.log.origin,
            table=TABLE,
            seq=self.seq,
            entries=tuple(self.log.logged(index) for index in self.indices),
            own=mine,
            contributions=tuple(self.leaves) if started else None,
            shuffles=tuple(self.shuffles) if self.roots else None,
            openings=tuple(self.openings) if self.openings else None,
        )


@dataclass
class TwinHandInLog(HandInLog):
    """The same at a twin table: `seal` seals two decks, and `choose` makes one of them the hand's."""

    twin_seed: bytes = bytes(range(48, 96))
    choices: tuple = (b"\x33" * 32, b"\x44" * 32)

    def __post_init__(self):
        super().__post_init__()
        self.seeds = (self.seed, self.twin_seed)
        self.decks: list[tuple] = []
        self.chosen = False

    def reserve(self) -> "TwinHandInLog":
        auditor = AUDITOR_KEYS if self.reveal == "escrow" else None
        self.add(entries.TableEntry, mode=self.mode, reveal=self.reveal, ttl=self.ttl, auditor=auditor, twin=1)
        self.commitments = [commitment.commit(TABLE, self.seq, seed) for seed in self.seeds]
        one, other = ((each,) for each in self.commitments)
        self.add(entries.ReserveEntry, first=self.seq, commitments=one, twin_commitments=other)
        self.pre = self.log.leaves(len(self.log.raw))[-1]
        return self

    def promise(self) -> "TwinHandInLog":
        """Promise every seed and choice; whoever gives none promised one too."""
        hand = self.log.origin, TABLE, self.seq
        promises = tuple(
            (
                name,
                commitment.promise(*hand, name, seed or b"\x99" * 32),
                twin.promise_choice(*hand, name, choice or b"\x88" * 32),
            )
            for (name, seed), choice in zip(self.contributions, self.choices, strict=True)
        )
        self.add(entries.PromiseEntry, first=self.seq, promises=(promises,))
        self.pre = self.log.leaves(len(self.log.raw))[-1]
        return self

    def seal(self, dealt: dict | None = None, **bent) -> "TwinHandInLog":
        """Seal both decks; ``dealt`` gives the order of a deck (by its number) that does not follow from its seed."""
        decks = []
        for number, seed in enumerate(self.seeds):
            self.commitment = self.commitments[number]
            fixed = self._fix_contributions()
            order, used = derivation.permute(seed, fixed["hc"], 0, list(range(self.n)))
            order = (dealt or {}).get(number, order)
            salts = card_seal.salts(seed, fixed["hc"], 0, self.n)
            leaves = card_seal.seal(0, order, salts)
            decks.append((fixed, order, used, salts, leaves, card_seal.cards_root(0, leaves)))
        (fixed, _, used, _, _, root), (other, _, twin_used, _, _, twin_root) = decks
        logged = {"seq": self.seq, "k": 0, "n": self.n, "root": root, "used": used} | fixed
        logged |= {"twin_hc": other["hc"], "twin_root": twin_root, "twin_used": twin_used}
        self.add(entries.SealEntry, **(logged | bent))
        self.decks = decks
        return self

    def choose(self, **bent) -> "TwinHandInLog":
        (zero, *_, root), (one, *_, twin_root) = self.decks
        given = [choice or None for choice in self.choices]
        deck = twin.played_deck(twin.choice_digest((zero["hc"], one["hc"]), (root, twin_root), given))
        logged = {"seq": self.seq, "choices": tuple(choice or b"" for choice in given), "deck": deck}
        logged |= {"seed": self.seeds[1 - deck]} | bent
        self.add(entries.ChooseEntry, **logged)
        fixed, order, _, salts, leaves, root = self.decks[logged["deck"]]
        self.seed, self.commitment = self.seeds[logged["deck"]], self.commitments[logged["deck"]]
        self.contexts, self.orders, self.salts, self.roots = [fixed["hc"]], [order], [salts], [root]
        self.shuffles = [SealedShuffle(k=0, n=self.n, leaves=tuple(leaves))]
        self.chosen = True
        return self

    def close(self, outcome="complete", **members) -> "TwinHandInLog":
        if self.chosen:
            return super().close(outcome, **members)
        shown = {}
        if self.decks:
            shown["seeds"] = tuple(seed or b"" for _, seed in self.contributions)
        if outcome != "lost" and self.reveal == "public":
            shown |= {"twin_seed": self.twin_seed}
        elif outcome != "lost":
            info = escrow.escrow_info(self.log.origin, TABLE, self.seq, self.commitments[1])
            shown |= {"twin_escrow": escrow.seal_seed(self.twin_seed, AUDITOR_KEYS[0], info)}
        self.commitment = self.commitments[0]
        return super().close(outcome, **(shown | members))

    def receipt(self, own: int | None = 0) -> Receipt:
        held = super().receipt(own)
        held = replace(held, contributions=tuple(self.leaves) if self.decks else None)
        return replace(held, own=held.own and replace(held.own, choice=self.choices[own]))


def with_entry(receipt: Receipt, i: int, **changes) -> Receipt:
    """Return the receipt with members of one logged entry replaced."""
    logged = list(receipt.entries)
    logged[i] = replace(logged[i], **changes)
    return replace(receipt, entries=tuple(logged))


def played(**settings) -> HandInLog:
    """Return a whole hand: two contributors, a shuffle, a few cards, two reshuffles, closed."""
    return _played_on(HandInLog(**settings).reserve().promise().seal())


def twin_played(**settings) -> TwinHandInLog:
    """Return the same of a twin table; its contributors choose."""
    return _played_on(TwinHandInLog(**settings).reserve().promise().seal().choose())


def _played_on(hand: HandInLog) -> HandInLog:
    hand.open(0, 0, 1, 2, 3).open(0, 4)
    hand.reshuffle((0, 1), (0, 4), *((0, p) for p in range(5, hand.n)))
    hand.open(1, 0, 1)
    hand.reshuffle((0, 0), (1, 1), (1, 2), (1, 5))
    return hand.open(2, 0, 3).close()
