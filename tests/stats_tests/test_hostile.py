"""What a stranger, or somebody worse, hands in: one clear error, the right exit code, nothing half-reported."""

import gzip
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stats_tests.__main__ import cli
from stats_tests.report.document import encode
from tests.scale import scaled

DECK = bytes(range(52))
CODES = {0, 1, 2, 3}


def run(*arguments: object, input_: bytes | None = None) -> Result:
    """Run the command; whatever was handed in, it ends by itself with one of its exit codes."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=input_)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in CODES
    return result


def refused(code: int, message: str, *arguments: object, input_: bytes | None = None) -> None:
    """Nothing on standard output, one error that says what is wrong."""
    result = run(*arguments, input_=input_)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert message in result.stderr.splitlines()[-1], result.stderr


OPTIONS = [
    # format, further options, message
    ("raw", ("--n", "52"), "--n is the size of a deck and does not apply to bits"),
    ("raw", ("--range", "10"), "--range is of numbers and does not apply to bits"),
    ("decks-u8", ("--range", "10"), "--range is of numbers and does not apply to shuffles"),
    ("numbers", ("--range", "10", "--n", "52"), "--n is the size of a deck and does not apply to numbers"),
    ("raw", ("--seed", "1"), "--seed is of generators"),
    ("raw", ("--battery", "everything"), "'everything' is not one of"),
    ("decks-u8", ("--n", "-52"), "-52 is not in the range"),
    ("decks-u8", ("--n", "nan"), "'nan' is not a valid int"),
    ("decks-u8", ("--count", "0"), "0 is not in the range"),
]


@pytest.mark.parametrize(("format_", "options", "message"), OPTIONS)
def test_an_option_that_does_not_apply_is_refused(
    tmp_path: Path, format_: str, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "sample"
    path.write_bytes(DECK)
    refused(2, message, "run", "--source", f"file:{path}", "--format", format_, *options)


def test_a_plan_and_a_generator_refuse_them_too() -> None:
    refused(2, "does not apply to bits", "plan", "--kind", "bits", "--n", "52")
    refused(2, "does not apply to bits", "run", "--source", "generator:good", "--kind", "bits", "--n", "52")


SHARES = [
    # option, the range that it takes, values out of it, values at its ends
    (
        "--detect",
        "from 1e-09 to 0.999",
        ("1e-300%", "1e-320", "0", "-1%", "100%", "1e300", "nan", "inf", "x"),
        (1e-9, 0.999),
    ),
    ("--power", "from 0.5 to 0.999999", ("1e-300", "49%", "1", "100%", "0.99999999999999999", "nan"), (0.5, 0.999999)),
    ("--alpha", "from 1e-15 to 0.49", ("1e-300", "0", "99%", "1", "nan"), (1e-15, 0.49)),
]


@pytest.mark.parametrize(("option", "allowed", "outside", "ends"), SHARES)
def test_a_share_out_of_range_is_refused_with_the_range(
    option: str, allowed: str, outside: tuple[str, ...], ends: tuple[float, float]
) -> None:
    for value in outside:
        refused(2, f"'{option}': {value}: must be a share {allowed}", "plan", f"{option}={value}")
    for value, kind in itertools.product(ends, (("--n", 2), ("--n", 1020), ("--range", 2), ("--kind", "bits"))):
        for detect in (1e-9, 0.999):
            assert run("plan", "--detect", detect, *kind, option, value).exit_code == 0


NO_TIMES = ["tomorrow", "x", "2026-11-29", "2026-11-29T12:00:00", "2026-02-30T12:00:00Z", "2026-11-29T24:01:00Z", "1e9",
            "2026-11-29 12:00:00Z", "2026-11-29T12:00Z", "20261129T120000Z", "2026-11-29T12:00:00Z\n", " "]  # fmt: skip
TIMES = ["2026-11-29T12:00:00Z", "2026-11-29T12:00:00.123456789Z", "2028-02-29T23:59:59-05:30", ""]


@pytest.mark.parametrize("command", ["run", "merge", "compare", "daily", "selftest"])
def test_what_is_no_time_is_not_signed(tmp_path: Path, command: str) -> None:
    report = tmp_path / "report"
    for time in NO_TIMES:
        result = run(command, "--time", time, "--evidence" if command == "selftest" else "--report", report)
        assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
        assert "'--time'" in result.stderr
        assert "must be a time of RFC 3339" in result.stderr


@pytest.mark.parametrize("time", TIMES)
def test_a_time_is_reported_as_it_is_written(tmp_path: Path, time: str) -> None:
    report = tmp_path / "report"
    run("run", "--source", "generator:good", "--count", "10", "--workers", "1", "--time", time, "--report", report)
    assert json.loads(report.read_bytes())["time"] == time


PEM = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
KEYS = [PEM, b"# mine\n" + PEM.replace(b"PRIVATE", b"ENCRYPTED PRIVATE"), b"ab" * 32 + b"\n"]
COLLECT = ("collect", "--source", "generator:good", "--format", "decks-u8", "--count", "10")
RUN = ("run", "--source", "generator:good", "--count", "10", "--workers", "1")
WRITES = [
    # command without the output, option, the output; {k} is the private key
    (COLLECT, "-o", "{k}"),
    (RUN, "--report", "{k}"),
    (RUN, "--state", "{k}"),
    (RUN, "--ledger", "{k}"),
    (("compare", "{d}", "{d}", "--format", "decks-u8"), "--report", "{k}"),
    (("selftest", "--quick"), "--evidence", "{k}"),
    (("daily", "--generator", "good", "--count", "10"), "--monitor", "{k}"),
    (("report", "{d}"), "--html", "{k}"),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("command", "option", "output"), WRITES)
def test_a_private_key_is_never_overwritten(
    tmp_path: Path, command: tuple[str, ...], option: str, output: str, key: bytes
) -> None:
    before = {"key": key, "data": DECK * 10, "link": key}
    for name in ("key", "data"):
        (tmp_path / name).write_bytes(before[name])
    (tmp_path / "link").symlink_to(tmp_path / "key")
    for name in ("key", "link"):
        given = [each.format(k=tmp_path / name, d=tmp_path / "data") for each in (*command, option, output)]
        refused(2, "has the form of a private key, and is not overwritten", *given)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


OVER_INPUTS = [
    (("collect", "--source", "file:{d}", "--from-format", "decks-u8", "--format", "raw", "-o", "{d}"), "--source"),
    (("run", "--source", "file:{d}", "--format", "decks-u8", "--report", "{d}"), "--source"),
    (("run", "--source", "file:{d}.note", "--format", "decks-u8", "--report", "{d}"), "--source"),
    ((*RUN, "--evidence", "{d}", "--report", "{d}"), "--evidence"),
    ((*RUN, "--key", "{d}", "--state", "{l}"), "--key"),
    ((*RUN, "--ledger", "{d}", "--report", "{d}"), "--"),
    ((*RUN, "--ledger", "{new}", "--state", "{new}"), "--"),
    (("merge", "{d}", "--state", "{d}"), "states"),
    (("compare", "{d}", "{d}.note", "--format", "decks-u8", "--report", "{d}"), "first"),
    (("report", "{d}", "--html", "{d}.note"), "report_path"),
    (("report", "{d}", "--html", "{new}", "--pdf", "{new}"), "--html"),
    (("daily", "--generator", "good", "--monitor", "{d}", "--merge", "{d}"), "--merge"),
    (("selftest", "--key", "{d}", "--evidence", "{d}"), "--key"),
]


@pytest.mark.parametrize(("command", "holder"), OVER_INPUTS)
def test_no_output_is_a_file_that_the_command_reads_or_writes_too(
    tmp_path: Path, command: tuple[str, ...], holder: str
) -> None:
    data, link = tmp_path / "data", tmp_path / "link"
    for path in (data, tmp_path / "data.note"):
        path.write_bytes(DECK * 10)
    link.symlink_to(data)
    refused(2, f"is also the file of {holder}", *(e.format(d=data, l=link, new=tmp_path / "new") for e in command))
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == dict.fromkeys(
        ("data", "data.note", "link"), DECK * 10
    )


def test_a_report_that_is_there_is_written_again(tmp_path: Path) -> None:
    for _ in range(2):
        run(*RUN, "--report", tmp_path / "report", "--ledger", tmp_path / "ledger")
    assert run(*COLLECT, "-o", tmp_path / "report").exit_code == 0
    assert (tmp_path / "report").stat().st_size == 520


def as_text(decks: int) -> bytes:
    return (" ".join(map(str, range(52))) + "\n").encode() * decks


LACKING = [
    # format, content, options, message
    ("decks-u8", DECK * 10, ("--count", "11"), "holds 10 decks; from --start 0 on, --count 11 asks for more"),
    ("decks-u8", DECK * 10, ("--start", "5", "--count", "6"), "from --start 5 on, --count 6 asks for more"),
    ("decks-u8", DECK * 10, ("--start", "11"), "holds 10 decks; from --start 11 on, --start alone asks for more"),
    ("raw", bytes(100), ("--count", "101"), "holds 100 bytes"),
    ("decks-text", as_text(10), ("--count", "11"), "the sample ends after 10 decks; --count asks for 11"),
    ("ascii-bits", b"10" * 44, ("--count", "12"), "the sample ends after 11 bytes; --count asks for 12"),
]


@pytest.mark.parametrize(("format_", "content", "options", "message"), LACKING)
def test_more_than_there_is_is_undecided(
    tmp_path: Path, format_: str, content: bytes, options: tuple[str, ...], message: str
) -> None:
    path, report, collected = tmp_path / "sample", tmp_path / "report", tmp_path / "collected"
    path.write_bytes(content)
    refused(3, message, "run", "--source", f"file:{path}", "--format", format_, *options, "--report", report)
    if "--start" not in options:
        again = ("--from-format", format_, "--format", format_, *options, "-o", collected)
        refused(3, message, "collect", "--source", f"file:{path}", *again)
    assert {each.name for each in tmp_path.iterdir()} == {"sample"}


def test_a_source_that_is_no_file_is_told_as_what_it_is(tmp_path: Path) -> None:
    options = ("--format", "raw")
    refused(2, "is a directory, not a file", "run", "--source", f"file:{tmp_path}", *options)
    refused(2, "there is no such file", "run", "--source", f"file:{tmp_path}/none", *options)
    assert "too little data" in run("run", "--source", "file:/dev/null", *options).stdout
    refused(3, "ends after 0 bytes", "run", "--source", "file:/dev/null", *options, "--count", "9")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "sample"
    path.touch(mode=0)
    refused(2, "may not be read", "run", "--source", f"file:{path}", "--format", "raw")


SAMPLES = [
    # format, content, message
    ("decks-u8", DECK * 2 + DECK[:9], "byte offset 104: the file ends within an item"),
    ("decks-u8", DECK + DECK[:51] + b"\x07", "byte offset 103: card 52 of deck 2 is 7, which the deck holds already"),
    (
        "decks-u8",
        gzip.compress(DECK * 30, mtime=0)[:52],
        "byte offset 1: card 2 of deck 1 is 139; 52 cards are numbered 0..51",
    ),
    (
        "decks-text",
        as_text(1) + as_text(1)[:-3] + b"3\n",
        "offset 289, line 2, column 144: card 52 of deck 2 is '3', which",
    ),
    ("decks-text", as_text(1).replace(b"\n", b"\r\n") + b"\0" * 70_000, "byte offset 147, line 2: a line is longer"),
    ("decks-text", gzip.compress(as_text(10), mtime=0), "cards instead of 52"),
    ("ascii-bits", gzip.compress(b"1010" * 100, mtime=0), "byte offset 0: '\\x1f' (the beginning of gzip data"),
    ("ascii-bits", b"\xef\xbb\xbf1010", "byte offset 0: '\\xef' (a byte order mark"),
    ("ascii-bits", b"1010\x00\x01\x02", "byte offset 4: '\\x00' is neither 0 nor 1"),
]


@pytest.mark.parametrize(("format_", "content", "message"), SAMPLES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_sample_leaves_nothing_behind(
    tmp_path: Path, format_: str, content: bytes, message: str, stream: bool
) -> None:
    path = tmp_path / "sample"
    path.write_bytes(content)
    written = ("--report", tmp_path / "report", "--state", tmp_path / "state")
    source = ("stdin",) if stream else (f"file:{path}",)
    message = message.replace("the file ends within an item", "the stream ends within an item") if stream else message
    refused(2, message, "run", "--source", *source, "--format", format_, *written, input_=content if stream else None)
    assert {each.name for each in tmp_path.iterdir()} == {"sample"}


def test_windows_line_ends_and_comments_are_read(tmp_path: Path) -> None:
    path = tmp_path / "decks"
    path.write_bytes(b"# decks\r\n\r\n" + as_text(3).replace(b"\n", b"\r\n"))
    arguments = ("--from-format", "decks-text", "--format", "decks-u8", "-o", tmp_path / "back")
    assert run("collect", "--source", f"file:{path}", *arguments).exit_code == 0
    assert (tmp_path / "back").read_bytes() == DECK * 3


@pytest.mark.parametrize("option", ["--report", "--state", "--ledger"])
def test_what_cannot_be_written_is_known_before_the_data_are_read(tmp_path: Path, option: str) -> None:
    arguments = ("run", "--source", "generator:good", "--count", "10000")
    refused(2, "there is no folder", *arguments, option, tmp_path / "none" / "file")
    refused(2, "is a directory", *arguments, option, tmp_path)


def test_a_full_disk_is_one_line() -> None:
    result = run("run", "--source", "generator:good", "--range", "9", "--count", "10000", "--report", "/dev/full")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: file: No space left on device"


@pytest.mark.parametrize(("generator", "code"), [("good", 0), ("sattolo", 1)])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_who_leaves_does_not_change_the_verdict(generator: str, code: int, options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "stats_tests", "run", "--source", f"generator:{generator}", "--count", "10000"]
    process = subprocess.Popen(
        [*command, "--workers", "1", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    errors = process.stderr.read()
    assert process.wait(timeout=120) == code
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors
    process.stderr.close()


# --- States and reports that were changed ---


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("states") / "shard"
    run("run", "--source", "generator:good", "--range", "9", "--count", "3000", "--state", path)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports") / "report.json"
    run("run", "--source", "generator:good", "--range", "9", "--count", "10000", "--workers", "1", "--report", path)
    return path


def test_states_of_other_plans_do_not_merge(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for options in (("--range", "10"), ("--range", "9", "--battery", "daily"), ("--n", "9")):
        source = ("--source", "generator:good", "--start", "3000", "--count", "10")
        run("run", *source, *options, "--state", other)
        refused(2, "the states were made by different plans", "merge", state, other, "--state", tmp_path / "joined")
        assert not (tmp_path / "joined").exists()
    refused(2, "segments do not adjoin", "merge", state, state)


JUNK: list[Any] = [None, True, -1, 0, 2**70, 1.5, "", "zz", [], {}, [[]], [-1], {"a": 1}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every member of a document; of long lists the first ones only."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for name, member in inner:
        found += places(member, (*path, name))
    return found


def with_junk(document: Any, path: tuple[Any, ...], junk: Any) -> Any:
    changed = json.loads(json.dumps(document))
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    if junk == "gone":
        del inner[path[-1]]
    else:
        inner[path[-1]] = junk
    return changed


def some(document: Any, tries: int, seed: int) -> list[tuple[tuple[Any, ...], Any]]:
    rng = random.Random(seed)
    every = [(path, junk) for path in places(document) for junk in [*JUNK, "gone"]]
    return rng.sample(every, min(tries, len(every)))


def test_a_changed_state_is_refused_or_judged_never_a_crash(state: Path, tmp_path: Path) -> None:
    """Counts can be changed unseen in a state, which is not signed; its form cannot."""
    document = json.loads(state.read_bytes())
    path = tmp_path / "changed"
    for where, junk in some(document, scaled(150, 3000), seed=1):
        path.write_text(json.dumps(with_junk(document, where, junk)) + "\n")
        assert run("merge", path).exit_code in {2, 3}, (where, junk)


FREE = [
    ("time",),
    ("ledger",),
    ("versions",),
    ("selftest",),
    ("code", "fairness_relevant_modules"),
    ("campaigns", 0, "sample", "source"),
]
"""Members on which no number depends; only a signature vouches for them."""


def test_a_changed_report_never_verifies(report: Path, tmp_path: Path) -> None:
    document = json.loads(report.read_bytes())
    path = tmp_path / "changed.json"
    for where, junk in some(document, scaled(40, 500), seed=2):
        changed = with_junk(document, where, junk)
        if changed == document or any(where[: len(free)] == free for free in FREE):
            continue
        path.write_bytes(encoded(changed))
        assert run("verify", path).exit_code in {1, 2}, (where, junk)


def test_a_changed_report_is_shown_or_refused(report: Path, tmp_path: Path) -> None:
    document = json.loads(report.read_bytes())
    path, page = tmp_path / "changed.json", tmp_path / "page.html"
    for where, junk in some(document, scaled(4, 100), seed=3):
        path.write_bytes(encoded(with_junk(document, where, junk)))
        page.unlink(missing_ok=True)
        code = run("report", path, "--html", page).exit_code
        assert page.exists() == (code == 0), (where, junk)


def encoded(document: Any) -> bytes:
    try:
        return encode(document)
    except ValueError:  # an integer that canonical JSON does not have
        return json.dumps(document).encode() + b"\n"


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", DEEP, b'{"schema":' + DEEP, b"NaN", b"[]", b"\xff\xfe", b'{"schema":"stats_tests-report/1"}\n'],
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "document"
    path.write_bytes(content)
    assert run("merge", path).exit_code == 2
    assert run("report", path, "--html", tmp_path / "page").exit_code == 2
    assert run("verify", path).exit_code == 1
    good = ("run", "--source", "generator:good", "--count", "10")
    for option in ("--evidence", "--key"):
        assert run(*good, option, path).exit_code == 2
    if content:
        assert run(*good, "--ledger", path).exit_code == 2
    assert run("daily", "--generator", "good", "--count", "10", "--monitor", path).exit_code == 2


# --- Fuzzing of the readers ---

FORMATS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "raw": (bytes(range(64)), ()),
    "ascii-bits": (b"1001 0110\n" * 8, ()),
    "dieharder": (b"type: d\ncount: 4\nnumbit: 32\n1\n2\n3\n4294967295\n", ()),
    "numbers": (b"1 2 3\n4 5 8\n", ("--range", "9")),
    "numbers-u64": (bytes([0] * 7 + [1]) * 8, ("--range", "9")),
    "decks-text": (b"0 1 2\n2, 1, 0\n# none\n1 2 0\n", ("--n", "3")),
    "decks-u8": (bytes([0, 1, 2]) * 5, ("--n", "3")),
    "decks-u16": (bytes([0, 0, 0, 1, 0, 2]) * 5, ("--n", "3")),
}


def mangled(content: bytes, rng: random.Random) -> bytes:
    """Return the content with a few bytes changed, taken out, put in or repeated."""
    octets = bytearray(content)
    changes: list[Callable[[int], None]] = [
        lambda at: octets.__setitem__(slice(at, at + 1), bytes([rng.randrange(256)])),
        lambda at: octets.__delitem__(slice(at, at + rng.randrange(1, 9))),
        lambda at: octets.insert(at, rng.choice(b"\0\r\n\t ,#-.:09eE\xff\xef")),
        lambda at: octets.__setitem__(slice(at, at), octets[: rng.randrange(99)] * rng.choice([1, 1, 1, 2000])),
    ]
    for _ in range(rng.randrange(1, 4)):
        rng.choice(changes)(rng.randrange(len(octets) + 1))
    return bytes(octets)


@pytest.mark.parametrize("format_", FORMATS)
@settings(max_examples=scaled(25, 1000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), stream=st.booleans())
def test_any_bytes_are_read_whole_or_refused_with_a_place(
    tmp_path: Path, format_: str, seed: int, stream: bool
) -> None:
    content, options = FORMATS[format_]
    sample = mangled(content, random.Random(seed))
    path, output = tmp_path / "sample", tmp_path / "output"
    path.write_bytes(sample)
    output.unlink(missing_ok=True)
    to = {"n": "decks-u16", "r": "numbers-u64"}.get((options or ("--b",))[0][2], "raw")
    source = "stdin" if stream else f"file:{path}"
    arguments = ("--from-format", format_, "--format", to, *options, "-o", output)
    count = ("--count", "1") if stream else ()
    result = run("collect", "--source", source, *arguments, *count, input_=sample)
    assert output.exists() == (result.exit_code == 0)
    assert not output.with_name("output.part").exists()
    if result.exit_code == 2:
        assert "byte offset" in result.stderr or "the header promises" in result.stderr, result.stderr
