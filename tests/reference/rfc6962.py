"""RFC 6962's Merkle tree a second time: MTH, PATH and PROOF of sections 2.1, 2.1.1 and 2.1.2, recursion by recursion.

Takes lists of leaf hashes and imports nothing from the project.
"""

import hashlib


def split(n):
    """Return k, the largest power of two smaller than n."""
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def mth(d):
    if not d:
        return hashlib.sha256().digest()
    if len(d) == 1:
        return d[0]
    k = split(len(d))
    return hashlib.sha256(b"\x01" + mth(d[:k]) + mth(d[k:])).digest()


def path(m, d):
    if len(d) == 1:
        return []
    k = split(len(d))
    return [*path(m, d[:k]), mth(d[k:])] if m < k else [*path(m - k, d[k:]), mth(d[:k])]


def proof(m, d):
    return subproof(m, d, b=True)


def subproof(m, d, *, b):
    if m == len(d):
        return [] if b else [mth(d)]
    k = split(len(d))
    if m <= k:
        return [*subproof(m, d[:k], b=b), mth(d[k:])]
    return [*subproof(m - k, d[k:], b=False), mth(d[:k])]
