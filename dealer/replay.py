"""Recorded hands played again: the engine asks, the record answers, and what comes out is the engine's own.

A case is the neutral form of a hand that was played elsewhere: seats, forced money, the cards that were seen (``??``
for the others) and the acts in order. Cards never seen are filled with any that the case does not name; where they
decide who wins, the result says so.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations, takewhile
from math import perm
from typing import Any, Final, cast

from dealer import draw, stud
from dealer.actions import Act, Action, IllegalAction
from dealer.cards import NAMES, parse
from dealer.events import Acted, Post, Posting
from dealer.hand import WrongCards, apply, reshuffled, start, supply
from dealer.house_rules import Form, HouseRules, Stakes, Structure
from dealer.recorded_case import HIDDEN
from dealer.rooms import recorded
from dealer.showdown import settle
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards, NeedShuffle
from dealer.stud import Face

# How often unseen upcards are dealt anew to find some that make the recorded players speak first: on one street before
# the street before it is dealt anew, and in one replay.
_DEALS_A_STREET: Final = 6
_DEALS_OF_UPCARDS: Final = 6000
# How often a hand is played at most to find unseen cards that fit.
_REPLAYS: Final = 200
# Unseen cards at a showdown are tried out in full up to this many ways, beyond it by this many samples.
_WAYS_TO_TRY: Final = 5000

_ACTS: Final = {
    "bring-in": (Act.BRING_IN,),
    # After a short all-in over the bring-in, one site's completion is another's raise.
    "complete": (Act.COMPLETE, Act.RAISE),
    "raise": (Act.RAISE, Act.COMPLETE),
    "bet": (Act.BET,),
    "call": (Act.CALL,),
    "check": (Act.CHECK,),
    "fold": (Act.FOLD,),
    "discard": (Act.DISCARD,),
    "stand-pat": (Act.STAND_PAT,),
}
_POSTS: Final = {
    "ante": Post.ANTE,
    "small-blind": Post.SMALL_BLIND,
    "big-blind": Post.BIG_BLIND,
    "dead-blind": Post.DEAD,
}


def replay_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Play one recorded case and return what the engine asked, refused and paid.

    ``asked``: a pair of player and street for each decision; ``rejected``: None, or index and reason of the first act
    of the record that the engine refuses; ``pots``: before rake, as they stood when the play ended; ``unknown``:
    whether an unseen card decides who wins, in which case ``net_before_rake`` is one of several possible outcomes.
    """
    record, run = _fitting(case)
    hand = run.hand
    return {
        "id": case["id"],
        "profile": record.rules.name,
        "asked": [list(pair) for pair in run.asked],
        "rejected": run.rejected,
        "pots": [
            {"name": name, "total": total, "eligible": [record.player_at[seat] for seat in sorted(seats)]}
            for name, total, seats in hand.pots()
        ],
        "net_before_rake": {record.player_at[seat]: net for seat, net in sorted(hand.net().items())},
        "unknown": record.hidden_card_decides(hand),
    }


def differences(case: Mapping[str, Any], replayed: Mapping[str, Any]) -> list[str]:
    """Return how the replay differs from the record; empty if it agrees in all that the record tells.

    A record that leaves out its pots or results is compared in the rest.
    """
    found = []
    if replayed["rejected"] is not None:
        found.append(f"rejected: {replayed['rejected']}")
    asked = [[action["player"], action["street"]] for action in case["actions"]]
    if replayed["asked"] != asked:
        found.append(f"asked: {replayed['asked']}, the record has {asked}")
    pots = [{key: pot[key] for key in ("name", "total", "eligible")} for pot in case.get("pots", ())]
    if "pots" in case and replayed["pots"] != pots:
        found.append(f"pots: {replayed['pots']}, the record has {pots}")
    if "net" in case and "collected" in case and not replayed["unknown"]:
        # The record's results are after rake, which only those who collected have paid; where several did, a site that
        # splits after rake may give an odd chip of each pot to another of them.
        collected = {share["player"] for share in case["collected"]}
        odd = len(replayed["pots"]) if len(collected) > 1 and case.get("rake") else 0
        paid = {player: net - case["net"][player] for player, net in replayed["net_before_rake"].items()}
        wrong = [player for player, rake in paid.items() if (rake < -odd if player in collected else rake != 0)]
        if wrong or sum(paid.values()) != case.get("rake", 0):
            found.append(f"net_before_rake: {replayed['net_before_rake']}, the record has {case['net']} after rake")
    return found + _unbalanced(case)


