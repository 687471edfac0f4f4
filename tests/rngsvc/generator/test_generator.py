"""The assembled generator: it reseeds, it stops for good on doubt, and no two processes share a state."""

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rngsvc import generator as generator_module
from rngsvc.drbg import CtrDrbg
from rngsvc.entropy import EntropySource, kernel_source
from rngsvc.generator import EntropyUnavailable, Generator, GeneratorFailed, HealthTestFailed, SelfTestFailed
from rngsvc.self_test import SelfTest
from tests.rngsvc.generator.sources import even, fails_with, noise, stuck, turns
from tests.scale import scaled

ROOT = Path(__file__).parents[3]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_seeds_of_48_bytes_never_repeat() -> None:
    generator = Generator([kernel_source()])
    n = scaled(20_000, 1_000_000)
    assert len({generator.generate(48) for _ in range(n)}) == n


@pytest.mark.parametrize("n", [1, 15, 16, 48, 65_536, 65_537, 200_000])
def test_any_length_is_split_into_requests_the_standard_allows(n: int) -> None:
    generator = Generator([kernel_source()])
    assert len(generator.generate(n)) == n
    assert generator.requests == -(-n // 65_536)
    assert generator.bytes == generator.health_tested == n


@pytest.mark.parametrize("n", [0, -1])
def test_less_than_a_byte_is_refused_and_stops_nothing(n: int) -> None:
    generator = Generator([kernel_source()])
    with pytest.raises(ValueError, match="count: 1 byte or more"):
        generator.generate(n)
    assert generator.failure is None
    assert generator.generate(1)


def test_the_instance_is_set_apart_even_from_one_with_the_same_entropy() -> None:
    assert Generator([noise(even())]).generate(48) != Generator([noise(even())]).generate(48)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_generator_is_never_duplicated(duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="never copied"):
        duplicate(Generator([kernel_source()]))


# --- Reseeding ---


@pytest.mark.requirement("R13")
def test_it_reseeds_after_so_many_requests() -> None:
    generator = Generator([kernel_source()], reseed_after_requests=3)
    reseeds = []
    for _ in range(10):
        generator.generate(48)
        reseeds.append(generator.reseeds)
    assert reseeds == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


@pytest.mark.requirement("R13")
def test_it_reseeds_after_so_long() -> None:
    clock = Clock()
    generator = Generator([kernel_source()], reseed_after_s=60, monotonic=clock)
    reseeds = []
    for passed_s in (0, 59.9, 0.1, 59.9, 0.2, 600, 0):
        clock.now_s += passed_s
        generator.generate(48)
        reseeds.append(generator.reseeds)
    assert reseeds == [0, 0, 1, 1, 2, 3, 3]


def test_prediction_resistance_takes_fresh_entropy_before_each_request() -> None:
    source = kernel_source()
    generator = Generator([source])
    before = source.samples
    generator.generate(200_000, prediction_resistance=True)
    assert generator.reseeds == generator.requests == 4
    assert source.samples == before + 4 * 48


def test_it_reseeds_on_demand() -> None:
    generator = Generator([kernel_source()])
    generator.reseed()
    assert generator.reseeds == 1


def test_each_source_enters_each_seeding() -> None:
    """Two sources that never change but for one byte of one of them: the DRBG is given other entropy."""
    given: list[bytes] = []

    class Recorded(CtrDrbg):
        def __init__(self, entropy: bytes, nonce: bytes, personalisation: bytes) -> None:
            given.append(entropy + nonce)
            super().__init__(entropy, nonce, personalisation)

        def reseed(self, entropy: bytes, additional_input: bytes = b"") -> None:
            given.append(entropy)
            super().reseed(entropy, additional_input)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator_module, "CtrDrbg", Recorded)
        for a, b in ((1, 2), (1, 3), (4, 2), (1, 2)):
            Generator([noise(even(a), "a"), noise(even(b), "b")]).reseed()
    assert given[:2] == given[6:]
    assert len(set(given)) == 6


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"reseed_after_requests": 0}, "reseed_after_requests: 1 to"),
        ({"reseed_after_requests": 2**48 + 1}, "reseed_after_requests: 1 to"),
        ({"reseed_after_s": 0}, "reseed_after_s: above 0"),
        ({"reseed_after_s": float("nan")}, "reseed_after_s: above 0"),
    ],
)
def test_reseed_limits_out_of_range_are_refused(limits: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Generator([kernel_source()], **limits)  # type: ignore[arg-type]


# --- Stopping ---


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    ("sources", "error", "message"),
    [
        ([], EntropyUnavailable, "no entropy source"),
        ([noise(stuck())], HealthTestFailed, "entropy source noise: repetition count"),
        ([kernel_source(), noise(stuck(7), "dongle")], HealthTestFailed, "entropy source dongle: repetition count"),
        ([noise(fails_with(5), "dongle"), kernel_source()], EntropyUnavailable, "entropy source dongle"),
    ],
    ids=["none", "stuck", "one of two stuck", "one of two missing"],
)
def test_it_does_not_start_without_every_source(
    sources: list[EntropySource], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Generator(sources)


@pytest.mark.requirement("R07")
@pytest.mark.parametrize(
    ("after", "error"),
    [(stuck(), HealthTestFailed), (fails_with(5), EntropyUnavailable), (fails_with(11), EntropyUnavailable)],
    ids=["stuck", "I/O error", "not ready"],
)
def test_a_source_that_fails_later_stops_it_for_good_even_if_the_source_recovers(
    after: Callable[[int], bytes], error: type[Exception]
) -> None:
    failing = False
    generator = Generator([kernel_source(), noise(turns(even(), after, lambda: failing))], reseed_after_requests=2)
    generator.generate(48)
    failing = True
    assert generator.generate(48)
    with pytest.raises(error) as first:
        generator.generate(48)
    failing = False
    for call in (lambda: generator.generate(48), generator.reseed, generator.self_test):
        with pytest.raises(GeneratorFailed, match="the generator has stopped: entropy source noise"):
            call()
    assert generator.failure == str(first.value)


def test_an_error_that_nobody_foresaw_stops_it_too_and_its_message_is_not_kept() -> None:
    def broken(n: int) -> bytes:
        raise RuntimeError("planted-seed")

    failing = False
    generator = Generator([noise(turns(even(), broken, lambda: failing))])
    failing = True
    with pytest.raises(RuntimeError):
        generator.reseed()
    failing = False
    with pytest.raises(GeneratorFailed, match=r"^the generator has stopped: RuntimeError$"):
        generator.generate(48)


@pytest.mark.requirement("R14")
@pytest.mark.parametrize("output", [bytes(48), b"\x55\xaa" * 512], ids=["constant", "alternating"])
def test_output_that_is_stuck_stops_it_and_is_not_given_out(output: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = Generator([kernel_source()])
    monkeypatch.setattr(CtrDrbg, "generate", lambda self, n: output)
    with pytest.raises(HealthTestFailed, match="output of the generator"):
        generator.generate(len(output))
    monkeypatch.undo()
    with pytest.raises(GeneratorFailed, match="has stopped: output of the generator"):
        generator.generate(48)


def test_a_failed_self_test_keeps_it_from_starting() -> None:
    with pytest.raises(SelfTestFailed, match="self-test rs1: wrong answer"):
        Generator([kernel_source()], more_self_tests=[SelfTest("rs1", lambda: 1, 2)])


def test_a_self_test_that_fails_on_demand_stops_it() -> None:
    answers = iter([4, 5])
    generator = Generator([kernel_source()], more_self_tests=[SelfTest("two and two", lambda: next(answers), 4)])
    with pytest.raises(SelfTestFailed):
        generator.self_test()
    with pytest.raises(GeneratorFailed, match="has stopped: self-test two and two"):
        generator.generate(48)


def test_the_self_test_on_demand_names_what_it_ran() -> None:
    generator = Generator([kernel_source()], more_self_tests=[SelfTest("two and two", lambda: 4, 4)])
    assert generator.self_test()[-1] == "two and two"


# --- Threads and processes ---


def test_threads_share_it_without_repeating_a_seed() -> None:
    generator = Generator([kernel_source()], reseed_after_requests=7)
    seeds: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: seeds.extend(generator.generate(48) for _ in range(500))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seeds)) == len(seeds) == 4000
    assert generator.requests == 4000


