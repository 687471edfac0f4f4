"""SP 800-90B, 6.3: the ten estimators of min-entropy, for samples of one bit.

An estimate is a lower confidence bound (99 %) in bits per sample, at most 1. It is no hypothesis test: ideal bits come
out somewhat below 1, by an amount that differs from estimator to estimator. The predictors (6.3.7 - 6.3.10) look at the
sample one by one in the publication; here each predictor's guesses are computed for all places at once, and the choice
of the best predictor so far is followed afterwards.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from stats_tests.bits.sequence import LONGEST_WINDOW, Sequence
from stats_tests.bits.universal import distances_back

Z: Final = 2.5758293035489008
"""The normal quantile of 0.995."""
CONFIDENCE: Final = 0.99
LN_CONFIDENCE: Final = math.log(CONFIDENCE)

MARKOV_LENGTH: Final = 128
COMPRESSION_BITS: Final = 6
COMPRESSION_FIRST: Final = 1000
COMPRESSION_SIGMA: Final = 0.5907
FREQUENT_TUPLE: Final = 35
COMMON_WINDOWS: Final = (63, 255, 1023, 4095)
LAGS: Final = 128
ORDERS: Final = 16
MARKOV_ENTRIES: Final = 100_000
LZ_ENTRIES: Final = 65_536

Bits = NDArray[np.uint8]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


def estimate(bits: Bits) -> dict[str, float]:
    """Return every estimator's bound in bits per sample; the assessed entropy is the least.

    Raises:
        ValueError: fewer than 6,012 samples, which the compression estimate needs.
    """
    fewest = COMPRESSION_BITS * (COMPRESSION_FIRST + 2)
    if len(bits) < fewest:
        raise ValueError(f"bits: {len(bits)} samples where at least {fewest} are needed")
    t_tuple, longest_repeat = tuples(bits)
    return {
        "most_common_value": most_common_value(bits),
        "collision": collision(bits),
        "markov": markov(bits),
        "compression": compression(bits),
        "t_tuple": t_tuple,
        "longest_repeated_substring": longest_repeat,
        "multi_most_common_in_window": multi_most_common_in_window(bits),
        "lag": lag(bits),
        "multi_markov_model_with_counting": multi_markov_model_with_counting(bits),
        "lz78y": lz78y(bits),
    }


def _entropy_of_share(share: float, samples: int) -> float:
    """Return -log2 of the upper confidence bound of a probability that was estimated from so many samples."""
    return abs(math.log2(min(1.0, share + Z * math.sqrt(share * (1 - share) / (samples - 1)))))


def most_common_value(bits: Bits) -> float:
    """6.3.1."""
    ones = int(np.count_nonzero(bits))
    return _entropy_of_share(max(ones, len(bits) - ones) / len(bits), len(bits))


def collision(bits: Bits) -> float:
    """6.3.2: the mean wait for an equal pair, two samples or three, one wait beginning where the last has ended."""
    equal = (bits[1:] == bits[:-1]).tolist()
    place, waits, twos = 0, 0, 0
    while place < len(equal):
        if equal[place]:
            place += 2
            twos += 1
        elif place + 1 < len(equal):
            place += 3
        else:
            break
        waits += 1
    mean = place / waits
    deviation = math.sqrt((4 * twos + 9 * (waits - twos) - place * mean) / (waits - 1))
    bound = max(2.0, mean - Z * deviation / math.sqrt(waits))
    # For two symbols the expected wait is 2 + 2p - 2p^2.
    return -math.log2(0.5 + math.sqrt(1.25 - bound / 2)) if bound < 2.5 else 1.0


def markov(bits: Bits) -> float:
    """6.3.3: the likeliest sequence of 128 samples under a first-order Markov chain."""
    pairs = np.bincount(2 * bits[:-1] + bits[1:], minlength=4).reshape(2, 2)
    ones = int(np.count_nonzero(bits)) / len(bits)
    with np.errstate(divide="ignore", invalid="ignore"):
        start = -np.log2([1 - ones, ones])
        ((stay0, to1), (to0, stay1)) = -np.log2(np.nan_to_num(pairs / pairs.sum(axis=1, keepdims=True)))
    n = MARKOV_LENGTH
    costs = [
        start[0] + (n - 1) * stay0,
        start[0] + n / 2 * to1 + (n / 2 - 1) * to0,
        start[0] + to1 + (n - 2) * stay1,
        start[1] + to0 + (n - 2) * stay0,
        start[1] + n / 2 * to0 + (n / 2 - 1) * to1,
        start[1] + (n - 1) * stay1,
    ]
    return float(min(1.0, *(cost / n for cost in costs)))


def compression(bits: Bits) -> float:
    """6.3.4: Maurer's statistic on blocks of six samples, solved for the probability of the likeliest block."""
    count = len(bits) // COMPRESSION_BITS
    values = Sequence(bits).windows(COMPRESSION_BITS)[: count * COMPRESSION_BITS : COMPRESSION_BITS]
    logs = np.log2(distances_back(values, COMPRESSION_FIRST))
    mean = logs.mean()
    deviation = COMPRESSION_SIGMA * math.sqrt((logs**2).sum() / (logs.size - 1) - mean**2)
    bound = mean - Z * deviation / math.sqrt(logs.size)
    fewest = 2.0**-COMPRESSION_BITS
    places = np.arange(2, count + 1)
    log_places = np.log2(places)

    def part(z: float) -> float:
        """Return one symbol's share G(z) of the expected statistic."""
        # At place t, log2(i) has weight z^2 (1-z)^(i-1) for a distance i < t, and z (1-z)^(t-1) for a first occurrence.
        weighted = log_places * np.exp((places - 1) * math.log1p(-z)) if z < 1 else np.zeros(places.size)
        tested = places[-1] - COMPRESSION_FIRST
        later_places = np.minimum(count - places, tested)
        first = weighted[places > COMPRESSION_FIRST].sum()
        return float(z * (z * (later_places * weighted).sum() + first) / tested)

    def expected(p: float) -> float:
        return part(p) + (1 / fewest - 1) * part((1 - p) / (1 / fewest - 1))

    if expected(fewest) <= bound:
        return 1.0
    if expected(1.0) >= bound:
        return 0.0
    likeliest = optimize.brentq(lambda p: expected(p) - bound, fewest, 1.0, xtol=1e-16, rtol=1e-14)
    return -math.log2(likeliest) / COMPRESSION_BITS