def _unbalanced(case: Mapping[str, Any]) -> list[str]:
    """Return where a record's own sums do not agree: the engine's play is compared with its pots and results alone."""
    found = []
    pots = case.get("pots", ())
    if {"total_pot", "pots"} <= case.keys():
        total = sum(pot["total"] for pot in pots)
        if total != case["total_pot"]:
            found.append(f"total_pot: {case['total_pot']}, the record's pots are {total}")
    shares = case.get("collected", ())
    # Not every room says from which pot a share comes.
    tied = bool(shares) and {share.get("pot") for share in shares} <= {pot["name"] for pot in pots}
    for index, pot in enumerate(pots if tied else ()):
        paid = sum(share["amount"] for share in shares if share["pot"] == pot["name"])
        if pot.get("rake") is not None and paid != pot["total"] - pot["rake"]:
            found.append(f"pots[{index}]: {pot['total']} less the rake of {pot['rake']}, {paid} are collected from it")
    if {"net", "collected", "uncalled_returns"} <= case.keys():
        results = Counter(dict.fromkeys(case["net"], 0))
        for entry in (*case["collected"], *case["uncalled_returns"]):
            results[entry["player"]] += entry["amount"]
        for entry in (*case["forced"], *case["actions"]):
            results[entry["player"]] -= entry.get("amount", 0)
        if results != case["net"]:
            found.append(f"collected: less what was put in gives {dict(results)}, the record's net is {case['net']}")
    return found


@dataclass
class _Run:
    """A play so far: the hand, the next act of the record, what was asked, and the refusal that ended it."""

    hand: Hand
    index: int
    asked: list[tuple[str, str]]
    rejected: dict[str, Any] | None = None


