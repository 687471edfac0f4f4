"""The calls for many tables at once: one transaction and one signature for all of them.

Each function returns one result for each thing asked, in the order asked; where the service refused one, the
`CallFailed` that the single call would have raised stands in its place, and nothing changed there.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rngsvc.client.calls import failure_in_batch
from rngsvc.client.connection import Connection
from rngsvc.client.errors import AnswerMalformed, CallFailed
from rngsvc.client.log_view import Logged
from rngsvc.client.table import OUTCOMES, Hand, Table, choice_messages, contribution_messages, number_of
from rngsvc.protocol.card_seal import SALT_BYTES
from rngsvc.protocol.commitment import HASH_BYTES
from rngsvc.proven_hand import Close, Contributions, Opening, Shuffle
from rngsvc.v1 import shuffle_pb2

T = TypeVar("T")


async def reserve_all(
    connection: Connection, tables: Sequence[Table], count: int = 1
) -> list[tuple[Hand, ...] | CallFailed]:
    """Reserve ``count`` (1..64) hands at each of 1..256 different tables."""
    request = shuffle_pb2.BatchReserveHandsRequest(
        tables=b"".join(table.id for table in tables),
        first_seqs=[await table.next_seq() for table in tables],
        count=count,
    )
    answer = await connection.caller.repeatable(connection.shuffle_service.BatchReserveHands, request)
    results, kept = _with_failures(answer.failures, len(tables), tuple[Hand, ...])
    for position, logged in zip(kept, await connection.logged_batch(answer.logged, len(kept)), strict=True):
        results[position] = tables[position].reserved(logged, request.first_seqs[position], count)
    return _whole(results)


async def seal_all(
    connection: Connection, hands: Sequence[Hand], n: int, contributions: Sequence[Contributions] | None = None
) -> list[Shuffle | CallFailed]:
    """Seal a shuffle of items 0..n-1 for one hand at each of 1..256 tables; ``contributions`` in the order of hands."""
    answer, results, rows = await _seal(connection, hands, n, contributions, Shuffle, twin=False)
    width = HASH_BYTES * n
    if len(answer.leaves) != width * len(rows):
        raise AnswerMalformed(f"leaves: must be those of {len(rows)} hands")
    openings = iter(answer.openings)
    for row, (position, logged, given, contribution_leaves) in enumerate(rows):
        hand = hands[position]
        leaves = answer.leaves[width * row : width * (row + 1)]
        opened = next(openings, None) if hand.table.terms.mode == "full" else None
        results[position] = hand.sealed(logged, n, given, leaves, contribution_leaves, opened)
    return _whole(results)


async def seal_twin_all(
    connection: Connection, hands: Sequence[Hand], n: int, contributions: Sequence[Contributions] | None = None
) -> list[CallFailed | None]:
    """Seal two decks of items 0..n-1 for one hand at each of 1..256 twin tables; None stands for a success."""
    answer, results, rows = await _seal(connection, hands, n, contributions, type(None), twin=True)
    early = bool(answer.openings)
    for position, logged, given, contribution_leaves in rows:
        hands[position].sealed_twin(logged, n, given, answer.leaves, contribution_leaves, early=early)
        results[position] = None
    return _whole(results)


async def choose_all(
    connection: Connection, hands: Sequence[Hand], choices: Sequence[Contributions] | None = None
) -> list[Shuffle | CallFailed]:
    """Decide which deck is played in one hand at each of 1..256 twin tables; ``choices`` in the order of hands."""
    given = _for_each(hands, "choices", choices, twin=True)
    request = shuffle_pb2.BatchChooseTwinRequest(
        tables=_tables_of(hands),
        seqs=[hand.seq for hand in hands],
        choices=[shuffle_pb2.HandChoices(choices=choice_messages(each)) for each in choices or ()],
    )
    answer = await connection.caller.repeatable(connection.shuffle_service.BatchChooseTwin, request)
    results, kept = _with_failures(answer.failures, len(hands), Shuffle)
    if len(answer.leaves) != len(kept):
        raise AnswerMalformed(f"leaves: must be those of {len(kept)} hands")
    openings = iter(answer.openings)
    logged = await connection.logged_batch(answer.logged, len(kept))
    for position, each, leaves in zip(kept, logged, answer.leaves, strict=True):
        hand = hands[position]
        opened = next(openings, None) if hand.table.terms.mode == "full" else None
        results[position] = hand.chosen(each, given[position], leaves, opened)
    return _whole(results)


async def open_all(
    connection: Connection, asked: Sequence[tuple[Hand, int, Iterable[int]]]
) -> list[tuple[Opening, ...] | CallFailed]:
    """Open places of one shuffle k in one hand at each of 1..256 tables; ``asked`` is (hand, k, places)."""
    wanted = [(hand, k, tuple(sorted(set(places)))) for hand, k, places in asked]
    for hand, k, _ in wanted:
        await hand.learn_leaves(k)
    request = shuffle_pb2.BatchOpenCardsRequest(
        tables=_tables_of([hand for hand, _, _ in wanted]),
        seqs=[hand.seq for hand, _, _ in wanted],
        ks=[k for _, k, _ in wanted],
        place_counts=[len(places) for _, _, places in wanted],
        places=[place for _, _, places in wanted for place in places],
    )
    answer = await connection.caller.repeatable(connection.shuffle_service.BatchOpenCards, request)
    results, kept = _with_failures(answer.failures, len(wanted), tuple[Opening, ...])
    count = sum(len(wanted[position][2]) for position in kept)
    if len(answer.items) != count or len(answer.salts) != SALT_BYTES * count:
        raise AnswerMalformed(f"items: must be {count}, each with a salt of {SALT_BYTES} bytes")
    start = 0
    for position in kept:
        hand, k, places = wanted[position]
        end = start + len(places)
        salts = answer.salts[SALT_BYTES * start : SALT_BYTES * end]
        results[position] = hand.proven.opened(k, places, answer.items[start:end], salts)
        start = end
    return _whole(results)


async def close_all(
    connection: Connection, hands: Sequence[Hand], outcome: str = "complete", reason: str = ""
) -> list[Close | CallFailed]:
    """Close one hand at each of 1..256 tables, all with the same outcome."""
    request = shuffle_pb2.BatchCloseHandRequest(
        tables=_tables_of(hands),
        seqs=[hand.seq for hand in hands],
        outcome=number_of("outcome", outcome, OUTCOMES),
        reason=reason,
    )
    answer = await connection.caller.repeatable(connection.shuffle_service.BatchCloseHand, request)
    results, kept = _with_failures(answer.failures, len(hands), Close)
    for position, logged in zip(kept, await connection.logged_batch(answer.logged, len(kept)), strict=True):
        results[position] = await hands[position].closed(logged, outcome, reason)
    return _whole(results)


async def _seal(
    connection: Connection,
    hands: Sequence[Hand],
    n: int,
    contributions: Sequence[Contributions] | None,
    kind: type[T],
    *,
    twin: bool,
) -> tuple[
    shuffle_pb2.BatchSealShuffleResponse, dict[int, T | CallFailed], list[tuple[int, Logged, Contributions, bytes]]
]:
    """Return the answer, the failures by position, and (position, entry, contributions, their leaves) of the others."""
    given = _for_each(hands, "contributions", contributions, twin=twin)
    request = shuffle_pb2.BatchSealShuffleRequest(
        tables=_tables_of(hands),
        seqs=[hand.seq for hand in hands],
        item_count=n,
        contributions=[
            shuffle_pb2.HandContributions(contributions=contribution_messages(each)) for each in contributions or ()
        ],
    )
    answer = await connection.caller.repeatable(connection.shuffle_service.BatchSealShuffle, request)
    results, kept = _with_failures(answer.failures, len(hands), kind)
    if len(answer.contribution_leaves) != len(kept):
        raise AnswerMalformed(f"contribution_leaves: must be those of {len(kept)} hands")
    logged = await connection.logged_batch(answer.logged, len(kept))
    rows = zip(kept, logged, [given[position] for position in kept], answer.contribution_leaves, strict=True)
    return answer, results, list(rows)


def _for_each(
    hands: Sequence[Hand], name: str, given: Sequence[Contributions] | None, *, twin: bool
) -> Sequence[Contributions]:
    """Return what is ``given`` for each hand; raise ValueError if it is not for each, or a table is of the other kind.

    Nothing is sent then: one table of the wrong kind would cost all the others their results.
    """
    for hand in hands:
        hand.table.require(twin=twin)
    if given is not None and len(given) != len(hands):
        raise ValueError(f"{name}: must be {len(hands)} of them, one for each hand, not {len(given)}")
    return [{}] * len(hands) if given is None else given


def _tables_of(hands: Iterable[Hand]) -> bytes:
    return b"".join(hand.table.id for hand in hands)


def _with_failures(
    failures: Iterable[shuffle_pb2.BatchFailure], count: int, _kind: type[T]
) -> tuple[dict[int, T | CallFailed], list[int]]:
    """Return the failures by position, and the positions that have a row in the answer's columns."""
    results: dict[int, T | CallFailed] = {
        each.position: failure_in_batch(each.code, each.reason, each.message) for each in failures
    }
    if any(position >= count for position in results):
        raise AnswerMalformed(f"failures: must be of positions 0..{count - 1}")
    return results, [position for position in range(count) if position not in results]


def _whole(results: dict[int, T | CallFailed]) -> list[T | CallFailed]:
    return [results[position] for position in range(len(results))]
