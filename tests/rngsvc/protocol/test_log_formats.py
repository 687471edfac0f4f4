"""Notes, checkpoints, proofs and tiles are the public formats, read strictly."""

import contextlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from rngsvc.protocol import merkle, signed_note
from rngsvc.protocol.checkpoint import Checkpoint, parse_decimal, verify_checkpoint
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.signed_note import NoteKey, SignedNote, verify_ed25519
from rngsvc.protocol.tiles import Tile, encode_bundle, nodes_from_tiles, parse_bundle
from rngsvc.protocol.tlog_proof import TlogProof
from tests.reference import rfc6962
from tests.scale import scaled

ED25519_CASES = json.loads((Path(__file__).parents[2] / "vectors/ed25519/wycheproof.json").read_text())
PRIVATE = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"\x02" * 32)
ORIGIN = "cardroom.example/rng"
KEY = NoteKey(ORIGIN, PRIVATE.public_key().public_bytes_raw())
OTHER_KEY = NoteKey("witness.example", OTHER.public_key().public_bytes_raw())
TEXT = "one line\n\nanother after an empty one\n"
NOTE = signed_note.sign(TEXT, KEY, PRIVATE.sign)


# --- Ed25519 ---


@pytest.mark.parametrize(
    ("public_key", "test"),
    [(group["publicKey"]["pk"], test) for group in ED25519_CASES["testGroups"] for test in group["tests"]],
)
def test_every_wycheproof_signature_is_accepted_or_refused_as_it_should(public_key, test):
    def check():
        key, sig, message = bytes.fromhex(public_key), bytes.fromhex(test["sig"]), bytes.fromhex(test["msg"])
        verify_ed25519(key, sig, message, "it")

    if test["result"] == "valid":
        check()
    else:
        with pytest.raises(ProofError):
            check()


# --- Notes ---


def test_the_notes_of_the_specification_verify():
    """The example of C2SP signed-note."""
    vkey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
    signature = "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM="
    key = NoteKey.from_vkey(vkey)
    assert key.vkey == vkey
    note = f"This is an example message.\n\n— example.com/foo {signature}\n"
    assert signed_note.verify(note, [key]) == "This is an example message.\n"


def test_a_note_survives_its_text_and_shows_what_was_signed():
    assert SignedNote.parse(NOTE).encode() == NOTE
    assert signed_note.verify(NOTE, [KEY]) == TEXT
    assert signed_note.verify(NOTE, [OTHER_KEY, KEY]) == TEXT


def test_signatures_of_unknown_keys_are_ignored_and_one_known_one_is_enough():
    both = SignedNote.parse(NOTE).with_signature(OTHER_KEY, OTHER.sign)
    for keys in ([KEY], [OTHER_KEY], [KEY, OTHER_KEY]):
        assert both.verified(keys) == TEXT
    with pytest.raises(ProofError, match="no known key"):
        both.verified([])
    # The same name with another key, and the same key with another name, are other keys.
    for stranger in (NoteKey(KEY.name, OTHER_KEY.public_key), NoteKey("other.example", KEY.public_key)):
        with pytest.raises(ProofError, match="no known key"):
            SignedNote.parse(NOTE).verified([stranger])


def test_a_wrong_signature_of_a_known_key_refuses_the_note_though_another_one_is_right():
    spoiled = SignedNote.parse(NOTE).with_signature(OTHER_KEY, lambda _: bytes(64))
    assert spoiled.verified([KEY]) == TEXT
    with pytest.raises(ProofError, match=r"witness\.example"):
        spoiled.verified([KEY, OTHER_KEY])


def test_at_least_sixteen_signatures_are_read_and_not_any_number():
    line = NOTE.rsplit("\n\n", 1)[1]
    assert signed_note.verify(NOTE + line * 15, [KEY]) == TEXT
    with pytest.raises(MalformedError):
        signed_note.verify(NOTE + line * 64, [KEY])


SIGNATURE_LINE = NOTE.splitlines()[-1]
BASE64 = SIGNATURE_LINE.split(" ")[2]


