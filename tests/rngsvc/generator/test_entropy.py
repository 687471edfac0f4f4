"""Entropy sources: a missing, stuck, biased or slow one is named; one bad input to the mix is harmless."""

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rngsvc.entropy import (
    STARTUP_SAMPLES,
    DeviceReader,
    EntropyUnavailable,
    HealthTestFailed,
    OperatorFile,
    device_source,
    kernel_source,
    mix,
)
from tests.rngsvc.generator.sources import biased, ends_after, even, fails_with, noise, short, stuck
from tests.scale import scaled


def test_a_noise_source_brings_384_bits_at_each_seeding_by_its_own_claim() -> None:
    assert len(kernel_source().gather()) == 48
    assert len(noise(even(), bits_per_byte=2.5).gather()) == 154
    assert noise(even(), bits_per_byte=8).gather() == even()(48)


def test_the_start_up_test_sees_1024_samples_and_none_of_them_is_used() -> None:
    source = noise(even())
    source.start()
    assert source.samples == STARTUP_SAMPLES == 1024
    assert source.gather() == even()(STARTUP_SAMPLES + 48)[-48:]


def test_short_reads_are_put_together() -> None:
    """`randbytes` in pieces is another stream than in one, so the reader hands out one stream in pieces."""
    stream = random.Random(5).randbytes(2000)
    at = [0]

    def read(n: int) -> bytes:
        at[0] += n
        return stream[at[0] - n : at[0]]

    source = noise(short(read))
    source.start()
    assert source.gather() == stream[1024:1072]


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    ("fault", "read", "error", "message"),
    [
        ("stuck at 0", stuck(0), HealthTestFailed, "entropy source noise: repetition count"),
        ("stuck at 255", stuck(255), HealthTestFailed, "entropy source noise: repetition count"),
        ("biased", biased(), HealthTestFailed, "entropy source noise: (repetition|adaptive)"),
        ("ends", ends_after(even(), 1000), EntropyUnavailable, "entropy source noise: ended after 1000 of 1024 bytes"),
        ("empty", ends_after(even(), 0), EntropyUnavailable, "entropy source noise: ended after 0 of 1024 bytes"),
        ("I/O error", fails_with(errno.EIO), EntropyUnavailable, "entropy source noise: EIO"),
        ("not ready", fails_with(errno.EAGAIN), EntropyUnavailable, "entropy source noise: EAGAIN"),
        ("no such call", fails_with(errno.ENOSYS), EntropyUnavailable, "entropy source noise: ENOSYS"),
    ],
)
def test_a_source_that_fails_is_named_with_its_fault(
    fault: str, read: Callable[[int], bytes], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        noise(read).start()


def test_a_source_that_sticks_later_is_caught_by_the_continuous_tests() -> None:
    read = even()
    source = noise(lambda n: read(n) if source.samples < 1100 else bytes(n))
    source.start()
    source.gather()
    source.gather()
    with pytest.raises(HealthTestFailed, match="repetition count: 6 equal samples in a row"):
        source.gather()


# --- Devices ---


def test_a_device_is_read(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.write_bytes(even()(4096))
    source = device_source(device, bits_per_byte=4, timeout_s=1)
    source.start()
    assert len(source.gather()) == 96


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b""), "ended after 0 of 1024"),
    ],
    ids=["missing", "folder", "empty"],
)
def test_a_device_that_cannot_be_read_is_named(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    make(tmp_path / "device")
    with pytest.raises(EntropyUnavailable, match=f"entropy source .*/device: .*{message}"):
        device_source(tmp_path / "device", bits_per_byte=4, timeout_s=1).start()


def test_a_device_that_hangs_is_given_up_on_after_its_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "device")
    held_open = os.open(tmp_path / "device", os.O_RDWR)  # A writer that never writes.
    try:
        with pytest.raises(EntropyUnavailable, match=r"gave 0 of 1024 bytes within 0\.05 s"):
            device_source(tmp_path / "device", bits_per_byte=4, timeout_s=0.05).start()
        os.write(held_open, b"here")
        with pytest.raises(TimeoutError, match=r"gave 4 of 100 bytes within 0\.05 s"):
            DeviceReader(tmp_path / "device", timeout_s=0.05)(100)
    finally:
        os.close(held_open)


