"""A log in which one member of one entry was changed, chained and signed again: who can tell.

Whoever holds the log's key can write such a log. Strangers with the log and an auditor with his key find each change
but those of a few members that state what only the service knows; what was opened when, players and dealers can tell.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rngsvc.audit import Audit
from rngsvc.examiner import HandExaminer
from rngsvc.protocol.entries import ENTRY_TYPES, AuditEntry, KeyEntry, SampleEntry, canonical, parse_entry
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.members import members_of
from tests.rngsvc.audit.books import SEEDS, Book, book_of
from tests.rngsvc.service.world import AUDITOR, AUDITOR_SIGNING, World

# What a log may say as it likes: nobody but the service was there.
UNKNOWABLE = {
    ("close", "opened"): "which places were opened when: players' receipts and dealers' histories tell",
    ("close", "time"): "as long as it is within the deadline and goes on from the time before",
    ("integrity", "time"): "as long as it goes on from the time before",
    ("integrity", "code"): "which code ran",
    ("integrity", "results"): "what the report said, but that it failed",
    ("sample", "id"): "the auditor who asked knows",
    ("sample", "kind"): "the auditor who asked knows",
    ("sample", "count"): "the auditor who asked knows",
    ("sample", "time"): "as long as it goes on from the time before",
}


async def one_hand_a_table() -> Book:
    """Every kind of table with one hand each, sealed or drawn, and one entry of every other type behind them."""
    world = await World().start()
    await world.results.start(b"self-tests")
    for number, (mode, reveal, drawn) in enumerate(
        (mode, reveal, drawn) for mode in ("shoe", "full") for reveal in ("public", "escrow") for drawn in (False, True)
    ):
        world.clock.advance(10)
        play = await world.play(number, mode=mode, reveal=reveal)
        await play.reserve(1)
        await play.promise(1, SEEDS)
        if drawn:
            await play.draw(1, b"button", 10**6, 3, SEEDS[:1])
        else:
            await play.seal(1, 52, SEEDS[:1])
            if mode == "shoe":
                await play.open(1, 0, 0, 1, 2)
            await play.reshuffle(1, 1, (0, 0), (0, 7), (0, 51))
        await play.close(1)
    for number, (reveal, decided) in enumerate(
        ((reveal, decided) for reveal in ("public", "escrow") for decided in (True, False)), 8
    ):
        world.clock.advance(10)
        play = await world.play(number, reveal=reveal, twin=True)
        await play.reserve(1)
        await play.promise_twin(1, [(who, seed, seed[::-1] + b"!") for who, seed in SEEDS])
        await play.seal(1, 52, SEEDS)
        if decided:
            await play.choose(1, [(who, seed[::-1] + b"!") for who, seed in SEEDS[:1]])
            await play.open(1, 0, 0, 1, 2)
            await play.close(1)
        else:
            await play.close(1, "aborted", "misdeal")
    await world.kill()
    book = book_of(world)
    time = world.clock.ms
    verdict = AuditEntry(
        time=time, first=0, last=3, result=bytes(32), verdict="pass", signer=AUDITOR_SIGNING.public_key, sig=bytes(64)
    )
    sig = AUDITOR_SIGNING.sign(verdict.signed_bytes())
    book.entries_raw.append(replace(verdict, sig=sig).encode())
    book.entries_raw.append(SampleEntry(time=time, id=b"1", kind="bits", count=1).encode())
    return book


def changed(value: Any) -> Iterator[Any]:
    """Other values of the same form: the next number (0 after 1), another last digit, another word, a shorter array."""
    match value:
        case int():
            yield value + 1
            if value == 1:
                yield 0
        case str():
            if value and all(each in "0123456789abcdef" for each in value):
                yield value[:-1] + ("0" if value[-1] != "0" else "1")
            else:
                yield from {"shoe", "full", "public", "escrow", "start", "daily", "pass", "fail", "bits", "numbers"} - {
                    value
                }
        case list():
            for i, each in enumerate(value):
                for other in changed(each):
                    yield [*value[:i], other, *value[i + 1 :]]
            if value:
                yield value[:-1]


@pytest.fixture(scope="module")
def book() -> Book:
    return asyncio.run(one_hand_a_table())


def findings(book: Book) -> int:
    audited = Audit(book.key, examiner=HandExaminer(book.key, AUDITOR)).run(book)
    assert not audited.log_faults
    return audited.finding_count


def test_the_log_is_without_fault(book: Book) -> None:
    assert findings(book) == 0


def test_a_changed_member_is_found_unless_only_the_service_knows(book: Book) -> None:
    tried: dict[tuple[str, str], int] = defaultdict(int)
    unnoticed: set[tuple[str, str]] = set()
    for i, raw in enumerate(book.entries_raw):
        members = json.loads(raw)
        for name, value in members.items():
            if name in {"v", "type", "prev"}:
                continue  # the first two are the form itself, and the chain is made good below
            for other in changed(value):
                try:
                    entry = parse_entry(canonical({**members, name: other}))
                except MalformedError:
                    continue
                tried[members["type"], name] += 1
                lie = replace(book, entries_raw=[*book.entries_raw[:i], entry.encode(), *book.entries_raw[i + 1 :]])
                if not findings(lie.rewritten(lambda each: [each])):
                    unnoticed.add((members["type"], name))
    assert unnoticed == UNKNOWABLE.keys()
    for kind, entry_class in ENTRY_TYPES.items():
        if entry_class is KeyEntry:
            continue  # tests/rngsvc/cli/test_monitor.py
        for name in members_of(entry_class):
            # Not to be changed without another member: these have no second value of the right form.
            alone = {("close", "outcome"), ("close", "reason"), ("table", "reveal"), ("table", "twin")}
            if (kind, name) not in alone and name != "prev":
                assert tried[kind, name], f"{kind}.{name} was never changed"


@pytest.mark.parametrize("member", UNKNOWABLE, ids=".".join)
def test_what_only_the_service_knows_is_a_member_that_there_is(member: tuple[str, str]) -> None:
    kind, name = member
    assert name in members_of(ENTRY_TYPES[kind])
