"""The shuffle service: reserve, promise, seal, reshuffle, open, close, draw. No gRPC, no SQL, no clock of its own.

Each call is one step (`Batch`) that runs in the sequencer: it checks everything against the table's state, then stages
its log entry and the hand's next state. A repeat of an earlier call stages nothing and is answered from the log, which
also serves hands that were closed long ago. Calls for many tables are many steps in one batch; each succeeds or fails
by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from rngsvc import hand as life
from rngsvc.calls import (
    Caller,
    ChooseTwin,
    CloseHand,
    DrawNumbers,
    HandView,
    Numbers,
    OpenCards,
    OpenedHand,
    PromiseSeeds,
    PublicHand,
    RegisterTable,
    ReserveHands,
    Reshuffle,
    SealShuffle,
    Shuffled,
)
from rngsvc.errors import (
    InvalidField,
    NotFound,
    PermissionDenied,
    Reason,
    Refused,
    ServiceError,
    TryAgain,
)
from rngsvc.hand import Chosen, Closed, Drawn, Event, Hand, IllegalStep, Opened, Promised, Reserved, Sealed, State
from rngsvc.hand_secrets import HandSecrets
from rngsvc.log import Log, Logged
from rngsvc.ports import Head, StepRow, Store, TableRow
from rngsvc.protocol.commitment import (
    MAX_CONTRIBUTION_BYTES,
    SEED_BYTES,
    contribution_leaf,
    hand_context,
    reshuffle_context,
)
from rngsvc.protocol.derivation import draw_numbers
from rngsvc.protocol.entries import (
    MAX_ENTRY_BYTES,
    NO_PREVIOUS,
    ChooseEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    HandEntry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.escrow import escrow_info, seal_seed
from rngsvc.protocol.twin import choice_digest, played_deck
from rngsvc.sequencer import Batch, Sequencer
from rngsvc.shuffles import Dealt, Openings
from rngsvc.tables import Table, Tables, rows
from rngsvc.vault import KeyNotLoaded, SecretLost, day_of

MAX_UNCLOSED_HANDS: Final = 1024  # a table
_CLOSED_AT_ONCE: Final = 256  # expired hands in one batch, so that many leave room for play
_CLOSE_ROOM: Final = 1024  # bytes of a close entry beside its openings and seeds: 900 at the most


class _NamesHand(Protocol):
    @property
    def table(self) -> bytes: ...

    @property
    def seq(self) -> int: ...


Request = TypeVar("Request", bound=_NamesHand)
Answer = TypeVar("Answer")


class _Staged(NamedTuple, Generic[Answer]):
    """What a step leaves to be proved once it is durable: its entry, and how the answer is made from the proof."""

    position: int
    entry: bytes
    answer: Callable[[Logged], Answer]


class _SaidBefore(Exception):
    """The step finds that the call, or another with its key, was carried out; ``hand`` is None if it is closed."""

    def __init__(self, hand: Hand | None = None) -> None:
        super().__init__()
        self.hand = hand


@dataclass(slots=True)
class Service:
    """The service over its ports; see the module's text.

    ``origin`` is the log's name.
    """

    origin: str
    store: Store
    log: Log
    tables: Tables
    sequencer: Sequencer
    secrets: HandSecrets

    # --- One call: one step, then its proof, or the proof of what was said before ---

    async def register(self, caller: Caller, request: RegisterTable) -> Logged:
        """Step 0. Register a table for ``caller``, who owns it from then on."""
        await self.tables.load(request.table)
        # A repeat too goes through the sequencer: what a batch has stored is in the log only when the batch is done.
        staged = await self.sequencer.submit(partial(self._register, caller, request))
        if staged:
            return await self.log.logged(staged.position, staged.entry)
        known = await self._table(caller, request.table)
        terms = known.terms
        if (terms.mode, terms.reveal, terms.ttl, terms.auditor, terms.twin is not None) != (
            request.mode,
            request.reveal,
            request.ttl_s,
            request.auditor,
            request.twin,
        ):
            raise Refused(Reason.OTHER_CONTENT, "table: is registered with other terms")
        return await self.log.logged(known.position)

    async def reserve(self, caller: Caller, requests: Sequence[ReserveHands]) -> list[Logged | ServiceError]:
        """Step 1. Reserve hands at each request's table."""
        return await self._each(
            caller,
            requests,
            self._reserve,
            self._reserved_before,
            random_bytes=lambda table, request: _seeds_a_hand(table) * SEED_BYTES * request.count,
        )

    async def promise(self, caller: Caller, request: PromiseSeeds) -> Logged:
        """Step 2. Log the promises for reserved hands."""
        return await self._one(caller, request, self._promise, self._promised_before)

    async def seal(self, caller: Caller, requests: Sequence[SealShuffle]) -> list[Shuffled | ServiceError]:
        """Steps 2 to 5. Derive and seal the first shuffle of a hand at each request's table."""
        return await self._each(caller, requests, self._seal, self._sealed_before)

    async def choose(self, caller: Caller, requests: Sequence[ChooseTwin]) -> list[Shuffled | ServiceError]:
        """Twin mode. Decide which deck is played in a hand at each request's table."""
        return await self._each(caller, requests, self._choose, self._chosen_before)

    async def reshuffle(self, caller: Caller, request: Reshuffle) -> Shuffled:
        """Step 7. Shuffle the items at named locations and seal the result."""
        return await self._one(caller, request, self._reshuffle, self._reshuffled_before)

    async def open(self, caller: Caller, requests: Sequence[OpenCards]) -> list[Openings | ServiceError]:
        """Step 6. Open places at each request's table."""
        return await self._each(caller, requests, self._open, self._opened_before)

    async def close(self, caller: Caller, requests: Sequence[CloseHand]) -> list[Logged | ServiceError]:
        """Step 8. Close a hand with its reveal at each request's table; only operators may declare one lost."""
        if not caller.is_operator and any(request.outcome == "lost" for request in requests):
            raise PermissionDenied(Reason.WRONG_ROLE, "outcome: only an operator may declare a hand lost")
        return await self._each(caller, requests, self._close, self._closed_before)

    async def draw(self, caller: Caller, request: DrawNumbers) -> Numbers:
        """Step 9. Draw numbers from a reserved hand of their own."""
        return await self._one(caller, request, self._draw, self._drawn_before)

    async def close_expired(self, now_ms: int) -> int:
        """Step 8. Close every hand that has expired at ``now_ms``, with its reveal; return how many.

        One that cannot be closed now holds up no other; its error is raised when all have been tried.
        """
        due = [
            table
            for table in self.tables.with_unclosed_hands()
            if (expires := table.expires_ms()) is not None and expires <= now_ms
        ]
        closed = 0
        failures: list[BaseException] = []
        for first in range(0, len(due), _CLOSED_AT_ONCE):
            some = due[first : first + _CLOSED_AT_ONCE]
            for result in await asyncio.gather(*map(self._close_expired, some), return_exceptions=True):
                if isinstance(result, BaseException):
                    failures.append(result)
                else:
                    closed += result
        if failures:
            raise failures[0]
        return closed

    async def _close_expired(self, table: Table) -> int:
        await self._load_key(table, table.last_closed + 1)
        return await self.sequencer.submit(partial(self._expire, table.id))

    # --- Reading ---

    async def hand(self, caller: Caller, table_id: bytes, seq: int) -> HandView:
        """Return what is public of one hand."""
        table = await self._table(caller, table_id)
        hand = await self._any_hand(table, seq)
        positions = [table.position, *hand.positions]
        entries = await self.store.entries_at(positions)
        head = self.log.head
        logged = [await self.log.logged(*each, head) for each in zip(positions, entries, strict=True)]
        lowest = hand.closed is None and seq == table.last_closed + 1
        return HandView(hand, tuple(logged), (table.expires_ms() or 0) if lowest else 0)

    async def public_hand(self, table_id: bytes, seq: int) -> PublicHand:
        """Return what anybody may see of a hand: its entries, and the salted leaves that hide the rest."""
        anybody = Caller("", is_operator=True)
        view = await self.hand(anybody, table_id, seq)
        table = await self._table(anybody, table_id)
        hand = view.hand
        assert self.log.head, "a log with tables has entries"
        key_entries = tuple(await self.log.key_entries(self.log.head))
        if not hand.started_ms:
            return PublicHand(view, key_entries, (), ())
        await self._load_key(table, seq, hand)
        try:
            seeds = self.secrets.contributed(table.id, hand)
            leaves = tuple(tuple(dealt.leaves) for dealt in self.secrets.all_dealt(table.id, hand, hand.shown_shuffles))
        except Refused:
            return PublicHand(view, key_entries, None, None)
        contributions = tuple(
            contribution_leaf(i, contributor, seed or None)
            for i, ((contributor, *_), seed) in enumerate(zip(hand.promises, seeds, strict=True))
        )
        return PublicHand(view, key_entries, contributions, leaves)

    async def hands(self, caller: Caller, table_id: bytes, after_seq: int, limit: int) -> list[StepRow]:
        """Return the newest step of each of at most ``limit`` hands above ``after_seq``, ascending by seq."""
        await self._table(caller, table_id)
        return await self.store.last_steps(table_id, after_seq, limit)

    async def opened_hand(self, table_id: bytes, seq: int) -> OpenedHand:
        """Return what an auditor needs to re-derive a closed hand."""
        auditor = Caller("", is_operator=True)
        view = await self.hand(auditor, table_id, seq)
        if view.hand.state is not State.CLOSED:
            raise Refused(Reason.NOT_CLOSED, "seq: the hand is not closed yet")
        table = await self._table(auditor, table_id)
        close = parse_entry(view.entries[-1].entry)
        assert isinstance(close, CloseEntry), "the last entry of a closed hand"
        leaves: tuple[tuple[bytes, ...], ...] = ()
        if close.outcome != "lost":
            await self._load_key(table, seq, view.hand)
            dealt = self.secrets.all_dealt(table.id, view.hand, view.hand.shown_shuffles)
            leaves = tuple(tuple(each.leaves) for each in dealt)
        return OpenedHand(view.entries, close.seeds or (), leaves, close.escrow or b"", close.seed or b"")

    # --- Steps: check everything, then stage ---

    def _register(self, caller: Caller, request: RegisterTable, batch: Batch) -> "_Staged[Logged] | None":
        if batch.table(request.table):
            return None
        terms = TableEntry(
            time=batch.time,
            table=request.table,
            prev=NO_PREVIOUS,
            mode=request.mode,
            reveal=request.reveal,
            ttl=request.ttl_s,
            auditor=request.auditor,
            twin=1 if request.twin else None,
        )
        raw = terms.encode()
        position, leaf = batch.append(terms.type, raw)
        batch.table_rows.append(TableRow(request.table, position, caller.name))
        batch.put(Table(request.table, caller.name, position, terms, leaf))
        return _Staged(position, raw, _as_logged)

    def _reserve(self, table: Table, request: ReserveHands, batch: Batch) -> "_Staged[Logged]":
        if request.first <= table.last_reserved:
            raise _SaidBefore(table.hand(request.first))
        if request.first != table.last_reserved + 1:
            raise Refused(Reason.OUT_OF_SEQUENCE, f"first_seq: must be {table.last_reserved + 1}, the next to reserve")
        if table.unclosed + request.count > MAX_UNCLOSED_HANDS:
            raise Refused(
                Reason.TOO_MANY_OPEN_HANDS, f"count: a table may have at most {MAX_UNCLOSED_HANDS} unclosed hands"
            )
        day = day_of(batch.time)
        try:
            new_key = self.secrets.vault.ensure(table.id, day)
        except SecretLost as lost:
            raise Refused(Reason.SEED_LOST, f"table: no seed can be stored today: {lost}") from None
        if new_key:
            batch.data_keys.append(new_key)
            batch.undo.append(partial(self.secrets.vault.forget, new_key))
        seqs = range(request.first, request.first + request.count)
        decks = range(_seeds_a_hand(table))
        made = [self.secrets.seal_new(table.id, seq, day, *[batch.random(SEED_BYTES) for _ in decks]) for seq in seqs]
        entry = ReserveEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            first=request.first,
            commitments=tuple(commitments[0] for commitments, _ in made),
            twin_commitments=tuple(commitments[1] for commitments, _ in made) if table.terms.twin else None,
        )
        staged, leaf = self._append(batch, entry, _as_logged)
        new = []
        for seq, ((commitment, *twin), secret) in zip(seqs, made, strict=True):
            reserved = Reserved(staged.position, batch.time, leaf, commitment, secret, *twin)
            batch.steps.append(rows(table.id, seq, 0, reserved))
            new.append(life.reserve(seq, reserved))
        batch.put(table.with_waiting(new, leaf))
        return staged

    def _promise(self, table: Table, request: PromiseSeeds, batch: Batch) -> "_Staged[Logged]":
        seqs = range(request.first, request.first + len(request.promises))
        hands = [self._unclosed(table, seq) for seq in seqs]
        if hands[0].promised:
            raise _SaidBefore(hands[0])
        for hand in hands:
            self._check_step(table, hand, Event.PROMISE, batch)
        width = 3 if table.terms.twin else 2
        if any(len(row) != width for rows_of_hand in request.promises for row in rows_of_hand):
            wanted = "a choice is promised with every seed" if table.terms.twin else "no choice is promised"
            raise Refused(Reason.TWIN_MODE, f"choice_promise: {wanted} at this table")
        entry = PromiseEntry(
            time=batch.time, table=table.id, prev=table.prev, first=request.first, promises=request.promises
        )
        if len(entry.encode()) > MAX_ENTRY_BYTES:
            raise Refused(
                Reason.ENTRY_TOO_LARGE, f"hands: together more than {MAX_ENTRY_BYTES} bytes of entry; split the call"
            )
        staged, leaf = self._append(batch, entry, _as_logged)
        after = []
        for hand, promises in zip(hands, request.promises, strict=True):
            promised = Promised(staged.position, leaf, promises)
            batch.steps.append(rows(table.id, hand.seq, hand.steps, promised))
            after.append(life.advance(hand, promised))
        batch.put(table.with_waiting(after, leaf))
        return staged

    def _seal(self, table: Table, request: SealShuffle, batch: Batch) -> "_Staged[Shuffled]":
        if table.terms.twin:
            return self._seal_twin(table, request, batch)
        hand = self._unclosed(table, request.seq)
        if hand.shuffles:
            raise _SaidBefore(hand)
        self._check_step(table, hand, Event.SEAL, batch)
        given = self.secrets.given(table.id, hand, request.contributions)
        context = hand_context(self.origin, table.id, hand.seq, hand.reserved.commitment, given.root, hand.pre)
        dealt = self.secrets.deal(table.id, hand, 0, context, range(request.n))
        entry = SealEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            seq=hand.seq,
            k=0,
            n=request.n,
            hc=context,
            root=dealt.root,
            used=dealt.used,
            cr=given.root,
            absent=given.absent,
            pre=hand.pre,
        )
        secret = self.secrets.seal_contributed(table.id, hand, given.seeds)
        answer = partial(_shuffled, dealt, 0, given.leaves, table.terms.mode)
        staged, leaf = self._append(batch, entry, answer)
        sealed = Sealed(
            staged.position,
            batch.time,
            0,
            request.n,
            context,
            dealt.root,
            contributions=given.root,
            secret=secret,
        )
        self._put_step(batch, table, hand, sealed, leaf)
        batch.shuffled.append((len(dealt.order), dealt.used))
        self.secrets.cache.put((table.id, hand.seq, 0), dealt)
        return staged

    def _seal_twin(self, table: Table, request: SealShuffle, batch: Batch) -> "_Staged[Shuffled]":
        hand = self._unclosed(table, request.seq)
        if hand.shuffles:
            raise _SaidBefore(hand)
        self._check_step(table, hand, Event.SEAL_TWIN, batch)
        given = self.secrets.given(table.id, hand, request.contributions)
        contexts = [
            hand_context(self.origin, table.id, hand.seq, commitment, given.root, hand.pre)
            for commitment in (hand.reserved.commitment, hand.reserved.twin)
        ]
        dealt, twin = (
            self.secrets.deal_from(seed, 0, context, range(request.n))
            for seed, context in zip(self.secrets.seeds(table.id, hand), contexts, strict=True)
        )
        entry = SealEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            seq=hand.seq,
            k=0,
            n=request.n,
            hc=contexts[0],
            root=dealt.root,
            used=dealt.used,
            cr=given.root,
            absent=given.absent,
            pre=hand.pre,
            twin_hc=contexts[1],
            twin_root=twin.root,
            twin_used=twin.used,
        )
        secret = self.secrets.seal_contributed(table.id, hand, given.seeds)
        leaves = given.leaves
        # Neither deck is kept at hand: the one that is played is derived again once that is known.
        staged, leaf = self._append(batch, entry, lambda logged: Shuffled(logged, (), leaves))
        sealed = Sealed(
            staged.position,
            batch.time,
            0,
            request.n,
            contexts[0],
            dealt.root,
            contributions=given.root,
            secret=secret,
            twin=(contexts[1], twin.root),
        )
        self._put_step(batch, table, hand, sealed, leaf)
        batch.shuffled += [(request.n, each.used) for each in (dealt, twin)]
        return staged

    def _choose(self, table: Table, request: ChooseTwin, batch: Batch) -> "_Staged[Shuffled]":
        if not table.terms.twin:
            raise Refused(Reason.TWIN_MODE, "table: has no twin mode, and nothing to choose between")
        hand = self._unclosed(table, request.seq)
        if hand.chosen:
            raise _SaidBefore(hand)
        self._check_step(table, hand, Event.CHOOSE, batch)
        choices = self.secrets.chosen(table.id, hand, request.choices)
        (sealed,) = hand.shuffles
        assert sealed.twin, "the table's hands have two decks"
        deck = played_deck(choice_digest((sealed.context, sealed.twin[0]), (sealed.root, sealed.twin[1]), choices))
        seeds = self.secrets.seeds(table.id, hand)
        entry = ChooseEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            seq=hand.seq,
            choices=tuple(choice or b"" for choice in choices),
            deck=deck,
            seed=seeds[1 - deck],
        )
        context = sealed.twin[0] if deck else sealed.context
        dealt = self.secrets.deal_from(seeds[deck], 0, context, range(sealed.n))
        staged, leaf = self._append(batch, entry, partial(_shuffled, dealt, 0, (), table.terms.mode))
        self._put_step(batch, table, hand, Chosen(staged.position, batch.time, deck), leaf)
        self.secrets.cache.put((table.id, hand.seq, 0), dealt)
        return staged

    def _reshuffle(self, table: Table, request: Reshuffle, batch: Batch) -> "_Staged[Shuffled]":
        hand = self._unclosed(table, request.seq)
        if 0 < request.k < len(hand.shuffles):
            raise _SaidBefore(hand)
        self._check_step(table, hand, Event.RESHUFFLE, batch)
        if request.k != len(hand.shuffles):
            raise Refused(Reason.OUT_OF_SEQUENCE, f"k: must be {len(hand.shuffles)}, the next shuffle of this hand")
        try:
            life.check_locations(hand, request.locations)
        except ValueError as error:
            raise Refused(Reason.LOCATION_NAMED, str(error)) from None
        before = hand.shuffles[-1]
        context = reshuffle_context(before.context, before.root, request.k, request.locations)
        orders = [dealt.order for dealt in self.secrets.all_dealt(table.id, hand, len(hand.shuffles))]
        dealt = self.secrets.deal(table.id, hand, request.k, context, [orders[j][p] for j, p in request.locations])
        entry = SealEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            seq=hand.seq,
            k=request.k,
            n=len(request.locations),
            hc=context,
            root=dealt.root,
            used=dealt.used,
            inputs=request.locations,
        )
        staged, leaf = self._append(batch, entry, partial(_shuffled, dealt, request.k, (), table.terms.mode))
        sealed = Sealed(
            staged.position,
            batch.time,
            request.k,
            len(request.locations),
            context,
            dealt.root,
            inputs=request.locations,
        )
        self._put_step(batch, table, hand, sealed, leaf)
        batch.shuffled.append((len(dealt.order), dealt.used))
        self.secrets.cache.put((table.id, hand.seq, request.k), dealt)
        return staged

    def _open(self, table: Table, request: OpenCards, batch: Batch) -> Openings:
        hand = self._unclosed(table, request.seq)
        if self._all_open(table, hand, request):
            return self._openings(table, hand, request)
        self._check_step(table, hand, Event.OPEN, batch)
        try:
            new = life.check_places(hand, request.k, request.places)
        except ValueError as error:
            raise Refused(Reason.LOCATION_NAMED, str(error)) from None
        opened = Opened(batch.time, request.k, new)
        if _close_size((*hand.openings, opened), hand.promises) > MAX_ENTRY_BYTES:
            raise Refused(Reason.ENTRY_TOO_LARGE, "places: the close entry could not list so many openings")
        answer = self._openings(table, hand, request)
        # Stored before it is shown: after a crash we must be able to say exactly what we said.
        self._put_step(batch, table, hand, opened)
        return answer

    def _draw(self, table: Table, request: DrawNumbers, batch: Batch) -> "_Staged[Numbers]":
        if table.terms.twin:
            raise Refused(Reason.TWIN_MODE, "table: has twin mode, and draws no numbers")
        hand = self._unclosed(table, request.seq)
        if hand.drawn:
            raise _SaidBefore(hand)
        self._check_step(table, hand, Event.DRAW, batch)
        given = self.secrets.given(table.id, hand, request.contributions)
        context = hand_context(self.origin, table.id, hand.seq, hand.reserved.commitment, given.root, hand.pre)
        seed = self.secrets.seed(table.id, hand)
        values = tuple(draw_numbers(seed, context, request.purpose, request.modulus, request.count))
        entry = DrawEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            seq=hand.seq,
            purpose=request.purpose,
            m=request.modulus,
            values=values,
            hc=context,
            cr=given.root,
            absent=given.absent,
            pre=hand.pre,
        )
        secret = self.secrets.seal_contributed(table.id, hand, given.seeds)
        leaves = given.leaves
        staged, leaf = self._append(batch, entry, lambda logged: Numbers(logged, values, leaves))
        self._put_step(batch, table, hand, Drawn(staged.position, batch.time, given.root, secret), leaf)
        return staged

    def _close(self, table: Table, request: CloseHand, batch: Batch) -> "_Staged[Logged]":
        hand = self._unclosed(table, request.seq)
        # What is lost cannot be closed by the service when it expires, so that an operator must still be able to.
        self._check_step(table, hand, Event.CLOSE, batch, may_be_overdue=request.outcome == "lost")
        if request.outcome == "complete" and hand.state not in {State.SEALED, State.DRAWN}:
            raise Refused(Reason.WRONG_STATE, f"outcome: {hand.state.hand} was not played; it can only be aborted")
        return self._close_now(table, hand, request.outcome, request.reason, batch)

    def _expire(self, table_id: bytes, batch: Batch) -> int:
        table = batch.table(table_id)
        expires = table.expires_ms() if table else None
        if table is None or expires is None or expires > batch.time:
            return 0  # somebody closed it meanwhile
        hand = table.hand(table.last_closed + 1)
        assert hand, "a table that expires has an unclosed hand"
        try:
            self._close_now(table, hand, "aborted", "expired", batch)
        except KeyNotLoaded:
            return 0  # the next sweep loads it
        except Refused as refused:
            if refused.reason is not Reason.SEED_LOST:
                raise
            return 0  # it stays open, overdue and alarmed, until an operator declares it lost
        return 1

    def _close_now(self, table: Table, hand: Hand, outcome: str, reason: str | None, batch: Batch) -> "_Staged[Logged]":
        lost = outcome == "lost"
        started = hand.state in {State.SEALED, State.DRAWN, State.UNCHOSEN}
        seed = None if lost else self.secrets.seed(table.id, hand)
        escrow = self._escrow(table, hand, hand.commitment, seed)
        # Without a choice neither deck was played, and both are revealed.
        both = hand.reserved.twin and not hand.chosen and not lost
        twin_seed = self.secrets.seeds(table.id, hand)[1] if both else None
        twin_escrow = self._escrow(table, hand, hand.reserved.twin, twin_seed)
        entry = CloseEntry(
            time=batch.time,
            table=table.id,
            prev=table.prev,
            seq=hand.seq,
            outcome=outcome,
            reason=reason,
            opened=tuple((each.time, each.k, each.places) for each in hand.openings)
            if table.terms.mode == "shoe"
            else None,
            seeds=self.secrets.to_reveal(table.id, hand, lost=lost) if started else None,
            seed=None if escrow else seed,
            escrow=escrow,
            twin_seed=None if twin_escrow else twin_seed,
            twin_escrow=twin_escrow,
        )
        staged, leaf = self._append(batch, entry, _as_logged)
        closed = Closed(staged.position, batch.time)
        batch.steps.append(rows(table.id, hand.seq, hand.steps, closed))
        batch.put(table.without(life.advance(hand, closed), leaf))
        batch.closed.append((outcome, reason or ""))
        self.secrets.cache.forget(table.id, hand.seq, len(hand.shuffles))
        return staged

    def _escrow(self, table: Table, hand: Hand, commitment: bytes, seed: bytes | None) -> bytes | None:
        """Return the seed encrypted to the table's auditor; None if there is no seed to reveal, or no auditor."""
        if not seed or not table.terms.auditor:
            return None
        return seal_seed(seed, table.terms.auditor[0], escrow_info(self.origin, table.id, hand.seq, commitment))

    # --- Repeats: answered from the log, compared with what was asked ---

    async def _reserved_before(self, table: Table, hand: Hand, request: ReserveHands, head: Head) -> Logged:
        logged = await self.log.logged(hand.reserved.position, head=head)
        entry = _entry(logged, ReserveEntry)
        _check_same(
            "first_seq, count",
            (entry.first, len(entry.commitments)),
            (request.first, request.count),
            f"hands {entry.first}..{entry.first + len(entry.commitments) - 1} were reserved together; "
            f"the next to reserve is {table.last_reserved + 1}",
        )
        return logged

    async def _promised_before(self, _table: Table, hand: Hand, request: PromiseSeeds, head: Head) -> Logged:
        if hand.promised is None:
            raise _wrong_state(hand, Event.PROMISE)
        logged = await self.log.logged(hand.promised.position, head=head)
        entry = _entry(logged, PromiseEntry)
        _check_same("hands", (entry.first, entry.promises), (request.first, request.promises))
        return logged

    async def _sealed_before(self, table: Table, hand: Hand, request: SealShuffle, head: Head) -> Shuffled:
        if not hand.shuffles:
            raise _wrong_state(hand, Event.SEAL)
        given = self.secrets.given(table.id, hand, request.contributions)
        first = hand.shuffles[0]
        _check_same("item_count, contributions", (first.n, first.contributions), (request.n, given.root))
        logged = await self.log.logged(first.position, head=head)
        if first.twin:
            return Shuffled(logged, (), given.leaves)
        dealt = self.secrets.dealt(table.id, hand, 0)
        return _shuffled(dealt, 0, given.leaves, table.terms.mode, logged)

    async def _chosen_before(self, table: Table, hand: Hand, request: ChooseTwin, head: Head) -> Shuffled:
        if not hand.chosen:
            raise _wrong_state(hand, Event.CHOOSE)
        choices = self.secrets.chosen(table.id, hand, request.choices)
        logged = await self.log.logged(hand.chosen.position, head=head)
        _check_same("choices", _entry(logged, ChooseEntry).choices, tuple(choice or b"" for choice in choices))
        return _shuffled(self.secrets.dealt(table.id, hand, 0), 0, (), table.terms.mode, logged)

    async def _reshuffled_before(self, table: Table, hand: Hand, request: Reshuffle, head: Head) -> Shuffled:
        if not 0 < request.k < len(hand.shuffles):
            raise _wrong_state(hand, Event.RESHUFFLE)
        shuffle = hand.shuffles[request.k]
        _check_same("locations", shuffle.inputs, request.locations)
        dealt = self.secrets.dealt(table.id, hand, request.k)
        return _shuffled(dealt, request.k, (), table.terms.mode, await self.log.logged(shuffle.position, head=head))

    async def _opened_before(self, table: Table, hand: Hand, request: OpenCards, _head: Head) -> Openings:
        if not self._all_open(table, hand, request):
            raise _wrong_state(hand, Event.OPEN)
        return self._openings(table, hand, request)

    async def _closed_before(self, _table: Table, hand: Hand, request: CloseHand, head: Head) -> Logged:
        assert hand.closed, "only a closed hand comes here"
        logged = await self.log.logged(hand.closed.position, head=head)
        entry = _entry(logged, CloseEntry)
        _check_same(
            "outcome, reason",
            (entry.outcome, entry.reason),
            (request.outcome, request.reason),
            f"the hand was closed: {entry.outcome}{f', {entry.reason}' if entry.reason else ''}",
        )
        return logged

    async def _drawn_before(self, table: Table, hand: Hand, request: DrawNumbers, head: Head) -> Numbers:
        if not hand.drawn:
            raise _wrong_state(hand, Event.DRAW)
        given = self.secrets.given(table.id, hand, request.contributions)
        logged = await self.log.logged(hand.drawn.position, head=head)
        entry = _entry(logged, DrawEntry)
        _check_same(
            "purpose, modulus, count, contributions",
            (entry.purpose, entry.m, len(entry.values), entry.cr),
            (request.purpose, request.modulus, request.count, given.root),
        )
        return Numbers(logged, entry.values, given.leaves)

    # --- How a call runs ---

    async def _one(
        self,
        caller: Caller,
        request: Request,
        step: "Callable[[Table, Request, Batch], _Staged[Answer] | Answer]",
        said_before: Callable[[Table, Hand, Request, Head], Awaitable[Answer]],
    ) -> Answer:
        (answer,) = await self._each(caller, [request], step, said_before)
        if isinstance(answer, ServiceError):
            raise answer
        return answer

    async def _each(
        self,
        caller: Caller,
        requests: Sequence[Request],
        step: "Callable[[Table, Request, Batch], _Staged[Answer] | Answer]",
        said_before: Callable[[Table, Hand, Request, Head], Awaitable[Answer]],
        *,
        random_bytes: Callable[[Table, Request], int] | None = None,
    ) -> "list[Answer | ServiceError]":
        """Run ``step`` for each request in one batch; each gets its answer or its error."""
        drawn = 0
        for request in requests:
            if table := self.tables.get(request.table) or await self.tables.load(request.table):
                await self._load_key(table, request.seq)
                drawn += random_bytes(table, request) if random_bytes else 0

        def run(batch: Batch) -> "list[_Staged[Answer] | Answer | _SaidBefore | ServiceError]":
            return [self._run(caller, request, step, batch) for request in requests]

        results = await self.sequencer.submit(run, random_bytes=drawn, weight=len(requests))
        head = self.log.head
        assert head, "a log with tables has entries"
        answers: list[Answer | ServiceError] = []
        for request, result in zip(requests, results, strict=True):
            try:
                if isinstance(result, _Staged):
                    answers.append(result.answer(await self.log.logged(result.position, result.entry, head)))
                elif isinstance(result, _SaidBefore):
                    answers.append(await self._say_again(caller, request, result.hand, head, said_before))
                else:
                    answers.append(result)
            except ServiceError as error:
                answers.append(error)
        return answers

    def _run(
        self,
        caller: Caller,
        request: Request,
        step: "Callable[[Table, Request, Batch], _Staged[Answer] | Answer]",
        batch: Batch,
    ) -> "_Staged[Answer] | Answer | _SaidBefore | ServiceError":
        try:
            table = batch.table(request.table)
            if table is None:
                raise _unknown_table()
            self._check_owner(caller, table)
            return step(table, request, batch)
        except _SaidBefore as said:
            return said
        except ServiceError as error:
            return error
        except MalformedError as error:
            return InvalidField(error.field, error.allowed)
        except KeyNotLoaded:
            return TryAgain(Reason.STORE_REFUSED, "the day has changed since the request came in", retry_after_s=0)

    async def _say_again(
        self,
        caller: Caller,
        request: Request,
        hand: Hand | None,
        head: Head,
        said_before: Callable[[Table, Hand, Request, Head], Awaitable[Answer]],
    ) -> Answer:
        table = await self._table(caller, request.table)
        hand = hand or await self._any_hand(table, request.seq)
        await self._load_key(table, request.seq, hand)
        return await said_before(table, hand, request, head)

    # --- What steps share ---

    async def _table(self, caller: Caller, table_id: bytes) -> Table:
        table = await self.tables.load(table_id)
        if table is None:
            raise _unknown_table()
        self._check_owner(caller, table)
        return table

    async def _any_hand(self, table: Table, seq: int) -> Hand:
        hand = table.hand(seq) or await self.tables.closed_hand(table.id, seq)
        if hand is None:
            raise NotFound(Reason.UNKNOWN_HAND, f"seq: the table has reserved hands 1..{table.last_reserved}")
        return hand

    def _unclosed(self, table: Table, seq: int) -> Hand:
        if seq <= table.last_closed:
            raise _SaidBefore
        hand = table.hand(seq)
        if hand is None:
            raise NotFound(Reason.UNKNOWN_HAND, f"seq: the table has reserved hands 1..{table.last_reserved}")
        return hand

    def _check_owner(self, caller: Caller, table: Table) -> None:
        if not caller.is_operator and caller.name != table.owner:
            raise PermissionDenied(Reason.NOT_YOUR_TABLE, "table: belongs to another game server")

    def _check_step(
        self, table: Table, hand: Hand, event: Event, batch: Batch, *, may_be_overdue: bool = False
    ) -> None:
        """Refuse ``event`` unless the hand's state, its time and the table's order allow it."""
        try:
            life.next_state(hand.state, event)
        except IllegalStep:
            raise _wrong_state(hand, event) from None
        lowest = table.last_closed + 1
        if event is not Event.PROMISE and hand.seq != lowest:
            raise Refused(Reason.LOWER_HAND_OPEN, f"seq: hand {lowest} of the table is not closed yet")
        expires = table.expires_ms()
        if hand.seq == lowest and expires is not None and batch.time >= expires and not may_be_overdue:
            raise Refused(Reason.EXPIRED, "seq: the hand has expired and is being closed")

    def _append(
        self, batch: Batch, entry: HandEntry, answer: Callable[[Logged], Answer]
    ) -> "tuple[_Staged[Answer], bytes]":
        raw = entry.encode()
        assert len(raw) <= MAX_ENTRY_BYTES, "each request's limits keep its entry below this"
        position, leaf = batch.append(entry.type, raw)
        return _Staged(position, raw, answer), leaf

    def _put_step(self, batch: Batch, table: Table, hand: Hand, step: life.Step, leaf: bytes | None = None) -> None:
        batch.steps.append(rows(table.id, hand.seq, hand.steps, step))
        batch.put(table.with_open(life.advance(hand, step), leaf))

    async def _load_key(self, table: Table, seq: int, hand: Hand | None = None) -> None:
        """Have the data key of a hand's secrets in memory, or that of a hand reserved now."""
        hand = hand or table.hand(seq)
        await self.secrets.vault.load(table.id, day_of(hand.reserved.time if hand else self.sequencer.now_ms()))

    def _all_open(self, table: Table, hand: Hand, request: OpenCards) -> bool:
        """Say whether every place asked for was opened before: one by one, or all with the seal in mode full."""
        if request.k >= hand.shown_shuffles or request.places[-1] >= hand.shuffles[request.k].n:
            return False
        return table.terms.mode == "full" or hand.opened.issuperset((request.k, place) for place in request.places)

    def _openings(self, table: Table, hand: Hand, request: OpenCards) -> Openings:
        return self.secrets.dealt(table.id, hand, request.k).openings(request.k, request.places)


