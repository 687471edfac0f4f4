"""Carrying out a plan: cut the sample into stretches, count them on some processors, join the counts.

The default is a pool of local processes; with a Dask scheduler's address the same stretches go there. Either way
stretches come back as state files, so what is joined is what `merge` would join, and the result is the same bytes.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from stats_tests.battery import Plan
from stats_tests.catalogue import Kind
from stats_tests.samples import Source, binary_format, item_bytes
from stats_tests.tally import Tally, tally_stretch

STRETCH_BYTES: Final = 1 << 25
"""About this much of the sample is one stretch of work."""

Tick = Callable[[int], None]
"""Hears how many items have been counted."""


def _silent(_items: int) -> None:
    """Tell nobody."""


def default_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stretches(plan: Plan, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut items start..stop-1; for bits at the edges of sequences, so that none has to be carried over."""
    setting = plan.setting
    if setting.kind is Kind.BITS:
        sequence = setting.size // 8
        step = max(1, STRETCH_BYTES // sequence) * sequence
    else:
        step = max(1, STRETCH_BYTES // item_bytes(binary_format(setting.kind, setting.size), setting.size))
    at = start
    while at < stop:
        end = min(stop, (at // step + 1) * step)
        yield at, end
        at = end


def run_plan(
    plan: Plan,
    source: Source,
    start: int,
    stop: int | None,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    tick: Tick = _silent,
) -> Tally:
    """Count a stretch of a source.

    Args:
        plan: what to count.
        source: where the items come from.
        start: index of the first item.
        stop: index after the last item; None reads to the end.
        workers: local processes; more than one only if the source can be divided.
        scheduler: address of a Dask scheduler that does the work instead.
        tick: hears of progress.

    Raises:
        SampleError: the source is not what it promises; nothing is half-reported.
        RuntimeError: Dask is asked for and not installed.
    """
    if stop is None:
        stop = source.count
    if stop is None or not source.divisible or (workers == 1 and scheduler is None):
        return tally_stretch(plan, source, start, stop, tick)
    parts = list(stretches(plan, start, stop))
    if not parts:
        return Tally(plan, start)
    if scheduler is not None:
        return _on_cluster(plan, source, parts, scheduler, tick)
    return _on_processes(plan, source, parts, workers, tick)


def _count_into_file(plan: Plan, source: Source, part: tuple[int, int], folder: str) -> tuple[int, str]:
    """Count one stretch in a worker process; return its size and the state file."""
    path = Path(folder) / f"{part[0]}.state"
    with path.open("wb") as file:
        tally_stretch(plan, source, *part).write(file)
    return part[1] - part[0], str(path)


def _on_processes(plan: Plan, source: Source, parts: list[tuple[int, int]], workers: int, tick: Tick) -> Tally:
    with (
        tempfile.TemporaryDirectory(prefix="stats-tests-") as folder,
        ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool,
    ):
        futures = [pool.submit(_count_into_file, plan, source, part, folder) for part in parts]
        try:
            for future in as_completed(futures):
                tick(future.result()[0])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        joined = Tally(plan, parts[0][0])
        for future in futures:
            path = Path(future.result()[1])
            with path.open("rb") as file:
                joined.merge(Tally.read(file))
            path.unlink()
        return joined


def count_into_bytes(plan: Plan, source: Source, part: tuple[int, int]) -> bytes:
    """Count one stretch on another machine; return its state file."""
    file = BytesIO()
    tally_stretch(plan, source, *part).write(file)
    return file.getvalue()


def _on_cluster(plan: Plan, source: Source, parts: list[tuple[int, int]], scheduler: str, tick: Tick) -> Tally:
    try:
        import distributed  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise RuntimeError("--scheduler needs Dask: install sealed-shoe[cluster]") from error
    client: Any
    with distributed.Client(scheduler) as client:  # type: ignore[no-untyped-call]
        futures = [client.submit(count_into_bytes, plan, source, part, pure=False) for part in parts]
        joined = Tally(plan, parts[0][0])
        for part, future in zip(parts, futures, strict=True):
            joined.merge(Tally.read(BytesIO(future.result())))
            future.release()
            tick(part[1] - part[0])
        return joined
