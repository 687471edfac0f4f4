"""A monitor follows twin tables with the public log alone: every choice, every deck that was not played."""

import asyncio
import json
from pathlib import Path

import pytest

from rngsvc.commands.exit_codes import ExitCode
from rngsvc.examiner import HandExaminer
from rngsvc.findings import Check
from rngsvc.monitor import Monitor, TwinCount
from rngsvc.protocol.entries import canonical
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.saved_audit import SavedTable
from tests.rngsvc.audit.books import Book, book_of
from tests.rngsvc.cli.command_line import rngsvc
from tests.rngsvc.protocol.hands import AUDITOR, ORIGIN, TABLE, HandInLog, TwinHandInLog, public_key, twin_played
from tests.rngsvc.protocol.test_verify_twin import (
    both_seeds_after_a_choice,
    bytes_misstated,
    choice_dropped,
    chosen_late,
    chosen_twice,
    complete_without_a_choice,
    context_of_another_commitment,
    drawn,
    one_seed_kept_back,
    opened_before_the_choice,
    played_seed_shown,
    promise_without_a_choice,
    reshuffled_before_the_choice,
    sealed,
    sealed_one_deck,
    too_few_choices,
    twin_seed_forged,
    unfair_opened,
    unfair_played,
    wrong_deck,
)
from tests.rngsvc.service.world import World


def fed(raws: list[bytes]) -> tuple[Monitor, set[Check]]:
    monitor = Monitor(NoteKey(ORIGIN, public_key(1)))
    return monitor, {finding.check for raw in raws for finding in monitor.feed(raw)}


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize("choices", [(b"\x33" * 32, b"\x44" * 32), (b"\x35" * 32, b"\x44" * 32), (None, None)])
def test_an_honest_hand_has_no_findings(reveal: str, choices: tuple[bytes | None, ...]) -> None:
    monitor, findings = fed(twin_played(n=12, reveal=reveal, choices=choices).log.raw)
    assert not findings
    missing = choices.count(None)
    assert monitor.twin_tables() == {TABLE: TwinCount(1, int(missing == 2), 0, 2, missing)}


@pytest.mark.parametrize("reveal", ["public", "escrow"])
@pytest.mark.parametrize(
    ("outcome", "reason", "members"),
    [("aborted", "caller", {}), ("aborted", "expired", {"after": 10**7}), ("lost", "seed_lost", {"seeds": None})],
)
def test_a_sealed_hand_that_ends_without_a_choice_is_counted(
    reveal: str, outcome: str, reason: str, members: dict[str, object]
) -> None:
    monitor, findings = fed(sealed(reveal=reveal).close(outcome, reason=reason, **members).log.raw)
    assert not findings
    assert monitor.twin_tables() == {TABLE: TwinCount(unchosen=1)}


def test_a_hand_that_was_never_sealed_owes_no_choice() -> None:
    monitor, findings = fed(TwinHandInLog(reveal="public").reserve().close("aborted", reason="caller").log.raw)
    assert not findings
    assert monitor.twin_tables() == {TABLE: TwinCount()}


def test_ordinary_tables_are_not_counted() -> None:
    monitor, _ = fed(HandInLog(reveal="public").reserve().promise().seal().close().log.raw)
    assert monitor.twin_tables() == {}


