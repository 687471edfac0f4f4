"""B8a: SP 800-22 on sequences of 10^6 bits, one core, against PyPI's sp80022suite (C) on its fourteen tests.

Both see the same sequences in the same run and are timed by CPU, the package as the battery runs it: packed bytes in,
an entry's accumulator, results out. The fifteenth test (148 non-overlapping templates), which the peer cannot run, and
the sum over all fifteen are printed beside.
"""

import os
import time
from collections.abc import Callable
from typing import Final

# Before NumPy is loaded: one core means one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import sp80022suite
from numpy.typing import NDArray

from stats_tests.bits.sp800_22 import SP800_22
from stats_tests.catalogue import Entry, Kind, Setting

BITS: Final = 10**6
BAR: Final = 1.5
STRETCH: Final = 8.0

PEER: Final[dict[str, Callable[[bytes], float]]] = {
    "frequency": sp80022suite.frequency,
    "block-frequency": lambda bits: sp80022suite.block_frequency(128, bits),
    "runs": sp80022suite.runs,
    "longest-run": sp80022suite.longest_run_of_ones,
    "rank": sp80022suite.rank,
    "spectral": sp80022suite.discrete_fourier_transform,
    "overlapping": lambda bits: sp80022suite.overlapping_template_matchings(9, bits),
    "universal": sp80022suite.universal,
    "linear-complexity": lambda bits: sp80022suite.linear_complexity(500, bits),
    "serial": lambda bits: sp80022suite.serial(16, bits),
    "approximate-entropy": lambda bits: sp80022suite.approximate_entropy(10, bits),
    "cumulative-sums": sp80022suite.cumulative_sums,
    "random-excursions": sp80022suite.random_excursions,
    "random-excursions-variant": sp80022suite.random_excursions_variant,
}


def _ours(entry: Entry, octets: NDArray[np.uint8]) -> None:
    accumulator = entry.make(Setting(Kind.BITS, BITS), 0)
    accumulator.update(octets)
    accumulator.results()


def _theirs(peer: Callable[[bytes], float], bits: list[bytes]) -> None:
    for sequence in bits:
        try:
            peer(sequence)
        except ValueError:  # too few cycles for the excursions
            continue


def _cpu_seconds(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(sequences: int) -> list[tuple[str, float, float | None]]:
    """Return (test, our CPU seconds a sequence, the peer's or None) for every test."""
    octets = np.random.default_rng(20260101).integers(0, 256, sequences * BITS // 8, dtype=np.uint8)
    # The peer takes one bit a byte; its input is made before its clock runs, ours is unpacked on ours.
    bits = [np.unpackbits(row).tobytes() for row in octets.reshape(sequences, -1)]
    rows: list[tuple[str, float, float | None]] = []
    for entry in SP800_22:
        name = entry.id.removeprefix("bits.sp800-22.")
        _ours(entry, octets[: BITS // 8])  # exact null distributions are computed once a process
        ours = _cpu_seconds(lambda entry=entry: _ours(entry, octets)) / sequences
        peer = PEER.get(name)
        theirs = _cpu_seconds(lambda peer=peer: _theirs(peer, bits)) / sequences if peer else None
        rows.append((name, ours, theirs))
    return rows


def main() -> None:
    rows = measure(sequences=int(os.environ.get("SEQUENCES", "5")))
    print(f"{'test':28}{'ours ms':>10}{'peer ms':>10}{'ratio':>9}{'MB/s':>8}")
    for name, ours, theirs in sorted(rows, key=lambda row: -row[1]):
        peer = f"{theirs * 1e3:10.2f}{theirs / ours:9.1f}" if theirs is not None else f"{'-':>10}{'-':>9}"
        print(f"{name:28}{ours * 1e3:10.2f}{peer}{BITS / 8e6 / ours:8.1f}")
    shared = [(ours, theirs) for _, ours, theirs in rows if theirs is not None]
    ours, theirs = (sum(column) for column in zip(*shared, strict=True))
    every = sum(ours for _, ours, _ in rows)
    print(f"{'fourteen tests':28}{ours * 1e3:10.2f}{theirs * 1e3:10.2f}{theirs / ours:9.1f}")
    print(f"{'all fifteen':28}{every * 1e3:10.2f}   = {every * 100:.1f} CPU s for 100 sequences")
    print(f"B8a ratio {theirs / ours:.1f} (bar {BAR}, stretch {STRETCH})")


if __name__ == "__main__":
    main()
