"""The life of one hand: cards, chips and turns, as a value. No I/O, no clock, no deck.

`start` makes a hand; from then on it says in ``awaits`` what it needs next: cards from places of the shoe (`supply`),
a shuffle of named places (`reshuffled`) or a player's act (`apply`). Each answer returns a new hand and leaves the old
one as it was; a wrong answer raises and changes nothing. Chips and cards are counted after every event that moves them.

Whoever owns a hand alone, a simulation say, may use `deal`, `reshuffle` and `act`, which change it in place.
"""

from collections.abc import Sequence
from typing import Final

from dealer import draw, stud
from dealer.actions import Act, Action, Choice, IllegalAction
from dealer.betting import FOLD, Betting
from dealer.cards import names
from dealer.events import (
    Acted,
    Burned,
    CommunityCard,
    Dealt,
    Discarded,
    FoldKept,
    Mucked,
    Post,
    Posted,
    Posting,
    Protected,
    Raked,
    Reshuffled,
    Returned,
    RoundOpened,
    Shown,
    Voided,
    Won,
)
from dealer.house_rules import Form, HouseRules, Stakes, TimeOut
from dealer.pot import layers
from dealer.showdown import Settlement, settle, uncalled
from dealer.state import SHOWDOWN, Hand, NeedAction, NeedCards, NeedShuffle, community_place, places_for
from dealer.stub import Location, Stub
from dealer.stud import Face

SHOW_OR_MUCK: Final = (Choice(Act.SHOW), Choice(Act.MUCK))


class WrongCards(Exception):
    """The cards supplied cannot be the next ones of this hand; nothing has changed."""


# --- the interface


def start(
    rules: HouseRules,
    stakes: Stakes,
    stacks: Sequence[tuple[int, int]],
    *,
    button: int = 0,
    posts: Sequence[Posting] | None = None,
) -> Hand:
    """Begin a hand between ``stacks``, pairs of seat number and chips, with a deck of its own (DK-1).

    ``button`` is the seat that deals, occupied or not; 0 in stud, whose dealer sits before seat 1 (AL-4). ``posts``
    is all forced money in the order of posting; if absent, everyone's ante and the usual two blinds. `ValueError` for a
    hand that the house does not deal.
    """
    players = len(stacks)
    if not rules.fewest_players <= players <= rules.most_players:
        allowed = f"{rules.fewest_players}..{rules.most_players}"
        raise ValueError(f"stacks: {players} players, {rules.title} is dealt to {allowed}")
    ordered = sorted(stacks, key=lambda pair: (pair[0] <= button, pair[0]))
    hand = Hand()
    hand.rules = rules
    hand.stakes = stakes
    hand.button = button
    hand.seats = tuple([seat for seat, _ in ordered])
    hand.position = {seat: i for i, seat in enumerate(hand.seats)}
    hand.start_stacks = tuple([stack for _, stack in ordered])
    if min(hand.start_stacks) < 1 or len(hand.position) < players or min(hand.seats) < 1:
        raise ValueError("stacks: each seat is a different number from 1 up and has at least one chip")
    hand.chips = sum(hand.start_stacks)
    hand.deck_size = rules.deck_size(players)
    hand.streets = stud.STREETS if rules.form is Form.SEVEN_CARD_STUD else draw.STREETS
    hand.street = hand.to_draw = hand.low_card = hand.first_to_act = hand.in_payment = 0
    hand.betting = Betting(rules, stakes, hand.start_stacks)
    hand.stub = Stub(hand.deck_size)
    hand.where = {}
    hand.down = [()] * players
    hand.up = [()] * players
    hand.burns = hand.community = hand.discards = hand.draws_left = hand.may_muck = hand.big_blinds = ()
    hand.bring_in_due = False
    hand.kept_folds = frozenset()
    hand.settlement = hand.awaits = None
    hand.events = []
    hand.posts = tuple(_usual_posts(hand) if posts is None else posts)
    if any(posting.seat not in hand.position or posting.amount < 0 for posting in hand.posts):
        raise ValueError("posts: forced money comes from a seat that is dealt in and is not negative")
    for posting in hand.posts:
        _post(hand, posting)
    _deal_street(hand)
    return hand