class _Record:
    """A case, its rules and the cards to deal; the unseen ones are the same in every replay of it."""

    def __init__(self, case: Mapping[str, Any], rules: HouseRules) -> None:
        self.case = case
        self.actions: Sequence[Mapping[str, Any]] = case["actions"]
        self.seat_of = {seat["player"]: int(seat["seat"]) for seat in case["seats"]}
        self.player_at = {seat: player for player, seat in self.seat_of.items()}
        self.stakes = _stakes(case, rules)
        self.rules = replace(rules, stakes=(self.stakes,))
        self.showdown: Sequence[Mapping[str, Any]] = case.get("showdown", ())
        self.shown = {
            entry["player"]: [parse(name) for name in entry["cards"] if name != HIDDEN] for entry in self.showdown
        }
        on_streets = _names_in([case["cards"], case.get("community_card")])
        self.named = {parse(name) for name in on_streets if name != HIDDEN}.union(*self.shown.values())
        self.deals = 0
        self.rng = random.Random(case["id"])  # noqa: S311  # any card will do, but the same ones each time

    def play(self) -> _Run:
        """Play to the end, with other unseen cards if those did not fit.

        They do not if other players than the record's spoke first by them, or if they made a hand win that its owner
        never showed. What no unseen card can mend is returned as far as it went.
        """
        best: _Run | None = None
        for _ in range(_REPLAYS):
            dealt = self.deals
            run = self._go(_Run(self._start(), 0, []))
            if best is None or run.rejected is None or run.index > best.index:
                best = run
            fits = run.rejected is None and not self._unshown_hand_won(run.hand)
            if fits or (run.rejected is not None and self.deals == dealt) or self.deals > _DEALS_OF_UPCARDS:
                break
        assert best is not None, "it was played once"
        return best

    def _start(self) -> Hand:
        case = self.case
        stacks = [(int(seat["seat"]), int(seat["stack"])) for seat in case["seats"]]
        button = int(case.get("button") or 0) if self.rules.form is Form.FIVE_CARD_DRAW else 0
        return start(self.rules, self.stakes, stacks, button=button, posts=self._posts(button))

    def _posts(self, button: int) -> list[Posting]:
        """Return the forced money as the rules name it: one big blind, other posts of its size, dead money."""
        forced = [(self.seat_of[post["player"]], post) for post in self.case["forced"]]
        antes = sum(1 for _, post in forced if post["kind"] == "ante")
        big_blind = self._big_blind(button)
        posts = []
        for seat, post in forced:
            kind = _POSTS[post["kind"]]
            if kind is Post.ANTE:
                kind = Post.DEAD if antes == 1 else kind  # one ante for the whole table
            elif not _is_live(post):
                kind = Post.DEAD
            elif kind is not Post.SMALL_BLIND and seat != big_blind:
                kind = Post.LIVE_POST
            posts.append(Posting(seat, kind, post["amount"]))
        if big_blind and Post.BIG_BLIND not in [posting.post for posting in posts]:
            # His ante has taken the big blind's last chip. He posts nothing, but who acts first goes by his seat.
            posts.append(Posting(big_blind, Post.BIG_BLIND, 0))
        return posts

    def _big_blind(self, button: int) -> int:
        """Return the true big blind's seat, 0 if there are no blinds: others may have posted as much to come in."""
        forced = [(self.seat_of[post["player"]], post) for post in self.case["forced"] if _is_live(post)]
        smalls = [seat for seat, post in forced if post["kind"] == "small-blind"]
        bigs = [seat for seat, post in forced if post["kind"] != "small-blind"]
        if not smalls and not bigs:
            return 0
        silent = {
            self.seat_of[post["player"]] for post in self.case["forced"] if post.get("all_in") and not _is_live(post)
        }
        left = self._left_of(button)
        small = smalls[0] if smalls else left if left in silent and len(self.seat_of) > 2 else button
        due = self._left_of(small)
        return due if due in silent else min(bigs, key=lambda seat: (seat <= small, seat), default=0)

    def _left_of(self, seat: int) -> int:
        """Return the next seat clockwise that was dealt in."""
        return min(self.player_at, key=lambda other: (other <= seat, other))

    # --- playing

    def _go(self, run: _Run) -> _Run:
        while run.rejected is None:
            need = run.hand.awaits
            if need is None:
                if run.index < len(self.actions):
                    run.rejected = {"index": run.index, "reason": "the hand is over"}
                break
            if isinstance(need, NeedShuffle):
                run.hand = reshuffled(run.hand)
            elif isinstance(need, NeedAction):
                self._answer(run, need)
            elif self._has_unseen_upcards(run.hand, need):
                return self._try_upcards(run, need)
            else:
                self._deal(run, need)
        return run

    def _deal(self, run: _Run, need: NeedCards) -> None:
        try:
            run.hand = supply(run.hand, self._cards(run.hand, need))
        except WrongCards as wrong:
            run.rejected = {"index": run.index, "reason": str(wrong)}

    def _try_upcards(self, run: _Run, need: NeedCards) -> _Run:
        """Deal unseen upcards until the record goes through: who speaks first is all that tells about them."""
        best: _Run | None = None
        for _ in range(_DEALS_A_STREET):
            self.deals += 1
            tried = _Run(run.hand, run.index, run.asked.copy())
            self._deal(tried, need)
            tried = self._go(tried)
            if tried.rejected is None:
                return tried
            if best is None or tried.index > best.index:
                best = tried
        assert best is not None, "there was at least one try"
        return best

    def _answer(self, run: _Run, need: NeedAction) -> None:
        """Give the engine the record's next act, or note why it is refused."""
        if need.street == SHOWDOWN:
            shown = {entry["player"] for entry in self.showdown if entry["how"] == "shown"}
            act = Act.SHOW if self.player_at[need.seat] in shown else Act.MUCK
            run.hand = apply(run.hand, Action(need.seat, act))
            return
        player = self.player_at[need.seat]
        run.asked.append((player, need.street))
        if run.index >= len(self.actions):
            run.rejected = {"index": run.index, "reason": f"the record ends and {player} is asked on {need.street}"}
            return
        entry = self.actions[run.index]
        if (entry["player"], entry["street"]) != (player, need.street):
            reason = f"{player} is asked on {need.street}, not {entry['player']} on {entry['street']}"
            run.rejected = {"index": run.index, "reason": reason}
            return
        if entry["action"] not in _ACTS:
            run.rejected = {"index": run.index, "reason": f"action: {entry['action']!r} is not one of {[*_ACTS]}"}
            return
        try:
            hand = apply(run.hand, self._action(run.hand, need, entry))
        except IllegalAction as refusal:
            run.rejected = {"index": run.index, "reason": str(refusal)}
            return
        acted = hand.events[len(run.hand.events)]
        adds = acted.adds if isinstance(acted, Acted) else 0
        if entry.get("amount", adds) != adds:
            run.rejected = {"index": run.index, "reason": f"amount: the act adds {adds}, not {entry['amount']}"}
            return
        run.hand = hand
        run.index += 1

    def _action(self, hand: Hand, need: NeedAction, entry: Mapping[str, Any]) -> Action:
        acts = _ACTS[entry["action"]]
        offered = {choice.act for choice in need.choices}
        act = next((act for act in acts if act in offered), acts[0])
        cards: tuple[int, ...] = ()
        if act is Act.DISCARD:
            cards = self._discards(hand, need.seat, entry)
            act = act if cards else Act.STAND_PAT
        return Action(need.seat, act, entry.get("to"), cards)

    # --- cards

    def _seen(self, seat: int) -> Mapping[str, Any]:
        """Return what the record has of a seat's cards; nothing at all if nobody saw any."""
        return cast("Mapping[str, Any]", self.case["cards"].get(self.player_at[seat], {}))

    def _cards(self, hand: Hand, need: NeedCards) -> list[int]:
        """Return the cards to supply: what the record has for each place, else any card that it does not name."""
        unnamed = [card for card in range(52) if card not in self.named and card not in hand.where]
        self.rng.shuffle(unnamed)
        seats = Counter(place.seat for place in need.places if place.seat is not None)
        if self.rules.form is Form.SEVEN_CARD_STUD:
            coming = {seat: iter(self._street(hand, seat, unnamed)) for seat in seats}
        else:
            coming = {seat: iter(self._drawn(hand, seat, count, unnamed)) for seat, count in seats.items()}
        community = self.case.get("community_card") or HIDDEN
        cards = []
        for place in need.places:
            if place.seat is not None:
                cards.append(next(coming[place.seat]))
            elif place.face is Face.COMMUNITY:
                cards.append(self._any(hand, unnamed) if community == HIDDEN else parse(community))
        return cards

    def _street(self, hand: Hand, seat: int, unnamed: list[int]) -> list[int]:
        """Return a seat's cards of a stud street; unseen places get what was seen later, or what nobody saw."""
        player = self.player_at[seat]
        streets = self._seen(seat)
        faces = hand.streets[hand.street].faces
        names = [*streets.get(hand.street_name, ()), *[HIDDEN] * len(faces)][: len(faces)]
        placed = {name for street in streets.values() for name in street}
        later = [card for card in self.shown.get(player, ()) if NAMES[card] not in placed and card not in hand.where]
        dealt = {street.name for street in hand.streets[: hand.street]}
        places = sum(street.count(HIDDEN) for name, street in streets.items() if name not in dealt)
        cards = [-1] * len(names)
        # The upcard is chosen before the down cards of the same street: the record tells who spoke first by it.
        for n in reversed(range(len(names))):
            if names[n] != HIDDEN:
                cards[n] = parse(names[n])
                continue
            comes_later = later and self.rng.randrange(max(places, len(later))) < len(later)
            pool = later if comes_later else unnamed or self._undealt(hand)
            cards[n] = self._upcard(hand, seat, pool) if faces[n] is Face.UP else self.rng.choice(pool)
            pool.remove(cards[n])
            places -= 1
        return cards

    def _upcard(self, hand: Hand, seat: int, pool: Sequence[int]) -> int:
        """Choose an upcard that nobody saw, rather so that this seat speaks first if it did, or else does not."""
        spoke = next((self.seat_of[a["player"]] for a in self.actions if a["street"] == hand.street_name), None)
        up = hand.up[hand.position[seat]]
        some = self.rng.sample(pool, min(len(pool), self.rng.choice((1, 2, 4, 8))))
        # On third street it is the worst door card that speaks first.
        best = (spoke == seat) is not (hand.street == 0)
        return stud.best_board(self.rules, {card: (*up, card) for card in some}, best=best)

    def _drawn(self, hand: Hand, seat: int, count: int, unnamed: list[int]) -> list[int]:
        """Return the ``count`` cards that a seat is dealt in a draw game, before or on the draw."""
        kept, thrown, drawn = _through_the_draw(self._seen(seat))
        if hand.street_name == draw.DRAW:
            have = len(hand.cards(seat)) - len(kept)
            names = drawn[max(have, 0) :]
        else:
            names = kept + thrown
        return [self._any(hand, unnamed) if name == HIDDEN else parse(name) for name in [*names, *[HIDDEN] * 5][:count]]

    def _any(self, hand: Hand, unnamed: list[int]) -> int:
        """Take a card that the record does not name, or one that it names where the deck holds no other."""
        return unnamed.pop() if unnamed else self.rng.choice(self._undealt(hand))

    def _undealt(self, hand: Hand) -> list[int]:
        return [card for card in range(52) if card not in hand.where]

    def _discards(self, hand: Hand, seat: int, entry: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the cards that a player throws: those that the record names, then what it does not say he kept."""
        names = entry.get("cards", ())
        named = [parse(name) for name in names if name != HIDDEN]
        kept, _, _ = _through_the_draw(self._seen(seat))
        keeps = {parse(name) for name in kept if name != HIDDEN}.union(named)
        others = [card for card in reversed(hand.cards(seat)) if card not in keeps]
        return (*named, *others[: entry.get("count", len(names)) - len(named)])

    def _has_unseen_upcards(self, hand: Hand, need: NeedCards) -> bool:
        ups = [place.seat for place in need.places if place.face is Face.UP]
        return any(self._seen(seat).get(hand.street_name, (HIDDEN,))[-1] == HIDDEN for seat in ups if seat)

    # --- what unseen cards decide

    def _unseen(self, hand: Hand) -> dict[int, list[int]]:
        """Return, for positions at a showdown, the cards in their hands that the record does not name."""
        if hand.settlement is None or len(hand.betting.inside) == 1:
            return {}
        held = {i: [*hand.down[i], *hand.up[i]] for i in hand.betting.inside}
        return {i: unseen for i, cards in held.items() if (unseen := [c for c in cards if c not in self.named])}

    def _unshown_hand_won(self, hand: Hand) -> bool:
        unseen = self._unseen(hand)
        shown = {self.seat_of[entry["player"]] for entry in self.showdown if entry["how"] == "shown"}
        return hand.settlement is not None and any(
            award.position in unseen and hand.seats[award.position] not in shown for award in hand.settlement.awards
        )

    def hidden_card_decides(self, hand: Hand) -> bool:
        """Say whether other cards in the place of unseen ones would pay the pots to others."""
        unseen = self._unseen(hand)
        if not unseen:
            return False
        assert hand.settlement is not None, "unseen cards matter at a showdown only"
        wanted = sum(len(cards) for cards in unseen.values())
        pool = [card for card in range(52) if card not in self.named]
        known = {
            i: [c for c in (*hand.down[i], *hand.up[i], *hand.community) if c in self.named]
            for i in hand.betting.inside
        }
        outcomes = set()
        for fill in self._fills(pool, wanted):
            coming = iter(fill)
            hands = {i: [*cards, *islice(coming, len(unseen.get(i, ())))] for i, cards in known.items()}
            settlement = settle(
                hand.rules,
                hand.rules.rankings(hand.deck_size),
                hand.settlement.pots,
                hands,
                aggressor=None,
                first_to_act=0,
                rake=None,
            )
            outcomes.add(settlement.awards)
            if len(outcomes) > 1:
                return True
        return False

    def _fills(self, pool: Sequence[int], wanted: int) -> Iterator[Sequence[int]]:
        if perm(len(pool), wanted) <= _WAYS_TO_TRY:
            yield from permutations(pool, wanted)
        else:
            for _ in range(_WAYS_TO_TRY):
                yield self.rng.sample(pool, wanted)


def _is_live(post: Mapping[str, Any]) -> bool:
    """Say whether forced money is its player's bet: a blind is, if the record does not say otherwise."""
    return bool(post.get("live", post["kind"] in ("small-blind", "big-blind")))


def _fitting(case: Mapping[str, Any]) -> tuple[_Record, _Run]:
    """Return the record under the first reading of the rules that it goes through with; else under the likeliest."""
    played = []
    for reading in recorded.readings(recorded.GAMES[case["game"]], frozenset(case.get("tags", ()))):
        record = _Record(case, reading)
        played.append((record, record.play()))
        if played[-1][1].rejected is None:
            return played[-1]
    return played[0]


def _through_the_draw(cards: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return what a player kept, threw away and drew, as far as the record knows; five names, then as many as drawn."""
    predraw, final = cards.get("predraw", [HIDDEN] * 5), cards.get("final")
    count = cards.get("discard_count", 0)
    if final is None:
        thrown = list(cards.get("discarded") or predraw[len(predraw) - count :])
        kept = [name for name in predraw if name not in thrown] if HIDDEN not in thrown else predraw[: 5 - count]
        return kept, thrown, list(cards.get("drawn") or [HIDDEN] * count)
    if HIDDEN in predraw:
        drawn = list(cards.get("drawn") or final[5 - count :])
    else:
        drawn = [name for name in final if name not in predraw]
    kept = [name for name in final if name not in drawn]
    thrown = list(cards.get("discarded") or [name for name in predraw if name not in kept][:count])
    return kept, thrown, drawn


def _names_in(value: Any) -> Iterator[str]:
    """Yield every card name in a case's nested lists and records of cards."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _names_in(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _names_in(entry)


def _stakes(case: Mapping[str, Any], rules: HouseRules) -> Stakes:
    amounts = dict(case["stakes"])
    if rules.form is Form.SEVEN_CARD_STUD:
        amounts.setdefault("bring_in", _bring_in(case))
    return Stakes(name=case["id"], structure=Structure(case["structure"].replace("-", "_")), **amounts)


def _bring_in(case: Mapping[str, Any]) -> int:
    """Return the bring-in of a record that does not name it: what somebody posted or called in full, else a guess."""
    small_bet: int = case["stakes"]["small_bet"]
    third = [action for action in case["actions"] if action["street"] == "third"]
    short = 0
    for action in takewhile(lambda action: action["action"] not in ("complete", "raise"), third):
        if action["action"] in ("bring-in", "call") and 0 < action.get("to", 0) < small_bet:
            if not action.get("all_in"):
                return int(action["to"])
            short = max(short, action["to"])
    return max(short, small_bet // 2)
