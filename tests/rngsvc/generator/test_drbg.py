"""SP 800-90A mechanisms against NIST's answers, and their limits."""

import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rngsvc import drbg
from rngsvc.drbg import MOST_BYTES_PER_REQUEST, MOST_INPUT_BYTES, CtrDrbg, Drbg, HmacDrbg, ReseedRequired
from rngsvc.self_test import answer

FOLDER = Path(__file__).parents[2] / "vectors" / "drbg"
VECTORS = json.loads((FOLDER / "cavp.json").read_text())["vectors"]

MECHANISMS: dict[str, Callable[[], Drbg]] = {
    "CTR_DRBG df": lambda: CtrDrbg(b"e" * 48, b"n" * 16),
    "CTR_DRBG no df": lambda: CtrDrbg(b"e" * 48, derivation_function=False),
    "HMAC_DRBG SHA-256": lambda: HmacDrbg(b"e" * 48, b"n" * 16, hash_name="sha256"),
    "HMAC_DRBG SHA-512": lambda: HmacDrbg(b"e" * 48, b"n" * 16, hash_name="sha512"),
}
each_mechanism = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)


def test_the_answers_are_the_ones_whose_digest_is_recorded() -> None:
    recorded = (FOLDER / "cavp.json.sha256").read_text().split()[0]
    assert hashlib.sha256((FOLDER / "cavp.json").read_bytes()).hexdigest() == recorded
    assert len(VECTORS) == 768


@pytest.mark.requirement("R23")
@pytest.mark.parametrize("mechanism", sorted({v["mechanism"] for v in VECTORS}))
def test_every_nist_answer_is_met(mechanism: str) -> None:
    vectors = [v for v in VECTORS if v["mechanism"] == mechanism]
    assert len(vectors) == 192
    wrong = [i for i, v in enumerate(vectors) if answer(v) != bytes.fromhex(v["Output"])]
    assert wrong == []


@each_mechanism
def test_a_request_is_1_to_65536_bytes(make: Callable[[], Drbg]) -> None:
    assert len(make().generate(MOST_BYTES_PER_REQUEST)) == 65_536
    for n in (0, -1, MOST_BYTES_PER_REQUEST + 1):
        with pytest.raises(ValueError, match="n: 1 to 65536 bytes"):
            make().generate(n)


@each_mechanism
def test_a_refused_call_leaves_the_state_as_it_was(make: Callable[[], Drbg]) -> None:
    one, other = make(), make()
    for bad in (
        lambda: one.generate(0),
        lambda: one.generate(32, bytes(MOST_INPUT_BYTES + 1)),
        lambda: one.generate(32, fresh_entropy=b"short"),
        lambda: one.reseed(b"short"),
        lambda: one.reseed(bytes(48), bytes(MOST_INPUT_BYTES + 1)),
    ):
        with pytest.raises(ValueError, match="allowed, got"):
            bad()
    assert one.generate(100) == other.generate(100)


@each_mechanism
def test_a_seed_answers_no_more_requests_than_it_may(make: Callable[[], Drbg], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drbg, "MOST_REQUESTS_PER_SEED", 3)  # 2^48 requests cannot be made in a test.
    generator = make()
    for _ in range(3):
        generator.generate(1)
    with pytest.raises(ReseedRequired):
        generator.generate(1)
    assert generator.requests_since_seed == 3
    generator.generate(1, fresh_entropy=b"f" * 48)
    assert generator.requests_since_seed == 1
    generator.reseed(b"g" * 48)
    assert generator.requests_since_seed == 0


def test_the_limit_on_requests_is_the_standards() -> None:
    assert drbg.MOST_REQUESTS_PER_SEED == 2**48


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CtrDrbg(b"e" * 31, b"n" * 16), "entropy: 32 to 1048576 bytes allowed, got 31"),
        (lambda: CtrDrbg(b"e" * 32, b"n" * 15), "nonce: 16 to 1048576 bytes allowed, got 15"),
        (lambda: CtrDrbg(b"e" * 47, derivation_function=False), "entropy: 48 bytes allowed, got 47"),
        (lambda: CtrDrbg(b"e" * 49, derivation_function=False), "entropy: 48 bytes allowed, got 49"),
        (lambda: CtrDrbg(b"e" * 48, b"n", derivation_function=False), "nonce: .* takes none"),
        (
            lambda: CtrDrbg(b"e" * 48, personalisation=b"p" * 49, derivation_function=False),
            "personalisation: 0 to 48 bytes allowed, got 49",
        ),
        (lambda: HmacDrbg(b"e" * 31, b"n" * 16), "entropy: 32 to 1048576 bytes allowed, got 31"),
        (lambda: HmacDrbg(b"e" * 32, b"n" * 15), "nonce: 16 to 1048576 bytes allowed, got 15"),
    ],
)
def test_an_input_of_a_wrong_length_is_named(make: Callable[[], Drbg], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@each_mechanism
@given(cut=st.integers(1, 299))
def test_output_depends_on_where_a_request_ends_because_the_state_moves_on(make: Callable[[], Drbg], cut: int) -> None:
    """Backtracking resistance: two requests are not one long stream."""
    split = make()
    first, second = split.generate(cut), split.generate(300 - cut)
    whole = make().generate(300)
    assert first == whole[:cut]
    assert 300 - cut < 8 or second != whole[cut:]


@each_mechanism
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_state_is_never_duplicated(make: Callable[[], Drbg], duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="never copied"):
        duplicate(make())


@each_mechanism
def test_a_state_does_not_show_in_its_text(make: Callable[[], Drbg]) -> None:
    generator = make()
    assert "_key" not in repr(generator)
    assert "e" * 8 not in repr(generator)


@given(inputs=st.binary(max_size=300), n=st.integers(1, 64))
def test_the_derivation_function_depends_on_all_its_input_and_on_the_length_asked_for(inputs: bytes, n: int) -> None:
    derived = drbg.derive(inputs, n)
    assert len(derived) == n
    assert n < 16 or derived not in {drbg.derive(inputs + b"\0", n), drbg.derive(inputs, n + 1)[:n]}
