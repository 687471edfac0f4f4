"""Makes `rngsvc/protocol/twin-mode.json`: `python -m tests.reference.make_twin_vectors` writes it anew.

As in `make_vectors.py`, everything follows from the vector's number. The values come from the package; that `twin.py`,
written from the page alone, finds the same ones is a test.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rngsvc.protocol.card_seal import cards_root, salts, seal
from rngsvc.protocol.commitment import commit, contribution_leaf, hand_context, promise
from rngsvc.protocol.derivation import permute
from rngsvc.protocol.merkle import root_of
from rngsvc.protocol.twin import choice_digest, played_deck, promise_choice
from tests.reference.make_vectors import ORIGINS, Choices

VECTORS = Path(__file__).parents[2] / "rngsvc/protocol/twin-mode.json"

# n and how many vectors of it.
SIZES = ((2, 14), (32, 20), (36, 20), (52, 40), (312, 4))

Contributor = tuple[str, bytes | None, bytes | None]


def vector(
    origin: str, table: bytes, seq: int, seeds: tuple[bytes, bytes], pre: bytes, by: Sequence[Contributor], n: int
) -> dict[str, Any]:
    """Return one vector; ``by`` are the contributors: id, seed and choice, None where one was not given."""
    root = root_of([contribution_leaf(i, name.encode(), seed) for i, (name, seed, _) in enumerate(by)])
    commitments = [commit(table, seq, seed) for seed in seeds]
    decks, contexts, roots = [], [], []
    for seed, commitment in zip(seeds, commitments, strict=True):
        context = hand_context(origin, table, seq, commitment, root, pre)
        order, used = permute(seed, context, 0, range(n))
        cards = cards_root(0, seal(0, order, salts(seed, context, 0, n)))
        decks.append({"context": context.hex(), "order": order, "bytes_used": used, "root": cards.hex()})
        contexts.append(context)
        roots.append(cards)
    digest = choice_digest((contexts[0], contexts[1]), (roots[0], roots[1]), [choice for _, _, choice in by])
    deck = played_deck(digest)
    return {
        "origin": origin,
        "table": table.hex(),
        "seq": seq,
        "s": [seed.hex() for seed in seeds],
        "pre": pre.hex(),
        "n": n,
        "contributors": [[name, _hex(seed), _hex(choice)] for name, seed, choice in by],
        "promises": [
            [
                _hex(seed and promise(origin, table, seq, name.encode(), seed)),
                _hex(choice and promise_choice(origin, table, seq, name.encode(), choice)),
            ]
            for name, seed, choice in by
        ],
        "commitments": [commitment.hex() for commitment in commitments],
        "contributions_root": root.hex(),
        "decks": decks,
        "digest": digest.hex(),
        "deck": deck,
        "seed": seeds[1 - deck].hex(),
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def page_example() -> dict[str, Any]:
    """Return the hand that the page writes out."""
    return vector(
        "cardroom.example/rng",
        bytes.fromhex("00112233445566778899aabbccddeeff"),
        7,
        (bytes(range(48)), bytes(range(48, 96))),
        bytes(32),
        [("seat-1", b"\x11" * 32, b"\x33" * 32), ("seat-3", b"\x22" * 32, b"\x44" * 32)],
        52,
    )


def contributors(choices: Choices, count: int, chosen_by: str) -> list[Contributor]:
    """Return ids in order; some are absent, and ``chosen_by`` says whether all, some or none of them choose."""
    names = sorted({f"seat-{i}" for i in range(1, 15)} | {"A", "a", "z" * 64, "~"})
    missing_halves = {"all": 0, "some": 1, "none": 2}[chosen_by]
    return [
        (
            name,
            None if choices.below(4) == 0 else choices.octets(32 + choices.below(33)),
            None if choices.below(2) < missing_halves else choices.octets(32 + choices.below(33)),
        )
        for name in choices.subset(names, count)
    ]


def vectors() -> Iterator[dict[str, Any]]:
    """Yield the vectors in the file's order."""
    yield page_example()
    number = 0
    for n, count in SIZES:
        for i in range(count):
            number += 1
            choices = Choices(f"twin {number}")
            yield vector(
                ORIGINS[number % 3],
                choices.octets(16),
                (1, 2**53 - 1, 1 + choices.below(10**6))[min(i, 2)],
                (choices.octets(48), choices.octets(48)),
                choices.octets(32),
                contributors(choices, number % 17, ("all", "some", "some", "none")[number % 4]),
                n,
            )


def text() -> str:
    """Return the file."""
    made = ",\n".join(json.dumps(each, separators=(",", ":")) for each in vectors())
    return f'{{"vectors":[\n{made}\n]}}\n'


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="ascii")
