"""The package, the page, the vectors and the second implementation say the same about `rs1`."""

import json
import re
from pathlib import Path

import pytest

from rngsvc.protocol import card_seal, commitment, derivation, merkle
from rngsvc.protocol.commitment import MAX_ITEMS
from rngsvc.protocol.errors import MalformedError
from tests.reference import make_vectors, rs1
from tests.scale import scaled

PROTOCOL = Path(derivation.__file__).parent
PAGE = (PROTOCOL / "hand-protocol.md").read_text(encoding="utf-8")
TEXT = (PROTOCOL / "hand-protocol.json").read_text(encoding="ascii")
VECTORS = json.loads(TEXT)["vectors"]
DRAWS = json.loads(TEXT)["draws"]
octets = bytes.fromhex


def contributions(vector):
    return [(name.encode(), None if seed is None else octets(seed)) for name, seed in vector["contributions"]]


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_package_finds_every_vector(vector):
    origin, table, seq, seed = vector["origin"], octets(vector["table"]), vector["seq"], octets(vector["s"])
    assert commitment.commit(table, seq, seed).hex() == vector["commitment"]
    leaves = []
    for i, ((name, given), promised) in enumerate(zip(contributions(vector), vector["promises"], strict=True)):
        leaves.append(commitment.contribution_leaf(i, name, given))
        if given is not None:
            assert commitment.promise(origin, table, seq, name, given).hex() == promised
        else:
            assert promised is None
    root = merkle.root_of(leaves)
    assert root.hex() == vector["contributions_root"]
    context = commitment.hand_context(origin, table, seq, octets(vector["commitment"]), root, octets(vector["pre"]))
    items = list(range(vector["shuffles"][0]["n"]))
    orders = []
    for k, shuffle in enumerate(vector["shuffles"]):
        if k:
            locations = [tuple(each) for each in shuffle["inputs"]]
            previous = vector["shuffles"][k - 1]["root"]
            context = commitment.reshuffle_context(context, octets(previous), k, locations)
            items = [orders[j][p] for j, p in locations]
        assert context.hex() == shuffle["context"]
        order, used = derivation.permute(seed, context, k, items)
        assert (order, used) == (shuffle["order"], shuffle["bytes_used"])
        sealed = card_seal.seal(k, order, card_seal.salts(seed, context, k, len(order)))
        assert [leaf.hex() for leaf in sealed] == shuffle["leaves"]
        assert card_seal.cards_root(k, sealed).hex() == shuffle["root"]
        orders.append(order)


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_second_implementation_finds_every_vector(vector):
    table, seed = octets(vector["table"]), octets(vector["s"])
    hand = rs1.Hand(vector["origin"], table, vector["seq"], seed, octets(vector["pre"]), contributions(vector))
    assert rs1.commitment(table, vector["seq"], seed).hex() == vector["commitment"]
    assert rs1.contributions_root(hand.contributions).hex() == vector["contributions_root"]
    for (name, given), promised in zip(hand.contributions, vector["promises"], strict=True):
        if given is not None:
            assert rs1.promise(hand.origin, table, hand.seq, name, given).hex() == promised
    hand.seal(vector["shuffles"][0]["n"])
    for shuffle in vector["shuffles"][1:]:
        hand.reshuffle(shuffle["inputs"])
    for found, shuffle in zip(hand.shuffles, vector["shuffles"], strict=True):
        assert found["context"].hex() == shuffle["context"]
        assert (found["order"], found["bytes_used"]) == (shuffle["order"], shuffle["bytes_used"])
        assert [leaf.hex() for leaf in found["leaves"]] == shuffle["leaves"]
        assert found["root"].hex() == shuffle["root"]


@pytest.mark.parametrize("draw", DRAWS, ids=range(len(DRAWS)))
def test_both_find_every_draw(draw):
    arguments = octets(draw["s"]), octets(draw["context"]), draw["purpose"].encode(), draw["m"], draw["count"]
    assert derivation.draw_numbers(*arguments) == draw["values"]
    assert rs1.draw(*arguments) == draw["values"]


def test_both_agree_on_hands_that_no_vector_holds():
    for number in range(scaled(60, 3000)):
        choices = make_vectors.Choices(f"beyond the vectors {number}")
        seed, context, k = choices.octets(48), choices.octets(32), choices.below(16)
        items = choices.subset(list(range(MAX_ITEMS)), 1 + choices.below(80 if number % 5 else MAX_ITEMS))
        order, used = derivation.permute(seed, context, k, items)
        assert (order, used) == rs1.shuffle(seed, context, k, items)
        leaves = card_seal.seal(k, order, card_seal.salts(seed, context, k, len(order)))
        assert leaves == rs1.card_leaves(seed, context, k, order)
        assert card_seal.cards_root(k, leaves) == rs1.card_root(k, leaves)


def test_the_vectors_cover_what_the_page_allows():
    sizes = {vector["shuffles"][0]["n"] for vector in VECTORS}
    assert {1, 2, 3, 20, 32, 36, 52, 104, 256, 257, 312, 1020} <= sizes
    assert {len(vector["contributions"]) for vector in VECTORS} == set(range(17))
    assert {len(vector["shuffles"]) for vector in VECTORS} == {1, 2, 3, 4}
    assert sum(any(seed is None for _, seed in vector["contributions"]) for vector in VECTORS) >= 20
    mixed = [v for v in VECTORS if any(len({j for j, _ in s.get("inputs", ())}) > 1 for s in v["shuffles"])]
    assert len(mixed) >= 20
    many = [v for v in VECTORS if v["shuffles"][0]["n"] == 52 and v["shuffles"][0]["bytes_used"] >= 63]
    assert len(many) >= 4
    assert len(VECTORS) >= 200
    assert len(DRAWS) >= 30


