"""A real service changes its log's key twice: callers, receipts and auditors follow, and a crash changes nothing."""

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from rngsvc.audit import Audit, StoreFile, TilesUrl
from rngsvc.client import SyncClient, SyncHand, TilesLog
from rngsvc.commands.exit_codes import ExitCode
from rngsvc.protocol.entries import KeyEntry, parse_entry
from rngsvc.protocol.receipt import Receipt
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.protocol.verify import verify
from rngsvc.upgrade import upgrade
from tests.browser.engines import Node, steps_of, verify_all
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.rotation.room import ORIGIN, Room
from tests.scale import scaled

KEYS_OVER_TIME = ("a", "ba", "ba", "cb")


def played(client: SyncClient, table: bytes) -> SyncHand:
    hand = client.register_table(table).reserve()
    hand.seal(52)
    hand.open(0, range(5))
    hand.close()
    return hand


def signers(room: Room, note: str) -> list[str]:
    """Which of the room's keys signed a checkpoint, in the note's order."""
    names = {NoteKey.from_vkey(vkey).key_id: name for name, vkey in room.vkeys.items()}
    return [names[line.key_id] for line in SignedNote.parse(note).signatures]


def key_entries(room: Room) -> list[KeyEntry]:
    with sqlite3.connect(f"file:{room.store}?mode=ro", uri=True) as store:
        rows = store.execute("SELECT entry FROM entry WHERE kind = 'key' ORDER BY position").fetchall()
    store.close()
    return [entry for (raw,) in rows if isinstance(entry := parse_entry(bytes(raw)), KeyEntry)]


class Rotated:
    """A room whose service ran with each of `KEYS_OVER_TIME`; a hand was played, and its receipt kept, each time."""

    def __init__(self, folder: Path) -> None:
        self.room = Room(folder)
        self.receipts: list[bytes] = []
        self.notes: list[str] = []
        for keys in KEYS_OVER_TIME:
            with self.room.serving(keys) as ready:
                assert ready["log_key"] == self.room.vkeys["a"], "everybody is given the first key"
                with SyncClient.connect(ready["grpc"], log_key=ready["log_key"]) as client:
                    self.receipts.append(played(client, os.urandom(16)).receipt())
                    self.notes.append(client.newest_checkpoint.note)


@pytest.fixture(scope="module")
def rotated(tmp_path_factory: pytest.TempPathFactory) -> Rotated:
    return Rotated(tmp_path_factory.mktemp("rotated"))


@pytest.fixture(scope="module")
def ready(rotated: Rotated) -> Iterator[Mapping[str, str]]:
    """That room's service, running again with the keys that it had last."""
    with rotated.room.serving(KEYS_OVER_TIME[-1]) as ready:
        yield ready


def test_the_new_key_signs_first_and_the_old_one_with_it(rotated: Rotated) -> None:
    assert [signers(rotated.room, note) for note in rotated.notes] == [["a"], ["b", "a"], ["b", "a"], ["c", "b"]]


def test_the_log_holds_one_entry_for_each_change_signed_by_both_keys(rotated: Rotated) -> None:
    public = {name: NoteKey.from_vkey(vkey).public_key for name, vkey in rotated.room.vkeys.items()}
    entries = key_entries(rotated.room)
    assert [(each.old, each.new) for each in entries] == [(public["a"], public["b"]), (public["b"], public["c"])]
    for each in entries:
        each.verify(ORIGIN)


def test_receipts_from_before_and_after_each_change_verify_with_the_first_key(rotated: Rotated) -> None:
    changes = [verify(each, rotated.room.vkeys["a"]).require().step("keys").detail for each in rotated.receipts]
    assert changes == ["0 changes of key", "1 change of key", "1 change of key", "2 changes of key"]


def test_the_pages_checker_says_the_same_of_these_receipts(rotated: Rotated) -> None:
    first = rotated.room.vkeys["a"]
    reports = verify_all(Node(), [(each, first, None) for each in rotated.receipts])
    assert reports == [steps_of(verify(each, first)) for each in rotated.receipts]


def test_a_receipt_without_its_changes_of_key_or_with_a_forged_one_fails(rotated: Rotated) -> None:
    receipt = json.loads(rotated.receipts[-1])
    at = [i for i, each in enumerate(receipt["entries"]) if '"type":"key"' in each["entry"]]
    without = {**receipt, "entries": [each for i, each in enumerate(receipt["entries"]) if i not in at]}
    forged = json.loads(rotated.receipts[-1])
    entry = parse_entry(forged["entries"][at[-1]]["entry"].encode())
    assert isinstance(entry, KeyEntry)
    swapped = replace(entry, sigs=(entry.sigs[1], entry.sigs[0]))
    forged["entries"][at[-1]]["entry"] = swapped.encode().decode()
    for document, failing in ((without, {"checkpoints"}), (forged, {"keys", "inclusion"})):
        report = verify(json.dumps(document), rotated.room.vkeys["a"])
        assert failing <= {step.id for step in report.failures}


@pytest.mark.parametrize("known", ["a", "b", "c"])
def test_whoever_knows_any_of_the_keys_goes_on_with_the_newest(
    rotated: Rotated, ready: Mapping[str, str], known: str
) -> None:
    log_key = rotated.room.vkeys[known]
    with SyncClient.connect(ready["grpc"], log_key=log_key, consistency="always") as client:
        receipt = played(client, os.urandom(16)).receipt()
        assert len(client.log.key_entries()) == 2
    assert verify(receipt, rotated.room.vkeys["a"]).require().step("keys").detail == "2 changes of key"


