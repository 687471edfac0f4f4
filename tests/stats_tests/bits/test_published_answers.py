"""SP 800-22's own examples: what is published, and where the text is wrong what follows from its definitions."""

import hashlib
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from stats_tests.bits import known_answers
from stats_tests.bits.frequency import BlockFrequency, Frequency
from stats_tests.bits.linear_complexity import LinearComplexity, complexity_probabilities
from stats_tests.bits.matrix_rank import MatrixRank, rank_probability
from stats_tests.bits.patterns import ApproximateEntropy, Serial
from stats_tests.bits.per_sequence import SequenceTest, judge_one
from stats_tests.bits.runs import LongestRun, Runs, longest_run_probabilities
from stats_tests.bits.sequence import Sequence
from stats_tests.bits.spectral import Spectral
from stats_tests.bits.templates import (
    NonOverlapping,
    Overlapping,
    aperiodic_templates,
    compound_poisson,
    overlapping_probabilities,
)
from stats_tests.bits.universal import NIST_MOMENTS, SHORTEST_BLOCK, Universal, distance_moments
from stats_tests.bits.walk import CumulativeSums, RandomExcursions, RandomExcursionsVariant, visit_probabilities
from stats_tests.catalogue import Mode

COMPAT = Mode.NIST_COMPAT
CONSTANTS = ("pi", "e", "sqrt2", "sqrt3")


@pytest.mark.parametrize("constant", CONSTANTS)
def test_the_expansions_are_the_bytes_that_the_answers_were_published_for(constant: str) -> None:
    packed = np.packbits(known_answers.expansion(constant).bits)
    expected = known_answers.vectors(COMPAT)["constants"][constant]["packed_sha256"]
    assert hashlib.sha256(packed).hexdigest() == expected


@pytest.mark.parametrize("make_test", known_answers.TESTS, ids=lambda test: test.__name__)
def test_compat_mode_hits_every_published_p_value_to_six_digits(make_test: Any) -> None:
    answers = known_answers.known_answers(make_test(known_answers.BITS, COMPAT), COMPAT)
    assert {answer.constant for answer in answers} == set(CONSTANTS)
    assert [answer for answer in answers if not answer.holds] == []


def test_each_of_the_188_p_values_but_templates_and_variant_states_is_published() -> None:
    published = known_answers.vectors(COMPAT)["constants"]["pi"]["p_values"]
    named = {name for make in known_answers.TESTS for name in _names(make(known_answers.BITS, COMPAT))}
    assert len(named) == 188
    assert set(published) <= named
    assert len(named) - len(published) == 147 + 17


def _names(test: SequenceTest) -> list[str]:
    return [test.id + part for part in test.parts]


@pytest.mark.parametrize("make_test", [LongestRun, Overlapping, LinearComplexity], ids=lambda test: test.__name__)
def test_corrected_mode_hits_the_p_values_under_exact_probabilities(make_test: Any) -> None:
    answers = known_answers.known_answers(make_test(known_answers.BITS, Mode.CORRECTED), Mode.CORRECTED)
    assert answers
    assert [answer for answer in answers if not answer.holds] == []


@pytest.mark.parametrize("constant", CONSTANTS)
def test_the_integers_behind_the_p_values_are_right(constant: str) -> None:
    expected = known_answers.vectors(Mode.CORRECTED)["constants"][constant]
    sequence, n = known_answers.expansion(constant), known_answers.BITS
    assert 2 * sequence.ones - n == expected["ones_minus_zeros"]
    for test in (LongestRun(n, COMPAT), Overlapping(n, COMPAT)):
        assert test.observe(sequence).tolist() == expected["counts"][test.id]


@pytest.mark.parametrize(
    ("test", "computed", "digits"),
    [
        ("bits.sp800-22.longest-run", longest_run_probabilities(10_000, 10, 16), 7),
        ("bits.sp800-22.overlapping", overlapping_probabilities(9, 1032), 10),
        ("bits.sp800-22.rank", [rank_probability(32, 0), rank_probability(32, 1)], 6),
        ("bits.sp800-22.linear-complexity", complexity_probabilities(500), 12),
    ],
)
def test_computed_category_probabilities_are_the_exact_ones(test: str, computed: Any, digits: int) -> None:
    expected = known_answers.vectors(Mode.CORRECTED)["category_probabilities"][test]
    assert computed == pytest.approx(expected[: len(computed)], abs=0.6 * 10.0**-digits)


