"""What the battery must catch, and what it must leave alone."""

import pytest
from scipy import stats

from stats_tests.battery import Battery, plan_for
from stats_tests.catalogue import Kind
from stats_tests.known_bad import GENERATORS, Generator
from stats_tests.p_values import Verdict, decide
from stats_tests.samples import GeneratorSource, generator_named
from stats_tests.selftest import (
    check_generator,
    check_scaling,
    check_uniformity,
    check_word_modulo,
    evidence_of,
)
from stats_tests.tally import tally_stretch
from tests.scale import scaled

MOST_ITEMS = scaled(200_000, 10_000_000)


@pytest.mark.parametrize(
    "generator", [g for g in GENERATORS if (g.caught_at or 0) <= MOST_ITEMS], ids=lambda generator: generator.name
)
def test_a_generator_fails_where_it_is_said_to_and_nowhere_else(generator: Generator) -> None:
    check = check_generator(generator, generator.caught_at or scaled(50_000, 1_000_000))
    assert check.passed, check.facts


def test_the_table_of_generators_is_whole() -> None:
    assert len(GENERATORS) == 13
    assert [g.name for g in GENERATORS if not g.caught_by] == ["good", "word-modulo"]


def test_a_check_that_should_catch_and_does_not_is_no_pass() -> None:
    from dataclasses import replace

    blind = replace(generator_named("good"), name="blind", caught_by=("shuffles.cycles",))
    check = check_generator(blind, 2000)
    assert not check.passed
    assert check.facts["missed"] == ["shuffles.cycles"]
    assert not evidence_of([check], full=True, time="")["passed"]


def test_scaling_is_exact_for_every_byte_and_every_bound() -> None:
    assert check_scaling().passed


def test_scaling_by_plain_modulo_is_seen_by_exhaustion() -> None:
    check = check_word_modulo()
    assert check.passed
    # All bounds to 52 but the powers of two.
    assert check.facts["uneven_bounds"] == 51 - 5


@pytest.mark.parametrize("kind", list(Kind))
def test_p_values_of_a_good_generator_are_uniform(kind: Kind) -> None:
    check = check_uniformity(kind, scaled(24, 1000), workers=2)
    assert check.passed, check.facts


def test_false_alarms_of_the_smoke_battery_stay_within_one_in_a_hundred() -> None:
    runs = scaled(30, 200)
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, 52)
    good = generator_named("good")
    alarms = 0
    for seed in range(1000, 1000 + runs):
        tally = tally_stretch(plan, GeneratorSource(good, Kind.SHUFFLES, 52, seed), 0, 10_000)
        decision = decide([result for entry, result in tally.results() if entry.primary])
        alarms += decision.verdict is not Verdict.PASS
    assert alarms <= stats.binom.ppf(0.9995, runs, 0.01)
