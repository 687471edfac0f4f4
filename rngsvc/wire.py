"""Between protobuf messages and the service's records: every bound of the proto's comments is checked here, once.

A request that comes through is well-formed; what it means in the table's state is the service's business. Errors name
the field as the proto does.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from rngsvc.calls import (
    ChooseTwin,
    CloseHand,
    Contributions,
    DrawNumbers,
    OpenCards,
    PromiseSeeds,
    RegisterTable,
    ReserveHands,
    Reshuffle,
    SealShuffle,
)
from rngsvc.errors import InvalidField
from rngsvc.hand import Event, State
from rngsvc.log import Logged
from rngsvc.protocol.commitment import (
    MAX_CONTRIBUTION_BYTES,
    MAX_CONTRIBUTOR_ID_BYTES,
    MAX_CONTRIBUTORS,
    MAX_HANDS_A_PROMISE,
    MAX_HANDS_A_RESERVE,
    MAX_ITEMS,
    MAX_SEQ,
    MAX_SHUFFLES,
    MAX_TTL_S,
    MIN_CONTRIBUTION_BYTES,
    MIN_TTL_S,
    SEED_BYTES,
    TABLE_BYTES,
)
from rngsvc.protocol.derivation import MAX_DRAWS, MAX_MODULUS, MAX_PURPOSE_BYTES
from rngsvc.protocol.entries import ABORT_REASONS, LOST_REASONS
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.escrow import seal_seed
from rngsvc.shuffles import Openings
from rngsvc.tables import RESERVE
from rngsvc.v1 import log_pb2, shuffle_pb2

HASH_BYTES: Final = 32
MAX_BATCH: Final = 256

_MODES: Final = {shuffle_pb2.MODE_SHOE: "shoe", shuffle_pb2.MODE_FULL: "full"}
_REVEALS: Final = {shuffle_pb2.REVEAL_PUBLIC: "public", shuffle_pb2.REVEAL_ESCROW: "escrow"}
_OUTCOMES: Final = {
    shuffle_pb2.OUTCOME_COMPLETE: "complete",
    shuffle_pb2.OUTCOME_ABORTED: "aborted",
    shuffle_pb2.OUTCOME_LOST: "lost",
}
STATES: Final = {
    State.RESERVED: shuffle_pb2.HAND_STATE_RESERVED,
    State.PROMISED: shuffle_pb2.HAND_STATE_PROMISED,
    State.UNCHOSEN: shuffle_pb2.HAND_STATE_UNCHOSEN,
    State.SEALED: shuffle_pb2.HAND_STATE_SEALED,
    State.DRAWN: shuffle_pb2.HAND_STATE_DRAWN,
    State.CLOSED: shuffle_pb2.HAND_STATE_CLOSED,
}
# The state in which a stored newest step leaves its hand.
STATE_AFTER: Final = {
    RESERVE: State.RESERVED,
    Event.PROMISE: State.PROMISED,
    Event.SEAL: State.SEALED,
    Event.SEAL_TWIN: State.UNCHOSEN,
    Event.CHOOSE: State.SEALED,
    Event.RESHUFFLE: State.SEALED,
    Event.OPEN: State.SEALED,
    Event.DRAW: State.DRAWN,
    Event.CLOSE: State.CLOSED,
}
# "expired" is the service's own word.
_CALLERS_REASONS: Final = {
    "complete": (),
    "aborted": tuple(reason for reason in ABORT_REASONS if reason != "expired"),
    "lost": LOST_REASONS,
}

EnumValue = TypeVar("EnumValue", bound=int)


# --- Single fields ---


def length(field: str, value: bytes, least: int, most: int | None = None) -> bytes:
    """Return ``value`` if it has ``least``..``most`` bytes (exactly ``least`` without ``most``)."""
    most = least if most is None else most
    if not least <= len(value) <= most:
        raise InvalidField(field, f"{least} bytes" if least == most else f"{least}..{most} bytes")
    return value


def within(field: str, value: int, least: int, most: int) -> int:
    """Return ``value`` if it is ``least``..``most``."""
    if not least <= value <= most:
        raise InvalidField(field, f"{least}..{most}")
    return value


def one_of(field: str, value: EnumValue, words: Mapping[EnumValue, str]) -> str:
    """Return the word for an enum value that may not be left out."""
    if value not in words:
        raise InvalidField(field, f"one of {', '.join(words.values())}")
    return words[value]


def table_id(value: bytes) -> bytes:
    """Return a table's id."""
    return length("table", value, TABLE_BYTES)


