"""A log entry has one spelling; everything else is refused by the name of its member."""

import json
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from rngsvc.protocol import entries
from rngsvc.protocol.entries import (
    ABORT_REASONS,
    ENTRY_TYPES,
    LOST_REASONS,
    MAX_ENTRY_BYTES,
    AuditEntry,
    ChooseEntry,
    CloseEntry,
    DrawEntry,
    IntegrityEntry,
    KeyEntry,
    PromiseEntry,
    ReserveEntry,
    SampleEntry,
    SealEntry,
    TableEntry,
    canonical,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError, ProofError
from tests.scale import scaled

PROTOCOL = Path(entries.__file__).parent
SCHEMA = json.loads((PROTOCOL / "entry.schema.json").read_text())
SCHEMA_CHECK = jsonschema.Draft202012Validator(SCHEMA)

HASH, KEY, SIG, TABLE = b"\xab" * 32, b"\xcd" * 32, b"\xef" * 64, bytes(range(16))
CHAINED = {"time": 1_760_000_000_000, "table": TABLE, "prev": HASH}
FIXED = {"hc": HASH, "cr": HASH, "absent": (1,), "pre": HASH}
SAMPLES = [
    TableEntry(time=1, table=TABLE, prev=bytes(32), mode="shoe", reveal="public", ttl=60),
    TableEntry(time=1, table=TABLE, prev=bytes(32), mode="full", reveal="escrow", ttl=86_400, auditor=(KEY, KEY)),
    ReserveEntry(**CHAINED, first=1, commitments=(HASH, HASH)),
    PromiseEntry(**CHAINED, first=1, promises=(((b"a", HASH), (b"a-1", HASH)), ())),
    SealEntry(**CHAINED, seq=1, k=0, n=52, root=HASH, used=54, **FIXED),
    SealEntry(**CHAINED, seq=1, k=2, n=2, root=HASH, used=1, hc=HASH, inputs=((0, 5), (1, 0))),
    DrawEntry(**CHAINED, seq=1, purpose=b"button", m=8, values=(5, 4, 7), **FIXED),
    CloseEntry(
        **CHAINED, seq=1, outcome="complete", opened=((5, 0, (0, 1)), (5, 1, (0,))), seeds=(HASH, b""), seed=bytes(48)
    ),
    CloseEntry(**CHAINED, seq=1, outcome="aborted", reason="expired", opened=(), escrow=bytes(96)),
    CloseEntry(**CHAINED, seq=1, outcome="lost", reason="seed_lost", seeds=()),
    KeyEntry(time=1, old=KEY, new=HASH, sigs=(SIG, SIG)),
    IntegrityEntry(time=1, kind="daily", code=HASH, results=(HASH, "pass")),
    SampleEntry(time=1, id=b"lab-7", kind="shuffles", count=10**6),
    AuditEntry(time=1, first=0, last=9, result=HASH, verdict="undecided", signer=KEY, sig=SIG),
    TableEntry(time=1, table=TABLE, prev=bytes(32), mode="shoe", reveal="public", ttl=60, twin=1),
    ReserveEntry(**CHAINED, first=1, commitments=(HASH, KEY), twin_commitments=(KEY, HASH)),
    PromiseEntry(**CHAINED, first=1, promises=(((b"a", HASH, KEY), (b"a-1", HASH, KEY)), ())),
    SealEntry(**CHAINED, seq=1, k=0, n=52, root=HASH, used=54, **FIXED, twin_hc=KEY, twin_root=KEY, twin_used=0),
    ChooseEntry(**CHAINED, seq=1, choices=(HASH, b""), deck=1, seed=bytes(48)),
    CloseEntry(**CHAINED, seq=1, outcome="aborted", reason="caller", seed=bytes(48), twin_seed=b"\x01" * 48),
    CloseEntry(**CHAINED, seq=1, outcome="aborted", reason="caller", escrow=bytes(96), twin_escrow=b"\x01" * 96),
]  # fmt: skip
TWIN_TABLE, TWIN_RESERVE, TWIN_PROMISE, TWIN_SEAL, CHOOSE, TWIN_CLOSE, TWIN_ESCROW_CLOSE = SAMPLES[-7:]
OF_TYPE = {entry.type: entry for entry in reversed(SAMPLES)}


def members(entry):
    return json.loads(entry.encode())


@pytest.mark.parametrize("entry", SAMPLES, ids=lambda entry: entry.type)
def test_an_entry_survives_its_bytes_and_they_are_rfc_8785(entry):
    raw = entry.encode()
    assert parse_entry(raw) == entry
    assert raw == rfc8785.dumps(json.loads(raw))
    assert SCHEMA_CHECK.is_valid(json.loads(raw)), list(SCHEMA_CHECK.iter_errors(json.loads(raw)))


def test_there_is_a_sample_of_every_type_and_the_schema_and_the_page_know_them_all():
    assert set(OF_TYPE) == set(ENTRY_TYPES)
    assert {each["$ref"].removeprefix("#/$defs/") for each in SCHEMA["oneOf"]} == set(ENTRY_TYPES)
    page = (PROTOCOL / "transparency-log.md").read_text(encoding="utf-8")
    for name, kind in ENTRY_TYPES.items():
        assert f"`{name}`" in page
        for each in fields(kind):
            assert f"`{each.name}`" in page, (name, each.name)
    for word in ABORT_REASONS + LOST_REASONS + entries.VERDICTS + entries.SAMPLE_KINDS + entries.INTEGRITY_KINDS:
        assert f"`{word}`" in page


json_values = st.recursive(
    st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.sampled_from("abcxyz0189_ /-"), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from("abpqz_1"), max_size=4), inner),
    max_leaves=20,
)


