"""The vocabulary in which a house is written down: closed choices and plain numbers, no behaviour.

A room (`dealer/rooms`) is one `HouseRules` record in the order of its page. The engine asks for a rule, never for a
room; a new kind of rule is a new enum member here and a new arm of the `match` that obeys it. Money is whole minor
units (cents) everywhere. The ids in comments are those of the room's page in `dealer/rooms/<room>.md`.
"""

from dataclasses import dataclass
from enum import Enum

from dealer.ranking import DeuceToSeven, EightOrBetter, Ranking, Razz, SuitedLowStraight, high_ranking


class Form(Enum):
    """How a hand is dealt."""

    SEVEN_CARD_STUD = "seven_card_stud"
    FIVE_CARD_DRAW = "five_card_draw"


class Structure(Enum):
    """How large a bet may be."""

    FIXED_LIMIT = "fixed_limit"
    POT_LIMIT = "pot_limit"
    NO_LIMIT = "no_limit"


class Deck(Enum):
    """Which cards are in the deck."""

    FULL = "full"
    SEVEN_TO_ACE = "seven_to_ace"  # 32 cards; with five players the sixes too, 36 (DK-3)


class Pot(Enum):
    """What wins a pot, or each half of it."""

    HIGH = "high"
    HIGH_AND_EIGHT_OR_BETTER = "high_and_eight_or_better"
    RAZZ = "razz"
    DEUCE_TO_SEVEN = "deuce_to_seven"


class Board(Enum):
    """Which upcards bring in, and which speak first later: stud played for high, or for low."""

    LOW_CARD_BRINGS_IN = "low_card_brings_in"
    HIGH_CARD_BRINGS_IN = "high_card_brings_in"


class EqualBoards(Enum):
    """Who acts first when the best upcards are equal."""

    NEAREST_DEALERS_LEFT = "nearest_dealers_left"
    HIGHEST_CARD_BY_SUIT = "highest_card_by_suit"


class SeventhStreetFirst(Enum):
    """Who speaks first on seventh street (CC-7)."""

    BEST_UPCARDS = "best_upcards"
    AS_ON_SIXTH = "as_on_sixth"


class OpenPair(Enum):
    """What an open pair on fourth street allows."""

    NOTHING = "nothing"
    SMALL_OR_BIG_BET = "small_or_big_bet"


class DrawOrder(Enum):
    """Who draws first (PK-4)."""

    FROM_THE_BUTTONS_LEFT = "from_the_buttons_left"
    FROM_THE_FIRST_TO_ACT = "from_the_first_to_act"


class ShortStub(Enum):
    """What is shuffled when the stub cannot serve a draw: others' discards, after the stub or with it (PK-5)."""

    STUB_IS_USED_UP_FIRST = "stub_is_used_up_first"
    STUB_IS_SHUFFLED_IN = "stub_is_shuffled_in"


class RaiseCap(Enum):
    """When the number of raises in a round is limited."""

    ALWAYS = "always"
    THREE_OR_MORE_PLAYERS = "three_or_more_players"


class Completion(Enum):
    """How much a completion of the bring-in makes the bet."""

    SMALL_BET = "small_bet"
    BRING_IN_PLUS_SMALL_BET = "bring_in_plus_small_bet"


class ShortAllIn(Enum):
    """Which all-in of less than a full bet counts as a bet or raise in fixed limit (AL-2)."""

    HALF_A_BET = "half_a_bet"
    ANY = "any"


class AfterShortAllIn(Enum):
    """What the next raise adds to, after an all-in that counted although it was short (AL-2)."""

    ACTUAL_TOTAL = "actual_total"
    FULL_LEVEL = "full_level"


class ShortForcedBet(Enum):
    """What the others owe when a bring-in or big blind is all-in for less (AL-1, PK-20)."""

    FULL_AMOUNT = "full_amount"
    AMOUNT_POSTED = "amount_posted"


