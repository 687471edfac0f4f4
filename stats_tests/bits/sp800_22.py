"""The fifteen tests of SP 800-22 as entries of the catalogue."""

from collections.abc import Callable
from typing import Final

import numpy as np

from stats_tests.accumulator import Accumulator
from stats_tests.bits.frequency import BLOCK, BlockFrequency, Frequency
from stats_tests.bits.linear_complexity import BLOCK as COMPLEXITY_BLOCK
from stats_tests.bits.linear_complexity import LinearComplexity
from stats_tests.bits.matrix_rank import SIDE, MatrixRank
from stats_tests.bits.patterns import ENTROPY_BITS, SERIAL_BITS, ApproximateEntropy, Serial
from stats_tests.bits.per_sequence import STS, EachSequence, SecondLevel, SequenceTest, whole_sequences
from stats_tests.bits.runs import LongestRun, Runs
from stats_tests.bits.spectral import Spectral
from stats_tests.bits.templates import BLOCKS, OVERLAPPING_BLOCK, TEMPLATE_BITS, NonOverlapping, Overlapping
from stats_tests.bits.universal import FROM_BITS, Universal
from stats_tests.bits.walk import FEWEST_CYCLES, CumulativeSums, RandomExcursions, RandomExcursionsVariant
from stats_tests.catalogue import Entry, Kind, Mode, Setting
from stats_tests.windows import WindowCounts

TESTS_OF_ONE_SUM: Final = (Frequency, Runs, Spectral, Universal)


def _entry(
    make_test: Callable[[int, Mode], SequenceTest],
    title: str,
    clauses: tuple[str, ...],
    fewest_bits: int,
    null: str,
    source: str,
    parameters: dict[str, int] | None = None,
) -> Entry:
    def make(setting: Setting, start: int) -> Accumulator:
        test = make_test(setting.size, setting.mode)
        if setting.mode is Mode.NIST_COMPAT:
            test = SecondLevel(test)
        elif make_test in TESTS_OF_ONE_SUM:
            test = EachSequence(test)
        return WindowCounts(whole_sequences(test, setting.size), start, np.uint8)

    def objection(setting: Setting) -> str | None:
        if setting.size >= fewest_bits:
            return None
        return f"sequences of {setting.size} bits are too short: {fewest_bits} needed"

    return Entry(
        id=make_test(max(fewest_bits, 128), Mode.CORRECTED).id,
        title=title,
        clauses=(*clauses, "R17", "R25"),
        kind=Kind.BITS,
        null=null,
        source=source,
        minimal=lambda setting: setting.size // 8,
        make=make,
        parameters=parameters or {},
        objection=objection,
    )


# The bits below which SP 800-22 does not want a test used are those of its "input size recommendation" paragraphs.
SP800_22: Final = (
    _entry(
        Frequency,
        "As many ones as zeros",
        ("R02", "R06"),
        100,
        "binomial, exact",
        f"{STS}, 2.1; binomial distribution",
    ),
    _entry(
        BlockFrequency,
        "As many ones as zeros in every block",
        ("R02",),
        max(100, BLOCK),
        "chi-square scaled to the exact mean and variance",
        f"{STS}, 2.2; moments of the binomial distribution",
        {"block_bits": BLOCK},
    ),
    _entry(
        Runs,
        "Zeros and ones change as often as they should",
        ("R02", "R03", "R06"),
        100,
        "binomial, exact",
        f"{STS}, 2.3; changes of neighbouring fair bits are independent",
    ),
    _entry(
        LongestRun,
        "The longest run of ones in a block",
        ("R02", "R03"),
        128,
        "chi-square of categories with exact probabilities",
        f"{STS}, 2.4; probabilities by recurrence",
    ),
    _entry(
        MatrixRank,
        "Ranks of 32 x 32 matrices",
        ("R02",),
        38 * SIDE * SIDE,
        "chi-square of categories with exact probabilities, 2 degrees of freedom",
        f"{STS}, 2.5 and 3.5",
        {"side": SIDE},
    ),
    _entry(
        Spectral,
        "No frequency stands out",
        ("R02", "R04"),
        1000,
        "normal with the variance that Parseval's theorem leaves",
        f"{STS}, 2.6; Iwasaki, arXiv:1806.10357",
    ),
    _entry(
        NonOverlapping,
        "Aperiodic words of nine bits",
        ("R02", "R03"),
        10**6,
        "chi-square, 8 degrees of freedom a sequence, exact mean and variance",
        f"{STS}, 2.7",
        {"template_bits": TEMPLATE_BITS, "blocks": BLOCKS},
    ),
    _entry(
        Overlapping,
        "Overlapping runs of nine ones",
        ("R02", "R03"),
        10**6,
        "chi-square of categories with exact probabilities, 5 degrees of freedom",
        f"{STS}, 2.8; probabilities by Markov chain",
        {"template_bits": TEMPLATE_BITS, "block_bits": OVERLAPPING_BLOCK},
    ),
    _entry(
        Universal,
        "Equal blocks are as far apart as they should be",
        ("R02", "R11"),
        FROM_BITS[0],
        "normal with exact mean and variance",
        f"{STS}, 2.9; Coron and Naccache, An accurate evaluation of Maurer's universal test, 1998",
    ),
    _entry(
        LinearComplexity,
        "Shortest feedback registers of blocks",
        ("R02", "R12"),
        10**6,
        "chi-square of categories with exact probabilities, 6 degrees of freedom",
        f"{STS}, 2.10; number of words of each linear complexity",
        {"block_bits": COMPLEXITY_BLOCK},
    ),
    _entry(
        Serial,
        "All overlapping words of sixteen bits",
        ("R02", "R03"),
        1 << SERIAL_BITS + 3,
        "chi-square, 2^15 and 2^14 degrees of freedom a sequence",
        f"{STS}, 2.11; Good, 1953",
        {"word_bits": SERIAL_BITS},
    ),
    _entry(
        ApproximateEntropy,
        "A word of ten bits leaves the next bit open",
        ("R02",),
        1 << ENTROPY_BITS + 6,
        "chi-square, 2^10 degrees of freedom a sequence",
        f"{STS}, 2.12; Rukhin, 2000",
        {"word_bits": ENTROPY_BITS},
    ),
    _entry(
        CumulativeSums,
        "The walk of ones and zeros does not stray too far",
        ("R02",),
        100,
        "greatest distance of a walk, exact; several sequences: Fisher's method",
        f"{STS}, 2.13; reflection principle",
    ),
    _entry(
        RandomExcursions,
        "Visits to states -4 .. 4 in the cycles of the walk",
        ("R02",),
        10**6,
        "chi-square of categories with exact probabilities, 5 degrees of freedom",
        f"{STS}, 2.14 and 3.14",
        {"fewest_cycles": FEWEST_CYCLES},
    ),
    _entry(
        RandomExcursionsVariant,
        "Visits to states -9 .. 9 of the walk",
        ("R02",),
        10**6,
        "normal",
        f"{STS}, 2.15",
        {"fewest_cycles": FEWEST_CYCLES},
    ),
)
