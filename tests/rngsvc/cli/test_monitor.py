"""The monitor over a real log, and over the same log with one entry changed: each change has its finding."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rngsvc.client import SyncClient, SyncHand
from rngsvc.frontier import Frontier
from rngsvc.keys.making import AuditorKeys
from rngsvc.monitor import OVERDUE_GRACE_MS, Check, Monitor
from rngsvc.protocol.commitment import promise
from rngsvc.protocol.entries import (
    AuditEntry,
    CloseEntry,
    DrawEntry,
    Entry,
    KeyEntry,
    PromiseEntry,
    ReserveEntry,
    SealEntry,
    TableEntry,
    parse_entry,
)
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.merkle import leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.conftest import RunningService, serve_ephemeral

SEEDS = {b"a": bytes([1]) * 32, b"b": bytes([2]) * 32}


@dataclass(frozen=True)
class PlayedLog:
    """A log of one public table in mode shoe, one under escrow in mode full, a sample and a verdict."""

    key: NoteKey
    root: bytes
    entries: list[bytes]


def promised(hand: SyncHand) -> SyncHand:
    inner = hand.inner
    hand.promise({who: promise(inner.proven.origin, inner.table.id, hand.seq, who, SEEDS[who]) for who in SEEDS})
    return hand


@pytest.fixture(scope="module")
def own_service() -> Iterator[RunningService]:
    yield from serve_ephemeral()


@pytest.fixture(scope="module")
def log(own_service: RunningService) -> PlayedLog:
    auditor = AuditorKeys.load(f"file:{own_service.auditor_keys}")
    with SyncClient.connect(own_service.grpc, log_key=own_service.log_key) as client:
        first, second, third, _ = client.register_table(os.urandom(16)).reserve_many(4)
        promised(first).seal(52, {b"a": SEEDS[b"a"]})
        first.open(0, [0, 1, 2])
        first.open(0, [3])
        first.reshuffle([(0, 0), (0, 51)])
        first.reshuffle([(0, 1), (1, 0)])
        first.open(2, [1])
        first.close()
        promised(second).draw(b"button", 9**9, 3, SEEDS)
        second.close()
        third.close("aborted", "players_left")
        full = client.register_table(os.urandom(16), mode="full", reveal="escrow", auditor=auditor.public_keys)
        hand = full.reserve()
        hand.seal(36)
        hand.close()
        client.audit.record_verdict(0, 5, bytes(32), "pass", auditor.signing.public_key, auditor.signing.sign)
        entries = [entry for run in client.log.entries() for entry in run.entries]
        return PlayedLog(NoteKey.from_vkey(own_service.log_key), client.log.checkpoint().root, entries)


def watched(key: NoteKey, entries: list[bytes]) -> tuple[Monitor, set[Check]]:
    monitor = Monitor(key)
    found = [each for raw in entries for each in monitor.feed(raw)]
    return monitor, {each.check for each in (*found, *monitor.overdue())}


def test_an_honest_log_has_no_finding_and_its_signed_root(log: PlayedLog) -> None:
    monitor, checks = watched(log.key, log.entries)
    assert checks == set()
    assert monitor.root == log.root
    assert monitor.counts["close"] == 4
    assert monitor.outcomes == {"hand complete": 3, "hand aborted": 1, "audit pass": 1, "start integrity check pass": 1}
    (unclosed,) = monitor.unclosed()
    assert (unclosed.seq, unclosed.state) == (4, "reserved")


@pytest.mark.parametrize("size", [*range(1, 40), 255, 256, 257])
def test_the_frontier_has_the_root_of_the_whole_tree(size: int) -> None:
    leaves = [leaf_hash(b"%d" % i) for i in range(size)]
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    assert frontier.root == root_of(leaves)
    assert len(frontier.peaks) == size.bit_count()
    with pytest.raises(ValueError, match="peaks"):
        Frontier(size, frontier.peaks[1:])


def position(log: PlayedLog, kind: type[Entry], number: int = 0) -> int:
    """Where the log's ``number``-th entry of a kind stands."""
    return [i for i, raw in enumerate(log.entries) if isinstance(parse_entry(raw), kind)][number]


Change = Callable[[Any], Entry]


def said(**members: Any) -> Change:
    return lambda entry: replace(entry, **members)


def later(ms: int) -> Change:
    return lambda entry: replace(entry, time=entry.time + ms)


def opened_at(i: int, time: Callable[[int], int]) -> Change:
    """Change the time of the ``i``-th opening that a close lists."""

    def change(entry: CloseEntry) -> Entry:
        opened = list(entry.opened or ())
        opened[i] = (time(opened[i][0]), *opened[i][1:])
        return replace(entry, opened=tuple(opened))

    return change


def opened_also(k: int, place: int) -> Change:
    return lambda entry: replace(entry, opened=(*entry.opened, (entry.time, k, (place,))))


