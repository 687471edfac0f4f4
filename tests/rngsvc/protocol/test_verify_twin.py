"""A receipt of a twin table shows what it claims, or the step that fails is named."""

import json
from dataclasses import replace

import pytest

from rngsvc.protocol import entries
from rngsvc.protocol.receipt import OwnContribution
from rngsvc.protocol.verify import STEP_IDS, TWIN_STEP_IDS, Outcome, verify
from tests.rngsvc.protocol import hands
from tests.rngsvc.protocol.hands import AUDITOR, HandInLog, TwinHandInLog, twin_played
from tests.scale import scaled

ALL_CHECKED = dict.fromkeys((*STEP_IDS, *TWIN_STEP_IDS), "checked") | {"history": "not shown"}
BOTH = ((b"\x33" * 32, b"\x44" * 32), (b"\x35" * 32, b"\x44" * 32))


def outcomes(report):
    return {step.id: step.outcome.value for step in report.steps}


def failed(hand, **arguments) -> set[str]:
    return {step.id for step in verify(hand.receipt().encode(), hand.log.vkey, **arguments).failures}


def sealed(**settings) -> TwinHandInLog:
    return TwinHandInLog(**({"reveal": "public", "n": 12} | settings)).reserve().promise().seal()


# --- What holds ---


@pytest.mark.parametrize("choices", BOTH)
@pytest.mark.parametrize("mode", ["shoe", "full"])
def test_a_whole_public_hand_is_checked_in_every_step_whichever_deck_is_played(mode, choices):
    hand = twin_played(reveal="public", n=12, mode=mode, choices=choices)
    assert outcomes(verify(hand.receipt().encode(), hand.log.vkey)) == ALL_CHECKED


def test_both_decks_are_played_in_these_tests():
    assert {json.loads(twin_played(choices=choices).log.raw[4])["deck"] for choices in BOTH} == {0, 1}


@pytest.mark.parametrize("choices", BOTH)
def test_under_escrow_everybody_checks_the_other_deck_and_the_auditor_the_played_one(choices):
    hand = twin_played(n=12, choices=choices)
    text = hand.receipt().encode()
    assert outcomes(verify(text, hand.log.vkey)) == ALL_CHECKED | {"derivation": "not shown"}
    assert outcomes(verify(text, hand.log.vkey, auditor=AUDITOR)) == ALL_CHECKED


def test_a_hand_that_nobody_chose_in_proves_nothing_and_verification_says_so():
    hand = twin_played(n=12, choices=(None, None))
    step = verify(hand.receipt().encode(), hand.log.vkey).step("choice")
    assert step.outcome is Outcome.NOT_SHOWN
    assert "nobody gave a choice: the service knew which deck it would open" in step.detail


def test_one_choice_decides_and_who_was_absent_at_the_seal_may_still_choose():
    contributions = ((b"seat-1", None), (b"seat-3", b"\x22" * 32))
    hand = twin_played(n=12, choices=(b"\x33" * 32, None), contributions=contributions)
    report = verify(hand.receipt(None).encode(), hand.log.vkey)
    assert not report.failures
    assert "1 choice of 2" in report.step("choice").detail


def test_an_own_choice_may_be_left_out():
    hand = twin_played(reveal="public", n=12)
    receipt = hand.receipt()
    without = replace(receipt, own=replace(receipt.own, choice=None))
    assert outcomes(verify(without.encode(), hand.log.vkey)) == ALL_CHECKED


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize(
    ("hand", "said"),
    [
        (lambda reveal: TwinHandInLog(reveal=reveal).reserve(), "nobody had decided"),
        (lambda reveal: sealed(reveal=reveal), "nobody had decided"),
        (lambda reveal: sealed(reveal=reveal).close("aborted", reason="caller"), "ended without a choice"),
        (
            lambda reveal: TwinHandInLog(reveal=reveal).reserve().close("aborted", reason="expired", after=10**7),
            "ended without a choice",
        ),
        (lambda reveal: sealed(reveal=reveal).close("lost", reason="seed_lost", seeds=None), "ended without a choice"),
    ],
    ids=["reserved", "sealed", "aborted", "unused", "lost"],
)
def test_before_and_without_a_choice_the_steps_of_twin_mode_are_not_shown(hand, said, reveal):
    played = hand(reveal)
    own = None if not played.decks else 0
    report = verify(played.receipt(own).encode(), played.log.vkey)
    assert not report.failures
    for step_id in TWIN_STEP_IDS:
        assert report.step(step_id).outcome is Outcome.NOT_SHOWN
        assert said in report.step(step_id).detail


