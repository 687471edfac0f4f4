"""A receipt shows what it claims, or the step that fails is named."""

import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from rngsvc.protocol import entries, receipt
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.receipt import OwnContribution, parse_document
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.protocol.tlog_proof import TlogProof
from rngsvc.protocol.verify import STEP_IDS, Outcome, verify
from tests.rngsvc.protocol import hands
from tests.rngsvc.protocol.hands import AUDITOR, ORIGIN, HandInLog, MemoryLog, played, with_entry
from tests.scale import scaled

LATER = hands.START + 10**9


def outcomes(report):
    return {step.id: step.outcome.value for step in report.steps}


def details(report):
    return [(step.outcome, step.detail) for step in report.steps]


def failed(document, log, **arguments) -> set[str]:
    return {step.id for step in verify(document, log.vkey, **arguments).failures}


# --- What holds ---

ALL_CHECKED = dict.fromkeys(STEP_IDS, "checked") | {"history": "not shown"}
BEFORE_SEAL = ("document", "entries", "keys", "checkpoints", "inclusion", "chain", "deadline")


def test_a_whole_public_hand_is_checked_in_every_step():
    hand = played(reveal="public", n=12)
    report = verify(hand.receipt().encode(), hand.log.vkey, now=LATER)
    assert outcomes(report) == ALL_CHECKED
    assert report.require() is report


def test_under_escrow_only_the_auditor_checks_the_derivation():
    hand = played(n=12)
    text = hand.receipt().encode()
    assert outcomes(verify(text, hand.log.vkey)) == ALL_CHECKED | {"derivation": "not shown"}
    assert outcomes(verify(text, hand.log.vkey, auditor=AUDITOR)) == ALL_CHECKED
    another = X25519PrivateKey.from_private_bytes(bytes(32))
    assert failed(text, hand.log, auditor=another) == {"reveal", "derivation"}


def test_the_key_may_be_given_raw_and_the_document_as_bytes():
    hand = played(reveal="public", n=12)
    document = hand.receipt().encode().encode()
    assert not verify(document, hands.public_key(1)).failures
    assert failed(document, MemoryLog(key=2)) == {"checkpoints"}
    assert failed(document, MemoryLog(origin="other.example")) >= {"checkpoints"}
    for no_key in (b"short", "no key"):
        for each in (document, b""):
            with pytest.raises(MalformedError):
                verify(each, no_key)


@pytest.mark.parametrize(
    ("hand", "own", "not_shown"),
    [
        (HandInLog().reserve(), None, {"promises", "contributions", "own", "context", "seals", "openings", "items"}),
        (HandInLog().reserve().promise(), 0, {"promises", "contributions", "own", "seals", "reshuffles"}),
        (HandInLog().reserve().promise().seal(), 0, {"openings", "reveal", "derivation", "seeds", "close", "deadline"}),
        (HandInLog().reserve().promise().draw(), 0, {"seals", "reshuffles", "openings", "items", "reveal"}),
        (HandInLog().reserve().promise().seal().close("lost", reason="seed_lost"), 0, {"reveal", "derivation"}),
        (HandInLog().reserve().close("aborted", reason="caller"), None, {"promises", "context", "seals"}),
    ],
    ids=["reserved", "promised", "sealed", "drawn", "lost", "unused"],
)
def test_what_a_hand_has_not_come_to_is_not_shown(hand, own, not_shown):
    report = verify(hand.receipt(own).encode(), hand.log.vkey)
    assert not report.failures
    assert not_shown <= {step.id for step in report.steps if step.outcome is Outcome.NOT_SHOWN}


@pytest.mark.parametrize("mode", ["shoe", "full"])
@pytest.mark.parametrize("contributions", [(), ((b"a", None), (b"a-1", b"\x01" * 64))], ids=["none", "one absent"])
def test_hands_of_both_modes_with_and_without_contributors_are_checked(mode, contributions):
    hand = HandInLog(mode=mode, reveal="public", contributions=contributions).reserve()
    if contributions:
        hand.promise()
    hand.seal().open(0, *range(52)).close()
    expected = ALL_CHECKED if contributions else ALL_CHECKED | {"own": "not shown"}
    assert outcomes(verify(hand.receipt(own=1).encode(), hand.log.vkey)) == expected


