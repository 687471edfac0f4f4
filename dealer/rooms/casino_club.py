"""Casino Club: Seven Card Stud, fixed limit, 1-2 to 20-40. The numbers are those of `casino_club.md`."""

from dealer.house_rules import (
    AntePosting,
    Board,
    BuyIn,
    Clock,
    EqualBoards,
    Form,
    HouseRules,
    Muck,
    OddChip,
    OpenPair,
    RaiseCap,
    SeventhStreetFirst,
    ShowingOrder,
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
    room="casino_club",
    title="Seven Card Stud (Casino Club)",
    form=Form.SEVEN_CARD_STUD,
    # CC-17. Tables from 1-2 to 20-40 euros; amounts are cents.
    stakes=tuple(_stakes(100 * euros) for euros in (1, 2, 3, 5, 10, 15, 20)),
    # --- Before the deal ---
    # CC-1. Up to eight players; that it takes two is our reading. Nobody sits down with less than the table's amount.
    fewest_players=2,
    most_players=8,
    buy_in=BuyIn.AT_LEAST_THE_TABLES_AMOUNT,
    # CC-1. "I play" once, then the ante is posted until the player turns that off.
    ante_posting=AntePosting.BY_DEFAULT_UNLESS_TURNED_OFF,
    # --- Third street ---
    # CC-2. Down, down, up, one card at a time from the dealer's left.
    cards_at_a_time=1,
    # CC-3. The lowest door card brings in, ace high; equal ranks by suit, clubs lowest.
    board=Board.LOW_CARD_BRINGS_IN,
    suits_low_to_high="cdhs",
    # CC-4. He may open for the small bet instead. Completing his bring-in is no raise. If it is only called, he has no
    # option: the page names none, and a bring-in is not a blind.
    may_open_for_full_bet=True,
    completion_is_a_raise=False,
    bring_in_has_option=False,
    # --- Fourth street ---
    # CC-5. The best upcards act first; equal ones from the dealer's left.
    equal_boards=EqualBoards.NEAREST_DEALERS_LEFT,
    # CC-6. Any open pair lets everyone bet small or big. The page says "if a player shows a pair", not "holds it to the
    # end of the round", so its owner's fold changes nothing.
    open_pair_on_fourth=OpenPair.SMALL_OR_BIG_BET,
    open_pair_outlives_fold=True,
    # --- Seventh street ---
    # CC-7. The page does not say who is first: the best four upcards still in, as on the streets before.
    seventh_street_first=SeventhStreetFirst.BEST_UPCARDS,
    # CC-10. "Not enough cards" counts the burn that comes first, so it is judged before it.
    short_deck_counts_the_burn=True,
    # CC-11. A community card is everybody's upcard, so it counts for who is first.
    community_card_counts_for_first_to_act=True,
    # --- Betting ---
    # CC-9. Three raises a round with three or more players, no limit between two. A cap that was reached among three
    # stays for the round: the round was closed to raises when it was.
    raises_a_round=3,
    raise_cap=RaiseCap.THREE_OR_MORE_PLAYERS,
    cap_outlives_folds=True,
    # CC-12. Ten seconds. Then check if that is free, else fold, the mildest thing that keeps the game going; a
    # bring-in that is owed is posted.
    clock=Clock(act_s=10),
    time_out=TimeOut.CHECK_OR_FOLD,
    # --- Showdown ---
    # CC-13. The last to bet or raise shows first, or who was first to act; the page does not say who comes then.
    showing_order=ShowingOrder.FROM_THE_FIRST_TO_ACT,
    # CC-14. Who cannot win need not show.
    muck=Muck.IF_IT_CANNOT_WIN,
    # CC-16, AL-4. Equal hands split the pot; odd chips from the dealer's left.
    odd_chip=OddChip.LEFT_OF_DEALER,
)
