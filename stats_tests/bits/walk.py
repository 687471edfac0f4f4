"""SP 800-22, 2.13 Cumulative Sums, 2.14 Random Excursions and 2.15 its Variant: the bits as a walk of +1 and -1."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

import numpy as np
from scipy import special

from stats_tests.bits import tails
from stats_tests.bits.per_sequence import UNJUDGED, fisher_cell, fisher_log_p, goodness_of_fit
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result, not_applicable
from stats_tests.windows import Counts

FEWEST_CYCLES: Final = 500
MOST_VISITS: Final = 5
EXCURSION_STATES: Final = (-4, -3, -2, -1, 1, 2, 3, 4)
VARIANT_STATES: Final = (-9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9)
# SP 800-22 3.14, as NIST's code has it: P(0), .., P(4), P(>= 5) visits to state 1, 2, 3, 4 in one cycle.
NIST_VISITS: Final = (
    (0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125),
    (0.75, 0.0625, 0.046875, 0.03515625, 0.0263671875, 0.0791015625),
    (0.8333333333, 0.02777777778, 0.02314814815, 0.01929012346, 0.01607510288, 0.0803755143),
    (0.875, 0.015625, 0.013671875, 0.01196289063, 0.0104675293, 0.0732727051),
)


@dataclass(frozen=True, slots=True)
class CumulativeSums:
    """Does the walk stray too far, seen from its beginning and from its end?

    The exact distribution of the greatest distance (`log_p_of_distance`); `nist-compat` takes the publication's
    normal series with the limits as C truncates them. Several sequences are combined by Fisher's method.
    """

    n: int
    mode: Mode

    id: ClassVar = "bits.sp800-22.cumulative-sums"
    cells: ClassVar = 4
    parts: ClassVar = ("/forward", "/reverse")

    def observe(self, sequence: Sequence) -> Counts:
        """Measure the greatest distances and what they add to Fisher's sums."""
        walk = sequence.walk
        highest, lowest, last = max(0, int(walk.max())), min(0, int(walk.min())), int(walk[-1])
        distances = max(highest, -lowest), max(highest - last, last - lowest)
        return np.array([*distances, *(fisher_cell(self._log_p(distance)) for distance in distances)])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the greatest distances."""
        return tuple(
            Result(
                test=self.id + part,
                null="greatest distance of a fair walk; several sequences: Fisher's method",
                statistic=int(distance) / sequences,
                log_p=fisher_log_p(int(cell), sequences),
                details={"sequences": sequences},
            )
            for part, distance, cell in zip(self.parts, counts[:2], counts[2:], strict=True)
        )

    def _log_p(self, distance: int) -> float:
        published = self.mode is Mode.NIST_COMPAT
        return _published_log_p(distance, self.n) if published else log_p_of_distance(distance, self.n)


@cache
def log_p_of_distance(distance: int, n: int) -> float:
    """Return ln P(max |S_k| >= distance, k = 0..n) for a fair walk, exactly, by the reflection principle.

    P(all |S_k| < z) = sum over j of (-1)^j P(S_n between (2j - 1) z and (2j + 1) z), the bounds excluded. For large z
    its complement is twice the tail of a walk that passes z, less the higher reflections.
    """
    if distance <= 0:
        return 0.0

    def at_least(level: int) -> float:
        """Return P(S_n >= level) = P(ones >= (n + level) / 2)."""
        fewest = (n + level + 1) // 2
        return float(special.bdtr(n - fewest, n, 0.5)) if fewest <= n else 0.0

    # P(max >= z) = 2 [P(S >= z) + P(S > z)] - 2 [P(S >= 3z) + P(S > 3z)] + ...
    total, sign = 0.0, 1
    for level in range(distance, n + 1, 2 * distance):
        term = 2 * (at_least(level) + at_least(level + 1))
        total += sign * term
        sign = -sign
        if term < 1e-18 * total:
            break
    if total > 0:
        return min(0.0, math.log(total))
    fewest = (n + distance + 1) // 2
    return min(0.0, math.log(4) + tails.binomial_at_most(n - fewest, n)) if fewest <= n else -math.inf


def _published_log_p(distance: int, n: int) -> float:
    """Return ln of NIST's P-value (SP 800-22 2.13.4), whose limits C rounds towards zero."""
    if distance == 0:
        return 0.0

    def terms(begin: int, end: int, plus: int, minus: int) -> float:
        scale = distance / math.sqrt(n)
        k = 4 * np.arange(begin, end + 1)
        return float((special.ndtr((k + plus) * scale) - special.ndtr((k + minus) * scale)).sum())

    quotient = n // distance
    last = int((quotient - 1) / 4)
    first, second = int((-quotient + 1) / 4), int((-quotient - 3) / 4)
    p_value = 1 - terms(first, last, 1, -1) + terms(second, last, 3, 1)
    return math.log(min(p_value, 1.0)) if p_value > 0 else -math.inf


def _fewest_cycles(n: int) -> float:
    """Return below how many cycles the excursion tests do not apply (SP 800-22 2.14.4)."""
    return max(FEWEST_CYCLES, 0.005 * math.sqrt(n))


