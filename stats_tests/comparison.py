"""Two samples side by side: are they of one distribution, and does neither tell anything of the other?

Taken from one service idle and under load, they show that load changes nothing; taken from two instances at the same
time, that the instances are not in step. Both samples are read together, item by item, in constant memory but for
what the tests of repetition keep.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from stats_tests import nulls
from stats_tests.accumulator import Items
from stats_tests.bits.repeated_blocks import RepeatedBlocks
from stats_tests.bits.structure import LAGS as OCTET_LAGS
from stats_tests.bits.structure import differing_at_lags, judge_cross_correlation
from stats_tests.catalogue import Entry, Kind, Setting
from stats_tests.digest import SampleDigest
from stats_tests.nulls import judge_categories, judge_mean, log_chi_square_tail
from stats_tests.result import Result, not_applicable
from stats_tests.samples import binary_format, item_bytes
from stats_tests.shuffles.duplicates import LARGEST_EXPECTATION
from stats_tests.shuffles.order import count_cycles, count_descents, count_fixed_points, count_inversions
from stats_tests.windows import Counts

LAGS: Final = 5
"""Decks and numbers are compared with those up to so many places before and after in the other sample."""
CELLS: Final = 1024
"""Most cells that a range of numbers, or of inversions, is cut into."""
PIECE: Final = 4096
"""Decks or numbers, and (times 64) bytes, that are looked at together."""

OF_DECKS: Final[Mapping[str, Callable[[NDArray[Any]], NDArray[np.int64]]]] = {
    "cycles": count_cycles,
    "inversions": count_inversions,
    "descents": count_descents,
    "fixed-points": count_fixed_points,
}


def in_step(first: Iterator[Items], second: Iterator[Items], most: int) -> Iterator[tuple[Items, Items]]:
    """Yield pieces of equal length, at most so many items, of two streams, as far as both go."""
    held: list[Items] = []
    streams = (first, second)
    for stream in streams:
        if (chunk := next(stream, None)) is None:
            return
        held.append(chunk)
    while True:
        length = min(most, *map(len, held))
        yield held[0][:length], held[1][:length]
        for place, stream in enumerate(streams):
            held[place] = held[place][length:]
            while not len(held[place]):
                if (chunk := next(stream, None)) is None:
                    return
                held[place] = chunk


class Comparison:
    """What is counted of two samples of as many items each."""

    def __init__(self, kind: Kind, size: int) -> None:
        """Begin with two empty samples; `size` is that of a deck or range, 0 for bits."""
        self.kind = kind
        self.size = size
        self.items = 0
        width = item_bytes(binary_format(kind, size), size)
        self._digests = (SampleDigest(width, 0), SampleDigest(width, 0))
        self._tables: dict[str, Counts] = {}
        # The last items of both samples, with which later ones are compared.
        self._before: tuple[Items, Items] | None = None
        self._agreements: Counts = np.zeros(size + 1 if kind is Kind.SHUFFLES else 2, dtype=np.int64)
        self._lagged = 0
        self._lagged_pairs = 0
        self._differing: Counts = np.zeros(2 * OCTET_LAGS + 1, dtype=np.int64)
        self._octets = 0
        self._decks: tuple[set[bytes], set[bytes]] = (set(), set())
        self._blocks = (RepeatedBlocks(0), RepeatedBlocks(0))

    def update(self, first: Items, second: Items) -> None:
        """Take the items that follow, as many of each."""
        assert len(first) == len(second), "both samples go on together"
        for side, items in enumerate((first, second)):
            self._digests[side].update(items)
        match self.kind:
            case Kind.BITS:
                self._update_bits(first, second)
            case Kind.NUMBERS:
                self._update_tables(self._cells_of_numbers, first, second)
                self._update_agreements(first, second)
            case Kind.SHUFFLES:
                self._update_tables(self._cells_of_decks, first, second)
                self._update_agreements(first, second)
                for seen, decks in zip(self._decks, (first, second), strict=True):
                    seen.update(hashlib.blake2b(deck.tobytes(), digest_size=16).digest() for deck in decks)
        self.items += len(first)

    def roots(self) -> tuple[bytes, bytes]:
        """Return the Merkle roots of both samples."""
        return self._digests[0].root(), self._digests[1].root()

    def results(self) -> tuple[tuple[Entry, Result], ...]:
        """Judge what was counted; each result with its entry."""
        match self.kind:
            case Kind.BITS:
                found = [self._same_distribution("octets"), self._cross_correlation(), self._shared_blocks()]
            case Kind.NUMBERS:
                found = [self._same_distribution("numbers"), self._equal_numbers()]
            case Kind.SHUFFLES:
                found = [
                    self._same_table(),
                    *(self._same_distribution(name) for name in OF_DECKS),
                    judge_categories("compare.same-place", self._agreements, nulls.fixed_points(self.size)),
                    judge_mean("compare.same-place-lags", self._lagged, self._lagged_pairs, 1.0, 1.0),
                    self._shared_decks(),
                ]
        return tuple((ENTRIES[result.test], result) for result in found)

    # --- Counting ---

    def _update_bits(self, first: Items, second: Items) -> None:
        self._update_tables(lambda octets: {"octets": np.bincount(octets, minlength=256)}, first, second)
        for blocks, octets in zip(self._blocks, (first, second), strict=True):
            blocks.update(octets)
        pair = self._with_those_before(first, second, OCTET_LAGS)
        if len(pair[0]) > OCTET_LAGS:
            self._differing += differing_at_lags(*pair)
            self._octets += len(pair[0]) - OCTET_LAGS

    def _with_those_before(self, first: Items, second: Items, keep: int) -> tuple[Items, Items]:
        """Return both pieces with the last items of those before, and keep their own last ones."""
        pair = (first, second)
        if self._before is not None:
            pair = (np.concatenate([self._before[0], first]), np.concatenate([self._before[1], second]))
        self._before = (pair[0][-keep:].copy(), pair[1][-keep:].copy())
        return pair

    def _update_tables(self, cells: Callable[[Items], dict[str, Counts]], first: Items, second: Items) -> None:
        for name, of_first in cells(first).items():
            table = np.stack([of_first, cells(second)[name]])
            self._tables[name] = self._tables.get(name, 0) + table

    def _cells_of_numbers(self, numbers: Items) -> dict[str, Counts]:
        cells = min(self.size, CELLS)
        # Numbers are below 2^53 and there are at most 2^10 cells: the product fits 64 bits.
        place = numbers * np.uint64(cells) // np.uint64(self.size)
        return {"numbers": np.bincount(place.astype(np.int64), minlength=cells)}

    def _cells_of_decks(self, decks: Items) -> dict[str, Counts]:
        n = self.size
        places = decks + np.arange(n, dtype=np.int64) * n
        found = {"position-card": np.bincount(places.ravel(), minlength=n * n)}
        for name, count in OF_DECKS.items():
            counts = count(decks)
            values = n * (n - 1) // 2 + 1 if name == "inversions" else n + 1
            cells = min(values, CELLS)
            found[name] = np.bincount(counts * cells // values, minlength=cells)
        return found

    def _update_agreements(self, first: Items, second: Items) -> None:
        """Count, deck by deck, the cards that lie at the same place in both samples; numbers are equal or not."""
        self._agreements += np.bincount(_agreements(first, second), minlength=len(self._agreements))
        earlier = 0 if self._before is None else len(self._before[0])
        one, other = self._with_those_before(first, second, LAGS)
        for lag in range(1, LAGS + 1):
            # Each pair is counted when its later item comes.
            begin = max(lag, earlier)
            if len(one) <= begin:
                continue
            for early, late in ((one, other), (other, one)):
                agreeing = _agreements(early[begin - lag : len(early) - lag], late[begin:])
                self._lagged += int(agreeing.sum())
                self._lagged_pairs += len(agreeing)

    # --- Judging ---

    def _same_distribution(self, name: str) -> Result:
        """Pearson's test of homogeneity of two rows; cells that expect less than five in a row are joined."""
        test = f"compare.{name}"
        table = self._tables.get(name, np.zeros((2, 1), dtype=np.int64))
        joined = _joined(table)
        degrees = joined.shape[1] - 1
        if degrees < 1:
            return not_applicable(test, "chi-square", "fewer than two categories expect five observations")
        expected = joined.sum(axis=0) / 2
        statistic = float(((joined - expected) ** 2 / expected).sum())
        return _chi_square(test, statistic, degrees, {"observations_of_each": self.items})

    def _same_table(self) -> Result:
        """Compare position by card; each deck holds each card once, which takes the place of some freedom."""
        n, test = self.size, "compare.position-card"
        if self.items < nulls.SMALLEST_EXPECTATION * n:
            return not_applicable(test, "chi-square", "a cell expects fewer than five", {"decks": self.items})
        difference = self._tables["position-card"][0] - self._tables["position-card"][1]
        statistic = (n - 1) / 2 * float((difference.astype(np.float64) ** 2).sum()) / self.items
        return _chi_square(test, statistic, (n - 1) ** 2, {"decks_of_each": self.items})

    def _cross_correlation(self) -> Result:
        test = "compare.cross-correlation"
        if not self._octets:
            return not_applicable(test, "chi-square", f"needs more than {OCTET_LAGS} bytes of each")
        return judge_cross_correlation(test, self._differing, self._octets)

    def _shared_blocks(self) -> Result:
        first, second = RepeatedBlocks(0), RepeatedBlocks(self.items)
        first.load(self._blocks[0].to_state())
        second.load({**self._blocks[1].to_state(), "start": self.items, "end": 2 * self.items})
        first.merge(second)
        (result,) = first.results()
        return _renamed(result, "compare.shared-blocks")

    def _equal_numbers(self) -> Result:
        """Judge how often numbers at the same place, or a few places apart, are equal; all pairs are uncorrelated."""
        chance = 1 / self.size
        equal, pairs = int(self._agreements[1]) + self._lagged, self.items + self._lagged_pairs
        if pairs * chance < nulls.SMALLEST_EXPECTATION:
            return not_applicable("compare.equal-numbers", "normal", "fewer than five equal ones are expected")
        return judge_mean("compare.equal-numbers", equal, pairs, chance, chance * (1 - chance))

    def _shared_decks(self) -> Result:
        test, null = "compare.shared-decks", "Poisson, mean N^2 / n!"
        log_mean = 2 * math.log(max(1, self.items)) - math.lgamma(self.size + 1)
        if log_mean > math.log(LARGEST_EXPECTATION):
            return not_applicable(test, null, "perfect shuffles of so few cards repeat", {"decks": self.items})
        shared = len(self._decks[0] & self._decks[1])
        # The Poisson tail is below its first term times 1 + mean; the mean is next to nothing.
        log_p = 0.0 if shared == 0 else min(0.0, shared * log_mean - math.lgamma(shared + 1))
        return Result(test=test, null=null, statistic=shared, log_p=log_p, details={"decks_of_each": self.items})


