"""How the cards of one deck are ordered: cycles, inversions, descents, increasing subsequences, correlations.

Each counts something of every deck whose distribution over all n! orders is known exactly.
"""

import json
import math
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stats_tests import nulls
from stats_tests.catalogue import Entry, Kind
from stats_tests.nulls import Probabilities, judge_categories, log_chi_square_lower, log_chi_square_tail
from stats_tests.result import Result
from stats_tests.shuffles.deck import Decks, by_position, on_decks, tally_type
from stats_tests.windows import Counts, Statistic

BINS: Final = 32
LARGEST_TABULATED: Final = 52


def count_fixed_points(decks: Decks) -> NDArray[np.int64]:
    """Return how many cards lie at the position of their own number."""
    n = decks.shape[1]
    places = np.arange(n, dtype=decks.dtype)[:, None]
    fixed: NDArray[np.int64] = (by_position(decks) == places).sum(axis=0, dtype=tally_type(n)).astype(np.int64)
    return fixed


def count_cycles(decks: Decks) -> NDArray[np.int64]:
    """Return the number of cycles of each deck as a permutation.

    Every place learns the smallest place of its cycle by looking 1, 2, 4 .. steps ahead; those that are their own
    smallest are one for each cycle.
    """
    count, n = decks.shape
    # A permutation of all places of all decks at once.
    first = (np.arange(count, dtype=np.int32) * n)[:, None]
    ahead = (decks + first).ravel()
    places = np.arange(count * n, dtype=np.int32)
    smallest = np.minimum(places, ahead)
    steps = 2
    while steps < n:
        ahead = ahead[ahead]
        smallest = np.minimum(smallest, smallest[ahead])
        steps *= 2
    cycles: NDArray[np.int64] = (smallest == places).reshape(count, n).sum(axis=1)
    return cycles


def count_inversions(decks: Decks) -> NDArray[np.int64]:
    """Return the number of pairs of cards that lie in falling order."""
    rows = by_position(decks)
    n = len(rows)
    total = np.zeros(rows.shape[1], dtype=np.int64)
    for i in range(n - 1):
        total += (rows[i + 1 :] < rows[i]).sum(axis=0, dtype=tally_type(n))
    return total


def count_descents(decks: Decks) -> NDArray[np.int64]:
    """Return how often a card is followed by a lower one."""
    rows = by_position(decks)
    falls: NDArray[np.int64] = (rows[1:] < rows[:-1]).sum(axis=0, dtype=tally_type(len(rows))).astype(np.int64)
    return falls


def count_rising_sequences_but_one(decks: Decks) -> NDArray[np.int64]:
    """Return the number of rising sequences less one: the descents of the inverse permutation."""
    count, n = decks.shape
    inverse = np.empty_like(decks)
    np.put_along_axis(inverse, decks.astype(np.int64), np.broadcast_to(np.arange(n, dtype=decks.dtype), (count, n)), 1)
    return count_descents(inverse)


def longest_increasing_subsequence(decks: Decks) -> NDArray[np.int64]:
    """Return the length of the longest increasing subsequence of each deck's first 52 cards.

    Patience sorting (Schensted) of all decks at once: pile k holds the lowest card that ends an increasing
    subsequence of length k + 1; a card goes on the first pile that is not lower.
    """
    # The largest value of the type marks an empty pile, so it must not be a card.
    item_type = np.uint8 if decks.shape[1] <= 255 else np.uint16
    rows = by_position(decks[:, :LARGEST_TABULATED].astype(item_type))
    n, count = rows.shape
    columns = np.arange(count)
    empty = np.iinfo(rows.dtype).max
    piles = np.full((n, count), empty, dtype=rows.dtype)
    used = 0
    for card in rows:
        pile = (piles[:used] < card).sum(axis=0, dtype=tally_type(n))
        piles[pile, columns] = card
        used = max(used, int(pile.max()) + 1)
    lengths: NDArray[np.int64] = (piles[:used] != empty).sum(axis=0)
    return lengths


@cache
def increasing_subsequence(n: int) -> Probabilities:
    """Return P(longest increasing subsequence has length k), k = 0..n, for n <= 52, from the shipped table."""
    table = json.loads(files(__package__).joinpath("increasing_subsequence.json").read_text(encoding="ascii"))
    counts = [int(count) for count in table["permutations"][n - 1]]
    return np.array([0.0, *(count / math.factorial(n) for count in counts)])


def _counted(test: str, count: Callable[[Decks], NDArray[np.int64]], probabilities: Probabilities) -> Statistic:
    """Return the statistic that compares a count of each deck with its exact distribution on 0, 1, 2 .."""

    def observe(decks: Decks) -> Counts:
        return np.bincount(count(decks), minlength=len(probabilities))

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities),)

    return Statistic(cells=len(probabilities), observe=observe, judge=judge)


def _inversions(test: str, n: int) -> Statistic:
    cumulative = np.cumsum(nulls.inversions(n))
    edges = nulls.quantile_edges(cumulative, BINS)
    probabilities = nulls.stretch_probabilities(cumulative, edges)
    labels = nulls.stretch_labels(edges, len(cumulative))

    def observe(decks: Decks) -> Counts:
        bins = np.searchsorted(edges, count_inversions(decks), side="right")
        return np.bincount(bins, minlength=len(probabilities))

    def judge(counts: Counts, _windows: int) -> tuple[Result, ...]:
        return (judge_categories(test, counts, probabilities, labels),)

    return Statistic(cells=len(probabilities), observe=observe, judge=judge)


