"""A table and its hands as a game server uses them. Everything they return is verified.

Each step may be repeated, after a crash too, and then gives what it gave the first time. Calls for one table come one
after the other; different tables may be called at once.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from rngsvc.client.connection import Connection, chain_in
from rngsvc.client.errors import AnswerMalformed, EntryMismatch, OpeningMismatch, Refused
from rngsvc.client.log_view import Logged, TableChain, split_hashes
from rngsvc.client.receipts import receipt_of, restore_from
from rngsvc.protocol.entries import Location, ReserveEntry, TableEntry
from rngsvc.proven_hand import Choice, Close, Contributions, Opening, ProvenHand, Shuffle, entry_of
from rngsvc.v1 import log_pb2, shuffle_pb2

T = TypeVar("T")

OUTCOMES = {
    "complete": shuffle_pb2.OUTCOME_COMPLETE,
    "aborted": shuffle_pb2.OUTCOME_ABORTED,
    "lost": shuffle_pb2.OUTCOME_LOST,
}
STATES = {
    "reserved": shuffle_pb2.HAND_STATE_RESERVED,
    "promised": shuffle_pb2.HAND_STATE_PROMISED,
    "unchosen": shuffle_pb2.HAND_STATE_UNCHOSEN,
    "sealed": shuffle_pb2.HAND_STATE_SEALED,
    "drawn": shuffle_pb2.HAND_STATE_DRAWN,
    "closed": shuffle_pb2.HAND_STATE_CLOSED,
}
_STATE_WORDS = {number: word for word, number in STATES.items()}


def number_of(field: str, word: str, words: Mapping[str, T]) -> T:
    """Return what the protocol writes for ``word``. Raises ValueError, naming the words that ``field`` may be."""
    if word not in words:
        raise ValueError(f"{field}: must be {' or '.join(words)}, not {word!r}")
    return words[word]


@dataclass(frozen=True, slots=True)
class HandSummary:
    """A line of a list: a hand, where it is in its life, and the log position of its newest entry."""

    seq: int
    state: str
    last_index: int


class Table:
    """A registered table; `Client.register_table` and `Client.table` give it. ``terms`` is its entry in the log."""

    def __init__(self, connection: Connection, logged: Logged) -> None:
        self.connection = connection
        self.logged = logged
        self.terms = entry_of(logged, TableEntry)
        self.id = self.terms.table
        self.chain = TableChain()
        chain_in(self.chain, [logged])
        self._next_seq: int | None = None

    def require(self, *, twin: bool) -> None:
        """Raise ValueError, before anything is sent, if the call is for the other kind of table.

        The service takes the same request for both and seals one deck or two, for good, by the table's terms.
        """
        if self.terms.twin and not twin:
            raise ValueError(f"table {self.id.hex()}: is a twin table, whose hands take seal_twin and choose, not seal")
        if twin and not self.terms.twin:
            raise ValueError(f"table {self.id.hex()}: is no twin table; its hands take seal, not seal_twin and choose")

    async def next_seq(self) -> int:
        """Return the sequence number of the next hand to reserve; asks the service the first time."""
        if self._next_seq is None:
            self._next_seq = await self._last_reserved() + 1
        return self._next_seq

    async def reserve(self) -> "Hand":
        """Commit the service to one more hand."""
        (hand,) = await self.reserve_many(1)
        return hand

    async def reserve_many(self, count: int) -> tuple["Hand", ...]:
        """Commit the service to the next ``count`` (1..64) hands."""
        request = shuffle_pb2.ReserveHandsRequest(table=self.id, first_seq=await self.next_seq(), count=count)
        try:
            answer = await self.connection.caller.repeatable(self.connection.shuffle_service.ReserveHands, request)
        except Refused:
            self._next_seq = None  # somebody else reserves at this table: ask again the next time
            raise
        return self.reserved(await self.connection.logged(answer.logged), request.first_seq, count)

    def reserved(self, logged: Logged, first: int, count: int) -> tuple["Hand", ...]:
        """Return the hands of a `reserve` entry that was asked for with ``first`` and ``count``."""
        entry = entry_of(logged, ReserveEntry, table=self.id, first=first)
        if len(entry.commitments) != count:
            raise AnswerMalformed(f"commitments: must be {count} of them, not {len(entry.commitments)}")
        chain_in(self.chain, [logged])
        self._next_seq = first + count
        return tuple(Hand(self, self._begin(logged, first + i), [self.logged, logged]) for i in range(count))

    async def promise_many(
        self,
        hands: Sequence["Hand"],
        promises: Sequence[Mapping[bytes, bytes]],
        choice_promises: Sequence[Mapping[bytes, bytes]] | None = None,
    ) -> None:
        """Log the promises (contributor id -> promise) of consecutive hands, at most 64, in one entry.

        At a twin table everybody who promises a seed promises a choice too: ``choice_promises``.
        """
        if len(hands) != len(promises) or any(b.seq != a.seq + 1 for a, b in pairwise(hands)):
            raise ValueError("hands: must be consecutive, with promises for each")
        rows: list[tuple[tuple[bytes, ...], ...]] = [tuple(sorted(each.items())) for each in promises]
        if choice_promises is not None:
            if list(map(set, choice_promises)) != list(map(set, promises)):
                raise ValueError("choice_promises: must be of those who promise seeds, for each hand")
            rows = [tuple((*row, q[row[0]]) for row in each) for each, q in zip(rows, choice_promises, strict=True)]
        request = shuffle_pb2.PromiseSeedsRequest(
            table=self.id,
            first_seq=hands[0].seq,
            hands=[
                shuffle_pb2.HandPromises(
                    promises=[
                        shuffle_pb2.Promise(contributor=row[0], promise=row[1], choice_promise=b"".join(row[2:]))
                        for row in each
                    ]
                )
                for each in rows
            ],
        )
        answer = await self.connection.caller.repeatable(self.connection.shuffle_service.PromiseSeeds, request)
        logged = await self.connection.logged(answer.logged)
        for hand, each in zip(hands, rows, strict=True):
            hand.proven.promised(logged, each)
            hand.entries[logged.index] = logged
        chain_in(self.chain, [logged])

    async def hand(self, seq: int) -> "Hand":
        """Return hand ``seq`` as far as it has come, from the log: so a restarted game server goes on."""
        proven, logged = await fetch_hand(self.connection, self.id, seq)
        if logged[0].leaf != self.logged.leaf:
            raise EntryMismatch("table entry", self.logged.index, logged[0].index)
        return Hand(self, proven, logged)

    async def hands(self, after_seq: int = 0, state: str = "") -> AsyncIterator["HandSummary"]:
        """List the table's hands above ``after_seq`` in order, only those in ``state`` if one is named.

        This is what the service says, without proof: `hand` shows each one.
        """
        while True:
            request = shuffle_pb2.ListHandsRequest(table=self.id, after_seq=after_seq)
            if state:
                request.state = number_of("state", state, STATES)
            answer = await self.connection.caller.repeatable(self.connection.shuffle_service.ListHands, request)
            for each in answer.hands:
                yield HandSummary(each.seq, _STATE_WORDS.get(each.state, ""), each.last_index)
            if answer.next_after_seq <= after_seq:
                return
            after_seq = answer.next_after_seq

    def _begin(self, reserve: Logged, seq: int) -> ProvenHand:
        """Begin what is known of hand ``seq``."""
        return ProvenHand(self.connection.origin, self.logged, reserve, seq)

    async def _last_reserved(self) -> int:
        """Find the highest reserved sequence number with a number of calls that is logarithmic in it."""
        reached, step = 0, 1
        while await self._is_reserved(reached + step):
            reached, step = reached + step, 2 * step
        while step > 1:
            step //= 2
            if await self._is_reserved(reached + step):
                reached += step
        return reached

    async def _is_reserved(self, seq: int) -> bool:
        request = shuffle_pb2.ListHandsRequest(table=self.id, after_seq=seq - 1, page_size=1)
        answer = await self.connection.caller.repeatable(self.connection.shuffle_service.ListHands, request)
        return bool(answer.hands)


class Hand:
    """One hand, and everything that is proven of it so far: ``proven``, and its log ``entries`` by position."""

    def __init__(self, table: Table, proven: ProvenHand, entries: Iterable[Logged]) -> None:
        self.table = table
        self.entries = {each.index: each for each in entries}
        self.proven = proven
        self.seq = proven.seq
        self._connection = table.connection

    @property
    def commitment(self) -> bytes:
        """C, 32 bytes: what the service is bound to since the reserve."""
        return self.proven.commitment

    @property
    def shuffles(self) -> tuple[Shuffle, ...]:
        """The sealed shuffles, k = 0 first."""
        return tuple(self.proven.shuffles)

    @property
    def state(self) -> str:
        """`reserved`, `promised`, `unchosen`, `sealed`, `drawn` or `closed`, by what is known here."""
        return self.proven.state

    @property
    def choice(self) -> Choice | None:
        """At a twin table: which deck is played, and the other one, once that is decided."""
        return self.proven.choice

    @property
    def openings(self) -> Mapping[Location, Opening]:
        """Everything opened so far, by (k, place)."""
        return self.proven.openings

    async def promise(
        self, promises: Mapping[bytes, bytes], choice_promises: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Log who will contribute: contributor id (1..64 bytes) -> promise (`rngsvc.protocol.commitment.promise`).

        ``choice_promises`` belong to twin tables (`rngsvc.protocol.twin.promise_choice`).
        """
        await self.table.promise_many([self], [promises], None if choice_promises is None else [choice_promises])

    async def seal(self, n: int, contributions: Contributions | None = None) -> Shuffle:
        """Shuffle items 0..n-1 with the contributors' seeds (id -> seed) and seal every place.

        Who has promised and is not among ``contributions`` is listed as absent. In mode `full` all openings come too.
        Raises ValueError at a twin table, where nothing is sent.
        """
        self.table.require(twin=False)
        given = dict(contributions or {})
        answer, logged = await self._seal(n, given)
        openings = answer.openings if answer.HasField("openings") else None
        return self.sealed(logged, n, given, answer.leaves, answer.contribution_leaves, openings)

    def sealed(
        self,
        logged: Logged,
        n: int,
        given: Contributions,
        leaves: bytes,
        contribution_leaves: bytes,
        openings: shuffle_pb2.Openings | None,
    ) -> Shuffle:
        """Check and take in the answer to a seal."""
        shuffle = self.proven.sealed(
            logged,
            n,
            given,
            split_hashes(contribution_leaves, "contribution_leaves"),
            split_hashes(leaves, "leaves"),
        )
        self._keep(logged)
        self._opened_with_the_seal(shuffle, openings)
        return shuffle

    async def seal_twin(self, n: int, contributions: Contributions | None = None) -> None:
        """At a twin table: seal two decks of items 0..n-1. Then contributors may give their choices (`choose`).

        Raises ValueError at any other table, where nothing is sent.
        """
        self.table.require(twin=True)
        given = dict(contributions or {})
        answer, logged = await self._seal(n, given)
        self.sealed_twin(logged, n, given, answer.leaves, answer.contribution_leaves, early=answer.HasField("openings"))

    async def _seal(self, n: int, given: Contributions) -> tuple[shuffle_pb2.SealShuffleResponse, Logged]:
        request = shuffle_pb2.SealShuffleRequest(
            table=self.table.id, seq=self.seq, item_count=n, contributions=contribution_messages(given)
        )
        answer = await self._connection.caller.repeatable(self._connection.shuffle_service.SealShuffle, request)
        return answer, await self._connection.logged(answer.logged)

    def sealed_twin(
        self, logged: Logged, n: int, given: Contributions, leaves: bytes, contribution_leaves: bytes, *, early: bool
    ) -> None:
        """Check and take in the answer to a seal of two decks; ``early`` says that openings came with it."""
        if leaves or early:
            raise AnswerMalformed("leaves, openings: must not be there before the choice between two decks")
        self.proven.sealed_twin(logged, n, given, split_hashes(contribution_leaves, "contribution_leaves"))
        self._keep(logged)

    async def choose(self, choices: Contributions | None = None) -> Shuffle:
        """At a twin table: have the contributors' choices (id -> choice) decide which deck is played, and return it.

        The other deck is derived again before this returns: TwinMismatch if it is not what the service sealed. What it
        held is in `choice`. In mode `full` all openings of the played one come too. If nobody chose, the hand proves
        nothing to the public.
        """
        self.table.require(twin=True)
        given = dict(choices or {})
        request = shuffle_pb2.ChooseTwinRequest(table=self.table.id, seq=self.seq, choices=choice_messages(given))
        answer = await self._connection.caller.repeatable(self._connection.shuffle_service.ChooseTwin, request)
        logged = await self._connection.logged(answer.logged)
        return self.chosen(logged, given, answer.leaves, answer.openings if answer.HasField("openings") else None)

    def chosen(
        self, logged: Logged, given: Contributions, leaves: bytes, openings: shuffle_pb2.Openings | None
    ) -> Shuffle:
        """Check and take in the answer to a choice."""
        shuffle = self.proven.chosen(logged, given, split_hashes(leaves, "leaves"))
        self._keep(logged)
        self._opened_with_the_seal(shuffle, openings)
        return shuffle

    async def reshuffle(self, locations: Iterable[Location], k: int | None = None) -> Shuffle:
        """Shuffle the items at ``locations`` ((k, place) pairs) again and seal the result as shuffle ``k``.

        Without ``k`` it is the hand's next shuffle; a program that makes its steps again after a restart names it.
        """
        return await self._reshuffle(len(self.proven.shuffles) if k is None else k, tuple(sorted(locations)))

    async def _reshuffle(self, k: int, inputs: tuple[Location, ...]) -> Shuffle:
        request = shuffle_pb2.ReshuffleRequest(
            table=self.table.id,
            seq=self.seq,
            k=k,
            locations=[shuffle_pb2.Location(k=j, place=p) for j, p in inputs],
        )
        answer = await self._connection.caller.repeatable(self._connection.shuffle_service.Reshuffle, request)
        logged = await self._connection.logged(answer.logged)
        shuffle = self.proven.reshuffled(logged, k, inputs, split_hashes(answer.leaves, "leaves"))
        self._keep(logged)
        self._opened_with_the_seal(shuffle, answer.openings if answer.HasField("openings") else None)
        return shuffle

    def _opened_with_the_seal(self, shuffle: Shuffle, openings: shuffle_pb2.Openings | None) -> None:
        if (openings is not None) != (self.table.terms.mode == "full"):
            raise AnswerMalformed("openings: must come with the seal in mode full, and only then")
        if openings is not None:
            self._opened(shuffle.k, tuple(range(shuffle.n)), openings)

    def _opened(self, k: int, places: tuple[int, ...], openings: shuffle_pb2.Openings) -> tuple[Opening, ...]:
        if openings.k != k or tuple(openings.places) != places:
            raise OpeningMismatch("the openings are not of the places that were asked for")
        return self.proven.opened(k, places, openings.items, openings.salts)

    async def open(self, k: int, places: Iterable[int]) -> tuple[Opening, ...]:
        """Open places of shuffle ``k``; what lies there comes back by ascending place."""
        await self.learn_leaves(k)
        asked = tuple(sorted(set(places)))
        request = shuffle_pb2.OpenCardsRequest(table=self.table.id, seq=self.seq, k=k, places=asked)
        answer = await self._connection.caller.repeatable(self._connection.shuffle_service.OpenCards, request)
        return self._opened(k, asked, answer.openings)

    async def learn_leaves(self, k: int) -> None:
        """After a restart: have the service repeat a shuffle, whose leaves are not in the log."""
        if self.state == "unchosen":
            raise ValueError(
                f"k: shuffle {k} is not there before it is chosen which of the two decks is played (choose)"
            )
        if not 0 <= k < len(self.proven.shuffles):
            raise ValueError(f"k: shuffle {k} is not sealed; there are {len(self.proven.shuffles)}")
        shuffle = self.proven.shuffles[k]
        if shuffle.leaves is not None:
            return
        if k > 0:
            await self._reshuffle(k, shuffle.inputs)
        elif self.choice:
            await self.choose(self.proven.choices)
        elif self.proven.nobody_contributed:
            await self.seal(shuffle.n)
        else:
            raise ValueError("this hand was restored from the log: repeat its seal with the contributions first")

    async def draw(
        self, purpose: bytes, modulus: int, count: int, contributions: Contributions | None = None
    ) -> tuple[int, ...]:
        """Draw ``count`` numbers 0..modulus-1 instead of a shuffle; ``purpose`` is 1..64 ASCII bytes."""
        given = dict(contributions or {})
        request = shuffle_pb2.DrawNumbersRequest(
            table=self.table.id,
            seq=self.seq,
            purpose=purpose,
            modulus=modulus,
            count=count,
            contributions=contribution_messages(given),
        )
        answer = await self._connection.caller.repeatable(self._connection.shuffle_service.DrawNumbers, request)
        logged = await self._connection.logged(answer.logged)
        leaves = split_hashes(answer.contribution_leaves, "contribution_leaves")
        draw = self.proven.drawn(logged, (purpose, modulus, count), given, leaves)
        if draw.values != tuple(answer.values):
            raise AnswerMalformed("values: must be those of the logged entry")
        self._keep(logged)
        return draw.values

    def receipt(self, own: tuple[bytes, ...] | None = None, seen: Iterable[Location] | None = None) -> bytes:
        """Return the hand as a receipt (rs1-receipt/1), which anybody can check offline.

        ``own`` is the holder's contributor id and seed, if he has one, and at a twin table his choice. ``seen`` are the
        opened locations that he may see; without it the receipt holds every opening, which is for the game server's own
        files only.
        """
        entries = [*self.entries.values(), *self._connection.log.key_entries_for(self.entries.values())]
        return receipt_of(self.proven, entries, own, seen).encode().encode("ascii")

    def restore(self, receipt: bytes) -> None:
        """Learn leaves, contributions and openings again from a receipt of this hand, each checked like the first time.

        Raises MalformedError for another file, Unproven if it does not fit the hand's entries in the log.
        """
        restore_from(self.proven, receipt)

    async def close(self, outcome: str = "complete", reason: str = "") -> Close:
        """End the hand with its reveal: `complete`, `aborted` with a reason, or (operators only) `lost`.

        Before it returns, everything seen of the hand is shown to be in one append-only log.
        """
        request = shuffle_pb2.CloseHandRequest(
            table=self.table.id, seq=self.seq, outcome=number_of("outcome", outcome, OUTCOMES), reason=reason
        )
        answer = await self._connection.caller.repeatable(self._connection.shuffle_service.CloseHand, request)
        return await self.closed(await self._connection.logged(answer.logged), outcome, reason)

    def _keep(self, logged: Logged) -> None:
        self.entries[logged.index] = logged
        chain_in(self.table.chain, [logged])

    async def closed(self, logged: Logged, outcome: str, reason: str) -> Close:
        """Check and take in the answer to a close."""
        close = self.proven.closed(logged, outcome, reason or None)
        self._keep(logged)
        await self._connection.settle(self.table.chain, logged)
        return close


