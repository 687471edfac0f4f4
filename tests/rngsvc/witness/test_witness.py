"""The witness: what it cosigns, what it refuses with which status, and that it never forgets."""

import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.cosignature import CosignerKey, cosign, cosignatures
from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.merkle import EMPTY_ROOT, consistency_proof, leaf_hash, root_of
from rngsvc.protocol.policy import Policy
from rngsvc.protocol.signed_note import NoteKey, SignedNote
from rngsvc.store.witness import WitnessStore
from rngsvc.witness import Answer, Seen, Witness, request_body

ORIGIN = "cardroom.example/rng"
LOG = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LOG_KEY = NoteKey(ORIGIN, LOG.public_key().public_bytes_raw())
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
OTHER_KEY = NoteKey(ORIGIN, OTHER.public_key().public_bytes_raw())
WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(2, 34)))
WITNESS_KEY = CosignerKey("witness.example/w1", WITNESS.public_key().public_bytes_raw())
LEAVES = [leaf_hash(bytes([i])) for i in range(40)]
FORK = [*LEAVES[:10], *(leaf_hash(b"fork" + bytes([i])) for i in range(30))]


class Memory:
    """A witness's state in memory."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}

    def newest(self, origin: str) -> Seen | None:
        return self.seen.get(origin)

    def swap(self, origin: str, old: Seen | None, new: Seen) -> bool:
        if self.seen.get(origin) != old:
            return False
        self.seen[origin] = new
        return True


def witness(state: Memory | WitnessStore | None = None) -> Witness:
    return Witness(WITNESS_KEY, WITNESS.sign, {ORIGIN: [LOG_KEY]}, state or Memory(), lambda: 1_700_000_000)


def node_reader(leaves: Sequence[bytes]):
    return lambda level, i: root_of(leaves[i << level : (i + 1) << level])


def note(leaves: Sequence[bytes], key: NoteKey = LOG_KEY, signer: Ed25519PrivateKey = LOG) -> str:
    return Checkpoint(key.name, len(leaves), root_of(leaves)).sign(key, signer.sign)


def submission(old: int, leaves: Sequence[bytes]) -> bytes:
    return request_body(old, consistency_proof(old, len(leaves), node_reader(leaves)), note(leaves))


def test_the_specifications_example_of_a_cosigned_message_is_what_is_signed() -> None:
    text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    line = cosign(text, WITNESS_KEY, lambda message: sha256(message).digest() * 2, 1_679_315_147)
    message = f"cosignature/v1\ntime 1679315147\n{text}".encode()
    assert line.signature == (1_679_315_147).to_bytes(8, "big") + sha256(message).digest() * 2


def test_a_log_that_grows_is_cosigned_step_by_step() -> None:
    w = witness()
    for old, new in ((0, 1), (1, 1), (1, 10), (10, 33), (33, 40), (40, 40)):
        answer = w.add_checkpoint(submission(old, LEAVES[:new]))
        assert answer.status == 200, answer.body
        cosigned = SignedNote.parse(note(LEAVES[:new]) + answer.body)
        assert cosignatures(cosigned, [WITNESS_KEY]) == {WITNESS_KEY: 1_700_000_000}
        shown = w.checkpoint(sha256(ORIGIN.encode()).hexdigest())
        assert shown == Answer(200, note(LEAVES[:new]) + answer.body)


@pytest.mark.parametrize(
    ("title", "body", "status", "says"),
    [
        ("a fork", submission(20, FORK), 422, "does not lead to the old root"),
        ("a fork of the same size", request_body(20, [], note(FORK[:20])), 422, "two different roots"),
        ("a rollback", request_body(20, [], note(LEAVES[:10])), 400, "above the checkpoint"),
        ("an older size than it has seen", submission(10, LEAVES), 409, "20"),
        ("a newer size than it has seen", submission(30, LEAVES), 409, "20"),
        ("a proof that is too short", request_body(20, [], note(LEAVES)), 422, "consistency proof"),
        ("another log", request_body(0, [], note(LEAVES, NoteKey("x.example/y", LOG_KEY.public_key))), 404, "not know"),
        ("an unknown key", request_body(20, [], note(LEAVES, OTHER_KEY, OTHER)), 403, "no known key"),
        ("a broken signature", request_body(20, [], note(LEAVES, LOG_KEY, OTHER)), 403, "not valid"),
        ("an extension line", request_body(20, [], note(LEAVES).replace("\n\n", "\nmore\n\n")), 400, "three lines"),
        ("no size line", submission(20, LEAVES).replace(b"old ", b"new "), 400, "must begin"),
        ("a size with a leading zero", submission(20, LEAVES).replace(b"old 20", b"old 020"), 400, "leading zeros"),
        (
            "a proof line that is no base64",
            submission(20, LEAVES).replace(b"old 20\n", b"old 20\n!\n"),
            400,
            "proof[0]",
        ),
        ("64 proof lines", request_body(20, [bytes(32)] * 64, note(LEAVES)), 400, "at most 63"),
        ("no note", b"old 20\n\n", 400, "note"),
        ("bytes that are no text", b"\xff\n\n", 400, "UTF-8"),
        ("nothing", b"", 400, "empty line"),
    ],
)
def test_what_is_refused_gets_its_status_and_changes_nothing(title: str, body: bytes, status: int, says: str) -> None:
    state = Memory()
    w = witness(state)
    assert w.add_checkpoint(submission(0, LEAVES[:20])).status == 200
    before = dict(state.seen)
    answer = w.add_checkpoint(body)
    assert (answer.status, says in answer.body) == (status, True), f"{title}: {answer}"
    assert state.seen == before
    assert (answer.content_type == "text/x.tlog.size") == (status == 409)


def test_an_empty_log_has_the_empty_root() -> None:
    def empty(root: bytes) -> bytes:
        return request_body(0, [], Checkpoint(ORIGIN, 0, root).sign(LOG_KEY, LOG.sign))

    assert witness().add_checkpoint(empty(bytes(32))).status == 422
    w = witness()
    assert w.add_checkpoint(empty(EMPTY_ROOT)).status == 200
    assert w.add_checkpoint(submission(0, LEAVES[:3])).status == 200


def test_of_two_that_race_one_wins_and_the_other_learns_the_size() -> None:
    class Raced(Memory):
        def swap(self, origin: str, old: Seen | None, new: Seen) -> bool:
            if old is None:
                super().swap(origin, None, Seen(5, root_of(LEAVES[:5]), note(LEAVES[:5])))
            return super().swap(origin, old, new)

    assert witness(Raced()).add_checkpoint(submission(0, LEAVES[:7])) == Answer(409, "5\n", "text/x.tlog.size")


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_whatever_is_submitted_the_witness_never_cosigns_two_histories(sizes: list[int]) -> None:
    w = witness()
    known, side = 0, 0
    for size in sizes:
        for branch, leaves in enumerate((LEAVES, FORK)):
            answer = w.add_checkpoint(submission(min(known, size), leaves[:size]))
            if answer.status == 200:
                # Up to ten entries both histories are one.
                assert size >= known
                assert known <= 10 or branch == side
                known, side = size, branch


def test_the_state_survives_and_two_processes_share_it(tmp_path: Path) -> None:
    path = tmp_path / "witness.sqlite3"
    first, second = WitnessStore(path), WitnessStore(path)
    assert witness(first).add_checkpoint(submission(0, LEAVES[:5])).status == 200
    assert witness(second).add_checkpoint(submission(0, LEAVES[:5])).status == 409
    assert witness(second).add_checkpoint(submission(5, LEAVES[:9])).status == 200
    assert first.newest(ORIGIN) == second.newest(ORIGIN)
    assert not first.swap(ORIGIN, Seen(5, root_of(LEAVES[:5]), ""), Seen(6, root_of(LEAVES[:6]), ""))
    assert not first.swap(ORIGIN, None, Seen(6, root_of(LEAVES[:6]), ""))
    first.close()
    second.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT size FROM seen").fetchall() == [(9,)]
    connection.close()


# --- Cosigner keys and policies ---


def test_a_cosigners_key_is_not_a_logs() -> None:
    assert CosignerKey.from_vkey(WITNESS_KEY.vkey) == WITNESS_KEY
    with pytest.raises(MalformedError, match="type 01"):
        NoteKey.from_vkey(WITNESS_KEY.vkey)
    with pytest.raises(MalformedError, match="type 04"):
        CosignerKey.from_vkey(LOG_KEY.vkey)


POLICY_WITNESSES = {
    name: (key := Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32),
           CosignerKey(f"witness.example/{name}", key.public_key().public_bytes_raw()))
    for n, name in enumerate(("X1", "X2", "X3", "Y1", "Y2", "Y3"), 50)
}  # fmt: skip
POLICY = "\n".join(
    [
        "# two organisations",
        f"log {LOG_KEY.vkey} https://cardroom.example/",
        *(f"witness {name} {key.vkey}" for name, (_, key) in POLICY_WITNESSES.items()),
        "group X 2 X1 X2 X3",
        "\tgroup   Y any Y1 Y2 Y3 ",
        "",
        "group both all X Y",
        "quorum both",
        "",
    ]
)


@pytest.mark.parametrize(
    ("cosigners", "met"),
    [
        ("X1 X2 Y1", True),
        ("X2 X3 Y3", True),
        ("X1 X2 X3 Y1 Y2 Y3", True),
        ("X1 X2 X3", False),
        ("X1 Y1 Y2 Y3", False),
        ("", False),
    ],
)
def test_a_quorum_of_groups_is_counted(cosigners: str, met: bool) -> None:
    policy = Policy.parse(POLICY.encode())
    signed = SignedNote.parse(note(LEAVES))
    lines = [
        cosign(signed.text, POLICY_WITNESSES[name][1], POLICY_WITNESSES[name][0].sign, 1) for name in cosigners.split()
    ]
    cosigned = SignedNote(signed.text, (*signed.signatures, *lines))
    if met:
        assert policy.verify(cosigned).size == len(LEAVES)
        assert policy.verify_quorum(cosigned) == set(cosigners.split())
    else:
        with pytest.raises(ProofError, match="not the quorum both"):
            policy.verify(cosigned)


def test_each_flipped_byte_of_a_cosignature_is_noticed() -> None:
    signed = SignedNote.parse(note(LEAVES))
    line = cosign(signed.text, WITNESS_KEY, WITNESS.sign, 1_700_000_000)
    for i in range(len(line.signature)):
        wrong = bytearray(line.signature)
        wrong[i] ^= 1
        flipped = SignedNote(signed.text, (*signed.signatures, type(line)(line.name, line.key_id, bytes(wrong))))
        with pytest.raises(ProofError, match=r"the cosignature of witness\.example/w1"):
            cosignatures(flipped, [WITNESS_KEY])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("quorum X", "must be the only quorum line"),
        ("group Z 2 both", "must have all, any or a number from 1 to 1"),
        ("group Z 0 Y1", "already"),
        ("group Z all nobody", "nobody, which is not defined before"),
        ("group X all both", "must not define X again"),
        ("group none all both", "must not define none again"),
        (f"witness W {POLICY_WITNESSES['X1'][1].vkey}", "must not repeat a witness's key"),
        (f"log {LOG_KEY.vkey}", "must not repeat a log's key"),
        ("witness W", "with its parts"),
        ("quorum", "with its parts"),
        ("what is this", "with its parts"),
        ("witness W no+vkey", "vkey"),
        ("log \x01", "control characters"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_by_line(line: str, says: str) -> None:
    with pytest.raises(MalformedError) as refused:
        Policy.parse((POLICY + line + "\n").encode())
    assert says in str(refused.value)


def test_a_policy_needs_a_quorum_and_may_ask_for_none() -> None:
    with pytest.raises(MalformedError, match="quorum"):
        Policy.parse(b"# nothing\n")
    policy = Policy.parse(f"log {LOG_KEY.vkey}\nquorum none\n".encode())
    assert policy.verify(SignedNote.parse(note(LEAVES))).size == len(LEAVES)
    with pytest.raises(ProofError, match="no known key"):
        policy.verify(SignedNote.parse(note(LEAVES, OTHER_KEY, OTHER)))