def tuples(bits: Bits) -> tuple[float, float]:
    """6.3.5 and 6.3.6: the most frequent t-tuples, and the collisions of tuples too long to be frequent."""
    n = len(bits)
    most, pairs = _tuple_counts(_common_prefixes(bits))
    frequent = repeated = 0.0
    for length in range(1, len(most)):
        places = n - length + 1
        if most[length] >= FREQUENT_TUPLE:
            frequent = max(frequent, (most[length] / places) ** (1 / length))
        else:
            repeated = max(repeated, (pairs[length] / math.comb(places, 2)) ** (1 / length))
    # No tuple is too rare to be frequent and yet repeated: nothing was found against full entropy.
    return _entropy_of_share(frequent, n), _entropy_of_share(repeated, n) if repeated else 1.0


def _common_prefixes(bits: Bits) -> list[int]:
    """Return how many samples neighbours in the sorted list of all suffixes share.

    The suffixes are sorted by their first 16, 32, 64, .. samples until no two are alike. The ranks of every length are
    kept, and neighbours are compared by halving lengths.
    """
    n = len(bits)
    places = np.arange(n)
    alike: list[tuple[int, Indices]] = []
    for length in (1, 2, 4, 8):
        # A suffix shorter than the length is alike to none.
        values = Sequence(bits).windows(length).astype(np.int64)
        alike.append((length, np.where(places + length <= n, values, -1 - places)))
    length = LONGEST_WINDOW
    padded = Sequence(np.concatenate([bits, np.zeros(length, dtype=np.uint8)])).windows(length)[:n].astype(np.int64)
    keys = padded * (length + 1) + np.minimum(n - places, length)
    while True:
        order = np.argsort(keys, kind="stable")
        rank = np.empty(n, dtype=np.int64)
        rank[order] = np.cumsum(np.concatenate([[0], np.diff(keys[order]) != 0]))
        alike.append((length, rank))
        if rank[order[-1]] == n - 1:
            break
        following = np.concatenate([rank[length:] + 1, np.zeros(min(length, n), dtype=np.int64)])
        keys = rank * (n + 1) + following
        length *= 2
    shared = np.zeros(n - 1, dtype=np.int64)
    for length, value in reversed(alike):
        ended = np.append(value, -2 * n)
        shared += length * (ended[order[:-1] + shared] == ended[order[1:] + shared])
    return shared.tolist()


