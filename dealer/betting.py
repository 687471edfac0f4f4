"""The chips of one hand and the betting round under way, in whole units. No cards, no seats.

Players are positions 0..n-1, clockwise from the dealer's left. A *round* is one street's betting: one of the ``open``
methods, then acts until `next_to_act` finds nobody, then `close_round`. Two levels matter, and they differ only after a
short all-in: ``level`` is what the others must call, ``full`` is the last complete bet, from which raises are measured.
"""

import sys
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
    """Stacks, bets and who is in. Changed in place: a hand that shares it with an older one works on a `copy`."""

    stacks: list[int]
    bets: list[int]
    paid: list[int]
    dead: list[int]
    inside: list[int]
    active: list[int]
    turns: list[int]
    may_raise: list[bool]
    level: int
    full: int
    sizes: tuple[int, ...]
    bets_made: int
    capped: bool
    offers: dict[int, tuple[Choice, ...]]
    aggressor: int | None
    completing: bool

    def __init__(self, rules: HouseRules, stakes: Stakes, stacks: Sequence[int]) -> None:
        players = len(stacks)
        self.rules = rules
        self.stakes = stakes
        self.fixed_limit = stakes.structure is Structure.FIXED_LIMIT
        self.most_bets = rules.bets_a_round if self.fixed_limit else sys.maxsize
        self.stacks = list(stacks)
        # On this street; in the whole hand, antes included; dead money, which buys no part of a side pot.
        self.bets = [0] * players
        self.paid = [0] * players
        self.dead = [0] * players
        # Who has not folded; of these, who has chips that he may bet; of these, who is still to act, next one first.
        self.inside = list(range(players))
        self.active = list(range(players))
        self.turns = []
        self.may_raise = [False] * players
        self.level = self.full = self.bets_made = 0
        # What a bet or raise adds to ``full``; without a limit one number, the least raise.
        self.sizes = ()
        self.capped = False
        # What everyone who has put in so much on this street is offered, if he is not short of chips; see `choices`.
        self.offers = {}
        self.aggressor = None
        # Third street until somebody has bet in full: raises complete the bring-in.
        self.completing = False

    def copy(self) -> "Betting":
        """Return an independent copy."""
        new = Betting(self.rules, self.stakes, self.stacks)
        new.bets = self.bets.copy()
        new.paid = self.paid.copy()
        new.dead = self.dead.copy()
        new.inside = self.inside.copy()
        new.active = self.active.copy()
        new.turns = self.turns.copy()
        new.may_raise = self.may_raise.copy()
        new.level = self.level
        new.full = self.full
        new.sizes = self.sizes
        new.bets_made = self.bets_made
        new.capped = self.capped
        new.aggressor = self.aggressor
        new.completing = self.completing
        return new

    # --- who and how much

    @property
    def in_the_middle(self) -> int:
        """All chips bet in this hand and not given back."""
        return sum(self.paid) + sum(self.dead)

    def owed(self, i: int) -> int:
        """Return the chips that call, more than he has perhaps. A lone opponent owes no more than the others bet."""
        owed = self.level - self.bets[i]
        if owed > 0 and len(self.active) == 1:
            owed = min(owed, max([self.bets[j] for j in self.inside if j != i]) - self.bets[i])
        return max(0, owed)

    # --- forced bets

    def post_ante(self, i: int, amount: int) -> int:
        """Take an ante, or what there is of it; it is no part of a street's bet (AL-10). Return what was taken."""
        amount = self._take(i, amount)
        self.paid[i] += amount
        return amount

    def post_dead(self, i: int, amount: int) -> int:
        """Take money that belongs to the pot and counts for nobody's bet (PK-12). Return what was taken."""
        amount = self._take(i, amount)
        self.dead[i] += amount
        return amount

    def post_live(self, i: int, amount: int) -> int:
        """Take a blind or bring-in, or what there is of it, as the player's bet. Return what was taken."""
        amount = self._take(i, amount)
        self.paid[i] += amount
        self.bets[i] += amount
        return amount

    def _take(self, i: int, amount: int) -> int:
        """Take chips from a stack, all of it if it is no more; who has none left acts no more."""
        stack = self.stacks[i]
        if stack <= amount:
            self.stacks[i] = 0
            if stack:
                self._leaves_play(i)
            return stack
        self.stacks[i] = stack - amount
        return amount

    def _leaves_play(self, i: int) -> None:
        self.active.remove(i)
        self.offers = {}

    # --- a round

    def open_round(self, sizes: tuple[int, ...], first: int) -> None:
        """Begin a street's betting with nothing bet, at ``first`` or the next clockwise that can act (AL-11)."""
        self.level = self.full = self.bets_made = 0
        self.sizes = sizes
        self._begin(first)

    def open_third_street(self, first: int) -> None:
        """Begin stud's first round: the bring-in is the level though it is not posted yet (AL-1)."""
        self._set_bring_in_level(self.stakes.bring_in)
        self.bets_made = 1 if self.rules.completion_is_a_raise else 0
        self._begin(first)
        self.completing = True

    def open_on_blinds(self, sizes: tuple[int, ...], first: int) -> None:
        """Begin draw's first round, the blinds being posted: everyone has an option, the blinds too (PK-3)."""
        self.level = self.full = self._forced_level(self.stakes.big_blind, max(self.bets))
        self.bets_made = 1 if self.rules.big_blind_is_a_bet else 0
        self.sizes = sizes
        self._begin(first)

    def _begin(self, first: int) -> None:
        self.capped = self.completing = False
        self.aggressor = None
        self.turns = self._clockwise_from(first)
        self.may_raise = [True] * len(self.stacks)
        self.offers = {}

    def _clockwise_from(self, first: int) -> list[int]:
        active = self.active
        return [j for j in active if j >= first] + [j for j in active if j < first]

    def _forced_level(self, full: int, posted: int) -> int:
        match self.rules.short_forced_bet:
            case ShortForcedBet.FULL_AMOUNT:
                return max(full, posted)
            case ShortForcedBet.AMOUNT_POSTED:
                return posted

    def next_to_act(self) -> int | None:
        """Return whose turn it is, or None when the round is over: no one is asked who can neither gain nor lose."""
        if not self.turns or (len(self.active) == 1 and not self.owed(self.turns[0])):
            return None
        return self.turns[0]

    # --- what may be done

    def choices(self, i: int) -> tuple[Choice, ...]:
        """Return what the player whose turn it is may do (fold is legal when a check is free, AL-14)."""
        bet = self.bets[i]
        # In fixed limit all who can pay for the largest raise and have the right to it are offered the same.
        deep = self.fixed_limit and bet + self.stacks[i] >= self.full + self.sizes[-1] and self.may_raise[i]
        if deep and bet in self.offers:
            return self.offers[bet]
        if bet >= self.level:
            offer = (FOLD, CHECK, *self.raises(i))
        else:
            adds = min(self.owed(i), self.stacks[i])
            offer = (FOLD, Choice(Act.CALL, bet + adds, bet + adds, adds), *self.raises(i))
        if deep:
            self.offers[bet] = offer
        return offer

    def raises(self, i: int) -> tuple[Choice, ...]:
        """Return the bets, raises or completions open to the player, in fixed limit one for each size."""
        bets = self.bets
        level = self.level
        bet = bets[i]
        all_in = bet + self.stacks[i]
        if not self.may_raise[i] or all_in <= level or (self.bets_made >= self.most_bets and self._is_capped()):
            return ()
        most = max(bets)
        for j in self.active:
            if j != i and bets[j] + self.stacks[j] > most:
                break
        else:
            return ()  # nobody is left who could call more
        act = Act.COMPLETE if self.completing else Act.RAISE if level else Act.BET
        least = self.sizes[0]
        if self.fixed_limit:
            to = min(self.full + least, all_in)
            small = Choice(act, to, to, to - bet)
            if len(self.sizes) == 1 or to == all_in:
                return (small,)
            to = min(self.full + self.sizes[1], all_in)
            return (small, Choice(act, to, to, to - bet))
        highest = all_in
        if self.stakes.structure is Structure.POT_LIMIT:
            pot = sum(self.paid) + (sum(self.dead) if self.rules.pot_limit_counts_dead_money else 0)
            highest = min(level + pot + level - bet, all_in)
        lowest = min(level + least, highest)
        return (Choice(act, lowest, highest, lowest - bet),)

    def _is_capped(self) -> bool:
        return (self.capped and self.rules.cap_outlives_folds) or not self._raising_is_free()

    def _raising_is_free(self) -> bool:
        match self.rules.raise_cap:
            case RaiseCap.ALWAYS:
                return False
            case RaiseCap.THREE_OR_MORE_PLAYERS:
                return len(self.inside) == 2

    # --- doing it

    def fold(self, i: int) -> None:
        """Give up the hand; what was paid stays."""
        self.inside.remove(i)
        self._leaves_play(i)
        if i in self.turns:
            self.turns.remove(i)

    def check(self, i: int) -> None:
        """Pass the action on; who has checked may raise later (CC-8)."""
        del self.turns[0]
        self.may_raise[i] = False

    def call(self, i: int) -> int:
        """Match the level, all-in if need be. Return the chips added."""
        adds = self.post_live(i, self.owed(i))
        del self.turns[0]
        self.may_raise[i] = False
        return adds

    def post_bring_in(self, i: int) -> int:
        """Post the bring-in, which ends its owner's action unless somebody completes (CC-4). Return the chips."""
        adds = self.post_live(i, self.stakes.bring_in)
        self._set_bring_in_level(self._forced_level(self.stakes.bring_in, adds))
        del self.turns[0]
        self.offers = {}
        self.may_raise[i] = self.rules.bring_in_has_option
        if self.rules.bring_in_has_option and i in self.active:
            self.turns.append(i)
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
        rise = to - self.full
        above_level = to - self.level
        adds = self.post_live(i, to - self.bets[i])
        self.level = to
        self.offers = {}
        self.aggressor = i
        self.may_raise[i] = False
        if self._counts(rise):
            # Without a limit, short all-ins that are a full raise only together reopen for those they are one for.
            least = 0 if self.fixed_limit else self.sizes[0]
            self._count_bet(to, rise, above_level)
            for j in self.active:
                if j != i and to - self.bets[j] >= least:
                    self.may_raise[j] = True
        # After a short all-in, who has acted may only call or fold: his right to raise is not given back (AL-2).
        self.turns = [j for j in self._clockwise_from(i + 1) if j != i]
        return adds

    def _counts(self, rise: int) -> bool:
        """Say whether a total so far above the last full level is a full bet or raise (AL-2)."""
        if not self.fixed_limit:
            return rise >= self.sizes[0]
        match self.rules.short_all_in:
            case ShortAllIn.HALF_A_BET:
                return 2 * rise >= self.sizes[0]
            case ShortAllIn.ANY:
                return True

    def _count_bet(self, to: int, rise: int, above_level: int) -> None:
        if self.fixed_limit:
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
        if self.bets_made >= self.most_bets and not self._raising_is_free():
            self.capped = True

    def protect(self, i: int) -> None:
        """Treat the player as all-in for what he has put in, his stack kept out of play (P7-8)."""
        self._leaves_play(i)
        if i in self.turns:
            self.turns.remove(i)

    def close_round(self) -> tuple[int, int] | None:
        """End a street. Return (position, chips) of what nobody called and goes back, if any (AL-3)."""
        self.bets = [0] * len(self.stacks)
        self.turns = []
        paid = self.paid
        top = max(self.inside, key=paid.__getitem__)
        uncalled = paid[top] - max(paid[:top] + paid[top + 1 :])
        if uncalled <= 0:
            return None
        if self.stacks[top] == 0:
            # He went all-in for more than anyone called and is back in play.
            self.active.append(top)
            self.active.sort()
        paid[top] -= uncalled
        self.stacks[top] += uncalled
        return top, uncalled
