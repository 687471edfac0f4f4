"""The escrowed seed is an RFC 9180 ciphertext for one auditor and one hand."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rngsvc.protocol.errors import MalformedError, ProofError
from rngsvc.protocol.escrow import ESCROW_BYTES, escrow_info, open_seed, seal_seed
from rngsvc.protocol.octets import sha256, u64
from tests.reference import rfc9180

AUDITOR = X25519PrivateKey.from_private_bytes(b"\x07" * 32)
PUBLIC = AUDITOR.public_key().public_bytes_raw()
SEED, TABLE, COMMITMENT = bytes(range(48)), bytes(16), b"\xcc" * 32
INFO = escrow_info("cardroom.example/rng", TABLE, 7, COMMITMENT)


def test_the_second_implementation_agrees_with_the_rfcs_own_vector():
    """RFC 9180, A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, first message."""
    enc = "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    ciphertext = "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    private = "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8"
    info = "4f6465206f6e2061204772656369616e2055726e"
    aad = "436f756e742d30"
    opened = rfc9180.open_base(
        bytes.fromhex(enc),
        bytes.fromhex(ciphertext),
        bytes.fromhex(private),
        bytes.fromhex(info),
        aad=bytes.fromhex(aad),
        key_bytes=16,
    )
    assert opened == b"Beauty is truth, truth beauty"


def test_it_is_enc_and_ciphertext_as_rfc_9180_says():
    sealed = seal_seed(SEED, PUBLIC, INFO)
    assert len(sealed) == ESCROW_BYTES == 96
    assert rfc9180.open_base(sealed[:32], sealed[32:], AUDITOR.private_bytes_raw(), INFO) == SEED
    ephemeral = X25519PrivateKey.from_private_bytes(b"\x09" * 32)
    theirs = rfc9180.seal_base(SEED, PUBLIC, INFO, ephemeral.private_bytes_raw())
    assert open_seed(theirs, AUDITOR, INFO) == SEED


def test_the_info_names_the_hand():
    parts = [b"rs1/escrow", sha256(b"cardroom.example/rng"), TABLE, u64(7), COMMITMENT]
    assert b"".join(parts) == INFO


@pytest.mark.parametrize(
    "info",
    [
        escrow_info("other.example", TABLE, 7, COMMITMENT),
        escrow_info("cardroom.example/rng", b"\x01" * 16, 7, COMMITMENT),
        escrow_info("cardroom.example/rng", TABLE, 8, COMMITMENT),
        escrow_info("cardroom.example/rng", TABLE, 7, bytes(32)),
    ],
)
def test_it_opens_for_its_own_hand_only(info):
    with pytest.raises(ProofError):
        open_seed(seal_seed(SEED, PUBLIC, INFO), AUDITOR, info)


def test_it_opens_for_its_own_auditor_only_and_no_bit_may_change():
    sealed = seal_seed(SEED, PUBLIC, INFO)
    with pytest.raises(ProofError):
        open_seed(sealed, X25519PrivateKey.from_private_bytes(b"\x08" * 32), INFO)
    for bit in range(0, 8 * ESCROW_BYTES, 7):
        if bit == 255:
            continue  # X25519 passes over the highest bit of a point
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProofError):
            open_seed(bytes(changed), AUDITOR, INFO)


def test_two_seals_of_one_seed_differ():
    assert seal_seed(SEED, PUBLIC, INFO) != seal_seed(SEED, PUBLIC, INFO)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: seal_seed(bytes(47), PUBLIC, INFO), "seed"),
        (lambda: seal_seed(SEED, bytes(31), INFO), "auditor"),
        (lambda: seal_seed(SEED, bytes(32), INFO), "auditor"),
        (lambda: open_seed(bytes(95), AUDITOR, INFO), "escrow"),
    ],
)
def test_what_has_another_length_is_refused_by_name(call, field):
    with pytest.raises(MalformedError) as refused:
        call()
    assert refused.value.field == field
