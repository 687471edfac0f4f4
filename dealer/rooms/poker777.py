"""Poker777: Seven Card Stud, fixed limit. The numbers are those of `poker777.md`."""

from dealer.house_rules import (
    Board,
    Clock,
    EqualBoards,
    Form,
    HouseRules,
    Muck,
    OddChip,
    OpenPair,
    RaiseCap,
    ShowingOrder,
    Stakes,
    TimeOut,
)

POKER777 = HouseRules(
    name="poker777",
    room="poker777",
    title="Seven Card Stud (Poker777)",
    form=Form.SEVEN_CARD_STUD,
    # --- The first round ---
    # P7-1. Up to eight players. The antes are the page's two examples; half the small bet to bring in is our reading.
    fewest_players=2,
    most_players=8,
    stakes=(
        Stakes(name="1/2", small_bet=100, big_bet=200, ante=25, bring_in=50, buy_in=2000),
        Stakes(name="3/6", small_bet=300, big_bet=600, ante=50, bring_in=150, buy_in=6000),
    ),
    # P7-2. The lowest upcard brings in, clubs lowest of equal ranks. The page does not place the ace: high, as usual;
    # nor does it forbid to open for the small bet.
    board=Board.LOW_CARD_BRINGS_IN,
    suits_low_to_high="cdhs",
    may_open_for_full_bet=True,
    bring_in_has_option=False,
    # P7-3. One bet and three raises a round, between two players too. On third street the completion is that bet: a
    # bring-in is less than any bet the page knows.
    raises_a_round=3,
    raise_cap=RaiseCap.ALWAYS,
    completion_is_a_raise=False,
    # --- The second round ---
    # P7-4. The highest hand up starts; equal ones from the dealer's left, as the page says nothing. A pair up on
    # fourth street: single or double bets, after a double one only double.
    equal_boards=EqualBoards.NEAREST_DEALERS_LEFT,
    open_pair_on_fourth=OpenPair.SMALL_OR_BIG_BET,
    open_pair_outlives_fold=True,
    # --- Standard rules ---
    # P7-6. A player may fold at any time. Out of turn the fold is kept for his turn, so that nobody learns of it early.
    fold_out_of_turn=True,
    # P7-8. Ten seconds and a visible timer of twenty. Then a player with money in the pot is all-in for it. The ante
    # is in the pot, so it counts; a bring-in is owed before the clock runs, so it is posted first.
    # P7-9. Back in time after a lost connection: twenty seconds more, once for each action.
    clock=Clock(act_s=10, timer_s=20, reconnect_s=20),
    time_out=TimeOut.ALL_IN_PROTECTION,
    ante_is_money_in_the_pot=True,
    protection_posts_the_bring_in=True,
    # P7-14. The page sets no limit to this protection.
    protections_per_day=None,
    # --- The end ---
    # P7-10. Five of seven, or the community card and four; the deck short as in most rooms (CC-10, CC-11).
    short_deck_counts_the_burn=True,
    community_card_counts_for_first_to_act=True,
    # P7-11. Suits never decide. The odd chip goes to the first winner left of the button: the page names the player
    # there, who may have lost.
    odd_chip=OddChip.LEFT_OF_DEALER,
    # P7-12. Showing and mucking are not on the page: the usual order.
    # P7-13. Play money and real money have the same rules: nothing here tells them apart.
    showing_order=ShowingOrder.FROM_THE_FIRST_TO_ACT,
    muck=Muck.IF_IT_CANNOT_WIN,
)