@pytest.mark.parametrize(
    "note",
    [
        "",
        "text\n",
        TEXT,
        f"{TEXT}\n",
        f"{TEXT}{SIGNATURE_LINE}\n",
        f"{TEXT}\n{SIGNATURE_LINE}",
        f"{TEXT}\n{SIGNATURE_LINE}\n\n",
        f"{TEXT}\n{SIGNATURE_LINE}\r\n",
        f"{TEXT}\n{SIGNATURE_LINE} \n",
        f"{TEXT}\n {SIGNATURE_LINE}\n",
        f"{TEXT}\n{SIGNATURE_LINE.replace('— ', '- ')}\n",
        f"{TEXT}\n{SIGNATURE_LINE.replace('— ', '—  ')}\n",
        f"{TEXT}\n—  {BASE64}\n",
        f"{TEXT}\n— a+b {BASE64}\n",
        f"{TEXT}\n— a\u00a0b {BASE64}\n",
        f"{TEXT}\n— {ORIGIN}\n",
        f"{TEXT}\n— {ORIGIN} {BASE64.rstrip('=')}\n",
        f"{TEXT}\n— {ORIGIN} {BASE64[:-2]}9=\n",
        f"{TEXT}\n— {ORIGIN} {BASE64.replace('+', '-').replace('/', '_').replace('A', '-', 1)}\n",
        f"{TEXT}\n— {ORIGIN} AAAAAA==\n",
        f"te\txt\n\n{SIGNATURE_LINE}\n",
        "x" * 65_537 + f"\n\n{SIGNATURE_LINE}\n",
    ],
)
def test_a_near_miss_of_a_note_is_refused(note):
    with pytest.raises(MalformedError):
        signed_note.verify(note, [KEY])


def flips(text: str):
    """Give the text with each of its bits flipped; what is no UTF-8 then is left out."""
    good = text.encode()
    for bit in range(8 * len(good)):
        changed = bytearray(good)
        changed[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(UnicodeDecodeError):
            yield changed.decode()


def test_each_flipped_bit_of_a_note_is_refused():
    for changed in flips(NOTE):
        with pytest.raises((MalformedError, ProofError)):
            signed_note.verify(changed, [KEY])


@pytest.mark.parametrize(
    "vkey",
    [
        "",
        KEY.vkey.replace("+", " "),
        KEY.vkey.upper(),
        KEY.vkey[:-1],
        KEY.vkey + "\n",
        KEY.vkey.replace(KEY.key_id.hex(), "00000000"),
        f"{KEY.name}+{KEY.key_id.hex()}+{signed_note.base64_text(bytes([4]) + KEY.public_key)}",
        f"a b+{KEY.key_id.hex()}+{signed_note.base64_text(bytes([1]) + KEY.public_key)}",
        f"+{KEY.key_id.hex()}+{signed_note.base64_text(bytes([1]) + KEY.public_key)}",
    ],
)
def test_a_near_miss_of_a_verifier_key_is_refused(vkey):
    with pytest.raises(MalformedError):
        NoteKey.from_vkey(vkey)


@pytest.mark.parametrize("text", ["no line break", "tab\t\n", ""])
def test_what_is_no_note_text_is_not_signed(text):
    with pytest.raises(MalformedError):
        signed_note.sign(text, KEY, PRIVATE.sign)


# --- Checkpoints ---

CHECKPOINT = Checkpoint(ORIGIN, 20_852_163, b"\x2a" * 32)


def test_a_checkpoint_survives_its_text_and_its_signature():
    assert Checkpoint.parse(CHECKPOINT.text) == CHECKPOINT
    assert CHECKPOINT.text.count("\n") == 3
    note = CHECKPOINT.sign(KEY, PRIVATE.sign)
    assert verify_checkpoint(note, ORIGIN, [KEY]) == CHECKPOINT
    with pytest.raises(ProofError, match="not other"):
        verify_checkpoint(note, "other.example", [KEY])


ROOT = CHECKPOINT.text.split("\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{ORIGIN}\n1\n{ROOT}",
        f"{ORIGIN}\n1\n{ROOT}\n\n",
        f"{ORIGIN}\n1\n{ROOT}\nextension\n",
        f"\n1\n{ROOT}\n",
        f"a b\n1\n{ROOT}\n",
        f"a+b\n1\n{ROOT}\n",
        f"{'a' * 256}\n1\n{ROOT}\n",
        f"ü.example\n1\n{ROOT}\n",
        f"{ORIGIN}\n01\n{ROOT}\n",
        f"{ORIGIN}\n+1\n{ROOT}\n",
        f"{ORIGIN}\n-1\n{ROOT}\n",
        f"{ORIGIN}\n 1\n{ROOT}\n",
        f"{ORIGIN}\n1_0\n{ROOT}\n",
        f"{ORIGIN}\n١\n{ROOT}\n",
        f"{ORIGIN}\n\n{ROOT}\n",
        f"{ORIGIN}\n{2**53}\n{ROOT}\n",
        f"{ORIGIN}\n1\n{ROOT[:-1]}\n",
        f"{ORIGIN}\n1\n{ROOT}=\n",
        f"{ORIGIN}\n1\nAAAA\n",
        f"{ORIGIN}\n1\n{ROOT[:-2]}r=\n",
    ],
)
def test_a_near_miss_of_a_checkpoint_is_refused(text):
    with pytest.raises(MalformedError):
        Checkpoint.parse(text)