def test_a_restarted_game_server_follows_from_its_kept_checkpoint_and_goes_on_with_its_hand(tmp_path: Path) -> None:
    room = Room(tmp_path)
    table = os.urandom(16)
    with room.serving("a") as ready, SyncClient.connect(ready["grpc"], log_key=room.vkeys["a"]) as client:
        hand = client.register_table(table).reserve()
        hand.seal(52)
        kept = client.newest_checkpoint.note
    with (
        room.serving("ba") as ready,
        SyncClient.connect(ready["grpc"], log_key=room.vkeys["a"], known_checkpoint=kept) as client,
    ):
        hand = client.hand(table, 1)
        hand.seal(52)
        hand.open(0, [0, 1])
        hand.close()
        receipt = hand.receipt()
    assert verify(receipt, room.vkeys["a"]).require().step("keys").detail == "1 change of key"


def test_the_public_part_of_a_hand_brings_the_changes_of_key(rotated: Rotated, ready: Mapping[str, str]) -> None:
    receipt = json.loads(rotated.receipts[0])
    public = urlopen(f"{ready['http']}/hands/{receipt['table']}/{receipt['seq']}").read()
    assert urlopen(f"{ready['http']}/log-key").read().decode().strip() == rotated.room.vkeys["a"]
    assert verify(public, rotated.room.vkeys["a"]).require().step("keys").detail == "2 changes of key"


class AsCosigned(TilesUrl):
    """A log whose newest checkpoint stands for a cosigned one: upgrading looks at no cosignature."""

    def cosigned_checkpoint(self) -> str:
        return self.checkpoint()


def test_an_upgraded_receipt_takes_in_the_changes_of_key_since_it_was_made(
    rotated: Rotated, ready: Mapping[str, str]
) -> None:
    for receipt in rotated.receipts:
        upgraded = upgrade(Receipt.parse(receipt.decode()), AsCosigned(ready["http"])).encode()
        assert verify(upgraded, rotated.room.vkeys["a"]).require().step("keys").detail == "2 changes of key"


def test_an_audit_of_the_whole_log_passes(rotated: Rotated) -> None:
    audited = Audit(NoteKey.from_vkey(rotated.room.vkeys["a"])).run(StoreFile(rotated.room.store))
    assert (audited.passed, audited.counts["key"]) == (True, 2), audited.log_faults


@pytest.mark.parametrize("known", ["a", "b", "c"])
def test_the_keys_are_listed_from_service_and_tiles(rotated: Rotated, ready: Mapping[str, str], known: str) -> None:
    for where in (("--target", ready["grpc"]), ("--url", ready["http"])):
        ran = rngsvc("log", "keys", *where, "--log-key", rotated.room.vkeys[known])
        assert ran.code == ExitCode.OK, ran.stderr
        lines = ran.stdout.splitlines()
        assert [line.split()[0] for line in lines] == [rotated.room.vkeys[name] for name in "abc"]
        shown = rngsvc("log", "keys", *where, "--log-key", rotated.room.vkeys[known], "--json").json
        assert shown["first"] == rotated.room.vkeys["a"]
        assert [each["key"] for each in shown["changes"]] == [rotated.room.vkeys[name] for name in "bc"]


@pytest.mark.parametrize("known", ["a", "b", "c"])
def test_tiles_are_read_by_whoever_knows_any_of_the_keys(
    rotated: Rotated, ready: Mapping[str, str], known: str
) -> None:
    log = TilesLog(TilesUrl(ready["http"]), NoteKey.from_vkey(rotated.room.vkeys[known]))
    assert log.entry(0).index == 0


@pytest.mark.parametrize("where", ["--target", "--url"])
def test_a_stranger_to_all_keys_is_shown_nothing(rotated: Rotated, ready: Mapping[str, str], where: str) -> None:
    address = ready["grpc" if where == "--target" else "http"]
    ran = rngsvc("log", "checkpoint", where, address, "--log-key", rotated.room.vkeys["d"])
    assert (ran.code, ran.stdout) == (ExitCode.CHECK_FAILED, "")
    assert "no key entry follows a key that is trusted" in ran.stderr


def test_a_kill_at_any_moment_of_the_change_leaves_it_whole_or_not_begun(tmp_path: Path) -> None:
    room = Room(tmp_path)
    with room.serving("a"):
        pass
    started = time.monotonic()
    with room.serving("a"):
        until_ready_s = time.monotonic() - started
    kills = scaled(4, 200)
    for kill in range(kills):
        if key_entries(room):
            break
        with room.process("ba") as process:
            time.sleep(until_ready_s * (0.5 + 0.6 * kill / kills))
            process.kill()
            process.communicate()
    # Whatever was left behind, the next start goes on from it.
    with room.serving("ba") as ready, SyncClient.connect(ready["grpc"], log_key=room.vkeys["a"]) as client:
        receipt = played(client, os.urandom(16)).receipt()
        assert signers(room, client.newest_checkpoint.note) == ["b", "a"]
    with room.process("b") as process:
        out, log = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.STOPPED, "")
    assert "previous_signing_key must be" in log
    assert len(key_entries(room)) == 1
    assert verify(receipt, room.vkeys["a"]).require().step("keys").detail == "1 change of key"
    audited = Audit(NoteKey.from_vkey(room.vkeys["a"])).run(StoreFile(room.store))
    assert audited.passed, audited.log_faults