def legal_actions(hand: Hand) -> tuple[Choice, ...]:
    """Return all legal acts of the player to act; none when the hand waits for cards or is over."""
    return hand.awaits.choices if isinstance(hand.awaits, NeedAction) else ()


def apply(hand: Hand, action: Action) -> Hand:
    """Return the hand after a player's act, or raise `IllegalAction`, which changes nothing (AL-7)."""
    new = hand.copy()
    act(new, action)
    return new


def supply(hand: Hand, cards: Sequence[int]) -> Hand:
    """Return the hand after its awaited places were opened: the cards of `NeedCards.to_open`, in that order.

    `WrongCards` if the count differs or a card is not in the deck or lies elsewhere already.
    """
    new = hand.copy()
    deal(new, cards)
    return new


def reshuffled(hand: Hand) -> Hand:
    """Return the hand after the awaited shuffle of its named locations was made and committed to."""
    new = hand.copy()
    reshuffle(new)
    return new


def act(hand: Hand, action: Action) -> None:
    """Carry out a player's act in place, or raise `IllegalAction`, which changes nothing (AL-7)."""
    need = hand.awaits
    seat, kind, _, cards = action
    if not isinstance(need, NeedAction) or need.seat != seat:
        _fold_out_of_turn(hand, action)
        return
    i = hand.position[seat]
    if kind is Act.DISCARD:
        _check_discard(hand, i, action)
    elif cards:
        raise _illegal(hand, action, "cards are named for a discard only")
    to = _total(hand, need, action)
    if need.street == SHOWDOWN:
        _show_or_muck(hand, kind)
    elif need.street == draw.DRAW:
        _discard(hand, i, cards)
    else:
        _act(hand, i, kind, to)


def deal(hand: Hand, cards: Sequence[int]) -> None:
    """Put the awaited cards in their places, in place; `WrongCards` as `supply`."""
    need = hand.awaits
    if not isinstance(need, NeedCards):
        raise WrongCards("cards: the hand does not wait for any")
    wanted = len(need.opened)
    if len(cards) != wanted:
        raise WrongCards(f"cards: {len(cards)} were given, the hand waits for {wanted}")
    different = set(cards)
    if len(different) != wanted or (wanted and (min(cards) < 52 - hand.deck_size or max(cards) > 51)):
        raise WrongCards(f"cards: {list(cards)} are not different cards of a deck of {hand.deck_size}")
    if not different.isdisjoint(hand.where):
        raise WrongCards(f"cards: {names(card for card in cards if card in hand.where)} already lie elsewhere")
    _take_cards(hand, need, cards)


def reshuffle(hand: Hand) -> None:
    """Take note, in place, that the awaited shuffle was made; `WrongCards` if none is awaited."""
    need = hand.awaits
    if not isinstance(need, NeedShuffle):
        raise WrongCards("shuffle: the hand does not wait for one")
    _take_shuffle(hand, need)


def time_out(hand: Hand, *, protection_left: bool = True) -> Hand:
    """Return the hand after the player to act ran out of time (AL-5, CC-12, P7-8).

    ``protection_left``: whether he may still be protected where the house protects; else as everywhere (P7-14).
    """
    need = hand.awaits
    assert isinstance(need, NeedAction), "a clock runs only for a player to act"
    acts = {choice.act for choice in need.choices}
    rules = hand.rules
    for default in (Act.MUCK, Act.STAND_PAT):
        if default in acts:
            return apply(hand, Action(need.seat, default))
    i = hand.position[need.seat]
    protects = rules.time_out is TimeOut.ALL_IN_PROTECTION and protection_left and _money_in_the_pot(hand, i) > 0
    if Act.BRING_IN in acts and (rules.protection_posts_the_bring_in or not protects):
        hand = apply(hand, Action(need.seat, Act.BRING_IN))
        if not protects:
            return hand
    if protects:
        return protect(hand, need.seat)
    return apply(hand, Action(need.seat, Act.CHECK if Act.CHECK in acts else Act.FOLD))


def protect(hand: Hand, seat: int) -> Hand:
    """Return the hand with a seat treated as all-in for what it has put in (P7-8), if it still has chips to bet."""
    i = hand.position[seat]
    if hand.settlement is not None or not isinstance(hand.awaits, NeedAction) or i not in hand.betting.active:
        return hand  # a bring-in just posted took the last chip, or ended the round or by a kept fold the hand
    new = hand.copy()
    new.betting.protect(i)
    new.record(Protected(seat))
    _next_turn(new)
    return new


