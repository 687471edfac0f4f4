"""The status page in a real Chromium, and what the service says of itself."""

import os
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from rngsvc.client import SyncClient
from rngsvc.status import MAX_AGE_MS
from tests.browser.axe import violations
from tests.browser.dealt import Croupier
from tests.rngsvc.conftest import RunningService

IN_ORDER = {"time": 1_790_000_000_000, "size": 12345, "verdict": "pass", "faults": [], "trouble": ""}
DAMAGED = {"verdict": "fail", "faults": ["tile/0/000: does not hold the hashes"], "trouble": "the log was altered"}
QUIET: dict[str, Any] = {
    "signing": {"able": True, "why": ""},
    "log": {"origin": "cardroom.example/rng", "size": 12345, "time": 1_790_000_000_000},
    "witnesses": {"cosigned_size": 0, "each": []},
    "integrity": {"code": "ab" * 32, "daily_overdue": False, "entries": [], "log_audit": IN_ORDER},
    "hands": {"in_play": 0, "waiting": 0, "overdue": 0, "open": [], "closed": []},
    "read_at": 1_790_000_000_000,
}
OVERDUE = {"table": "00" * 16, "seq": 7, "state": "sealed", "expires": 1_789_000_000_000, "overdue": True}
CHECK = {"index": 1, "time": 1_789_000_000_000, "kind": "daily", "verdict": "fail", "code": "cd" * 32}
AUDITED = {"index": 2, "time": 1_789_000_000_000, "kind": "audit", "verdict": "pass", "first": 0, "last": 12_000}
HOSTILE = "<img src=x onerror=alert(1)>"


def with_(**changes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: members | changes.get(name, {}) if isinstance(members, dict) else members
        for name, members in QUIET.items()
    }


def test_a_running_service_shows_its_hands_and_checks(page: Page, service: RunningService, croupier: Croupier) -> None:
    closed = croupier.hand(0)
    with SyncClient.connect(service.grpc, log_key=service.log_key) as client:
        table = client.register_table(os.urandom(16))
        playing, waiting = table.reserve_many(2)
        playing.seal(52)
        page.wait_for_timeout(MAX_AGE_MS)
        page.goto(f"{service.http}/status")
        page.wait_for_selector("[data-verdict=checked]")
        shown = page.inner_text("main")
        assert f"Log {service.origin}" in shown
        assert "Self-tests at start\tpassed" in shown
        assert f"{table.id.hex()[:8]}…\t1\tbeing played" in shown
        assert waiting.seq == 2
        assert "1\nhands in play" in shown
        assert "1\nhands reserved and waiting" in shown
        page.click(f"[aria-label='check hand {closed.seq} of table {closed.table}']")
        page.wait_for_selector("#verdict[data-verdict=checked]")
        playing.close()
        waiting.close("aborted", "caller")


@pytest.mark.parametrize(
    ("status", "verdict", "says"),
    [
        (QUIET, "checked", "In order"),
        (with_(signing={"able": False, "why": "the tree and the store disagree"}), "failed", "the tree and the store"),
        (with_(hands={"overdue": 1, "open": [OVERDUE]}), "failed", "1 hand is past the deadline"),
        (with_(integrity={"entries": [CHECK]}), "open", "An integrity check below has failed"),
        (with_(integrity={"log_audit": IN_ORDER | DAMAGED}), "failed", "the log was altered"),
        (with_(integrity={"daily_overdue": True}), "open", "No daily battery has reported in the last 26 hours"),
        (with_(witnesses={"each": [{"name": "w", "size": 0, "away": True}]}), "open", "No quorum of witnesses"),
        (with_(log={"time": None, "size": 0}), "checked", "The log is empty"),
        (with_(signing={"able": False, "why": HOSTILE}, log={"origin": HOSTILE}), "failed", HOSTILE),
    ],
)
def test_what_needs_attention_is_said_first(
    page: Page, service: RunningService, status: dict[str, Any], verdict: str, says: str
) -> None:
    page.route("**/status.json", lambda route: route.fulfill(json=status))
    page.goto(f"{service.http}/status")
    page.wait_for_selector("[data-verdict]")
    assert page.get_attribute("[data-verdict]", "data-verdict") == verdict
    assert says in page.inner_text("[data-verdict]")
    assert page.locator("img").count() == 0


def test_a_service_that_does_not_answer_is_said_to_be_unreadable(browser: Browser, service: RunningService) -> None:
    page = browser.new_page()
    page.route("**/status.json", lambda route: route.fulfill(status=503))
    page.goto(f"{service.http}/status")
    page.wait_for_selector("[role=alert]:has-text('the service answered 503')")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_accessible_and_fits(
    browser: Browser, service: RunningService, axe: str, scheme: Any, width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True)
    page = context.new_page()
    closed = {"time": 1, "table": "ab" * 16, "seq": 2**53 - 1, "outcome": "lost", "reason": "seed_lost"}
    full = with_(
        hands={"overdue": 1, "open": [OVERDUE], "closed": [closed]},
        integrity={"entries": [CHECK, CHECK | {"verdict": "undecided"}, AUDITED]},
        witnesses={"cosigned_size": 9, "each": [{"name": "witness.example/" + "w" * 40, "size": 9, "away": False}]},
    )
    page.route("**/status.json", lambda route: route.fulfill(json=full))
    page.goto(f"{service.http}/status")
    page.wait_for_selector("[data-verdict]")
    assert violations(page, axe) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    context.close()


def test_integrity_checks_and_ends_of_hands_are_said_in_words(page: Page, service: RunningService) -> None:
    ends = [("complete", ""), ("aborted", "rng_lost"), ("lost", "key_lost")]
    closed = [{"time": 1, "table": "ab" * 16, "seq": 1, "outcome": how, "reason": why} for how, why in ends]
    status = with_(integrity={"entries": [CHECK, AUDITED]}, hands={"closed": closed})
    page.route("**/status.json", lambda route: route.fulfill(json=status))
    page.goto(f"{service.http}/status")
    page.wait_for_selector("[data-verdict]")
    shown = page.inner_text("main")
    for said in (
        "Daily statistical battery\tfailed\t1\tcdcdcdcdcdcdcdcd…",
        "Auditor's verdict on entries 0 to 12000\tpassed\t2\t–",
        "played to its end",
        "broken off: the table lost its connection to the shuffle service",
        "lost by the room: the key to the stored seeds is gone",
    ):
        assert said in shown


def test_on_a_phone_every_cell_names_its_column(browser: Browser, service: RunningService) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.route("**/status.json", lambda route: route.fulfill(json=with_(integrity={"entries": [CHECK]})))
    page.goto(f"{service.http}/status")
    page.wait_for_selector("[data-verdict]")
    named = (
        "cells => cells.map(cell => [getComputedStyle(cell, '::before').content, cell.offsetLeft + cell.offsetWidth])"
    )
    cells = page.eval_on_selector_all("td", named)
    assert [name for name, _ in cells] == ['"When"', '"What"', '"Verdict"', '"Log entry"', '"Code"']
    assert max(right for _, right in cells) <= 360
    page.close()