def test_any_nist_constant_off_by_a_thousandth_breaks_a_known_answer() -> None:
    unguarded = [
        name
        for name, test in known_answers.perturbed_tests(relative=0.001)
        if all(answer.holds for answer in known_answers.known_answers(test, COMPAT))
    ]
    assert unguarded == []


@pytest.mark.parametrize(("row", "moments"), list(enumerate(NIST_MOMENTS[:8])))
def test_the_universal_table_is_the_exact_moments_of_the_distance(row: int, moments: tuple[float, float]) -> None:
    # The variances are printed to three places, some rounded and some cut off.
    mean, variance = distance_moments(SHORTEST_BLOCK + row, 1)
    assert mean == pytest.approx(moments[0], rel=6e-8)
    assert variance == pytest.approx(moments[1], abs=1e-3)


# J.-S. Coron, D. Naccache, An accurate evaluation of Maurer's universal test, SAC 1998, table 3:
# variance of f x K / variance of one distance = d(L) + e(L) 2^L / K.
@pytest.mark.parametrize(
    ("length", "d", "e"),
    [
        (6, 0.3489769, 0.3941338),
        (7, 0.3631815, 0.3813210),
        (8, 0.3732189, 0.3730195),
        (9, 0.3800637, 0.3677118),
        (10, 0.3845867, 0.3643695),
        (12, 0.3893189, 0.3610336),
    ],
)
def test_the_exact_variance_of_the_universal_statistic_is_coron_and_naccaches(length: int, d: float, e: float) -> None:
    tested = 1000 << length
    factor = distance_moments(length, tested)[1] * tested / distance_moments(length, 1)[1]
    assert factor == pytest.approx(d + e / 1000, abs=2e-7)


def test_there_are_148_aperiodic_templates_of_nine_bits() -> None:
    # Lengths of the template files of NIST's code, m = 2 .. 12.
    assert [len(aperiodic_templates(m)) for m in range(2, 13)] == [2, 4, 6, 12, 20, 40, 74, 148, 284, 568, 1116]


def test_linear_complexity_table_of_nist_is_off_in_its_first_entry_only() -> None:
    exact = complexity_probabilities(500)
    off = [abs(a - b) for a, b in zip(exact, LinearComplexity(500, COMPAT).published, strict=True)]
    assert off[0] > 5e-5
    assert max(off[1:]) < 5e-7


class Example(NamedTuple):
    title: str
    test: SequenceTest
    bits: str
    statistics: list[float]
    p_values: list[float]


P100 = "1100100100001111110110101010001000100001011010001100001000110100110001001100011001100010100010111000"
LONGEST_RUN_EXAMPLE = (
    "11001100000101010110110001001100111000000000001001001101010100010001001111010110100000001101011111001100111001101101"
    "100010110010"
)

SERIAL_10 = Serial(10, COMPAT, length=3)
ENTROPY_10 = ApproximateEntropy(10, COMPAT, length=3)

# Sections 2.1.8 - 2.15.8 of SP 800-22 rev. 1a. Where the printed value does not follow from the printed definitions the
# row says what does, and the title names what is printed.
EXAMPLES = [
    Example("2.1.4", Frequency(10, COMPAT), "1011010101", [0.632456], [0.527089]),
    Example("2.1.8", Frequency(100, COMPAT), P100, [1.6], [0.109599]),
    Example("2.2.4", BlockFrequency(10, COMPAT, block=3), "0110011010", [1], [0.801252]),
    Example("2.2.8", BlockFrequency(100, COMPAT, block=10), P100, [7.2], [0.706438]),
    Example("2.3.4", Runs(10, COMPAT), "1001101011", [], [0.147232]),
    Example("2.3.8", Runs(100, COMPAT), P100, [], [0.500798]),
    Example("2.4.8", LongestRun(128, COMPAT), LONGEST_RUN_EXAMPLE, [4.882457], [0.180609]),
    Example("2.6.4, printed .029523 with N1 = 4", Spectral(10, COMPAT), "1001010011", [], [0.468160]),
    Example("2.6.8, printed .168669 with N1 = 46", Spectral(100, COMPAT), P100, [], [0.646355]),
    Example("2.11.4, printed .9057 and .8805", SERIAL_10, "0011011101", [1.6, 0.8], [0.808792, 0.670320]),
    Example("2.12.4, statistic printed .502193", ENTROPY_10, "0100110101", [10.043859], [0.261961]),
    Example("2.12.8", ApproximateEntropy(100, COMPAT, length=2), P100, [5.550792], [0.235301]),
    Example("2.13.4", CumulativeSums(10, COMPAT), "1011010111", [4], [0.411659]),
    Example("2.13.8", CumulativeSums(100, COMPAT), P100, [16, 19], [0.219194, 0.114866]),
]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_worked_examples_come_out(example: Example) -> None:
    results = judge_one(example.test, Sequence.of(example.bits))
    for result, statistic in zip(results, example.statistics, strict=False):
        assert result.statistic == pytest.approx(statistic, abs=1e-6)
    for result, p_value in zip(results, example.p_values, strict=False):
        assert result.p_value == pytest.approx(p_value, abs=1e-6)


