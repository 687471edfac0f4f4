"""SP 800-90B on a finished sample: the continuous health tests, 4.4, and the min-entropy estimates, 6.3.

The health tests are meant for a noise source as it runs (`rngsvc` has them there). Here they are counted over a whole
sample of an ideal source's output, so that their alarms have a null distribution.
"""

import math
from collections.abc import Callable
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from stats_tests.accumulator import Items, State, StateValue
from stats_tests.bits import min_entropy, tails
from stats_tests.bits.per_sequence import UNJUDGED
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.result import Result, not_applicable
from stats_tests.windows import Counts, Statistic, WindowCounts

REPETITION: Final = "bits.health.repetition-count"
PROPORTION: Final = "bits.health.adaptive-proportion"
MIN_ENTROPY: Final = "bits.health.min-entropy"
ALPHA_BITS: Final = 20
"""A cutoff is passed by an ideal source with probability 2^-20."""
SYMBOL_BITS: Final = 8
PROPORTION_WINDOW: Final = 512
SAMPLES: Final = 10**6
"""What the estimators are used on (SP 800-90B, 3.1.1)."""


def repetition_cutoff(entropy: float) -> int:
    """Return how many equal samples in a row raise the alarm, by the entropy per sample in bits (4.4.1)."""
    return 1 + math.ceil(ALPHA_BITS / entropy)


def proportion_cutoff(entropy: float, window: int) -> int:
    """Return how many samples of a window that equal its first raise the alarm (4.4.2): 1 + the binomial quantile."""
    share = 2.0**-entropy
    return 1 + next(k for k in range(window + 1) if special.bdtr(k, window, share) >= 1 - 2.0**-ALPHA_BITS)


def _observe_repetitions(chunk: NDArray[np.uint8]) -> Counts:
    cutoff = repetition_cutoff(SYMBOL_BITS)
    windows = np.lib.stride_tricks.sliding_window_view(chunk, cutoff)
    return np.array([np.count_nonzero((windows == windows[:, :1]).all(axis=1))])


def _judge_repetitions(counts: Counts, windows: int) -> tuple[Result, ...]:
    cutoff = repetition_cutoff(SYMBOL_BITS)
    if not windows:
        return (not_applicable(REPETITION, UNJUDGED, f"less than {cutoff} bytes"),)
    return (_alarms(REPETITION, int(counts[0]), windows * 2.0 ** (-SYMBOL_BITS * (cutoff - 1)), cutoff, windows),)


def _observe_proportions(chunk: NDArray[np.uint8]) -> Counts:
    windows = chunk.reshape(-1, PROPORTION_WINDOW)
    equal = np.count_nonzero(windows == windows[:, :1], axis=1)
    return np.array([np.count_nonzero(equal >= proportion_cutoff(SYMBOL_BITS, PROPORTION_WINDOW))])


def _judge_proportions(counts: Counts, windows: int) -> tuple[Result, ...]:
    cutoff = proportion_cutoff(SYMBOL_BITS, PROPORTION_WINDOW)
    if not windows:
        return (not_applicable(PROPORTION, UNJUDGED, f"less than {PROPORTION_WINDOW} bytes"),)
    # The first counts itself; the others equal it independently.
    chance = float(special.bdtrc(cutoff - 2, PROPORTION_WINDOW - 1, 2.0**-SYMBOL_BITS))
    return (_alarms(PROPORTION, int(counts[0]), windows * chance, cutoff, windows),)


def _alarms(test: str, alarms: int, mean: float, cutoff: int, windows: int) -> Result:
    return Result(
        test=test,
        null=f"Poisson, mean {mean:.6g}",
        statistic=alarms,
        log_p=tails.poisson_at_least(alarms, mean),
        details={"windows": windows, "cutoff": cutoff, "expected": mean},
    )