@pytest.mark.parametrize("reveal", ["public", "escrow"])
def test_a_hand_that_ended_without_a_choice_reveals_both_decks(reveal):
    hand = sealed(reveal=reveal).close("aborted", reason="caller")
    report = verify(hand.receipt().encode(), hand.log.vkey, auditor=AUDITOR)
    assert report.step("reveal").detail == "the committed seeds of both decks"
    assert report.step("derivation").detail == "both decks derived again"
    for deck in (0, 1):
        wrong = TwinHandInLog(reveal=reveal, n=12).reserve().promise().seal(dealt={deck: list(range(12))})
        wrong.close("aborted", reason="caller")
        assert failed(wrong, auditor=AUDITOR) == {"derivation"}


# --- What does not hold ---


def unfair_opened(which: int, order) -> TwinHandInLog:
    """The service seals one deck in an order of its own, and the choice opens it."""
    for tail in range(256):
        hand = TwinHandInLog(reveal="public", n=12, choices=(b"\x33" * 32, bytes([tail]) * 32)).reserve().promise()
        hand.seal(dealt={which: order}).choose()
        if json.loads(hand.log.raw[-1])["deck"] != which:
            return hand.close()
    raise AssertionError("a fair bit does not fall on one side 256 times")


def unfair_played() -> TwinHandInLog:
    """The same, and the choice plays it: under public reveal the close tells."""
    for tail in range(256):
        hand = TwinHandInLog(reveal="public", n=12, choices=(b"\x33" * 32, bytes([tail]) * 32)).reserve().promise()
        hand.seal(dealt={1: list(range(12))}).choose()
        if json.loads(hand.log.raw[-1])["deck"] == 1:
            return hand.close()
    raise AssertionError("a fair bit does not fall on one side 256 times")


def wrong_deck() -> TwinHandInLog:
    """The service plays the deck that was to be opened."""
    deck = json.loads(sealed().choose().log.raw[-1])["deck"]
    hand = sealed()
    return hand.choose(deck=1 - deck, seed=hand.seeds[deck]).close()


def choice_dropped() -> TwinHandInLog:
    """The service leaves out the holder's choice; the bit follows from what it wrote."""
    hand = sealed()
    hand.choices, held = (None, hand.choices[1]), hand.choices
    hand.choose().close()
    hand.choices = held
    return hand


def choice_forged() -> TwinHandInLog:
    hand = sealed()
    hand.choices, held = (hand.choices[0], b"\x77" * 32), hand.choices
    hand.choose().close()
    hand.choices = held
    return hand


def played_seed_shown() -> TwinHandInLog:
    """The entry shows the seed of the deck that is played."""
    hand = sealed()
    deck = json.loads(sealed().choose().log.raw[-1])["deck"]
    return hand.choose(seed=hand.seeds[deck]).close()


def too_few_choices() -> TwinHandInLog:
    return sealed().choose(choices=(b"\x33" * 32,)).close()


def bytes_misstated() -> TwinHandInLog:
    deck = json.loads(sealed().choose().log.raw[-1])["deck"]
    name = "used" if deck else "twin_used"
    return TwinHandInLog(reveal="public", n=12).reserve().promise().seal(**{name: 99}).choose().close()


def context_of_another_commitment() -> TwinHandInLog:
    hand = TwinHandInLog(reveal="public", n=12).reserve().promise()
    right, hand.commitments = hand.commitments, [hand.commitments[0], bytes(32)]
    hand.seal()
    hand.commitments = right
    return hand.choose().close()


