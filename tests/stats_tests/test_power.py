"""What a sample can show: against published figures and by trying it."""

import numpy as np
import pytest

from stats_tests.catalogue import Kind, Setting
from stats_tests.power import items_to_detect, smallest_bias, smallest_excess, statement
from stats_tests.shuffles import ENTRIES
from tests.scale import scaled

DECKS = Setting(Kind.SHUFFLES, 52)

SMALLEST = [
    # alpha, smallest relative bias in percent at 10^5, 10^6, 10^7, 10^8 decks
    (0.01, (0.84, 0.27, 0.084, 0.027)),
    (1e-6, (1.04, 0.33, 0.10, 0.033)),
]


@pytest.mark.parametrize(("alpha", "percents"), SMALLEST)
def test_the_smallest_bias_seen(alpha: float, percents: tuple[float, ...]) -> None:
    for size, percent in zip((10**5, 10**6, 10**7, 10**8), percents, strict=True):
        assert 100 * smallest_bias(DECKS, size, alpha) == pytest.approx(percent, rel=0.05)


@pytest.mark.parametrize(
    ("bias", "decks"),
    [
        # Modulo bias of words of 8, 12 and 16 bits, and the decks that show it at 10^-6.
        (0.041, 6.4e3),
        (0.0025, 1.7e6),
        (0.00018, 3.3e8),
    ],
)
def test_decks_that_show_modulo_bias(bias: float, decks: float) -> None:
    assert items_to_detect(DECKS, bias, 1e-6) == pytest.approx(decks, rel=0.06)


def test_items_and_bias_are_inverse() -> None:
    for setting in (DECKS, Setting(Kind.NUMBERS, 49), Setting(Kind.BITS, 10**6)):
        items = items_to_detect(setting, 0.001, 0.01)
        assert smallest_bias(setting, items, 0.01) == pytest.approx(0.001, rel=1e-3)


def test_a_bias_that_should_be_seen_in_half_of_all_samples_is() -> None:
    # Five cards; the first place favours card 0. The table's noncentrality follows from the exact table.
    n, decks, extra = 5, 4000, 0.06
    entry = {e.id: e for e in ENTRIES}["shuffles.position-card"]
    rng = np.random.default_rng(8)
    seen, tries = 0, scaled(150, 2000)
    critical = 31.9999  # chi-square, 16 degrees of freedom, 0.01
    for _ in range(tries):
        sample = rng.permuted(np.broadcast_to(np.arange(n, dtype=np.uint8), (decks, n)), axis=1)
        swapped = rng.random(decks) < extra
        place = (sample == 0).argmax(axis=1)
        rows = np.flatnonzero(swapped)
        sample[rows, place[rows]] = sample[rows, 0]
        sample[rows, 0] = 0
        accumulator = entry.make(Setting(Kind.SHUFFLES, n), 0)
        accumulator.update(sample)
        seen += accumulator.results()[0].statistic > critical
    # Card 0 at place 0: 1/5 + 4/5 of the extra; its other places lose a fifth of the extra each; and so the others.
    table = np.full((n, n), 1 / n)
    table[0, 0] += extra * 0.8
    table[1:, 0] -= extra * 0.2
    table[0, 1:] -= extra * 0.2
    table[1:, 1:] += extra * 0.05
    excess = decks * (n - 1) / n * float(((table - 1 / n) ** 2 / (1 / n)).sum())
    from scipy import stats

    expected = stats.ncx2.sf(critical, 16, excess)
    assert 0.2 < expected < 0.999
    assert seen / tries == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / tries) + 0.02)
    assert smallest_excess(16, 0.01, expected) == pytest.approx(excess, rel=0.01)


def test_the_statement_shares_alpha_among_the_results() -> None:
    said = statement(DECKS, 100_000, 0.01, 37)
    assert said["alpha"] == pytest.approx(0.01 / 37)
    assert said["smallest_rms_relative_bias"] == pytest.approx(smallest_bias(DECKS, 100_000, 0.01 / 37))
    assert said["curve"][2] == [100_000, said["smallest_rms_relative_bias"]]