class OddChip(Enum):
    """Who gets the chips that do not divide (AL-4)."""

    LEFT_OF_DEALER = "left_of_dealer"
    HIGH_CARD_BY_SUIT = "high_card_by_suit"
    ALL_TO_LEFT_OF_DEALER = "all_to_left_of_dealer"  # the whole remainder to one winner


class OddHalf(Enum):
    """Which half of a split pot is the greater one when it does not divide (LS-12)."""

    HIGH = "high"
    LOW = "low"


class ShowingOrder(Enum):
    """Who shows first when the last round was checked; else the last bettor or raiser; then clockwise (CC-13, LS-7)."""

    FROM_THE_FIRST_TO_ACT = "from_the_first_to_act"
    FROM_THE_DEALERS_LEFT = "from_the_dealers_left"


class Muck(Enum):
    """When a hand need not be shown at the showdown (CC-14, LS-7)."""

    IF_IT_CANNOT_WIN = "if_it_cannot_win"
    IF_WEAKER_THAN_ONE_SHOWN = "if_weaker_than_one_shown"


class TimeOut(Enum):
    """What becomes of a player who has run out of time (AL-5, P7-8)."""

    CHECK_OR_FOLD = "check_or_fold"
    ALL_IN_PROTECTION = "all_in_protection"


class BuyIn(Enum):
    """How many chips a player may bring."""

    AT_LEAST_THE_TABLES_AMOUNT = "at_least_the_tables_amount"
    THE_TABLES_AMOUNT = "the_tables_amount"


class AntePosting(Enum):
    """Whether a player is asked before his ante is posted (CC-1)."""

    BY_DEFAULT_UNLESS_TURNED_OFF = "by_default_unless_turned_off"
    WHEN_SEATED = "when_seated"


class Button(Enum):
    """Whether the dealer's place moves."""

    NONE = "none"  # stud: the dealer sits before seat 1 (AL-4)
    MOVES = "moves"


class HeadsUpButton(Enum):
    """Which blind the button posts between two players (PK-2)."""

    SMALL_BLIND = "small_blind"
    BIG_BLIND = "big_blind"


class Newcomer(Enum):
    """How a player who has taken a seat comes into the game (LS-10, PK-11, AL-21)."""

    NEXT_HAND = "next_hand"
    POSTS_A_LIVE_BIG_BLIND_OR_WAITS = "posts_a_live_big_blind_or_waits"