def test_a_slow_device_is_read_in_pieces_within_one_time_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "device")
    held_open = os.open(tmp_path / "device", os.O_RDWR)

    def give() -> None:
        for piece in (b"one", b"two", b"three"):
            time.sleep(0.02)
            os.write(held_open, piece)

    giver = threading.Thread(target=give)
    giver.start()
    try:
        assert DeviceReader(tmp_path / "device", timeout_s=20)(11) == b"onetwothree"
    finally:
        giver.join()
        os.close(held_open)


def test_a_device_that_says_it_is_ready_and_is_not_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "device").write_bytes(b"entropy")
    asked = 0
    read = os.read

    def not_yet(file: int, n: int) -> bytes:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise BlockingIOError(errno.EAGAIN, "not yet")
        return read(file, n)

    monkeypatch.setattr(os, "read", not_yet)
    assert DeviceReader(tmp_path / "device", timeout_s=20)(7) == b"entropy"
    assert asked == 3
    asked = -1_000_000
    with pytest.raises(TimeoutError, match="gave 0 of 7 bytes"):
        DeviceReader(tmp_path / "device", timeout_s=0.05)(7)
    assert asked < -1_000_000 + 50  # not a busy loop


# --- The operator's file ---


def test_an_operators_file_enters_whole_and_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "dice"
    tosses = "".join(random.Random(8).choices("123456", k=500)).encode()
    file.write_bytes(tosses)
    source = OperatorFile(file)
    source.start()
    assert source.gather() == tosses
    file.write_bytes(tosses[::-1])
    assert source.gather() == tosses[::-1]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, EntropyUnavailable, "No such file"),
        (b"", EntropyUnavailable, "384 to 65536 bytes allowed, it holds 0"),
        (even()(383), EntropyUnavailable, "384 to 65536 bytes allowed, it holds 383"),
        (even()(65_537), EntropyUnavailable, "384 to 65536 bytes allowed, it holds more"),
        (bytes(1000), HealthTestFailed, "repetition count"),
        (b"01" * 25 + b"1" * 41 + even()(400), HealthTestFailed, "repetition count: 41 equal"),
    ],
    ids=["missing", "empty", "short", "long", "zeros", "a row of 41"],
)
def test_an_operators_file_that_will_not_do_is_named(
    content: bytes | None, error: type[Exception], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "dice"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error, match=f"entropy file .*/dice: .*{message}"):
        OperatorFile(file).start()


# --- The mix ---


@pytest.mark.parametrize(
    ("bad", "contribute"),
    [
        ("all zero", lambda i, good: bytes(48)),
        ("known to an adversary", lambda i, good: b"known" * 10),
        ("a counter", lambda i, good: i.to_bytes(48)),
        ("copies the good source", lambda i, good: good),
        ("the complement of the good source", lambda i, good: bytes(255 - b for b in good)),
        ("empty", lambda i, good: b""),
    ],
)
def test_one_bad_source_is_harmless(bad: str, contribute: Callable[[int, bytes], bytes]) -> None:
    """With a bad source before and after the good one, no seed repeats and every bit of it stays even."""
    n = scaled(2_000, 200_000)
    good = random.Random(9)
    seeds = set()
    ones = 0
    for i in range(n):
        fresh = good.randbytes(48)
        seed = mix([("bad", contribute(i, fresh)), ("good", fresh), ("bad too", contribute(i, fresh))])
        seeds.add(seed)
        ones += int.from_bytes(seed).bit_count()
    assert len(seeds) == n
    bits = n * 512
    assert abs(ones - bits / 2) < 6 * (bits / 4) ** 0.5


named_inputs = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=4)), max_size=4)


@given(a=named_inputs, b=named_inputs)
def test_different_inputs_never_make_the_same_mix(a: list[tuple[str, bytes]], b: list[tuple[str, bytes]]) -> None:
    """No byte can be shifted from a name or an input into its neighbour."""
    assert (mix(a) == mix(b)) == (a == b)