def _takes_part(cycles: int, n: int, mode: Mode) -> bool:
    """Is a sequence with so many cycles counted? Only NIST leaves out sequences; choosing them biases the rest."""
    return mode is not Mode.NIST_COMPAT or cycles >= _fewest_cycles(n)


def _cycles(sequence: Sequence) -> int:
    """Count the walk's cycles, from one return to zero to the next.

    The last one counts though it may be unfinished, as NIST has it: to stop at the end of that cycle would be a
    stopping time, to stop at the last return is none and would prefer short cycles.
    """
    walk = sequence.walk
    return int(np.count_nonzero(walk == 0)) + int(walk[-1] != 0)


@dataclass(frozen=True, slots=True)
class RandomExcursions:
    """Is each of the states -4 .. 4 visited in as many cycles, as often, as it should be?

    The visits in one cycle have an exact, geometric distribution (`visit_probabilities`). Corrected mode takes the
    cycles of all sequences together and asks for 500 of them; `nist-compat` leaves out sequences with fewer.
    """

    n: int
    mode: Mode
    published: tuple[tuple[float, ...], ...] = NIST_VISITS

    id: ClassVar = "bits.sp800-22.random-excursions"
    cells: ClassVar = 1 + len(EXCURSION_STATES) * (MOST_VISITS + 1)
    parts: ClassVar = tuple(f"/{state:+d}" for state in EXCURSION_STATES)

    def observe(self, sequence: Sequence) -> Counts:
        """Count the cycles, and for each state the cycles by their number of visits, five and more taken together."""
        cycles = _cycles(sequence)
        if not _takes_part(cycles, self.n, self.mode):
            return np.zeros(self.cells, dtype=np.int64)
        farthest = EXCURSION_STATES[-1]
        near = sequence.walk[np.abs(sequence.walk) <= farthest]
        cycle = np.cumsum(near == 0)
        tables = []
        for state in EXCURSION_STATES:
            visits = np.bincount(cycle[near == state], minlength=cycles)[:cycles]
            tables.append(np.bincount(np.minimum(visits, MOST_VISITS), minlength=MOST_VISITS + 1))
        return np.concatenate([[cycles], *tables])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the counts of cycles for each state."""
        cycles, tables = int(counts[0]), counts[1:].reshape(len(EXCURSION_STATES), MOST_VISITS + 1)
        if cycles < _fewest_cycles(self.n):
            reason = f"{cycles} cycles in {sequences} sequences, {_fewest_cycles(self.n):g} needed"
            return tuple(not_applicable(self.id + part, UNJUDGED, reason) for part in self.parts)
        published = self.mode is Mode.NIST_COMPAT
        labels = [*map(str, range(MOST_VISITS)), f">={MOST_VISITS}"]
        return tuple(
            goodness_of_fit(
                self.id + part,
                table,
                self.published[abs(state) - 1] if published else visit_probabilities(state),
                labels,
                {"cycles": cycles},
            )
            for part, state, table in zip(self.parts, EXCURSION_STATES, tables, strict=True)
        )


def visit_probabilities(state: int) -> tuple[float, ...]:
    """Return P(0), .., P(4), P(>= 5) visits to a state in one cycle (SP 800-22 3.14)."""
    leave = 1 / (2 * abs(state))
    return (1 - leave, *(leave**2 * (1 - leave) ** k for k in range(MOST_VISITS - 1)), leave * (1 - leave) ** 4)


@dataclass(frozen=True, slots=True)
class RandomExcursionsVariant:
    """Is each of the states -9 .. 9 visited as often as the walk returns to zero?

    Visits to state x in J cycles have mean J and variance J (4 |x| - 2). The cycles are taken as in `RandomExcursions`;
    apart from that the modes do the same.
    """

    n: int
    mode: Mode

    id: ClassVar = "bits.sp800-22.random-excursions-variant"
    cells: ClassVar = 1 + len(VARIANT_STATES)
    parts: ClassVar = tuple(f"/{state:+d}" for state in VARIANT_STATES)

    def observe(self, sequence: Sequence) -> Counts:
        """Count the cycles and the visits to each state."""
        cycles = _cycles(sequence)
        if not _takes_part(cycles, self.n, self.mode):
            return np.zeros(self.cells, dtype=np.int64)
        farthest = VARIANT_STATES[-1]
        near = sequence.walk[np.abs(sequence.walk) <= farthest]
        visits = np.bincount(near + farthest, minlength=2 * farthest + 1)
        return np.concatenate([[cycles], visits[[state + farthest for state in VARIANT_STATES]]])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the number of visits to each state."""
        cycles = int(counts[0])
        if cycles < _fewest_cycles(self.n):
            reason = f"{cycles} cycles in {sequences} sequences, {_fewest_cycles(self.n):g} needed"
            return tuple(not_applicable(self.id + part, UNJUDGED, reason) for part in self.parts)
        results = []
        for part, state, visits in zip(self.parts, VARIANT_STATES, counts[1:].tolist(), strict=True):
            z = (visits - cycles) / math.sqrt(cycles * (4 * abs(state) - 2))
            details = {"cycles": cycles, "visits": visits}
            log_p = log_two_sided_normal(z)
            results.append(Result(test=self.id + part, null="normal", statistic=z, log_p=log_p, details=details))
        return tuple(results)
