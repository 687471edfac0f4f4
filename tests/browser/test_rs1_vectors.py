"""The module finds every vector that Python finds, in Node and in Chromium."""

import json
from pathlib import Path

import pytest

from rngsvc.protocol import derivation
from tests.browser.engines import Engine

PROTOCOL = Path(derivation.__file__).parent
VECTORS = Path(__file__).parents[1] / "vectors"


@pytest.mark.parametrize(
    ("name", "file", "cases"),
    [
        ("hands", PROTOCOL / "hand-protocol.json", 216),
        ("draws", PROTOCOL / "hand-protocol.json", 38),
        ("twins", PROTOCOL / "twin-mode.json", 99),
        ("ed25519", VECTORS / "ed25519" / "wycheproof.json", 151),
        ("hkdf", VECTORS / "hkdf" / "wycheproof_sha512.json", 83),
        ("inclusion", VECTORS / "merkle" / "proofs.json", 98),
        ("consistency", VECTORS / "merkle" / "proofs.json", 98),
    ],
)
def test_the_module_finds_every_vector(engine: Engine, name: str, file: Path, cases: int) -> None:
    found = engine.call(name, json.loads(file.read_text(encoding="utf-8")))
    assert found["failures"] == []
    assert found["cases"] == cases


def test_a_wrong_vector_is_noticed(engine: Engine) -> None:
    file = json.loads((PROTOCOL / "hand-protocol.json").read_text(encoding="utf-8"))
    hand, draw = file["vectors"][0], file["draws"][0]
    hand["shuffles"][1]["order"].reverse()
    draw["values"][0] ^= 1
    assert engine.call("hands", {"vectors": [hand]}) == {"cases": 1, "failures": ["order 1"]}
    assert engine.call("draws", {"draws": [draw]}) == {"cases": 1, "failures": [draw["purpose"]]}
    (twin, *_) = json.loads((PROTOCOL / "twin-mode.json").read_text(encoding="utf-8"))["vectors"]
    twin["deck"] ^= 1
    assert engine.call("twins", {"vectors": [twin]}) == {"cases": 1, "failures": ["deck"]}
