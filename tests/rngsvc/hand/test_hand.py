"""The life of a hand, enumerated: every state with every event, and every life of up to six steps."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import rngsvc.protocol
from rngsvc.hand import (
    TRANSITIONS,
    Chosen,
    Closed,
    Drawn,
    Event,
    Hand,
    IllegalStep,
    Opened,
    Promised,
    Reserved,
    Sealed,
    State,
    Step,
    advance,
    check_locations,
    check_places,
    event_of,
    next_state,
    replay,
    reserve,
)

RESERVED = Reserved(3, 1_000, b"r" * 32, b"c" * 32, b"sealed seed")
PROMISED = Promised(4, b"p" * 32, ((b"seat-1", b"P" * 32),))

# Written down from the protocol's steps, not from the code: what each state allows.
ALLOWED = {
    "reserved": {
        "promise": "promised",
        "seal": "sealed",
        "seal_twin": "unchosen",
        "draw": "drawn",
        "close": "closed",
    },
    "promised": {"seal": "sealed", "seal_twin": "unchosen", "draw": "drawn", "close": "closed"},
    "unchosen": {"choose": "sealed", "close": "closed"},
    "sealed": {"reshuffle": "sealed", "open": "sealed", "close": "closed"},
    "drawn": {"close": "closed"},
    "closed": {},
}


def step_of(event: Event, hand: Hand) -> Step:
    """A step that fits `hand` in all but its state."""
    k = len(hand.shuffles)
    match event:
        case Event.PROMISE:
            return PROMISED
        case Event.SEAL:
            return Sealed(5, 2_000, 0, 52, b"h" * 32, b"R" * 32, contributions=b"C" * 32, secret=b"contributed")
        case Event.SEAL_TWIN:
            return step_of(Event.SEAL, hand)._replace(twin=(b"H" * 32, b"T" * 32))
        case Event.CHOOSE:
            return Chosen(6, 2_500, 1)
        case Event.RESHUFFLE:
            return Sealed(7 + k, 3_000, max(k, 1), 1, b"h" * 32, b"R" * 32, inputs=((0, 51 - k),))
        case Event.OPEN:
            return Opened(4_000 + len(hand.openings), 0, (len(hand.openings),))
        case Event.DRAW:
            return Drawn(5, 2_000, b"C" * 32, b"contributed")
        case Event.CLOSE:
            return Closed(90, 5_000)


def in_state(state: State) -> Hand:
    """The shortest life that leads to `state`."""
    way: dict[State, tuple[Event, ...]] = {
        State.RESERVED: (),
        State.PROMISED: (Event.PROMISE,),
        State.UNCHOSEN: (Event.SEAL_TWIN,),
        State.SEALED: (Event.SEAL,),
        State.DRAWN: (Event.DRAW,),
        State.CLOSED: (Event.CLOSE,),
    }
    hand = reserve(7, RESERVED)
    for event in way[state]:
        hand = advance(hand, step_of(event, hand))
    return hand


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_a_step_is_taken_where_the_table_has_it_and_refused_everywhere_else(state: State, event: Event) -> None:
    hand = in_state(state)
    assert hand.state is state
    expected = ALLOWED[state].get(event)
    step = step_of(event, hand)
    assert event_of(step) is event
    if expected is None:
        with pytest.raises(IllegalStep) as refused:
            advance(hand, step)
        assert (refused.value.state, refused.value.event) == (state, event)
        named = set(re.findall(r"\w+", str(refused.value).partition("only: ")[2]))
        assert named == (set(ALLOWED[state]) or {"nothing"})
        with pytest.raises(IllegalStep):
            next_state(state, event)
    else:
        assert advance(hand, step).state == next_state(state, event) == expected


def test_the_table_says_what_the_protocol_says() -> None:
    assert {(s.value, e.value): to.value for (s, e), to in TRANSITIONS.items()} == {
        (state, event): to for state, events in ALLOWED.items() for event, to in events.items()
    }


def lives(hand: Hand, steps: tuple[Step, ...], length: int) -> Iterator[tuple[Hand, tuple[Step, ...]]]:
    """Every legal life of up to `length` more steps, with the hand that it leads to."""
    yield hand, steps
    if length:
        for event in Event:
            step = step_of(event, hand)
            try:
                after = advance(hand, step)
            except IllegalStep:
                continue
            yield from lives(after, (*steps, step), length - 1)


def test_a_replayed_life_is_the_life_that_was_lived() -> None:
    count = 0
    for lived, steps in lives(reserve(7, RESERVED), (), 6):
        count += 1
        assert replay(7, RESERVED, steps) == lived
        assert lived.steps == 1 + len(steps)
        logged = [step.position for step in steps if not isinstance(step, Opened)]
        assert lived.positions == [RESERVED.position, *logged]
        opened = {(step.k, place) for step in steps if isinstance(step, Opened) for place in step.places}
        assert lived.opened == opened
        named = {location for step in steps if isinstance(step, Sealed) for location in step.inputs}
        assert lived.named == named
        started = next((step.time for step in steps if isinstance(step, (Sealed, Drawn))), 0)
        assert lived.started_ms == started
        assert lived.pre == (PROMISED.leaf if PROMISED in steps else RESERVED.leaf)
        assert lived.contributed_secret == (b"contributed" if started else b"")
    assert count > 100


@pytest.mark.parametrize(("deck", "context", "root"), [(0, b"h" * 32, b"R" * 32), (1, b"H" * 32, b"T" * 32)])
def test_the_chosen_deck_is_the_first_shuffle_from_then_on(deck: int, context: bytes, root: bytes) -> None:
    unchosen = advance(reserve(7, RESERVED._replace(twin=b"t" * 32)), step_of(Event.SEAL_TWIN, reserve(7, RESERVED)))
    assert unchosen.commitment == b"c" * 32
    hand = advance(unchosen, Chosen(6, 2_500, deck))
    assert [(shuffle.context, shuffle.root) for shuffle in hand.shuffles] == [(context, root)]
    assert hand.commitment == (b"t" if deck else b"c") * 32
    assert hand.started_ms == 2_000
    with pytest.raises(IllegalStep):
        advance(hand, Chosen(7, 2_600, 1 - deck))


def test_a_step_leaves_the_hand_that_it_was_taken_from() -> None:
    before = in_state(State.SEALED)
    opened = before.opened
    after = advance(before, Opened(1, 0, (1, 2)))
    assert before.opened == opened == frozenset()
    assert after.opened == {(0, 1), (0, 2)}


SEALED_TWICE = advance(
    advance(in_state(State.SEALED), Opened(1, 0, (3, 4))),
    Sealed(8, 1, 1, 2, b"h" * 32, b"R" * 32, inputs=((0, 3), (0, 50))),
)


@pytest.mark.parametrize(
    ("k", "places", "expected"),
    [
        (0, (0,), (0,)),
        (0, (3, 4), ()),  # open already, one of them named since
        (0, (3, 5), (5,)),
        (0, (50,), "50 was named"),
        (0, (5, 50), "50 was named"),
        (0, (52,), r"places 0\.\.51, not 52"),
        (1, (0, 1), (0, 1)),
        (1, (2,), r"places 0\.\.1, not 2"),
        (2, (0,), "shuffle 2 is not sealed"),
    ],
)
def test_a_place_is_opened_once_and_never_after_it_was_named(
    k: int, places: tuple[int, ...], expected: tuple[int, ...] | str
) -> None:
    if isinstance(expected, tuple):
        assert check_places(SEALED_TWICE, k, places) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            check_places(SEALED_TWICE, k, places)


@pytest.mark.parametrize(
    ("locations", "wrong"),
    [
        (((0, 0),), None),
        (((0, 4), (1, 0)), None),  # open cards may be named: discards
        (((0, 3),), r"\(0, 3\) was named"),
        (((0, 0), (0, 50)), r"\(0, 50\) was named"),
        (((0, 52),), r"\(0, 52\) does not exist"),
        (((1, 2),), r"\(1, 2\) does not exist"),
        (((2, 0),), r"\(2, 0\) does not exist"),
    ],
)
def test_a_location_is_named_at_most_once(locations: tuple[tuple[int, int], ...], wrong: str | None) -> None:
    if wrong is None:
        check_locations(SEALED_TWICE, locations)
    else:
        with pytest.raises(ValueError, match=wrong):
            check_locations(SEALED_TWICE, locations)


def test_the_life_of_a_hand_knows_no_clock_and_no_input() -> None:
    source = (Path(rngsvc.protocol.__path__[0]).parent / "hand.py").read_text()
    imported = set(re.findall(r"^(?:from|import) (\S+)", source, re.MULTILINE))
    assert imported == {"collections.abc", "enum", "typing"}


@pytest.mark.parametrize(
    ("state", "twin", "named"),
    [
        (State.RESERVED, False, "a reserved hand allows no open, only: close, draw, promise, seal"),
        (State.RESERVED, True, "a reserved hand allows no open, only: close, promise, seal_twin"),
        (State.UNCHOSEN, True, "an unchosen hand allows no open, only: choose, close"),
    ],
)
def test_a_refusal_names_the_steps_that_this_kind_of_table_has(state: State, twin: bool, named: str) -> None:
    assert str(IllegalStep(state, Event.OPEN, twin=twin)) == named
