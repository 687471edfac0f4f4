"""PokerKings: Five Card Draw 7-A with fixed, pot or no limit. The numbers are those of `pokerkings.md`."""

from dealer.house_rules import (
    Button,
    BuyIn,
    Deck,
    DrawOrder,
    Form,
    HeadsUpButton,
    HouseRules,
    MissedBlinds,
    Muck,
    Newcomer,
    OddChip,
    RaiseCap,
    ShortForcedBet,
    ShortStub,
    ShowingOrder,
    Stakes,
    Structure,
)
from dealer.ranking import SuitedLowStraight


def _stakes(lower_limit: int, structure: Structure) -> Stakes:
    return Stakes(
        name=f"{lower_limit // 100}-{lower_limit // 50} {structure.value.replace('_', ' ')}",
        structure=structure,
        small_bet=lower_limit,
        big_bet=2 * lower_limit,
        # PK-2. The big blind is the lower limit, the small blind usually half of it (2-4: 1 and 2).
        small_blind=lower_limit // 2,
        big_blind=lower_limit,
        # PK-1. Everybody buys in for the same amount.
        buy_in=40 * lower_limit,
    )


POKERKINGS = HouseRules(
    name="pokerkings",
    room="pokerkings",
    title="Five Card Draw 7-A (PokerKings)",
    form=Form.FIVE_CARD_DRAW,
    # --- Players, deck, betting structure ---
    # PK-1. Two to five players; fixed limit, pot limit or no limit.
    fewest_players=2,
    most_players=5,
    stakes=tuple(_stakes(limit, structure) for structure in Structure for limit in (200, 400)),
    buy_in=BuyIn.THE_TABLES_AMOUNT,
    # DK-3. Sevens to aces; with five players at the start of the hand the sixes too.
    deck=Deck.SEVEN_TO_ACE,
    # --- Button and blinds ---
    # PK-2. Button, small blind, big blind. Between two the button is the small blind, as in Texas Hold'em, which the
    # page names.
    button=Button.MOVES,
    heads_up_button=HeadsUpButton.SMALL_BLIND,
    # PK-11, PK-12, PK-13. Newcomers, and blinds that were missed.
    newcomer=Newcomer.POSTS_A_LIVE_BIG_BLIND_OR_WAITS,
    missed_blinds=MissedBlinds.MARKS_ML_AND_MS,
    # PK-20. A big blind that is short still costs the others the full one; pot limit counts every chip of the pot.
    short_forced_bet=ShortForcedBet.FULL_AMOUNT,
    pot_limit_counts_dead_money=True,
    # --- The deal and the first round ---
    # PK-3. Five cards down, one at a time, since the page deals "to the players clockwise". The big blind is the first
    # of the four bets: without it the first round would have five.
    cards_at_a_time=1,
    big_blind_is_a_bet=True,
    # --- The draw ---
    # PK-4. Up to all five cards; the page does not say in which order: as the cards were dealt.
    draw_order=DrawOrder.FROM_THE_BUTTONS_LEFT,
    most_discards=5,
    # PK-5. The discards are shuffled "if not enough cards are left", so what is left goes first. Nobody may get back
    # what he has just thrown away, folded hands stay out, and nothing is burned: the page burns no card anywhere.
    short_stub=ShortStub.STUB_IS_USED_UP_FIRST,
    # --- The second round ---
    # PK-6. Fixed limit: a bet and three raises, between two players too. The page names two limits, 2-4: the lower one
    # before the draw, the higher one after it.
    raises_a_round=3,
    raise_cap=RaiseCap.ALWAYS,
    big_bets_after_the_draw=True,
    # --- Showdown ---
    # PK-7. The page lists a flush above a full house, which is right for so few cards; its "universal" ranking is a
    # phrase.
    flush_over_full_house=True,
    # PK-8. The ace may stand below the seven (below the six with 36 cards, and then only there). In one suit the page
    # calls that a royal flush.
    low_straight=True,
    suited_low_straight=SuitedLowStraight.ROYAL_FLUSH,
    # PK-9. Showing and mucking as usual.
    showing_order=ShowingOrder.FROM_THE_FIRST_TO_ACT,
    muck=Muck.IF_IT_CANNOT_WIN,
    # AL-4. Odd chips from the button's left.
    odd_chip=OddChip.LEFT_OF_DEALER,
)
