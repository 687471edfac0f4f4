"""Known-answer tests of what randomness rests on, run at start and on demand.

The answers for the DRBG are NIST's (CAVP), one for each mechanism and way of use, in `self_test_vectors.json` beside
this file; that for a sealed deck is the hand protocol's. A self-test that fails stops the generator: a machine that
computes wrongly must not shuffle.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from typing import Literal, NamedTuple, cast

from rngsvc.drbg import CtrDrbg, Drbg, HmacDrbg
from rngsvc.entropy import GeneratorFailed
from rngsvc.health_tests import HealthTests, HealthTestTripped
from rngsvc.protocol.card_seal import cards_root, salts, seal
from rngsvc.protocol.derivation import permute


class SelfTestFailed(GeneratorFailed):
    """A known-answer test gave another answer."""


class SelfTest(NamedTuple):
    """One test: what it computes must be what is expected."""

    name: str
    compute: Callable[[], object]
    expected: object


def run_self_tests(more: Iterable[SelfTest] = ()) -> list[str]:
    """Run all tests, and `more` of them; return the names of those passed, which is all.

    Raises:
        SelfTestFailed: names the first test that gave another answer, or that could not be run.
    """
    passed = []
    for test in (*_known_answers(), *_HEALTH_TESTS, _SEALED_DECK, *more):
        try:
            computed = test.compute()
        except Exception as error:
            raise SelfTestFailed(f"self-test {test.name}: could not be run: {type(error).__name__}") from error
        if computed != test.expected:
            raise SelfTestFailed(f"self-test {test.name}: wrong answer")
        passed.append(test.name)
    return passed


def answer(vector: Mapping[str, str | bool | int]) -> bytes:
    """Return the output that a CAVP vector asks for: that of the second of two requests.

    Members are named as in NIST's files, inputs in hex, absent ones empty.
    """

    def given(name: str) -> bytes:
        return bytes.fromhex(cast("str", vector.get(name, "")))

    def fresh(which: str) -> bytes | None:
        return given(f"EntropyPredictionResistance{which}") if vector["prediction_resistance"] else None

    drbg: Drbg
    mechanism = cast("str", vector["mechanism"])
    entropy, nonce, personalisation = given("Entropy"), given("Nonce"), given("PersonalisationString")
    if mechanism.startswith("CTR_DRBG"):
        drbg = CtrDrbg(entropy, nonce, personalisation, derivation_function=not mechanism.endswith("no-df"))
    else:
        hash_name: Literal["sha256", "sha512"] = "sha256" if mechanism.endswith("SHA-256") else "sha512"
        drbg = HmacDrbg(entropy, nonce, personalisation, hash_name=hash_name)
    if "ReseedEntropy" in vector:
        drbg.reseed(given("ReseedEntropy"), given("ReseedAdditionalInput"))
    n = cast("int", vector["generate_bits"]) // 8
    drbg.generate(n, given("AdditionalInputA"), fresh_entropy=fresh("A"))
    return drbg.generate(n, given("AdditionalInputB"), fresh_entropy=fresh("B"))


def _known_answers() -> list[SelfTest]:
    vectors = json.loads(files("rngsvc").joinpath("self_test_vectors.json").read_text())
    return [
        SelfTest(
            vector["mechanism"] + (", prediction resistance" if vector["prediction_resistance"] else ""),
            partial(answer, vector),
            bytes.fromhex(vector["Output"]),
        )
        for vector in vectors
    ]


def _trips_at(samples: bytes) -> int | None:
    tests = HealthTests(min_entropy=8, alarm_exponent=40)
    for i in range(len(samples)):
        try:
            tests.feed(samples[i : i + 1])
        except HealthTestTripped:
            return i + 1
    return None


def _sealed_deck() -> str:
    seed, context = bytes(range(48)), bytes.fromhex("756b12b0eb1ef7fbce42191ffc38704100283d620f3fb47803e763010ba750df")
    order, _used = permute(seed, context, 0, range(52))
    return cards_root(0, seal(0, order, salts(seed, context, 0, 52))).hex()


# The root covers the order and every salt: key derivation, byte stream, shuffle and card seal are all behind it.
_SEALED_DECK = SelfTest(
    "rs1, a sealed deck", _sealed_deck, "012d0754145e3f726c807552ecdc85b1ac6ed4428599b4470e48dbac88fbd8c1"
)

_HEALTH_TESTS = (
    SelfTest("repetition count trips at its cutoff", lambda: _trips_at(b"ab" + b"c" * 9), 8),
    SelfTest("adaptive proportion trips at its cutoff", lambda: _trips_at(b"ab" * 30), 37),
    SelfTest("health tests pass what is even", lambda: _trips_at(bytes(range(256)) * 4), None),
)
