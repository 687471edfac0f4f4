"""SP 800-90B continuous tests: cutoffs against SciPy, behaviour against a sample-by-sample reading of the standard."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from rngsvc.health_tests import (
    AdaptiveProportion,
    HealthTests,
    HealthTestTripped,
    RepetitionCount,
    proportion_cutoff,
    repetition_cutoff,
)
from tests.scale import scaled

EXPONENTS = (20, 30, 40)


@pytest.mark.requirement("R23")
@pytest.mark.parametrize(
    ("min_entropy", "window", "repetition", "proportion"),
    [
        (1, 1024, (21, 31, 41), (589, 609, 625)),
        (2, 512, (11, 16, 21), (177, 190, 201)),
        (4, 512, (6, 9, 11), (62, 71, 78)),
        (6, 512, (5, 6, 8), (25, 31, 35)),
        (8, 512, (4, 5, 6), (13, 16, 19)),
    ],
)
def test_cutoffs_are_those_of_the_published_table(
    min_entropy: float, window: int, repetition: tuple[int, ...], proportion: tuple[int, ...]
) -> None:
    assert tuple(repetition_cutoff(min_entropy, a) for a in EXPONENTS) == repetition
    assert tuple(proportion_cutoff(min_entropy, a, window) for a in EXPONENTS) == proportion


@settings(deadline=None, max_examples=scaled(40, 1000))
@given(min_entropy=st.floats(0.05, 8), exponent=st.integers(10, 60), window=st.sampled_from([512, 1024]))
def test_the_proportion_cutoff_is_the_least_with_a_tail_within_the_alarm_rate(
    min_entropy: float, exponent: int, window: int
) -> None:
    """SciPy's survival function is the second opinion; the last bits of a double are allowed for at the boundary."""
    cutoff, p = proportion_cutoff(min_entropy, exponent, window), 2.0**-min_entropy
    assert binom.sf(cutoff - 1, window, p) <= 2.0**-exponent * (1 + 1e-9)
    assert binom.sf(cutoff - 2, window, p) > 2.0**-exponent * (1 - 1e-9)


def tripped_at(test: RepetitionCount | AdaptiveProportion, samples: bytes) -> int | None:
    """Feed one sample at a time; return the index at which the alarm came."""
    for i in range(len(samples)):
        try:
            test.feed(samples[i : i + 1])
        except HealthTestTripped:
            return i
    return None


def repetition_by_the_book(samples: bytes, cutoff: int) -> int | None:
    """SP 800-90B, 4.4.1, step by step."""
    a, b = samples[0], 1
    for i, x in enumerate(samples[1:], 1):
        if x == a:
            b += 1
            if b >= cutoff:
                return i
        else:
            a, b = x, 1
    return None


def proportion_by_the_book(samples: bytes, cutoff: int, window: int) -> int | None:
    """SP 800-90B, 4.4.2, step by step."""
    for start in range(0, len(samples), window):
        a, b = samples[start], 1
        for i in range(start + 1, min(start + window, len(samples))):
            if samples[i] == a:
                b += 1
            if b >= cutoff:
                return i
    return None


few_values = st.lists(st.sampled_from([0, 1, 255]), min_size=1, max_size=120).map(bytes)


@given(samples=few_values, cutoff=st.integers(2, 8))
def test_repetition_count_follows_the_standard(samples: bytes, cutoff: int) -> None:
    assert tripped_at(RepetitionCount(cutoff), samples) == repetition_by_the_book(samples, cutoff)


@given(samples=few_values, cutoff=st.integers(2, 12), window=st.integers(2, 20))
def test_adaptive_proportion_follows_the_standard(samples: bytes, cutoff: int, window: int) -> None:
    assert tripped_at(AdaptiveProportion(cutoff, window), samples) == proportion_by_the_book(samples, cutoff, window)


@given(samples=few_values, cuts=st.lists(st.integers(0, 120), max_size=6), cutoff=st.integers(2, 8))
def test_how_the_stream_is_cut_into_calls_makes_no_difference(samples: bytes, cuts: list[int], cutoff: int) -> None:
    pieces = [samples[a:b] for a, b in pairwise([0, *sorted(min(c, len(samples)) for c in cuts), len(samples)])]
    assert b"".join(pieces) == samples

    def verdict(test: RepetitionCount | AdaptiveProportion) -> bool:
        try:
            for piece in pieces:
                test.feed(piece)
        except HealthTestTripped:
            return True
        return False

    assert verdict(RepetitionCount(cutoff)) == (repetition_by_the_book(samples, cutoff) is not None)
    assert verdict(AdaptiveProportion(cutoff, 10)) == (proportion_by_the_book(samples, cutoff, 10) is not None)


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    ("fault", "stream"),
    [
        ("stuck at one byte", bytes(1000)),
        ("a burst of six equal bytes", random.Random(1).randbytes(1000) + b"x" * 6),
        ("alternates between two bytes", b"\x55\xaa" * 500),
        ("one bit of eight is stuck and two more follow it", bytes(b & 0x1F for b in random.Random(2).randbytes(2000))),
        ("every tenth byte is the same", b"".join(b"\x07" + random.Random(i).randbytes(9) for i in range(2000))),
    ],
)
def test_a_faulty_source_that_claims_full_entropy_is_caught(fault: str, stream: bytes) -> None:
    with pytest.raises(HealthTestTripped, match=r"(repetition count|adaptive proportion): "):
        HealthTests(8, 20).feed(stream)


def test_a_good_source_raises_no_alarm() -> None:
    tests = HealthTests(8, 40)
    good = random.Random(3)
    for _ in range(scaled(20, 1000)):
        tests.feed(good.randbytes(100_000))
    assert tests.samples == scaled(20, 1000) * 100_000


@pytest.mark.parametrize("min_entropy", [0, -1, 8.01])
def test_an_impossible_entropy_claim_is_refused(min_entropy: float) -> None:
    with pytest.raises(ValueError, match="min_entropy: above 0, at most 8"):
        HealthTests(min_entropy, 20)