def lag_covariance(n: int) -> tuple[float, float, float]:
    """Return mean, variance and covariance of the circular lag sums R_h = sum_i c_i c_{i+h} of a shuffled deck.

    c are the card numbers times two less n - 1, so they are integers that sum to zero; 0 < h < n/2, n >= 5. The
    covariance is that of two different lags. All follow from E of products of two to four different cards.
    """
    cards = np.arange(n, dtype=object) * 2 - (n - 1)
    s2, s4 = int((cards**2).sum()), int((cards**4).sum())
    two = -s2 / (n * (n - 1))
    two_squares = (s2 * s2 - s4) / (n * (n - 1))
    one_square = (2 * s4 - s2 * s2) / (n * (n - 1) * (n - 2))
    four = (3 * s2 * s2 - 6 * s4) / (n * (n - 1) * (n - 2) * (n - 3))
    mean = n * two
    variance = n * two_squares + 2 * n * one_square + n * (n - 3) * four - mean**2
    covariance = 4 * n * one_square + n * (n - 4) * four - mean**2
    return mean, variance, covariance


def _spectrum(test: str, n: int) -> Statistic:
    """Return the test of all circular lag correlations within a deck; they determine its power spectrum and conversely.

    Cards of one deck are drawn without replacement, so their correlation is not nil but -1/(n-1).
    """
    lags = (n - 1) // 2
    mean, variance, covariance = lag_covariance(n)
    places = np.arange(n)

    def observe(decks: Decks) -> Counts:
        # Sums of products of integers below 2^53: floating point, and so the fast product, is exact.
        centred = decks.astype(np.float64) * 2 - (n - 1)
        products = centred.T @ centred
        return np.array([int(products[places, (places + lag) % n].sum()) for lag in range(1, lags + 1)], dtype=np.int64)

    def judge(counts: Counts, windows: int) -> tuple[Result, ...]:
        if windows == 0:
            return (nulls.judge_mean(test, 0, 0, 0, 0),)
        scores = (counts - windows * mean) / math.sqrt(windows)
        # Equal variances and equal covariances: one direction (the mean of all lags) and the rest, which is a sphere.
        # For odd n all lags sum to a constant, and that direction has no variance.
        along = variance + (lags - 1) * covariance
        across = float(((scores - scores.mean()) ** 2).sum()) / (variance - covariance)
        statistic, degrees = across, lags - 1
        if n % 2 == 0:
            statistic, degrees = across + float(scores.sum()) ** 2 / lags / along, lags
        details = {f"z_lag_{lag + 1}": float(scores[lag]) / math.sqrt(variance) for lag in range(min(5, lags))}
        return (
            Result(
                test=test,
                null=f"chi-square, {degrees} degrees of freedom",
                statistic=statistic,
                log_p=log_chi_square_tail(statistic, degrees),
                log_p_low=log_chi_square_lower(statistic, degrees),
                details={"decks": windows, "degrees_of_freedom": degrees, **details},
            ),
        )

    return Statistic(cells=lags, observe=observe, judge=judge)


def _entry(
    name: str,
    title: str,
    clauses: tuple[str, ...],
    source: str,
    statistic: Callable[[str, int], Statistic],
    null: str = "chi-square against the exact distribution",
    least: int = 2,
) -> Entry:
    entry_id = f"shuffles.{name}"

    return Entry(
        id=entry_id,
        title=title,
        clauses=clauses,
        kind=Kind.SHUFFLES,
        null=null,
        source=source,
        minimal=lambda _setting: 1000,
        make=on_decks(statistic, entry_id),
        objection=lambda setting: None if setting.size >= least else f"needs at least {least} cards",
    )


def _simple(
    count: Callable[[Decks], NDArray[np.int64]], null: Callable[[int], Probabilities]
) -> Callable[[str, int], Statistic]:
    def statistic(test: str, n: int) -> Statistic:
        return _counted(test, count, null(n))

    return statistic


def _subsequence_null(n: int) -> Probabilities:
    return increasing_subsequence(min(n, LARGEST_TABULATED))


ENTRIES: Final[tuple[Entry, ...]] = (
    _entry(
        "fixed-points",
        "How many cards lie at their own place",
        ("R02", "R04"),
        "derangement numbers",
        _simple(count_fixed_points, nulls.fixed_points),
    ),
    _entry(
        "cycles",
        "How many cycles the deck has as a permutation",
        ("R02", "R04"),
        "Stirling numbers of the first kind",
        _simple(count_cycles, nulls.cycles),
    ),
    _entry(
        "inversions",
        "How many pairs of cards lie in falling order",
        ("R02", "R04"),
        "Mahonian numbers",
        _inversions,
    ),
    _entry(
        "descents",
        "How often a card is followed by a lower one (runs)",
        ("R02", "R03", "R05"),
        "Eulerian numbers",
        _simple(count_descents, nulls.descents),
    ),
    _entry(
        "rising-sequences",
        "How many rising sequences the deck has",
        ("R02", "R04"),
        "Eulerian numbers, of the inverse permutation; Bayer and Diaconis (1992)",
        _simple(count_rising_sequences_but_one, nulls.descents),
    ),
    _entry(
        "increasing-subsequence",
        "How long the longest increasing subsequence of the first 52 cards is",
        ("R02", "R03"),
        "Schensted (1961); table made from the numbers of standard Young tableaux",
        _simple(longest_increasing_subsequence, _subsequence_null),
    ),
    _entry(
        "serial-correlation",
        "Correlation of cards at every distance within the deck; the power spectrum",
        ("R02", "R03", "R04", "R05"),
        "moments of products of cards drawn without replacement; Wald and Wolfowitz (1943)",
        _spectrum,
        null="chi-square, exact means, variances and covariances, normal by the number of decks",
        least=5,
    ),
)
