"""What a hand's evidence refuses, on entries made by hand: cheats that a real service cannot be brought to."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rngsvc.client import OpenedHand
from rngsvc.protocol.card_seal import cards_root, seal
from rngsvc.protocol.entries import parse_entry
from rngsvc.protocol.escrow import escrow_info, seal_seed
from rngsvc.protocol.merkle import leaf_hash
from rngsvc.proven_hand import (
    EntryMismatch,
    LeavesMismatch,
    OpeningMismatch,
    Placed,
    ProvenHand,
    RevealMismatch,
    StepMismatch,
    Unproven,
)
from tests.rngsvc.protocol.hands import AUDITOR, AUDITOR_KEYS, ORIGIN, TABLE, HandInLog, played


def placed(hand: HandInLog) -> list[Placed]:
    """The hand's entries as its log has them."""
    found = []
    for index in hand.indices:
        raw = hand.log.raw[index]
        found.append(Placed(index, raw, parse_entry(raw), leaf_hash(raw)))
    return found


def proven(hand: HandInLog) -> ProvenHand:
    """Everything that the log shows of the hand."""
    entries = placed(hand)
    result = ProvenHand(ORIGIN, entries[0], entries[1], hand.seq)
    for each in entries[2:]:
        result.taken(each)
    return result


def sealed(**settings: Any) -> HandInLog:
    return HandInLog(**settings).reserve().promise().seal()


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize("n", [1, 2, 52, 257])
def test_a_hand_from_the_log_alone(reveal: str, n: int) -> None:
    hand = played(reveal=reveal, n=n) if n >= 52 else sealed(reveal=reveal, n=n).close()
    result = proven(hand)
    assert result.state == "closed"
    assert [each.root for each in result.shuffles] == hand.roots


def test_states_follow_the_entries() -> None:
    hand = played(reveal="public")
    entries = placed(hand)
    result = ProvenHand(ORIGIN, entries[0], entries[1], hand.seq)
    states = [result.state]
    for each in entries[2:]:
        result.taken(each)
        states.append(result.state)
    assert states == ["reserved", "promised", "sealed", "sealed", "sealed", "closed"]


def lying_at_two_places() -> ProvenHand:
    """A service that seals one item at every place, and says so with a fitting root."""
    hand = sealed(n=4)
    leaves = seal(0, [2, 2, 2, 2], bytes(64))
    entries = placed(hand)
    raw = replace(entries[3].entry, root=cards_root(0, leaves)).encode()  # type: ignore[call-arg]
    result = ProvenHand(ORIGIN, entries[0], entries[1], hand.seq)
    result.taken(entries[2])
    result.taken(Placed(3, raw, parse_entry(raw), leaf_hash(raw)))
    result.learned(0, leaves)
    return result


def test_one_item_at_two_places_is_found_when_the_second_is_opened() -> None:
    result = lying_at_two_places()
    result.opened(0, [1], [2], bytes(16))
    result.opened(0, [1], [2], bytes(16))  # the same place again is no second one
    with pytest.raises(OpeningMismatch, match="lies at both"):
        result.opened(0, [3], [2], bytes(16))


def test_one_item_at_two_places_is_found_in_one_call() -> None:
    with pytest.raises(OpeningMismatch, match="lies at both"):
        lying_at_two_places().opened(0, [0, 1], [2, 2], bytes(32))


def test_a_named_item_may_come_again_from_the_reshuffle() -> None:
    hand = sealed().open(0, 7)
    hand.reshuffle((0, 7), (0, 8))
    result = proven(hand)
    for shuffle in hand.shuffles:
        result.learned(shuffle.k, shuffle.leaves)
    for opening in (hand.opening(0, 7), hand.opening(1, 0), hand.opening(1, 1)):
        result.opened(opening.k, [opening.p], [opening.item], opening.salt)
    assert len(result.openings) == 3


def another_kind(result: ProvenHand, entries: list[Placed]) -> None:
    result.sealed(entries[1])


def no_table(result: ProvenHand, entries: list[Placed]) -> None:
    ProvenHand(ORIGIN, entries[1], entries[1], 1)


def a_reserve_of_other_hands(result: ProvenHand, entries: list[Placed]) -> None:
    ProvenHand(ORIGIN, entries[0], entries[1], 2)


def sealed_twice(result: ProvenHand, entries: list[Placed]) -> None:
    result.taken(entries[3])


def the_reserve_again(result: ProvenHand, entries: list[Placed]) -> None:
    result.taken(entries[1])


def sealed_again_otherwise(result: ProvenHand, entries: list[Placed]) -> None:
    raw = replace(entries[3].entry, time=entries[3].entry.time + 1).encode()
    result.sealed(Placed(9, raw, parse_entry(raw), leaf_hash(raw)))


def a_reshuffle_too_many(result: ProvenHand, entries: list[Placed]) -> None:
    result.shuffles.pop()
    result.shuffles.pop()
    result.reshuffled(entries[5], 2)


def leaves_of_no_shuffle(result: ProvenHand, entries: list[Placed]) -> None:
    result.learned(3, [])


def a_place_that_is_not_there(result: ProvenHand, entries: list[Placed]) -> None:
    result.opened(0, [52], [0], bytes(16))


def a_shuffle_that_is_not_there(result: ProvenHand, entries: list[Placed]) -> None:
    result.opened(3, [0], [0], bytes(16))


WRONG: list[tuple[Callable[[ProvenHand, list[Placed]], None], type[Unproven]]] = [
    (another_kind, EntryMismatch),
    (no_table, EntryMismatch),
    (a_reserve_of_other_hands, EntryMismatch),
    (sealed_twice, StepMismatch),
    (the_reserve_again, StepMismatch),
    (sealed_again_otherwise, EntryMismatch),
    (a_reshuffle_too_many, EntryMismatch),
    (leaves_of_no_shuffle, LeavesMismatch),
    (a_place_that_is_not_there, OpeningMismatch),
    (a_shuffle_that_is_not_there, OpeningMismatch),
]


@pytest.mark.parametrize(("step", "expected"), WRONG, ids=[row[0].__name__ for row in WRONG])
def test_what_does_not_fit_is_refused(
    step: Callable[[ProvenHand, list[Placed]], None], expected: type[Unproven]
) -> None:
    hand = played()
    entries = placed(hand)
    result = ProvenHand(ORIGIN, entries[0], entries[1], hand.seq)
    for each in entries[2:-1]:  # all but the close
        result.taken(each)
    with pytest.raises(expected) as raised:
        step(result, entries)
    assert type(raised.value) is expected


def test_openings_need_leaves() -> None:
    with pytest.raises(ValueError, match="leaves"):
        proven(sealed()).opened(0, [0], [0], bytes(16))


def test_a_revealed_contribution_that_was_never_promised_is_found() -> None:
    """The seed fits CR, so that only the promise tells that the service has exchanged it."""
    hand = HandInLog(reveal="public").reserve().promise()
    hand.contributions = ((b"seat-1", b"\x12" * 32), hand.contributions[1])
    hand.seal().close()
    with pytest.raises(RevealMismatch, match="not the promised one"):
        proven(hand)


def test_an_escrow_that_holds_another_seed_is_found_by_the_auditor() -> None:
    hand = sealed()
    info = escrow_info(ORIGIN, TABLE, hand.seq, hand.commitment)
    hand.close(escrow=seal_seed(bytes(48), AUDITOR_KEYS[0], info))
    with pytest.raises(RevealMismatch, match="not the committed one"):
        OpenedHand(proven(hand), ()).rederive(AUDITOR)