async def fetch_hand(connection: Connection, table: bytes, seq: int) -> tuple[ProvenHand, list[Logged]]:
    """Return what the log holds of one hand, all of it under a trusted checkpoint."""
    request = shuffle_pb2.GetHandRequest(table=table, seq=seq)
    answer = await connection.caller.repeatable(connection.shuffle_service.GetHand, request)
    proven, logged = await proven_from(connection, table, seq, answer.entries)
    if answer.state != STATES[proven.state]:
        raise AnswerMalformed(f"state: must be {proven.state}, as the entries say")
    proven.opened_before = frozenset((each.k, place) for each in answer.opened for place in each.places)
    return proven, logged


async def proven_from(
    connection: Connection, table: bytes, seq: int, entries: Iterable[log_pb2.LoggedEntry]
) -> tuple[ProvenHand, list[Logged]]:
    """Return what ``entries`` show of a hand: its table's, its reserve, and what followed, in log order."""
    logged = [await connection.logged(each) for each in entries]
    if len(logged) < 2 or any(a.index >= b.index for a, b in pairwise(logged)):
        raise AnswerMalformed("entries: must be the table's, the hand's reserve, and what followed, in log order")
    await connection.see(logged[-1].checkpoint, surely=True)
    entry_of(logged[0], TableEntry, table=table)
    proven = ProvenHand(connection.origin, logged[0], logged[1], seq)
    for each in logged[2:]:
        proven.taken(each)
    return proven, logged


def contribution_messages(given: Contributions) -> list[shuffle_pb2.Contribution]:
    """Return the pairs as the service wants them, ascending by id."""
    return [shuffle_pb2.Contribution(contributor=i, seed=seed) for i, seed in sorted(given.items())]


def choice_messages(given: Contributions) -> list[shuffle_pb2.Choice]:
    """Return the choices as the service wants them, ascending by id."""
    return [shuffle_pb2.Choice(contributor=i, choice=choice) for i, choice in sorted(given.items())]