def _money_in_the_pot(hand: Hand, i: int) -> int:
    ante = 0 if hand.rules.ante_is_money_in_the_pot else hand.stakes.ante
    return hand.betting.paid[i] + hand.betting.dead[i] - ante


def void(hand: Hand, reason: str) -> Hand:
    """Return the hand called off: every chip goes back to where it was (AL-22)."""
    assert hand.settlement is None, "a hand that is paid out cannot be void"
    new = hand.copy()
    betting = new.betting
    players = len(new.seats)
    betting.stacks = list(new.start_stacks)
    betting.paid, betting.dead, betting.bets = [0] * players, [0] * players, [0] * players
    new.awaits = None
    new.record_chips(Voided(reason))
    return new


# --- what is refused


def _total(hand: Hand, need: NeedAction, action: Action) -> int:
    """Return the total that the act makes, taken from the only choice if the action does not say."""
    _, act, to, _ = action
    only = -1
    for kind, lowest, highest, _ in need.choices:
        if kind is act:
            if to is not None:
                if lowest <= to <= highest:
                    return to
            elif act is not Act.DISCARD and (only >= 0 or lowest != highest):
                raise _illegal(hand, action, "the total on this street must be said")
            only = lowest
    if only < 0:
        raise _illegal(hand, action, "that is not possible now")
    if to is not None:
        raise _illegal(hand, action, "the total is out of bounds")
    return only


def _check_discard(hand: Hand, i: int, action: Action) -> None:
    cards = action.cards
    if action.to is not None:
        raise _illegal(hand, action, "a discard has no total")
    if len(set(cards)) != len(cards) or not set(cards) <= set(hand.down[i]):
        raise _illegal(hand, action, "only cards of one's own hand can be discarded, each once")
    if not 1 <= len(cards) <= hand.rules.most_discards:
        raise _illegal(hand, action, f"1 to {hand.rules.most_discards} cards can be discarded")


def _fold_out_of_turn(hand: Hand, action: Action) -> None:
    """Keep a fold for its owner's turn where the house takes it (P7-6)."""
    taken = hand.rules.fold_out_of_turn and action.act is Act.FOLD and hand.settlement is None
    if not taken or action.seat not in hand.position:
        raise _illegal(hand, action, "it is not that seat's turn")
    i = hand.position[action.seat]
    if i not in hand.betting.active or i in hand.kept_folds:
        raise _illegal(hand, action, "that seat has folded or is all-in")
    hand.kept_folds |= {i}
    hand.record(FoldKept(action.seat))


def _illegal(hand: Hand, action: Action, why: str) -> IllegalAction:
    to_act = hand.awaits.seat if isinstance(hand.awaits, NeedAction) else None
    return IllegalAction(action, why, to_act, legal_actions(hand))


# --- forced money and the deal


def _usual_posts(hand: Hand) -> list[Posting]:
    stakes = hand.stakes
    posts = [Posting(seat, Post.ANTE, stakes.ante) for seat in hand.seats if stakes.ante]
    if hand.rules.form is Form.FIVE_CARD_DRAW:
        small, big = draw.usual_blinds(hand.rules, len(hand.seats))
        posts.append(Posting(hand.seats[small], Post.SMALL_BLIND, stakes.small_blind))
        posts.append(Posting(hand.seats[big], Post.BIG_BLIND, stakes.big_blind))
    return posts


def _post(hand: Hand, posting: Posting) -> None:
    """Take what is owed, or what there is of it; a player without chips left posts nothing more (AL-10, PK-19)."""
    i = hand.position[posting.seat]
    betting = hand.betting
    match posting.post:
        case Post.ANTE:
            amount = betting.post_ante(i, posting.amount)
        case Post.DEAD:
            amount = betting.post_dead(i, posting.amount)
        case Post.SMALL_BLIND | Post.BIG_BLIND | Post.LIVE_POST:
            amount = betting.post_live(i, posting.amount)
    if posting.post is Post.BIG_BLIND:
        hand.big_blinds = (*hand.big_blinds, i)
    if amount:
        hand.record_chips(Posted(posting.seat, posting.post, amount, betting.stacks[i] == 0))


