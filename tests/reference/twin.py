"""Twin mode a second time, from `rngsvc/protocol/twin-mode.md` and nothing else; deck by deck it is `rs1.py`'s hand."""

from tests.reference import rs1


def choice_promise(origin, table, seq, identity, choice):
    data = b"\x15" + b"rs1/choice" + rs1.H(origin.encode()) + table + rs1.number(seq, 8)
    return rs1.H(data + rs1.H(identity) + choice)


class TwinHand:
    """One hand up to the choice; ``contributors`` are [id, seed or None, choice or None]."""

    def __init__(self, origin, table, seq, seeds, pre, contributors, n):
        assert seeds[0] != seeds[1]
        self.contributors = contributors
        self.hands = []
        for s in seeds:
            hand = rs1.Hand(origin, table, seq, s, pre, [(identity, seed) for identity, seed, _ in contributors])
            hand.seal(n)
            self.hands.append(hand)

    def digest(self):
        data = b"\x17" + b"rs1/twin"
        for hand in self.hands:
            data += hand.shuffles[0]["context"]
            data += hand.shuffles[0]["root"]
        for _, _, choice in self.contributors:
            data += bytes(32) if choice is None else rs1.H(choice)
        return rs1.H(data)

    def played(self):
        return int.from_bytes(self.digest(), "big") % 2

    def shown_seed(self):
        """The seed that the choose entry shows: of the deck that is not played."""
        return self.hands[1 - self.played()].s