class FirstBytes:
    """Accumulator that keeps the first bytes of the sample, for what can only be computed on them as a whole."""

    def __init__(self, start: int, limit: int, judge: Callable[[NDArray[np.uint8]], tuple[Result, ...]]) -> None:
        """Begin an empty segment.

        Args:
            start: absolute index of the segment's first byte.
            limit: how many bytes of the sample are kept.
            judge: takes the bytes kept from the beginning of the sample on, at most `limit`.
        """
        self.start = start
        self.end = start
        self._limit = limit
        self._judge = judge
        self._kept = b""

    def update(self, items: Items) -> None:
        """Take the bytes that follow."""
        self._kept += items[: max(0, self._limit - self.end)].tobytes()
        self.end += len(items)

    def merge(self, following: Self) -> None:
        """Take over the segment that begins where this one ends."""
        if following.start != self.end:
            raise ValueError(
                f"segments do not adjoin: one ends at byte {self.end}, the next begins at {following.start}"
            )
        self._kept += following._kept
        self.end = following.end

    def results(self) -> tuple[Result, ...]:
        """Judge the bytes kept."""
        return self._judge(np.frombuffer(self._kept, dtype=np.uint8))

    def to_state(self) -> dict[str, StateValue]:
        """Return the segment's bounds and bytes."""
        return {"start": self.start, "end": self.end, "kept": self._kept.hex()}

    def load(self, state: State) -> None:
        """Replace the segment by the one that `state` tells of.

        Raises:
            ValueError: the state is not one of this test's.
        """
        match state:
            case {"start": int(start), "end": int(end), "kept": str(kept)}:
                pass
            case _:
                raise ValueError("state: expected start, end and kept")
        if not 0 <= start <= end:
            raise ValueError(f"state: a segment from byte {start} to {end} does not exist")
        octets = bytes.fromhex(kept)
        if len(octets) != max(0, min(end, self._limit) - start):
            raise ValueError("state.kept: not the bytes that the segment's place asks for")
        self.start, self.end, self._kept = start, end, octets


def _judge_min_entropy(octets: NDArray[np.uint8]) -> tuple[Result, ...]:
    null = "none: an estimate in bits per bit; ideal bits come out somewhat below 1"
    if octets.size * 8 < SAMPLES:
        return (not_applicable(MIN_ENTROPY, null, f"{octets.size * 8} bits, {SAMPLES} needed"),)
    estimates = min_entropy.estimate(np.unpackbits(octets))
    return (Result(test=MIN_ENTROPY, null=null, statistic=min(estimates.values()), log_p=0.0, details=estimates),)


def _entry(name: str, title: str, null: str, source: str, statistic: Statistic, parameters: dict[str, int]) -> Entry:
    return Entry(
        id=name,
        title=title,
        clauses=("R14", "R23"),
        kind=Kind.BITS,
        null=null,
        source=source,
        minimal=lambda _setting: statistic.span,
        make=lambda _setting, start: WindowCounts(statistic, start, np.uint8),
        parameters=parameters,
        primary=False,
    )


def _make_min_entropy(_setting: Setting, start: int) -> FirstBytes:
    return FirstBytes(start, SAMPLES // 8, _judge_min_entropy)


HEALTH: Final = (
    _entry(
        REPETITION,
        "Equal bytes in a row, as the repetition count test counts them",
        "Poisson; overlapping alarms make it right to within 1/256",
        "SP 800-90B, 4.4.1",
        Statistic(
            cells=1,
            observe=_observe_repetitions,
            judge=_judge_repetitions,
            span=repetition_cutoff(SYMBOL_BITS),
        ),
        {"alpha_bits": ALPHA_BITS, "cutoff": repetition_cutoff(SYMBOL_BITS)},
    ),
    _entry(
        PROPORTION,
        "Bytes that equal the first of their window, as the adaptive proportion test counts them",
        "Poisson, exact mean",
        "SP 800-90B, 4.4.2",
        Statistic(
            cells=1,
            observe=_observe_proportions,
            judge=_judge_proportions,
            span=PROPORTION_WINDOW,
            step=PROPORTION_WINDOW,
        ),
        {
            "alpha_bits": ALPHA_BITS,
            "window": PROPORTION_WINDOW,
            "cutoff": proportion_cutoff(SYMBOL_BITS, PROPORTION_WINDOW),
        },
    ),
    Entry(
        id=MIN_ENTROPY,
        title="Min-entropy of the first 10^6 bits by the ten estimators for sources that are not IID",
        clauses=("R23",),
        kind=Kind.BITS,
        null="none: an estimate",
        source="SP 800-90B, 6.3",
        minimal=lambda _setting: SAMPLES // 8,
        make=_make_min_entropy,
        parameters={"samples": SAMPLES, "symbol_bits": 1},
        primary=False,
    ),
)
