"""Null distributions against all words of a small length, counted by the code that counts in large ones."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stats_tests.bits import tails
from stats_tests.bits.frequency import BlockFrequency, Frequency
from stats_tests.bits.linear_complexity import (
    LinearComplexity,
    complexity_probabilities,
    linear_complexities,
    linear_complexity,
)
from stats_tests.bits.matrix_rank import rank_of, rank_probability, ranks
from stats_tests.bits.patterns import Serial
from stats_tests.bits.per_sequence import judge_one
from stats_tests.bits.runs import Runs, longest_run_probabilities
from stats_tests.bits.sequence import Sequence
from stats_tests.bits.spectral import NIST_DIVISOR, Spectral
from stats_tests.bits.templates import NonOverlapping, Overlapping, aperiodic_templates, overlapping_probabilities
from stats_tests.bits.universal import Universal, distance_moments
from stats_tests.bits.walk import CumulativeSums, log_p_of_distance, visit_probabilities
from stats_tests.catalogue import Mode
from stats_tests.nulls import log_chi_square_tail
from tests.scale import scaled

EXACT = Mode.CORRECTED


def all_words(length: int) -> NDArray[np.uint8]:
    """Return every word of a length, one a row."""
    words = np.arange(1 << length, dtype=np.uint32)[:, None] >> np.arange(length, dtype=np.uint32)[::-1]
    return (words & 1).astype(np.uint8)


@pytest.mark.parametrize("make_test", [Frequency, Runs, CumulativeSums])
@pytest.mark.parametrize("n", [2, 7, 12])
def test_the_p_value_is_the_share_of_words_at_least_as_extreme(make_test: Any, n: int) -> None:
    outcomes = [judge_one(make_test(n, EXACT), Sequence(word))[0] for word in all_words(n)]
    for outcome in outcomes:
        extreme = sum(other.statistic >= outcome.statistic - 1e-9 for other in outcomes)
        # The distance's P-value goes through a fixed-point sum of units of 2^-24.
        assert outcome.p_value == pytest.approx(extreme / len(outcomes), rel=1e-7)


@pytest.mark.parametrize("n", range(1, 13))
def test_the_greatest_distance_from_the_end_has_the_law_of_that_from_the_beginning(n: int) -> None:
    counts = [CumulativeSums(n, EXACT).observe(Sequence(word)) for word in all_words(n)]
    forward, reverse = Counter(int(c[0]) for c in counts), Counter(int(c[1]) for c in counts)
    assert forward == reverse
    for distance in range(n + 2):
        share = sum(count for z, count in forward.items() if z >= distance) / 2**n
        assert math.exp(log_p_of_distance(distance, n)) == pytest.approx(share, rel=1e-9)


def test_block_frequency_has_the_mean_and_variance_of_its_null() -> None:
    test = BlockFrequency(12, EXACT, block=4)
    statistics = [judge_one(test, Sequence(word))[0].statistic for word in all_words(12)]
    freedom = 3 / (1 - 1 / 4)
    assert np.mean(statistics) == pytest.approx(freedom)
    assert np.var(statistics) == pytest.approx(2 * freedom)


@pytest.mark.parametrize(("block", "shortest", "longest"), [(8, 1, 4), (13, 2, 6), (14, 1, 9)])
def test_longest_run_probabilities_are_shares_of_all_words(block: int, shortest: int, longest: int) -> None:
    runs = [max(len(run) for run in "".join(map(str, word)).split("0")) for word in all_words(block).tolist()]
    seen = Counter(min(max(run, shortest), longest) for run in runs)
    shares = [seen[k] / 2**block for k in range(shortest, longest + 1)]
    assert longest_run_probabilities(block, shortest, longest) == pytest.approx(shares, abs=1e-12)


@pytest.mark.parametrize(("length", "block"), [(1, 9), (2, 12), (3, 14), (9, 14)])
def test_overlapping_probabilities_are_shares_of_all_words(length: int, block: int) -> None:
    test = Overlapping(block, EXACT, length=length, block=block)
    seen = sum(test.observe(Sequence(word)) for word in all_words(block))
    assert overlapping_probabilities(length, block) == pytest.approx(seen / 2**block, abs=1e-12)


@pytest.mark.parametrize(("length", "size"), [(2, 8), (3, 13), (4, 14)])
def test_template_counts_have_the_mean_and_variance_of_their_null(length: int, size: int) -> None:
    # sum (count - mean)^2 / variance has mean 1 for each template if both are exact.
    test = NonOverlapping(size, EXACT, length=length, blocks=1)
    words = all_words(size)
    results = [judge_one(test, Sequence(word)) for word in words]
    statistics = np.array([[r.statistic for r in of_word] for of_word in results])
    assert statistics.mean(axis=0) == pytest.approx(np.ones(len(aperiodic_templates(length))))
    matches = np.array([[r.details["matches"] for r in of_word] for of_word in results])
    assert matches.mean(axis=0) == pytest.approx((size - length + 1) / 2**length)


def test_a_template_is_counted_where_a_search_finds_it() -> None:
    text = "".join(map(str, np.random.default_rng(7).integers(0, 2, 4000)))
    test = NonOverlapping(4000, EXACT)
    counts = test.observe(Sequence.of(text)).reshape(2, -1)
    blocks = [text[k * 500 : (k + 1) * 500] for k in range(8)]
    for part, total, squares in zip(test.parts, *counts.tolist(), strict=True):
        found = [block.count(part[1:]) for block in blocks]
        assert [total, squares] == [sum(found), sum(k * k for k in found)]


@pytest.mark.parametrize("block", [1, 2, 9, 10, 11, 12])
def test_complexity_probabilities_are_shares_of_all_words(block: int) -> None:
    words = all_words(block)
    seen = LinearComplexity(words.size, EXACT, block=block).observe(Sequence(words.reshape(-1)))
    assert complexity_probabilities(block) == pytest.approx(seen / 2**block, abs=1e-12)


def _shortest_register(word: tuple[int, ...]) -> int:
    """By trying all connection polynomials."""
    for length in range(len(word) + 1):
        for taps in itertools.product((0, 1), repeat=length):
            if all(
                word[k] == sum(taps[j] * word[k - 1 - j] for j in range(length)) % 2 for k in range(length, len(word))
            ):
                return length
    raise AssertionError


def test_both_linear_complexities_are_the_shortest_register_of_every_word() -> None:
    words = all_words(8)
    expected = [_shortest_register(tuple(word)) for word in words.tolist()]
    assert linear_complexities(words).tolist() == expected
    assert [linear_complexity(word) for word in words] == expected


def test_batched_and_single_linear_complexity_agree_on_long_words() -> None:
    words = np.random.default_rng(5).integers(0, 2, (scaled(150, 3000), 333), dtype=np.uint8)
    words[3] = 0
    words[4, :-1] = 0
    words[70] = np.resize(words[70, :9], 333)
    assert linear_complexities(words).tolist() == [linear_complexity(word) for word in words]


@pytest.mark.parametrize("side", [2, 3, 4])
def test_rank_probabilities_are_shares_of_all_matrices(side: int) -> None:
    matrices = np.array(list(itertools.product(range(1 << side), repeat=side)), dtype=np.uint32)
    seen = Counter((side - ranks(matrices)).tolist())
    for deficiency in range(side + 1):
        share = seen[deficiency] / len(matrices)
        assert rank_probability(side, deficiency) == pytest.approx(share, abs=1e-12)


def test_both_ranks_agree_and_are_that_of_a_product() -> None:
    rng = np.random.default_rng(3)
    for inner in (1, 17, 40, 64):
        product = rng.integers(0, 2, (64, inner)) @ rng.integers(0, 2, (inner, 64)) % 2
        rows = np.packbits(product.astype(np.uint8), axis=1).view(np.uint64)
        assert rank_of(rows) == ranks(rows.T)[0] <= inner
        assert rank_of(rows) > inner - 8


def test_psi_squared_has_its_exact_mean_over_all_words() -> None:
    n, m = 10, 3
    statistics = np.array(
        [[r.statistic for r in judge_one(Serial(n, EXACT, length=m), Sequence(word))] for word in all_words(n)]
    )
    assert statistics.mean(axis=0) == pytest.approx([2 ** (m - 1), 2 ** (m - 2)])


@pytest.mark.parametrize("state", [-4, -3, -2, -1, 1, 2, 3, 4])
def test_visits_in_a_cycle_have_mean_one_and_the_variance_of_the_variant_test(state: int) -> None:
    probabilities = visit_probabilities(state)
    assert sum(probabilities) == pytest.approx(1)
    stay = 1 - 1 / (2 * abs(state))
    mean = sum(k * p for k, p in enumerate(probabilities[:-1])) + probabilities[-1] * (5 + stay / (1 - stay))
    assert mean == pytest.approx(1)


def test_the_universal_variance_is_that_of_simulated_sequences() -> None:
    length, first, tested, runs = 3, 200, 100, scaled(4000, 40_000)
    blocks = np.random.default_rng(11).integers(0, 2, (runs, (first + tested) * length), dtype=np.uint8)
    test = Universal(blocks.shape[1], EXACT, block=length, first=first)
    observed = np.array([judge_one(test, Sequence(row))[0].statistic for row in blocks])
    mean, variance = distance_moments(length, tested)
    assert abs(observed.mean() - mean) < 4 * math.sqrt(variance / runs)
    assert observed.var() == pytest.approx(variance, rel=4 * math.sqrt(2 / runs))


def test_the_spectral_variance_is_that_of_simulated_sequences_and_not_nists() -> None:
    n, runs = 1024, scaled(20_000, 200_000)
    test = Spectral(n, EXACT)
    bits = np.random.default_rng(12).integers(0, 2, (runs, n), dtype=np.uint8)
    z = np.array([judge_one(test, Sequence(row))[0].statistic for row in bits])
    assert abs(z.mean()) < 0.1
    tolerance = 3.3 * math.sqrt(2 / runs)
    assert z.var() == pytest.approx(1, abs=tolerance)
    assert z.var() * NIST_DIVISOR / 3.790 > 1 + tolerance


@pytest.mark.parametrize("n", [1, 2, 10, 101, 5000])
def test_binomial_tails_are_sums_of_binomial_coefficients(n: int) -> None:
    for k in {0, 1, n // 10, n // 3, n // 2} & set(range(n + 1)):
        tail = sum(math.comb(n, j) for j in range(k + 1))
        exact = _log_of(tail) - n * math.log(2)
        assert tails.binomial_at_most(k, n) == pytest.approx(exact, rel=1e-9, abs=1e-12)


def _log_of(number: int) -> float:
    shift = max(0, number.bit_length() - 900)
    return math.log(number >> shift) + shift * math.log(2)


@pytest.mark.parametrize("freedom", [1, 2, 6, 8, 255.5, 7874, 65536])
def test_the_chi_square_tail_has_no_seam_where_it_underflows(freedom: float) -> None:
    # Around the switch the logarithm's second differences stay as small as on both sides of it.
    from scipy import optimize

    seam = optimize.brentq(lambda x: log_chi_square_tail(x, freedom) + 667.7, freedom, freedom + 20_000)
    around = [log_chi_square_tail(seam + step, freedom) for step in range(-4, 5)]
    assert max(abs(np.diff(around, 2))) < 1e-3
    assert all(np.diff(around) < 0)
    assert -1e9 < log_chi_square_tail(1e8, freedom) < -1e6


def test_even_degrees_of_freedom_give_the_poisson_sum() -> None:
    for x in (3.0, 1500.0, 5000.0):
        log_sum = -x / 2 + math.log(math.fsum((x / 2) ** k / math.factorial(k) for k in range(3)))
        assert log_chi_square_tail(x, 6) == pytest.approx(log_sum, rel=1e-12)


def test_poisson_tails_are_sums() -> None:
    pmf = [math.exp(-4) * 4**k / math.factorial(k) for k in range(60)]
    for count in (0, 1, 4, 9, 20):
        assert math.exp(tails.poisson_at_least(count, 4.0)) == pytest.approx(sum(pmf[count:]), rel=1e-9)
        two_sided = min(1, 2 * min(sum(pmf[count:]), sum(pmf[: count + 1])))
        assert math.exp(tails.poisson_two_sided(count, 4.0)) == pytest.approx(two_sided, rel=1e-9)
    assert tails.poisson_at_least(100_000, 4.0) < -100_000
