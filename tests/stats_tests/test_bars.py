"""The speed and memory bars, in a small form; `make bench` prints the ratios, `make prove` takes the full sizes."""

import statistics

from benchmarks.stats_decks import by_rule_and_by_derivation, decks_a_cpu_second, peak_mib
from tests.scale import scaled


def test_many_decks_are_shuffled_sixty_times_as_fast_as_by_system_random() -> None:
    rounds = by_rule_and_by_derivation(scaled(3, 9))
    assert statistics.median(floor / rule for floor, rule, _ in rounds) >= 60
    assert statistics.median(floor / whole for floor, _, whole in rounds) >= 3


def test_all_deck_tests_together_take_25_000_decks_a_cpu_second() -> None:
    assert statistics.median(decks_a_cpu_second(scaled(30_000, 500_000), 3)) >= 25_000


def test_memory_does_not_grow_with_the_sample() -> None:
    small, large = peak_mib(scaled(30_000, 100_000)), peak_mib(scaled(300_000, 10_000_000))
    assert large <= 1.05 * small + 2
