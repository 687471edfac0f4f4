"""What a sample could have shown, and what no sample can.

"Passed" without a word on power is no evidence: a bias below what is said here would not have been seen.
"""

import math
from typing import Any, Final

from scipy import special

from stats_tests.catalogue import Kind, Setting

POWER: Final = 0.99

LIMITS: Final = (
    "Statistics can show a fault; they cannot prove that a sequence is unpredictable.",
    "A generator whose key is known passes every test here.",
    "A bias smaller than the power statement says would not have been seen.",
    "Biased scaling of words of 24 bits and more cannot be seen in any sample.",
    "Only reading the code and exhausting small word sizes shows that scaling has no bias.",
    "SP 800-22 is no criterion for cryptographic generators (NIST, 2022). It is run because it is asked for.",
    "A shuffler with few seeds shows only by repeated decks: k decks show a seed of up to about 2 log2(k) bits.",
)


def smallest_excess(degrees: float, alpha: float, power: float = POWER) -> float:
    """Return the noncentrality that a chi-square test at `alpha` sees with chance `power`."""
    critical = float(special.chdtri(degrees, alpha))
    return float(special.chndtrinc(critical, degrees, 1 - power))


def degrees_and_scale(setting: Setting) -> tuple[float, float, str]:
    """Return the leading test's degrees of freedom, its noncentrality for one item and unit bias, and its name.

    Noncentrality = items x scale x (relative bias)^2, the bias being the root mean square over cells.
    """
    match setting.kind:
        case Kind.SHUFFLES:
            n = setting.size
            return float((n - 1) ** 2), float(n - 1), "shuffles.position-card/table"
        case Kind.NUMBERS:
            cells = min(setting.size, 4096)
            return float(cells - 1), 1.0, "numbers.frequency/chi-square"
        case Kind.BITS:
            # An item is eight bits; relative bias of the frequency of ones about one half.
            return 1.0, 8.0, "bits.sp800-22.frequency"


def smallest_bias(setting: Setting, items: int, alpha: float, power: float = POWER) -> float:
    """Return the root-mean-square relative bias of the cells that `items` show with chance `power` at `alpha`."""
    degrees, scale, _ = degrees_and_scale(setting)
    return math.sqrt(smallest_excess(degrees, alpha, power) / (items * scale))


def items_to_detect(setting: Setting, bias: float, alpha: float, power: float = POWER) -> int:
    """Return how many items show a root-mean-square relative bias of `bias`."""
    degrees, scale, _ = degrees_and_scale(setting)
    return math.ceil(smallest_excess(degrees, alpha, power) / (bias * bias * scale))


def statement(setting: Setting, items: int, alpha: float, hypotheses: int) -> dict[str, Any]:
    """Return the power statement of a campaign: what its leading test could see at the share of alpha it has."""
    degrees, _, test = degrees_and_scale(setting)
    share = alpha / max(1, hypotheses)
    curve = [[items * 4**k // 16, smallest_bias(setting, max(1, items * 4**k // 16), share)] for k in range(5)]
    return {
        "test": test,
        "alpha": share,
        "power": POWER,
        "degrees_of_freedom": degrees,
        "smallest_rms_relative_bias": smallest_bias(setting, max(1, items), share),
        "curve": curve,
    }