def test_draws_are_derived_again():
    hand = HandInLog(reveal="public").reserve().promise().draw().close()
    assert outcomes(verify(hand.receipt().encode(), hand.log.vkey))["derivation"] == "checked"


def test_gaps_in_the_tables_chain_are_said():
    hand = HandInLog(reveal="public").reserve()
    hand.log.append(entries.ReserveEntry, table=hands.TABLE, first=2, commitments=(b"\x01" * 32,))
    hand.promise().seal().close()
    report = verify(hand.receipt().encode(), hand.log.vkey)
    assert not report.failures
    assert report.step("chain").outcome is Outcome.NOT_SHOWN
    assert "between 1 and 3" in report.step("chain").detail


# --- Key changes ---


def test_a_change_of_the_logs_key_is_followed_from_the_first_key():
    hand = HandInLog(reveal="public").reserve()
    hand.indices.append(hand.log.change_key(2))
    hand.promise()
    hand.indices.append(hand.log.change_key(3))
    hand.seal().close()
    good = hand.receipt()
    assert not verify(good.encode(), hand.log.vkey).failures
    # The same with the entries before the first change proved under a checkpoint of that time, by the first key.
    early = replace(good, entries=(hand.log.logged(0, 2, key=1), *good.entries[1:]))
    assert not verify(early.encode(), hand.log.vkey).failures
    # A checkpoint that a retired key signed is worth nothing.
    stale = replace(good, entries=(hand.log.logged(0, key=1), *good.entries[1:]))
    assert failed(stale.encode(), hand.log) == {"checkpoints"}
    # Without the second key entry the third key is a stranger.
    without = replace(good, entries=(*good.entries[:4], *good.entries[5:]))
    assert failed(without.encode(), hand.log) == {"checkpoints"}


def test_a_key_entry_that_the_old_key_did_not_sign_is_refused():
    hand = HandInLog(reveal="public").reserve()
    hand.log.key = 7  # a thief's key, who never had the old one
    thief, new = hands.private_key(7), hands.public_key(2)
    message = entries.KeyEntry.signed_bytes(ORIGIN, hands.public_key(1), new)
    sigs = (thief.sign(message), hands.private_key(2).sign(message))
    hand.indices.append(hand.log.append(entries.KeyEntry, old=hands.public_key(1), new=new, sigs=sigs))
    hand.log.key = 2
    hand.promise().seal().close()
    assert failed(hand.receipt().encode(), hand.log) == {"keys"}


def test_a_key_entry_that_continues_another_key_is_refused():
    hand = HandInLog(reveal="public", log=MemoryLog(key=1)).reserve()
    hand.log.key = 5
    hand.indices.append(hand.log.change_key(2))
    hand.promise().seal().close()
    assert "keys" in failed(hand.receipt().encode(), hand.log)


# --- What does not hold: a service, a dealer or a holder that cheats ---


def sealed(**settings) -> HandInLog:
    return HandInLog(reveal="public", n=12, **settings).reserve().promise().seal()


def other_seed() -> HandInLog:
    """The service seals with a seed that it did not commit to."""
    hand = HandInLog(reveal="public", n=12).reserve().promise()
    hand.seed = bytes(48)
    return hand.seal().close()


def chosen_order() -> HandInLog:
    """The service commits honestly, but deals an order of its choice, and says the number of bytes that is right."""
    used = json.loads(sealed().log.raw[-1])["used"]
    hand = HandInLog(reveal="public", n=12).reserve().promise()
    honest, hand.seed = hand.seed, bytes(48)
    hand.seal(used=used)
    hand.seed = honest
    return hand.close()


def bytes_misstated() -> HandInLog:
    return HandInLog(reveal="public", n=12).reserve().promise().seal(used=99).close()


def ignored_contribution() -> HandInLog:
    """The service drops the first contributor without saying so."""
    hand = HandInLog(reveal="public", n=12).reserve().promise()
    hand.contributions = hand.contributions[1:]
    return hand.seal().close()


