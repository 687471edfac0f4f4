"""Casino Club: Seven Card Stud, fixed limit, 1-2 to 20-40. The numbers are those of `casino_club.md`."""

from dealer.house_rules import (
    AntePosting,
    Board,
    BuyIn,
    CheckedDown,
    Clock,
    EqualBoards,
    Form,
    HouseRules,
    Muck,
    OddChip,
    OpenPair,
    RaiseCap,
    Stakes,
    TimeOut,
)


def _stakes(small_bet: int) -> Stakes:
    # CC-17. The page prints neither ante nor bring-in: one fifth and one half of the small bet are our reading.
    return Stakes(
        name=f"{small_bet // 100}-{small_bet // 50}",
        small_bet=small_bet,
        big_bet=2 * small_bet,
        ante=small_bet // 5,
        bring_in=small_bet // 2,
        buy_in=20 * small_bet,
    )


CASINO_CLUB = HouseRules(
    name="casino_club",
    title="Seven Card Stud (Casino Club)",
    form=Form.SEVEN_CARD_STUD,
    # CC-17. Tables from 1-2 to 20-40 euros; amounts are cents.
    stakes=tuple(_stakes(100 * euros) for euros in (1, 2, 3, 5, 10, 15, 20)),
    # --- Before the deal ---
    # CC-1. Two to eight players; the page only says the most. The ante is posted for whoever said "I play".
    fewest_players=2,
    most_players=8,
    buy_in=BuyIn.AT_LEAST_THE_TABLES_AMOUNT,
    ante_posting=AntePosting.BY_DEFAULT_UNLESS_TURNED_OFF,
    # --- Third street ---
    # CC-3. The lowest door card brings in, ace high; equal ranks by suit, clubs lowest.
    board=Board.LOW_CARD_BRINGS_IN,
    suits_low_to_high="cdhs",
    # CC-4. He may open for the small bet at once; a completion is no raise.
    may_open_for_full_bet=True,
    completion_is_a_raise=False,
    # --- Fourth street ---
    # CC-5. The best upcards act first; equal ones from the dealer's left.
    equal_boards=EqualBoards.NEAREST_DEALERS_LEFT,
    # CC-6. An open pair lets anyone bet small or big.
    open_pair_on_fourth=OpenPair.SMALL_OR_BIG_BET,
    # --- Betting ---
    # CC-9. Three raises a round with three or more players, no limit between two.
    raises_a_round=3,
    raise_cap=RaiseCap.THREE_OR_MORE_PLAYERS,
    # CC-12. Ten seconds to act; then check if it is free, else fold.
    clock=Clock(act_s=10),
    time_out=TimeOut.CHECK_OR_FOLD,
    # --- Showdown ---
    # CC-13. The last bettor or raiser shows first; if all checked, who was first to act.
    checked_down=CheckedDown.FIRST_TO_ACT,
    # CC-14. Who cannot win need not show.
    muck=Muck.IF_IT_CANNOT_WIN,
    # CC-16, AL-4. Equal hands split; the odd chip goes to the left of the dealer.
    odd_chip=OddChip.LEFT_OF_DEALER,
)