DAY_MS = 86_400_000
LOST: dict[str, Any] = {"outcome": "lost", "reason": "seed_lost", "seed": None, "seeds": None}
CHANGES: list[tuple[str, type[Entry], int, Change, Check]] = [
    ("a table of another mode", TableEntry, 0, said(mode="full"), Check.MEMBERS),
    ("a table of another reveal", TableEntry, 0, said(reveal="escrow", auditor=(bytes(32), bytes(32))), Check.MEMBERS),
    ("a reserve of another table", ReserveEntry, 0, said(table=bytes(16)), Check.TABLE),
    ("a gap in the sequence", ReserveEntry, 0, said(first=2), Check.SEQUENCE),
    ("one commitment twice", ReserveEntry, 0, said(commitments=(bytes(32),) * 4), Check.SEQUENCE),
    ("another commitment", ReserveEntry, 0, lambda e: replace(e, commitments=e.commitments[::-1]), Check.CONTEXT),
    ("a broken chain", ReserveEntry, 0, said(prev=bytes(32)), Check.CHAIN),
    ("time goes back", ReserveEntry, 0, later(-DAY_MS), Check.TIME),
    ("promises of other hands", PromiseEntry, 0, said(first=2), Check.STEP),
    ("promises of no hand", PromiseEntry, 0, said(first=9), Check.STEP),
    ("another promise", PromiseEntry, 0, said(promises=(((b"a", bytes(32)), (b"b", bytes(32))),)), Check.MEMBERS),
    ("a seal of another hand", SealEntry, 0, said(seq=2), Check.SEQUENCE),
    ("another context", SealEntry, 0, said(hc=bytes(32)), Check.CONTEXT),
    ("other contributions", SealEntry, 0, said(cr=bytes(32)), Check.CONTEXT),
    ("another pre", SealEntry, 0, said(pre=bytes(32)), Check.MEMBERS),
    ("absent that never promised", SealEntry, 0, said(absent=(7,)), Check.MEMBERS),
    ("nobody absent", SealEntry, 0, said(absent=()), Check.REVEAL),
    ("another root", SealEntry, 0, said(root=bytes(32)), Check.CONTEXT),
    ("other bytes used", SealEntry, 2, said(used=60_000), Check.REVEAL),
    ("sealed after its expiry", SealEntry, 0, later(2 * DAY_MS), Check.DEADLINE),
    ("a reshuffle out of turn", SealEntry, 1, said(k=3, inputs=((0, 0), (0, 51))), Check.MEMBERS),
    ("a reshuffle of what is not there", SealEntry, 1, said(inputs=((0, 0), (0, 52))), Check.STEP),
    ("a location named twice", SealEntry, 2, said(inputs=((0, 0), (1, 0))), Check.STEP),
    ("another context again", SealEntry, 2, said(hc=bytes(32)), Check.CONTEXT),
    ("another last root", SealEntry, 2, said(root=bytes(32)), Check.REVEAL),
    ("another number drawn", DrawEntry, 0, lambda e: replace(e, values=e.values[::-1]), Check.REVEAL),
    ("another modulus", DrawEntry, 0, said(m=9**9 + 1), Check.REVEAL),
    ("another purpose", DrawEntry, 0, said(purpose=b"seats"), Check.REVEAL),
    ("a close of another hand", CloseEntry, 0, said(seq=2), Check.SEQUENCE),
    ("another seed", CloseEntry, 0, said(seed=bytes(48)), Check.REVEAL),
    ("an escrow where all may see", CloseEntry, 0, said(seed=None, escrow=bytes(96)), Check.MEMBERS),
    ("no contributed seeds", CloseEntry, 0, said(seeds=None), Check.MEMBERS),
    ("a contributed seed less", CloseEntry, 0, lambda e: replace(e, seeds=e.seeds[:1]), Check.REVEAL),
    ("another contributed seed", CloseEntry, 0, lambda e: replace(e, seeds=(bytes(32), b"")), Check.REVEAL),
    ("nothing said of openings", CloseEntry, 0, said(opened=None), Check.MEMBERS),
    ("an opening before the seal", CloseEntry, 0, opened_at(0, lambda _: 0), Check.MEMBERS),
    ("an opening of a named place", CloseEntry, 0, opened_also(0, 51), Check.MEMBERS),
    ("an opening of no place", CloseEntry, 0, opened_also(1, 2), Check.MEMBERS),
    ("an opening of no shuffle", CloseEntry, 0, opened_also(3, 0), Check.MEMBERS),
    ("closed after its expiry", CloseEntry, 0, later(2 * DAY_MS), Check.DEADLINE),
    ("expired before its time", CloseEntry, 2, said(reason="expired"), Check.DEADLINE),
    ("expired out of turn", CloseEntry, 0, said(seq=2, outcome="aborted", reason="expired"), Check.SEQUENCE),
    ("lost out of turn", CloseEntry, 0, said(seq=2, **LOST), Check.SEQUENCE),
    ("lost before what is not closed", CloseEntry, 1, said(seq=4, **LOST), Check.SEQUENCE),
    ("openings listed in mode full", CloseEntry, 3, said(opened=()), Check.MEMBERS),
    ("a verdict on what was not there", AuditEntry, 0, said(last=10**6), Check.VERDICT),
    ("a verdict that nobody signed", AuditEntry, 0, said(sig=bytes(64)), Check.VERDICT),
]  # fmt: skip


