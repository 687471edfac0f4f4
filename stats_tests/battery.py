"""Which tests make up which battery, and the plan of a run, fixed before the data are read.

To add a test: one module in `bits/`, `numbers/` or `shuffles/`, one line here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from stats_tests import bits, numbers, shuffles
from stats_tests.catalogue import LARGEST, Entry, Kind, Mode, Setting
from stats_tests.p_values import ALPHA, CERTAIN, SECOND_READING

CATALOGUE: Final[Mapping[str, Entry]] = {
    entry.id: entry for entry in (*bits.ENTRIES, *numbers.ENTRIES, *shuffles.ENTRIES)
}

SEQUENCE_BITS: Final = 10**6
ESCALATION_FACTOR: Final = 4

SHUFFLES: Final = (
    "shuffles.position-card",
    "shuffles.subsequences",
    "shuffles.adjacency",
    "shuffles.position-pairs",
    "shuffles.fixed-points",
    "shuffles.cycles",
    "shuffles.inversions",
    "shuffles.descents",
    "shuffles.rising-sequences",
    "shuffles.increasing-subsequence",
    "shuffles.serial-correlation",
    "shuffles.deck-to-deck",
    "shuffles.overlaps",
    "shuffles.hands-of-5",
    "shuffles.hands-of-7",
    "shuffles.top-card-gaps",
    "shuffles.top-card-runs",
    "shuffles.top-card-serial-correlation",
    "shuffles.top-card-poker",
    "shuffles.top-card-coupon-collector",
    "shuffles.top-card-permutation",
    "shuffles.top-card-order-statistics",
    "shuffles.top-card-runs-up",
    "shuffles.duplicates",
)

NUMBERS: Final = (
    "numbers.frequency",
    "numbers.equidistribution",
    "numbers.subsequences",
    "numbers.poisson",
    "numbers.serial-pairs",
    "numbers.interplay",
    "numbers.overlaps",
    "numbers.gaps",
    "numbers.runs",
    "numbers.serial-correlation",
    "numbers.poker",
    "numbers.coupon-collector",
    "numbers.permutation",
    "numbers.order-statistics",
    "numbers.runs-up",
    "numbers.collisions",
    "numbers.birthday-spacings",
)

SP800_22: Final = (
    "bits.sp800-22.frequency",
    "bits.sp800-22.block-frequency",
    "bits.sp800-22.runs",
    "bits.sp800-22.longest-run",
    "bits.sp800-22.rank",
    "bits.sp800-22.spectral",
    "bits.sp800-22.non-overlapping",
    "bits.sp800-22.overlapping",
    "bits.sp800-22.universal",
    "bits.sp800-22.linear-complexity",
    "bits.sp800-22.serial",
    "bits.sp800-22.approximate-entropy",
    "bits.sp800-22.cumulative-sums",
    "bits.sp800-22.random-excursions",
    "bits.sp800-22.random-excursions-variant",
)

STRUCTURE: Final = (
    "bits.structure.lane-complexity",
    "bits.structure.large-rank",
    "bits.structure.birthday-spacings",
    "bits.structure.collisions",
    "bits.structure.autocorrelation",
    "bits.structure.repeated-blocks",
)

HEALTH: Final = (
    "bits.health.repetition-count",
    "bits.health.adaptive-proportion",
    "bits.health.min-entropy",
)

AIS_31: Final = (
    "bits.ais-31.t0-disjointness",
    "bits.ais-31.t1-monobit",
    "bits.ais-31.t2-poker",
    "bits.ais-31.t3-runs",
    "bits.ais-31.t4-long-run",
    "bits.ais-31.t5-autocorrelation",
    "bits.ais-31.t6-uniform-distribution/1-bit",
    "bits.ais-31.t6-uniform-distribution/2-bit",
    "bits.ais-31.t7-homogeneity/2-before",
    "bits.ais-31.t7-homogeneity/3-before",
    "bits.ais-31.t8-entropy",
)

ALL: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.BITS: (*SP800_22, *STRUCTURE, *HEALTH, *AIS_31),
    Kind.NUMBERS: NUMBERS,
    Kind.SHUFFLES: SHUFFLES,
}


class Battery(StrEnum):
    """A named choice of tests and sample sizes."""

    SMOKE = "smoke"
    DAILY = "daily"
    CERTIFICATION = "certification"
    SP800_22 = "sp800-22"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a battery needs and draws, in items: bytes, numbers or decks.

    Attributes:
        least: with fewer it does not judge.
        drawn: what it draws from a source that gives as much as one likes.
    """

    least: int
    drawn: int


