"""`rngsvc audit --open`: an auditor against a real service and hands that a dealer played there, and against cheats."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rngsvc.audit import Audit
from rngsvc.client import SyncClient
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.examiner import Document, HandExaminer, documents_in
from rngsvc.findings import Check
from rngsvc.keys.making import AuditorKeys
from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.commitment import commit
from rngsvc.protocol.entries import (
    AuditEntry,
    CloseEntry,
    Entry,
    ReserveEntry,
    SampleEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.escrow import escrow_info, seal_seed
from rngsvc.protocol.receipt import Receipt
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.audit.books import Book, evening
from tests.rngsvc.cli.command_line import Ran, rngsvc
from tests.rngsvc.conftest import RunningService, serve_ephemeral
from tests.rngsvc.service.world import AUDITOR, AUDITOR_KEYS
from tests.scale import scaled


@dataclass(frozen=True)
class Night:
    """A service, and the hands that `dealer demo --json` played there."""

    service: RunningService
    played: list[dict[str, Any]]

    def audit(self, *arguments: object) -> Ran:
        key = f"file:{self.service.auditor_keys}"
        where = (self.service.http, "--log-key", self.service.log_key)
        return rngsvc("audit", *where, "--json", "--open", "--auditor-key", key, *arguments)


@pytest.fixture(scope="module")
def night() -> Iterator[Night]:
    for service in serve_ephemeral():
        command = (
            *(sys.executable, "-m", "dealer", "demo", "--json", "--hands", str(scaled(1, 20)), "--seed", "5"),
            *("--rngsvc", service.grpc, "--log-key", service.log_key, "--auditor-keys", service.auditor_keys),
        )
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=scaled(120, 1200))
        yield Night(service, [json.loads(line) for line in done.stdout.splitlines()])


def test_an_audit_goes_on_whatever_the_log_is_read_from(night: Night, tmp_path: Path) -> None:
    """With the auditor's key and his state, from the web and from the store by turns, while the log grows."""
    state = ("--state", tmp_path / "state")
    key = (
        "--open",
        "--auditor-key",
        f"file:{night.service.auditor_keys}",
        "--log-key",
        night.service.log_key,
        "--json",
    )
    store = night.service.folder / "log.sqlite3"
    with SyncClient.connect(night.service.grpc, log_key=night.service.log_key) as client:
        for number, source in enumerate((night.service.http, store, night.service.http, store)):
            client.register_table(b"going on".ljust(15) + bytes([number]))
            ran = rngsvc("audit", source, *key, *state)
            assert ran.code == ExitCode.OK, ran.stderr
    whole = rngsvc("audit", night.service.http, *key)
    assert ran.json == whole.json
    without = rngsvc("audit", night.service.http, "--log-key", night.service.log_key, *state)
    assert without.code == ExitCode.USAGE
    assert "auditor" in without.stderr


def as_lines(played: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(hand) + "\n" for hand in played)


def test_every_hand_of_the_demonstration_is_derived_again_and_the_verdict_is_logged(
    night: Night, tmp_path: Path
) -> None:
    lines, folder, report = tmp_path / "all.jsonl", tmp_path / "histories", tmp_path / "report.json"
    lines.write_text(as_lines(night.played))
    folder.mkdir()
    for i, hand in enumerate(night.played):
        (folder / f"{i}.json").write_text(json.dumps(hand["history"]))
    for histories in (lines, folder):
        ran = night.audit("--histories", histories)
        assert ran.code == ExitCode.OK, ran.json["findings"]
        assert ran.json["outcomes"]["hand opened"] == ran.json["entries"]["close"] >= len(night.played)
    size = ran.json["size"]

    ran = night.audit("--histories", lines, "--report", report, "--record", "--target", night.service.grpc)
    assert ran.code == ExitCode.OK, ran.stderr
    keys = AuditorKeys.load(f"file:{night.service.auditor_keys}")
    with SyncClient.connect(night.service.grpc, log_key=night.service.log_key) as client:
        entry = client.log.entry(ran.json["recorded"]).entry
    assert isinstance(entry, AuditEntry)
    entry.verify()
    assert (entry.first, entry.last, entry.verdict) == (0, size - 1, "pass")
    assert entry.signer == keys.signing.public_key, "his Ed25519 key, not the one that opens seeds"
    assert entry.result == sha256(report.read_bytes()).digest()
    assert json.loads(report.read_bytes())["size"] == size
    again = night.audit("--histories", lines)
    assert again.json["outcomes"]["audit pass"] >= 1


