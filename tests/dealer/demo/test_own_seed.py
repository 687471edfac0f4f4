"""A player gives his seed for a proven commitment and for nothing less."""

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from dealer.demo_service import child_service
from dealer.own_seed import OwnSeed
from dealer.shufflers import SealedShoe
from rngsvc.client import Client
from rngsvc.protocol.errors import ProofError

Tampering = Callable[[dict[str, Any]], None]


class Scene:
    """A hand whose promises are logged, as a player is shown it; ``log_key`` is the true one."""

    log_key: str
    before: bytes
    after: bytes
    own: OwnSeed
    stranger: OwnSeed


@pytest.fixture(scope="module")
def scene() -> Scene:
    async def prepare() -> Scene:
        made = Scene()
        async with child_service() as service, await Client.connect(service.address, log_key=service.log_key) as client:
            made.log_key = service.log_key
            auditor = service.auditor.public_keys
            table = await client.register_table(secrets.token_bytes(16), reveal="escrow", auditor=auditor)
            shoe = await SealedShoe.reserve(table)
            made.own = OwnSeed(b"ann", service.log_key, table.id, shoe.seq)
            made.stranger = OwnSeed(b"zoe", service.log_key, table.id, shoe.seq)
            made.before = shoe.receipt()
            await shoe.promise({b"ann": made.own.promise, b"ben": secrets.token_bytes(32)})
            made.after = shoe.receipt()
        return made

    return asyncio.run(prepare())


def test_a_logged_promise_is_kept(scene: Scene) -> None:
    seed = scene.own.reveal(scene.after)
    assert len(seed) == 32
    assert scene.own.reveal(scene.after) == seed, "a repeat gives the same seed"


def _flip(members: dict[str, Any], entry: int, name: str) -> None:
    text = members["entries"][entry][name]
    members["entries"][entry][name] = text.replace(text[-3], "0" if text[-3] != "0" else "1")


@pytest.mark.parametrize(
    "tampering",
    [
        pytest.param(lambda members: members["entries"].pop(), id="the promise entry is missing"),
        pytest.param(lambda members: members["entries"].pop(1), id="the reserve entry is missing"),
        pytest.param(lambda members: _flip(members, 1, "entry"), id="the reserve entry is another"),
        pytest.param(lambda members: _flip(members, 2, "proof"), id="the promise entry's proof is false"),
        pytest.param(lambda members: members.update(seq=2), id="another hand"),
        pytest.param(lambda members: members.update(table="00" * 16), id="another table"),
        pytest.param(lambda members: members.update(origin="elsewhere.example/rng"), id="another log"),
    ],
)
def test_a_seed_is_not_given_for_less_than_a_proven_commitment(scene: Scene, tampering: Tampering) -> None:
    members = json.loads(scene.after)
    tampering(members)
    with pytest.raises(ProofError):
        scene.own.reveal(json.dumps(members).encode())


def test_a_seed_is_not_given_before_its_promise_is_logged(scene: Scene) -> None:
    with pytest.raises(ProofError):
        scene.own.reveal(scene.before)


def test_who_did_not_promise_gives_no_seed(scene: Scene) -> None:
    with pytest.raises(ProofError):
        scene.stranger.reveal(scene.after)


def test_a_log_that_another_key_signs_is_refused(scene: Scene) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rngsvc.protocol.signed_note import NoteKey

    other = NoteKey(NoteKey.from_vkey(scene.log_key).name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    members = json.loads(scene.after)
    own = OwnSeed(b"ann", other.vkey, bytes.fromhex(members["table"]), members["seq"])
    with pytest.raises(ProofError):
        own.reveal(scene.after)
