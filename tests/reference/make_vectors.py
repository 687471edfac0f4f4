"""Makes `rngsvc/protocol/hand-protocol.json`: `python -m tests.reference.make_vectors` writes it anew.

Nothing is drawn at random: every seed and choice follows from the vector's number, so that the file is the same for
everybody. The values come from the package; that `rs1.py`, written from the page alone, finds the same ones is a test.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rngsvc.protocol.card_seal import cards_root, salts, seal
from rngsvc.protocol.commitment import commit, contribution_leaf, hand_context, promise, reshuffle_context
from rngsvc.protocol.derivation import draw_numbers, permute
from rngsvc.protocol.merkle import root_of

VECTORS = Path(__file__).parents[2] / "rngsvc/protocol/hand-protocol.json"

# n and how many vectors of it; large lists are few because every leaf is written out.
SIZES = (
    (1, 8),
    (2, 10),
    (3, 10),
    (20, 20),
    (32, 30),
    (36, 28),
    (52, 78),
    (104, 10),
    (256, 5),
    (257, 5),
    (312, 4),
    (1020, 3),
)
# Used bytes that one 52-card shuffle in some ten thousand reaches: the hands in which the most draws are refused.
MANY_BYTES = 63
MANY = 4
ORIGINS = ("cardroom.example/rng", "rng.example", "shuffle.example/log/2026-a")
PURPOSES = ("button", "seats", "lottery", "x", "p" * 64, "high card for the deal")
# 2**64 mod m is nearly m here, so that one word in 2,049 is skipped: as often as it gets.
SKIPPING = 2**64 // 2049 + 1
MODULI = (1, 2, 3, 6, 8, 9, 10, 52, 255, 256, 1000, 10**6, 2**31 - 1, 2**52 + 1, 2**53 - 1, SKIPPING)


class Choices:
    """Bytes and numbers that follow from a name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def octets(self, length: int) -> bytes:
        self._count += 1
        return hashlib.shake_256(f"rs1 vectors/{self._name}/{self._count}".encode()).digest(length)

    def below(self, bound: int) -> int:
        return int.from_bytes(self.octets(16), "big") % bound

    def subset(self, values: list[Any], count: int) -> list[Any]:
        """Return ``count`` of ``values``, in their order."""
        keyed = sorted(range(len(values)), key=lambda _: self.octets(8))
        return [values[i] for i in sorted(keyed[:count])]


def contributors(choices: Choices, count: int) -> list[tuple[str, bytes | None]]:
    """Return ids in order, every third vector with long ids and one that begins another; some are absent."""
    names = {f"seat-{i}" for i in range(1, 10)} | {f"seat-{i}" for i in range(10, 17)} | {"A", "a", "z" * 64, "~"}
    chosen = choices.subset(sorted(names), count)
    absent_one_in = 2 + choices.below(6)
    return [
        (name, None if choices.below(absent_one_in) == 0 else choices.octets(32 + choices.below(33))) for name in chosen
    ]


def shuffle(
    seed: bytes, context: bytes, k: int, items: list[int], inputs: list[tuple[int, int]] | None
) -> dict[str, Any]:
    order, used = permute(seed, context, k, items)
    leaves = seal(k, order, salts(seed, context, k, len(order)))
    shuffled: dict[str, Any] = {"k": k, "n": len(items)}
    if inputs is not None:
        shuffled["inputs"] = inputs
    return shuffled | {
        "context": context.hex(),
        "order": order,
        "bytes_used": used,
        "leaves": [leaf.hex() for leaf in leaves],
        "root": cards_root(k, leaves).hex(),
    }