def cards(history: dict[str, Any]) -> list[dict[str, Any]]:
    return [card for event in history["events"] for card in event.get("cards", ())]


def folded(history: dict[str, Any]) -> dict[str, Any]:
    """A card that was dealt and never shown to the table."""
    shown = {(each["k"], each["p"]) for each in cards(history) if each["how"] == "shown"}
    return next(e for e in cards(history) if e["how"] == "dealt" and (e["k"], e["p"]) not in shown and "item" in e)


def tell_another_folded_card(history: dict[str, Any]) -> None:
    card = folded(history)
    card["item"] = (card["item"] + 1) % 32


def tell_another_folded_card_without_its_opening(history: dict[str, Any]) -> None:
    card = folded(history)
    openings = history["receipt"]["openings"]
    openings[:] = [each for each in openings if (each["k"], each["p"]) != (card["k"], card["p"])]
    card["item"] = (card["item"] + 1) % 32


def swap_two_cards(history: dict[str, Any]) -> None:
    first, second = [each for each in cards(history) if each["how"] == "dealt" and "item" in each][:2]
    first["item"], second["item"] = second["item"], first["item"]


def tell_another_hand(history: dict[str, Any]) -> None:
    history["receipt"]["seq"] += 1


LIES = [tell_another_folded_card, tell_another_folded_card_without_its_opening, swap_two_cards, tell_another_hand]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_history_that_lies_is_found(night: Night, tmp_path: Path, lie: Callable[[dict[str, Any]], None]) -> None:
    played = json.loads(json.dumps(night.played))
    lie(played[0]["history"])
    lines = tmp_path / "all.jsonl"
    lines.write_text(as_lines(played))
    ran = night.audit("--histories", lines)
    assert ran.code == ExitCode.CHECK_FAILED
    assert {each["check"] for each in ran.json["findings"]} == {"history"}
    assert all(f"{lines}:1" in each["message"] for each in ran.json["findings"])