@settings(max_examples=scaled(200, 3_000), deadline=None)
@given(st.dictionaries(st.sampled_from(["v", "type", "time", "a", "zz", "seq", "prev"]), json_values))
def test_what_sorted_members_without_spaces_give_is_what_rfc_8785_gives(value):
    assert canonical(value) == rfc8785.dumps(value)


hashes = st.binary(min_size=32, max_size=32)
seqs = st.integers(1, 2**53 - 1)
hand_lists = st.lists(st.dictionaries(st.binary(min_size=1, max_size=64), hashes, max_size=16), min_size=1, max_size=5)


@settings(max_examples=scaled(100, 2_000), deadline=None)
@given(st.integers(0, 2**53 - 1), hashes, st.integers(1, 2**52), hand_lists)
def test_promises_of_any_ids_survive(time, prev, first, lists):
    promises = tuple(tuple(sorted(each.items())) for each in lists)
    entry = PromiseEntry(time=time, table=TABLE, prev=prev, first=first, promises=promises)
    assert parse_entry(entry.encode()) == entry
    assert SCHEMA_CHECK.is_valid(members(entry))


@settings(max_examples=scaled(100, 2_000), deadline=None)
@given(seqs, st.integers(1, 15), st.data())
def test_reshuffles_of_any_locations_survive(seq, k, data):
    location = st.tuples(st.integers(0, k - 1), st.integers(0, 1019))
    inputs = tuple(sorted(data.draw(st.sets(location, min_size=1, max_size=30))))
    entry = SealEntry(**CHAINED, seq=seq, k=k, n=len(inputs), root=HASH, used=9, hc=HASH, inputs=inputs)
    assert parse_entry(entry.encode()) == entry
    assert SCHEMA_CHECK.is_valid(members(entry))


def change(kind, *path_and_value):
    """Return the bytes of a sample of this type with the member at the path changed."""
    *path, last, value = path_and_value
    changed = members(OF_TYPE[kind])
    at = changed
    for step in path:
        at = at[step]
    if value is DROP:
        del at[last]
    else:
        at[last] = value
    return canonical(changed)


DROP = object()
HEX = HASH.hex()