def test_numbers_run_to_two_to_the_53():
    assert parse_decimal("0", "x") == 0
    assert parse_decimal(str(2**53 - 1), "x") == 2**53 - 1


# --- Offline proofs ---

LEAVES = [merkle.leaf_hash(bytes([i])) for i in range(11)]
NODE = lambda level, i: rfc6962.mth(LEAVES[i << level : (i + 1) << level])
SIGNED = Checkpoint(ORIGIN, 11, rfc6962.mth(LEAVES)).sign(KEY, PRIVATE.sign)


def proof_of(index):
    return TlogProof(index, tuple(merkle.inclusion_proof(index, 11, NODE)), SIGNED)


@pytest.mark.parametrize("index", range(11))
def test_an_offline_proof_survives_its_text_and_shows_its_leaf(index):
    proof = TlogProof.parse(proof_of(index).encode())
    assert proof == proof_of(index)
    assert proof.verify(LEAVES[index], ORIGIN, [KEY]).size == 11
    with pytest.raises(ProofError):
        proof.verify(LEAVES[index - 1], ORIGIN, [KEY])
    with pytest.raises(ProofError):
        proof.verify(LEAVES[index], ORIGIN, [OTHER_KEY])


def test_the_proof_text_is_the_formats():
    lines = proof_of(10).encode().split("\n")
    assert lines[:2] == ["c2sp.org/tlog-proof@v1", "index 10"]
    assert lines[2:4] == [signed_note.base64_text(each) for each in merkle.inclusion_proof(10, 11, NODE)]
    assert lines[4:7] == ["", ORIGIN, "11"]


GOOD_PROOF = proof_of(3).encode()
HASH_LINE = GOOD_PROOF.split("\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD_PROOF.replace("@v1", "@v2"),
        GOOD_PROOF.replace("index 3", "index 03"),
        GOOD_PROOF.replace("index 3", "index -3"),
        GOOD_PROOF.replace("index 3", "Index 3"),
        GOOD_PROOF.replace("index 3\n", ""),
        GOOD_PROOF.replace("index 3", "extra AAAA\nindex 3"),
        GOOD_PROOF.replace(HASH_LINE, HASH_LINE[:-1]),
        GOOD_PROOF.replace(HASH_LINE, "AAAA"),
        GOOD_PROOF.replace(f"{HASH_LINE}\n", f"{HASH_LINE}\n" * 64),
        GOOD_PROOF.split("\n\n")[0],
        "c2sp.org/tlog-proof@v1\n\n" + SIGNED,
        GOOD_PROOF.replace("\n", "\r\n"),
    ],
)
def test_a_near_miss_of_an_offline_proof_is_refused(text):
    with pytest.raises(MalformedError, match=r"^proof"):
        TlogProof.parse(text)


