"""Plans carried out: whatever cut the sample, the state file is the same; other files are refused."""

import io
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stats_tests import battery, bits, numbers, shuffles
from stats_tests.battery import ALL, CATALOGUE, Battery, plan_for
from stats_tests.catalogue import Kind
from stats_tests.digest import SampleDigest
from stats_tests.runner import run_plan, stretches
from stats_tests.samples import BinaryFile, Format, GeneratorSource, StreamSource, generator_named, to_bytes
from stats_tests.tally import StateError, Tally, merge_all, read_state, tally_stretch
from tests.scale import scaled

SIZES = {Kind.BITS: 0, Kind.NUMBERS: 49, Kind.SHUFFLES: 52}


def good(kind: Kind) -> GeneratorSource:
    return GeneratorSource(generator_named("good"), kind, SIZES[kind], seed=2)


def file_of(tally: Tally) -> bytes:
    file = io.BytesIO()
    tally.write(file)
    return file.getvalue()


def test_every_test_of_the_catalogue_is_in_a_battery() -> None:
    listed = {test for tests in ALL.values() for test in tests}
    assert listed | set(battery.SP800_22) == set(CATALOGUE)
    assert len(CATALOGUE) == len(bits.ENTRIES) + len(numbers.ENTRIES) + len(shuffles.ENTRIES)
    for entry in CATALOGUE.values():
        assert entry.id.split(".")[0] == str(entry.kind)
        assert entry.null
        assert entry.source
        assert entry.clauses


@pytest.mark.parametrize(
    ("kind", "cuts"),
    [
        (Kind.SHUFFLES, [0, 1, 4000, 4001, 7777, 12_000]),
        (Kind.NUMBERS, [0, 3, 50_000, 50_001, 90_000]),
        (Kind.BITS, [0, 100, 125_000, 300_007, 375_000]),
    ],
)
def test_shards_joined_in_any_order_give_the_file_of_the_whole(kind: Kind, cuts: list[int], tmp_path: Path) -> None:
    plan = plan_for(Battery.SMOKE, kind, SIZES[kind])
    whole = file_of(tally_stretch(plan, good(kind), 0, cuts[-1]))
    shards = []
    for start, stop in itertools.pairwise(cuts):
        path = tmp_path / f"{start}.state"
        path.write_bytes(file_of(tally_stretch(plan, good(kind), start, stop)))
        shards.append(read_state(path))
    assert file_of(merge_all(shards[::-1])) == whole


@pytest.mark.parametrize(("kind", "items"), [(Kind.SHUFFLES, 6400), (Kind.NUMBERS, 64_000), (Kind.BITS, 750_000)])
def test_64_shards_joined_two_by_two_give_the_file_of_the_whole(kind: Kind, items: int) -> None:
    plan = plan_for(Battery.SMOKE, kind, SIZES[kind])
    cuts = sorted(random.Random(64).sample(range(1, items), 63))
    shards = [tally_stretch(plan, good(kind), a, b) for a, b in itertools.pairwise([0, *cuts, items])]
    while len(shards) > 1:
        for left, right in zip(shards[::2], shards[1::2], strict=True):
            left.merge(right)
        shards = shards[::2]
    assert file_of(shards[0]) == file_of(tally_stretch(plan, good(kind), 0, items))


def test_a_file_a_stream_and_two_processes_give_the_same_bytes(tmp_path: Path) -> None:
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, 52)
    decks = np.concatenate(list(good(Kind.SHUFFLES).items(0, 3000)))
    path = tmp_path / "decks"
    path.write_bytes(to_bytes(decks))
    text = "\n".join(" ".join(map(str, deck)) for deck in decks.tolist()).encode()
    tallies = [
        tally_stretch(plan, good(Kind.SHUFFLES), 0, 3000),
        run_plan(plan, BinaryFile(path, Format.DECKS_U8, 52), 0, None),
        run_plan(plan, StreamSource("stdin", Format.DECKS_TEXT, 52, lambda: io.BytesIO(text)), 0, None, workers=2),
        run_plan(plan, good(Kind.SHUFFLES), 0, 3000, workers=2),
    ]
    assert len({file_of(tally) for tally in tallies}) == 1


def test_many_stretches_on_two_processes_give_the_bytes_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stats_tests.runner.STRETCH_BYTES", 52 * 700)
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, 52)
    seen: list[int] = []
    tally = run_plan(plan, good(Kind.SHUFFLES), 0, 3000, workers=2, tick=seen.append)
    assert len(seen) == 5
    assert sum(seen) == 3000
    assert file_of(tally) == file_of(tally_stretch(plan, good(Kind.SHUFFLES), 0, 3000))


