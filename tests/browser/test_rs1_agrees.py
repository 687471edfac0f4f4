"""Python and the module say the same of every document: step by step, word by word, good or damaged."""

import json
import os
import random
import re
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from rngsvc.protocol.cosignature import CosignerKey, cosign
from rngsvc.protocol.entries import KeyEntry
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.escrow import escrow_info, seal_seed
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.receipt import OwnContribution, Receipt
from rngsvc.protocol.signed_note import SignedNote
from rngsvc.protocol.tlog_proof import TlogProof
from rngsvc.protocol.verify import STEP_IDS, verify
from tests.browser.engines import Engine, Row, steps_of, verify_all
from tests.rngsvc.protocol import hands, test_verify, test_verify_twin
from tests.rngsvc.protocol.hands import HandInLog, MemoryLog, TwinHandInLog, played, twin_played
from tests.scale import scaled

NOW = hands.START + 10**9
FIRST = OwnContribution(id=b"seat-1", seed=b"\x11" * 32)


def differences(
    engine: Engine, rows: list[Row], auditor: X25519PrivateKey | None = None
) -> list[tuple[str | bytes, list[str], list[str]]]:
    """Return (document, Python's step, the module's step) for every step that differs."""
    found = []
    reports = verify_all(engine, rows, auditor=pem(auditor) if auditor else "")
    for (document, key, now), module_steps in zip(rows, reports, strict=True):
        assert key is not None, "Python always has a key"
        python_steps = steps_of(verify(document, key, now, auditor))
        assert len(python_steps) == len(module_steps)
        found += [(document, ours, its) for ours, its in zip(python_steps, module_steps, strict=True) if ours != its]
    return found