def opened_before_the_choice() -> TwinHandInLog:
    hand = sealed()
    hand.log.time += 10
    time = hand.log.time
    hand.choose().open(0, 0)
    hand.opened[0] = (time, 0, (0,))
    return hand.close()


def chosen_late() -> TwinHandInLog:
    hand = sealed(ttl=60)
    hand.log.time += 61_000
    return hand.choose().close("aborted", reason="expired")


def reshuffled_before_the_choice() -> TwinHandInLog:
    hand = sealed()
    hand.add(entries.SealEntry, seq=1, k=1, n=1, hc=bytes(32), root=bytes(32), used=0, inputs=((0, 0),))
    return hand.choose()


def chosen_twice() -> TwinHandInLog:
    return sealed().choose().choose()


def complete_without_a_choice() -> TwinHandInLog:
    hand = sealed()
    members = {"seq": 1, "outcome": "complete", "opened": (), "seeds": (b"\x11" * 32, b"\x22" * 32)}
    hand.add(entries.CloseEntry, **members, seed=hand.seed)
    return hand


def one_seed_kept_back() -> TwinHandInLog:
    return sealed().close("aborted", reason="caller", twin_seed=None)


def both_seeds_after_a_choice() -> TwinHandInLog:
    hand = sealed().choose()
    return hand.close("aborted", reason="caller", twin_seed=hand.twin_seed)


def twin_seed_forged() -> TwinHandInLog:
    return sealed().close("aborted", reason="caller", twin_seed=bytes(48))


def promise_without_a_choice() -> TwinHandInLog:
    hand = TwinHandInLog(reveal="public", n=12).reserve()
    HandInLog.promise(hand)
    return hand.seal()


def sealed_one_deck() -> TwinHandInLog:
    hand = TwinHandInLog(reveal="public", n=12).reserve().promise()
    return hand.seal(twin_hc=None, twin_root=None, twin_used=None)


def drawn() -> TwinHandInLog:
    hand = TwinHandInLog(reveal="public", n=12).reserve().promise()
    hand.commitment = hand.commitments[0]
    hand.decks = [()]
    return hand.draw()


