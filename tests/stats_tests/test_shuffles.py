"""The deck tests' null distributions, by enumeration of all decks of few cards and against known figures for 52."""

import math
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stats_tests import nulls
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.shuffles import ENTRIES, hands, order, pairs, successive
from stats_tests.shuffles.duplicates import DuplicateDecks
from stats_tests.shuffles.increasing_subsequence_table import rows
from tests.scale import scaled

SMALL = range(2, 8)


def all_decks(n: int) -> np.ndarray:
    return np.array(list(permutations(range(n))), dtype=np.uint8)


def good_decks(count: int, n: int, seed: int) -> np.ndarray:
    decks = np.broadcast_to(np.arange(n, dtype=np.uint8 if n <= 256 else np.uint16), (count, n))
    return np.random.default_rng(seed).permuted(decks, axis=1)


@pytest.mark.parametrize("n", SMALL)
@pytest.mark.parametrize(
    ("count", "null"),
    [
        (order.count_fixed_points, nulls.fixed_points),
        (order.count_cycles, nulls.cycles),
        (order.count_inversions, nulls.inversions),
        (order.count_descents, nulls.descents),
        (order.count_rising_sequences_but_one, nulls.descents),
        (order.longest_increasing_subsequence, order.increasing_subsequence),
    ],
)
def test_counts_over_all_decks_follow_the_null_exactly(n: int, count: object, null: object) -> None:
    seen = np.bincount(count(all_decks(n)), minlength=len(null(n))) / math.factorial(n)
    assert seen == pytest.approx(null(n), abs=1e-12)


def scalar_counts(deck: tuple[int, ...]) -> tuple[int, ...]:
    """Each count by its definition, for one deck."""
    n = len(deck)
    seen, cycles = set(), 0
    for start in range(n):
        cycles += start not in seen
        place_in_cycle = start
        while place_in_cycle not in seen:
            seen.add(place_in_cycle)
            place_in_cycle = deck[place_in_cycle]
    best: list[int] = []
    for i in range(n):
        best.append(1 + max((best[j] for j in range(i) if deck[j] < deck[i]), default=0))
    place = {card: i for i, card in enumerate(deck)}
    return (
        sum(i == card for i, card in enumerate(deck)),
        cycles,
        sum(deck[i] > deck[j] for i, j in combinations(range(n), 2)),
        sum(deck[i] > deck[i + 1] for i in range(n - 1)),
        sum(place[c] > place[c + 1] for c in range(n - 1)),
        max(best[:52]),
    )


@settings(max_examples=scaled(30, 2000), deadline=None)
@given(st.sampled_from([2, 3, 32, 52, 256, 257, 416]).flatmap(lambda n: st.permutations(range(n))))
def test_counts_of_large_decks_are_those_of_the_definition(deck: list[int]) -> None:
    n = len(deck)
    batch = np.array([deck, list(range(n)), deck[::-1]], dtype=np.uint8 if n <= 256 else np.uint16)
    counts = (
        order.count_fixed_points,
        order.count_cycles,
        order.count_inversions,
        order.count_descents,
        order.count_rising_sequences_but_one,
        order.longest_increasing_subsequence,
    )
    batched = [tuple(int(count(batch)[i]) for count in counts) for i in range(3)]
    assert batched == [scalar_counts(tuple(row)) for row in batch.tolist()]


@pytest.mark.parametrize(
    ("null", "mean", "variance"),
    [
        (nulls.fixed_points(52), 1, 1),
        (nulls.cycles(52), 4.538044, 2.912157),
        (nulls.inversions(52), 663, 4014.8333),
        (nulls.descents(52), 25.5, 4.416667),
        (order.increasing_subsequence(52), 11.566371, 1.406708**2),
        (nulls.inversions(1020), 1020 * 1019 / 4, 1020 * 1019 * 2045 / 72),
        (nulls.descents(1020), 1019 / 2, 1021 / 12),
        (successive.hypergeometric(52, 13), 13 * 13 / 52, 13 * (1 / 4) * (3 / 4) * 39 / 51),
    ],
)
def test_moments_are_the_known_ones(null: np.ndarray, mean: float, variance: float) -> None:
    assert null.sum() == pytest.approx(1, abs=1e-12)
    assert nulls.moments(null) == pytest.approx((mean, variance), rel=2e-6)