def _deal_street(hand: Hand) -> None:
    street = hand.streets[hand.street]
    inside = hand.betting.inside
    if hand.street == stud.SEVENTH:
        match _river(hand):
            case stud.River.FROM_BURNS_AND_STUB:
                _need_shuffle(hand, tuple(sorted((*hand.burns, *hand.stub.rest()))))
                return
            case stud.River.COMMUNITY_FROM_BURNS:
                _need_shuffle(hand, hand.burns)
                return
            case stud.River.FROM_THE_STUB:
                pass
    burn = street.burn and hand.stub.left > len(inside)
    at_a_time = hand.rules.cards_at_a_time
    seats = tuple([hand.seats[i] for i in inside])
    hand.awaits = places_for(hand.stub.k, hand.stub.place, seats, street.faces, at_a_time=at_a_time, burn=burn)


def _river(hand: Hand) -> stud.River:
    return stud.river(hand.rules, hand.stub, hand.burns, len(hand.betting.inside))


def _need_shuffle(hand: Hand, locations: tuple[Location, ...]) -> None:
    assert locations, "stub and earlier discards always suffice (PK-5), and three cards were burned (CC-11)"
    hand.awaits = NeedShuffle(hand.stub.k + 1, locations)


def _take_cards(hand: Hand, need: NeedCards, cards: Sequence[int]) -> None:
    street = hand.street_name
    k = need.k
    coming = iter(cards)
    record = hand.events.append
    position = hand.position
    where = hand.where = hand.where.copy()
    size, _, place, set_aside = hand.stub
    burned = len(hand.burns)
    # Every card is at a known location, burned, still in the stub or set aside: counted after each one dealt.
    out_of_stub = hand.deck_size - size - set_aside
    for p, seat, face, location in need.places:
        assert p == place, "places are taken in order, none is skipped (DK-5)"
        place += 1
        if face is Face.BURN:
            hand.burns = (*hand.burns, location)
            burned += 1
            record(Burned(street, k, p))
        else:
            card = next(coming)
            where[card] = location
            if seat is None:
                hand.community = (*hand.community, card)
                record(CommunityCard(street, k, p, card))
            else:
                pile = hand.up if face is Face.UP else hand.down
                pile[position[seat]] += (card,)
                record(Dealt(street, seat, face, k, p, card))
        assert len(where) + burned - place == out_of_stub, "a card appeared or vanished"
    hand.stub = Stub(size, k, place, set_aside)
    if hand.draws_left:
        hand.to_draw -= len(cards)
        _go_on_drawing(hand)
    else:
        _open_round(hand)


def _take_shuffle(hand: Hand, need: NeedShuffle) -> None:
    if hand.rules.form is Form.FIVE_CARD_DRAW:
        named = set(need.locations)
        hand.discards = tuple(discard for discard in hand.discards if discard[0] not in named)
        hand.where = {card: location for card, location in hand.where.items() if location not in named}
        hand.stub = hand.stub.reshuffled(len(named), rest_is_in_it=True)
        hand.record(Reshuffled(need.k, need.locations))
        hand.count_cards()
        _go_on_drawing(hand)
        return
    community = _river(hand) is stud.River.COMMUNITY_FROM_BURNS
    seats = tuple([hand.seats[i] for i in hand.betting.inside])
    hand.burns = ()
    hand.stub = hand.stub.reshuffled(len(need.locations), rest_is_in_it=not community)
    hand.record(Reshuffled(need.k, need.locations))
    hand.count_cards()
    # CC-10: down to everyone without a burn. CC-11: one for everybody instead.
    hand.awaits = community_place(hand.stub.k) if community else places_for(hand.stub.k, 0, seats, (Face.DOWN,))


# --- betting