def seq_number(value: int, field: str = "seq") -> int:
    """Return a hand's number."""
    return within(field, value, 1, MAX_SEQ)


def _ascending(field: str, values: Iterable[object], what: str) -> None:
    if not all(a < b for a, b in pairwise(values)):  # type: ignore[operator]
        raise InvalidField(field, f"strictly ascending by {what}")


# --- Requests ---


def register_table(request: shuffle_pb2.RegisterTableRequest, default_ttl_s: int) -> RegisterTable:
    """Step 0."""
    reveal = one_of("reveal", request.reveal, _REVEALS)
    auditor = None
    if reveal == "escrow":
        x25519 = length("auditor_x25519", request.auditor_x25519, HASH_BYTES)
        auditor = (x25519, length("auditor_ed25519", request.auditor_ed25519, HASH_BYTES))
        try:
            # A point of small order would show itself only at the first close.
            seal_seed(bytes(SEED_BYTES), x25519, b"")
        except MalformedError:
            raise InvalidField("auditor_x25519", "a raw X25519 public key that is no point of small order") from None
    elif request.auditor_x25519 or request.auditor_ed25519:
        raise InvalidField("auditor_x25519, auditor_ed25519", "empty unless reveal is escrow")
    ttl_s = within("ttl_s", request.ttl_s, MIN_TTL_S, MAX_TTL_S) if request.ttl_s else default_ttl_s
    mode = one_of("mode", request.mode, _MODES)
    return RegisterTable(table_id(request.table), mode, reveal, ttl_s, auditor, request.twin)


def reserve_hands(table: bytes, first_seq: int, count: int) -> ReserveHands:
    """Step 1."""
    within("count", count, 1, MAX_HANDS_A_RESERVE)
    return ReserveHands(table_id(table), within("first_seq", first_seq, 1, MAX_SEQ - count + 1), count)


def promise_seeds(request: shuffle_pb2.PromiseSeedsRequest) -> PromiseSeeds:
    """Step 2."""
    count = within("hands", len(request.hands), 1, MAX_HANDS_A_PROMISE)
    first = within("first_seq", request.first_seq, 1, MAX_SEQ - count + 1)
    promises = []
    for i, hand in enumerate(request.hands):
        field = f"hands[{i}].promises"
        within(field, len(hand.promises), 0, MAX_CONTRIBUTORS)
        given = tuple(_promise(f"{field}[{j}]", each) for j, each in enumerate(hand.promises))
        _ascending(field, (row[0] for row in given), "contributor")
        promises.append(given)
    return PromiseSeeds(table_id(request.table), first, tuple(promises))


def _promise(field: str, given: shuffle_pb2.Promise) -> tuple[bytes, ...]:
    """Return (id, P), or (id, P, Q) where a choice is promised too."""
    contributor = length(f"{field}.contributor", given.contributor, 1, MAX_CONTRIBUTOR_ID_BYTES)
    promised = length(f"{field}.promise", given.promise, HASH_BYTES)
    if not given.choice_promise:
        return contributor, promised
    return contributor, promised, length(f"{field}.choice_promise", given.choice_promise, HASH_BYTES)


def _contributions(given: Sequence[shuffle_pb2.Contribution]) -> Contributions:
    return _given_by_id("contributions", "seed", [(each.contributor, each.seed) for each in given])


def _given_by_id(field: str, what: str, given: Sequence[tuple[bytes, bytes]]) -> Contributions:
    """Return the seeds or choices that were given, checked."""
    within(field, len(given), 0, MAX_CONTRIBUTORS)
    pairs = tuple(
        (
            length(f"{field}[{i}].contributor", contributor, 1, MAX_CONTRIBUTOR_ID_BYTES),
            length(f"{field}[{i}].{what}", value, MIN_CONTRIBUTION_BYTES, MAX_CONTRIBUTION_BYTES),
        )
        for i, (contributor, value) in enumerate(given)
    )
    _ascending(field, (contributor for contributor, _ in pairs), "contributor")
    return pairs


