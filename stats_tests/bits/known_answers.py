"""Published P-values, and the sequences they belong to: the first 10^6 bits of pi, e, sqrt 2 and sqrt 3.

The sequences are made here from whole numbers, the answers lie in `vectors/`, one file for each mode.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np

from stats_tests.bits.frequency import BlockFrequency, Frequency
from stats_tests.bits.linear_complexity import NIST_PROBABILITIES, LinearComplexity
from stats_tests.bits.matrix_rank import MatrixRank
from stats_tests.bits.patterns import ApproximateEntropy, Serial
from stats_tests.bits.per_sequence import SequenceTest, judge_one
from stats_tests.bits.runs import RUN_TABLES, LongestRun, Runs
from stats_tests.bits.sequence import Sequence
from stats_tests.bits.spectral import NIST_DIVISOR, NIST_THRESHOLD, Spectral
from stats_tests.bits.templates import NonOverlapping, Overlapping
from stats_tests.bits.universal import NIST_MOMENTS, SHORTEST_BLOCK, Universal
from stats_tests.bits.walk import NIST_VISITS, CumulativeSums, RandomExcursions, RandomExcursionsVariant
from stats_tests.catalogue import Mode

BITS: Final = 10**6
GUARD: Final = 64


def _split(term: Callable[[int], tuple[int, int, int]], begin: int, end: int) -> tuple[int, int, int]:
    """Sum a hypergeometric series over [begin, end): (P, Q, T) with T/Q the partial sum (binary splitting)."""
    if end - begin == 1:
        return term(begin)
    middle = (begin + end) // 2
    p1, q1, t1 = _split(term, begin, middle)
    p2, q2, t2 = _split(term, middle, end)
    return p1 * p2, q1 * q2, t1 * q2 + p1 * t2


def _pi(bits: int) -> int:
    """Chudnovsky's series, 47 bits a term."""

    def term(k: int) -> tuple[int, int, int]:
        if k == 0:
            return 1, 1, 13591409
        p = -(6 * k - 5) * (2 * k - 1) * (6 * k - 1)
        return p, k**3 * 640320**3 // 24, p * (13591409 + 545140134 * k)

    _, q, t = _split(term, 0, bits // 47 + 2)
    return q * 426880 * math.isqrt(10005 << 2 * bits) // t


def _e(bits: int) -> int:
    """The sum of 1/k!, until 1/k! is below the last bit."""
    terms = 64
    while math.lgamma(terms) < bits * math.log(2):
        terms += terms // 16
    _, q, t = _split(lambda k: (1, k or 1, 1), 0, terms)
    return (t << bits) // q


_FIXED_POINT: Final[dict[str, Callable[[int], int]]] = {
    "pi": _pi,
    "e": _e,
    "sqrt2": lambda bits: math.isqrt(2 << 2 * bits),
    "sqrt3": lambda bits: math.isqrt(3 << 2 * bits),
}


@cache
def expansion(name: str, bits: int = BITS) -> Sequence:
    """Return the first bits of a constant, from its leading one on, the whole part included."""
    value = _FIXED_POINT[name](bits + GUARD)
    leading = value >> value.bit_length() - bits << -bits % 8
    octets = leading.to_bytes((bits + 7) // 8, "big")
    return Sequence(np.unpackbits(np.frombuffer(octets, dtype=np.uint8), count=bits))


TESTS: Final[tuple[Callable[[int, Mode], SequenceTest], ...]] = (
    Frequency, BlockFrequency, Runs, LongestRun, MatrixRank, Spectral, NonOverlapping, Overlapping, Universal,
    LinearComplexity, Serial, ApproximateEntropy, CumulativeSums, RandomExcursions, RandomExcursionsVariant,
)  # fmt: skip
"""The fifteen tests, in the order of SP 800-22."""
DIGITS: Final = 6
"""Decimal places of the published P-values."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A published P-value and what the package makes of the same sequence."""

    test: str
    constant: str
    published: float
    computed: float

    @property
    def holds(self) -> bool:
        """Do they agree to the last published digit?"""
        return abs(self.published - self.computed) <= 0.51 * 10.0**-DIGITS


def vectors(mode: Mode) -> dict[str, Any]:
    """Return the file of known answers for a mode."""
    name = f"sp800_22_{mode.value.replace('-', '_')}.json"
    contents: dict[str, Any] = json.loads(resources.files("stats_tests.bits").joinpath("vectors", name).read_text())
    return contents


def known_answers(test: SequenceTest, mode: Mode) -> tuple[KnownAnswer, ...]:
    """Compute each P-value that is published for a test."""
    answers = []
    for constant, of_constant in vectors(mode)["constants"].items():
        computed = {result.test: result.p_value for result in judge_one(test, expansion(constant))}
        for name, published in of_constant["p_values"].items():
            if name in computed:
                answers.append(KnownAnswer(name, constant, published, computed[name] or 0.0))
    return tuple(answers)


def perturbed_tests(relative: float = 0.01) -> Iterator[tuple[str, SequenceTest]]:
    """Yield every NIST constant's name with a test in which it alone is off by a part of itself.

    If the known answers guard the constants, each of these tests fails one. Tables of which only one row serves
    sequences of 10^6 bits are perturbed in that row.
    """

    def off(row: tuple[float, ...], place: int) -> tuple[float, ...]:
        return (*row[:place], row[place] * (1 + relative), *row[place + 1 :])

    n, compat = BITS, Mode.NIST_COMPAT
    run_table = RUN_TABLES[-1]
    for place in range(len(run_table.published)):
        table = replace(run_table, published=off(run_table.published, place))
        yield f"longest-run/{place}", LongestRun(n, compat, tables=(table,))
    yield "spectral/threshold", Spectral(n, compat, threshold=NIST_THRESHOLD * (1 + relative))
    yield "spectral/divisor", Spectral(n, compat, divisor=NIST_DIVISOR * (1 + relative))
    row = Universal(n, compat).block_bits - SHORTEST_BLOCK
    mean, variance = NIST_MOMENTS[row]
    for name, moments in (
        ("mean", (mean * (1 + relative), variance)),
        ("variance", (mean, variance * (1 + relative))),
    ):
        published = (*NIST_MOMENTS[:row], moments, *NIST_MOMENTS[row + 1 :])
        yield f"universal/{name}", Universal(n, compat, published=published)
    for place in range(len(NIST_PROBABILITIES)):
        yield f"linear-complexity/{place}", LinearComplexity(n, compat, published=off(NIST_PROBABILITIES, place))
    for state, visits in enumerate(NIST_VISITS):
        for place in range(len(visits)):
            rows = (*NIST_VISITS[:state], off(visits, place), *NIST_VISITS[state + 1 :])
            yield f"random-excursions/{state + 1}/{place}", RandomExcursions(n, compat, published=rows)
