"""The predictors of SP 800-90B, 6.3.7 - 6.3.10, one sample at a time, for samples of one bit.

Written from the text, where each keeps its tables, score board and winner as it goes. Each function returns how often
the followed predictor was right and its longest run of being right.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

Guess = int | None


def follow(
    predictors: int, guesses_and_truths: Iterator[tuple[list[Guess], int]], silence_ends_a_run: bool
) -> tuple[int, int]:
    """Keep the score board and follow the winner."""
    scores, winner, right, run, longest = [0] * predictors, 0, 0, 0, 0
    for guesses, truth in guesses_and_truths:
        if guesses[winner] == truth:
            right, run = right + 1, run + 1
            longest = max(longest, run)
        elif guesses[winner] is not None or silence_ends_a_run:
            run = 0
        for predictor, guess in enumerate(guesses):
            if guess == truth:
                scores[predictor] += 1
                if scores[predictor] >= scores[winner]:
                    winner = predictor
    return right, longest


def multi_most_common_in_window(bits: list[int], windows: tuple[int, ...]) -> tuple[int, int]:
    def guesses() -> Iterator[tuple[list[Guess], int]]:
        for place in range(windows[0], len(bits)):
            yield (
                [
                    int(2 * sum(bits[place - window : place]) > window) if place >= window else None
                    for window in windows
                ],
                bits[place],
            )

    return follow(len(windows), guesses(), silence_ends_a_run=True)


def lag(bits: list[int], lags: int) -> tuple[int, int]:
    def guesses() -> Iterator[tuple[list[Guess], int]]:
        for place in range(1, len(bits)):
            yield [bits[place - d] if place >= d else None for d in range(1, lags + 1)], bits[place]

    return follow(lags, guesses(), silence_ends_a_run=True)


def multi_markov_model_with_counting(bits: list[int], orders: int, limit: int) -> tuple[int, int]:
    tables: list[Counter[tuple[tuple[int, ...], int]]] = [Counter() for _ in range(orders)]

    def guesses() -> Iterator[tuple[list[Guess], int]]:
        for place in range(1, len(bits)):
            row: list[Guess] = []
            for order, table in enumerate(tables, 1):
                if place < order:
                    row.append(None)
                    continue
                context = tuple(bits[place - order : place])
                zeros, ones = table[context, 0], table[context, 1]
                row.append(None if zeros + ones == 0 else int(ones >= zeros))
            if place >= 2:
                yield row, bits[place]
            for order, table in enumerate(tables, 1):
                if place >= order:
                    key = (tuple(bits[place - order : place]), bits[place])
                    if table[key] or sum(1 for count in table.values() if count) < limit:
                        table[key] += 1

    # NIST's program lets a predictor without a guess be silent, and its answers are what we are to hit.
    return follow(orders, guesses(), silence_ends_a_run=False)


def lz78y(bits: list[int], orders: int, limit: int) -> tuple[int, int]:
    table: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)

    def guesses() -> Iterator[tuple[list[Guess], int]]:
        for place in range(orders, len(bits)):
            best, guess = 0, None
            for order in range(orders, 0, -1):
                context = tuple(bits[place - order : place])
                if context in table:
                    zeros, ones = table[context][0], table[context][1]
                    if max(zeros, ones) > best:
                        best, guess = max(zeros, ones), int(ones >= zeros)
            if place > orders:
                yield [guess], bits[place]
            for order in range(orders, 0, -1):
                context = tuple(bits[place - order : place])
                if context in table or len(table) < limit:
                    table[context][bits[place]] += 1

    return follow(1, guesses(), silence_ends_a_run=True)