@pytest.mark.parametrize(
    ("cheat", "steps"),
    [
        (lambda: unfair_opened(0, list(range(12))), {"twin"}),
        (lambda: unfair_opened(1, list(range(12))), {"twin"}),
        (lambda: unfair_opened(1, [0, 0, *range(2, 12)]), {"twin"}),
        (unfair_played, {"derivation"}),
        (wrong_deck, {"choice"}),
        (choice_dropped, {"choice"}),
        (choice_forged, {"choice"}),
        (played_seed_shown, {"twin"}),
        (too_few_choices, {"choice"}),
        (bytes_misstated, {"twin"}),
        (context_of_another_commitment, {"context"}),
        (opened_before_the_choice, {"close"}),
        (chosen_late, {"deadline"}),
        (reshuffled_before_the_choice, {"entries"}),
        (chosen_twice, {"entries"}),
        (complete_without_a_choice, {"entries"}),
        (one_seed_kept_back, {"entries"}),
        (both_seeds_after_a_choice, {"entries"}),
        (twin_seed_forged, {"reveal", "derivation"}),
        (promise_without_a_choice, {"entries"}),
        (sealed_one_deck, {"entries"}),
        (drawn, {"entries"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_cheat_that_is_properly_logged_fails_in_its_steps(cheat, steps):
    assert failed(cheat()) == steps


def test_leaves_before_the_choice_fail():
    hand = sealed()
    shuffles = twin_played(reveal="public", n=12).receipt().shuffles[:1]
    report = verify(replace(hand.receipt(), shuffles=shuffles).encode(), hand.log.vkey)
    assert [step.id for step in report.failures] == ["seals"]


def test_members_of_twin_mode_at_an_ordinary_table_fail():
    ordinary = HandInLog(reveal="public", n=12)
    choose = {"seq": 1, "choices": (), "deck": 0, "seed": bytes(48)}
    for change in (
        lambda hand: hand.reserve().promise().seal(twin_hc=bytes(32), twin_root=bytes(32), twin_used=1),
        lambda hand: hand.reserve().promise().seal().close("aborted", reason="caller", twin_seed=bytes(48)),
        lambda hand: hand.reserve().promise().seal().add(entries.ChooseEntry, **choose),
    ):
        ordinary = HandInLog(reveal="public", n=12)
        change(ordinary)
        assert failed(ordinary) == {"entries"}


def test_an_own_choice_that_was_not_promised_fails():
    hand = twin_played(reveal="public", n=12)
    other = OwnContribution(id=b"seat-1", seed=b"\x11" * 32, choice=b"\x77" * 32)
    report = verify(replace(hand.receipt(), own=other).encode(), hand.log.vkey)
    assert [(step.id, step.detail) for step in report.failures] == [
        ("choice", "the own choice is not the promised one")
    ]
    ordinary = hands.played(reveal="public", n=12)
    report = verify(replace(ordinary.receipt(), own=other).encode(), ordinary.log.vkey)
    assert [step.id for step in report.failures] == ["own"]


# --- Form ---

RECEIPTS = [
    (hand.log, json.dumps(hand.receipt().members(), separators=(",", ":")).encode())
    for hand in (
        twin_played(reveal="public", n=3 + 9, choices=BOTH[0]),
        twin_played(n=12, choices=BOTH[1]),
        sealed().close("aborted", reason="caller"),
        sealed(reveal="escrow").close("aborted", reason="caller"),
    )
]


@pytest.mark.parametrize("which", range(len(RECEIPTS)))
def test_each_flipped_byte_makes_verification_fail_with_the_step_named(which):
    log, document = RECEIPTS[which]
    assert not verify(document, log.vkey).failures
    known = {*STEP_IDS, *TWIN_STEP_IDS}
    step = scaled(29, 1)
    for at in range(which, len(document), step):
        for mask in (1 << at % 8, 0x20) if step > 1 else (1, 2, 4, 8, 16, 32, 64, 128):
            damaged = bytearray(document)
            damaged[at] ^= mask
            report = verify(bytes(damaged), log.vkey)
            assert report.failures, (at, mask, document[at - 20 : at + 20])
            assert all(each.id in known and each.detail for each in report.failures)


def flips(members):
    """Yield each member of an entry with one bit of its value changed, by its name; a table's id apart."""
    for name in sorted(set(members) - {"v", "type", "table"}):
        value = members[name]
        yield name, members | {name: _flipped(value)}


def _flipped(value):
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, list):
        return [_flipped(value[0]), *value[1:]] if value else [0]
    return f"{int(value[0], 16) ^ 1:x}{value[1:]}" if value and set(value) <= set("0123456789abcdef") else f"x{value}"


@pytest.mark.parametrize("which", [4, 3])
def test_each_flipped_member_of_the_seal_and_choose_entries_fails_in_a_step_that_is_about_it(which):
    """The tree holds the flipped entry, so that no proof tells: only what the member says can."""
    about = {
        "seq": {"entries"},
        "time": {"chain"},
        "prev": {"chain"},
        "k": {"entries"},
        "n": {"seals", "twin", "derivation"},
        "hc": {"context"},
        "twin_hc": {"context"},
        "root": {"seals", "twin", "derivation"},
        "twin_root": {"seals", "twin", "derivation"},
        "used": {"twin", "derivation"},
        "twin_used": {"twin", "derivation"},
        "cr": {"contributions"},
        "pre": {"promises"},
        "absent": {"own", "contributions"},
        "choices": {"choice"},
        "deck": {"choice"},
        "seed": {"twin"},
    }
    good = twin_played(reveal="public", n=12)
    for name, changed in flips(json.loads(good.log.raw[which])):
        hand = twin_played(reveal="public", n=12)
        hand.log.raw[which] = entries.canonical(changed)
        found = failed(hand)
        # The entry behind it names it by its hash, so that the chain breaks too.
        assert found & about[name], name