def _tuple_counts(shared: list[int]) -> tuple[list[int], list[int]]:
    """Return, for each length of tuple from 0 on that is repeated, the most frequent one's count and all equal pairs.

    A stretch of neighbours that share t samples is a tuple of length t with as many occurrences. Each entry of `shared`
    is the least of the stretch between the nearest smaller ones (the first of equals counts as the smaller).
    """
    longest = max(shared)
    most, pairs = [0] * (longest + 2), [0] * (longest + 2)
    open_from: list[tuple[int, int]] = []  # (value, place of the smaller entry before it)
    places: list[int] = []
    for place, value in enumerate([*shared, -1]):
        before = place - 1
        while open_from and open_from[-1][0] >= value:
            least, smaller = open_from.pop()
            at = places.pop()
            pairs[least] += (at - smaller) * (place - at)
            most[least] = max(most[least], place - smaller)
            before = smaller
        open_from.append((value, before))
        places.append(place)
    for length in range(longest, 0, -1):
        most[length] = max(most[length], most[length + 1])
        pairs[length] += pairs[length + 1]
    return most[: longest + 1], pairs[: longest + 1]


def multi_most_common_in_window(bits: Bits) -> float:
    """6.3.7: the commoner value among the last 63, 255, 1023 and 4095 samples."""
    n, first = len(bits), COMMON_WINDOWS[0]
    ones = np.concatenate([[0], np.cumsum(bits, dtype=np.int64)])
    right = np.zeros((len(COMMON_WINDOWS), n - first), dtype=bool)
    for row, window in zip(right, COMMON_WINDOWS, strict=True):
        common = 2 * (ones[window:n] - ones[: n - window]) > window
        row[window - first :] = common == bits[window:]
    return _prediction_entropy(_follow(lambda begin, end: right[:, begin:end], n - first), n - first)


def lag(bits: Bits) -> float:
    """6.3.8: the sample 1, 2, .. 128 places back."""
    n = len(bits)
    padded = np.concatenate([np.full(LAGS, 2, dtype=np.uint8), bits])

    def right(begin: int, end: int) -> Flags:
        place = begin + 1 + LAGS
        return np.array([padded[place - d : place - d + end - begin] == bits[begin + 1 : end + 1] for d in _LAGS])

    return _prediction_entropy(_follow(right, n - 1), n - 1)


_LAGS: Final = range(1, LAGS + 1)


def multi_markov_model_with_counting(bits: Bits) -> float:
    """6.3.9: what came most often after the last 1, 2, .. 16 samples, each order's table of limited size."""
    n = len(bits)
    right = np.zeros((ORDERS, n - 2), dtype=bool)
    guessed = np.zeros_like(right)
    sequence = Sequence(bits)
    for order in range(1, ORDERS + 1):
        contexts, following = sequence.windows(order)[: n - order], bits[order:]
        keys = 2 * contexts.astype(np.int64) + following
        entered = _first_places(keys, 2 << order)
        last = np.partition(entered, MARKOV_ENTRIES - 1)[MARKOV_ENTRIES - 1] if entered.size > MARKOV_ENTRIES else n
        zeros, ones = _counts_before(contexts, following, entered[keys] <= last)
        # Place `order` is the first that enters, place `order + 1` the first that is predicted.
        begin = order - 1
        guessed[order - 1, begin:] = ((zeros > 0) | (ones > 0))[1:]
        right[order - 1, begin:] = guessed[order - 1, begin:] & ((ones >= zeros) == following)[1:]
    return _prediction_entropy(_follow(lambda a, b: right[:, a:b], n - 2, lambda a, b: guessed[:, a:b]), n - 2)


def lz78y(bits: Bits) -> float:
    """6.3.10: what came most often after any of the last 16, 15, .. 1 samples, one table of limited size for all."""
    n = len(bits)
    following = bits[ORDERS:]
    sequence = Sequence(bits)
    contexts = {order: sequence.windows(order)[ORDERS - order : n - order] for order in range(1, ORDERS + 1)}
    # Contexts enter in the order of place, the longest of a place first.
    entered = {order: _first_places(of.astype(np.int64), 1 << order) for order, of in contexts.items()}
    ranks = np.concatenate([ORDERS * places[places < n] + ORDERS - order for order, places in entered.items()])
    last = np.partition(ranks, LZ_ENTRIES - 1)[LZ_ENTRIES - 1] if ranks.size > LZ_ENTRIES else ORDERS * n
    best = np.zeros(n - ORDERS, dtype=np.int64)
    guess = np.zeros(n - ORDERS, dtype=bool)
    for order in range(ORDERS, 0, -1):
        admitted = ORDERS * entered[order][contexts[order]] + ORDERS - order <= last
        zeros, ones = _counts_before(contexts[order], following, admitted)
        most = np.maximum(zeros, ones)
        better = most > best
        best[better] = most[better]
        guess[better] = (ones >= zeros)[better]
    right = ((best > 0) & (guess == following))[1:]
    return _prediction_entropy((int(right.sum()), _longest_run(right)), n - ORDERS - 1)


