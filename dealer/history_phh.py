"""A hand's history in PHH, the open poker hand history format, for the games that the format has a code for."""

from collections.abc import Sequence
from typing import Final

from dealer.actions import Act
from dealer.cards import NAMES
from dealer.events import Acted, CommunityCard, Dealt, Discarded, Mucked, Shown
from dealer.house_rules import Deck, Form, Pot, Structure
from dealer.state import Hand

# The codes of the format; five-card draw for high has none.
_CODES: Final = {
    (Form.SEVEN_CARD_STUD, Structure.FIXED_LIMIT, Pot.HIGH): "F7S",
    (Form.SEVEN_CARD_STUD, Structure.FIXED_LIMIT, Pot.HIGH_AND_EIGHT_OR_BETTER): "F7S/8",
    (Form.SEVEN_CARD_STUD, Structure.FIXED_LIMIT, Pot.RAZZ): "FR",
    (Form.FIVE_CARD_DRAW, Structure.NO_LIMIT, Pot.DEUCE_TO_SEVEN): "N2L1D",
}
_ACTS: Final = {
    Act.FOLD: "f",
    Act.CHECK: "cc",
    Act.CALL: "cc",
    Act.BRING_IN: "pb",
    Act.COMPLETE: "cbr {to}",
    Act.BET: "cbr {to}",
    Act.RAISE: "cbr {to}",
}


def phh(hand: Hand) -> str:
    """Return a finished hand with all its cards as PHH text (TOML); `ValueError` for a game that PHH does not have."""
    code = _CODES.get((hand.rules.form, hand.stakes.structure, hand.rules.pot))
    if code is None or hand.rules.deck is not Deck.FULL:
        raise ValueError(f"game: PHH has no code for {hand.rules.title}, {hand.stakes.structure.value}")
    if not hand.over:
        raise ValueError("events: the hand is not over")
    stakes = hand.stakes
    fields: list[tuple[str, object]] = [("variant", code), ("antes", [stakes.ante] * len(hand.seats))]
    if hand.rules.form is Form.SEVEN_CARD_STUD:
        fields += [("bring_in", stakes.bring_in), ("small_bet", stakes.small_bet), ("big_bet", stakes.big_bet)]
    else:
        blinds = [0] * len(hand.seats)
        for post in hand.posts:
            if post.post.value.endswith("blind"):
                blinds[hand.seats.index(post.seat)] = post.amount
        if len(blinds) == 2:
            blinds.reverse()  # the format names the small blind first though heads-up the big one sits at p1
        fields += [("blinds_or_straddles", blinds), ("min_bet", stakes.big_blind)]
    fields += [
        ("starting_stacks", list(hand.start_stacks)),
        ("actions", _actions(hand)),
        ("seats", list(hand.seats)),
        ("finishing_stacks", hand.betting.stacks),
    ]
    return "".join(f"{name} = {_toml(value)}\n" for name, value in fields)


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _actions(hand: Hand) -> list[str]:
    """Return the format's lines: a street's cards player by player, then acts; draws before all drawn cards."""
    lines: list[str] = []
    dealt: dict[int, list[int]] = {}

    def player(seat: int) -> str:
        return f"p{hand.seats.index(seat) + 1}"

    def deal() -> None:
        lines.extend(f"d dh {player(seat)} {_packed(dealt[seat])}" for seat in hand.seats if seat in dealt)
        dealt.clear()

    for event in hand.events:
        match event:
            case Dealt(_, seat, _, _, _, card):
                dealt.setdefault(seat, []).append(card)
            case CommunityCard(_, _, _, card):
                lines.append(f"d db {NAMES[card]}")
            case Discarded(seat, cards, _):
                if "sd" not in lines[-1].split():
                    deal()
                lines.append(f"{player(seat)} sd {_packed(cards)}".rstrip())
            case Acted(_, seat, act, _, to, _):
                deal()
                lines.append(f"{player(seat)} {_ACTS[act].format(to=to)}")
            case Shown(seat, cards):
                deal()
                lines.append(f"{player(seat)} sm {_packed(cards)}")
            case Mucked(seat):
                deal()
                lines.append(f"{player(seat)} sm -")
            case _:
                pass
    return lines


def _packed(cards: Sequence[int]) -> str:
    return "".join(NAMES[card] for card in cards)
