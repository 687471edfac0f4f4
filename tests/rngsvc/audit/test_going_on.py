"""An audit that stops and goes on says what one without a break says, and notices another log in between."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.audit import Audit, Audited, SourceUnreadable
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.findings import Check
from rngsvc.frontier import Frontier
from rngsvc.keys.signing import SigningKey
from rngsvc.monitor import Monitor, peaks_of
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.entries import (
    OLD_KEY_MS,
    CloseEntry,
    Entry,
    IntegrityEntry,
    KeyEntry,
    PromiseEntry,
    SampleEntry,
    SealEntry,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.merkle import leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.tiles import WIDTH
from rngsvc.saved_audit import SavedAudit
from tests.rngsvc.audit.books import Book, evening
from tests.rngsvc.cli.command_line import rngsvc
from tests.scale import scaled


@pytest.fixture(scope="module")
def book() -> Book:
    return asyncio.run(evening())


@pytest.fixture(scope="module")
def faulty(book: Book) -> Book:
    """A log in which hands are spoilt, given up, closed twice, and left open."""

    def spoil(entry: Entry) -> list[Entry]:
        match entry:
            case SealEntry(seq=2, k=1):
                return [replace(entry, hc=bytes(32))]
            case SealEntry(seq=7, k=0):
                return [replace(entry, cr=bytes(32))]
            case PromiseEntry(first=7):
                return [entry, replace(entry, promises=entry.promises[:1])]
            case CloseEntry(seq=5):
                return [entry, entry]
            case CloseEntry(seq=4):
                return []
            case CloseEntry(seq=1):
                return [entry, replace(entry, seq=2**53 - 1)]
        return [entry]

    return book.rewritten(spoil)


@pytest.fixture(scope="module")
def unchecked(book: Book) -> Book:
    """A log whose service checks itself too rarely, and fails once."""
    hour = 3_600_000

    def check(kind: str, at: int, verdict: str = "pass") -> bytes:
        return IntegrityEntry(time=at * hour, kind=kind, code=bytes(32), results=(bytes(32), verdict)).encode()

    def sample(at: int) -> bytes:
        return SampleEntry(time=at * hour, id=b"%d" % at, kind="bits", count=1).encode()

    log = [check("start", 0), sample(20), sample(27), sample(30), check("daily", 31, "fail"), sample(50), sample(60),
           check("start", 90), sample(91), check("daily", 92), sample(93)]  # fmt: skip
    return Book(book.key, book.signer, log)


def saved_at(book: Book, size: int, file: Path) -> None:
    Audit(book.key, save=lambda saved: saved.write(file)).run(book.until(size))


def said(audited: Audited) -> dict[str, Any]:
    return {name: getattr(audited, name) for name in audited.__slots__ if name != "note"}


@pytest.mark.parametrize("kind", ["book", "faulty", "unchecked"])
def test_a_break_at_any_entry_changes_nothing(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    log: Book = request.getfixturevalue(kind)
    whole = Audit(log.key).run(log)
    assert whole.passed is (kind == "book")
    size = len(log.entries_raw)
    file = tmp_path / "state"
    for cut in range(0, size + 1, scaled(7, 1) if size > 20 else 1):
        saved_at(log, cut, file)
        assert said(Audit(log.key, resume_from=SavedAudit.read(file)).run(log)) == said(whole)


def test_many_breaks_change_nothing(book: Book, tmp_path: Path) -> None:
    file = tmp_path / "state"
    saved = None
    for cut in [*range(0, len(book.entries_raw), 11), len(book.entries_raw)]:
        audited = Audit(book.key, save=lambda each: each.write(file), resume_from=saved).run(book.until(cut))
        saved = SavedAudit.read(file)
        assert saved.size == cut
    assert said(audited) == said(Audit(book.key).run(book))


def samples(book: Book, count: int) -> Book:
    made = [SampleEntry(time=i, id=b"%d" % i, kind="bits", count=1).encode() for i in range(count)]
    return Book(book.key, book.signer, made)


@pytest.mark.parametrize("cut", [1, 255, 256, 257, 511, 512, 700])
def test_tiles_are_compared_across_the_break(book: Book, tmp_path: Path, cut: int) -> None:
    log, file = samples(book, 700), tmp_path / "state"
    saved_at(log, cut, file)
    assert Audit(log.key, resume_from=SavedAudit.read(file)).run(log).passed

    class Damaged(Book):
        def hashes(self, tile: Any) -> bytes:
            good = super().hashes(tile)
            return bytes(32) + good[32:] if (tile.level, tile.width) == (0, 700 - 512) else good

    # The consistency proof reads the damaged tile too, or the comparison at the end finds it.
    audited = Audit(log.key, resume_from=SavedAudit.read(file)).run(Damaged(log.key, log.signer, log.entries_raw))
    assert not audited.passed


@pytest.mark.parametrize("size", [*range(1, 40), 255, 256, 257, 1000, scaled(1001, 65_793)])
def test_peaks_follow_from_the_partial_tiles(size: int) -> None:
    leaves = [leaf_hash(b"%d" % i) for i in range(size)]
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    edge, level = [], leaves
    while level:
        full = len(level) // WIDTH * WIDTH
        edge.append(b"".join(level[full:]))
        level = [root_of(level[i : i + WIDTH]) for i in range(0, full, WIDTH)]
    assert peaks_of(size, edge) == frontier.peaks


def fork_at(book: Book, index: int) -> Book:
    """The log as it could be told to somebody else: one entry is another, all signed."""
    raw = list(book.entries_raw)
    raw[index] = SampleEntry(time=parse_entry(raw[index]).time, id=b"other", kind="bits", count=1).encode()
    return Book(book.key, book.signer, raw)


@pytest.mark.parametrize("index", [0, 17, 39])
def test_a_log_that_was_rewritten_in_between_is_a_fork(book: Book, tmp_path: Path, index: int) -> None:
    file = tmp_path / "state"
    saved_at(book, 40, file)
    before = file.read_bytes()
    audited = Audit(
        book.key, save=lambda saved: saved.write(file), resume_from=SavedAudit.read(file)
    ).run(fork_at(book, index))  # fmt: skip
    assert not audited.passed
    assert "does not continue its first 40 entries" in audited.log_faults[0]
    assert file.read_bytes() == before, "what was seen before is kept as evidence"
    held, offered = audited.evidence
    for note in (held, offered):
        SignedNote.parse(note).verified([book.key])
    assert held != offered


def test_a_log_that_became_shorter_was_rolled_back(book: Book, tmp_path: Path) -> None:
    file = tmp_path / "state"
    saved_at(book, 40, file)
    audited = Audit(book.key, resume_from=SavedAudit.read(file)).run(book.until(39))
    assert "had 40 entries when it was last seen, and now has 39" in audited.log_faults[0]


def test_an_interrupted_audit_goes_on_from_its_last_save(
    book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rngsvc.audit.SAVED_EVERY", 256)
    log, file = samples(book, 700), tmp_path / "state"

    class Breaks(Book):
        def entries(self, tile: Any) -> list[bytes]:
            if tile.index == 2:
                raise SourceUnreadable("the line is dead")
            return super().entries(tile)

    with pytest.raises(SourceUnreadable):
        Audit(log.key, save=lambda saved: saved.write(file)).run(Breaks(log.key, log.signer, log.entries_raw))
    saved = SavedAudit.read(file)
    assert (saved.size, saved.checkpoint) == (512, None)
    assert Audit(log.key, resume_from=saved).run(log).passed
    forked = Audit(log.key, resume_from=saved).run(fork_at(log, 3))
    assert "does not continue its first 512 entries" in forked.log_faults[0]


STATE_DAMAGES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("another version", lambda s: s.update(format="rngsvc-audit/2"), "format"),
    ("no size", lambda s: s.pop("size"), "size"),
    ("a member more", lambda s: s.update(more=1), "more"),
    ("another size", lambda s: s.update(size=s["size"] + 1), "edge"),
    ("edge too short", lambda s: s.update(edge=[]), "edge"),
    ("an unknown check", lambda s: s.update(findings=[{"check": "luck", "index": 0, "message": "x"}]), "check"),
    ("not an entry", lambda s: s["tables"][0]["table"].update(entry="{}"), "v"),
]


@pytest.mark.parametrize(("title", "damage", "named"), STATE_DAMAGES, ids=[row[0] for row in STATE_DAMAGES])
def test_a_damaged_state_is_refused_by_the_name_of_what_is_wrong(
    book: Book, tmp_path: Path, title: str, damage: Callable[[dict[str, Any]], object], named: str
) -> None:
    file = tmp_path / "state"
    saved_at(book, 60, file)
    members = json.loads(file.read_text())
    damage(members)
    file.write_text(json.dumps(members))
    with pytest.raises(MalformedError) as raised:
        Audit(book.key, resume_from=SavedAudit.read(file)).run(book)
    assert named in raised.value.field


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{"])
def test_what_is_no_state_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state"
    file.write_bytes(content)
    with pytest.raises(MalformedError):
        SavedAudit.read(file)


def test_a_state_of_another_audit_is_refused(book: Book, tmp_path: Path) -> None:
    file = tmp_path / "state"
    saved_at(book, 60, file)
    saved = SavedAudit.read(file)
    for member, other in (
        ("first_key", Audit(NoteKey(book.key.name, bytes(32)), resume_from=saved)),
        ("origin", Audit(NoteKey("other.example", book.key.public_key), resume_from=saved)),
        ("auditor", Audit(book.key, auditor=bytes(32), resume_from=saved)),
    ):
        with pytest.raises(MalformedError) as raised:
            other.run(book)
        assert raised.value.field == member


# --- Two keys ---


def changed_key(book: Book) -> tuple[Book, SigningKey]:
    """The log with a new key from its 40th entry on; ``until`` and the signatures are up to the test."""
    new = SigningKey(Ed25519PrivateKey.from_private_bytes(b"new log key".ljust(32, b".")))
    message = KeyEntry.signed_bytes(book.key.name, book.key.public_key, new.public_key)
    time = parse_entry(book.entries_raw[39]).time
    entry = KeyEntry(
        time=time, old=book.key.public_key, new=new.public_key, sigs=(book.signer.sign(message), new.sign(message))
    )
    return Book(book.key, book.signer, [*book.entries_raw[:40], entry.encode()]), new


@pytest.mark.parametrize("cut", [40, 41, 42])
def test_a_key_that_was_replaced_does_not_come_back(book: Book, tmp_path: Path, cut: int) -> None:
    log, new = changed_key(book)
    message = KeyEntry.signed_bytes(log.key.name, new.public_key, log.key.public_key)
    back = KeyEntry(
        time=parse_entry(log.entries_raw[-1]).time,
        old=new.public_key,
        new=log.key.public_key,
        sigs=(new.sign(message), log.signer.sign(message)),
    )
    log.entries_raw.append(back.encode())
    saved: list[SavedAudit] = []

    class Quiet(Book):
        """Signed by both, so that only the entries are at fault."""

        def note(self, size: int | None = None) -> str:
            both = SignedNote.parse(super().note(size))
            return both.with_signature(NoteKey(self.key.name, new.public_key), new.sign).encode()

    quiet = Quiet(log.key, log.signer, log.entries_raw)
    Audit(log.key, save=saved.append).run(quiet.until(cut))
    audited = Audit(log.key, resume_from=saved[-1]).run(quiet)
    assert [(each.check, each.index) for each in audited.findings] == [(Check.KEY, 41)]


@pytest.mark.parametrize(
    ("later_ms", "signers", "passes"),
    [
        (0, "old new", True),
        (0, "new", False),
        (0, "old", False),
        (OLD_KEY_MS, "new", False),
        (OLD_KEY_MS + 1, "new", True),
        (OLD_KEY_MS + 1, "old new", True),
        (OLD_KEY_MS + 1, "old", False),
    ],
)
def test_both_keys_sign_for_thirty_days_then_the_new_one(
    book: Book, tmp_path: Path, later_ms: int, signers: str, passes: bool
) -> None:
    log, new = changed_key(book)
    since = parse_entry(log.entries_raw[-1]).time
    log.entries_raw.append(SampleEntry(time=since + later_ms, id=b"1", kind="bits", count=1).encode())
    keys = {"old": (book.key, book.signer), "new": (NoteKey(book.key.name, new.public_key), new)}
    monitor = Monitor(book.key)
    for raw in log.entries_raw:
        monitor.feed(raw)
    text = Checkpoint(book.key.name, len(log.entries_raw), monitor.root).text

    class Signed(Book):
        def checkpoint(self) -> str:
            note = SignedNote(text, ())
            for signer in signers.split():
                note = note.with_signature(keys[signer][0], keys[signer][1].sign)
            return note.encode()

    file = tmp_path / "state"
    saved_at(book, 40, file)
    for begun in (None, SavedAudit.read(file)):
        audited = Audit(book.key, resume_from=begun).run(Signed(log.key, log.signer, log.entries_raw))
        assert bool(audited.log_faults) is not passes, audited.log_faults


# --- The command ---


def test_the_command_keeps_its_state_and_says_the_same(book: Book, faulty: Book, tmp_path: Path) -> None:
    state = tmp_path / "state"
    for log, code in ((book, ExitCode.OK), (faulty, ExitCode.CHECK_FAILED)):
        state.unlink(missing_ok=True)
        for size in (50, 90, len(log.entries_raw)):
            source = log.until(size).write(tmp_path / f"{code}-{size}")
            ran = rngsvc("audit", source, "--log-key", log.key.vkey, "--state", state, "--json")
        fresh = rngsvc("audit", source, "--log-key", log.key.vkey, "--json")
        assert ran.code == fresh.code == code
        assert ran.json == fresh.json
    assert Check.CONTEXT in {each["check"] for each in fresh.json["findings"]}


def test_the_command_names_a_state_that_it_cannot_use(book: Book, tmp_path: Path) -> None:
    state = tmp_path / "state"
    source = book.write(tmp_path / "log")
    state.write_text("{}")
    ran = rngsvc("audit", source, "--log-key", book.key.vkey, "--state", state)
    assert ran.code == ExitCode.USAGE
    assert "format" in ran.stderr
    ran = rngsvc("audit", source, "--log-key", book.key.vkey, "--state", tmp_path / "no" / "state")
    assert ran.code == ExitCode.USAGE
