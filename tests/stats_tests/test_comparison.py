"""Two samples side by side: idle and under load, or two instances (R07)."""

import itertools
import json
import math
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from rngsvc.protocol.signed_note import NoteKey, verify
from stats_tests.__main__ import cli
from stats_tests.accumulator import Items
from stats_tests.bits.structure import differing_at_lags
from stats_tests.catalogue import Kind
from stats_tests.comparison import ENTRIES, Comparison, in_step
from stats_tests.known_bad import key_stream
from stats_tests.p_values import uniformity
from stats_tests.result import Result, Status
from stats_tests.samples import GeneratorSource, generator_named
from tests.scale import scaled

SIZES = {Kind.BITS: 0, Kind.NUMBERS: 49, Kind.SHUFFLES: 52}
ITEMS = {Kind.BITS: 200_000, Kind.NUMBERS: 20_000, Kind.SHUFFLES: 10_000}


def sample(kind: Kind, seed: int, name: str = "good", start: int = 0) -> Items:
    source = GeneratorSource(generator_named(name), kind, SIZES[kind], seed)
    return np.concatenate(list(source.items(start, start + ITEMS[kind])))


def compared(kind: Kind, first: Items, second: Items) -> dict[str, Result]:
    comparison = Comparison(kind, SIZES[kind])
    half = len(first) // 2 + 7
    comparison.update(first[:half], second[:half])
    comparison.update(first[half:], second[half:])
    return {entry.id: result for entry, result in comparison.results()}


def small(results: dict[str, Result]) -> set[str]:
    return {test for test, result in results.items() if result.log_p is not None and result.log_p < math.log(1e-6)}


@pytest.mark.parametrize("kind", Kind)
def test_honest_samples_do_not_differ(kind: Kind) -> None:
    results = compared(kind, sample(kind, 1), sample(kind, 2))
    assert set(results) == {entry.id for entry in ENTRIES.values() if entry.kind is kind}
    assert all(result.status is Status.OK for result in results.values())
    assert not small(results)


@pytest.mark.parametrize("kind", Kind)
def test_p_values_of_honest_samples_are_uniform(kind: Kind) -> None:
    rounds = scaled(30, 1000)
    found: dict[str, list[float]] = {}
    short = {each: max(1, items // 4) for each, items in ITEMS.items()}
    for seed in range(rounds):
        first, second = (sample(kind, 2 * seed + side)[: short[kind]] for side in (0, 1))
        for test, result in compared(kind, first, second).items():
            assert result.p_value is not None
            found.setdefault(test, []).append(result.p_value)
    for test in ("compare.shared-decks", "compare.shared-blocks"):
        assert min(found.pop(test, [1.0])) > 0.9
    for test, values in found.items():
        assert uniformity(values) > 1e-5, test


def test_a_load_that_changes_the_shuffle_is_seen() -> None:
    idle = sample(Kind.SHUFFLES, 1)
    assert {"compare.position-card", "compare.cycles"} <= small(
        compared(Kind.SHUFFLES, idle, sample(Kind.SHUFFLES, 1, "sattolo"))
    )
    # One deck in five, when the service is busy.
    sometimes = np.where(
        np.arange(len(idle))[:, None] % 5 == 0, sample(Kind.SHUFFLES, 3, "sattolo"), sample(Kind.SHUFFLES, 2)
    )
    assert "compare.cycles" in small(compared(Kind.SHUFFLES, idle, sometimes))


def test_instances_in_step_are_seen() -> None:
    both = sample(Kind.SHUFFLES, 1)
    assert {"compare.shared-decks", "compare.same-place"} <= small(compared(Kind.SHUFFLES, both, both))
    assert {"compare.shared-decks", "compare.same-place-lags"} <= small(
        compared(Kind.SHUFFLES, both, sample(Kind.SHUFFLES, 1, start=3))
    )
    # Far out of step: only decks that come in both tell.
    assert small(compared(Kind.SHUFFLES, both, sample(Kind.SHUFFLES, 1, start=4000))) == {"compare.shared-decks"}


@pytest.mark.parametrize(
    ("ahead", "seen"), [(0, "cross-correlation"), (63, "cross-correlation"), (100_000, "shared-blocks")]
)
def test_bits_in_step_are_seen(ahead: int, seen: str) -> None:
    stream = key_stream(1, 0, 2_100_000)
    first, second = stream[:2_000_000], stream[ahead : ahead + 2_000_000]
    assert f"compare.{seen}" in small(compared(Kind.BITS, first, second))


@pytest.mark.parametrize("ahead", [-5, -1, 0, 2])
def test_numbers_in_step_are_seen(ahead: int) -> None:
    first, second = sample(Kind.NUMBERS, 1, start=10), sample(Kind.NUMBERS, 1, start=10 + ahead)
    assert small(compared(Kind.NUMBERS, first, second)) == {"compare.equal-numbers"}


def test_a_load_that_changes_the_range_is_seen() -> None:
    lower = sample(Kind.NUMBERS, 2)
    lower[::10] //= np.uint64(2)
    assert "compare.numbers" in small(compared(Kind.NUMBERS, sample(Kind.NUMBERS, 1), lower))


@settings(max_examples=scaled(40, 1000), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 2**32))
def test_agreements_are_counted_pair_by_pair_however_the_samples_are_cut(cuts: list[int], seed: int) -> None:
    count = sum(cuts)
    rng = np.random.default_rng(seed)
    first, second = (rng.permuted(np.tile(np.arange(5, dtype=np.uint8), (count, 1)), axis=1) for _ in range(2))
    comparison = Comparison(Kind.SHUFFLES, 5)
    at = 0
    for length in cuts:
        comparison.update(first[at : at + length], second[at : at + length])
        at += length
    expected = Counter(int((a == b).sum()) for a, b in zip(first, second, strict=True))
    assert {k: c for k, c in enumerate(comparison._agreements.tolist()) if c} == dict(expected)
    near = [(i, j) for i in range(count) for j in range(count) if 1 <= abs(i - j) <= 5]
    assert comparison._lagged_pairs == len(near)
    assert comparison._lagged == sum(int((first[i] == second[j]).sum()) for i, j in near)


@settings(max_examples=scaled(40, 1000), deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=6), st.integers(0, 2**32))
def test_bits_are_counted_alike_however_the_samples_are_cut(cuts: list[int], seed: int) -> None:
    first, second = np.random.default_rng(seed).integers(0, 256, (2, sum(cuts)), dtype=np.uint8)
    comparison = Comparison(Kind.BITS, 0)
    at = 0
    for length in cuts:
        comparison.update(first[at : at + length], second[at : at + length])
        at += length
    octets = max(0, len(first) - 64)
    assert comparison._octets == octets
    if octets:
        assert comparison._differing.tolist() == differing_at_lags(first, second).tolist()


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 9), max_size=6), st.integers(1, 12))
def test_streams_are_read_in_step(first: list[int], second: list[int], most: int) -> None:
    def chunks(lengths: list[int]) -> Iterator[Items]:
        at = 0
        for length in lengths:
            yield np.arange(at, at + length)
            at += length

    pieces = list(in_step(chunks(first), chunks(second), most))
    assert all(len(a) == len(b) <= most for a, b in pieces)
    for side in (0, 1):
        read = list(itertools.chain.from_iterable(pair[side].tolist() for pair in pieces))
        assert read == list(range(min(sum(first), sum(second))))


