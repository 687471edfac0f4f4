"""B7: the ranking of seven cards, our batch in NumPy against phevaluator's native call in a loop.

The order of both is compared on the same hands first: a fast ranking that is wrong is worth nothing.
"""

import time

import numpy as np
from phevaluator import _pheval

from benchmarks.ratio import Bar
from dealer.ranking import high_ranking
from dealer.ranking_batch import values

BAR = Bar("B7", "seven-card ranking: hands per CPU second, our batch / phevaluator's native call", 1.1, 2)
HANDS = 400_000
ROUNDS = 5


def main() -> None:
    """Print the ratio."""
    deck = np.argsort(np.random.default_rng(7).random((HANDS, 52)), axis=1)[:, :7]
    cards = np.ascontiguousarray(deck.astype(np.uint8))
    # phevaluator counts cards as we do, deuce of clubs 0, and calls the best hand 1.
    rows = cards.tolist()
    native = _pheval.evaluate_7cards
    ranking = high_ranking(52)
    our_order = np.unique(values(ranking, cards), return_inverse=True)[1]
    their_order = np.unique([-native(*row) for row in rows], return_inverse=True)[1]
    assert np.array_equal(our_order, their_order), "both rank all hands alike"

    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        values(ranking, cards)
        between = time.process_time()
        for row in rows:
            native(*row)
        rounds.append((HANDS / (between - begun), HANDS / (time.process_time() - between)))
    ours, theirs = zip(*rounds, strict=True)
    BAR.report([our / their for our, their in rounds], f"ours {max(ours):,.0f}, phevaluator {max(theirs):,.0f}")


if __name__ == "__main__":
    main()
