"""HPKE a second time: RFC 9180's base mode with X25519 and HKDF-SHA256, single shot, function by function."""

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM_ID, KDF_ID = 0x0020, 0x0001
AEAD_IDS = {16: 0x0001, 32: 0x0002}  # AES-128-GCM and AES-256-GCM by key length


def extract(salt, ikm):
    return hmac.new(salt or bytes(32), ikm, hashlib.sha256).digest()


def expand(prk, info, length):
    okm = block = b""
    while len(okm) < length:
        block = hmac.new(prk, block + info + bytes([len(okm) // 32 + 1]), hashlib.sha256).digest()
        okm += block
    return okm[:length]


def labeled_extract(suite, salt, label, ikm):
    return extract(salt, b"HPKE-v1" + suite + label + ikm)


def labeled_expand(suite, prk, label, info, length):
    return expand(prk, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)


def shared_secret(dh, enc, recipient):
    suite = b"KEM" + KEM_ID.to_bytes(2, "big")
    eae_prk = labeled_extract(suite, b"", b"eae_prk", dh)
    return labeled_expand(suite, eae_prk, b"shared_secret", enc + recipient, 32)


def cipher(secret, info, key_bytes):
    ids = KEM_ID, KDF_ID, AEAD_IDS[key_bytes]
    suite = b"HPKE" + b"".join(each.to_bytes(2, "big") for each in ids)
    psk_id_hash = labeled_extract(suite, b"", b"psk_id_hash", b"")
    info_hash = labeled_extract(suite, b"", b"info_hash", info)
    context = b"\x00" + psk_id_hash + info_hash
    prk = labeled_extract(suite, secret, b"secret", b"")
    key = labeled_expand(suite, prk, b"key", context, key_bytes)
    nonce = labeled_expand(suite, prk, b"base_nonce", context, 12)
    return AESGCM(key), nonce


def seal_base(plaintext, recipient, info, ephemeral, *, aad=b"", key_bytes=32):
    """Return enc || ct; ``ephemeral`` is the sender's raw private key, which a real one draws."""
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = private.public_key().public_bytes_raw()
    dh = private.exchange(X25519PublicKey.from_public_bytes(recipient))
    aead, nonce = cipher(shared_secret(dh, enc, recipient), info, key_bytes)
    return enc + aead.encrypt(nonce, plaintext, aad)


def open_base(enc, ciphertext, private, info, *, aad=b"", key_bytes=32):
    mine = X25519PrivateKey.from_private_bytes(private)
    dh = mine.exchange(X25519PublicKey.from_public_bytes(enc))
    aead, nonce = cipher(shared_secret(dh, enc, mine.public_key().public_bytes_raw()), info, key_bytes)
    return aead.decrypt(nonce, ciphertext, aad)
