"""The hand protocol `rs1` a second time, from `rngsvc/protocol/hand-protocol.md` and nothing else.

Slow and plain on purpose: HKDF is spelled out over HMAC, the generator is SP 800-90A's CTR_DRBG with its update
function, block by block, and the Merkle tree is RFC 6962's recursion. Nothing is imported from the project.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def H(data):  # noqa: N802  (the page's name)
    return hashlib.new("sha256", data).digest()


def number(value, width):
    out = bytearray()
    for _ in range(width):
        out.append(value & 0xFF)
        value >>= 8
    assert value == 0
    return bytes(reversed(out))


# --- RFC 6962 ---


def merkle_root(leaves):
    """Section 2.1, over the leaves themselves."""
    if not leaves:
        return H(b"")
    if len(leaves) == 1:
        return H(b"\x00" + leaves[0])
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return H(b"\x01" + merkle_root(leaves[:split]) + merkle_root(leaves[split:]))


# --- RFC 5869 ---


def hkdf(ikm, salt, info, length):
    prk = hmac.new(salt, ikm, hashlib.sha512).digest()
    okm = t = b""
    i = 0
    while len(okm) < length:
        i += 1
        assert i <= 255
        t = hmac.new(prk, t + info + bytes([i]), hashlib.sha512).digest()
        okm += t
    return okm[:length]


# --- SP 800-90A, 10.2.1, AES-256, no derivation function ---


def encrypt_block(key, block):
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


class CtrDrbg:
    def __init__(self, entropy_input):
        assert len(entropy_input) == 48
        self.key, self.v = bytes(32), bytes(16)
        self.update(entropy_input)

    def increment(self):
        self.v = number((int.from_bytes(self.v, "big") + 1) % 2**128, 16)

    def update(self, provided):
        temp = b""
        while len(temp) < 48:
            self.increment()
            temp += encrypt_block(self.key, self.v)
        mixed = bytes(a ^ b for a, b in zip(temp, provided, strict=True))
        self.key, self.v = mixed[:32], mixed[32:]

    def generate(self):
        """One request of 65,536 bytes, given out block by block; the update after it is never needed."""
        for _ in range(65536 // 16):
            self.increment()
            yield from encrypt_block(self.key, self.v)


# --- The steps ---


def commitment(table, seq, s):
    return H(b"\x10" + b"rs1/seed" + table + number(seq, 8) + s)


def promise(origin, table, seq, identity, seed):
    return H(b"\x11" + b"rs1/promise" + H(origin.encode()) + table + number(seq, 8) + H(identity) + seed)


def contributions_root(contributions):
    leaves = []
    for i, (identity, seed) in enumerate(contributions):
        hashed = b"\x00" * 32 if seed is None else H(seed)
        leaves.append(b"rs1/contribution" + number(i, 1) + H(identity) + hashed)
    return merkle_root(leaves)


def first_context(origin, table, seq, c, cr, pre):
    return H(b"\x12" + b"rs1/hand" + H(origin.encode()) + table + number(seq, 8) + c + cr + pre)


def next_context(hc, root, k, locations):
    data = b"\x14" + b"rs1/reshuffle" + hc + root + number(k, 2) + number(len(locations), 2)
    for j, p in locations:
        data += number(j, 2) + number(p, 2)
    return H(data)


def shuffle(s, hc, k, items):
    n = len(items)
    listed = b""
    for item in items:
        listed += number(item, 2)
    info = b"rs1/shuffle" + number(k, 2) + number(n, 2) + H(listed)
    stream = CtrDrbg(hkdf(s, hc, info, 48)).generate()
    d = list(items)
    used = 0
    i = n - 1
    while i >= 1:
        m = i + 1
        if n <= 256:
            b = next(stream)
            used += 1
            fits = b // m < 256 // m
        else:
            b = next(stream) * 256
            b += next(stream)
            used += 2
            fits = b // m < 65536 // m
        if fits:
            j = b - m * (b // m)
            held = d[i]
            d[i] = d[j]
            d[j] = held
            i -= 1
    return d, used


def card_leaves(s, hc, k, order):
    salts = hkdf(s, hc, b"rs1/salt" + number(k, 2), 16 * len(order))
    leaves = []
    for p, item in enumerate(order):
        salt = salts[:16]
        salts = salts[16:]
        leaves.append(H(b"\x00" + b"rs1/card" + number(k, 2) + number(p, 2) + number(item, 2) + salt))
    return leaves


def card_root(k, leaves):
    return H(b"\x13" + b"rs1/cards" + number(k, 2) + number(len(leaves), 2) + b"".join(leaves))


def draw(s, hc, purpose, m, count):
    info = b"rs1/draw" + number(count, 2) + number(m, 8) + H(purpose)
    stream = CtrDrbg(hkdf(s, hc, info, 48)).generate()
    values = []
    while len(values) < count:
        w = 0
        for _ in range(8):
            w = w * 256 + next(stream)
        if w // m < 2**64 // m:
            values.append(w - m * (w // m))
    return values


@dataclass
class Hand:
    """One hand, shuffled and reshuffled; ``locations`` per reshuffle."""

    origin: str
    table: bytes
    seq: int
    s: bytes
    pre: bytes
    contributions: list
    shuffles: list = field(default_factory=list)

    def seal(self, n):
        c = commitment(self.table, self.seq, self.s)
        cr = contributions_root(self.contributions)
        hc = first_context(self.origin, self.table, self.seq, c, cr, self.pre)
        self._add(0, hc, list(range(n)), None)

    def reshuffle(self, locations):
        last = self.shuffles[-1]
        k = len(self.shuffles)
        hc = next_context(last["context"], last["root"], k, locations)
        items = []
        for j, p in locations:
            items.append(self.shuffles[j]["order"][p])
        self._add(k, hc, items, locations)

    def _add(self, k, hc, items, locations):
        order, used = shuffle(self.s, hc, k, items)
        leaves = card_leaves(self.s, hc, k, order)
        self.shuffles.append(
            {
                "k": k,
                "n": len(items),
                "inputs": locations,
                "context": hc,
                "order": order,
                "bytes_used": used,
                "leaves": leaves,
                "root": card_root(k, leaves),
            }
        )
