"""The chips of one hand and the betting round under way, in whole units. No cards, no seats.

Players are positions 0..n-1, clockwise from the dealer's left. A *round* is one street's betting: `open_round`, then
acts until `next_to_act` finds nobody, then `close_round`. Two levels matter, and they differ only after a short
all-in: ``level`` is what the others must call, ``full`` is the last complete bet, from which raises are measured.
"""

from collections.abc import Sequence

from dealer.actions import Act, Choice
from dealer.house_rules import (
    AfterShortAllIn,
    Completion,
    HouseRules,
    RaiseCap,
    ShortAllIn,
    ShortForcedBet,
    Stakes,
    Structure,
)

FOLD = Choice(Act.FOLD)
CHECK = Choice(Act.CHECK)


class Betting:
    """Stacks, bets and who is in. `copy` before any change: a hand shares this with the hand it came from."""

    stacks: list[int]
    bets: list[int]
    paid: list[int]
    dead: list[int]
    still_in: list[bool]
    protected: list[bool]
    awaited: list[bool]
    may_raise: list[bool]
    level: int
    full: int
    sizes: tuple[int, ...]
    bets_made: int
    capped: bool
    aggressor: int | None
    completing: bool

    def __init__(self, rules: HouseRules, stakes: Stakes, stacks: Sequence[int]) -> None:
        players = len(stacks)
        self.rules = rules
        self.stakes = stakes
        self.stacks = list(stacks)
        # On this street; in the whole hand, antes included; dead money, which buys no part of a side pot.
        self.bets = [0] * players
        self.paid = [0] * players
        self.dead = [0] * players
        self.still_in = [True] * players
        # All-in protection: in for what he has put in, his stack out of play (P7-8).
        self.protected = [False] * players
        self.awaited = [False] * players
        self.may_raise = [False] * players
        self.level = self.full = self.bets_made = 0
        # What a bet or raise adds to ``full``; without a limit one number, the least raise.
        self.sizes = ()
        self.capped = False
        self.aggressor = None
        # Third street until somebody has bet in full: raises complete the bring-in.
        self.completing = False

    def copy(self) -> "Betting":
        """Return an independent copy."""
        new = object.__new__(Betting)
        new.__dict__.update(self.__dict__)
        new.stacks = self.stacks.copy()
        new.bets = self.bets.copy()
        new.paid = self.paid.copy()
        new.dead = self.dead.copy()
        new.still_in = self.still_in.copy()
        new.protected = self.protected.copy()
        new.awaited = self.awaited.copy()
        new.may_raise = self.may_raise.copy()
        return new

    # --- who and how much

    @property
    def in_the_middle(self) -> int:
        """All chips bet in this hand and not given back."""
        return sum(self.paid) + sum(self.dead)

    def players_in(self) -> list[int]:
        """Return the positions that have not folded."""
        return [i for i, still_in in enumerate(self.still_in) if still_in]

    def can_act(self, i: int) -> bool:
        """Say whether the player is in, with chips that he may bet."""
        return self.still_in[i] and self.stacks[i] > 0 and not self.protected[i]

    def able(self) -> list[int]:
        """Return the positions that can act."""
        return [i for i in range(len(self.stacks)) if self.can_act(i)]

    def owed(self, i: int) -> int:
        """Return the chips that call, more than he has perhaps. A lone opponent owes no more than the others bet."""
        owed = self.level - self.bets[i]
        if owed > 0 and not any(self.can_act(j) for j in range(len(self.stacks)) if j != i):
            owed = max(bet for j, bet in enumerate(self.bets) if j != i and self.still_in[j]) - self.bets[i]
        return max(owed, 0)

    # --- forced bets

    def post_ante(self, i: int, amount: int) -> int:
        """Take an ante, or what there is of it; it is no part of a street's bet (AL-10). Return what was taken."""
        amount = min(amount, self.stacks[i])
        self.stacks[i] -= amount
        self.paid[i] += amount
        return amount

    def post_dead(self, i: int, amount: int) -> int:
        """Take money that belongs to the pot and counts for nobody's bet (PK-12). Return what was taken."""
        amount = min(amount, self.stacks[i])
        self.stacks[i] -= amount
        self.dead[i] += amount
        return amount

    def post_live(self, i: int, amount: int) -> int:
        """Take a blind or bring-in, or what there is of it, as the player's bet. Return what was taken."""
        amount = min(amount, self.stacks[i])
        self._pay(i, amount)
        return amount

    def _pay(self, i: int, amount: int) -> None:
        self.stacks[i] -= amount
        self.paid[i] += amount
        self.bets[i] += amount

    # --- a round

    def open_round(self, sizes: tuple[int, ...]) -> None:
        """Begin a street's betting with nothing bet."""
        self.level = self.full = self.bets_made = 0
        self.sizes = sizes
        self.capped = self.completing = False
        self.aggressor = None
        self._await_everyone()

    def open_third_street(self) -> None:
        """Begin stud's first round: the bring-in is the level though it is not posted yet (AL-1)."""
        self._set_bring_in_level(self.stakes.bring_in)
        self.bets_made = 1 if self.rules.completion_is_a_raise else 0
        self.capped = False
        self.completing = True
        self._await_everyone()

    def open_on_blinds(self, sizes: tuple[int, ...]) -> None:
        """Begin draw's first round, the blinds being posted: everyone has an option, the blinds too (PK-3)."""
        self.level = self.full = self._forced_level(self.stakes.big_blind, max(self.bets))
        self.sizes = sizes
        self.bets_made = 1 if self.rules.big_blind_is_a_bet else 0
        self._await_everyone()

    def _await_everyone(self) -> None:
        self.awaited = [self.can_act(i) for i in range(len(self.stacks))]
        self.may_raise = [True] * len(self.stacks)

    def _forced_level(self, full: int, posted: int) -> int:
        match self.rules.short_forced_bet:
            case ShortForcedBet.FULL_AMOUNT:
                return max(full, posted)
            case ShortForcedBet.AMOUNT_POSTED:
                return posted

    def next_to_act(self, start: int) -> int | None:
        """Return the first awaited position clockwise from ``start`` on, or None when the round is over."""
        players = len(self.stacks)
        able = self.able()
        if len(able) <= 1 and not (able and self.owed(able[0])):
            return None
        for step in range(players):
            i = (start + step) % players
            if self.awaited[i]:
                return i
        return None

    # --- what may be done, and doing it

    def choices(self, i: int) -> list[Choice]:
        """Return what the awaited player may do (fold is legal when a check is free, AL-14)."""
        owed = self.owed(i)
        if owed:
            adds = min(owed, self.stacks[i])
            to = self.bets[i] + adds
            return [FOLD, Choice(Act.CALL, to, to, adds), *self.raises(i)]
        return [FOLD, CHECK, *self.raises(i)]

    def raises(self, i: int) -> list[Choice]:
        """Return the bets, raises or completions open to the player."""
        bet = self.bets[i]
        all_in = bet + self.stacks[i]
        if not self.may_raise[i] or all_in <= self.level or self._is_capped():
            return []
        if not self._somebody_could_call_more(i):
            return []
        act = Act.COMPLETE if self.completing else Act.RAISE if self.level else Act.BET
        match self.stakes.structure:
            case Structure.FIXED_LIMIT:
                totals = sorted({min(self.full + size, all_in) for size in self.sizes})
                return [Choice(act, to, to, to - bet) for to in totals]
            case Structure.POT_LIMIT:
                pot = sum(self.paid) + (sum(self.dead) if self.rules.pot_limit_counts_dead_money else 0)
                highest = min(self.level + pot + self.level - bet, all_in)
            case Structure.NO_LIMIT:
                highest = all_in
        lowest = min(self.level + self.sizes[0], highest)
        return [Choice(act, lowest, highest, lowest - bet)]

    def _somebody_could_call_more(self, i: int) -> bool:
        most = max(self.bets)
        return any(self.bets[j] + self.stacks[j] > most for j in range(len(self.stacks)) if j != i and self.can_act(j))

    def _is_capped(self) -> bool:
        if self.stakes.structure is not Structure.FIXED_LIMIT:
            return False
        if self.capped and self.rules.cap_outlives_folds:
            return True
        return self.bets_made >= self.rules.bets_a_round and not self._raising_is_free()

    def _raising_is_free(self) -> bool:
        match self.rules.raise_cap:
            case RaiseCap.ALWAYS:
                return False
            case RaiseCap.THREE_OR_MORE_PLAYERS:
                return sum(self.still_in) == 2

    def fold(self, i: int) -> None:
        """Give up the hand; what was paid stays."""
        self.still_in[i] = self.awaited[i] = False

    def check(self, i: int) -> None:
        """Pass the action on."""
        self.awaited[i] = self.may_raise[i] = False

    def call(self, i: int) -> int:
        """Match the level, all-in if need be. Return the chips added."""
        adds = min(self.owed(i), self.stacks[i])
        self._pay(i, adds)
        self.awaited[i] = self.may_raise[i] = False
        return adds

    def post_bring_in(self, i: int) -> int:
        """Post the bring-in, which ends its owner's action unless somebody completes (CC-4). Return the chips."""
        adds = self.post_live(i, self.stakes.bring_in)
        self._set_bring_in_level(self._forced_level(self.stakes.bring_in, adds))
        self.awaited[i] = self.may_raise[i] = self.rules.bring_in_has_option and self.can_act(i)
        return adds

    def _set_bring_in_level(self, level: int) -> None:
        self.level = self.full = level
        match self.rules.completion:
            case Completion.SMALL_BET:
                self.sizes = (self.stakes.small_bet - level,)
            case Completion.BRING_IN_PLUS_SMALL_BET:
                self.sizes = (self.stakes.small_bet,)

    def raise_to(self, i: int, to: int) -> int:
        """Bet, raise or complete to a total that `raises` offered. Return the chips added."""
        adds = to - self.bets[i]
        rise = to - self.full
        above_level = to - self.level
        self._pay(i, adds)
        self.level = to
        self.aggressor = i
        self.awaited[i] = self.may_raise[i] = False
        if self._counts(rise):
            least = self._least_rise_that_reopens()
            self._count_bet(to, rise, above_level)
            for j in range(len(self.stacks)):
                if j != i:
                    # Without a limit, short all-ins that are a full raise only together reopen for whom they are one.
                    self.may_raise[j] |= to - self.bets[j] >= least
                    self.awaited[j] = self.can_act(j) and self.bets[j] < to
        else:
            # A short all-in: who has acted may only call or fold, so his right to raise is not given back (AL-2).
            for j in range(len(self.stacks)):
                if j != i and self.bets[j] < to:
                    self.awaited[j] = self.can_act(j)
        return adds

    def _counts(self, rise: int) -> bool:
        """Say whether a total so far above the last full level is a full bet or raise (AL-2)."""
        if self.stakes.structure is not Structure.FIXED_LIMIT:
            return rise >= self.sizes[0]
        match self.rules.short_all_in:
            case ShortAllIn.HALF_A_BET:
                return 2 * rise >= self.sizes[0]
            case ShortAllIn.ANY:
                return True

    def _least_rise_that_reopens(self) -> int:
        return 0 if self.stakes.structure is Structure.FIXED_LIMIT else self.sizes[0]

    def _count_bet(self, to: int, rise: int, above_level: int) -> None:
        if self.stakes.structure is Structure.FIXED_LIMIT:
            size = self.sizes[0]
            if rise > size:
                # Open pair: once a big bet has gone in, all further bets are big (CC-6).
                size = self.sizes[-1]
                self.sizes = (size,)
            match self.rules.after_short_all_in:
                case AfterShortAllIn.ACTUAL_TOTAL:
                    self.full = to
                case AfterShortAllIn.FULL_LEVEL:
                    self.full += size
        else:
            self.full = to
            self.sizes = (max(self.sizes[0], above_level),)
        if self.completing:
            self.completing = False
            self.sizes = (self.stakes.small_bet,)
        self.bets_made += 1
        if self.bets_made >= self.rules.bets_a_round and not self._raising_is_free():
            self.capped = True

    def protect(self, i: int) -> None:
        """Treat the player as all-in for what he has put in, his stack kept (P7-8)."""
        self.protected[i] = True
        self.awaited[i] = False

    def close_round(self) -> tuple[int, int] | None:
        """End a street. Return (position, chips) of what nobody called and goes back, if any (AL-3)."""
        self.bets = [0] * len(self.stacks)
        self.awaited = [False] * len(self.stacks)
        top = max(self.players_in(), key=self.paid.__getitem__)
        uncalled = self.paid[top] - max(paid for j, paid in enumerate(self.paid) if j != top)
        if uncalled <= 0:
            return None
        self.paid[top] -= uncalled
        self.stacks[top] += uncalled
        return top, uncalled
