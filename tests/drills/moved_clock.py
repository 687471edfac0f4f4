"""`moved_clock.py FILE ARGUMENT...`: rngsvc under a wall clock that is moved by the number of seconds in FILE.

The wall clock alone is moved; the monotonic one goes on, as when a machine's clock is set. libfaketime does not do: in
version 0.9.10, with the monotonic clock left alone, every clock_nanosleep(2) of the process fails.
"""

import sys
import time
from pathlib import Path

from rngsvc.__main__ import main

if __name__ == "__main__":
    seconds, real_ns = Path(sys.argv.pop(1)), time.time_ns
    time.time_ns = lambda: real_ns() + int(seconds.read_text()) * 1_000_000_000
    time.time = lambda: time.time_ns() / 1e9
    main()