def pem(key: X25519PrivateKey | Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# --- Hands of every kind ---


def of_any_size(n: int) -> HandInLog:
    """A public hand of n items with a few cards open and, where there are enough, a reshuffle of every second one."""
    hand = HandInLog(reveal="public", n=n).reserve().promise().seal().open(0, *range(0, n, max(1, n // 5)))
    rest = [(0, p) for p in range(1, n, 2)]
    if rest:
        hand.reshuffle(*rest).open(1, 0)
    return hand.close()


def with_changed_keys(*, forged: bool = False) -> HandInLog:
    hand = HandInLog(reveal="public").reserve()
    if forged:
        hand.log.key = 7
        sigs = (hands.private_key(7).sign(b"x"), hands.private_key(2).sign(b"x"))
        hand.indices.append(hand.log.append(KeyEntry, old=hands.public_key(1), new=hands.public_key(2), sigs=sigs))
        hand.log.key = 2
    else:
        hand.indices.append(hand.log.change_key(2))
    hand.promise()
    hand.indices.append(hand.log.change_key(3))
    return hand.seal().close()


def deep() -> HandInLog:
    """Fifteen reshuffles, as many as there can be."""
    hand = HandInLog(reveal="public", n=36).reserve().promise().seal()
    places = [(0, p) for p in range(20, 36)]
    for k in range(1, 16):
        hand.open(k - 1, 0).reshuffle(*places)
        places = [(k, p) for p in range(len(places))][1:]
    return hand.open(15, 0).close()


SIZES = [1, 2, 3, 5, 32, 36, 52, 53, 54, 104, 255, 256, 257, 258, 511, 512, 513, 1000, 1019, 1020]
LIVES = {
    "reserved": HandInLog().reserve(),
    "promised": HandInLog().reserve().promise(),
    "sealed": HandInLog().reserve().promise().seal(),
    "public": played(reveal="public"),
    "escrow": played(),
    "full": HandInLog(mode="full", reveal="public").reserve().promise().seal().open(0, *range(52)).close(),
    "nobody": HandInLog(reveal="public", contributions=()).reserve().seal().close(),
    "absent": HandInLog(contributions=((b"a", None), (b"b", b"\x01" * 64))).reserve().promise().seal().close(),
    "drawn": HandInLog(reveal="public").reserve().promise().draw().close(),
    "large draw": HandInLog(reveal="public").reserve().promise().draw(b"lottery", 2**53 - 1, 1024).close(),
    "unused": HandInLog().reserve().close("aborted", reason="caller"),
    "aborted": HandInLog(reveal="public").reserve().promise().seal().close("aborted", reason="misdeal"),
    "lost": HandInLog().reserve().promise().seal().close("lost", reason="seed_lost"),
    "all lost": HandInLog().reserve().promise().seal().close("lost", reason="seed_lost", seeds=None),
    "keys changed": with_changed_keys(),
    "key forged": with_changed_keys(forged=True),
    "fifteen reshuffles": deep(),
    "twin": twin_played(reveal="public"),
    "twin, escrow": twin_played(choices=test_verify_twin.BOTH[1]),
    "twin, full": TwinHandInLog(mode="full").reserve().promise().seal().choose().open(0, *range(52)).close(),
    "twin, one chose": twin_played(choices=(None, b"\x44" * 64)),
    "twin, nobody chose": twin_played(choices=(None, None)),
    "twin, nobody promised": TwinHandInLog(contributions=(), choices=()).reserve().seal().choose().close(),
    "twin, reserved": TwinHandInLog().reserve(),
    "twin, sealed": TwinHandInLog().reserve().promise().seal(),
    "twin, chosen": TwinHandInLog().reserve().promise().seal().choose(),
    "twin, aborted": TwinHandInLog().reserve().promise().seal().close("aborted", reason="caller"),
    "twin, unused": TwinHandInLog(reveal="public").reserve().close("aborted", reason="caller"),
    "twin, lost": TwinHandInLog().reserve().promise().seal().close("lost", reason="seed_lost"),
}


def test_hands_of_every_kind_are_reported_alike(engine: Engine) -> None:
    rows: list[Row] = []
    for hand in LIVES.values():
        rows += [(hand.receipt(own).encode(), hand.log.vkey, NOW) for own in (0, None)]
        rows.append((hand.receipt().encode(), hand.log.vkey, hands.START - 10**6))  # a clock that is behind
        rows.append((hand.receipt().encode(), MemoryLog(key=9).vkey, NOW))
        rows.append((hand.receipt().encode(), MemoryLog(origin="other.example").vkey, None))
    assert differences(engine, rows) == []


def test_decks_of_every_size_are_derived_alike(engine: Engine) -> None:
    sizes = SIZES + [n for n in range(1, 1021) if n not in SIZES and n % scaled(101, 1) == 0]
    hands_of_sizes = [of_any_size(n) for n in sizes]
    rows: list[Row] = [(hand.receipt().encode(), hand.log.vkey, NOW) for hand in hands_of_sizes]
    assert differences(engine, rows) == []
    for n, steps in zip(sizes, verify_all(engine, rows), strict=True):
        assert {outcome for step, _, outcome, _ in steps if step != "history"} == {"checked"}, n


# --- Whoever cheats ---


@pytest.mark.parametrize("engine", ["node"], indirect=True)
def test_each_cheat_fails_in_the_same_steps(engine: Engine) -> None:
    rows: list[Row] = []
    for test in (
        test_verify.test_a_cheat_that_is_properly_logged_fails_in_its_steps,
        test_verify_twin.test_a_cheat_that_is_properly_logged_fails_in_its_steps,
    ):
        for cheat, _ in test.pytestmark[0].args[1]:
            hand = cheat()
            mine = hand.receipt().own if isinstance(hand, TwinHandInLog) else FIRST
            rows += [(replace(hand.receipt(None), own=own).encode(), hand.log.vkey, NOW) for own in (mine, None)]
    assert len(rows) >= 90
    assert differences(engine, rows) == []
    assert all("failed" in {step[2] for step in steps} for steps in verify_all(engine, rows[::2]))


@pytest.mark.parametrize("engine", ["node"], indirect=True)
def test_documents_of_every_wrong_form_are_refused_in_the_same_words(engine: Engine) -> None:
    rows: list[Row] = []
    for test in (
        test_verify.test_a_document_of_another_form_is_refused_by_name,
        test_verify.test_a_changed_receipt_fails_in_its_steps,
    ):
        rows += [(document, test_verify.GOOD.log.vkey, NOW) for document, _ in test.pytestmark[0].args[1]]
    for test in (
        test_verify.test_a_history_that_does_not_follow_the_shuffles_fails_and_says_where,
        test_verify.test_an_event_of_another_form_is_refused_by_name,
    ):
        for events, _ in test.pytestmark[0].args[1]:
            listed = events if isinstance(events, list | tuple) else [events]
            rows.append((test_verify.history(*listed), test_verify.GOOD.log.vkey, NOW))
    rows.append((test_verify.history(*test_verify.DEALT), test_verify.GOOD.log.vkey, NOW))
    assert len(rows) > 60
    assert differences(engine, rows) == []


# --- Damage ---

COMPACT = [*test_verify.COMPACT, *test_verify_twin.RECEIPTS]


@pytest.mark.parametrize("which", range(len(COMPACT)))
def test_each_flipped_bit_gives_the_same_report(engine: Engine, which: int) -> None:
    log, document = COMPACT[which]
    rng = random.Random(which)
    places = rng.sample(range(8 * len(document)), scaled(60, 5_000))
    rows: list[Row] = []
    for at in places:
        damaged = bytearray(document)
        damaged[at // 8] ^= 1 << at % 8
        rows.append((bytes(damaged), log.vkey, NOW))
    assert differences(engine, rows) == []
    assert all("failed" in {step[2] for step in steps} for steps in verify_all(engine, rows))


def changed_members(value: object, rng: random.Random) -> object:
    """Return ``value`` with one member or item, at any depth, dropped, repeated, or replaced by another of its kind."""
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        match rng.randrange(8):
            case 0:
                return {k: v for k, v in value.items() if k != name}
            case 1:
                return value | {name: rng.choice([None, True, -1, 1.5, 2**53, "", [], {}, "é\n'", 10**30])}
            case 2:
                return value | {rng.choice(["x", "é\u0101\U0001f0a1", "__proto__", "1", "\\", "v"]): 1}
        return value | {name: changed_members(value[name], rng)}
    if isinstance(value, list) and value:
        i = rng.randrange(len(value))
        match rng.randrange(8):
            case 0:
                return value[:i] + value[i + 1 :]
            case 1:
                return [*value, value[i]]
            case 2:
                j = rng.randrange(len(value))
                return [value[j] if at == i else value[i] if at == j else each for at, each in enumerate(value)]
        return [changed_members(each, rng) if at == i else each for at, each in enumerate(value)]
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, 0, 1020, 2**53 - 1])
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(changed_members(json.loads(value), rng), sort_keys=True, separators=(",", ":"))
    if isinstance(value, str) and value:
        i = rng.randrange(len(value))
        return value[:i] + rng.choice("0a \n+=9") + value[i + 1 :]
    return value


@pytest.mark.parametrize("which", range(len(COMPACT)))
def test_each_changed_member_gives_the_same_report(engine: Engine, which: int) -> None:
    log, document = COMPACT[which]
    rng = random.Random(1000 + which)
    good = json.loads(document)
    rows: list[Row] = [(json.dumps(changed_members(good, rng)), log.vkey, NOW) for _ in range(scaled(80, 5_000))]
    assert differences(engine, rows) == []


# --- Witnesses ---

W1, W2, W3 = (CosignerKey(f"w{number}.example", hands.public_key(number)) for number in (11, 12, 13))
NAMED = f"witness W1 {W1.vkey} https://w1.example/\nwitness W2 {W2.vkey}\nwitness W3 {W3.vkey}\n"
POLICIES = [
    f"{NAMED}quorum none\n",
    f"# both\n{NAMED}group both all W1 W2\nquorum both\n",
    f"{NAMED}group two 2 W1 W2 W3\nquorum two",
    f"{NAMED}group pair all W1 W2\ngroup one any pair W3\nquorum one\n",
    f"{NAMED}\tquorum\t W3",
    f"witness W1 {CosignerKey('w1.example', hands.public_key(14)).vkey}\nquorum W1\n",
]
NO_POLICIES = [
    "",
    "quorum",
    "quorum none\nquorum none",
    "quorum W1",
    "quorum none\x00",
    "witness W1 nonsense\nquorum none",
    f"witness W1 {hands.MemoryLog().vkey}\nquorum none",
    f"log {W1.vkey}\nquorum none",
    f"log {hands.MemoryLog().vkey}\nlog {hands.MemoryLog().vkey} x\nquorum none",
    f"log {hands.MemoryLog().vkey} x y\nquorum none",
    f"{NAMED}witness W4 {W1.vkey}\nquorum none",
    f"{NAMED}witness none {CosignerKey('x', hands.public_key(15)).vkey}\nquorum none",
    f"{NAMED}group W1 any W2\nquorum none",
    f"{NAMED}group g any W2 W9\nquorum none",
    f"{NAMED}group g any W2 W2\nquorum none",
    f"{NAMED}group g any\nquorum none",
    *(f"{NAMED}group g {threshold} W1 W2\nquorum none" for threshold in ("0", "3", "01", "-1", "none", "constructor")),
    "witness \u00e9 x\nquorum none",
]


def cosigned(receipt: Receipt, **witnesses: CosignerKey) -> Receipt:
    """Return the receipt with cosignatures on every checkpoint; a witness named `wrong` signs another time."""
    logged = []
    for each in receipt.entries:
        proof = TlogProof.parse(each.proof)
        note = SignedNote.parse(proof.checkpoint)
        for how, key in witnesses.items():
            number = next(number for number in range(11, 14) if hands.public_key(number) == key.public_key)
            line = cosign(note.text, key, hands.private_key(number).sign, 1_760_000_000)
            if how == "wrong":
                line = replace(line, signature=line.signature[:7] + b"\x01" + line.signature[8:])
            note = SignedNote(note.text, (*note.signatures, line))
        logged.append(replace(each, proof=replace(proof, checkpoint=note.encode()).encode()))
    return replace(receipt, entries=tuple(logged))


@pytest.mark.parametrize("policy", POLICIES)
def test_cosignatures_are_counted_alike(engine: Engine, policy: str) -> None:
    hand = LIVES["public"]
    receipts = [
        hand.receipt(),
        cosigned(hand.receipt(), a=W1),
        cosigned(hand.receipt(), a=W1, b=W2),
        cosigned(hand.receipt(), a=W2, b=W3),
        cosigned(hand.receipt(), a=W1, b=W2, wrong=W3),
        replace(
            hand.receipt(),
            entries=(*cosigned(hand.receipt(), a=W1, b=W2, c=W3).entries[:-1], hand.receipt().entries[-1]),
        ),
    ]
    rows: list[Row] = [(each.encode(), hand.log.vkey, NOW) for each in receipts]
    found = verify_all(engine, rows, policy)
    expected = [
        steps_of(verify(document, hand.log.vkey, NOW, policy=Policy.parse(policy.encode()))) for document, *_ in rows
    ]
    assert found == expected
    assert all(steps[-1][0] == "witnesses" for steps in found)


def test_a_policy_that_is_none_is_refused_in_the_same_words(engine: Engine) -> None:
    expected = []
    for policy in NO_POLICIES:
        with pytest.raises(MalformedError) as refused:
            Policy.parse(policy.encode())
        expected.append(str(refused.value))
    assert engine.call("policyErrors", [*NO_POLICIES, *POLICIES]) == [*expected, *([""] * len(POLICIES))]


# --- The auditor's key ---


def test_an_auditors_key_opens_the_seed_and_the_order_comes_out_again(engine: Engine) -> None:
    names = ["escrow", "absent", "reserved", "unused", "lost", "public", *filter(re.compile("twin").match, LIVES)]
    escrowed = [LIVES[name] for name in names]
    rows: list[Row] = [(hand.receipt().encode(), hand.log.vkey, NOW) for hand in escrowed]
    assert differences(engine, rows, hands.AUDITOR) == []
    (steps, *_) = verify_all(engine, rows, auditor=pem(hands.AUDITOR))
    assert ["checked", "3 shuffles derived again"] in [each[2:] for each in steps if each[0] == "derivation"]
    assert differences(engine, rows, X25519PrivateKey.from_private_bytes(b"\x08" * 32)) == []


def test_escrowed_seeds_are_opened_as_python_seals_them(engine: Engine) -> None:
    origin, table = hands.ORIGIN, hands.TABLE
    commitment = b"\xcc" * 32
    rows, seeds = [], []
    signing = pem(hands.private_key(1))  # stands behind the opening key in an auditor's file
    for number in range(1, scaled(20, 500)):
        key = X25519PrivateKey.generate()
        seed = os.urandom(48)
        escrow = seal_seed(seed, key.public_key().public_bytes_raw(), escrow_info(origin, table, number, commitment))
        rows.append([pem(key) + signing, escrow.hex(), origin, table.hex(), number, commitment.hex()])
        seeds.append(seed.hex())
    assert engine.call("openAll", rows) == seeds
    mine = rows[0]
    closed = "the escrow does not open with this key for this hand"
    refused = [
        ([rows[1][0], *mine[1:]], closed),
        ([*mine[:2], "other.example", *mine[3:]], closed),
        ([*mine[:3], "00" * 16, *mine[4:]], closed),
        ([*mine[:4], 3, mine[5]], closed),
        ([*mine[:5], "00" * 32], closed),
        ([mine[0], "00" * 32 + mine[1][64:], *mine[2:]], closed),  # a point of small order
        ([mine[0], mine[1][:-2] + f"{int(mine[1][-2:], 16) ^ 1:02x}", *mine[2:]], closed),
        (["nonsense", *mine[1:]], "auditor: must be a private key in PEM"),
        (["-----BEGIN PRIVATE KEY-----\n*\n-----END PRIVATE KEY-----", *mine[1:]], "auditor: must be standard base64"),
        ([signing, *mine[1:]], "auditor: must be an X25519 key"),
    ]
    found = engine.call("openAll", [row for row, _ in refused])
    assert [said[: len(why)] for said, (_, why) in zip(found, refused, strict=True)] == [why for _, why in refused]


# --- What the module does that Python does not ---


def test_without_a_key_the_signature_alone_is_not_shown(engine: Engine) -> None:
    hand = LIVES["public"]
    (steps,) = verify_all(engine, [(hand.receipt().encode(), None, NOW)])
    assert [step for step, *_ in steps] == list(STEP_IDS)
    open_steps = {step: detail for step, _, outcome, detail in steps if outcome != "checked"}
    assert open_steps == {
        "keys": "no key of the log was given",
        "checkpoints": "no key of the log was given",
        "history": "the document is a receipt alone",
    }