def swapped_contribution() -> HandInLog:
    """The service puts another seed in the place of the first contributor's."""
    hand = HandInLog(reveal="public", n=12).reserve().promise()
    hand.contributions = ((b"seat-1", b"\x77" * 32), hand.contributions[1])
    return hand.seal().close()


def promise_passed_over() -> HandInLog:
    """The service derives from the reserve entry as if nobody had promised."""
    hand = HandInLog(reveal="public", n=12).reserve()
    pre, contributions = hand.pre, hand.contributions
    hand.promise()
    hand.pre, hand.contributions = pre, ()
    hand.seal()
    hand.contributions = contributions
    return hand.close()


def escrow_for_public() -> HandInLog:
    hand = sealed()
    hand.reveal = "escrow"
    return hand.close()


def opened_after_named() -> HandInLog:
    hand = sealed().open(0, 0).reshuffle((0, 5), (0, 6))
    hand.log.time += 1000
    return hand.open(0, 5).close()


def named_twice() -> HandInLog:
    return sealed().reshuffle((0, 5), (0, 6)).reshuffle((0, 6), (1, 0)).close()


def named_nowhere() -> HandInLog:
    hand = sealed()
    hand.orders[0].append(0)
    return hand.reshuffle((0, 11), (0, 12)).close()


def unlisted_opening() -> HandInLog:
    hand = sealed().open(0, 0, 1)
    hand.opened.pop()
    return hand.close()


def opened_before_the_seal() -> HandInLog:
    hand = sealed()
    hand.opened.append((hands.START, 0, (0,)))
    return hand.close()


def opened_where_nothing_is() -> HandInLog:
    hand = sealed()
    hand.opened.append((hand.log.time, 0, (12,)))
    return hand.close()


def closed_late() -> HandInLog:
    hand = sealed(ttl=60)
    hand.log.time += 61_000
    return hand.close()


def expired_early() -> HandInLog:
    return sealed().close("aborted", reason="expired")


def reshuffled_late() -> HandInLog:
    hand = sealed(ttl=60)
    hand.log.time += 61_000
    return hand.reshuffle((0, 5), (0, 6)).close("aborted", reason="expired")


def seeds_of_an_unused_hand() -> HandInLog:
    return HandInLog(reveal="public").reserve().close("aborted", reason="caller", seeds=())


def seeds_kept_back() -> HandInLog:
    return sealed().close(seeds=None)


def seed_forged() -> HandInLog:
    return sealed().close(seeds=(b"\x77" * 32, b"\x22" * 32))


def openings_kept_back() -> HandInLog:
    return sealed().close(opened=None)


def wrong_numbers() -> HandInLog:
    hand = HandInLog(reveal="public").reserve().promise()
    honest, hand.seed = hand.seed, bytes(48)
    hand.draw()
    hand.seed = honest
    return hand.close()


def duplicate_card() -> HandInLog:
    """The service seals one item at two places and opens both."""
    hand = HandInLog(n=12).reserve().promise()
    fixed = hand._fix_contributions()
    order = [0, 0, *range(2, 12)]
    salts = bytes(16 * 12)
    leaves = hands.card_seal.seal(0, order, salts)
    hand.add(entries.SealEntry, seq=1, k=0, n=12, root=hands.card_seal.cards_root(0, leaves), used=12, **fixed)
    hand.orders.append(order)
    hand.salts.append(salts)
    hand.roots.append(b"")
    hand.shuffles.append(receipt.SealedShuffle(k=0, n=12, leaves=tuple(leaves)))
    return hand.open(0, 0, 1).close()


def clock_set_back() -> HandInLog:
    hand = HandInLog(reveal="public", n=12).reserve().promise()
    hand.log.time -= 5000
    return hand.seal().close()


def listed_as_absent() -> HandInLog:
    """The first contributor did give his seed (the one that `promise` takes), but the service says that he did not."""
    return sealed(contributions=((b"seat-1", None), (b"seat-3", b"\x22" * 32))).close()


def context_of_another_commitment() -> HandInLog:
    hand = HandInLog(reveal="public", n=12).reserve().promise()
    hand.commitment = bytes(32)
    return hand.seal().close()


def reshuffle_of_another_root() -> HandInLog:
    hand = sealed()
    hand.roots[0] = bytes(32)
    return hand.reshuffle((0, 5), (0, 6)).close()


