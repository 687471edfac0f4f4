"""The battery put to the test: does it catch what it must, and leave alone what is good?

Everything is fixed by seeds, so the same code gives the same evidence. Where the thresholds are not those of the
battery they are said here: a known-bad generator is caught when a named result has P below 10^-6.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
from scipy import special

from rngsvc.protocol.derivation import fisher_yates
from stats_tests.battery import Battery, plan_for
from stats_tests.bits.known_answers import TESTS, known_answers, perturbed_tests
from stats_tests.byte_rule import shuffle_rows
from stats_tests.catalogue import Kind, Mode
from stats_tests.evidence import SCHEMA
from stats_tests.known_bad import GENERATORS, Generator
from stats_tests.manifest import code_hash
from stats_tests.p_values import holm, uniformity
from stats_tests.report.document import versions
from stats_tests.result import Result, Status
from stats_tests.samples import GeneratorSource, generator_named
from stats_tests.tally import tally_stretch

CAUGHT: Final = math.log(1e-6)
SECOND_LEVEL_ALPHA: Final = 1e-3
SEED: Final = 1
FULL_SEEDS: Final = 1000
QUICK_SEEDS: Final = 20
ITEMS_A_SEED: Final[Mapping[Kind, int]] = {Kind.SHUFFLES: 50_000, Kind.NUMBERS: 50_000, Kind.BITS: 125_000}
SIZES: Final[Mapping[Kind, int]] = {Kind.SHUFFLES: 52, Kind.NUMBERS: 49, Kind.BITS: 0}
LARGEST_QUICK: Final = 200_000


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was put to the test."""

    name: str
    passed: bool
    facts: dict[str, Any] = field(default_factory=dict)


# --- Generators ---


def results_of(generator: Generator, items: int, seed: int = SEED) -> dict[str, Result]:
    """Return every result of the smoke battery on a generator, whatever the battery's least sample."""
    kind = next(iter(generator.makes)) if Kind.SHUFFLES not in generator.makes else Kind.SHUFFLES
    size = SIZES[kind]
    source = GeneratorSource(generator, kind, size, seed)
    tally = tally_stretch(plan_for(Battery.SMOKE, kind, size), source, 0, items)
    return {
        result.test: result
        for accumulator in tally.accumulators.values()
        for result in accumulator.results()
        if result.status is Status.OK
    }


def check_generator(generator: Generator, items: int) -> Check:
    """Put the battery to one generator: it must fail where it is said to, and pass where that cannot be seen."""
    results = results_of(generator, items)
    log_p = {test: result.log_p for test, result in results.items() if result.log_p is not None}
    missed = [test for test in generator.caught_by if log_p[test] >= CAUGHT]
    false = [test for test in generator.unseen_by if test in log_p and log_p[test] < CAUGHT]
    if not generator.caught_by:
        false = [test for test, value in log_p.items() if value < CAUGHT]
    return Check(
        f"generator/{generator.name}",
        not missed and not false,
        {
            "items": items,
            "caught_by": sorted(test for test, value in log_p.items() if value < CAUGHT),
            "missed": missed,
            "seen_where_it_cannot_be": false,
        },
    )


def check_generators(*, full: bool) -> Iterator[Check]:
    """Put the battery to all built-in generators."""
    for generator in GENERATORS:
        wanted = generator.caught_at or (1_000_000 if full else 50_000)
        if full or wanted <= LARGEST_QUICK:
            yield check_generator(generator, wanted)


# --- Scaling, by exhaustion ---


