"""The package, the page, the vectors and the second implementation say the same about twin mode."""

import json
import re
from pathlib import Path

import pytest

from rngsvc.protocol import card_seal, commitment, derivation, merkle, twin
from rngsvc.protocol.errors import MalformedError
from tests.reference import make_twin_vectors
from tests.reference.twin import TwinHand, choice_promise
from tests.rngsvc.protocol.hands import HandInLog, TwinHandInLog

PROTOCOL = Path(twin.__file__).parent
PAGE = (PROTOCOL / "twin-mode.md").read_text(encoding="utf-8")
TEXT = (PROTOCOL / "twin-mode.json").read_text(encoding="ascii")
VECTORS = json.loads(TEXT)["vectors"]
octets = bytes.fromhex


def contributors(vector):
    return [
        (name.encode(), seed and octets(seed), choice and octets(choice))
        for name, seed, choice in vector["contributors"]
    ]


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_package_finds_every_vector(vector):
    hand = vector["origin"], octets(vector["table"]), vector["seq"]
    leaves = []
    for i, ((name, seed, choice), promised) in enumerate(zip(contributors(vector), vector["promises"], strict=True)):
        found = [
            seed and commitment.promise(*hand, name, seed).hex(),
            choice and twin.promise_choice(*hand, name, choice).hex(),
        ]
        assert found == promised
        leaves.append(commitment.contribution_leaf(i, name, seed))
    root = merkle.root_of(leaves)
    assert root.hex() == vector["contributions_root"]
    for s, committed, deck in zip(vector["s"], vector["commitments"], vector["decks"], strict=True):
        assert commitment.commit(*hand[1:], octets(s)).hex() == committed
        context = commitment.hand_context(*hand, octets(committed), root, octets(vector["pre"]))
        assert context.hex() == deck["context"]
        order, used = derivation.permute(octets(s), context, 0, range(vector["n"]))
        assert (order, used) == (deck["order"], deck["bytes_used"])
        sealed = card_seal.seal(0, order, card_seal.salts(octets(s), context, 0, vector["n"]))
        assert card_seal.cards_root(0, sealed).hex() == deck["root"]
    contexts, roots = (tuple(octets(deck[name]) for deck in vector["decks"]) for name in ("context", "root"))
    digest = twin.choice_digest(contexts, roots, [choice for _, _, choice in contributors(vector)])
    assert digest.hex() == vector["digest"]
    assert twin.played_deck(digest) == vector["deck"]
    assert vector["seed"] == vector["s"][1 - vector["deck"]]


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_the_second_implementation_finds_every_vector(vector):
    table, by = octets(vector["table"]), contributors(vector)
    seeds = [octets(s) for s in vector["s"]]
    hand = TwinHand(vector["origin"], table, vector["seq"], seeds, octets(vector["pre"]), by, vector["n"])
    for (name, _, choice), (_, promised) in zip(by, vector["promises"], strict=True):
        if choice is not None:
            assert choice_promise(vector["origin"], table, vector["seq"], name, choice).hex() == promised
    for each, deck in zip(hand.hands, vector["decks"], strict=True):
        sealed = each.shuffles[0]
        assert (sealed["order"], sealed["bytes_used"]) == (deck["order"], deck["bytes_used"])
        assert (sealed["context"].hex(), sealed["root"].hex()) == (deck["context"], deck["root"])
    assert hand.digest().hex() == vector["digest"]
    assert hand.played() == vector["deck"]
    assert hand.shown_seed().hex() == vector["seed"]


def test_the_vectors_cover_what_the_page_allows():
    assert {vector["n"] for vector in VECTORS} == {2, 32, 36, 52, 312}
    assert {len(vector["contributors"]) for vector in VECTORS} == set(range(17))
    assert {vector["deck"] for vector in VECTORS} == {0, 1}
    given = [[(seed is not None, choice is not None) for _, seed, choice in v["contributors"]] for v in VECTORS]
    # Each way in which somebody can fail to give one thing, the other, or both.
    assert all(sum(way in each for each in given) >= 10 for way in ((True, True), (True, False), (False, True)))
    assert sum((False, False) in each for each in given) >= 5
    assert sum(bool(each) and not any(choice for _, choice in each) for each in given) >= 10
    assert len(VECTORS) >= 60