def _unknown_table() -> NotFound:
    return NotFound(Reason.UNKNOWN_TABLE, "table: is not registered")


def _seeds_a_hand(table: Table) -> int:
    return 2 if table.terms.twin else 1


def _as_logged(logged: Logged) -> Logged:
    return logged


def _shuffled(dealt: Dealt, k: int, contribution_leaves: tuple[bytes, ...], mode: str, logged: Logged) -> Shuffled:
    openings = dealt.openings(k, range(len(dealt.order))) if mode == "full" else None
    return Shuffled(logged, dealt.leaves, contribution_leaves, openings)


EntryType = TypeVar("EntryType", bound=Entry)


def _entry(logged: Logged, kind: type[EntryType]) -> EntryType:
    entry = parse_entry(logged.entry)
    assert isinstance(entry, kind), "a hand's step names its own kind of entry"
    return entry


def _wrong_state(hand: Hand, event: Event) -> Refused:
    return Refused(Reason.WRONG_STATE, str(IllegalStep(hand.state, event, twin=hand.reserved.twin is not None)))


def _check_same(fields: str, logged: object, asked: object, what: str = "the hand has this step with others") -> None:
    if logged != asked:
        raise Refused(Reason.OTHER_CONTENT, f"{fields}: {what}")


def _close_size(openings: Sequence[Opened], promises: Sequence[tuple[bytes, ...]]) -> int:
    """Return the most bytes that the close entry can take with these openings and all promised seeds given."""
    opened = sum(len(f"[{each.time},{each.k},{list(each.places)}],".replace(" ", "")) for each in openings)
    return _CLOSE_ROOM + opened + len(promises) * (2 * MAX_CONTRIBUTION_BYTES + len('"",'))