def seeds_from(script: str, *arguments: str) -> list[str]:
    """Run a script in a process of its own, because a fork wants a process without threads; return its lines."""
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


FORKS = """
import os, sys
from rngsvc.entropy import kernel_source
from rngsvc.generator import Generator

generator = Generator([kernel_source()])
print(generator.generate(48).hex(), flush=True)
for i in range(int(sys.argv[1])):
    if i % 50 == 0:
        print(generator.generate(48).hex(), flush=True)
    child = os.fork()
    if child == 0:
        lines = generator.generate(48).hex() + "\\n"
        if i % 10 == 0:  # a child's own child
            if os.fork() == 0:
                os.write(1, (generator.generate(48).hex() + "\\n").encode())
                os._exit(0)
            os.wait()
        lines += generator.generate(48).hex() + "\\n"
        os.write(1, lines.encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(generator.generate(48).hex(), flush=True)
"""


@pytest.mark.requirement("R13")
@pytest.mark.requirement("R07")
def test_forked_children_never_repeat_a_seed() -> None:
    children = scaled(200, 10_000)
    seeds = seeds_from(FORKS, str(children))
    assert len(seeds) == 2 + children // 50 + 2 * children + children // 10
    assert len(set(seeds)) == len(seeds)
    assert {len(seed) for seed in seeds} == {96}