def test_each_flipped_bit_of_an_offline_proof_is_refused():
    for changed in flips(GOOD_PROOF):
        with pytest.raises((MalformedError, ProofError)):
            TlogProof.parse(changed).verify(LEAVES[3], ORIGIN, [KEY])


# --- Tiles ---


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(0, 1_234_067), "tile/0/x001/x234/067"),
        (Tile(1, 1000, 17), "tile/1/x001/000.p/17"),
        (Tile(63, 999, 255), "tile/63/999.p/255"),
        (Tile(None, 5), "tile/entries/005"),
        (Tile(None, 1_000_000, 1), "tile/entries/x001/x000/000.p/1"),
    ],
)
def test_a_tile_has_one_path(tile, path):
    assert tile.path == path
    assert Tile.parse(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "", "tile", "tile/0", "tile/0/0", "tile/0/00", "tile/0/0000", "tile/00/000", "tile/64/000", "tile/-1/000",
        "/tile/0/000", "tile/0/000/", "tile/0/x000/000", "tile/0/x001/x234", "tile/0/001/234", "tile/0/x1/000",
        "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/", "tile/0/000.p/999",
        "tile/Entries/000", "tile/0/../000", "tile/0/000\n", "tile/0/٠٠٠", "tile/0/x001/x234/067.p/3.p/3",
    ],
)  # fmt: skip
def test_a_near_miss_of_a_path_is_refused(path):
    with pytest.raises(MalformedError):
        Tile.parse(path)


@settings(max_examples=scaled(100, 5_000), deadline=None)
@given(st.none() | st.integers(0, 63), st.integers(0, 2**45), st.integers(1, 256))
def test_any_tile_survives_its_path(level, index, width):
    tile = Tile(level, index, width)
    assert Tile.parse(tile.path) == tile


def test_a_tree_of_70000_has_the_tiles_that_the_format_names():
    """The example of C2SP tlog-tiles."""
    assert Tile.covering(0, 272, 70_000).width == 256
    assert Tile.covering(0, 273, 70_000).width == 112
    assert Tile.covering(1, 0, 70_000).width == 256
    assert Tile.covering(1, 1, 70_000).width == 17
    assert Tile.covering(2, 0, 70_000).width == 1
    assert Tile.covering(None, 273, 70_000).width == 112
    for level, index in ((0, 274), (1, 2), (2, 1), (3, 0)):
        with pytest.raises(MalformedError):
            Tile.covering(level, index, 70_000)


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 700, 2000])
def test_proofs_come_out_of_tiles_as_out_of_the_leaves(size):
    leaves = [merkle.leaf_hash(i.to_bytes(2, "big")) for i in range(size)]
    reads = []

    def read(tile):
        reads.append(tile)
        span = 256**tile.level
        starts = range(256 * tile.index * span, (256 * tile.index + tile.width) * span, span)
        assert starts[-1] + span <= size, "only what is complete stands in a tile"
        return b"".join(rfc6962.mth(leaves[start : start + span]) for start in starts)

    node = nodes_from_tiles(size, read)
    root = rfc6962.mth(leaves)
    assert merkle.root_from_nodes(size, node) == root
    for index in {0, size // 3, size - 1}:
        merkle.verify_inclusion(leaves[index], index, size, merkle.inclusion_proof(index, size, node), root)
    with pytest.raises(MalformedError, match="hashes"):
        nodes_from_tiles(size, lambda _: b"")(0, 0)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=256))
def test_a_bundle_gives_its_entries_back(listed):
    assert parse_bundle(encode_bundle(listed)) == listed


@pytest.mark.parametrize("bundle", [b"\x00", b"\x00\x02a", encode_bundle([b"ab"])[:-1], bytes(2 * 257)])
def test_a_bundle_that_breaks_off_or_is_too_long_is_refused(bundle):
    with pytest.raises(MalformedError):
        parse_bundle(bundle)


def test_an_entry_too_long_for_a_bundle_is_refused():
    with pytest.raises(OverflowError):
        encode_bundle([bytes(65_536)])