@pytest.mark.parametrize(
    ("cheat", "check"),
    [
        (lambda: unfair_opened(0, list(range(12))), Check.TWIN),
        (lambda: unfair_opened(1, list(range(12))), Check.TWIN),
        (lambda: unfair_opened(1, [0, 0, *range(2, 12)]), Check.TWIN),
        (unfair_played, Check.REVEAL),
        (wrong_deck, Check.CHOICE),
        (played_seed_shown, Check.TWIN),
        (too_few_choices, Check.CHOICE),
        (bytes_misstated, Check.TWIN),
        (context_of_another_commitment, Check.CONTEXT),
        (opened_before_the_choice, Check.MEMBERS),
        (chosen_late, Check.DEADLINE),
        (reshuffled_before_the_choice, Check.STEP),
        (chosen_twice, Check.STEP),
        (complete_without_a_choice, Check.STEP),
        (one_seed_kept_back, Check.MEMBERS),
        (both_seeds_after_a_choice, Check.MEMBERS),
        (twin_seed_forged, Check.REVEAL),
        (promise_without_a_choice, Check.MEMBERS),
        (sealed_one_deck, Check.MEMBERS),
        (drawn, Check.STEP),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_cheat_is_found_by_its_check(cheat, check) -> None:
    assert fed(cheat().log.raw)[1] == {check}


def test_a_dropped_choice_is_no_finding_but_counted_and_known_to_its_owner() -> None:
    """From the log alone nobody can tell a contributor who kept silent from one who was passed over."""
    monitor, findings = fed(choice_dropped().log.raw)
    assert not findings
    assert monitor.twin_tables()[TABLE].missing == 1


@pytest.mark.parametrize(
    ("which", "member", "value", "check"),
    [
        (0, "twin", None, Check.MEMBERS),
        (1, "twin_commitments", None, Check.MEMBERS),
        (4, "deck", "flip", Check.CHOICE),
        (4, "seed", "00" * 48, Check.TWIN),
        (4, "choices", ["33" * 32, "45" * 32], Check.CHOICE),
        (4, "seq", 2, Check.STEP),
        (3, "twin_root", "00" * 32, Check.TWIN),
        (3, "root", "00" * 32, Check.TWIN),
    ],
)
def test_each_changed_member_has_its_finding(which: int, member: str, value: object, check: Check) -> None:
    raws = list(twin_played(n=12).log.raw)
    members = json.loads(raws[which])
    if value is None:
        del members[member]
    else:
        members[member] = 1 - members[member] if value == "flip" else value
    raws[which] = canonical(members)
    found = fed(raws)[1]
    # A root may be that of the played deck: then the bit, which is made of both, no longer follows.
    assert check in found or (member.endswith("root") and Check.CHOICE in found)


def test_a_monitor_goes_on_from_every_entry_of_a_twin_hand() -> None:
    raws = twin_played(n=12).log.raw
    for cut in range(1, len(raws)):
        monitor, findings = fed(raws[:cut])
        (saved,) = monitor.saved_tables()
        assert isinstance(saved, SavedTable)
        restored = Monitor(NoteKey(ORIGIN, public_key(1)))
        for raw in raws[:cut]:
            restored.feed(raw)
        restored._tables = {TABLE: type(monitor._tables[TABLE]).restored(saved, ORIGIN)}
        for raw in raws[cut:]:
            findings |= {finding.check for finding in restored.feed(raw)}
        assert not findings, cut
        assert restored.twin_tables() == {TABLE: TwinCount(1, 0, 0, 2, 0)}


@pytest.mark.parametrize(
    ("hand", "outcome", "checks"),
    [
        (lambda: twin_played(n=12), "opened", []),
        (lambda: sealed(reveal="escrow").close("aborted", reason="caller"), "opened", []),
        (
            lambda: sealed(reveal="escrow").close("aborted", reason="caller", twin_escrow=bytes(96)),
            "that does not open",
            [Check.ESCROW],
        ),
        (
            lambda: (
                TwinHandInLog(n=12)
                .reserve()
                .promise()
                .seal(dealt={1: list(range(12))})
                .close("aborted", reason="caller")
            ),
            "that does not follow from its seed",
            [Check.DERIVATION],
        ),
    ],
)
def test_an_auditor_opens_both_decks_of_a_hand_that_was_never_chosen_in(hand, outcome, checks) -> None:
    key = NoteKey(ORIGIN, public_key(1))
    monitor = Monitor(key, HandExaminer(key, AUDITOR))
    found = [finding.check for raw in hand().log.raw for finding in monitor.feed(raw)]
    assert found == checks
    assert monitor.outcomes[f"hand {outcome}"] == 1


# --- What the command says ---

CONTRIBUTORS = [(b"anna", b"\x11" * 32, b"\x33" * 32), (b"ben", b"\x22" * 32, b"\x44" * 32)]


async def night() -> Book:
    """At twin table 0 both choose, one does, nobody does, and a hand is never chosen in; table 1 is an ordinary one."""
    world = await World().start()
    await world.results.start(b"self-tests")
    choices = tuple((who, choice) for who, _, choice in CONTRIBUTORS)
    play = await world.play(0, twin=True)
    for seq, given in enumerate((choices, choices[:1], (), None), 1):
        await play.reserve(seq)
        await play.promise_twin(seq, CONTRIBUTORS)
        await play.seal(seq)
        if given is None:
            await play.close(seq, "aborted", "players_left")
        else:
            await play.choose(seq, given)
            await play.close(seq)
    ordinary = await world.play(1)
    await ordinary.reserve(1)
    await ordinary.seal(1)
    await ordinary.close(1)
    await world.kill()
    return book_of(world)


def test_the_command_says_by_table_who_chose_and_what_was_never_decided(tmp_path: Path) -> None:
    book = asyncio.run(night())
    folder, state = book.write(tmp_path / "log"), tmp_path / "state.json"
    said = {"decided": 3, "by_nobody": 1, "unchosen": 1, "choices": 6, "missing": 3}
    asked = ("audit", str(folder), "--log-key", book.key.vkey, "--state", str(state))
    for _ in range(2):  # the second time from what was kept
        ran = rngsvc(*asked, "--json")
        assert ran.code == ExitCode.OK
        (row,) = ran.json["twin"]
        assert {name: row[name] for name in said} == said
    told = rngsvc("audit", str(folder), "--log-key", book.key.vkey)
    assert "3 hands decided by 3 of 6 promised choices; in 1 nobody chose, which proves nothing" in told.stdout
    assert "1 sealed and closed without a choice" in told.stdout