def test_a_dask_cluster_gives_the_bytes_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="the cluster extra is not installed")
    monkeypatch.setattr("stats_tests.runner.STRETCH_BYTES", 52 * 1500)
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, 52)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        tally = run_plan(plan, good(Kind.SHUFFLES), 0, 3000, scheduler=cluster.scheduler_address)
    assert file_of(tally) == file_of(tally_stretch(plan, good(Kind.SHUFFLES), 0, 3000))


def test_stretches_of_bits_end_where_sequences_end() -> None:
    plan = plan_for(Battery.SMOKE, Kind.BITS, 0)
    parts = list(stretches(plan, 7, 100_000_000))
    assert parts[0][0] == 7
    assert parts[-1][1] == 100_000_000
    assert all(a[1] == b[0] and a[1] % 125_000 == 0 for a, b in itertools.pairwise(parts))


@settings(max_examples=scaled(100, 5000), deadline=None)
@given(
    st.lists(st.integers(0, 60_000), min_size=1, max_size=6),
    st.integers(0, 200_000),
    st.sampled_from([1, 8, 52]),
    st.randoms(use_true_random=False),
)
def test_the_sample_digest_does_not_depend_on_the_cuts(
    lengths: list[int], start: int, width: int, random: object
) -> None:
    count = sum(lengths)
    items = np.random.default_rng(start).integers(0, 255, (count, width), dtype=np.uint8)
    whole = SampleDigest(width, start)
    whole.update(items)
    parts, at = [], 0
    for length in lengths:
        part = SampleDigest(width, start + at)
        part.update(items[at : at + length // 2])
        part.update(items[at + length // 2 : at + length])
        parts.append(part)
        at += length
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i].merge(parts.pop(i + 1))
    assert parts[0].to_state() == whole.to_state()
    assert parts[0].root() == whole.root()
    restored = SampleDigest(width, 0)
    restored.load(json.loads(json.dumps(whole.to_state())))
    assert restored.to_state() == whole.to_state()


def changed(state: dict, path: str, value: object) -> bytes:
    *folders, last = path.split("/")
    inner = state
    for folder in folders:
        inner = inner[folder]
    inner[last] = value
    return json.dumps(state).encode() + b"\n"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "stats_tests-state/2", "not a state of format"),
        ("battery", "large", "'large' is not a valid Battery"),
        ("size", "49", "not a state of format"),
        ("tests", {}, "another version of the battery"),
        ("tests/numbers.runs", {}, "expected start"),
        ("tests/numbers.runs/counts", [1, 2], "2 counts where the test has 1"),
        ("tests/numbers.runs/counts", ["a"], "state"),
        ("tests/numbers.runs/start", 5, "state"),
        ("sample/head", "zz", "state"),
        ("sample/end", 10, "state"),
    ],
)
def test_a_damaged_state_is_refused(path: str, value: object, message: str) -> None:
    plan = plan_for(Battery.SMOKE, Kind.NUMBERS, 49)
    state = json.loads(json.dumps(tally_stretch(plan, good(Kind.NUMBERS), 0, 500).to_state()))
    with pytest.raises(StateError, match=message):
        Tally.read(io.BytesIO(changed(state, path, value)))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: b"", "not JSON"),
        (lambda raw: b"[]\n", "not a state"),
        (lambda raw: raw[:-1], "ends 16 bytes early|ends .* early"),
        (lambda raw: raw[:-16] + bytes(16), "not those that the state names"),
        (lambda raw: raw + b"x", "bytes follow"),
    ],
)
def test_a_damaged_state_file_is_refused(damage: object, message: str) -> None:
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, 52)
    raw = file_of(tally_stretch(plan, good(Kind.SHUFFLES), 0, 50))
    with pytest.raises(StateError, match=message):
        Tally.read(io.BytesIO(damage(raw)))


def test_shards_with_a_gap_or_of_other_plans_are_refused() -> None:
    plan = plan_for(Battery.SMOKE, Kind.NUMBERS, 49)
    other = plan_for(Battery.DAILY, Kind.NUMBERS, 49)
    with pytest.raises(ValueError, match="do not adjoin"):
        merge_all([tally_stretch(plan, good(Kind.NUMBERS), 0, 5), tally_stretch(plan, good(Kind.NUMBERS), 6, 9)])
    with pytest.raises(StateError, match="different plans"):
        merge_all([tally_stretch(plan, good(Kind.NUMBERS), 0, 5), tally_stretch(other, good(Kind.NUMBERS), 5, 9)])
