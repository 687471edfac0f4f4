"""What a client takes for a change of the log's key, and what not: nothing but a proven chain from a key it trusts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.client import Client, Unproven, errors
from rngsvc.client.log_view import TrustedLog
from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.entries import KeyEntry, SampleEntry
from rngsvc.protocol.merkle import inclusion_proof, leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from tests.rngsvc.client.lying import Forger, Lie, lying_server
from tests.rngsvc.conftest import RunningService

ORIGIN = "cardroom.example/rng"
KEYS = {name: SigningKey(Ed25519PrivateKey.from_private_bytes(name.encode() * 32)) for name in "abcx"}

Offer = tuple[int, bytes, bytes]
"""Index, entry and inclusion proof."""


def note_key(name: str) -> NoteKey:
    return NoteKey(ORIGIN, KEYS[name].public_key)


def change(old: str, new: str, by: str = "") -> bytes:
    """A change that the keys ``by`` have signed, old and new unless it says otherwise."""
    public = KEYS[old].public_key, KEYS[new].public_key
    first, second = (KEYS[name].sign(KeyEntry.signed_bytes(ORIGIN, *public)) for name in by or old + new)
    return KeyEntry(time=1, old=public[0], new=public[1], sigs=(first, second)).encode()


@dataclass
class Tree:
    """A log's entries; whatever is asked of it is signed by whomever the test says."""

    entries: list[bytes] = field(default_factory=lambda: [sample(0)])

    def add(self, *entries: bytes) -> "Tree":
        self.entries += [each for entry in entries for each in (entry, sample(len(self.entries)))]
        return self

    def note(self, signers: str, size: int | None = None) -> str:
        leaves = [leaf_hash(each) for each in self.entries[:size]]
        note = SignedNote(Checkpoint(ORIGIN, len(leaves), root_of(leaves)).text, ())
        for name in signers:
            note = note.with_signature(note_key(name), KEYS[name].sign)
        return note.encode()

    def changes(self) -> list[Offer]:
        leaves = [leaf_hash(each) for each in self.entries]

        def node(level: int, number: int) -> bytes:
            return root_of(leaves[number << level : (number + 1) << level])

        return [
            (index, raw, b"".join(inclusion_proof(index, len(leaves), node)))
            for index, raw in enumerate(self.entries)
            if b'"type":"key"' in raw
        ]


def sample(number: int) -> bytes:
    return SampleEntry(time=1, id=b"%d" % number, kind="bits", count=1).encode()


TWICE = Tree().add(change("a", "b"), change("b", "c"))
"""Keys change at 1 and 3; 5 entries."""


@pytest.mark.parametrize("known", ["a", "b", "c"])
@pytest.mark.parametrize("signers", ["c", "cb"])
def test_from_any_key_of_the_chain_the_newest_is_followed(known: str, signers: str) -> None:
    log = TrustedLog([note_key(known)])
    log.follow(TWICE.note(signers), TWICE.changes())
    assert log.checkpoint(TWICE.note(signers)).size == 5
    assert [each.index for each in log.key_entries] == [1, 3]


@pytest.mark.parametrize(
    ("size", "signers", "accepted"),
    [
        (1, "a", True),
        (1, "b", False),
        (2, "a", False),
        (2, "ba", True),
        (2, "b", True),
        (2, "c", False),
        (3, "a", False),
        (3, "b", True),
        (4, "b", False),
        (4, "cb", True),
        (5, "c", True),
        (5, "ab", False),
        (5, "x", False),
        (5, "cx", False),
    ],
)
def test_each_checkpoint_needs_the_key_that_was_in_force_at_its_size(size: int, signers: str, accepted: bool) -> None:
    log = TrustedLog([note_key("a")])
    log.follow(TWICE.note("c"), TWICE.changes())
    if accepted:
        assert log.checkpoint(TWICE.note(signers, size)).size == size
    else:
        with pytest.raises(errors.CheckpointRejected):
            log.checkpoint(TWICE.note(signers, size))


def test_what_the_old_key_signed_beyond_the_change_is_not_remembered_as_good() -> None:
    log = TrustedLog([note_key("a")])
    note = TWICE.note("a")
    assert log.checkpoint(note).size == 5, "nobody knows of a change yet"
    log.follow(TWICE.note("cb"), TWICE.changes())
    with pytest.raises(errors.CheckpointRejected):
        log.checkpoint(note)