def _first_places(keys: Indices, size: int) -> Indices:
    """Return where each key comes first; keys that do not come are left far beyond."""
    places = np.full(size, 1 << 40, dtype=np.int64)
    # Of several assignments to one element the last is kept.
    places[keys[::-1]] = np.arange(keys.size)[::-1]
    return places


def _counts_before(contexts: NDArray[np.uint16], following: Bits, counted: Flags) -> tuple[Indices, Indices]:
    """Return for each place how often a zero and a one have followed its context before, counted places only."""
    order = np.argsort(contexts, kind="stable")
    ordered = contexts[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    group = np.cumsum(begins) - 1
    counts = []
    for value in (0, 1):
        hits = (counted & (following == value))[order].astype(np.int64)
        before = np.cumsum(hits) - hits
        at = np.empty(contexts.size, dtype=np.int64)
        at[order] = before - before[begins][group]
        counts.append(at)
    return counts[0], counts[1]


_CHUNK: Final = 1 << 15


def _follow(
    right: Callable[[int, int], Flags], places: int, guessed: Callable[[int, int], Flags] | None = None
) -> tuple[int, int]:
    """Follow the predictor that has been right most often; return how often it was right and its longest run.

    Args:
        right: gives for places begin .. end - 1 which predictors (rows) are right.
        places: how many predictions there are.
        guessed: as `right`, which predictors guess at all; a place without a guess neither ends nor lengthens a run.

    Of predictors that have been right equally often the one is followed that was right last; at one place they are
    taken in order, so a predictor takes the lead if it reaches the leader's score as it stands at its turn.
    """
    scores = np.zeros(right(0, 1).shape[0], dtype=np.int64)
    leader, outcomes = 0, []
    for begin in range(0, places, _CHUNK):
        end = min(begin + _CHUNK, places)
        hits = right(begin, end)
        before = np.cumsum(hits, axis=1, dtype=np.int32) - hits + scores[:, None]
        highest = before.max(axis=0)
        # A leader that is right takes the lead further, so none after or before it that was one behind can hold it.
        at_top, one_behind = hits & (before == highest), hits & (before == highest - 1)
        chosen = np.where(at_top.any(axis=0), _last_row(at_top), _last_row(one_behind))
        changes = (at_top | one_behind).any(axis=0)
        latest = np.maximum.accumulate(np.where(changes, np.arange(end - begin), -1))
        after = np.where(latest >= 0, chosen[latest], leader)
        leaders = np.concatenate([[leader], after[:-1]])
        columns = np.arange(end - begin)
        outcome = hits[leaders, columns]
        outcomes.append(outcome if guessed is None else outcome[guessed(begin, end)[leaders, columns]])
        scores += hits.sum(axis=1)
        leader = int(after[-1])
    followed = np.concatenate(outcomes)
    return int(followed.sum()), _longest_run(followed)


def _last_row(flags: Flags) -> Indices:
    rows: Indices = flags.shape[0] - 1 - np.argmax(flags[::-1], axis=0)
    return rows


def _longest_run(flags: Flags) -> int:
    misses = np.concatenate([[-1], np.flatnonzero(~flags), [flags.size]])
    return int(np.diff(misses).max()) - 1


def _prediction_entropy(outcome: tuple[int, int], predictions: int) -> float:
    """Return the entropy that a predictor leaves by how often it was right and by its longest run (6.3.7, 5-8)."""
    right, longest = outcome
    share = right / predictions
    if right:
        bound = min(1.0, share + Z * math.sqrt(share * (1 - share) / (predictions - 1)))
    else:
        bound = 1 - (1 - CONFIDENCE) ** (1 / predictions)
    bound = max(bound, 0.5)

    def excess(p: float) -> float:
        return _log_no_longer_run(p, longest + 1, predictions) - LN_CONFIDENCE

    # From here on the root x below is 1/p, and runs that long are all but certain.
    certain = (longest + 1) / (longest + 2)
    if bound < certain and excess(bound) > 0:
        bound = optimize.brentq(excess, bound, certain, xtol=1e-16, rtol=1e-14)
    return abs(math.log2(bound))


def _log_no_longer_run(p: float, run: int, trials: int) -> float:
    """Return ln P(no run of `run` successes in so many trials with probability p) (Feller; 90B 6.3.7, step 7)."""
    q = 1 - p
    # The root x = 1 + y of 1 - x + q p^r x^(r+1), by iteration from below.
    y = 0.0
    for _ in range(66):
        following = q * p**run * (1 + y) ** (run + 1)
        if following <= y * (1 + 1e-16):
            break
        y = following
    return math.log(q - p * y) - math.log((1 - run * y) * q) - (trials + 1) * math.log1p(y)