def _agreements(first: Items, second: Items) -> NDArray[np.int64]:
    same: NDArray[np.bool_] = np.asarray(first == second)
    counts: NDArray[np.int64] = same.astype(np.int64) if same.ndim == 1 else same.sum(axis=1, dtype=np.int64)
    return counts


def _joined(table: Counts) -> Counts:
    """Join neighbouring cells until each expects five in each row; by the sums of both rows, as the null allows."""
    cells: list[Counts] = []
    open_ = np.zeros(2, dtype=np.int64)
    for column in table.T:
        open_ = open_ + column
        if open_.sum() >= 2 * nulls.SMALLEST_EXPECTATION:
            cells.append(open_)
            open_ = np.zeros(2, dtype=np.int64)
    if cells:
        cells[-1] = cells[-1] + open_
    return np.array(cells, dtype=np.int64).reshape(-1, 2).T


def _chi_square(test: str, statistic: float, degrees: int, details: dict[str, int | float]) -> Result:
    null = f"chi-square, {degrees} degrees of freedom"
    log_p = log_chi_square_tail(statistic, degrees)
    return Result(test=test, null=null, statistic=statistic, log_p=log_p, details=details)


def _renamed(result: Result, test: str) -> Result:
    return Result(
        test=test,
        null=result.null,
        statistic=result.statistic,
        log_p=result.log_p,
        status=result.status,
        reason=result.reason,
        details=result.details,
    )