def seal_shuffle(table: bytes, seq: int, n: int, given: Sequence[shuffle_pb2.Contribution] = ()) -> SealShuffle:
    """Steps 2 to 5."""
    within("item_count", n, 1, MAX_ITEMS)
    return SealShuffle(table_id(table), seq_number(seq), n, _contributions(given) if given else ())


def choose_twin(table: bytes, seq: int, given: Sequence[shuffle_pb2.Choice]) -> ChooseTwin:
    """Twin mode."""
    choices = _given_by_id("choices", "choice", [(each.contributor, each.choice) for each in given])
    return ChooseTwin(table_id(table), seq_number(seq), choices)


def reshuffle(request: shuffle_pb2.ReshuffleRequest) -> Reshuffle:
    """Step 7."""
    k = within("k", request.k, 1, MAX_SHUFFLES - 1)
    within("locations", len(request.locations), 1, MAX_ITEMS)
    locations = tuple((each.k, each.place) for each in request.locations)
    _ascending("locations", locations, "k, then place")
    if locations[-1][0] >= k:
        raise InvalidField("locations", f"in shuffles below {k}")
    return Reshuffle(table_id(request.table), seq_number(request.seq), k, locations)


def open_cards(table: bytes, seq: int, k: int, places: Sequence[int]) -> OpenCards:
    """Step 6."""
    within("k", k, 0, MAX_SHUFFLES - 1)
    within("places", len(places), 1, MAX_ITEMS)
    _ascending("places", places, "place")
    within("places", places[-1], 0, MAX_ITEMS - 1)
    return OpenCards(table_id(table), seq_number(seq), k, tuple(places))


def close_hand(table: bytes, seq: int, outcome: shuffle_pb2.Outcome.ValueType, reason: str) -> CloseHand:
    """Step 8."""
    word = one_of("outcome", outcome, _OUTCOMES)
    reasons = _CALLERS_REASONS[word]
    if reason not in (reasons or ("",)):
        raise InvalidField("reason", f"one of {', '.join(reasons)}" if reasons else "empty when the hand is complete")
    return CloseHand(table_id(table), seq_number(seq), word, reason or None)


def draw_numbers(request: shuffle_pb2.DrawNumbersRequest) -> DrawNumbers:
    """Step 9."""
    purpose = length("purpose", request.purpose, 1, MAX_PURPOSE_BYTES)
    if not purpose.isascii():
        raise InvalidField("purpose", "ASCII")
    return DrawNumbers(
        table_id(request.table),
        seq_number(request.seq),
        purpose,
        within("modulus", request.modulus, 1, MAX_MODULUS),
        within("count", request.count, 1, MAX_DRAWS),
        _contributions(request.contributions),
    )


def batch_tables(tables: bytes, columns: Mapping[str, Sequence[object]]) -> list[bytes]:
    """Return the ids of a batch; every column has one value a table, and no table comes twice."""
    count, rest = divmod(len(tables), TABLE_BYTES)
    if rest or not 1 <= count <= MAX_BATCH:
        raise InvalidField("tables", f"1..{MAX_BATCH} ids of {TABLE_BYTES} bytes")
    ids = [tables[i : i + TABLE_BYTES] for i in range(0, len(tables), TABLE_BYTES)]
    if len(set(ids)) != count:
        raise InvalidField("tables", "all different; a table's calls come one after the other")
    for field, column in columns.items():
        if len(column) != count:
            raise InvalidField(field, f"{count} values, one for each table")
    return ids


# --- Answers ---


def logged_entry(logged: Logged) -> log_pb2.LoggedEntry:
    """Return an entry with its proof."""
    return log_pb2.LoggedEntry(
        index=logged.position,
        entry=logged.entry,
        proof=b"".join(logged.proof),
        checkpoint=logged.checkpoint.decode(),
    )


def openings(opened: Openings | None) -> shuffle_pb2.Openings | None:
    """Return opened places column by column."""
    if opened is None:
        return None
    return shuffle_pb2.Openings(k=opened.k, places=opened.places, items=opened.items, salts=opened.salts)


def batch_entries(logged: Sequence[Logged]) -> shuffle_pb2.BatchEntries:
    """Return the entries of one batch column by column; they share one checkpoint."""
    return shuffle_pb2.BatchEntries(
        indexes=[each.position for each in logged],
        entries=[each.entry for each in logged],
        proofs=[b"".join(each.proof) for each in logged],
        checkpoint=logged[0].checkpoint.decode() if logged else "",
    )
