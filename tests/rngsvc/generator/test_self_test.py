"""The known-answer tests at start: they pass here, and each notices a machine that computes wrongly."""

import json
from importlib.resources import files

import pytest

from rngsvc import drbg, health_tests, self_test
from rngsvc.self_test import SelfTest, SelfTestFailed, run_self_tests


@pytest.mark.requirement("R23")
def test_all_pass_and_are_named() -> None:
    names = run_self_tests()
    assert len(names) == len(set(names)) == 9
    for mechanism in ("CTR_DRBG-AES-256-df", "CTR_DRBG-AES-256-no-df", "HMAC_DRBG-SHA-256", "HMAC_DRBG-SHA-512"):
        assert any(name.startswith(mechanism) for name in names)


@pytest.mark.parametrize("at", range(5))
def test_one_wrong_digit_in_an_answer_is_noticed(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = json.loads(files("rngsvc").joinpath("self_test_vectors.json").read_text())
    output = vectors[at]["Output"]
    vectors[at]["Output"] = output[:-1] + format(int(output[-1], 16) ^ 1, "x")
    monkeypatch.setattr(self_test.json, "loads", lambda _: vectors)
    with pytest.raises(SelfTestFailed, match=vectors[at]["mechanism"] + ".*: wrong answer"):
        run_self_tests()


@pytest.mark.parametrize(
    ("module", "name", "broken", "message"),
    [
        (drbg, "derive", lambda inputs, n: bytes(n), "CTR_DRBG-AES-256-df: wrong answer"),
        (drbg, "_xor", lambda a, b: a, "CTR_DRBG-AES-256-df: wrong answer"),
        (drbg.hmac, "digest", lambda key, message, name: bytes(64), "HMAC_DRBG-SHA-256.*: wrong answer"),
        (health_tests.RepetitionCount, "feed", lambda self, samples: None, "repetition count.*: wrong answer"),
        (health_tests.AdaptiveProportion, "feed", lambda self, samples: None, "adaptive proportion.*: wrong answer"),
        (self_test, "permute", lambda seed, context, k, items: (list(items), 52), "rs1, a sealed deck: wrong answer"),
        (self_test, "salts", lambda seed, context, k, n: bytes(16 * n), "rs1, a sealed deck: wrong answer"),
        (drbg.CtrDrbg, "generate", lambda self: b"", "CTR_DRBG-AES-256-df: could not be run: TypeError"),
    ],
    ids=["derivation", "update", "hmac", "repetition", "proportion", "shuffle", "salts", "crash"],
)
def test_a_part_that_computes_wrongly_is_noticed(
    module: object, name: str, broken: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, broken)
    with pytest.raises(SelfTestFailed, match=message):
        run_self_tests()


def test_known_answers_of_other_parts_join_in() -> None:
    assert run_self_tests([SelfTest("two and two", lambda: 2 + 2, 4)])[-1] == "two and two"
    with pytest.raises(SelfTestFailed, match="self-test two and two: wrong answer"):
        run_self_tests([SelfTest("two and two", lambda: 2 + 2, 5)])