LOCKED = """
import os, threading
from rngsvc.entropy import kernel_source
from rngsvc.generator import Generator

generator = Generator([kernel_source()])
with generator._lock:  # as if another thread were in the middle of a request
    child = os.fork()
    if child == 0:
        os.write(1, (generator.generate(48).hex() + "\\n").encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    assert len(seeds_from(LOCKED)) == 1


UNTOLD = """
import ctypes, os
from rngsvc.entropy import kernel_source
from rngsvc.generator import Generator

generator = Generator([kernel_source()])
child = ctypes.CDLL(None).fork()  # Python's hooks do not run
os.write(1, (generator.generate(48).hex() + "\\n").encode())
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_that_python_is_not_told_of_is_noticed_by_the_process_id() -> None:
    seeds = seeds_from(UNTOLD)
    assert len(set(seeds)) == 2


FAILED = """
import os
from rngsvc.entropy import kernel_source
from rngsvc.generator import Generator, GeneratorFailed

generator = Generator([kernel_source()])
generator.failure = "entropy source dongle: gone"
if os.fork() == 0:
    try:
        generator.generate(48)
    except GeneratorFailed as failure:
        os.write(1, b"refused\\n")
    os._exit(0)
os.wait()
"""


def test_a_child_of_a_stopped_generator_is_stopped() -> None:
    assert seeds_from(FAILED) == ["refused"]


SPAWNED = """
from rngsvc.entropy import kernel_source
from rngsvc.generator import Generator

generator = Generator([kernel_source()])
print(generator.generate(48).hex(), generator.generate(48).hex())
"""


@pytest.mark.requirement("R13")
def test_spawned_processes_never_repeat_a_seed() -> None:
    runs = scaled(5, 200)
    seeds = [seed for _ in range(runs) for seed in seeds_from(SPAWNED)]
    assert len(set(seeds)) == len(seeds) == 2 * runs


def test_start_up_takes_a_moment_and_is_measured() -> None:
    generator = Generator([kernel_source()])
    assert 0 < generator.startup_s < 5


def test_seeds_do_not_hang_together() -> None:
    """Neighbouring seeds differ in about half their bits: a repeated or shifted block would show here."""
    generator = Generator([kernel_source()])
    seeds = [int.from_bytes(generator.generate(48)) for _ in range(2000)]
    distances = [(a ^ b).bit_count() for a, b in pairwise(seeds)]
    assert 192 - 60 < min(distances) <= max(distances) < 192 + 60
    assert abs(sum(distances) / len(distances) - 192) < 2