@pytest.mark.parametrize(("title", "kind", "number", "change", "check"), CHANGES, ids=[row[0] for row in CHANGES])
def test_a_changed_entry_is_found(
    log: PlayedLog, title: str, kind: type[Entry], number: int, change: Change, check: Check
) -> None:
    index = position(log, kind, number)
    raw = change(parse_entry(log.entries[index])).encode()
    assert raw != log.entries[index]
    monitor, checks = watched(log.key, [*log.entries[:index], raw, *log.entries[index + 1 :]])
    assert check in checks
    assert monitor.root != log.root


@pytest.mark.parametrize("late_ms", [0, 2 * DAY_MS])
def test_a_hand_may_be_declared_lost_in_its_turn_also_long_after_its_expiry(log: PlayedLog, late_ms: int) -> None:
    index = position(log, CloseEntry, 2)
    lost = replace(parse_entry(log.entries[index]), **LOST)
    _, checks = watched(log.key, [*log.entries[:index], later(late_ms)(lost).encode()])
    assert checks == set()


def test_each_entry_left_out_or_told_twice_is_found(log: PlayedLog) -> None:
    for i, raw in enumerate(log.entries):
        entry = parse_entry(raw)
        if not hasattr(entry, "table"):
            continue  # only its root and the signature tell
        last_of_its_table = not any(entry.table.hex() in later.decode() for later in log.entries[i + 1 :])
        _, without = watched(log.key, [*log.entries[:i], *log.entries[i + 1 :]])
        if not last_of_its_table:
            assert without & {Check.CHAIN, Check.TABLE}, entry.type
        _, twice = watched(log.key, [*log.entries[: i + 1], *log.entries[i:]])
        assert twice - {Check.CHAIN}, entry.type


def test_what_cannot_be_read_is_found(log: PlayedLog) -> None:
    _, checks = watched(log.key, [*log.entries, b"{}", log.entries[0] + b"\n"])
    assert checks == {Check.ENTRY}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "entry: must be JSON"),
        (b"{", "entry: must be JSON"),
        (b"[" * 10_000, "entry: must be JSON"),
        (b'{"v":1.5}', "entry: must hold integers only, not 1.5"),
        (b'{"v":1,"v":1}', "v: stands twice"),
        (b"[]", "entry: must be an object"),
        (b"{}", 'v: must be "rs1"'),
    ],
)
def test_what_is_no_entry_is_said_with_a_name(raw: bytes, message: str) -> None:
    with pytest.raises(MalformedError) as refused:
        parse_entry(raw)
    assert str(refused.value) == message


def test_a_hand_that_stays_open_is_found_once_its_time_is_long_over(log: PlayedLog) -> None:
    monitor, _ = watched(log.key, log.entries)
    (unclosed,) = monitor.unclosed()
    for late, found in ((OVERDUE_GRACE_MS, False), (OVERDUE_GRACE_MS + 1, True)):
        sample = parse_entry(log.entries[0])
        _, checks = watched(log.key, [*log.entries, replace(sample, time=unclosed.expires_ms + late).encode()])
        assert (Check.OVERDUE in checks) is found


def changed_key(log: PlayedLog, *, honest: bool) -> tuple[bytes, NoteKey]:
    """An entry that changes the log's key; the old one signs only if the test asks for the true key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    old, new = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = (old.public_key().public_bytes_raw(), new.public_key().public_bytes_raw())
    message = KeyEntry.signed_bytes(log.key.name, *public)
    sigs = (old.sign(message), new.sign(message) if honest else bytes(64))
    entry = KeyEntry(time=parse_entry(log.entries[0]).time, old=public[0], new=public[1], sigs=sigs)
    return entry.encode(), NoteKey(log.key.name, public[0])


@pytest.mark.parametrize("honest", [True, False])
def test_a_change_of_key_needs_both_signatures(log: PlayedLog, honest: bool) -> None:
    raw, first_key = changed_key(log, honest=honest)
    monitor, checks = watched(first_key, [raw])
    assert checks == (set() if honest else {Check.KEY})
    assert (monitor.key != first_key) is honest


def test_a_change_from_a_key_that_the_log_does_not_have_is_found(log: PlayedLog) -> None:
    raw, _ = changed_key(log, honest=True)
    assert watched(log.key, [raw])[1] == {Check.KEY}