def test_longest_increasing_subsequence_probabilities_are_the_published_ones() -> None:
    # P(8..17) to three digits.
    published = [0.00502, 0.0491, 0.172, 0.280, 0.256, 0.151, 0.0624, 0.0192, 0.00461, 0.000887]
    assert order.increasing_subsequence(52)[8:18] == pytest.approx(published, rel=3e-3)


def test_the_shipped_table_is_what_its_maker_makes() -> None:
    largest = scaled(20, 52)
    for n, counts in enumerate(rows(largest), start=1):
        assert sum(counts) == math.factorial(n)
        shipped = order.increasing_subsequence(n)[1:]
        assert [round(p * math.factorial(n)) for p in shipped] == counts if n <= 12 else True
        assert shipped.tolist() == [count / math.factorial(n) for count in counts]


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_adjacency_weights_are_the_eigenvalues_over_all_decks(n: int) -> None:
    decks = all_decks(n)
    seen = np.zeros((len(decks), n * n))
    for i in range(n - 1):
        seen[np.arange(len(decks)), decks[:, i] * n + decks[:, i + 1]] += 1
    eigenvalues = np.linalg.eigvalsh(np.cov(seen.T, bias=True) * n)
    claimed = sorted(w for w, k in pairs.adjacency_weights(n) for _ in range(k))
    assert eigenvalues[eigenvalues > 1e-9] == pytest.approx(claimed)
    assert sum(claimed) == pytest.approx((n - 1) ** 2)