class MissedBlinds(Enum):
    """What a room remembers of blinds that were not posted."""

    NONE = "none"
    MARKS_ML_AND_MS = "marks_ml_and_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """The amounts of one table. ``small_bet`` is the lower limit; without a limit the big blind is the least bet."""

    name: str
    structure: Structure = Structure.FIXED_LIMIT
    ante: int = 0
    bring_in: int = 0
    small_bet: int = 0
    big_bet: int = 0
    small_blind: int = 0
    big_blind: int = 0
    buy_in: int = 0


@dataclass(frozen=True, slots=True)
class Rake:
    """The house's share: a percentage in hundredths of a percent, at most ``cap`` a hand (AL-8)."""

    basis_points: int
    cap: int


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds to act, of the visible timer after them, to show or muck, and added on reconnecting in time."""

    act_s: int = 30
    timer_s: int = 0
    show_s: int = 5
    reconnect_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseRules:
    """One game of one house. A default is the reading that all houses share; a room's file says what it decides."""

    name: str
    room: str
    title: str
    form: Form
    stakes: tuple[Stakes, ...]

    # Players, deck, rankings
    fewest_players: int = 2
    most_players: int = 8
    deck: Deck = Deck.FULL
    pot: Pot = Pot.HIGH
    flush_over_full_house: bool = False
    low_straight: bool = True
    suited_low_straight: SuitedLowStraight = SuitedLowStraight.STRAIGHT_FLUSH

    # Stud: third street
    board: Board = Board.LOW_CARD_BRINGS_IN
    suits_low_to_high: str = "cdhs"
    may_open_for_full_bet: bool = True
    bring_in_has_option: bool = False
    completion: Completion = Completion.SMALL_BET
    completion_is_a_raise: bool = False
    # Stud: later streets
    equal_boards: EqualBoards = EqualBoards.NEAREST_DEALERS_LEFT
    seventh_street_first: SeventhStreetFirst = SeventhStreetFirst.BEST_UPCARDS
    open_pair_on_fourth: OpenPair = OpenPair.NOTHING
    open_pair_outlives_fold: bool = True
    short_deck_counts_the_burn: bool = True
    community_card_counts_for_first_to_act: bool = True

    # Draw
    heads_up_button: HeadsUpButton = HeadsUpButton.SMALL_BLIND
    cards_at_a_time: int = 1
    draw_order: DrawOrder = DrawOrder.FROM_THE_BUTTONS_LEFT
    most_discards: int = 5
    short_stub: ShortStub = ShortStub.STUB_IS_USED_UP_FIRST
    big_blind_is_a_bet: bool = True
    big_bets_after_the_draw: bool = True
    pot_limit_counts_dead_money: bool = True

    # Betting
    raises_a_round: int = 3
    raise_cap: RaiseCap = RaiseCap.ALWAYS
    cap_outlives_folds: bool = True
    short_all_in: ShortAllIn = ShortAllIn.HALF_A_BET
    after_short_all_in: AfterShortAllIn = AfterShortAllIn.ACTUAL_TOTAL
    short_forced_bet: ShortForcedBet = ShortForcedBet.FULL_AMOUNT
    fold_out_of_turn: bool = False

    # Showdown and payment
    showing_order: ShowingOrder = ShowingOrder.FROM_THE_FIRST_TO_ACT
    muck: Muck = Muck.IF_IT_CANNOT_WIN
    odd_chip: OddChip = OddChip.LEFT_OF_DEALER
    odd_half: OddHalf = OddHalf.HIGH
    rake: Rake | None = None

    # Table
    buy_in: BuyIn = BuyIn.AT_LEAST_THE_TABLES_AMOUNT
    ante_posting: AntePosting = AntePosting.WHEN_SEATED
    newcomer: Newcomer = Newcomer.NEXT_HAND
    button: Button = Button.NONE
    missed_blinds: MissedBlinds = MissedBlinds.NONE
    clock: Clock = Clock()
    time_out: TimeOut = TimeOut.CHECK_OR_FOLD
    ante_is_money_in_the_pot: bool = True
    protection_posts_the_bring_in: bool = True
    protections_per_day: int | None = None
    # Seconds for players' own seeds before a hand, and until a hand whose cards cannot be had is void (AL-22).
    seed_window_s: int = 3
    void_after_s: int = 120

    def deck_size(self, players: int) -> int:
        """Return how many cards a hand with so many players is dealt from."""
        match self.deck:
            case Deck.FULL:
                return 52
            case Deck.SEVEN_TO_ACE:
                return 36 if players == 5 else 32

    def rankings(self, deck_size: int) -> tuple[Ranking, ...]:
        """Return what is compared at the showdown: one ranking, or two for the halves of a split pot, high first."""
        high = high_ranking(deck_size, self.flush_over_full_house, self.low_straight, self.suited_low_straight)
        match self.pot:
            case Pot.HIGH:
                return (high,)
            case Pot.HIGH_AND_EIGHT_OR_BETTER:
                return (high, EIGHT_OR_BETTER)
            case Pot.RAZZ:
                return (RAZZ,)
            case Pot.DEUCE_TO_SEVEN:
                return (DEUCE_TO_SEVEN,)

    @property
    def bets_a_round(self) -> int:
        """How many bets and raises a capped round has."""
        return 1 + self.raises_a_round


EIGHT_OR_BETTER = EightOrBetter()
RAZZ = Razz()
DEUCE_TO_SEVEN = DeuceToSeven()