def test_the_vector_file_is_what_its_maker_writes_one_vector_a_line_and_under_400_kilobytes():
    assert make_twin_vectors.text() == TEXT
    assert len(TEXT) < 400_000
    lines = [line.rstrip(",") for line in TEXT.splitlines() if line.startswith('{"origin"')]
    assert [json.loads(line) for line in lines] == VECTORS


def test_the_first_vector_is_the_hand_that_the_page_writes_out():
    first = VECTORS[0]
    figures = [first["commitments"][1], first["digest"], *(choice for _, choice in first["promises"])]
    figures += [first["decks"][1]["context"], first["decks"][1]["root"]]
    for figure in figures:
        assert f"`{figure}`" in PAGE
    assert f"| deck | {first['deck']} |" in PAGE


@pytest.mark.parametrize("contributors", [0, 1, 2, 16])
def test_what_it_costs_in_the_log_is_what_the_page_says(contributors):
    given = tuple((b"seat-%02d" % i, bytes(32)) for i in range(contributors))
    ordinary = HandInLog(contributions=given).reserve().promise().seal().close()
    twins = TwinHandInLog(contributions=given, choices=(bytes(32),) * contributors)
    twins.reserve().promise().seal().choose().close()
    fixed, each = map(int, re.search(r"some (\d+) bytes more in the log and (\d+) for each", PAGE).groups())
    more = sum(map(len, twins.log.raw[1:])) - sum(map(len, ordinary.log.raw[1:]))
    assert abs(more - fixed - contributors * each) <= 8


@pytest.mark.parametrize("label", ["choice", "twin"])
def test_every_label_of_the_code_stands_on_the_page(label):
    assert f'"rs1/{label}"' in PAGE


def test_every_part_of_the_digest_decides():
    """One bit of one input gives another D, and the bit follows D: none of them can be left out of the hash."""
    contexts, roots, choices = (bytes(32), b"\x01" * 32), (b"\x02" * 32, b"\x03" * 32), [b"\x04" * 32, None]
    digests = {twin.choice_digest(contexts, roots, choices)}
    for other in (
        (contexts[::-1], roots, choices),
        (contexts, roots[::-1], choices),
        (roots, contexts, choices),
        (contexts, roots, choices[::-1]),
        (contexts, roots, choices[:1]),
        (contexts, roots, [b"\x04" * 33, None]),
        (contexts, roots, [None, None]),
        (contexts, roots, []),
    ):
        digests.add(twin.choice_digest(*other))
    assert len(digests) == 9
    assert {twin.played_deck(bytes(31) + bytes([last])) for last in range(0, 256, 2)} == {0}
    assert {twin.played_deck(bytes(31) + bytes([last])) for last in range(1, 256, 2)} == {1}


TABLE, PAIR = bytes(16), (bytes(32), bytes(32))


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: twin.promise_choice("o", bytes(15), 1, b"a", bytes(32)), "table"),
        (lambda: twin.promise_choice("o", TABLE, 0, b"a", bytes(32)), "seq"),
        (lambda: twin.promise_choice("o", TABLE, 1, b"", bytes(32)), "contributor"),
        (lambda: twin.promise_choice("o", TABLE, 1, b"a", bytes(31)), "choice"),
        (lambda: twin.promise_choice("o", TABLE, 1, b"a", bytes(65)), "choice"),
        (lambda: twin.choice_digest((bytes(31), bytes(32)), PAIR, []), "contexts"),
        (lambda: twin.choice_digest(PAIR, (bytes(32), bytes(33)), []), "roots"),
        (lambda: twin.choice_digest(PAIR, PAIR, [bytes(31)]), "choice"),
        (lambda: twin.choice_digest(PAIR, PAIR, [bytes(32)] * 17), "choices"),
    ],
)
def test_what_the_page_does_not_allow_is_refused_by_name(call, field):
    with pytest.raises(MalformedError) as refused:
        call()
    assert refused.value.field == field