@pytest.mark.parametrize("n", [5, 6, 7])
def test_lag_covariances_are_those_over_all_decks(n: int) -> None:
    centred = all_decks(n).astype(float) * 2 - (n - 1)
    sums = np.array([(centred * np.roll(centred, -lag, axis=1)).sum(axis=1) for lag in range(1, (n + 1) // 2)])
    mean, variance, covariance = order.lag_covariance(n)
    assert sums.mean(axis=1) == pytest.approx([mean] * len(sums))
    size = len(sums)
    claimed = np.full((size, size), covariance) + np.eye(size) * (variance - covariance)
    assert np.cov(sums, bias=True).reshape(size, size) == pytest.approx(claimed)


@pytest.mark.parametrize("n", [3, 5, 7])
def test_footrule_and_rank_correlation_moments_are_those_over_all_decks(n: int) -> None:
    decks = all_decks(n).astype(int)
    footrule, products = np.abs(decks - np.arange(n)).sum(axis=1), (decks * np.arange(n)).sum(axis=1)
    assert (footrule.mean(), footrule.var()) == pytest.approx(((n * n - 1) / 3, (n + 1) * (2 * n * n + 7) / 45))
    mean, variance = n * (n - 1) ** 2 / 4, (n * (n * n - 1) / 12) ** 2 / (n - 1)
    assert (products.mean(), products.var()) == pytest.approx((mean, variance))


def test_the_table_statistic_has_the_mean_of_its_degrees_of_freedom() -> None:
    # Plain Pearson would have mean n(n-1) = 20 instead of 16 here.
    entry = {e.id: e for e in ENTRIES}["shuffles.position-card"]
    values = []
    for seed in range(scaled(300, 5000)):
        accumulator = entry.make(Setting(Kind.SHUFFLES, 5), 0)
        accumulator.update(good_decks(200, 5, seed))
        values.append(accumulator.results()[0].statistic)
    assert np.mean(values) == pytest.approx(16, abs=5 * math.sqrt(32 / len(values)))


@pytest.mark.parametrize(("n", "k"), [(32, 5), (36, 5), *([(52, 5), (32, 7), (36, 7)] if scaled(0, 1) else [])])
def test_hand_frequencies_are_those_of_all_hands(n: int, k: int) -> None:
    all_hands = np.array(list(combinations(range(n), k)), dtype=np.uint8)
    counts = np.bincount(hands.classify(all_hands, n), minlength=10)
    assert tuple(counts.tolist()) == hands.FREQUENCIES[n, k]


@pytest.mark.parametrize(("size", "frequencies"), hands.FREQUENCIES.items())
def test_hand_frequencies_sum_to_all_hands(size: tuple[int, int], frequencies: tuple[int, ...]) -> None:
    assert sum(frequencies) == math.comb(*size)


@pytest.mark.parametrize(
    ("cards", "category"),
    [
        ("Ac Kc Qc Jc Tc", "royal flush"),
        ("5d 4d 3d 2d Ad", "straight flush"),
        ("9c 9d 9h 9s 2c 2d 2h", "four of a kind"),
        ("9c 9d 9h 2c 2d 2h As", "full house"),
        ("9c 9d 9h 2c 2d Ah As", "full house"),
        ("Ac Jc 9c 7c 5c 5d 5h", "flush"),
        ("Ac 2d 3h 4s 5c 5d Kh", "straight"),
        ("Ac Kd Qh Js Tc Td Th", "straight"),
        ("Qc Kd Ah 2s 3c", "high card"),
        ("Qc Qd Qh 2s 3c", "three of a kind"),
        ("Qc Qd 3h 3s 4c 4d Ah", "two pairs"),
        ("Qc Qd 3h 4s 5c", "one pair"),
    ],
)
def test_a_hand_is_classified(cards: str, category: str) -> None:
    codes = [4 * "23456789TJQKA".index(card[0]) + "cdhs".index(card[1]) for card in cards.split()]
    assert hands.CATEGORIES[int(hands.classify(np.array([codes], dtype=np.uint8), 52)[0])] == category


@pytest.mark.parametrize(("shift", "n"), [(20, 32), (16, 36)])
def test_a_stripped_deck_has_its_own_lowest_straight(shift: int, n: int) -> None:
    low = [
        4 * r + s
        for r, s in zip((12, shift // 4, shift // 4 + 1, shift // 4 + 2, shift // 4 + 3), (0, 1, 2, 3, 0), strict=True)
    ]
    hand = np.array([[card - shift for card in low]], dtype=np.uint8)
    assert hands.CATEGORIES[int(hands.classify(hand, n)[0])] == "straight"


def by_id(entry: Entry) -> str:
    return entry.id


@pytest.mark.parametrize("entry", ENTRIES, ids=by_id)
@settings(max_examples=scaled(5, 200), deadline=None)
@given(
    n=st.sampled_from([2, 3, 5, 32, 52, 300]),
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    start=st.integers(0, 600),
)
def test_a_split_sample_gives_the_state_of_the_whole(entry: Entry, n: int, lengths: list[int], start: int) -> None:
    setting = Setting(Kind.SHUFFLES, n)
    if entry.objection(setting):
        return
    decks = good_decks(sum(lengths), n, seed=start)
    whole = entry.make(setting, start)
    whole.update(decks)
    bounds = np.cumsum([0, *lengths])
    parts = [entry.make(setting, start + int(b)) for b in bounds[:-1]]
    for part, a, b in zip(parts, bounds[:-1], bounds[1:], strict=True):
        part.update(decks[a:b])
    while len(parts) > 1:
        i = len(parts) // 2 - 1
        parts[i].merge(parts.pop(i + 1))
    assert parts[0].to_state() == whole.to_state()
    assert parts[0].results() == whole.results()


def test_the_smallest_and_largest_decks_can_be_tested() -> None:
    for n in (2, 1020):
        for entry in ENTRIES:
            setting = Setting(Kind.SHUFFLES, n)
            if entry.objection(setting) is None:
                accumulator = entry.make(setting, 0)
                accumulator.update(good_decks(50, n, 1))
                assert all(result.reason or result.log_p is not None for result in accumulator.results())


def test_a_repeated_deck_is_found_across_runs_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stats_tests.shuffles.duplicates.RUN_LENGTH", 64)
    decks = good_decks(1000, 52, 3)
    decks[900] = decks[17]
    decks[901] = decks[17]
    first, second = DuplicateDecks("t", 52, 0), DuplicateDecks("t", 52, 400)
    for at in range(0, 400, 50):
        first.update(decks[at : at + 50])
    second.update(decks[400:])
    first.merge(second)
    result = first.results()[0]
    assert result.statistic == 2
    assert result.log_p < -250
    repeats = [count - 1 for count in Counter(map(bytes, decks)).values()]
    assert sum(repeats) == 2


def test_repeats_of_small_decks_are_not_held_against_them() -> None:
    accumulator = DuplicateDecks("t", 5, 0)
    accumulator.update(good_decks(1000, 5, 3))
    assert "repeat" in accumulator.results()[0].reason