def test_the_non_overlapping_example_of_two_blocks() -> None:
    # 2.7.4: template 001, two blocks of ten bits.
    test = NonOverlapping(20, COMPAT, length=3, blocks=2)
    (result,) = [r for r in judge_one(test, Sequence.of("10100100101110010110")) if r.test.endswith("/001")]
    assert result.statistic == pytest.approx(2.133333, abs=1e-6)
    assert result.p_value == pytest.approx(0.344154, abs=1e-6)


def test_the_rank_example_of_two_matrices() -> None:
    # 2.5.4 judges one matrix of full rank and one of one less by the probabilities of 32 x 32.
    (result,) = MatrixRank(2048, COMPAT).judge(np.array([1, 1, 0]), 1)
    assert result.statistic == pytest.approx(0.596953, abs=1e-3)
    assert result.p_value == pytest.approx(0.741948, abs=1e-3)


def test_the_rank_example_of_100000_bits_of_e() -> None:
    # 2.5.8
    sequence = Sequence(known_answers.expansion("e").bits[:100_000])
    test = MatrixRank(100_000, COMPAT)
    assert test.observe(sequence).tolist() == [23, 60, 14]
    (result,) = judge_one(test, sequence)
    assert result.statistic == pytest.approx(1.261966, abs=1e-6)
    assert result.p_value == pytest.approx(0.532069, abs=1e-6)


def test_the_serial_example_of_e() -> None:
    # 2.11.8
    results = judge_one(Serial(known_answers.BITS, COMPAT, length=2), known_answers.expansion("e"))
    assert [result.statistic for result in results] == pytest.approx([0.339764, 0.336400], abs=1e-6)
    assert [result.p_value for result in results] == pytest.approx([0.843764, 0.561915], abs=1e-6)


def test_the_linear_complexity_example_of_e_with_blocks_of_1000() -> None:
    # 2.10.8
    (result,) = judge_one(LinearComplexity(known_answers.BITS, COMPAT, block=1000), known_answers.expansion("e"))
    assert result.statistic == pytest.approx(2.700348, abs=1e-6)
    assert result.p_value == pytest.approx(0.845406, abs=1e-6)


def test_the_overlapping_example_of_five_blocks() -> None:
    # 2.8.4, template 11; its statistic follows from the printed counts and the compound Poisson probabilities.
    expected = 5 * np.array(compound_poisson(2.25 / 2))
    observed = np.array([0, 1, 1, 1, 1, 1])
    assert ((observed - expected) ** 2 / expected).sum() == pytest.approx(3.167729, abs=1e-4)


def test_the_universal_example_of_ten_blocks() -> None:
    # 2.9.4: L = 2, Q = 4
    test = Universal(20, Mode.CORRECTED, block=2, first=4)
    (result,) = judge_one(test, Sequence.of("01011010011101010111"))
    assert result.statistic == pytest.approx(1.194988, abs=1e-6)


def test_the_random_excursions_example_of_three_cycles() -> None:
    # 2.14.4: state +1 is visited in one cycle not at all, in one once, in one three times.
    test = RandomExcursions(10, Mode.CORRECTED)
    counts = test.observe(Sequence.of("0110110101"))
    assert counts[0] == 3
    table = counts[1:].reshape(8, 6)[4]
    assert table.tolist() == [1, 1, 0, 1, 0, 0]
    expected = 3 * np.array(visit_probabilities(1))
    statistic = ((table - expected) ** 2 / expected).sum()
    assert statistic == pytest.approx(4.333033, abs=1e-3)


def test_the_random_excursions_variant_example_of_three_cycles() -> None:
    # 2.15.4: state +1 is visited four times.
    counts = RandomExcursionsVariant(10, Mode.CORRECTED).observe(Sequence.of("0110110101"))
    assert counts[0] == 3
    assert counts[1 + 9] == 4
    assert math.erfc(1 / math.sqrt(2 * 3 * (4 - 2))) == pytest.approx(0.683091, abs=1e-6)