def test_the_vector_file_is_what_its_maker_writes_one_vector_a_line_and_under_two_megabytes():
    assert make_vectors.text() == TEXT
    assert len(TEXT) < 2_000_000
    lines = [line.rstrip(",") for line in TEXT.splitlines() if line.startswith('{"origin"')]
    assert [json.loads(line) for line in lines] == VECTORS


def test_the_first_vector_is_the_hand_that_the_page_writes_out():
    vector = VECTORS[0]
    shuffles = vector["shuffles"]
    absent = rs1.contributions_root([(b"seat-1", b"\x11" * 32), (b"seat-3", None)])
    figures = [vector["commitment"], *vector["promises"], vector["contributions_root"], absent.hex()]
    figures += [value for shuffle in shuffles for value in (shuffle["context"], shuffle["root"])]
    for figure in figures:
        assert f"`{figure}`" in PAGE
    for shuffle in shuffles:
        assert " ".join(map(str, shuffle["order"])) in PAGE
    assert [shuffle["bytes_used"] for shuffle in shuffles] == [52, 4, 3]
    for draw in DRAWS[:2]:
        assert f'draw "{draw["purpose"]}", m {draw["m"]}, count {draw["count"]}' in PAGE
        assert f"| {' '.join(map(str, draw['values']))} |" in PAGE


@pytest.mark.parametrize(
    "label",
    ["seed", "promise", "contribution", "hand", "shuffle", "salt", "card", "cards", "reshuffle", "escrow", "draw"],
)
def test_every_label_of_the_code_stands_on_the_page(label):
    assert f'"rs1/{label}"' in PAGE


def test_the_limits_stand_on_the_page():
    plain = re.sub(r"(?<=\d) (?=\d{3})", "", PAGE)
    for limit in (
        MAX_ITEMS,
        commitment.MAX_TTL_S,
        commitment.DEFAULT_TTL_S,
        derivation.STREAM_BYTES,
        derivation.MAX_DRAWS,
    ):
        assert str(limit) in plain


SEED, CONTEXT, TABLE = bytes(48), bytes(32), bytes(16)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: commitment.commit(bytes(15), 1, SEED), "table"),
        (lambda: commitment.commit(TABLE, 0, SEED), "seq"),
        (lambda: commitment.commit(TABLE, 2**53, SEED), "seq"),
        (lambda: commitment.commit(TABLE, 1, bytes(47)), "seed"),
        (lambda: commitment.promise("o", TABLE, 1, b"", bytes(32)), "contributor"),
        (lambda: commitment.promise("o", TABLE, 1, bytes(65), bytes(32)), "contributor"),
        (lambda: commitment.promise("o", TABLE, 1, b"a", bytes(31)), "seed"),
        (lambda: commitment.promise("o", TABLE, 1, b"a", bytes(65)), "seed"),
        (lambda: commitment.contribution_leaf(16, b"a", None), "i"),
        (lambda: commitment.contribution_leaf(0, b"a", bytes(65)), "seed"),
        (lambda: commitment.hand_context("o", TABLE, 1, CONTEXT, CONTEXT, bytes(31)), "pre"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 0, [(0, 0)]), "k"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 16, [(0, 0)]), "k"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 1, []), "locations"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 1, [(1, 0)]), "locations"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 1, [(0, 1020)]), "locations"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 1, [(0, 1), (0, 1)]), "locations"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 2, [(1, 0), (0, 1)]), "locations"),
        (lambda: commitment.reshuffle_context(CONTEXT, CONTEXT, 1, [(0, p) for p in range(1021)]), "locations"),
        (lambda: derivation.permute(bytes(47), CONTEXT, 0, [0]), "seed"),
        (lambda: derivation.permute(SEED, bytes(31), 0, [0]), "context"),
        (lambda: derivation.permute(SEED, CONTEXT, 16, [0]), "k"),
        (lambda: derivation.permute(SEED, CONTEXT, 0, []), "items"),
        (lambda: derivation.permute(SEED, CONTEXT, 0, range(1021)), "items"),
        (lambda: derivation.draw_numbers(bytes(47), CONTEXT, b"x", 2, 1), "seed"),
        (lambda: derivation.draw_numbers(SEED, bytes(31), b"x", 2, 1), "context"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, b"", 2, 1), "purpose"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, b"\x80", 2, 1), "purpose"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, bytes(65), 2, 1), "purpose"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, b"x", 0, 1), "modulus"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, b"x", 2**53, 1), "modulus"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, b"x", 2, 0), "count"),
        (lambda: derivation.draw_numbers(SEED, CONTEXT, b"x", 2, 1025), "count"),
        (lambda: derivation.byte_stream(bytes(47), 1), "seed48"),
        (lambda: derivation.byte_stream(SEED, 65_537), "length"),
        (lambda: card_seal.card_leaf(0, 0, 0, bytes(15)), "salt"),
    ],
)
def test_what_the_page_does_not_allow_is_refused_by_name(call, field):
    with pytest.raises(MalformedError) as refused:
        call()
    assert refused.value.field == field


@pytest.mark.parametrize("item", [-1, MAX_ITEMS])
def test_an_item_outside_the_page_is_refused(item):
    with pytest.raises(MalformedError, match="items"):
        derivation.permute(SEED, CONTEXT, 0, [item])


def test_one_leaf_of_a_seal_is_the_leaf_of_one_card():
    order = [3, 0, 2, 1]
    salts = card_seal.salts(SEED, CONTEXT, 5, 4)
    single = [card_seal.card_leaf(5, p, item, salts[16 * p : 16 * p + 16]) for p, item in enumerate(order)]
    assert card_seal.seal(5, order, salts) == single