def _open_round(hand: Hand) -> None:
    betting = hand.betting
    rules = hand.rules
    street = hand.streets[hand.street]
    if rules.form is Form.FIVE_CARD_DRAW:
        first = draw.speaks_first(hand.big_blinds, len(hand.seats)) if hand.street == 0 else 0
    elif hand.street == 0:
        first = hand.low_card = stud.brings_in(rules, [cards[0] for cards in hand.up])
        hand.bring_in_due = True
    else:
        shared = hand.community if rules.community_card_counts_for_first_to_act else ()
        boards = {i: hand.up[i] + shared for i in betting.inside}
        first = stud.first_on(hand.street, rules, boards, before=hand.first_to_act)
    while first not in betting.inside:
        first = (first + 1) % len(hand.seats)
    hand.first_to_act = first
    if rules.form is Form.FIVE_CARD_DRAW:
        sizes = draw.bet_sizes(rules, hand.stakes, street)
        if hand.street == 0:
            betting.open_on_blinds(sizes, first)
        else:
            betting.open_round(sizes, first)
    elif hand.street == 0:
        betting.open_third_street(first)
    else:
        betting.open_round(_stud_bet_sizes(hand), first)
    hand.record(RoundOpened(street.name, hand.seats[first]))
    _next_turn(hand)


def _stud_bet_sizes(hand: Hand) -> tuple[int, ...]:
    return stud.bet_sizes(hand.rules, hand.stakes, hand.street, [hand.up[i] for i in hand.betting.inside])


def _next_turn(hand: Hand) -> None:
    """Ask the next player, carrying out folds that were kept for his turn (P7-6), or end the round."""
    betting = hand.betting
    while len(betting.inside) > 1:
        i = betting.next_to_act()
        if i is None:
            _end_round(hand)
            return
        if i not in hand.kept_folds:
            choices = _on_the_bring_in(hand, i) if hand.bring_in_due else betting.choices(i)
            hand.awaits = NeedAction(hand.seats[i], hand.streets[hand.street].name, choices)
            return
        if hand.bring_in_due and i == hand.low_card:
            _bring_in(hand, i)
        else:
            _fold(hand, i)
    _end_uncalled(hand)


def _on_the_bring_in(hand: Hand, i: int) -> tuple[Choice, ...]:
    """Return what the player who owes the bring-in may do.

    AL-1: whoever stands in for a low card that is all-in may fold; its owner may not (AL-14).
    """
    betting = hand.betting
    to = min(hand.stakes.bring_in, betting.stacks[i])
    full = betting.raises(i) if hand.rules.may_open_for_full_bet else ()
    return (*((FOLD,) if i != hand.low_card else ()), Choice(Act.BRING_IN, to, to, to), *full)


def _act(hand: Hand, i: int, act: Act, to: int) -> None:
    betting = hand.betting
    if act is Act.CHECK:
        betting.check(i)
        _record_act(hand, i, act, 0)
    elif act is Act.CALL:
        _record_act(hand, i, act, betting.call(i))
    elif act is Act.FOLD:
        _fold(hand, i)
    elif act is Act.BRING_IN:
        _bring_in(hand, i)
    else:
        hand.bring_in_due = False
        _record_act(hand, i, act, betting.raise_to(i, to))
    _next_turn(hand)


def _record_act(hand: Hand, i: int, act: Act, adds: int) -> None:
    betting = hand.betting
    street = hand.streets[hand.street].name
    if adds:
        all_in = betting.stacks[i] == 0
        hand.record_chips(Acted(street, hand.seats[i], act, adds, betting.bets[i], all_in))
    else:
        hand.record(Acted(street, hand.seats[i], act, 0, betting.bets[i], False))


def _fold(hand: Hand, i: int) -> None:
    hand.betting.fold(i)
    if hand.street == stud.FOURTH and not hand.rules.open_pair_outlives_fold and len(hand.betting.sizes) > 1:
        hand.betting.sizes = _stud_bet_sizes(hand)  # the fold has just withdrawn all offers
    _record_act(hand, i, Act.FOLD, 0)


def _bring_in(hand: Hand, i: int) -> None:
    hand.bring_in_due = False
    _record_act(hand, i, Act.BRING_IN, hand.betting.post_bring_in(i))


def _end_round(hand: Hand) -> None:
    _give_back(hand)
    hand.bring_in_due = False
    if hand.rules.form is Form.FIVE_CARD_DRAW and hand.street == 0 and not hand.draws_left:
        # All-in players draw in their place (AL-12).
        hand.draws_left = draw.order(hand.rules, hand.betting.inside, hand.first_to_act)
        _ask_to_draw(hand)
    elif hand.street + 1 < len(hand.streets):
        hand.street += 1
        _deal_street(hand)
    else:
        _show_down(hand)


def _give_back(hand: Hand) -> None:
    back = hand.betting.close_round()
    if back is not None:
        hand.record_chips(Returned(hand.seats[back[0]], back[1]))