def _reads_two_samples(_setting: Setting, _start: int) -> NoReturn:
    raise AssertionError("a comparison reads two samples; no accumulator of one does")


def _entry(name: str, kind: Kind, title: str, null: str, source: str) -> Entry:
    return Entry(
        id=f"compare.{name}",
        title=title,
        clauses=("R07", "R08"),
        kind=kind,
        null=null,
        source=source,
        minimal=lambda _setting: 1,
        make=_reads_two_samples,
    )


_TWO_ROWS: Final = "chi-square of two rows (homogeneity)"

ENTRIES: Final[Mapping[str, Entry]] = {
    entry.id: entry
    for entry in (
        _entry("octets", Kind.BITS, "Bytes are as frequent in both", _TWO_ROWS, "Pearson"),
        _entry(
            "cross-correlation",
            Kind.BITS,
            "Bits of one against those of the other, 64 bytes back to 64 ahead",
            "chi-square, 129 degrees of freedom",
            "differences of independent fair bits are fair and uncorrelated",
        ),
        _entry(
            "shared-blocks",
            Kind.BITS,
            "No stretch of bytes comes twice, in one or in both",
            "Poisson, mean far below 1: any repetition is fatal",
            "birthday bound",
        ),
        _entry("numbers", Kind.NUMBERS, "Numbers are as frequent in both", _TWO_ROWS, "Pearson"),
        _entry(
            "equal-numbers",
            Kind.NUMBERS,
            "Numbers at the same place, or up to five places apart, are equal as often as by chance",
            "normal, exact mean and variance",
            "equalities of independent uniform numbers are pairwise independent",
        ),
        _entry(
            "position-card",
            Kind.SHUFFLES,
            "Each card comes as often at each position in both",
            "chi-square, (n-1)^2 degrees of freedom",
            "covariance of the doubly constrained table",
        ),
        _entry("cycles", Kind.SHUFFLES, "As many cycles in both", _TWO_ROWS, "Pearson"),
        _entry("inversions", Kind.SHUFFLES, "As many inversions in both", _TWO_ROWS, "Pearson"),
        _entry("descents", Kind.SHUFFLES, "As many descents in both", _TWO_ROWS, "Pearson"),
        _entry("fixed-points", Kind.SHUFFLES, "As many cards at their own place in both", _TWO_ROWS, "Pearson"),
        _entry(
            "same-place",
            Kind.SHUFFLES,
            "How many cards lie where they lie in the other sample's deck of the same number",
            "chi-square against the exact distribution of fixed points",
            "derangement numbers",
        ),
        _entry(
            "same-place-lags",
            Kind.SHUFFLES,
            "How many cards lie where they lie one to five decks before or after in the other sample",
            "normal, exact mean and variance",
            "agreements of independent decks are pairwise independent",
        ),
        _entry(
            "shared-decks",
            Kind.SHUFFLES,
            "No deck comes in both",
            "Poisson with mean N^2 / n!, which is nil for 52 cards: one is fatal",
            "birthday problem; 128-bit BLAKE2b digests",
        ),
    )
}
