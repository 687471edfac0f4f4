"""B4, B8b and B8c: shuffling and testing decks by NumPy.

B4: step 4's byte rule over a matrix of DRBG bytes, and the full derivation of each deck with it, against
`random.SystemRandom().shuffle` of 52 cards. B8b: all deck tests together, decks a CPU second. B8c: the memory of a run
of 10^5 and 10^6 decks (PROVE=1: 10^7 too), and 64 shards joined to the bytes of one run.
"""

import io
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.ratio import Bar
from rngsvc.protocol.derivation import byte_stream, hkdf_sha512
from rngsvc.protocol.octets import sha256, u16
from stats_tests.battery import Battery, plan_for
from stats_tests.byte_rule import ample_row, shuffle_rows
from stats_tests.catalogue import Kind
from stats_tests.samples import GeneratorSource, generator_named
from stats_tests.tally import Tally, merge_all, tally_stretch

ROUNDS = 5
DECKS = int(os.environ.get("DECKS", "200000"))
N = 52
MEMORY_SIZES = (10**5, 10**6, *((10**7,) if os.environ.get("PROVE") == "1" else ()))


def cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def shuffle_by_system_random(decks: int) -> None:
    source = random.SystemRandom()
    for _ in range(decks):
        source.shuffle(list(range(N)))


def derive(decks: int) -> None:
    """Each deck from its own 48-byte seed, as the service derives it, but step 4's draws for all at once."""
    info = b"rs1/shuffle" + u16(0) + u16(N) + sha256(b"".join(u16(item) for item in range(N)))
    length = ample_row(N) // 2
    rows = bytearray()
    for number in range(decks):
        seed = number.to_bytes(48, "big")
        rows += byte_stream(hkdf_sha512(seed, bytes(32), info, 48), length)
    shuffle_rows(np.frombuffer(rows, dtype=np.uint8).reshape(decks, length), N)


def by_rule_and_by_derivation(rounds: int) -> list[tuple[float, float, float]]:
    """Return CPU seconds a deck, by SystemRandom, by the byte rule and by the full derivation, for each round."""
    rows = np.frombuffer(os.urandom(100_000 * 80), dtype=np.uint8).reshape(-1, 80)
    shuffle_rows(rows[:1000], N)
    return [
        (
            cpu_seconds(lambda: shuffle_by_system_random(2000)) / 2000,
            cpu_seconds(lambda: shuffle_rows(rows, N)) / len(rows),
            cpu_seconds(lambda: derive(2000)) / 2000,
        )
        for _ in range(rounds)
    ]


def b4() -> None:
    rounds = by_rule_and_by_derivation(ROUNDS)
    floor, rule, whole = rounds[-1]
    detail = f"{1 / rule:,.0f} decks/CPU-s by the rule, {1 / whole:,.0f} derived, {1 / floor:,.0f} by SystemRandom"
    by_rule = Bar("B4", "step 4's byte rule for many decks / SystemRandom().shuffle", 60, 100)
    by_rule.report([floor / rule for floor, rule, _ in rounds], detail)
    derived = Bar("B4", "full derivation of each deck / SystemRandom().shuffle", 3, 6)
    derived.report([floor / whole for floor, _, whole in rounds], detail)


def decks_a_cpu_second(decks: int, rounds: int) -> list[float]:
    """Return how many decks all deck tests together take in a CPU second, for each round."""
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, N)
    chunks = list(GeneratorSource(generator_named("good"), Kind.SHUFFLES, N, seed=1).items(0, decks))

    def test() -> None:
        tally = Tally(plan)
        for chunk in chunks:
            tally.update(chunk)
        tally.results()

    return [decks / cpu_seconds(test) for _ in range(rounds)]


def b8b() -> None:
    detail = f"all deck tests on {DECKS} decks of {N}, sample digest included; NumPy alone"
    bar = Bar("B8b", "all deck tests together, decks a CPU second", 25_000, 200_000)
    bar.report(decks_a_cpu_second(DECKS, 3), detail)


CHILD = """
import resource, sys
from benchmarks.stats_decks import tallied
tallied(int(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def tallied(decks: int) -> Tally:
    """Count decks, without the one test whose memory is the disk."""
    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, N)
    kept = type(plan)(
        plan.battery, plan.setting, tuple(t for t in plan.tests if t != "shuffles.duplicates"), plan.least
    )
    source = GeneratorSource(generator_named("good"), Kind.SHUFFLES, N, seed=1)
    return tally_stretch(kept, source, 0, decks)


def peak_mib(decks: int) -> int:
    """Return the peak memory of a process that tests so many decks."""
    child = [sys.executable, "-c", CHILD, str(decks)]
    return int(subprocess.run(child, capture_output=True, check=True, text=True).stdout)


def b8c() -> None:
    peaks = [peak_mib(size) for size in MEMORY_SIZES]
    grown = ", ".join(f"{size:.0e} decks {peak} MiB" for size, peak in zip(MEMORY_SIZES, peaks, strict=True))
    print("B8c  memory is flat in the size of the sample")
    print(
        f"    largest / smallest {max(peaks) / min(peaks):.3f}   bar 1.05   "
        f"{'reached' if max(peaks) <= 1.05 * min(peaks) else 'MISSED'}"
    )
    print(f"    {grown}")

    plan = plan_for(Battery.SMOKE, Kind.SHUFFLES, N)
    source = GeneratorSource(generator_named("good"), Kind.SHUFFLES, N, seed=1)
    decks = 64 * 500
    shards = [tally_stretch(plan, source, at, at + 500) for at in range(0, decks, 500)]
    whole, joined = io.BytesIO(), io.BytesIO()
    tally_stretch(plan, source, 0, decks).write(whole)
    begin = time.process_time()
    merge_all(shards).write(joined)
    same = whole.getvalue() == joined.getvalue()
    print(
        f"B8c  64 shards joined: {'the bytes of one run' if same else 'OTHER BYTES'}, "
        f"{time.process_time() - begin:.2f} CPU s"
    )


def main() -> None:
    b4()
    b8b()
    b8c()


if __name__ == "__main__":
    main()