@pytest.mark.parametrize(
    ("raw", "member"),
    [
        (b"", "entry|"),
        (b"[]", "entry"),
        (b"\xc3\xa4", "entry"),
        (b'{"v":"rs1","type":"table","v":"rs1"}', "v"),
        (b"[" * 60_000, "entry"),
        (b" " * 65_536, "entry"),
        (change("table", "v", "rs2"), "v"),
        (change("table", "v", DROP), "v"),
        (change("table", "type", "tables"), "type"),
        (change("table", "type", 1), "type"),
        (change("table", "type", DROP), "type"),
        (change("table", "time", -1), "time"),
        (change("table", "time", 2**53), "time"),
        (change("table", "time", True), "time"),
        (change("table", "time", "1"), "time"),
        (change("table", "time", None), "time"),
        (change("table", "time", DROP), "time"),
        (change("table", "extra", 1), "extra"),
        (change("table", "mode", "Shoe"), "mode"),
        (change("table", "mode", None), "mode"),
        (change("table", "reveal", "escrow"), "auditor"),
        (change("table", "auditor", [HEX, HEX]), "auditor"),
        (change("table", "auditor", None), "auditor"),
        (change("table", "prev", HEX), "prev"),
        (change("table", "prev", "0" * 63), "prev"),
        (change("table", "ttl", 59), "ttl"),
        (change("table", "ttl", 2_592_001), "ttl"),
        (change("table", "table", "00" * 15), "table"),
        (change("table", "table", TABLE.hex().upper()), "table"),
        (change("table", "table", TABLE.hex()[:-2] + " 0"), "table"),
        (change("reserve", "first", 0), "first"),
        (change("reserve", "first", 2**53 - 1), "first"),
        (change("reserve", "commitments", []), "commitments"),
        (change("reserve", "commitments", [HEX] * 65), "commitments"),
        (change("reserve", "commitments", 1, HEX.upper()), "commitments[1]"),
        (change("reserve", "commitments", HEX), "commitments"),
        (change("promise", "promises", []), "promises"),
        (change("promise", "promises", 0, 0, 0, ""), "promises[0][0][0]"),
        (change("promise", "promises", 0, 0, 0, "00" * 65), "promises[0][0][0]"),
        (change("promise", "promises", 0, 0, 1, "00" * 31), "promises[0][0][1]"),
        (change("promise", "promises", 0, 0, ["61"]), "promises[0][0]"),
        (change("promise", "promises", 0, 0, 0, b"a-1".hex()), "promises[0]"),
        (change("promise", "promises", 0, 0, 0, b"b".hex()), "promises[0]"),
        (change("promise", "promises", 0, [["61", HEX]] * 17), "promises[0]"),
        (change("promise", "promises", [[]] * 65), "promises"),
        (change("promise", "first", 2**53 - 1), "first"),
        (change("seal", "k", 16), "k"),
        (change("seal", "k", 1), "cr"),
        (change("seal", "n", 0), "n"),
        (change("seal", "n", 1021), "n"),
        (change("seal", "cr", DROP), "cr"),
        (change("seal", "pre", DROP), "pre"),
        (change("seal", "absent", DROP), "absent"),
        (change("seal", "absent", [1, 0]), "absent"),
        (change("seal", "absent", [0, 0]), "absent"),
        (change("seal", "absent", [16]), "absent[0]"),
        (change("seal", "inputs", [[0, 0]]), "inputs"),
        (change("seal", "used", 65_537), "used"),
        (canonical(members(SAMPLES[5]) | {"cr": HEX}), "cr"),
        (canonical({name: value for name, value in members(SAMPLES[5]).items() if name != "inputs"}), "inputs"),
        (canonical(members(SAMPLES[5]) | {"inputs": [[1, 0], [0, 5]]}), "inputs"),
        (canonical(members(SAMPLES[5]) | {"inputs": [[0, 5], [0, 5]]}), "inputs"),
        (canonical(members(SAMPLES[5]) | {"inputs": [[0, 5], [2, 0]]}), "inputs"),
        (canonical(members(SAMPLES[5]) | {"inputs": [[0, 5], [1, 1020]]}), "inputs[1][1]"),
        (canonical(members(SAMPLES[5]) | {"n": 3}), "n"),
        (change("draw", "purpose", ""), "purpose"),
        (change("draw", "purpose", "80"), "purpose"),
        (change("draw", "purpose", "41" * 65), "purpose"),
        (change("draw", "m", 7), "values[2]"),
        (change("draw", "m", 0), "m"),
        (change("draw", "values", []), "values"),
        (change("draw", "values", [0] * 1025), "values"),
        (change("draw", "absent", [2, 1]), "absent"),
        (change("close", "outcome", "won"), "outcome"),
        (change("close", "reason", "caller"), "reason"),
        (change("close", "outcome", "aborted"), "reason"),
        (change("close", "seed", DROP), "seed"),
        (change("close", "escrow", "00" * 96), "escrow"),
        (change("close", "seeds", 0, "00" * 31), "seeds[0]"),
        (change("close", "seeds", 0, "00" * 65), "seeds[0]"),
        (change("close", "seeds", 0, None), "seeds[0]"),
        (change("close", "opened", 1, 0, 4), "opened[1][0]"),
        (change("close", "opened", 1, 0, 1_760_000_000_001), "opened[1][0]"),
        (change("close", "opened", 0, 2, [1, 0]), "opened[0][2]"),
        (change("close", "opened", 0, 2, []), "opened[0][2]"),
        (change("close", "opened", 1, [5, 0, [1]]), "opened[1][2]"),
        (change("close", "opened", 1, [5, 0]), "opened[1]"),
        (canonical(members(SAMPLES[8]) | {"reason": "seed_lost"}), "reason"),
        (canonical(members(SAMPLES[8]) | {"reason": "bored"}), "reason"),
        (canonical(members(SAMPLES[9]) | {"reason": "expired"}), "reason"),
        (canonical(members(SAMPLES[9]) | {"seed": "00" * 48}), "seed"),
        (change("key", "new", KEY.hex()), "new"),
        (change("key", "sigs", [SIG.hex()]), "sigs"),
        (change("key", "table", TABLE.hex()), "table"),
        (change("integrity", "kind", "hourly"), "kind"),
        (change("integrity", "results", 1, "good"), "results[1]"),
        (change("sample", "kind", "noise"), "kind"),
        (change("sample", "count", 0), "count"),
        (change("sample", "id", ""), "id"),
        (change("audit", "first", 10), "last"),
        (change("audit", "verdict", ""), "verdict"),
        (change("audit", "sig", DROP), "sig"),
        (change("audit", "time", 1.5), "entry"),
        (canonical(members(TWIN_TABLE) | {"twin": 0}), "twin"),
        (canonical(members(TWIN_TABLE) | {"twin": 2}), "twin"),
        (canonical(members(TWIN_TABLE) | {"twin": True}), "twin"),
        (canonical(members(TWIN_RESERVE) | {"twin_commitments": [HEX]}), "twin_commitments"),
        (canonical(members(TWIN_RESERVE) | {"twin_commitments": []}), "twin_commitments"),
        (canonical(members(TWIN_RESERVE) | {"twin_commitments": [KEY.hex()] * 2}), "twin_commitments[1]"),
        (canonical(members(TWIN_RESERVE) | {"commitments": [KEY.hex()] * 2}), "twin_commitments[0]"),
        (canonical(members(TWIN_PROMISE) | {"promises": [[["61", HEX, HEX], ["62", HEX]]]}), "promises[0]"),
        (canonical(members(TWIN_PROMISE) | {"promises": [[], [["61", HEX]], [["62", HEX, HEX]]]}), "promises[2]"),
        (canonical(members(TWIN_PROMISE) | {"promises": [[["61", HEX, HEX, HEX]]]}), "promises[0][0]"),
        (canonical(members(TWIN_PROMISE) | {"promises": [[["61", HEX, HEX[:-2]]]]}), "promises[0][0][2]"),
        (canonical({name: value for name, value in members(TWIN_SEAL).items() if name != "twin_hc"}), "twin_root"),
        (canonical({name: value for name, value in members(TWIN_SEAL).items() if name != "twin_root"}), "twin_root"),
        (canonical({name: value for name, value in members(TWIN_SEAL).items() if name != "twin_used"}), "twin_used"),
        (canonical(members(TWIN_SEAL) | {"twin_used": 65_537}), "twin_used"),
        (canonical(members(SAMPLES[5]) | {"twin_hc": HEX, "twin_root": HEX, "twin_used": 1}), "twin_hc"),
        (change("choose", "seq", 0), "seq"),
        (change("choose", "deck", 2), "deck"),
        (change("choose", "deck", DROP), "deck"),
        (change("choose", "choices", 0, "00" * 31), "choices[0]"),
        (change("choose", "choices", 0, "00" * 65), "choices[0]"),
        (change("choose", "choices", [""] * 17), "choices"),
        (change("choose", "seed", "00" * 47), "seed"),
        (change("choose", "seed", DROP), "seed"),
        (canonical(members(TWIN_CLOSE) | {"twin_escrow": "00" * 96}), "twin_escrow"),
        (canonical(members(TWIN_ESCROW_CLOSE) | {"twin_seed": "00" * 48}), "twin_seed"),
        (change("close", "twin_seed", "00" * 48), "twin_seed"),
        (canonical(members(SAMPLES[9]) | {"twin_seed": "00" * 48}), "twin_seed"),
        (canonical(members(SAMPLES[9]) | {"twin_escrow": "00" * 96}), "twin_escrow"),
    ],
)
def test_what_is_not_an_entry_is_refused_by_the_name_of_its_member(raw, member):
    with pytest.raises(MalformedError) as refused:
        parse_entry(raw)
    assert refused.value.field in member.split("|")