# --- the draw


def _ask_to_draw(hand: Hand) -> None:
    if not hand.draws_left:
        hand.street += 1
        _open_round(hand)
        return
    i = hand.draws_left[0]
    hand.awaits = NeedAction(hand.seats[i], draw.DRAW, draw.choices(hand.rules.most_discards))


def _discard(hand: Hand, i: int, cards: tuple[int, ...]) -> None:
    locations = tuple(hand.where[card] for card in cards)
    hand.down[i] = tuple(card for card in hand.down[i] if card not in cards)
    hand.discards = (*hand.discards, *((location, i) for location in locations))
    hand.to_draw = len(cards)
    hand.record(Discarded(hand.seats[i], cards, locations))
    _go_on_drawing(hand)


def _go_on_drawing(hand: Hand) -> None:
    """Deal what the drawing player still lacks, reshuffling discards when the stub cannot serve him (PK-5)."""
    i = hand.draws_left[0]
    if not hand.to_draw:
        hand.draws_left = hand.draws_left[1:]
        _ask_to_draw(hand)
    elif count := draw.from_the_stub(hand.rules, hand.to_draw, hand.stub.left):
        hand.awaits = places_for(hand.stub.k, hand.stub.place, (hand.seats[i],), (Face.DOWN,) * count)
    else:
        _need_shuffle(hand, draw.reshuffled(hand.stub, hand.discards, i))


# --- the end


def _end_uncalled(hand: Hand) -> None:
    """Give everything to the last player in; he need not show (CC-14)."""
    # AL-8: no rake when the hand ends before a second betting round.
    raked = hand.rules.rake if hand.street > 0 else None
    _give_back(hand)
    (winner,) = hand.betting.inside
    _pay(hand, uncalled(hand.betting.in_the_middle, winner, raked))


def _show_down(hand: Hand) -> None:
    betting = hand.betting
    for i in sorted(hand.kept_folds):
        # His turn never came because there was nothing left to bet.
        if i in betting.active and len(betting.inside) > 1:
            _fold(hand, i)
    if len(betting.inside) == 1:
        _end_uncalled(hand)
        return
    pots = layers(betting.paid, betting.dead, betting.inside)
    hands = {i: hand.down[i] + hand.up[i] + hand.community for i in betting.inside}
    rankings = hand.rules.rankings(hand.deck_size)
    _pay(
        hand,
        settle(
            hand.rules,
            rankings,
            pots,
            hands,
            aggressor=betting.aggressor,
            first_to_act=hand.first_to_act,
            rake=hand.rules.rake,
        ),
    )


def _pay(hand: Hand, settlement: Settlement) -> None:
    """Show what must be shown and move the money at once (AL-19); then ask those who may keep their cards down."""
    betting = hand.betting
    for i in settlement.must_show:
        hand.record(Shown(hand.seats[i], hand.down[i] + hand.up[i]))
    hand.settlement = settlement
    middle = betting.in_the_middle
    betting.paid = [0] * len(hand.seats)
    betting.dead = [0] * len(hand.seats)
    hand.in_payment = middle
    for index, amount in enumerate(settlement.rakes):
        if amount:
            hand.record_chips(Raked(settlement.pots[index].name(index), amount))
    for award in settlement.awards:
        hand.in_payment -= award.amount
        betting.stacks[award.position] += award.amount
        pot = settlement.pots[award.pot].name(award.pot)
        hand.record_chips(Won(hand.seats[award.position], pot, award.side, award.amount))
    assert hand.in_payment == sum(settlement.rakes), "every chip of the pots is paid, but for the rake"
    hand.may_muck = settlement.may_muck
    _ask_to_show(hand)


def _ask_to_show(hand: Hand) -> None:
    if hand.may_muck:
        hand.awaits = NeedAction(hand.seats[hand.may_muck[0]], SHOWDOWN, SHOW_OR_MUCK)
    else:
        hand.awaits = None


def _show_or_muck(hand: Hand, act: Act) -> None:
    i = hand.may_muck[0]
    hand.may_muck = hand.may_muck[1:]
    seat = hand.seats[i]
    hand.record(Shown(seat, hand.down[i] + hand.up[i]) if act is Act.SHOW else Mucked(seat))
    _ask_to_show(hand)