def absence_not_listed() -> HandInLog:
    """The first contributor is left out, but the list of absent ones does not say so."""
    hand = HandInLog(reveal="public", n=12, contributions=((b"seat-1", None), (b"seat-3", b"\x22" * 32)))
    hand.reserve().promise()
    return hand.seal(absent=()).close()


def absence_of_nobody() -> HandInLog:
    return HandInLog(reveal="public", n=12).reserve().promise().seal(absent=(2,)).close()


# What the first contributor holds, whatever the service did with it.
HELD = {listed_as_absent: b"\x99" * 32, seeds_of_an_unused_hand: None}


@pytest.mark.parametrize(
    ("cheat", "steps"),
    [
        (other_seed, {"reveal"}),
        (chosen_order, {"derivation"}),
        (bytes_misstated, {"derivation"}),
        (ignored_contribution, {"contributions", "own", "seeds"}),
        (swapped_contribution, {"own", "seeds"}),
        (promise_passed_over, {"promises", "contributions", "own", "seeds"}),
        (escrow_for_public, {"reveal"}),
        (opened_after_named, {"close"}),
        (named_twice, {"reshuffles", "derivation"}),
        (named_nowhere, {"reshuffles", "derivation"}),
        (unlisted_opening, {"close"}),
        (opened_before_the_seal, {"close"}),
        (opened_where_nothing_is, {"close"}),
        (closed_late, {"deadline"}),
        (expired_early, {"deadline"}),
        (reshuffled_late, {"deadline"}),
        (seeds_of_an_unused_hand, {"seeds"}),
        (seeds_kept_back, {"seeds"}),
        (seed_forged, {"seeds"}),
        (openings_kept_back, {"close"}),
        (wrong_numbers, {"derivation"}),
        (duplicate_card, {"items"}),
        (clock_set_back, {"entries"}),
        (listed_as_absent, {"own"}),
        (absence_not_listed, {"contributions", "own", "seeds"}),
        (absence_of_nobody, {"contributions"}),
        (context_of_another_commitment, {"context"}),
        (reshuffle_of_another_root, {"context"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_cheat_that_is_properly_logged_fails_in_its_steps(cheat, steps):
    hand = cheat()
    seed = HELD.get(cheat, b"\x11" * 32)
    own = OwnContribution(id=b"seat-1", seed=seed) if seed else None
    assert failed(replace(hand.receipt(None), own=own).encode(), hand.log) == steps


GOOD = played(reveal="public", n=12)


def changed(**changes) -> str:
    return replace(GOOD.receipt(), **changes).encode()


def swap(values, i, j):
    listed = list(values)
    listed[i], listed[j] = listed[j], listed[i]
    return tuple(listed)


@pytest.mark.parametrize(
    ("document", "steps"),
    [
        (changed(origin="other.example"), {"checkpoints"}),
        (changed(table=bytes(16)), {"entries"}),
        (changed(seq=2), {"entries"}),
        (changed(entries=GOOD.receipt().entries[1:]), {"entries"}),
        (changed(entries=(GOOD.receipt().entries[0], *GOOD.receipt().entries[2:])), {"entries"}),
        (changed(entries=GOOD.receipt().entries[:1]), {"entries"}),
        (changed(entries=swap(GOOD.receipt().entries, 0, 1)), {"entries"}),
        (changed(entries=swap(GOOD.receipt().entries, 3, 4)), {"entries"}),
        (changed(entries=GOOD.receipt().entries[:2] + GOOD.receipt().entries[3:]), {"promises", "contributions"}),
        (with_entry(GOOD.receipt(), 2, proof=GOOD.receipt().entries[3].proof).encode(), {"entries"}),
        (changed(own=OwnContribution(id=b"seat-2", seed=b"\x11" * 32)), {"own"}),
        (changed(own=OwnContribution(id=b"seat-3", seed=b"\x11" * 32)), {"own"}),
        (changed(contributions=swap(GOOD.leaves, 0, 1)), {"contributions", "own"}),
        (changed(contributions=tuple(GOOD.leaves[:1])), {"contributions"}),
        (changed(contributions=()), {"contributions", "own"}),
        (changed(shuffles=swap(GOOD.shuffles, 0, 1)), {"seals"}),
        (changed(shuffles=(replace(GOOD.shuffles[0], n=11), *GOOD.shuffles[1:])), {"seals"}),
        (changed(shuffles=tuple(GOOD.shuffles[:1])), {"openings"}),
        (changed(shuffles=(*GOOD.shuffles, replace(GOOD.shuffles[2], k=3))), {"seals"}),
        (changed(openings=(GOOD.opening(0, 0), GOOD.opening(0, 0))), {"openings"}),
        (changed(openings=(replace(GOOD.opening(0, 0), item=GOOD.orders[0][0] ^ 1),)), {"openings"}),
        (changed(openings=(replace(GOOD.opening(0, 0), p=1),)), {"openings"}),
        (changed(openings=(GOOD.opening(0, 7),)), {"close"}),
        (changed(openings=(replace(GOOD.opening(0, 0), item=1019),)), {"openings", "items"}),
    ],
)
def test_a_changed_receipt_fails_in_its_steps(document, steps):
    found = failed(document, GOOD.log)
    assert steps <= found
    assert found - steps <= {"own", "seeds", "items"}


@pytest.mark.parametrize(
    ("first", "second", "fails"),
    [
        ((0, 0), (0, 1), True),
        ((0, 5), (1, 0), False),  # named by the first reshuffle, came out of it
        ((0, 0), (1, 1), True),  # named only by the second reshuffle
        ((0, 0), (2, 0), False),
        ((1, 1), (2, 0), False),
        ((0, 2), (2, 0), True),  # never named
    ],
)
def test_an_item_comes_again_only_out_of_a_reshuffle_that_took_it(first, second, fails):
    openings = tuple(replace(GOOD.opening(k, p), item=3) for k, p in (first, second))
    assert ("items" in failed(changed(openings=openings), GOOD.log)) is fails


def test_a_reshuffle_holds_the_items_that_went_into_it():
    hand = HandInLog(n=12).reserve().promise().seal().open(0, 0, 1, 2).reshuffle((0, 0), (0, 1)).open(1, 0, 1).close()
    assert not failed(hand.receipt().encode(), hand.log)
    stranger = next(item for item in range(12) if item not in hand.orders[0][:3])
    openings = (*hand.openings[:4], replace(hand.openings[4], item=stranger))
    assert "items" in failed(replace(hand.receipt(), openings=openings).encode(), hand.log)


def test_a_fork_of_the_table_and_a_fork_of_the_log_are_seen():
    hand = HandInLog(reveal="public").reserve()
    hand.log.prev[hands.TABLE] = hand.log.leaves(1)[0]  # the promise entry follows the table entry, like the reserve
    hand.promise().seal().close()
    assert failed(hand.receipt().encode(), hand.log) == {"chain"}
    good = sealed().close()
    other = sealed(contributions=((b"seat-1", b"\x12" * 32),)).close()
    forked = replace(good.receipt(), entries=(other.log.logged(0), *good.receipt().entries[1:]))
    assert failed(forked.encode(), good.log) == {"checkpoints"}


def test_an_entry_of_another_kind_or_table_is_refused():
    for kind, members in (
        (entries.SampleEntry, {"id": b"x", "kind": "bits", "count": 1}),
        (entries.TableEntry, {"table": bytes(16), "mode": "full", "reveal": "public", "ttl": 60}),
    ):
        hand = sealed()
        hand.indices.append(hand.log.append(kind, **members))
        assert failed(hand.receipt().encode(), hand.log) == {"entries"}


def test_a_checkpoint_of_another_log_is_refused_though_the_logs_key_signed_it():
    note = Checkpoint("other.example", 1, GOOD.log.leaves(1)[0]).sign(
        NoteKey(ORIGIN, hands.public_key(1)), hands.private_key(1).sign
    )
    proof = TlogProof(0, (), note).encode()
    report = verify(with_entry(GOOD.receipt(), 0, proof=proof).encode(), GOOD.log.vkey)
    assert [(step.id, step.detail) for step in report.failures] == [
        ("checkpoints", "the checkpoint under entry 0 is of the log other.example")
    ]


def test_who_is_listed_as_absent_is_told_so():
    hand = listed_as_absent()
    mine = replace(hand.receipt(None), own=OwnContribution(id=b"seat-1", seed=HELD[listed_as_absent]))
    assert "absent" in verify(mine.encode(), hand.log.vkey).step("own").detail


def test_openings_without_a_leaf_and_openings_that_stand_twice_are_named():
    twice = (GOOD.opening(0, 0), GOOD.opening(0, 1), GOOD.opening(0, 0))
    for good, openings in ((GOOD.receipt(), twice), (UNSEALED.receipt(), twice[:1])):
        report = verify(replace(good, openings=openings).encode(), GOOD.log.vkey)
        assert [step.id for step in report.failures] == ["openings"]
        assert report.step("openings").detail == "place 0 of shuffle 0 has no leaf in the receipt, or is opened twice"


def test_leaves_that_are_kept_back_are_not_shown():
    some = replace(GOOD.receipt(), shuffles=tuple(GOOD.shuffles[:2]), openings=tuple(GOOD.openings[:5]))
    report = verify(some.encode(), GOOD.log.vkey)
    assert not report.failures
    assert report.step("seals").outcome is Outcome.NOT_SHOWN
    assert report.step("seals").detail.endswith("shuffle 2")


def test_entries_from_the_future_are_seen_by_whoever_has_a_clock():
    text = GOOD.receipt().encode()
    assert failed(text, GOOD.log, now=hands.START) == set()
    assert failed(text, GOOD.log, now=hands.START - 10**6) == {"deadline"}


# --- Form ---

ESCROWED = played(n=8 + 4)
UNSEALED = HandInLog().reserve(count=3).promise()
DRAWN = (
    HandInLog(reveal="public", contributions=((b"a", None), (b"ab", b"\x01" * 33))).reserve().promise().draw().close()
)
ROTATED = HandInLog(reveal="public", n=3).reserve()
ROTATED.indices.append(ROTATED.log.change_key(2))
ROTATED.promise().seal().open(0, 0).close()
RECEIPTS = [(hand.log, hand.receipt(own=own)) for hand, own in ((GOOD, 0), (ESCROWED, 1), (DRAWN, 1), (ROTATED, 0))]
RECEIPTS.append((UNSEALED.log, UNSEALED.receipt()))
COMPACT = [(log, json.dumps(each.members(), separators=(",", ":")).encode()) for log, each in RECEIPTS]


def test_the_receipts_that_are_damaged_below_are_good():
    for log, document in COMPACT:
        assert not verify(document, log.vkey).failures


@pytest.mark.parametrize("which", range(len(COMPACT)))
def test_each_flipped_byte_makes_verification_fail_with_the_step_named(which):
    log, document = COMPACT[which]
    step = scaled(29, 1)
    for at in range(which, len(document), step):
        for mask in (1 << at % 8, 0x20) if step > 1 else (1, 2, 4, 8, 16, 32, 64, 128):
            damaged = bytearray(document)
            damaged[at] ^= mask
            report = verify(bytes(damaged), log.vkey)
            assert report.failures, (at, mask, document[at - 20 : at + 20])
            assert all(each.id in STEP_IDS and each.detail for each in report.failures)


@settings(max_examples=scaled(300, 20_000), deadline=None)
@given(st.integers(0, len(COMPACT) - 1), st.data())
def test_each_replaced_inserted_or_lost_byte_makes_verification_fail(which, data):
    log, document = COMPACT[which]
    at = data.draw(st.integers(0, len(document) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    kind = data.draw(st.sampled_from(["replace", "insert", "lose"]))
    damaged = {
        "replace": document[:at] + byte + document[at + 1 :],
        "insert": document[:at] + byte + document[at:],
        "lose": document[:at] + document[at + 1 :],
    }[kind]
    try:
        same = json.loads(damaged) == json.loads(document)
    except ValueError:
        same = False
    if not same:
        assert verify(damaged, log.vkey).failures


@pytest.mark.parametrize("which", range(len(COMPACT)))
def test_each_member_dropped_or_replaced_fails_or_is_no_longer_shown(which):
    log, document = COMPACT[which]
    good = verify(document, log.vkey)

    def variants(value, path):
        if isinstance(value, dict):
            for name in value:
                yield {k: v for k, v in value.items() if k != name}, (*path, name), "dropped"
                yield value | {name: None}, (*path, name), "null"
                for inner, where, how in variants(value[name], (*path, name)):
                    yield value | {name: inner}, where, how
        elif isinstance(value, list) and value:
            yield value[:-1], path, "shortened"
            yield [*value, value[-1]], path, "lengthened"
            for i in {0, len(value) - 1}:
                for inner, where, how in variants(value[i], (*path, i)):
                    yield [*value[:i], inner, *value[i + 1 :]], where, how

    for changed_members, path, how in variants(json.loads(document), ()):
        report = verify(json.dumps(changed_members), log.vkey)
        if report.failures:
            continue
        # Only what a receipt may leave out can go without a failure, and then less is shown.
        assert how in {"dropped", "shortened"}, (path, how)
        assert path[0] in {"own", "contributions", "shuffles", "openings", "entries"}, path
        assert details(report) != details(good), path


@pytest.mark.parametrize(
    ("document", "member"),
    [
        ("", "document"),
        ("[]", "document"),
        ("{}", "receipt.format|receipt"),
        ("nul", "document"),
        ("[" * 100_000, "document"),
        ('{"format":"rs1-receipt/2"}', "format"),
        ('{"format":"rs1-receipt/1","format":"rs1-receipt/1"}', "format"),
        ('{"format":"rs1-receipt/1","origin":1.5}', "document"),
        ('{"format":"rs1-receipt/1","origin":"a"}', "table"),
        ('{"receipt":{"format":"rs1-receipt/1"},"events":[]}', "receipt.origin"),
        ('{"format":"rs1-receipt/1","\\ud800":1}', "\\ud800: is not a member"),
        ('{"format":"rs1-receipt/1","\\ud800":1,"\\ud800":1}', "document.\\ud800: stands twice"),
        (json.dumps(GOOD.receipt().members() | {"entries": [3]}), "entries[0]: must be an object"),
        (with_entry(GOOD.receipt(), 0, entry="ä").encode(), "entries[0].entry: must be"),
        (with_entry(GOOD.receipt(), 0, entry="").encode(), "entries[0].entry: must be"),
        (changed(origin="a b"), "origin"),
        (changed(origin="a+b"), "origin"),
        (b"\xff", "document"),
        ('{"format":"rs1-receipt/1","x":NaN}', "document"),
        ('{"format":"rs1-receipt/1","x":' + "9" * 5000 + "}", "document"),
    ],
)
def test_a_document_of_another_form_is_refused_by_name(document, member):
    report = verify(document, GOOD.log.vkey)
    (failure,) = report.failures
    assert failure.id == "document"
    assert any(each in failure.detail for each in member.split("|"))
    assert failure.detail.isascii()
    assert [step.id for step in report.steps] == list(STEP_IDS)


def test_a_receipt_survives_its_text():
    for _, each in RECEIPTS:
        assert parse_document(each.encode()) == each
        assert receipt.Receipt.parse(each.encode()) == each


def test_a_report_that_is_required_to_be_good_raises_what_failed():
    report = verify(changed(seq=2), GOOD.log.vkey)
    with pytest.raises(ProofError, match=r"entries: entries\[1\]"):
        report.require()
    with pytest.raises(KeyError):
        report.step("nonsense")


def test_a_vkey_of_another_name_does_not_fit():
    other = NoteKey("other.example", hands.public_key(1)).vkey
    assert "checkpoints" in {step.id for step in verify(GOOD.receipt().encode(), other).failures}


# --- Histories ---


def card(how, k, p, *, item=False):
    shown = {"item": GOOD.orders[k][p]} if item else {}
    return {"how": how, "k": k, "p": p} | shown


def history(*events, **others):
    return json.dumps({"receipt": GOOD.receipt().members(), "events": list(events)} | others)


# GOOD opens places 0 to 4 of shuffle 0, then names 1, 4 and all from 5 on; 0 and 1 of shuffle 1; then names (0,0) and
# (1,1), (1,2), (1,5); 0 and 3 of shuffle 2.
DEALT = (
    {"type": "shuffle", "shuffle": 0},
    {"cards": [card("dealt", 0, 0, item=True), card("burnt", 0, 1), card("dealt", 0, 2)], "seat": 3, "note": None},
    {"type": "bet", "amount": 5},
    {"cards": [card("dealt", 0, 3), card("dealt", 0, 4)]},
    {"cards": [card("shown", 0, 3, item=True)]},
    {"shuffle": 1},
    {"cards": [card("dealt", 1, 0, item=True), card("dealt", 1, 1)]},
    {"shuffle": 2, "cards": [card("dealt", 1, 3), card("dealt", 2, 0, item=True)]},
    {"cards": [card("burnt", 2, 1), card("burnt", 2, 2), card("dealt", 2, 3, item=True), card("dealt", 1, 4)]},
)


def test_a_history_whose_cards_follow_the_shuffles_is_checked():
    report = verify(history(*DEALT, house="elm", rules={"x": [None, True]}), GOOD.log.vkey)
    assert outcomes(report) == ALL_CHECKED | {"history": "checked"}
    assert report.step("document").detail == "a history"


def changed_events(i, event):
    return [*DEALT[:i], event, *DEALT[i + 1 :]]


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (DEALT[1:], "events[0].cards[0]: there is no place 0 of shuffle 0 yet"),
        (DEALT[:1] + DEALT[3:], "the next card of shuffle 0 is at place 0, not 3"),
        (DEALT[:5] + DEALT[6:], "no place 0 of shuffle 1 yet"),
        (DEALT[:-1], "place 3 of shuffle 2 was opened, but no event deals or burns it"),
        ((*DEALT, DEALT[1]), "the next card of shuffle 0 is at place 12, not 0"),
        ((*DEALT, {"shuffle": 3}), "shuffle 3 was not sealed then"),
        (({"shuffle": 1}, *DEALT), "shuffle 1 was not sealed then"),
        ((*DEALT, {"cards": [card("dealt", 0, 7)]}), "the next card of shuffle 0 is at place 12, not 7"),
        ((*DEALT, {"cards": [card("shown", 1, 6, item=False)]}), "was neither dealt nor burnt"),
        ((*DEALT, {"cards": [{"how": "dealt", "k": 2, "p": 4}]}), "there is no place 4 of shuffle 2 yet"),
        (
            changed_events(4, {"cards": [card("shown", 0, 3) | {"item": 11 - GOOD.orders[0][3]}]}),
            "no opening shows item",
        ),
        ((*DEALT, {"cards": [card("shown", 1, 3, item=True)]}), "no opening shows item"),
    ],
)
def test_a_history_that_does_not_follow_the_shuffles_fails_and_says_where(events, says):
    report = verify(history(*events), GOOD.log.vkey)
    (failure,) = report.failures
    assert failure.id == "history"
    assert says in failure.detail


@pytest.mark.parametrize(
    ("event", "member"),
    [
        (3, "events[0]"),
        ({"shuffle": None}, "events[0].shuffle"),
        ({"shuffle": 16}, "events[0].shuffle"),
        ({"cards": {}}, "events[0].cards"),
        ({"cards": [{"how": "dealt", "k": 0}]}, "events[0].cards[0].p"),
        ({"cards": [{"how": "given", "k": 0, "p": 0}]}, "events[0].cards[0].how"),
        ({"cards": [{"how": "dealt", "k": 0, "p": 0, "seat": 1}]}, "events[0].cards[0].seat"),
        ({"cards": [{"how": "dealt", "k": 0, "p": 0, "item": None}]}, "events[0].cards[0].item"),
        ({"cards": [{"how": "dealt", "k": 0, "p": True}]}, "events[0].cards[0].p"),
    ],
)
def test_an_event_of_another_form_is_refused_by_name(event, member):
    (failure,) = verify(history(event), GOOD.log.vkey).failures
    assert failure.id == "document"
    assert f"{member}:" in failure.detail


def test_a_history_without_events_is_refused():
    (failure,) = verify(json.dumps({"receipt": GOOD.receipt().members()}), GOOD.log.vkey).failures
    assert failure.detail.startswith("events:")
