"""SP 800-22, 2.6 Discrete Fourier Transform (Spectral)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from scipy import fft

from stats_tests.bits.per_sequence import WHOLE
from stats_tests.bits.sequence import Sequence
from stats_tests.catalogue import Mode
from stats_tests.nulls import log_two_sided_normal
from stats_tests.result import Result
from stats_tests.windows import Counts

SHARE: Final = 0.05
NIST_THRESHOLD: Final = 2.995732274
"""ln 20 as NIST's code has it."""
NIST_DIVISOR: Final = 4.0


@dataclass(frozen=True, slots=True)
class Spectral:
    """Does any frequency stand out?

    N1 counts the frequencies 0 .. n/2 - 1 whose power lies below n ln 20, as 95 % of exponential variables do.
    The powers are not independent: their sum is n^2 whatever the bits (Parseval), which takes from the variance
    n/2 p (1 - p) of independent ones the share that goes with the sum, n/2 (p ln p)^2, p = 0.05. That is the variance
    n p (1 - p) / 3.790 of Iwasaki (arXiv:1806.10357); NIST's divisor 4 makes small P-values too frequent.
    The power at frequency 0 is that of a normal, not of an exponential variable, so its share below differs.
    """

    n: int
    mode: Mode
    threshold: float = NIST_THRESHOLD
    divisor: float = NIST_DIVISOR

    id: ClassVar = "bits.sp800-22.spectral"
    parts: ClassVar = WHOLE
    cells: ClassVar = 1

    def observe(self, sequence: Sequence) -> Counts:
        """Count the frequencies below the threshold."""
        threshold = self.threshold if self.mode is Mode.NIST_COMPAT else -math.log(SHARE)
        spectrum = fft.rfft(2.0 * sequence.bits - 1)[: self.n // 2]
        # Double precision: single would misplace a frequency near the threshold in one sequence of 10^6 bits in ten.
        power = spectrum.real**2 + spectrum.imag**2
        return np.array([np.count_nonzero(power < threshold * self.n)])

    def judge(self, counts: Counts, sequences: int) -> tuple[Result, ...]:
        """Judge the number of frequencies below the threshold."""
        below = int(counts[0])
        if self.mode is Mode.NIST_COMPAT:
            mean, variance = (1 - SHARE) * self.n / 2, SHARE * (1 - SHARE) * self.n / self.divisor
        else:
            at_zero = math.erf(math.sqrt(-math.log(SHARE) / 2))
            mean = (1 - SHARE) * (self.n // 2 - 1) + at_zero
            variance = self.n / 2 * (SHARE * (1 - SHARE) - (SHARE * math.log(SHARE)) ** 2)
        z = (below - mean * sequences) / math.sqrt(variance * sequences)
        null = f"normal, mean {mean * sequences:.6g}, variance {variance * sequences:.6g}"
        details = {"below": below, "frequencies": self.n // 2 * sequences}
        return (Result(test=self.id, null=null, statistic=z, log_p=log_two_sided_normal(z), details=details),)
