"""Step 4 and Step 9: the byte rule is uniform, the stream is CTR_DRBG's, HKDF is RFC 5869's."""

import hashlib
import hmac
import itertools
import json
import math
from collections import Counter
from pathlib import Path

import pytest

from rngsvc.protocol.derivation import (
    STREAM_BYTES,
    ByteStream,
    byte_stream,
    fisher_yates,
    hkdf_sha512,
    permute,
    words_below,
)
from rngsvc.protocol.errors import StreamExhaustedError
from tests.reference import rs1
from tests.scale import PROVING, scaled

VECTORS = Path(__file__).parents[2] / "vectors"


def stream_of(given: bytes):
    """Give these bytes and no more."""
    left = bytearray(given)

    def take(count):
        if not left:
            raise StreamExhaustedError
        taken = bytes(left[:count])
        del left[:count]
        return taken

    return take


# --- Uniformity ---


@pytest.mark.parametrize("n", [1, 2, 3, 4] if PROVING else [1, 2, 3])
def test_every_string_of_bytes_counted_each_order_comes_up_equally_often(n):
    """All 256**(n-1) strings go in; those whose draws are all accepted spread evenly over the n! orders."""
    counts = Counter()
    for given in itertools.product(range(256), repeat=n - 1):
        try:
            order, _ = fisher_yates(range(n), stream_of(bytes(given)))
        except StreamExhaustedError:
            continue
        counts[tuple(order)] += 1
    assert len(counts) == math.factorial(n)
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_up_to_six_items_every_order_is_equally_likely(n):
    """For each sequence of earlier draws, all 256 values of the next byte are tried.

    A value either is refused, which leaves the list as it was, or leads to one of m lists, each by equally many
    values. So the weight of each order is the same product, whatever came before.
    """

    def weigh(accepted: bytes, m: int) -> Counter:
        if m == 1:
            return Counter({tuple(fisher_yates(range(n), stream_of(accepted))[0]): 1})
        # The rest is played with zeros, which every draw accepts: equal results mean equal lists so far.
        rest = bytes(m - 2)
        unread = fisher_yates(range(n), stream_of(accepted + bytes(m - 1)))
        reached = {}
        for b in range(256):
            order, used = fisher_yates(range(n), stream_of(accepted + bytes([b]) + bytes(m - 1)))
            if used == n:  # b was refused: the zeros behind it do what they do without it
                assert order == unread[0]
                continue
            assert fisher_yates(range(n), stream_of(accepted + bytes([b]) + rest))[0] == order
            reached.setdefault(tuple(order), []).append(b)
        assert len(reached) == m
        sizes = {len(values) for values in reached.values()}
        assert sizes == {256 // m}
        total = Counter()
        for values in reached.values():
            for order, weight in weigh(accepted + bytes(values[:1]), m - 1).items():
                total[order] += weight * len(values)
        return total

    weights = weigh(b"", n)
    assert len(weights) == math.factorial(n)
    assert len(set(weights.values())) == 1


@pytest.mark.parametrize("m", range(2, 257))
def test_a_byte_is_accepted_below_the_largest_multiple_and_reduced_evenly(m):
    """For a list of m items the first draw is for m: it decides what comes last."""
    limit = 256 - 256 % m
    assert limit % m == 0
    assert 0 <= 256 - limit < m
    last = Counter()
    for b in range(256):
        order, used = fisher_yates(range(m), stream_of(bytes([b]) + bytes(m)))
        assert used == (m - 1 if b < limit else m)
        if b < limit:
            last[order[-1]] += 1
            assert order[-1] == b % m
    assert last == dict.fromkeys(range(m), limit // m)


@pytest.mark.parametrize("m", range(257, 1021))
def test_two_bytes_are_accepted_below_the_largest_multiple(m):
    limit = 65_536 - 65_536 % m
    assert limit % m == 0
    assert 0 <= 65_536 - limit < m
    for draw in {0, 1, m - 1, m, limit - 1, min(limit, 65_535), 65_535}:
        order, used = fisher_yates(range(m), stream_of(draw.to_bytes(2, "big") + bytes(2 * m)))
        assert used == 2 * (m - 1 if draw < limit else m)
        assert order[-1] == (draw % m if draw < limit else 0)


@pytest.mark.parametrize("m", [257, 312, 1020] if PROVING else [257])
def test_every_pair_of_bytes_is_reduced_evenly(m):
    limit = 65_536 - 65_536 % m
    step = 1 if PROVING else 16
    last = Counter()
    for draw in range(0, limit, step):
        order, _ = fisher_yates(range(m), stream_of(draw.to_bytes(2, "big") + bytes(2 * m)))
        assert order[-1] == draw % m
        last[order[-1]] += 1
    if step == 1:
        assert last == dict.fromkeys(range(m), limit // m)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 52, 10**6, 2**31, 2**53 - 1, 2**64 // 2049 + 1])
def test_a_word_is_skipped_from_the_largest_multiple_on(m):
    limit = 2**64 - 2**64 % m
    words = [0, 1, m - 1, m, limit - 1, *([limit, 2**64 - 1] if limit < 2**64 else []), 7]
    given = b"".join(word.to_bytes(8, "big") for word in words)
    accepted = [word % m for word in words if word < limit]
    assert words_below(m, len(accepted), stream_of(given)) == accepted


def test_52_cards_use_53_63_bytes_on_average():
    """The figure that operators watch: 51 draws and the refused ones, sum of 256 / limit over m."""
    expected = sum(256 / (256 - 256 % m) for m in range(2, 53))
    variance = sum((256 % m / 256) / (1 - 256 % m / 256) ** 2 for m in range(2, 53))
    assert round(expected, 2) == 53.63
    trials = scaled(2_000, 200_000)
    seeds = byte_stream(bytes(48), 48)
    total = sum(permute(seeds, i.to_bytes(32, "big"), 0, range(52))[1] for i in range(trials))
    assert abs(total / trials - expected) < 5 * math.sqrt(variance / trials)


# --- The stream ---


def test_the_stream_is_one_generate_request_of_the_ctr_drbg():
    for i in range(scaled(4, 40)):
        seed48 = hashlib.shake_256(bytes([i])).digest(48)
        assert byte_stream(seed48, STREAM_BYTES) == bytes(rs1.CtrDrbg(seed48).generate())


def test_the_stream_starts_from_v_plus_one_where_that_wraps():
    """V of all ones: the counter block after it is zero."""
    mask = b"".join(rs1.encrypt_block(bytes(32), i.to_bytes(16, "big")) for i in (1, 2, 3))
    seed48 = mask[:32] + bytes(byte ^ 0xFF for byte in mask[32:])
    assert byte_stream(seed48, 64) == bytes(itertools.islice(rs1.CtrDrbg(seed48).generate(), 64))


def test_the_stream_is_the_same_however_it_is_asked_for():
    stream = ByteStream(bytes(48))
    parts = [stream.take(count) for count in (1, 15, 16, 17, 4096)]
    assert b"".join(parts) == byte_stream(bytes(48), 4145)
    assert byte_stream(bytes(48), 0) == b""


def test_after_65536_bytes_the_stream_is_exhausted():
    stream = ByteStream(bytes(48))
    assert len(stream.take(STREAM_BYTES - 3)) == STREAM_BYTES - 3
    assert len(stream.take(100)) == 3
    with pytest.raises(StreamExhaustedError):
        stream.take(1)


@pytest.mark.parametrize("n", [3, 300])
def test_a_shuffle_whose_stream_is_exhausted_stops(n):
    refused = b"\xff" * STREAM_BYTES  # no draw for 3 or 300 accepts it
    with pytest.raises(StreamExhaustedError):
        fisher_yates(range(n), stream_of(refused))


def test_numbers_whose_stream_is_exhausted_stop():
    with pytest.raises(StreamExhaustedError):
        words_below(3, 1024, stream_of(b"\xff" * STREAM_BYTES))


# --- HKDF ---


def test_hkdf_agrees_with_every_wycheproof_case():
    cases = json.loads((VECTORS / "hkdf/wycheproof_sha512.json").read_text())
    tests = [test for group in cases["testGroups"] for test in group["tests"]]
    assert len(tests) == 83
    for test in tests:
        arguments = bytes.fromhex(test["ikm"]), bytes.fromhex(test["salt"]), bytes.fromhex(test["info"]), test["size"]
        if test["result"] == "valid":
            assert hkdf_sha512(*arguments).hex() == test["okm"], test["tcId"]
        else:
            with pytest.raises(ValueError, match=r"[Cc]an not derive|too large|[Cc]annot derive"):
                hkdf_sha512(*arguments)


def test_hkdf_is_extract_and_expand_over_hmac():
    for length in (1, 48, 64, 65, 832, 16_320):
        ikm, salt, info = b"k" * 48, b"s" * 32, b"rs1/salt\x00\x00"
        assert hkdf_sha512(ikm, salt, info, length) == rs1.hkdf(ikm, salt, info, length)
    prk = hmac.digest(salt, ikm, "sha512")
    assert hkdf_sha512(ikm, salt, info, 64) == hmac.digest(prk, info + b"\x01", "sha512")
