"""Known-answer tests of what randomness rests on, run at start and on demand.

The answers are NIST's (CAVP), one for each mechanism and way of use; `self_test_vectors.json` lies beside this file.
A self-test that fails stops the generator: a machine that computes wrongly must not shuffle.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.resources import files
from typing import Literal, NamedTuple, cast

from rngsvc.drbg import CtrDrbg, Drbg, HmacDrbg
from rngsvc.entropy import GeneratorFailed
from rngsvc.health_tests import HealthTests, HealthTestTripped


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
    for test in (*_known_answers(), *_HEALTH_TESTS, *more):
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


_HEALTH_TESTS = (
    SelfTest("repetition count trips at its cutoff", lambda: _trips_at(b"ab" + b"c" * 9), 8),
    SelfTest("adaptive proportion trips at its cutoff", lambda: _trips_at(b"ab" * 30), 37),
    SelfTest("health tests pass what is even", lambda: _trips_at(bytes(range(256)) * 4), None),
)
