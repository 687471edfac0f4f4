"""The battery on a real service: its samples are logged, tested, and the result is handed in."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from stats_tests.__main__ import cli
from stats_tests.catalogue import Kind
from stats_tests.rejections import judge_rejections, refused_of_item
from tests.scale import scaled

DECKS = scaled(10_000, 1_000_000)


def stats_tests(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert result.exit_code == code, f"{result.output}{result.exception!r}"
    return result.stdout


@pytest.mark.parametrize(
    ("arguments", "count"),
    [(("--n", "52"), DECKS), (("--n", "36"), 10_000), (("--range", "49"), 10_000), (("--kind", "bits"), 125_000)],
)
def test_fresh_output_of_the_service_passes(
    service: tuple[str, str], tmp_path: Path, arguments: tuple[str, ...], count: int
) -> None:
    target, log_key = service
    report = tmp_path / "report.json"
    where = ("--source", f"rngsvc:{target}", "--log-key", log_key)
    printed = json.loads(stats_tests("run", *where, *arguments, "--count", count, "--report", report, "--json"))
    assert printed["verdict"] == "pass"
    sample = json.loads(report.read_bytes())["campaigns"][0]["sample"]
    assert sample["items"] == count
    assert {"log_index", "sha256", "words_read", "words_refused", "reseeds", "service_code", "checkpoint"} <= set(
        sample
    )
    stats_tests("verify", report)


def test_a_day_is_logged_by_the_service(service: tuple[str, str], tmp_path: Path) -> None:
    target, log_key = service
    key = tmp_path / "key.pem"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    arguments = ("--rngsvc", target, "--log-key", log_key, "--key", key, "--monitor", tmp_path / "monitor")
    # Fewer decks than the daily battery judges: undecided, and logged as that.
    printed = json.loads(stats_tests("daily", *arguments, "--count", "2000", "--json", code=3))
    assert printed["log_index"] > 0
    assert json.loads((tmp_path / "monitor").read_bytes())["days"][0]["decks"] == 2000


def test_final_outcomes_are_collected_over_the_production_path(service: tuple[str, str], tmp_path: Path) -> None:
    target, log_key = service
    arguments = ("--source", f"rngsvc:{target}", "--log-key", log_key, "--format", "decks-text", "--count", "10")
    stats_tests("collect", *arguments, "-o", tmp_path / "decks")
    decks = [sorted(map(int, line.split())) for line in (tmp_path / "decks").read_text().splitlines()]
    assert decks == [list(range(52))] * 10


def test_a_service_that_is_not_there_is_undecided(service: tuple[str, str]) -> None:
    arguments = ("--source", "rngsvc:127.0.0.1:1", "--log-key", service[1], "--count", "10")
    stats_tests("run", *arguments, code=3)


def test_another_log_key_is_refused(service: tuple[str, str]) -> None:
    other = "ephemeral.example/rng+00000000+ASO8hfVdv6Ke5Mk5bbG9Yde10llo5ooRVRuWaSr5D/Sg"
    result = CliRunner().invoke(cli, ["run", "--source", f"rngsvc:{service[0]}", "--log-key", other, "--count", "10"])
    assert result.exit_code in {1, 2}


def test_refused_words_by_hand() -> None:
    # Three cards: draws below 3 (limit 255: one of 256 refused) and below 2 (none refused).
    mean, variance = refused_of_item(Kind.SHUFFLES, 3)
    assert mean == pytest.approx((1 / 256) / (255 / 256))
    assert variance == pytest.approx((1 / 256) / (255 / 256) ** 2)
    # 52 cards use 53.63 bytes on average.
    assert 51 + refused_of_item(Kind.SHUFFLES, 52)[0] == pytest.approx(53.63, abs=0.01)
    assert judge_rejections(Kind.SHUFFLES, 52, 100_000, 263_000).log_p > -7
    assert judge_rejections(Kind.SHUFFLES, 52, 100_000, 0).log_p < -1000
    assert "too few" in judge_rejections(Kind.NUMBERS, 49, 1000, 0).reason