def test_a_checkpoint_that_another_key_signed_too_is_not_taken_on_the_known_ones_word() -> None:
    with pytest.raises(errors.UnknownLogKey):
        TrustedLog([note_key("a")]).checkpoint(TWICE.note("ba"))


def without(changes: Sequence[Offer], at: int) -> list[Offer]:
    return [*changes[:at], *changes[at + 1 :]]


def test_a_chain_with_a_flaw_is_refused_and_nothing_is_learnt() -> None:
    good = TWICE.changes()
    (index, raw, proof), second = good
    rows: list[tuple[str, str, list[Offer], str]] = [
        ("signed by a key that the chain does not lead to", TWICE.note("x"), good, "no known key has signed"),
        ("signed by the old key alone", TWICE.note("b"), good, "no known key has signed"),
        ("the last change is missing", TWICE.note("c"), without(good, 1), "no known key has signed"),
        ("the first change is missing", TWICE.note("c"), without(good, 0), "follows a key that is trusted"),
        ("in another order", TWICE.note("c"), [second, (index, raw, proof)], "does not follow the key before it"),
        ("an entry of another kind", TWICE.note("c"), [(0, sample(0), b""), *good], "a sample entry is none"),
        ("no entry at all", TWICE.note("c"), [(0, b"{}", b""), *good], "v: must be"),
        ("another place", TWICE.note("c"), [(2, raw, proof), second], "entry 2"),
        ("another proof", TWICE.note("c"), [(index, raw, bytes(len(proof))), second], "entry 1"),
        ("half a hash", TWICE.note("c"), [(index, raw, proof[:-1]), second], "whole hashes"),
    ]
    for forger in ("xb", "ax", "xx", "ba"):
        forged = Tree().add(change("a", "b", by=forger), change("b", "c"))
        rows.append((f"signed by {forger}", forged.note("c"), forged.changes(), "signature in the key entry is not"))
    stranger = Tree().add(change("x", "b"), change("b", "c"))
    rows.append(("from a stranger's key", stranger.note("c"), stranger.changes(), "follows a key that is trusted"))
    never_logged = Tree().add(sample(7), change("b", "c"))
    rows.append(("not in the log", never_logged.note("c"), good, "entry 1"))
    for title, note, offered, why in rows:
        log = TrustedLog([note_key("a")])
        with pytest.raises(Unproven, match=why):
            log.follow(note, offered)
        assert log.key_entries == (), title
        assert log.checkpoint(TWICE.note("a", 1)).size == 1


def test_a_known_change_that_is_another_now_is_a_fork() -> None:
    log = TrustedLog([note_key("a")])
    once = Tree().add(change("a", "b"))
    log.follow(once.note("b"), once.changes())
    other = Tree().add(sample(9), change("a", "b"), change("b", "c"))
    with pytest.raises(errors.LogForked):
        log.follow(other.note("c"), other.changes())


# --- Over the wire ---


@pytest.mark.asyncio
async def test_a_service_that_signs_with_another_key_too_must_show_the_change(service: RunningService) -> None:
    """The thief of a key, or a service that hides its change of key, gets nowhere with the known key's signature."""
    stranger = KEYS["x"]
    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key) as client,
    ):

        def sign_too(answer: Any) -> None:
            note = SignedNote.parse(answer.checkpoint)
            key = NoteKey(service.origin, stranger.public_key)
            answer.checkpoint = note.with_signature(key, stranger.sign).encode()

        lies["GetCheckpoint"] = sign_too
        with pytest.raises(errors.UnknownLogKey):
            await client.log.checkpoint()

        def forge_a_change(answer: Any) -> None:
            old = NoteKey.from_vkey(service.log_key).public_key
            message = KeyEntry.signed_bytes(service.origin, old, stranger.public_key)
            sigs = (stranger.sign(message), stranger.sign(message))
            forged = KeyEntry(time=1, old=old, new=stranger.public_key, sigs=sigs)
            sign_too(answer)
            answer.key_entries.append(Forger(service).logged(forged))

        lies["GetCheckpoint"] = forge_a_change
        with pytest.raises(errors.CheckpointRejected, match="the old key's signature in the key entry is not valid"):
            await client.log.checkpoint()
        assert client.newest_checkpoint.size > 0
