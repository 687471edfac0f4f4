"""PokerKit's rules in our vocabulary: what a differential test plays, so that the same code is tested as in a house."""

from dataclasses import replace

from dealer.house_rules import Deck, HouseRules, OddChip, OpenPair, ShortAllIn, ShortForcedBet
from dealer.rooms import recorded


def _as_pokerkit_does(rules: HouseRules) -> HouseRules:
    return replace(
        rules,
        name="pokerkit",
        # No big bet for an open pair; others call only what a short bring-in or blind has posted; every all-in counts
        # as a raise; a remainder goes to one winner; a blind is no bet, so four raises go over it.
        open_pair_on_fourth=OpenPair.NOTHING,
        short_forced_bet=ShortForcedBet.AMOUNT_POSTED,
        short_all_in=ShortAllIn.ANY,
        odd_chip=OddChip.ALL_TO_LEFT_OF_DEALER,
        big_blind_is_a_bet=False,
    )


STUD = _as_pokerkit_does(recorded.STUD)
STUD_HIGH_LOW = _as_pokerkit_does(recorded.STUD_HIGH_LOW)
RAZZ = _as_pokerkit_does(recorded.RAZZ)
FIVE_CARD_DRAW = _as_pokerkit_does(recorded.FIVE_CARD_DRAW)
DEUCE_TO_SEVEN = _as_pokerkit_does(recorded.DEUCE_TO_SEVEN_SINGLE_DRAW)
# PokerKit knows 36 cards with a flush over a full house and the low straight A-6-7-8-9: those of five at pokerkings.
SHORT_DECK_DRAW = replace(FIVE_CARD_DRAW, deck=Deck.SEVEN_TO_ACE, flush_over_full_house=True)