# --- The command ---


def stats_tests(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}{result.exception!r}"
    return result.output


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    for name, options in {
        "idle": ("--source", "generator:good", "--count", 10_000),
        "loaded": ("--source", "generator:good", "--seed", 2, "--count", 10_000),
        "biased": ("--source", "generator:sattolo", "--count", 10_000),
        "few": ("--source", "generator:good", "--seed", 3, "--count", 9999),
    }.items():
        stats_tests("collect", *options, "--format", "decks-u8", "-o", folder / name)
    return folder


@pytest.mark.parametrize(
    ("second", "code", "verdict"), [("loaded", 0, "pass"), ("biased", 1, "fail"), ("idle", 1, "fail")]
)
def test_two_files_are_compared(collected: Path, second: str, code: int, verdict: str) -> None:
    arguments = ("compare", collected / "idle", collected / second, "--format", "decks-u8")
    assert f"verdict: {verdict} (UNSIGNED)" in stats_tests(*arguments, code=code)
    assert json.loads(stats_tests(*arguments, "--json", code=code))["verdict"] == verdict


def test_files_of_other_lengths_are_not_compared_in_silence(collected: Path) -> None:
    arguments = ("compare", collected / "idle", collected / "few", "--format", "decks-u8")
    assert "the files hold 10000 and 9999 decks: give --count of both" in stats_tests(*arguments, code=2)
    assert "verdict: undecided" in stats_tests(*arguments, "--count", 9999, code=3)
    assert "holds 9999 decks" in stats_tests(*arguments, "--count", 10_000, code=3)


def test_a_comparison_is_signed(collected: Path, tmp_path: Path) -> None:
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    key, report = tmp_path / "key.pem", tmp_path / "report.note"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files = (collected / "idle", collected / "loaded", "--format", "decks-u8")
    stats_tests("compare", *files, "--report", report, "--key", key, "--time", "2026-11-29T12:00:00Z")
    signed = verify(report.read_text(), [NoteKey("auditor", private.public_key().public_bytes_raw())])
    document = json.loads(signed)
    assert (document["verdict"], document["time"], len(document["results"])) == ("pass", "2026-11-29T12:00:00Z", 8)
    again = tmp_path / "again.note"
    stats_tests("compare", *files, "--report", again, "--key", key, "--time", "2026-11-29T12:00:00Z")
    assert again.read_bytes() == report.read_bytes()


# --- The live service, idle and under load ---


@pytest.mark.parametrize("options", [("--format", "decks-u8"), ("--format", "raw")], ids=["decks", "bits"])
def test_the_service_gives_the_same_under_load(
    service: tuple[str, str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    target, log_key = service
    live = ("--source", f"rngsvc:{target}", "--log-key", log_key)
    count = scaled(10_000, 200_000) if "decks-u8" in options else scaled(125_000, 12_500_000)

    def collect(name: str) -> None:
        stats_tests("collect", *live, *options, "--count", count, "-o", tmp_path / name)

    collect("idle")
    # Hands of every game are dealt and other samples drawn all the while.
    demo = [sys.executable, "-m", "dealer", "demo", "--rngsvc", target, "--log-key", log_key, "--hands", "10000"]
    play = subprocess.Popen([*demo, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    others = [threading.Thread(target=collect, args=(name,)) for name in ("other", "another")]
    try:
        assert play.stdout
        assert play.stdout.readline()
        for other in others:
            other.start()
        collect("loaded")
        assert play.poll() is None, "it was played to the end of the sample"
    finally:
        play.kill()
        play.communicate()
        for other in others:
            other.join()
    for one, other in itertools.combinations(("idle", "loaded", "other", "another"), 2):
        stats_tests("compare", tmp_path / one, tmp_path / other, *options)