EXTENTS: Final[Mapping[Battery, Mapping[Kind, Extent]]] = {
    Battery.SMOKE: {
        Kind.BITS: Extent(10**6 // 8, 10**7 // 8),
        Kind.NUMBERS: Extent(10**4, 10**6),
        Kind.SHUFFLES: Extent(10**4, 10**5),
    },
    Battery.DAILY: {
        Kind.BITS: Extent(10**7 // 8, 10**8 // 8),
        Kind.NUMBERS: Extent(10**5, 10**7),
        Kind.SHUFFLES: Extent(10**5, 10**6),
    },
    Battery.CERTIFICATION: {
        Kind.BITS: Extent(10**8 // 8, 10**9),
        Kind.NUMBERS: Extent(10**6, 10**8),
        Kind.SHUFFLES: Extent(10**6, 10**7),
    },
    Battery.SP800_22: {Kind.BITS: Extent(SEQUENCE_BITS // 8, 100 * SEQUENCE_BITS // 8)},
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done with a sample, before any of it is read.

    Attributes:
        battery: the battery's name.
        setting: the shape of the sample.
        tests: ids of the tests, in order; those that do not suit the setting are reported as not applicable.
        least: items below which nothing is judged.
    """

    battery: Battery
    setting: Setting
    tests: tuple[str, ...]
    least: int

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The tests' entries."""
        return tuple(CATALOGUE[test] for test in self.tests)

    @property
    def applicable(self) -> tuple[Entry, ...]:
        """The entries to which the setting gives no objection."""
        return tuple(entry for entry in self.entries if entry.objection(self.setting) is None)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is printed and reported."""
        return {
            "battery": str(self.battery),
            "kind": str(self.setting.kind),
            "size": self.setting.size,
            "mode": str(self.setting.mode),
            "least_items": self.least,
            "tests": [
                {
                    "id": entry.id,
                    "primary": entry.primary,
                    "clauses": list(entry.clauses),
                    "null": entry.null,
                    "source": entry.source,
                    "parameters": dict(entry.parameters),
                    "least_items": entry.minimal(self.setting) if entry.objection(self.setting) is None else 0,
                    "not_applicable": entry.objection(self.setting) or "",
                }
                for entry in self.entries
            ],
            "decision": {
                "rule": "Holm over all primary results; family-wise significance as given",
                "alpha": ALPHA,
                "second_reading_alpha": SECOND_READING,
                "fails_at_once_below": CERTAIN,
                "escalation": (
                    f"an adjusted P-value from {CERTAIN} to {ALPHA}: a source that can be drawn again gives one fresh "
                    f"sample of {ESCALATION_FACTOR} times the size, judged alone; any other source fails"
                ),
            },
        }


def plan_for(battery: Battery, kind: Kind, size: int, mode: Mode = Mode.CORRECTED) -> Plan:
    """Return the plan of a battery for a kind of sample.

    Args:
        battery: which.
        kind: what the items are.
        size: deck size or range; of no effect for bits, which are cut into sequences of 10^6.
        mode: constants of the SP 800-22 tests.

    Raises:
        ValueError: the battery does not take this kind or size, or the mode may not decide in it.
    """
    extents = EXTENTS[battery]
    if kind not in extents:
        raise ValueError(f"battery {battery} takes {' and '.join(map(str, extents))}, not {kind}")
    if mode is not Mode.CORRECTED and battery is not Battery.SP800_22:
        raise ValueError(f"mode {mode} has known errors and is for comparison only: battery {Battery.SP800_22}")
    if kind is Kind.BITS:
        size = SEQUENCE_BITS
    elif not 2 <= size <= LARGEST[kind]:
        raise ValueError(f"{kind} of size {size}: must be 2..{LARGEST[kind]}")
    tests = SP800_22 if battery is Battery.SP800_22 else ALL[kind]
    return Plan(battery, Setting(kind, size, mode), tests, extents[kind].least)
