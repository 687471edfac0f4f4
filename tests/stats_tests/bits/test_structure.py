"""What SP 800-22 cannot see: long recurrences, spacings, collisions, repetition, correlation of instances."""

import itertools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stats_tests.bits import ENTRIES
from stats_tests.bits.repeated_blocks import RepeatedBlocks
from stats_tests.bits.structure import (
    BIRTHDAY_WORDS,
    LAGS,
    STRUCTURE,
    differing_at_lags,
    equal_spacings,
    judge_cross_correlation,
    judge_lanes,
    judge_ranks,
    observe_birthdays,
    observe_lags,
)
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.result import Result, Status
from tests.scale import scaled

SETTING = Setting(Kind.BITS, 10**6)
BY_ID = {entry.id.removeprefix("bits.structure."): entry for entry in STRUCTURE}
MIB = 1 << 20


def run(test: str, octets: NDArray[np.uint8]) -> Result:
    accumulator = BY_ID[test].make(SETTING, 0)
    accumulator.update(octets)
    (result,) = accumulator.results()
    return result


def good(seed: int, size: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def test_every_entry_of_the_kind_has_its_own_id() -> None:
    assert max(Counter(entry.id for entry in ENTRIES).values()) == 1
    assert all(entry.kind is Kind.BITS and entry.clauses for entry in ENTRIES)


@pytest.mark.parametrize("entry", STRUCTURE, ids=lambda entry: entry.id)
def test_honest_bytes_pass(entry: Entry) -> None:
    accumulator = entry.make(SETTING, 0)
    accumulator.update(good(1, 2 * MIB))
    (result,) = accumulator.results()
    assert result.status is Status.OK
    assert result.log_p is not None
    assert result.log_p > math.log(1e-4)


@pytest.mark.parametrize("entry", STRUCTURE, ids=lambda entry: entry.id)
def test_one_byte_less_than_the_minimum_does_not_do(entry: Entry) -> None:
    for size, status in ((entry.minimal(SETTING), Status.OK), (entry.minimal(SETTING) - 1, Status.NOT_APPLICABLE)):
        accumulator = entry.make(SETTING, 0)
        accumulator.update(good(2, size))
        assert [result.status for result in accumulator.results()] == [status]


def mersenne_twister(size: int) -> NDArray[np.uint8]:
    generator = np.random.Generator(np.random.MT19937(1))
    return generator.integers(0, 2**32, size // 4, dtype=np.uint32).astype(">u4").view(np.uint8)


def linear_congruential(size: int) -> NDArray[np.uint8]:
    """Full 32-bit state of x -> 1664525 x + 1013904223."""
    state, words = 1, np.empty(size // 4, dtype=">u4")
    for k in range(words.size):
        state = (1664525 * state + 1013904223) & 0xFFFFFFFF
        words[k] = state
    return words.view(np.uint8)


BAD: list[tuple[str, str, Callable[[], NDArray[np.uint8]]]] = [
    ("MT19937", "lane-complexity", lambda: mersenne_twister(MIB)),
    ("a linear congruential generator", "birthday-spacings", lambda: linear_congruential(MIB)),
    ("a linear congruential generator never collides", "collisions", lambda: linear_congruential(16 * MIB)),
    ("sixteen-bit words twice each", "collisions", lambda: np.repeat(good(1, MIB).view(np.uint32), 2).view(np.uint8)),
    ("rows that depend on others", "large-rank", lambda: np.resize(good(1, 900 * 128), MIB // 8)),
    ("a copy 17 bits later", "autocorrelation", lambda: _echo(17)),
    ("a copy 64 bits later", "autocorrelation", lambda: _echo(64)),
    ("a file read twice", "repeated-blocks", lambda: np.tile(good(1, 300_001), 2)),
    ("nothing but zeros", "repeated-blocks", lambda: np.zeros(1000, dtype=np.uint8)),
    ("nothing but ones", "autocorrelation", lambda: np.full(1000, 255, dtype=np.uint8)),
]


@pytest.mark.parametrize(("title", "test", "make"), BAD, ids=[f"{row[0]}: {row[1]}" for row in BAD])
def test_bad_bytes_are_caught(title: str, test: str, make: Callable[[], NDArray[np.uint8]]) -> None:
    result = run(test, make())
    assert result.log_p is not None
    assert result.log_p < math.log(1e-6)


def _echo(lag: int) -> NDArray[np.uint8]:
    """Every 25th bit repeats the bit `lag` places before."""
    bits = np.unpackbits(good(1, 100_000))
    places = np.arange(100, bits.size, 25)
    bits[places] = bits[places - lag]
    return np.packbits(bits)


def test_mersenne_twister_lanes_have_the_complexity_of_its_state() -> None:
    result = run("lane-complexity", mersenne_twister(180_000))
    assert result.details["mean_distance"] == 45_000 // 2 - 19_937


def test_lane_distances_sum_to_fishers_statistic() -> None:
    # P(>= 1) = 1/2, P(>= 3) = 2/64; six lanes, the other four at n/2 with P = 1.
    (result,) = judge_lanes(np.array([4, 2]), 2)
    assert result.statistic == pytest.approx(-2 * math.log(1 / 2 * 2 / 64))


def test_few_matrices_and_many_are_judged_by_different_rules_fixed_in_advance() -> None:
    few = np.zeros(33, dtype=np.int64)
    few[[0, 1, 32]] = 1
    assert judge_ranks(few, 3)[0].log_p < -600  # type: ignore[operator]
    many = np.zeros(33, dtype=np.int64)
    many[:3] = [289, 578, 133]
    (result,) = judge_ranks(many, 1000)
    assert len(result.categories) == 3
    assert result.p_value is not None
    assert result.p_value > 0.9


def test_equal_spacings_are_counted_as_knuth_does() -> None:
    # TAOCP 3.3.2 J with n = 2^25 and m = 512 gives R = 0, 1, 2, >= 3 with probability .368801577, .369035243,
    # .183471182, .078691997. Our mean is that of the distribution to second order.
    knuth = [0.368801577, 0.369035243, 0.183471182]
    mean = equal_spacings(512, 2.0**25)
    # The first three terms of a distribution that is Poisson but for a slightly smaller variance.
    poisson = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(3)]
    assert poisson == pytest.approx(knuth, abs=2e-3)
    assert mean == pytest.approx(0.9963, abs=1e-4)


def test_the_mean_of_equal_spacings_is_that_of_simulated_birthdays() -> None:
    groups = scaled(2000, 20_000)
    observed = int(observe_birthdays(good(9, groups * 4 * BIRTHDAY_WORDS))[0])
    expected = groups * equal_spacings(BIRTHDAY_WORDS, 2.0**32)
    assert abs(observed - expected) < 4 * math.sqrt(expected)


@settings(max_examples=scaled(20, 200), deadline=None)
@given(st.integers(LAGS // 8 + 1, 60), st.integers(0, 2**32))
def test_lags_are_counted_bit_by_bit(size: int, seed: int) -> None:
    octets = good(seed, size)
    bits = np.unpackbits(octets)
    first = bits[: 8 * (size - 8)]
    expected = [int((first != bits[lag : lag + first.size]).sum()) for lag in range(1, LAGS + 1)]
    assert observe_lags(octets).tolist() == expected


def cross_correlation(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Result:
    return judge_cross_correlation("instances", differing_at_lags(first, second), first.size - 64)


def test_two_independent_instances_do_not_correlate() -> None:
    result = cross_correlation(good(1, 100_000), good(2, 100_000))
    assert result.log_p is not None
    assert result.log_p > math.log(1e-4)


@pytest.mark.parametrize("lag", [-64, -3, 0, 1, 64])
def test_an_instance_that_follows_another_is_found_at_its_lag(lag: int) -> None:
    stream = good(1, 50_000)
    first, second = stream[100:40_100], stream[100 - lag : 40_100 - lag]
    # Only every twentieth byte is shared.
    mixed = np.where(np.arange(40_000) % 20 == 0, second, good(2, 40_000))
    result = cross_correlation(first, mixed)
    assert result.details["worst_lag_bytes"] == lag
    assert result.log_p is not None
    assert result.log_p < math.log(1e-6)


SPLITTABLE = ("birthday-spacings", "autocorrelation", "repeated-blocks")


@pytest.mark.parametrize("test", SPLITTABLE)
@settings(max_examples=scaled(30, 500), deadline=None)
@given(data=st.data())
def test_every_split_gives_the_same_state(test: str, data: st.DataObject) -> None:
    # Long stretches of zeros, so that marked blocks lie across every seam.
    octets = good(data.draw(st.integers(0, 9)), 40_000) * (good(3, 40_000) > 250)
    octets[:200] = data.draw(st.sampled_from([0, 1]))
    entry = BY_ID[test]
    whole = entry.make(SETTING, 0)
    whole.update(octets)
    near = st.integers(0, 250) | st.integers(0, octets.size)
    bounds = [0, *sorted(data.draw(st.lists(near, max_size=5))), octets.size]
    segments = []
    for begin, end in itertools.pairwise(bounds):
        segment = entry.make(SETTING, begin)
        middle = data.draw(st.integers(begin, end))
        segment.update(octets[begin:middle])
        segment.update(octets[middle:end])
        again = entry.make(SETTING, begin)
        again.load(segment.to_state())
        segments.append(again)
    while len(segments) > 1:
        left = data.draw(st.integers(0, len(segments) - 2))
        segments[left].merge(segments.pop(left + 1))
    assert segments[0].to_state() == whole.to_state()
    assert segments[0].results() == whole.results()


@pytest.mark.parametrize(
    "change",
    [
        {"start": -1},
        {"end": 7},
        {"blocks": "00"},
        {"counts": [0]},
        {"counts": "1"},
        {"head": ""},
        {"tail": "zz"},
        {"end": None},
    ],
    ids=str,
)
def test_a_state_of_something_else_is_refused(change: dict[str, object]) -> None:
    accumulator = RepeatedBlocks(0)
    accumulator.update(np.zeros(40, dtype=np.uint8))
    fresh = RepeatedBlocks(0)
    with pytest.raises(ValueError, match=r"state|hex"):
        fresh.load({**accumulator.to_state(), **change})  # type: ignore[dict-item]
    assert fresh.to_state() == RepeatedBlocks(0).to_state()


def test_segments_that_do_not_adjoin_are_refused() -> None:
    with pytest.raises(ValueError, match="do not adjoin"):
        RepeatedBlocks(0).merge(RepeatedBlocks(5))