def test_another_auditor_can_judge_nothing(night: Night, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    assert rngsvc("keygen", "auditor", "-o", other).code == ExitCode.OK
    where = (night.service.http, "--log-key", night.service.log_key, "--json")
    ran = rngsvc("audit", *where, "--open", "--auditor-key", f"file:{other}")
    assert ran.code == ExitCode.UNDECIDED
    assert ran.json["verdict"] == "undecided"
    assert ran.json["outcomes"]["hand escrowed to another auditor"] == ran.json["entries"]["close"]


def test_hands_that_everybody_can_derive_do_not_stand_for_those_that_a_key_does_not_open(
    night: Night, tmp_path: Path
) -> None:
    other, report = tmp_path / "other.key", tmp_path / "report.json"
    assert rngsvc("keygen", "auditor", "-o", other).code == ExitCode.OK
    with SyncClient.connect(night.service.grpc, log_key=night.service.log_key) as client:
        hand = client.register_table(b"revealed to all".ljust(16)).reserve()
        hand.seal(52)
        hand.close()
        where = (night.service.http, "--log-key", night.service.log_key, "--report", report)
        record = ("--record", "--target", night.service.grpc)
        ran = rngsvc("audit", *where, "--open", "--auditor-key", f"file:{other}", *record, "--json")
        assert ran.code == ExitCode.UNDECIDED
        assert ran.json["outcomes"]["hand revealed to all"] == 1
        assert json.loads(report.read_bytes())["verdict"] == "undecided"
        assert client.log.entry(ran.json["recorded"]).entry.verdict == "undecided"  # type: ignore[union-attr]


def test_a_pass_names_only_what_was_checked(night: Night, tmp_path: Path) -> None:
    """No histories were given, and where every hand is public no escrow was opened either."""
    where = ("--log-key", night.service.log_key, "--open", "--auditor-key", f"file:{night.service.auditor_keys}")
    ran = rngsvc("audit", night.service.http, *where)
    assert ran.code == ExitCode.OK
    passed = ran.stdout.splitlines()[-1]
    assert "escrow, derivation, tiles" in passed
    assert "history" not in passed

    lines = tmp_path / "all.jsonl"
    lines.write_text(as_lines(night.played))
    assert "escrow, derivation, history" in rngsvc("audit", night.service.http, *where, "--histories", lines).stdout


def test_a_verdict_on_another_log_is_not_recorded(night: Night, tmp_path: Path) -> None:
    """The audited log is properly signed and without fault, but not the one that the service shows now."""
    signer = SigningKey.load(f"file:{night.service.folder / 'log.key'}")
    with SyncClient.connect(night.service.grpc, log_key=night.service.log_key) as client:
        entries = [raw for run in client.log.entries() for raw in run.entries]
    last = SampleEntry(time=parse_entry(entries[-1]).time, id=b"other", kind="bits", count=1)
    fork = Book(NoteKey.from_vkey(night.service.log_key), signer, [*entries, last.encode()])
    (tmp_path / "fork").mkdir()
    with SyncClient.connect(night.service.grpc, log_key=night.service.log_key) as client:
        client.register_table(bytes(15) + b"f")
        before = client.log.checkpoint().size
        ran = rngsvc(
            *("audit", fork.write(tmp_path / "fork"), "--log-key", night.service.log_key, "--open"),
            *("--auditor-key", f"file:{night.service.auditor_keys}", "--report", tmp_path / "report.json"),
            *("--record", "--target", night.service.grpc),
        )
        assert ran.code == ExitCode.CHECK_FAILED
        assert "LogForked" in ran.stderr
        assert client.log.checkpoint().size == before


USAGE = [
    ("--open",),
    ("--auditor-key", "file:none"),
    ("--record",),
    ("--histories", __file__),
    ("--open", "--auditor-key", "file:none", "--record"),
    ("--open", "--auditor-key", "file:none", "--record", "--target", "127.0.0.1:1"),
    ("--open", "--auditor-key", "file:none", "--histories", __file__, "--state", "x"),
    ("--open", "--auditor-key", "file:none"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_what_does_not_go_together_is_a_usage_error(night: Night, arguments: tuple[str, ...]) -> None:
    ran = rngsvc("audit", night.service.http, "--log-key", night.service.log_key, *arguments)
    assert ran.code == ExitCode.USAGE
    assert ran.stderr


# --- A service that cheats where only the auditor can see it ---


@pytest.fixture(scope="module")
def book() -> Book:
    return asyncio.run(evening())


def examined(book: Book, *documents: Document) -> tuple[set[Check], dict[str, int]]:
    examiner = HandExaminer(book.key, AUDITOR)
    examiner.add(documents)
    audited = Audit(book.key, examiner=examiner).run(book)
    assert not audited.log_faults
    unmatched = examiner.unmatched(audited.checkpoint.size)
    return {each.check for each in (*audited.findings, *unmatched)}, audited.outcomes


def test_an_honest_evening_is_opened_whole(book: Book) -> None:
    checks, outcomes = examined(book)
    assert checks == set()
    closed_under_escrow = [
        entry for _, entry in book.parsed() if isinstance(entry, CloseEntry) and entry.escrow is not None
    ]
    assert outcomes["hand opened"] == len(closed_under_escrow)


def escrowed(entry: CloseEntry, commitment: bytes, seed: bytes) -> CloseEntry:
    info = escrow_info("cardroom.example/rng", entry.table, entry.seq, commitment)
    return replace(entry, escrow=seal_seed(seed, AUDITOR_KEYS[0], info))


def with_escrows(book: Book, make: Callable[[CloseEntry, bytes], CloseEntry]) -> Book:
    """The log with each escrow made anew from its close entry and the hand's commitment."""
    commitments: dict[tuple[bytes, int], bytes] = {}

    def change(entry: Entry) -> list[Entry]:
        if isinstance(entry, ReserveEntry):
            commitments.update(
                {(entry.table, entry.first + i): each for i, each in enumerate(entry.commitments)}
            )  # fmt: skip
        if isinstance(entry, CloseEntry) and entry.escrow is not None:
            return [make(entry, commitments[entry.table, entry.seq])]
        return [entry]

    return book.rewritten(change)


def first_closes_only(book: Book) -> Book:
    """The log up to the first close of each escrow table, so that rewriting a close changes nothing behind it."""
    kept, closed, escrow = [], set(), set()
    for raw in book.entries_raw:
        entry = parse_entry(raw)
        table = getattr(entry, "table", b"")
        if isinstance(entry, TableEntry) and entry.reveal == "escrow":
            escrow.add(table)
        if table in closed or (table and table not in escrow):
            continue
        kept.append(raw)
        if isinstance(entry, CloseEntry):
            closed.add(table)
    return Book(book.key, book.signer, kept)


@pytest.mark.parametrize(
    ("title", "make"),
    [
        ("noise", lambda entry, _commitment: replace(entry, escrow=bytes(96))),
        ("another seed", lambda entry, commitment: escrowed(entry, commitment, bytes(48))),
        ("of another hand", lambda entry, _commitment: escrowed(entry, commit(entry.table, 2, bytes(48)), bytes(48))),
    ],
)
def test_an_escrow_that_does_not_give_the_committed_seed_is_found(
    book: Book, title: str, make: Callable[[CloseEntry, bytes], CloseEntry]
) -> None:
    log = with_escrows(first_closes_only(book), make)
    assert Audit(log.key).run(log).passed, "the public cannot see it"
    checks, _ = examined(log)
    assert checks == {Check.ESCROW}


def test_a_deck_that_does_not_follow_from_the_escrowed_seed_is_found(book: Book) -> None:
    last_seals = {entry.table: i for i, entry in first_closes_only(book).parsed() if isinstance(entry, SealEntry)}
    log = first_closes_only(book)
    for i in last_seals.values():
        log.entries_raw[i] = replace(parse_entry(log.entries_raw[i]), root=bytes(32)).encode()
    log = log.rewritten(lambda entry: [entry])
    assert Audit(log.key).run(log).passed, "the public cannot see it"
    checks, _ = examined(log)
    assert checks == {Check.DERIVATION}


# --- Documents ---


def receipt_of(book: Book, seq: int = 1, table: int = 0) -> Receipt:
    """A bare receipt of a hand: its entries with proofs."""
    tables = [entry.table for _, entry in book.parsed() if isinstance(entry, TableEntry)]
    indices = [i for i, entry in book.parsed() if getattr(entry, "table", None) == tables[table]][:6]
    entries = []
    for i in indices:
        entry = parse_entry(book.entries_raw[i])
        if getattr(entry, "seq", seq) == seq:
            entries.append(book.logged(i))
    return Receipt(origin=book.key.name, table=tables[table], seq=seq, entries=tuple(entries))


def test_a_receipt_from_another_log_of_the_same_name_is_found(book: Book) -> None:
    (mine,) = documents_in("mine", receipt_of(book).encode())
    assert examined(book, mine)[0] == set()
    # The same hand, told to somebody else in a log of its own, properly signed.
    other = book.rewritten(lambda e: [replace(e, ttl=7200) if isinstance(e, TableEntry) else e])
    receipt = receipt_of(other)
    (theirs,) = documents_in("theirs", replace(receipt, entries=receipt.entries[:2]).encode())
    assert examined(book, theirs)[0] == {Check.HISTORY}


def test_a_document_of_a_hand_that_is_not_in_the_log_is_found(book: Book) -> None:
    stranger = Document("stranger", "{}", bytes(16), 1)
    assert examined(book, stranger)[0] == {Check.HISTORY}


@pytest.mark.parametrize(
    "text", ["", "[]", "[1]", "{}", '{"history": 1}', "nonsense", '{"format": "rs1-receipt/2"}\n{}']
)
def test_what_is_no_document_is_refused(text: str) -> None:
    if text:
        with pytest.raises(MalformedError):
            list(documents_in("file", text))
    else:
        assert list(documents_in("file", text)) == []
