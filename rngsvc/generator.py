"""The generator that seeds every hand: sources, mix, CTR_DRBG, reseeding, and an alarm on its own output.

One process, one state. A fork drops the state in the child, which instantiates its own from fresh entropy before its
first byte; a state cannot be copied or pickled. The first failure is kept: from then on every call fails, in this
process and in its children, until the service has been restarted.
"""

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

from rngsvc.drbg import MOST_BYTES_PER_REQUEST, MOST_REQUESTS_PER_SEED, CtrDrbg
from rngsvc.entropy import (
    ALARM_EXPONENT,
    EntropySource,
    EntropyUnavailable,
    GeneratorFailed,
    HealthTestFailed,
    mix,
)
from rngsvc.health_tests import HealthTests, HealthTestTripped
from rngsvc.self_test import SelfTest, SelfTestFailed, run_self_tests

__all__ = ["EntropyUnavailable", "Generator", "GeneratorFailed", "HealthTestFailed", "SelfTestFailed"]

DEFAULT_RESEED_REQUESTS: Final = 1024
DEFAULT_RESEED_S: Final = 60.0


class Generator:
    """An SP 800-90A CTR_DRBG (AES-256, with derivation function) that keeps itself seeded. Safe to share among threads.

    Figures for metrics, all of this process: `requests` to the DRBG, `reseeds` (the first seeding not counted),
    `bytes` given out, `health_tested` bytes that went through the output alarm, `startup_s` that the start-up tests
    took, and `failure`, the message of what stopped it, None while it runs. Each source counts its own samples.

    Args:
        sources: at least one; each is asked at every seeding, and each must deliver.
        reseed_after_requests: a seed answers so many requests of up to 65,536 bytes, 1 to 2^48.
        reseed_after_s: and serves so long, in seconds, above 0.
        monotonic: a clock in seconds that never goes back.
        more_self_tests: known answers of other parts that must hold before the first byte.

    Raises:
        GeneratorFailed: a self-test, a source or a start-up health test has failed.
        ValueError: a reseed limit is out of range.
    """

    def __init__(
        self,
        sources: Sequence[EntropySource],
        *,
        reseed_after_requests: int = DEFAULT_RESEED_REQUESTS,
        reseed_after_s: float = DEFAULT_RESEED_S,
        monotonic: Callable[[], float] = time.monotonic,
        more_self_tests: Iterable[SelfTest] = (),
    ) -> None:
        if not sources:
            raise EntropyUnavailable("no entropy source is configured")
        if not 1 <= reseed_after_requests <= MOST_REQUESTS_PER_SEED:
            raise ValueError(f"reseed_after_requests: 1 to 2^48 allowed, got {reseed_after_requests}")
        if not reseed_after_s > 0:
            raise ValueError(f"reseed_after_s: above 0 s allowed, got {reseed_after_s}")
        self.sources = tuple(sources)
        self.failure: str | None = None
        self._drbg: CtrDrbg | None
        self._reseed_after_requests = reseed_after_requests
        self._reseed_after_s = reseed_after_s
        self._monotonic = monotonic
        self._more_self_tests = tuple(more_self_tests)
        self._forget()
        with self._own_state():
            pass  # The start-up tests and the first seeding are done now, not under the first hand.
        _living.add(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a generator's state is never copied or sent to another process")

    @property
    def health_tested(self) -> int:
        """Return how many bytes of output have gone through the output alarm."""
        return self._output_tests.samples

    def generate(self, count: int, *, prediction_resistance: bool = False) -> bytes:
        """Return `count` bytes, 1 or more; above 65,536 they come from several requests.

        With `prediction_resistance` fresh entropy is taken in first, so that whoever knew the state knows nothing of
        these bytes.

        Raises:
            GeneratorFailed: now, or earlier in the life of this generator.
            ValueError: `count` is below 1.
        """
        if count < 1:
            raise ValueError(f"count: 1 byte or more allowed, got {count}")
        pieces = []
        with self._own_state() as drbg:
            for start in range(0, count, MOST_BYTES_PER_REQUEST):
                if prediction_resistance or self._reseed_is_due(drbg):
                    self._reseed(drbg)
                pieces.append(self._request(drbg, min(MOST_BYTES_PER_REQUEST, count - start)))
        return b"".join(pieces)

    def reseed(self) -> None:
        """Take in fresh entropy from every source now.

        Raises:
            GeneratorFailed: now, or earlier in the life of this generator.
        """
        with self._own_state() as drbg:
            self._reseed(drbg)

    def self_test(self) -> list[str]:
        """Run the known-answer tests again; return their names.

        Raises:
            GeneratorFailed: a test gave another answer, or the generator had stopped before.
        """
        with self._own_state():
            return run_self_tests(self._more_self_tests)

    @contextmanager
    def _own_state(self) -> Iterator[CtrDrbg]:
        """Hold the state of this process, alone; refuse after a failure, and keep a failure that comes up."""
        if self._pid != os.getpid():
            self._forget()  # A fork that Python did not make, and so did not tell of.
        with self._lock:
            if self.failure is not None:
                raise GeneratorFailed(f"the generator has stopped: {self.failure}")
            try:
                if self._drbg is None:
                    self._drbg = self._instantiate()
                yield self._drbg
            except Exception as failure:
                # Text only: the exception holds frames, and frames hold entropy. Of an error that nobody foresaw not
                # even its message is known to be harmless.
                self.failure = str(failure) if isinstance(failure, GeneratorFailed) else type(failure).__name__
                raise

    def _forget(self) -> None:
        """Begin without a state: at the start, and in a child after a fork."""
        self._pid = os.getpid()
        self._lock = threading.Lock()  # The old one may have been held by a thread that this process does not have.
        self._drbg = None
        self._seeded_at = 0.0
        # On output the tests are no measure of entropy: they notice a generator that has got stuck.
        self._output_tests = HealthTests(min_entropy=8, alarm_exponent=ALARM_EXPONENT)
        self.requests = self.reseeds = self.bytes = 0
        self.startup_s = 0.0

    def _instantiate(self) -> CtrDrbg:
        started_at = self._monotonic()
        run_self_tests(self._more_self_tests)
        for source in self.sources:
            source.start()
        seed = self._gather()
        drbg = CtrDrbg(seed[:48], seed[48:], _personalisation())
        self._seeded_at = self._monotonic()
        self.startup_s = self._seeded_at - started_at
        return drbg

    def _gather(self) -> bytes:
        return mix([(source.name, source.gather()) for source in self.sources])

    def _reseed(self, drbg: CtrDrbg) -> None:
        drbg.reseed(self._gather())
        self._seeded_at = self._monotonic()
        self.reseeds += 1

    def _reseed_is_due(self, drbg: CtrDrbg) -> bool:
        return (
            drbg.requests_since_seed >= self._reseed_after_requests
            or self._monotonic() - self._seeded_at >= self._reseed_after_s
        )

    def _request(self, drbg: CtrDrbg, n: int) -> bytes:
        output = drbg.generate(n)
        try:
            self._output_tests.feed(output)
        except HealthTestTripped as tripped:
            raise HealthTestFailed(f"output of the generator: {tripped}") from tripped
        self.requests += 1
        self.bytes += n
        return output


def _personalisation() -> bytes:
    """Return what sets this instance apart, even from one that would be given the same entropy (SP 800-90A, 8.7.1)."""
    return b"rngsvc/generator/1" + os.getpid().to_bytes(8) + time.time_ns().to_bytes(8) + secrets.token_bytes(16)


_living: "weakref.WeakSet[Generator]" = weakref.WeakSet()


def _forget_in_child() -> None:
    for generator in _living:
        generator._forget()  # noqa: SLF001 - the other half of the class, which os.register_at_fork wants as a function


os.register_at_fork(after_in_child=_forget_in_child)
