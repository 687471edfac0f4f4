"""The rule by which keys follow each other and sign: all starts that are refused, the thirty days, writes that fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.config import MAX_ORIGIN_CHARACTERS
from rngsvc.errors import TryAgain
from rngsvc.head_guard import FileGuard
from rngsvc.keys.signing import SigningKey
from rngsvc.log import Log
from rngsvc.log_keys import KeysRefused, LogKeys
from rngsvc.ports import Store
from rngsvc.protocol.entries import OLD_KEY_MS, KeyEntry, SampleEntry
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.sequencer import Batch, Sequencer
from rngsvc.serve import StartRefused, _check_log
from rngsvc.store.memory import Disk, MemoryStore
from rngsvc.tables import Tables
from tests.rngsvc.service.world import START_MS, FakeClock, SeededEntropy
from tests.simulation.faults import FAULTS, REFUSED, STORED_BUT_FAILED, FaultyStore

pytestmark = pytest.mark.asyncio

ORIGIN = "cardroom.example/rng"
KEYS = {name: SigningKey(Ed25519PrivateKey.from_private_bytes(name.encode() * 32)) for name in "abcd"}
NAMES = {NoteKey(ORIGIN, key.public_key).key_id: name for name, key in KEYS.items()}


@dataclass
class KeyedLog:
    """A log on one disk, started again and again with other keys, as `rngsvc.serve.start` does."""

    disk: Disk = field(default_factory=Disk)
    clock: FakeClock = field(default_factory=FakeClock)

    @asynccontextmanager
    async def running(self, keys: str, store: Store | None = None) -> AsyncIterator[Sequencer]:
        """Start with ``keys``, the signing key first, and change the key if that is due."""
        store = store or MemoryStore(self.disk)
        head = await store.open()
        sequencer = None
        try:
            log = await Log.load(store, head)
            signer, *previous = (KEYS[name] for name in keys)
            found = await LogKeys.load(ORIGIN, log, signer, previous[0] if previous else None, self.clock.now_ms())
            await _check_log(log, found, None)
            entropy = SeededEntropy()
            sequencer = Sequencer(store, log, Tables(store, log), self.clock, entropy, found.sign)
            sequencer.start()
            if found.change_is_due:
                log.key_positions.append(await sequencer.submit(found.change))
            yield sequencer
        finally:
            if sequencer:
                sequencer._draining = True
                sequencer._wake.set()
                await asyncio.gather(sequencer._task or asyncio.sleep(0), return_exceptions=True)
            await store.close()

    async def run(self, *starts: str) -> list[str]:
        """Start with each of ``starts`` and log an entry; return who signed each newest checkpoint."""
        signed = []
        for keys in starts:
            async with self.running(keys) as sequencer:
                await sequencer.submit(log_sample)
            signed.append(self.signers())
        return signed

    def signers(self) -> str:
        assert self.disk.head
        note = SignedNote.parse(self.disk.head.checkpoint.decode())
        return "".join(NAMES[line.key_id] for line in note.signatures)


def log_sample(batch: Batch) -> None:
    batch.append("sample", SampleEntry(time=batch.time, id=b"sample", kind="bits", count=1).encode())


@pytest.mark.parametrize(
    ("starts", "signed"),
    [
        (["a"], ["a"]),
        (["ab"], ["a"]),  # a new log has no key before its first one
        (["a", "a"], ["a", "a"]),
        (["a", "aa"], ["a", "a"]),
        (["a", "ba"], ["a", "ba"]),
        (["a", "ba", "ba"], ["a", "ba", "ba"]),
        (["a", "ba", "cb"], ["a", "ba", "cb"]),
        (["a", "ba", "cb", "dc"], ["a", "ba", "cb", "dc"]),
    ],
)
async def test_who_signs_after_these_starts(starts: list[str], signed: list[str]) -> None:
    assert await KeyedLog().run(*starts) == signed


@pytest.mark.parametrize(
    ("starts", "refused", "why"),
    [
        (["a"], "b", "not one of this origin and signing key"),
        (["a"], "bc", "not one of this origin and signing key"),
        (["a", "ba"], "a", "one of them must be the log's"),
        (["a", "ba"], "c", "one of them must be the log's"),
        (["a", "ba"], "ca", "one of them must be the log's"),
        (["a", "ba"], "b", "previous_signing_key must be"),
        (["a", "ba"], "bc", "previous_signing_key must be"),
        (["a", "ba"], "ab", "was replaced before and cannot come back"),
        (["a", "ba", "cb"], "ac", "was replaced before and cannot come back"),
        (["a", "ba", "cb"], "ba", "one of them must be the log's"),
    ],
)
async def test_other_keys_are_refused_and_nothing_is_logged(starts: list[str], refused: str, why: str) -> None:
    log = KeyedLog()
    await log.run(*starts)
    before = log.disk.head
    with pytest.raises((KeysRefused, StartRefused), match=why):
        await log.run(refused)
    assert log.disk.head == before


@pytest.mark.parametrize(
    ("later_ms", "keys", "signed"),
    [
        (0, "ba", "ba"),
        (OLD_KEY_MS, "ba", "ba"),
        (OLD_KEY_MS + 1, "ba", "b"),
        (OLD_KEY_MS + 1, "b", "b"),
        (OLD_KEY_MS + 1, "bd", "b"),
        (OLD_KEY_MS + 1, "cb", "cb"),
    ],
)
async def test_the_old_key_signs_for_thirty_days(later_ms: int, keys: str, signed: str) -> None:
    log = KeyedLog()
    await log.run("a", "ba")
    log.clock.ms = START_MS + later_ms
    assert await log.run(keys) == [signed]


async def test_the_thirty_days_end_while_the_service_runs() -> None:
    log = KeyedLog()
    await log.run("a", "ba")
    async with log.running("ba") as sequencer:
        for later_ms, signed in ((OLD_KEY_MS, "ba"), (OLD_KEY_MS + 1, "b")):
            log.clock.ms = START_MS + later_ms
            await sequencer.submit(log_sample)
            assert log.signers() == signed


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_write_of_a_change_fails_and_the_next_start_goes_on_from_what_is_there(fault: str) -> None:
    log = KeyedLog()
    await log.run("a")
    with pytest.raises(Exception, match=r"told to|another than") as failed:
        async with log.running("ba", FaultyStore(MemoryStore(log.disk), fault, 0)):
            pass
    assert isinstance(failed.value, TryAgain) == (fault == REFUSED)
    assert len(log.disk.key_entries) == (fault == STORED_BUT_FAILED)
    assert await log.run("ba") == ["ba"]
    assert len(log.disk.key_entries) == 1


async def test_a_refused_change_is_undone_and_made_the_next_time() -> None:
    log = KeyedLog()
    await log.run("a")
    store = FaultyStore(MemoryStore(log.disk), REFUSED, 0)
    head = await store.open()
    loaded = await Log.load(store, head)  # type: ignore[arg-type]
    keys = await LogKeys.load(ORIGIN, loaded, KEYS["b"], KEYS["a"], START_MS)
    sequencer = Sequencer(store, loaded, Tables(store, loaded), log.clock, SeededEntropy(), keys.sign)  # type: ignore[arg-type]
    sequencer.start()
    with pytest.raises(TryAgain):
        await sequencer.submit(keys.change)
    assert keys.change_is_due
    await sequencer.submit(log_sample)
    assert log.signers() == "a"
    await sequencer.submit(keys.change)
    assert log.signers() == "ba"
    await sequencer.drain()
    await store.close()


def forged(old: str, new: str, by: str) -> KeyEntry:
    """A change from ``old`` to ``new`` that the two keys in ``by`` have signed."""
    public = KEYS[old].public_key, KEYS[new].public_key
    message = KeyEntry.signed_bytes(ORIGIN, *public)
    first, second = (KEYS[name].sign(message) for name in by)
    return KeyEntry(time=START_MS, old=public[0], new=public[1], sigs=(first, second))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (forged("a", "d", "dd"), "the old key's signature in the key entry is not valid"),
        (forged("a", "d", "aa"), "the new key's signature in the key entry is not valid"),
        (forged("a", "d", "da"), "the old key's signature in the key entry is not valid"),
        (replace(forged("a", "d", "ad"), new=KEYS["c"].public_key), "the old key's signature"),
    ],
)
async def test_a_forged_key_entry_in_the_store_is_refused_at_the_start(entry: KeyEntry, why: str) -> None:
    log = KeyedLog()
    async with log.running("a") as sequencer:
        await sequencer.submit(lambda batch: batch.append(entry.type, entry.encode()))
    for keys in ("a", "da", "d"):
        with pytest.raises(KeysRefused, match=why):
            await log.run(keys)


async def test_a_key_entry_that_does_not_follow_the_one_before_is_refused_at_the_start() -> None:
    log = KeyedLog()
    await log.run("a", "ba")
    stray = forged("c", "d", "cd")
    async with log.running("ba") as sequencer:
        await sequencer.submit(lambda batch: batch.append(stray.type, stray.encode()))
    with pytest.raises(KeysRefused, match="does not follow the key before it"):
        await log.run("ba")


async def test_two_signatures_fit_into_a_slot_of_the_head_guard_for_the_longest_origin(tmp_path: Path) -> None:
    origin = "o" * MAX_ORIGIN_CHARACTERS
    changed = KeyEntry(time=0, old=KEYS["a"].public_key, new=KEYS["b"].public_key, sigs=(bytes(64), bytes(64)))
    keys = LogKeys(origin, KEYS["b"], KEYS["a"], [changed], KEYS["a"].public_key)
    note = keys.sign(2**53 - 1, bytes(32), 0)
    assert len(SignedNote.parse(note.decode()).signatures) == 2
    guard = FileGuard(tmp_path / "head")
    guard.advance(note)
    guard.advance(note)
    assert guard.remembered() == [note, note]
    guard.close()