def check_scaling() -> Check:
    """Feed every byte to every bound 2..256 through both forms of step 4: each place must come equally often."""
    wrong = []
    for m in range(2, 257):
        rows = np.zeros((256, m + 8), dtype=np.uint8)
        rows[:, 0] = np.arange(256)
        decks, used = shuffle_rows(rows, m)
        accepted = used == m - 1
        counts = np.bincount(decks[accepted, m - 1], minlength=m)
        if int(accepted.sum()) != 256 - 256 % m or set(counts.tolist()) != {256 // m}:
            wrong.append(m)
        for row, deck in zip(rows[:: max(1, m // 4)], decks[:: max(1, m // 4)], strict=True):
            if fisher_yates(range(m), _refill(row.tobytes()))[0] != deck.tolist():
                wrong.append(m)
    return Check("scaling/bytes", not wrong, {"bounds": "2..256", "words": 256, "wrong": wrong})


def _refill(row: bytes) -> Callable[[int], bytes]:
    return lambda _count: row


def check_word_modulo() -> Check:
    """Exhaust the 65,536 words of the generator whose bias no sample here can show: it must be seen at once."""
    words = np.arange(65_536)
    uneven = [m for m in range(2, 53) if len(set(np.bincount(words % m).tolist())) > 1]
    expected = [m for m in range(2, 53) if 65_536 % m]
    return Check("scaling/word-modulo", uneven == expected, {"uneven_bounds": len(uneven)})


# --- Known answers ---


def check_known_answers() -> Iterator[Check]:
    """Compare with the published P-values to six digits, and see that each constant is guarded by one of them."""
    for mode in Mode:
        answers = [answer for test in TESTS for answer in known_answers(test(10**6, mode), mode)]
        missed = [f"{answer.test} of {answer.constant}" for answer in answers if not answer.holds]
        yield Check(f"known-answers/{mode}", bool(answers) and not missed, {"answers": len(answers), "missed": missed})
    unguarded = [
        name for name, test in perturbed_tests() if all(a.holds for a in known_answers(test, Mode.NIST_COMPAT))
    ]
    yield Check("known-answers/constants", not unguarded, {"unguarded": unguarded})


# --- Uniformity of P-values ---


def p_values_of_seeds(kind: Kind, seeds: range) -> dict[str, list[float]]:
    """Return the P-values of each primary result over good samples of these seeds."""
    good, size = generator_named("good"), SIZES[kind]
    plan = plan_for(Battery.SMOKE, kind, size)
    primary = [entry for entry in plan.applicable if entry.primary]
    items = ITEMS_A_SEED[kind]
    found: dict[str, list[float]] = {}
    for seed in seeds:
        accumulators = [entry.make(plan.setting, 0) for entry in primary if entry.minimal(plan.setting) <= items]
        for chunk in GeneratorSource(good, kind, size, seed).items(0, items):
            step = len(chunk) if kind is Kind.BITS else 5000
            for at in range(0, len(chunk), step):
                for accumulator in accumulators:
                    accumulator.update(chunk[at : at + step])
        for accumulator in accumulators:
            for result in accumulator.results():
                if result.p_value is not None:
                    found.setdefault(result.test, []).append(result.p_value)
    return found


def check_uniformity(kind: Kind, seeds: int, workers: int) -> Check:
    """See that a good generator's P-values are what they claim to be, test by test.

    For numbers and shuffles they must be uniform (ten equal bins); repeats of decks have one P-value only and are
    left out. Tests of bits have discrete P-values, some coarse: those must not come out small too often.
    """
    step = -(-seeds // (4 * workers))
    parts = [range(a, min(seeds, a + step)) for a in range(0, seeds, step)]
    joined: dict[str, list[float]] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
        for found in pool.map(p_values_of_seeds, [kind] * len(parts), parts):
            for test, values in found.items():
                joined.setdefault(test, []).extend(values)
    joined.pop("shuffles.duplicates", None)
    second_level = _excess if kind is Kind.BITS else uniformity
    second = {test: second_level(values) for test, values in sorted(joined.items()) if len(values) >= seeds // 4}
    adjusted = holm([math.log(max(p, 1e-300)) for p in second.values()])
    failed = [test for test, a in zip(second, adjusted, strict=True) if a < math.log(SECOND_LEVEL_ALPHA)]
    smallest = min(second, key=lambda test: second[test])
    return Check(
        f"uniformity/{kind}",
        not failed,
        {
            "seeds": seeds,
            "items_a_seed": ITEMS_A_SEED[kind],
            "results": len(second),
            "smallest_second_level_p": second[smallest],
            "of": smallest,
            "failed": failed,
        },
    )


def _excess(values: list[float]) -> float:
    """Return twice the smaller binomial tail of too many P-values at or below 0.01 and at or below 0.1."""
    tails = []
    for level in (0.01, 0.1):
        small = sum(value <= level for value in values)
        tails.append(float(special.bdtrc(small - 1, len(values), level)) if small else 1.0)
    return min(1.0, 2 * min(tails))


# --- All together ---


def run_selftest(*, full: bool, workers: int, report: Callable[[Check], None]) -> list[Check]:
    """Carry out every check, telling `report` of each; the quick form has fewer seeds and no samples of a million."""
    checks: list[Check] = []

    def done(check: Check) -> None:
        checks.append(check)
        report(check)

    done(check_scaling())
    done(check_word_modulo())
    for check in check_known_answers():
        done(check)
    for check in check_generators(full=full):
        done(check)
    for kind in (Kind.SHUFFLES, Kind.NUMBERS, Kind.BITS):
        done(check_uniformity(kind, FULL_SEEDS if full else QUICK_SEEDS, workers))
    return checks


def evidence_of(checks: list[Check], *, full: bool, time: str) -> dict[str, Any]:
    """Return the evidence: which code, what was checked, whether all of it passed."""
    return {
        "schema": SCHEMA,
        "code": code_hash(),
        "full": full,
        "time": time,
        "passed": all(check.passed for check in checks),
        "checks": [asdict(check) for check in checks],
        "versions": versions(),
    }
