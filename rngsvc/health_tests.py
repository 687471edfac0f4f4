"""The continuous health tests of NIST SP 800-90B, section 4.4: repetition count and adaptive proportion.

Each test sees a stream of byte samples, keeps its state between calls, and raises as soon as a count reaches its
cutoff. Cutoffs follow from H, the least min-entropy of one sample in bits, and a: 2^-a is the chance of a false alarm.

Pure: what is tested, and what follows from an alarm, is decided by the caller.
"""

from fractions import Fraction
from functools import cache
from math import ceil, comb
from typing import Final

WINDOW: Final = 512
"""Samples in a window of the adaptive proportion test; 1,024 where a sample is one bit (SP 800-90B, 4.4.2)."""


class HealthTestTripped(Exception):
    """A health test has reached its cutoff: the samples do not look as their entropy claim says."""


def repetition_cutoff(min_entropy: float, alarm_exponent: int) -> int:
    """Return C = 1 + ceil(a / H): so many equal samples in a row raise the alarm (SP 800-90B, 4.4.1).

    Args:
        min_entropy: H, bits a sample, above 0.
        alarm_exponent: a, where a row of C samples from such a source comes up with a chance of at most 2^-a.
    """
    return 1 + ceil(Fraction(alarm_exponent) / Fraction(min_entropy))


@cache
def proportion_cutoff(min_entropy: float, alarm_exponent: int, window: int = WINDOW) -> int:
    """Return C = 1 + critbinom(W, 2^-H, 1 - 2^-a): so many in a window raise the alarm (SP 800-90B, 4.4.2).

    Computed in exact integers, because the tail wanted is far smaller than what rounding leaves of 1 - 2^-a.
    """
    p = Fraction(2.0**-min_entropy)
    hit, miss = p.numerator, p.denominator - p.numerator
    # Terms of the binomial from the top, all over denominator^W. Critical is the least k with P(X > k) <= 2^-a.
    allowed = Fraction(p.denominator**window, 2**alarm_exponent)
    tail, k = 0, window
    while True:
        tail += comb(window, k) * hit**k * miss ** (window - k)
        if tail > allowed:
            return 1 + k
        k -= 1


class RepetitionCount:
    """The repetition count test: `cutoff` equal samples in a row raise the alarm."""

    def __init__(self, cutoff: int) -> None:
        self.cutoff = cutoff
        self._last = b""
        self._row = 0

    def feed(self, samples: bytes) -> None:
        """Take the next samples of the stream, one a byte.

        Raises:
            HealthTestTripped: a row of equal samples has reached the cutoff, also one that began in an earlier call.
        """
        if not samples:
            return
        stream = self._last * self._row + samples
        # Byte i of the difference is 0 where samples i and i+1 are equal: a row of C samples leaves C-1 zeros. A loop
        # over the samples says the same but takes far longer, and all output of the generator passes through here.
        equal = (int.from_bytes(stream[1:]) ^ int.from_bytes(stream[:-1])).to_bytes(len(stream) - 1)
        if bytes(self.cutoff - 1) in equal:
            raise HealthTestTripped(f"repetition count: {self.cutoff} equal samples in a row")
        self._last = stream[-1:]
        self._row = len(stream) - len(stream.rstrip(self._last))


class AdaptiveProportion:
    """The adaptive proportion test: `cutoff` samples of a window equal to its first raise the alarm."""

    def __init__(self, cutoff: int, window: int = WINDOW) -> None:
        self.cutoff = cutoff
        self.window = window
        self._first = b""
        self._count = 0
        self._seen = 0

    def feed(self, samples: bytes) -> None:
        """Take the next samples of the stream, one a byte.

        Raises:
            HealthTestTripped: the first sample of a window has come up `cutoff` times in it, itself included.
        """
        at = 0
        while at < len(samples):
            if self._seen == 0:
                self._first, self._count = samples[at : at + 1], 0
            end = min(at + self.window - self._seen, len(samples))
            self._count += samples.count(self._first, at, end)
            if self._count >= self.cutoff:
                raise HealthTestTripped(
                    f"adaptive proportion: one value {self.cutoff} times in a window of {self.window} samples"
                )
            self._seen = (self._seen + end - at) % self.window
            at = end


class HealthTests:
    """Both tests on one stream of samples.

    Args:
        min_entropy: H, the least min-entropy of one sample in bits, above 0, at most 8.
        alarm_exponent: a; a false alarm of either test has a chance of 2^-a a sample or window.
    """

    def __init__(self, min_entropy: float, alarm_exponent: int) -> None:
        if not 0 < min_entropy <= 8:
            raise ValueError(f"min_entropy: above 0, at most 8 bits a byte allowed, got {min_entropy}")
        self.samples = 0
        self._repetition = RepetitionCount(repetition_cutoff(min_entropy, alarm_exponent))
        self._proportion = AdaptiveProportion(proportion_cutoff(min_entropy, alarm_exponent))

    def feed(self, samples: bytes) -> None:
        """Take the next samples of the stream, one a byte.

        Raises:
            HealthTestTripped: either test has reached its cutoff.
        """
        self.samples += len(samples)
        self._repetition.feed(samples)
        self._proportion.feed(samples)
