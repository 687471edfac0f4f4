"""What `rngsvc audit` says of hands given up, of missing self-checks, and how little memory it takes to say it."""

import asyncio
import gc
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.audit import ORIGIN, valid_log
from rngsvc.audit import LISTED_TABLES
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.keys.signing import SigningKey
from rngsvc.monitor import Monitor
from rngsvc.protocol.entries import AuditEntry, parse_entry
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.audit.books import SEEDS, Book, book_of
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.service.world import AUDITOR_SIGNING, World
from tests.scale import scaled

STRANGER = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))


async def evening(outcomes: dict[int, str], *, started: bool = True, reveal: str = "public") -> Book:
    """Tables by number, a letter a hand: p played; aborted: u unused, a promised, s sealed."""
    world = await World().start()
    if started:
        await world.results.start(b"self-tests")
    for number, hands in outcomes.items():
        play = await world.play(number, reveal=reveal)
        await play.reserve(1, len(hands))
        for seq, what in enumerate(hands, 1):
            if what != "u":
                await play.promise(seq, SEEDS)
            if what in "ps":
                await play.seal(seq, 52, SEEDS)
            await (play.close(seq) if what == "p" else play.close(seq, "aborted", "misdeal"))
    await world.kill()
    return book_of(world)


# One table is two tests of 0.0005 each; at 1 % P(X >= 2 of 4) = 0.0006 and P(X >= 3 of 10) = 0.0001.
ROWS = [
    ("nothing given up", {1: "pppp"}, 0),
    ("one given up", {1: "apppp"}, 0),
    ("too many before the seal", {1: "apapappppp"}, 2),
    ("too many after it", {1: "spspsppppp"}, 2),
    ("what nobody promised does not count", {1: "uuuuupuuuu"}, 0),
    ("at one of two tables", {1: "apapappppp", 2: "pppppppppp"}, 1),
    ("a little at every table", dict.fromkeys(range(1, 7), "ap"), 1),
]  # fmt: skip


@pytest.mark.parametrize(("title", "outcomes", "findings"), ROWS, ids=[row[0] for row in ROWS])
def test_hands_given_up_are_counted(title: str, outcomes: dict[int, str], findings: int, tmp_path: Path) -> None:
    book = asyncio.run(evening(outcomes))
    ran = rngsvc("audit", book.write(tmp_path), "--log-key", book.key.vkey, "--json")
    assert ran.code == (ExitCode.CHECK_FAILED if findings else ExitCode.OK)
    assert [each["check"] for each in ran.json["findings"]] == ["aborts"] * findings
    told = {row["table"]: (row["given_up"], row["closed"]) for row in ran.json["given_up"]}
    counted = [
        (len(hands) - hands.count("p") - hands.count("u"), len(hands) - hands.count("u")) for hands in outcomes.values()
    ]
    assert sorted(told.values()) == sorted(counted)
    if findings:
        for allowed in (("--abort-rate", "0.6"), ("--abort-significance", "1e-12")):
            assert rngsvc("audit", tmp_path, "--log-key", book.key.vkey, *allowed).code == ExitCode.OK
        said = rngsvc("audit", tmp_path, "--log-key", book.key.vkey).stdout
        assert "hands were given up; at a rate of 1.00% so many have p = " in said


def test_only_the_worst_tables_are_listed(tmp_path: Path) -> None:
    book = asyncio.run(evening({number: "ap" if number == 7 else "p" for number in range(LISTED_TABLES + 5)}))
    rows = rngsvc("audit", book.write(tmp_path), "--log-key", book.key.vkey, "--json").json["given_up"]
    assert len(rows) == LISTED_TABLES
    assert (rows[0]["given_up"], rows[1]["given_up"]) == (1, 0)


def test_a_service_that_never_checked_itself_does_not_pass(tmp_path: Path) -> None:
    book = asyncio.run(evening({1: "p"}, started=False))
    ran = rngsvc("audit", book.write(tmp_path), "--log-key", book.key.vkey, "--json")
    assert ran.code == ExitCode.CHECK_FAILED
    assert [(each["check"], each["index"]) for each in ran.json["findings"]] == [("integrity", 0)]


@pytest.mark.parametrize(
    ("signer", "verdict", "outcome", "findings"),
    [
        (AUDITOR_SIGNING, "pass", "audit pass", []),
        (AUDITOR_SIGNING, "undecided", "audit undecided", []),
        (AUDITOR_SIGNING, "fail", "audit fail", ["verdict"]),
        (STRANGER, "pass", "audit pass, by no auditor of a table", []),
        (STRANGER, "fail", "audit fail, by no auditor of a table", ["verdict"]),
    ],
)
def test_an_auditors_verdict_is_told_with_who_he_is(
    signer: SigningKey, verdict: str, outcome: str, findings: list[str], tmp_path: Path
) -> None:
    book = asyncio.run(evening({1: "p"}, reveal="escrow"))
    time = parse_entry(book.entries_raw[-1]).time
    last = len(book.entries_raw) - 1
    entry = AuditEntry(
        time=time, first=0, last=last, result=bytes(32), verdict=verdict, signer=signer.public_key, sig=bytes(64)
    )
    book.entries_raw.append(replace(entry, sig=signer.sign(entry.signed_bytes())).encode())
    ran = rngsvc("audit", book.write(tmp_path), "--log-key", book.key.vkey, "--json")
    assert ran.json["outcomes"][outcome] == 1
    assert [each["check"] for each in ran.json["findings"]] == findings


@pytest.mark.parametrize("option", ["--abort-rate", "--abort-significance"])
@pytest.mark.parametrize("value", ["0", "1", "2", "x"])
def test_a_rate_that_is_none_is_a_usage_error(option: str, value: str) -> None:
    ran = rngsvc("audit", "nowhere", "--log-key", NoteKey("a.example", bytes(32)).vkey, option, value)
    assert ran.code == ExitCode.USAGE
    assert option in ran.stderr


def test_memory_does_not_grow_with_the_log() -> None:
    """The benchmark's log is without fault, and takes less than eight bytes an entry: not even an index is kept."""
    whole_rounds = 400  # entries in which each of the benchmark's tables plays one hand
    size = scaled(30, 300) * whole_rounds
    log = list(valid_log(size))
    monitor = Monitor(NoteKey(ORIGIN, bytes(32)))

    def memory_after(count: int) -> int:
        for raw in log[monitor.size : count]:
            assert monitor.feed(raw) == []
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        begun = memory_after(10 * whole_rounds)
        grown = memory_after(size) - begun
    finally:
        tracemalloc.stop()
    assert grown < 8 * (size - 10 * whole_rounds)
    assert monitor.signs == []