@pytest.mark.parametrize("entry", SAMPLES, ids=lambda entry: entry.type)
def test_other_spellings_of_the_same_json_are_refused(entry):
    raw = entry.encode()
    unsorted = json.dumps(dict(reversed(members(entry).items())), separators=(",", ":")).encode()
    escaped = raw.replace(b'"rs1"', b'"\\u0072s1"')
    for other in (raw + b"\n", b" " + raw, raw.replace(b",", b", ", 1), unsorted, escaped):
        assert json.loads(other) == json.loads(raw)
        with pytest.raises(MalformedError, match="canonical"):
            parse_entry(other)


@settings(max_examples=scaled(300, 5_000), deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_schema_and_parser_agree_on_members_of_other_forms(entry, data):
    """Each member in turn is dropped or gets some other value; what the schema refuses the parser refuses too.

    The other way about the parser knows more: orders, sums and signatures are beyond a schema.
    """
    changed = members(entry)
    name = data.draw(st.sampled_from([*sorted(changed), "other"]))
    value = data.draw(json_values | st.none() | st.booleans() | st.just(DROP))
    if value is DROP:
        changed.pop(name, None)
    else:
        changed[name] = value
    try:
        parse_entry(canonical(changed))
    except MalformedError:
        return
    assert SCHEMA_CHECK.is_valid(changed)


@pytest.mark.parametrize("entry", SAMPLES, ids=lambda entry: entry.type)
def test_each_flipped_bit_gives_another_entry_or_none(entry):
    good = entry.encode()
    for bit in range(8 * len(good)):
        changed = bytearray(good)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = parse_entry(bytes(changed))
        except MalformedError:
            continue
        assert found != entry


@settings(max_examples=scaled(300, 5_000), deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_the_parser_fail_otherwise(raw):
    with pytest.raises(MalformedError):
        parse_entry(raw)


def test_the_largest_entry_is_65535_bytes():
    full = PromiseEntry(**CHAINED, first=1, promises=tuple(
        tuple((bytes([i]) * 64, HASH) for i in range(16)) for _ in range(64)
    ))  # fmt: skip
    assert len(full.encode()) > MAX_ENTRY_BYTES
    with pytest.raises(MalformedError, match="65535"):
        parse_entry(full.encode())
    split = replace(full, promises=full.promises[:19])
    assert parse_entry(split.encode()) == split


def test_a_twin_seal_is_two_seals_and_an_ordinary_one_is_its_own_deck_0():
    decks = [TWIN_SEAL.deck(number) for number in (0, 1)]
    assert [(deck.hc, deck.root, deck.used, deck.twin_hc) for deck in decks] == [
        (HASH, HASH, 54, None),
        (KEY, KEY, 0, None),
    ]
    assert OF_TYPE["seal"].deck(0) == OF_TYPE["seal"]
    assert TWIN_RESERVE.commitments_of(2) == (KEY, HASH)
    assert OF_TYPE["reserve"].commitments_of(2) == (HASH,)


# --- Signatures in entries ---

OLD, NEW = (Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))


def raw_key(private):
    return private.public_key().public_bytes_raw()


def test_a_key_entry_is_signed_by_both_keys_for_one_log():
    message = KeyEntry.signed_bytes("o.example", raw_key(OLD), raw_key(NEW))
    good = KeyEntry(time=1, old=raw_key(OLD), new=raw_key(NEW), sigs=(OLD.sign(message), NEW.sign(message)))
    good.verify("o.example")
    for bad, origin in (
        (good, "other.example"),
        (replace(good, sigs=good.sigs[::-1]), "o.example"),
        (replace(good, sigs=(good.sigs[0], SIG)), "o.example"),
        (replace(good, new=KEY), "o.example"),
    ):
        with pytest.raises(ProofError):
            bad.verify(origin)


def test_an_audit_entry_is_signed_without_its_signature():
    unsigned = replace(OF_TYPE["audit"], signer=raw_key(OLD))
    good = replace(unsigned, sig=OLD.sign(unsigned.signed_bytes()))
    assert b'"sig"' not in good.signed_bytes()
    good.verify()
    with pytest.raises(ProofError):
        replace(good, verdict="pass").verify()
