"""Limit stud (the page names no room): Seven Card Stud and High-Low. The numbers are those of `limit_stud.md`."""

from dataclasses import replace

from dealer.house_rules import (
    Board,
    EqualBoards,
    Form,
    HouseRules,
    Muck,
    Newcomer,
    OddChip,
    OddHalf,
    OpenPair,
    Pot,
    RaiseCap,
    ShowingOrder,
    Stakes,
)


def _stakes(small_bet: int) -> Stakes:
    return Stakes(
        name=f"{small_bet // 100}/{small_bet // 50}",
        small_bet=small_bet,
        big_bet=2 * small_bet,
        # LS-1. About one fifth of the small bet: rounded to whole units, a half up, at least one.
        ante=max(1, (2 * small_bet + 5) // 10),
        # LS-3. Half the small bet.
        bring_in=small_bet // 2,
        buy_in=20 * small_bet,
    )


LIMIT_STUD = HouseRules(
    name="limit_stud",
    room="limit_stud",
    title="Seven Card Stud (limit)",
    form=Form.SEVEN_CARD_STUD,
    # --- Players and stakes ---
    # LS-1. Two to eight players, a full deck; 1/2 is the page's example.
    fewest_players=2,
    most_players=8,
    stakes=(_stakes(100), _stakes(200), _stakes(500)),
    # LS-2. At most three raises a round, between two players too.
    raises_a_round=3,
    raise_cap=RaiseCap.ALWAYS,
    # --- Third street ---
    # LS-3. The lowest card up brings in, or opens for the full small bet. Equal ranks by the page's own order of suits,
    # which names them from the lowest: clubs, hearts, diamonds, spades.
    board=Board.LOW_CARD_BRINGS_IN,
    suits_low_to_high="chds",
    may_open_for_full_bet=True,
    # LS-4. If nobody raises, the bring-in player is done for the round. A completion only fills up his bet, so it is
    # none of the three raises.
    bring_in_has_option=False,
    completion_is_a_raise=False,
    # --- Fourth street ---
    # LS-5. The highest hand up starts. "The order of suits" settles a tie: by each one's highest upcard.
    equal_boards=EqualBoards.HIGHEST_CARD_BY_SUIT,
    # LS-6. Any pair up: small or big bet. The page says so before it parts the two games, so both have it.
    open_pair_on_fourth=OpenPair.SMALL_OR_BIG_BET,
    open_pair_outlives_fold=True,
    # --- River ---
    # LS-11. The deck short: as in most rooms (CC-10, CC-11).
    short_deck_counts_the_burn=True,
    community_card_counts_for_first_to_act=True,
    # --- Showdown ---
    # LS-7. The last bettor or raiser first; all checked: the first left of the dealer who is still in ("did not fold"
    # is how we read the page's garbled word). A hand weaker than one shown may be mucked.
    showing_order=ShowingOrder.FROM_THE_DEALERS_LEFT,
    muck=Muck.IF_WEAKER_THAN_ONE_SHOWN,
    # AL-4. The odd chip goes by the highest card of the winning five, suits as LS-3.
    odd_chip=OddChip.HIGH_CARD_BY_SUIT,
    # --- Joining ---
    # LS-10. A newcomer takes a free seat and plays from the next hand.
    newcomer=Newcomer.NEXT_HAND,
)

LIMIT_STUD_HIGH_LOW = replace(
    LIMIT_STUD,
    name="limit_stud_high_low",
    title="Seven Card Stud High-Low (limit)",
    # LS-8, LS-9. Half for the best high hand, half for the best low of five different ranks up to the eight; the ace is
    # low in it, and straights and flushes do not spoil it, since the page's best low is 5-4-3-2-A.
    pot=Pot.HIGH_AND_EIGHT_OR_BETTER,
    # LS-12. Each pot is halved by itself, the odd chip to high.
    odd_half=OddHalf.HIGH,
)