def vector(
    origin: str,
    table: bytes,
    seq: int,
    seed: bytes,
    pre: bytes,
    contributions: list[tuple[str, bytes | None]],
    n: int,
    reshuffles: Sequence[list[tuple[int, int]] | int],
    choices: Choices | None = None,
) -> dict[str, Any]:
    """Return one vector; ``reshuffles`` are the locations of each, or how many of the free ones to choose."""
    commitment = commit(table, seq, seed)
    leaves = [contribution_leaf(i, name.encode(), given) for i, (name, given) in enumerate(contributions)]
    root = root_of(leaves)
    shuffles = [shuffle(seed, hand_context(origin, table, seq, commitment, root, pre), 0, list(range(n)), None)]
    free = [(0, p) for p in range(n)]
    for k, asked in enumerate(reshuffles, 1):
        if isinstance(asked, int):
            assert choices
            locations = choices.subset(free, max(1, min(asked, len(free) - 1)))
            # Name a place of each of the last two shuffles that have any left, so that reshuffles mix them.
            newest = sorted({j for j, _ in free})[-2:]
            locations = sorted({*locations, *(next(at for at in free if at[0] == j) for j in newest)})
        else:
            locations = asked
        last = shuffles[-1]
        context = reshuffle_context(bytes.fromhex(last["context"]), bytes.fromhex(last["root"]), k, locations)
        shuffles.append(shuffle(seed, context, k, [shuffles[j]["order"][p] for j, p in locations], locations))
        free = [at for at in free if at not in set(locations)] + [(k, p) for p in range(len(locations))]
    return {
        "origin": origin,
        "table": table.hex(),
        "seq": seq,
        "s": seed.hex(),
        "pre": pre.hex(),
        "contributions": [[name, given.hex() if given is not None else None] for name, given in contributions],
        "promises": [
            promise(origin, table, seq, name.encode(), given).hex() if given is not None else None
            for name, given in contributions
        ],
        "commitment": commitment.hex(),
        "contributions_root": root.hex(),
        "shuffles": shuffles,
    }


def page_example() -> dict[str, Any]:
    """Return the hand that the page writes out."""
    return vector(
        "cardroom.example/rng",
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        7,
        bytes(range(48)),
        bytes(32),
        [("seat-1", b"\x11" * 32), ("seat-3", b"\x22" * 32)],
        52,
        [[(0, 20), (0, 21), (0, 22), (0, 30), (0, 44)], [(0, 45), (0, 46), (1, 0), (1, 3)]],
    )


def vectors() -> Iterator[dict[str, Any]]:
    """Yield the vectors in the file's order."""
    yield page_example()
    number = 0
    for n, count in SIZES:
        for i in range(count):
            number += 1
            choices = Choices(f"hand {number}")
            seq = (1, 2**53 - 1, 1 + choices.below(10**6))[min(i, 2)]
            reshuffles = i % 4 if 20 <= n <= 104 else min(i % 2, n - 1)
            yield vector(
                ORIGINS[number % 3],
                choices.octets(16),
                seq,
                choices.octets(48),
                choices.octets(32),
                contributors(choices, number % 17),
                n,
                [choices.below(n // 2 + 1) + 1 for _ in range(reshuffles)],
                choices,
            )
    for number in range(MANY):
        yield many_refused(Choices(f"many refused {number}"))


def many_refused(choices: Choices) -> dict[str, Any]:
    """Return a 52-card hand without contributors whose stream refuses many draws, found by trying seeds."""
    table, pre = choices.octets(16), choices.octets(32)
    while True:
        seed = choices.octets(48)
        context = hand_context(ORIGINS[0], table, 1, commit(table, 1, seed), root_of([]), pre)
        if permute(seed, context, 0, range(52))[1] >= MANY_BYTES:
            return vector(ORIGINS[0], table, 1, seed, pre, [], 52, [])


def draws() -> Iterator[dict[str, Any]]:
    """Yield the draws in the file's order."""
    seed, context = bytes(range(48)), bytes.fromhex(page_example()["shuffles"][0]["context"])
    yield draw(seed, context, "button", 8, 3)
    yield draw(seed, context, "lottery", 10**6, 2)
    for number, modulus in enumerate(MODULI * 2):
        choices = Choices(f"draw {number}")
        seed, context = choices.octets(48), choices.octets(32)
        yield draw(seed, context, PURPOSES[number % len(PURPOSES)], modulus, 1 + choices.below(12))
    for number in range(4):
        choices = Choices(f"skipped words {number}")
        seed, context = choices.octets(48), choices.octets(32)
        yield draw(seed, context, "lottery", SKIPPING, 1024)


def draw(seed: bytes, context: bytes, purpose: str, modulus: int, count: int) -> dict[str, Any]:
    return {
        "s": seed.hex(),
        "context": context.hex(),
        "purpose": purpose,
        "m": modulus,
        "count": count,
        "values": draw_numbers(seed, context, purpose.encode(), modulus, count),
    }


def text() -> str:
    """Return the file."""
    lines = {
        name: ",\n".join(json.dumps(each, separators=(",", ":")) for each in made)
        for name, made in (("vectors", vectors()), ("draws", draws()))
    }
    return f'{{"vectors":[\n{lines["vectors"]}\n],"draws":[\n{lines["draws"]}\n]}}\n'


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="ascii")
