"""The verify page in a real Chromium, on hands that a real service has dealt."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from rngsvc.protocol.verify import STEP_IDS, TWIN_STEP_IDS, verify
from tests.browser.axe import violations
from tests.browser.dealt import Croupier, Dealt
from tests.browser.engines import complaints_of
from tests.browser.test_rs1_agrees import LIVES, W1, W2, cosigned, pem
from tests.browser.verify_page import VerifyPage
from tests.rngsvc.conftest import RunningService
from tests.rngsvc.protocol import test_verify_twin
from tests.rngsvc.protocol.hands import AUDITOR, HandInLog, MemoryLog, TwinHandInLog, twin_played
from tests.scale import scaled

PAGES = Path(__file__).parents[2] / "rngsvc" / "pages"


def python_steps(document: str, log_key: str) -> dict[str, tuple[str, str]]:
    report = verify(document, log_key, time.time_ns() // 1_000_000)
    return {step.id: (step.outcome.value, step.detail) for step in report.steps}


@pytest.fixture(scope="module")
def dealt(croupier: Croupier) -> list[Dealt]:
    return [croupier.hand(number) for number in range(scaled(40, 1000))]


def dealt_with(croupier: Croupier, *parts: str, twin: bool) -> Dealt:
    """A complete public hand of an ordinary or a twin table that has all these parts."""
    parts = (*parts, '\\"outcome\\":\\"complete\\"')
    return next(
        hand
        for hand in map(croupier.hand, range(0, 400, 2))
        if all(part in hand.receipt for part in parts) and ('\\"twin\\":1' in hand.receipt) is twin
    )


@pytest.fixture(scope="module")
def hand(croupier: Croupier) -> Dealt:
    """A public hand with contributors, cards and reshuffles."""
    return dealt_with(croupier, '"own"', '"k": 2', twin=False)


@pytest.fixture(scope="module")
def twin_hand(croupier: Croupier) -> Dealt:
    """The same of a twin table; its holder has chosen."""
    return dealt_with(croupier, '"choice"', '"k": 1', twin=True)


def give_key(shown: VerifyPage, vkey: str) -> None:
    shown.page.fill("#vkey", vkey)
    shown.page.click("text=Use this key")


@pytest.fixture
def shown(page: Page, service: RunningService) -> VerifyPage:
    return VerifyPage(page, f"{service.http}/verify")


@pytest.fixture(scope="module")
def saved_page(service: RunningService, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a copy that was saved by the page's own link."""
    page = browser.new_page()
    VerifyPage(page, f"{service.http}/verify")
    with page.expect_download() as download:
        page.click("#self")
    path = tmp_path_factory.mktemp("saved") / download.value.suggested_filename
    download.value.save_as(path)
    page.close()
    assert path.name == "verify.html"
    assert path.read_bytes() == (PAGES / "verify.html").read_bytes()
    return path.as_uri()


# --- What it says is what Python says ---


def test_hands_of_every_kind_are_shown_as_python_sees_them(
    shown: VerifyPage, service: RunningService, dealt: list[Dealt]
) -> None:
    outcomes = set()
    choices = set()
    for each in dealt:
        shown.paste(each.receipt)
        steps = python_steps(each.receipt, service.log_key)
        assert shown.steps == steps
        assert shown.verdict == "checked"
        outcomes.add(tuple(outcome for outcome, _ in steps.values()))
        choices.add(steps.get("choice", ("no twin table",))[0])
    assert len(outcomes) >= 8, "the hands are of different kinds"
    assert choices == {"no twin table", "checked", "not shown"}


def test_histories_of_every_game_are_shown_as_python_sees_them(shown: VerifyPage, service: RunningService) -> None:
    command = [sys.executable, "-m", "dealer", "demo", "--json", "--rngsvc", service.grpc, "--log-key", service.log_key]
    command += ["--auditor-keys", str(service.auditor_keys), "--hands", str(scaled(1, 20)), "--seed", "1"]
    played = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250)
    histories = [json.loads(line)["history"] for line in played.stdout.splitlines()]
    assert len({history["game"] for history in histories}) >= 5
    for history in histories:
        document = json.dumps(history)
        shown.paste(document)
        assert shown.steps == python_steps(document, service.log_key)
        assert shown.steps["history"][0] == "checked"
        assert shown.verdict == "checked"
        assert len(shown.cards) >= len(history["receipt"]["openings"])


def tampered(receipt: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the receipt with each of its parts changed in turn, and what was changed."""

    def changed(*path: str | int, to: Any) -> tuple[str, dict[str, Any]]:
        copy: Any = json.loads(json.dumps(receipt))
        at = copy
        for each in path[:-1]:
            at = at[each]
        at[path[-1]] = to(at[path[-1]])
        return ".".join(map(str, path)), copy

    def flipped(text: str) -> str:
        return ("1" if text[0] != "1" else "2") + text[1:]

    yield changed("table", to=flipped)
    yield changed("seq", to=lambda seq: seq + 1)
    yield changed("own", "id", to=flipped)
    for secret in receipt["own"].keys() - {"id"}:
        yield changed("own", secret, to=flipped)
    yield changed("contributions", 0, to=flipped)
    yield changed("contributions", to=lambda leaves: leaves[:-1])
    for k in range(len(receipt["shuffles"])):
        yield changed("shuffles", k, "n", to=lambda n: n - 1)
        yield changed("shuffles", k, "leaves", 0, to=flipped)
    for at in range(len(receipt["openings"])):
        yield changed("openings", at, "item", to=lambda item: item ^ 1)
        yield changed("openings", at, "salt", to=flipped)
    yield changed("openings", to=lambda openings: [*openings, openings[0]])
    for at, logged in enumerate(receipt["entries"]):
        for member, value in json.loads(logged["entry"]).items():
            match value:
                case int():
                    other: Any = value + 1
                case str():
                    other = flipped(value)
                case _:
                    other = [*value, 0]
            yield changed("entries", at, "entry", to=lambda text, m=member, v=other: _with_member(text, m, v))
        yield changed("entries", at, "proof", to=lambda proof: proof.replace("index ", "index 1"))
        yield changed(
            "entries", at, "proof", to=lambda proof: proof[:-20] + ("A" if proof[-20] != "A" else "B") + proof[-19:]
        )
    yield changed("entries", to=lambda entries: entries[:-2] + entries[-1:])


def _with_member(entry: str, member: str, value: object) -> str:
    return json.dumps(json.loads(entry) | {member: value}, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("which", ["hand", "twin_hand"])
def test_each_tampered_part_fails_in_the_steps_that_python_names(
    shown: VerifyPage, service: RunningService, which: str, request: pytest.FixtureRequest
) -> None:
    good: Dealt = request.getfixturevalue(which)
    total = 0
    for what, receipt in tampered(json.loads(good.receipt)):
        document = json.dumps(receipt)
        expected = python_steps(document, service.log_key)
        failed = [step for step, (outcome, _) in expected.items() if outcome == "failed"]
        shown.paste(document)
        assert shown.steps == expected, what
        assert shown.verdict == "failed", what
        said = shown.page.inner_text("#verdict")
        assert failed, what
        assert all(expected[step][1] in said for step in failed), what
        assert shown.page.locator("#steps details[open] [data-outcome=failed]").count() == len(failed), what
        total += 1
    assert total > 80


def test_a_hand_with_a_changed_key_is_followed(shown: VerifyPage) -> None:
    hand = HandInLog(reveal="public").reserve()
    hand.indices.append(hand.log.change_key(2))
    hand.promise().seal().close()
    document = hand.receipt().encode()
    give_key(shown, hand.log.vkey)
    shown.paste(document)
    assert shown.steps == python_steps(document, hand.log.vkey)
    assert shown.steps["keys"] == ("checked", "1 change of key")
    assert shown.verdict == "checked"


@pytest.mark.parametrize("n", [52, 36, 32, 7])
def test_cards_are_the_ones_that_the_deck_holds(shown: VerifyPage, n: int) -> None:
    hand = HandInLog(reveal="public", n=n, mode="full").reserve().promise().seal().open(0, *range(n)).close()
    shown.paste(hand.receipt().encode())
    if n == 7:
        names = {f"item {item}" for item in range(7)}
    else:
        ranks = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "jack", "queen", "king", "ace"]
        deck = [f"{rank} of {suit}" for rank in ranks for suit in ("clubs", "diamonds", "hearts", "spades")]
        names = set(deck[52 - n :])
    assert set(shown.cards) == names
    assert len(shown.cards) == n
    first = hand.orders[0][0]
    assert shown.cards[0] == (f"item {first}" if n == 7 else deck[first + 52 - n])


# --- Ways in ---


def test_a_link_shows_the_two_decks_of_a_hand_to_everybody(
    shown: VerifyPage, service: RunningService, twin_hand: Dealt
) -> None:
    shown.open(f"{service.http}/verify?table={twin_hand.table}&seq={twin_hand.seq}")
    shown.wait_for_verdict()
    assert shown.verdict == "checked"
    assert {shown.steps[step][0] for step in TWIN_STEP_IDS} == {"checked"}
    assert "✓ this page shuffled it again" in shown.page.inner_text("#twin")


def test_a_link_shows_the_public_part_of_a_hand(shown: VerifyPage, service: RunningService, hand: Dealt) -> None:
    shown.open(f"{service.http}/verify?table={hand.table}&seq={hand.seq}")
    shown.wait_for_verdict()
    assert shown.verdict == "checked"
    assert shown.cards == []
    assert shown.steps["derivation"][0] == "checked"
    assert "public part of the hand" in shown.page.inner_text("#verdict")


@pytest.mark.parametrize(("table", "seq"), [("00" * 16, "1"), ("nonsense", "1"), ("00" * 16, "x/../y")])
def test_a_hand_that_the_log_does_not_have_is_said_to_be_missing(
    browser: Browser, service: RunningService, hand: Dealt, table: str, seq: str
) -> None:
    page = browser.new_page()  # its console reports the refusal, and may
    shown = VerifyPage(page, f"{service.http}/verify")
    shown.paste(hand.receipt)
    page.click("summary:has-text('look up')")
    page.fill("#table", table)
    page.fill("#seq", seq)
    page.click("button:text-is('Look up')")
    page.wait_for_selector(
        "#busy.failed:has-text('no such hand'), #busy.failed:has-text('No hand is called like that')"
    )
    assert not page.is_visible("#result"), "no older verdict stands beside it"
    page.close()


@pytest.mark.parametrize(
    ("status", "said"), [(429, "busy. Ask again"), (503, "busy. Ask again"), (500, "The server refused: 500")]
)
def test_a_server_that_has_no_time_is_said_to_be_busy(
    browser: Browser, service: RunningService, status: int, said: str
) -> None:
    page = browser.new_page()  # its console reports the refusal, and may
    page.route("**/hands/**", lambda route: route.fulfill(status=status, json={"reason": "OVERLOADED"}))
    page.goto(f"{service.http}/verify?table={'00' * 16}&seq=1")
    page.wait_for_selector(f"#busy.failed:has-text('{said}')")
    page.close()


def test_where_the_page_itself_fails_nothing_looks_checked(
    shown: VerifyPage, service: RunningService, hand: Dealt
) -> None:
    shown.paste(hand.receipt)
    shown.page.evaluate(
        "origin => localStorage.setItem('rs1-log-keys', JSON.stringify({ [origin]: 'x' }))", service.origin
    )
    shown.open(f"{service.http}/verify")
    shown.page.eval_on_selector(
        "#paste", "(f, text) => { f.value = text; f.dispatchEvent(new Event('input')); }", hand.receipt
    )
    shown.page.wait_for_selector("#busy:has-text('Nothing was checked')")
    assert not shown.page.is_visible("#result")
    shown.page.evaluate("localStorage.clear()")
    shown.open(f"{service.http}/verify")
    shown.paste(hand.receipt)
    assert shown.page.is_visible("#result")
    shown.page.fill("#paste", "")
    assert not shown.page.is_visible("#result")


def test_a_file_may_be_chosen_or_dropped(shown: VerifyPage, hand: Dealt, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(hand.receipt, encoding="utf-8")
    shown.expect_another_verdict()
    shown.page.set_input_files("#file", file)
    shown.wait_for_verdict()
    assert shown.verdict == "checked"
    shown.expect_another_verdict()
    dropped = shown.page.evaluate_handle(
        """text => {
            const files = new DataTransfer();
            files.items.add(new File([text], "mine.json", { type: "application/json" }));
            return files;
        }""",
        hand.receipt.replace("openings", "Openings"),
    )
    shown.page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
    shown.wait_for_verdict()
    assert shown.verdict == "failed"
    assert shown.steps["document"] == ("failed", "Openings: is not a member here")


def test_the_largest_receipt_can_be_pasted(browser: Browser, service: RunningService) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    shown = VerifyPage(page, f"{service.http}/verify")
    hand = HandInLog(n=1020, mode="full").reserve().promise().seal().open(0, *range(1020))
    page.evaluate("text => navigator.clipboard.writeText(text)", hand.receipt().encode())
    page.focus("#paste")
    page.keyboard.press("Control+V")
    shown.wait_for_verdict()
    assert shown.steps["openings"] == ("checked", "1020 cards")
    assert len(shown.cards) == 1020
    context.close()


def test_a_file_too_large_for_a_receipt_is_not_read(shown: VerifyPage, hand: Dealt) -> None:
    shown.paste(hand.receipt)
    shown.page.evaluate(
        """() => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(2 ** 26 + 1)], "film.mp4"));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: files }));
        }"""
    )
    shown.page.wait_for_selector("#busy.failed:has-text('No receipt is as large as this file')")
    assert not shown.page.is_visible("#result")


def test_a_file_that_cannot_be_read_is_said_to_be_unreadable(shown: VerifyPage) -> None:
    shown.page.evaluate(
        """() => {
            const file = new File(["{}"], "gone.json");
            file.arrayBuffer = () => Promise.reject(new DOMException("gone", "NotReadableError"));
            const dropped = new Event("drop");
            dropped.dataTransfer = { files: [file] };
            document.dispatchEvent(dropped);
        }"""
    )
    shown.page.wait_for_selector("#busy.failed:has-text('could not read the file')")


def test_bytes_that_are_not_utf_8_are_refused_by_name(shown: VerifyPage, tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_bytes(b"\xff{}")
    shown.page.set_input_files("#file", file)
    shown.wait_for_verdict()
    assert shown.steps["document"] == ("failed", "document: must be UTF-8")
    assert "not a readable receipt" in shown.page.inner_text("#verdict")


# --- The log's key ---


def test_a_pinned_key_stays_and_another_one_is_noticed(shown: VerifyPage, service: RunningService, hand: Dealt) -> None:
    assert shown.key(service.origin) == "site"
    digits = sha256(service.log_key.encode()).hexdigest()
    assert shown.page.inner_text(".fingerprint").replace(" ", "") == digits
    shown.page.click("text=Pin this key")
    shown.page.wait_for_selector("[data-source=pinned]")

    thief = MemoryLog(origin=service.origin, key=7).vkey
    shown.page.route("**/log-key", lambda route: route.fulfill(body=f"{thief}\n", content_type="text/plain"))
    shown.open(f"{service.http}/verify")
    assert shown.key(service.origin) == "pinned"
    assert "shows another key for this log" in shown.page.inner_text("#keys [role=alert]")
    shown.paste(hand.receipt)
    assert shown.verdict == "checked"  # under the pinned key

    shown.expect_another_verdict()
    shown.page.click("text=Forget it")
    shown.wait_for_verdict()
    assert shown.key(service.origin) == "site"
    assert shown.verdict == "failed"
    assert shown.steps["checkpoints"][0] == "failed"
    assert "first make sure that it is this room's key" in shown.page.inner_text("#verdict")


def test_a_key_that_is_none_is_refused_by_name(shown: VerifyPage, service: RunningService) -> None:
    for wrong in ("nonsense", service.log_key[:-2] + "==", service.log_key.replace("+", "+0", 1)):
        shown.page.fill("#vkey", wrong)
        shown.page.click("text=Use this key")
        shown.page.wait_for_selector("#key-error:has-text('This is no key of a log: vkey: must')")
    assert shown.key(service.origin) == "site"


def test_without_a_key_the_hand_is_not_called_proven(shown: VerifyPage, service: RunningService) -> None:
    other = HandInLog(reveal="public", log=MemoryLog(origin="other.example")).reserve().promise().seal().close()
    shown.paste(other.receipt().encode())
    assert shown.verdict == "open"
    assert shown.steps["checkpoints"] == ("not shown", "no key of the log was given")
    assert "signature is unchecked" in shown.page.inner_text("#verdict")
    shown.expect_another_verdict()
    give_key(shown, other.log.vkey)
    shown.wait_for_verdict()
    assert shown.verdict == "checked"


def test_trusted_witnesses_must_have_cosigned_every_checkpoint(shown: VerifyPage) -> None:
    hand = LIVES["public"]
    good, bare = cosigned(hand.receipt(), a=W1, b=W2).encode(), hand.receipt().encode()
    give_key(shown, hand.log.vkey)
    shown.page.click("summary:has-text('Witnesses')")
    shown.page.fill("#policy", f"witness W1 {W1.vkey}\nquorum nobody\n")
    shown.page.click("button:text-is('Use it')")
    shown.page.wait_for_selector("#policy-said:has-text('names nobody, which is not defined before')")
    shown.page.fill("#policy", f"witness W1 {W1.vkey}\nwitness W2 {W2.vkey}\ngroup both all W1 W2\nquorum both\n")
    shown.page.click("button:text-is('Use it')")
    shown.page.wait_for_selector("#policy-said:has-text('2 witnesses, quorum both')")
    shown.paste(good)
    assert shown.steps["witnesses"] == ("checked", "cosigned by W1, W2")
    assert shown.verdict == "checked"
    shown.open(shown.page.url)
    give_key(shown, hand.log.vkey)
    shown.paste(bare)
    assert shown.steps["witnesses"][0] == "failed"
    assert shown.verdict == "failed"


# --- From disk ---


def test_a_saved_copy_works_from_disk_and_asks_nobody(
    page: Page, saved_page: str, service: RunningService, hand: Dealt
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    copy = VerifyPage(page, saved_page)
    assert not page.is_visible("#link")
    copy.paste(hand.receipt)
    assert copy.verdict == "open"
    copy.expect_another_verdict()
    give_key(copy, service.log_key)
    copy.wait_for_verdict()
    assert copy.verdict == "checked"
    page.click("text=Pin this key")
    page.wait_for_selector("[data-source=pinned]")
    copy.open(saved_page)
    assert copy.key(service.origin) == "pinned"
    copy.paste(hand.receipt)
    assert copy.verdict == "checked"
    assert copy.steps == python_steps(hand.receipt, service.log_key)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_where_nothing_can_be_stored_the_key_goes_into_the_address(
    page: Page, saved_page: str, service: RunningService, hand: Dealt
) -> None:
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })")
    copy = VerifyPage(page, saved_page)
    give_key(copy, service.log_key)
    page.click("text=Pin this key")
    page.wait_for_function("location.hash.startsWith('#key=')")
    bookmark = page.url
    page.goto("about:blank")
    copy.open(bookmark)
    assert copy.key(service.origin) == "address"
    copy.paste(hand.receipt)
    assert copy.verdict == "checked"
    assert "The key came from this page's address" in page.inner_text("#verdict")


def test_a_link_cannot_bring_its_own_key(shown: VerifyPage, service: RunningService) -> None:
    thief = MemoryLog(origin="thief.example", key=7)
    for vkey in (thief.vkey, MemoryLog(origin=service.origin, key=7).vkey):
        shown.page.goto("about:blank")
        shown.open(f"{service.http}/verify#key={quote(vkey)}")
        assert shown.key(service.origin) == "site"
        assert shown.page.locator("[data-origin='thief.example']").count() == 0


def test_the_pages_hash_is_in_the_log(page: Page, service: RunningService) -> None:
    """What docs/verify-page.md tells a stranger to compare."""
    body = page.request.get(f"{service.http}/verify").body()
    manifest = page.request.get(f"{service.http}/manifest").body()
    assert f"{sha256(body).hexdigest()}  rngsvc/pages/verify.html\n" in manifest.decode()
    status = page.request.get(f"{service.http}/status.json").json()
    (start,) = (entry for entry in status["integrity"]["entries"] if entry["kind"] == "start")
    assert start["code"] == sha256(manifest).hexdigest()


# --- Browsers that cannot, and files that should not ---


def test_a_browser_without_ed25519_says_so_and_proves_nothing(page: Page, service: RunningService, hand: Dealt) -> None:
    page.add_init_script(
        """const given = SubtleCrypto.prototype.importKey;
        SubtleCrypto.prototype.importKey = function (format, key, algorithm, ...more) {
            if (algorithm === "Ed25519") return Promise.reject(new DOMException("no", "NotSupportedError"));
            return given.call(this, format, key, algorithm, ...more);
        };"""
    )
    old = VerifyPage(page, f"{service.http}/verify")
    assert "cannot check Ed25519 signatures" in page.inner_text("#missing")
    old.paste(hand.receipt)
    assert old.verdict == "open"
    assert old.steps["checkpoints"] == ("not shown", "this browser cannot check Ed25519 signatures")
    assert old.steps["derivation"][0] == "checked"


def test_without_cryptography_the_page_says_how_to_get_it(page: Page, service: RunningService) -> None:
    page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
    VerifyPage(page, f"{service.http}/verify")
    assert "open the page over https, or save it" in page.inner_text("#missing")


def test_what_strangers_wrote_into_a_file_is_shown_as_text(shown: VerifyPage) -> None:
    mark_up = b"<img src=x onerror=alert(1)>"
    contributions = ((mark_up, b"\x01" * 32), (b"\xff\x00", b"\x02" * 32))
    hand = HandInLog(reveal="public", contributions=contributions).reserve().promise().draw(b"<b>seats</b>").close()
    give_key(shown, hand.log.vkey)
    shown.paste(hand.receipt().encode())
    assert shown.verdict == "checked"
    assert f"{mark_up.decode()} (you), ff00" in shown.page.inner_text("#hand")
    assert "Numbers drawn for “<b>seats</b>”" in shown.page.inner_text("#cards")
    named = json.dumps({"format": "rs1-receipt/1", mark_up.decode(): 1})
    shown.paste(named)
    assert "<img src=x onerror=alert(1)>: is not a member here" in shown.page.inner_text("#verdict")
    assert shown.page.locator("#result img, #result b").count() == 0


def test_nothing_but_the_pages_own_script_runs_in_it(browser: Browser, service: RunningService) -> None:
    page = browser.new_page()
    VerifyPage(page, f"{service.http}/verify")
    complaints = complaints_of(page)
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            try { script.textContent = "window.ran = true"; document.body.append(script); } catch { }
            const image = document.createElement("img");
            image.src = "https://elsewhere.example/x.png";
            document.body.append(image);
        }"""
    )
    page.wait_for_function("true")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in said for said in complaints)
    page.close()


def test_the_page_is_sent_with_its_policy_and_only_once(page: Page, service: RunningService) -> None:
    sent = page.request.get(f"{service.http}/verify")
    policy = sent.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.endswith("; frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert sent.headers["cache-control"] == "no-cache"
    again = page.request.get(f"{service.http}/verify", headers={"If-None-Match": sent.headers["etag"]})
    assert (again.status, again.body()) == (304, b"")


# --- For everybody ---


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_accessible_and_fits(
    browser: Browser, service: RunningService, hand: Dealt, axe: str, scheme: Any, width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True)
    page = context.new_page()
    shown = VerifyPage(page, f"{service.http}/verify")
    broken = hand.receipt.replace('"item": ', '"item": 1', 1)
    twins = twin_played(log=MemoryLog(origin="twins.example"), choices=(None, None))
    give_key(shown, twins.log.vkey)
    unknown = HandInLog(log=MemoryLog(origin="other.example")).reserve().promise().seal().receipt().encode()
    for document, verdict in (
        (None, ""),
        (hand.receipt, "checked"),
        (broken, "failed"),
        (unknown, "open"),
        (twins.receipt().encode(), "checked"),
        ("{", "failed"),
    ):
        if document:
            shown.paste(document)
            assert shown.verdict == verdict
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert violations(page, axe) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    context.close()


def test_a_deck_that_the_room_alone_has_made_is_said_to_be_one(shown: VerifyPage) -> None:
    hand = HandInLog(reveal="public", contributions=((b"a", None),)).reserve().promise().seal().close()
    give_key(shown, hand.log.vkey)
    shown.paste(hand.receipt(None).encode())
    assert shown.verdict == "checked"
    assert "the room alone could have chosen the order" in shown.page.inner_text("#verdict")
    shown.paste(LIVES["public"].receipt().encode())
    assert "the room alone" not in shown.page.inner_text("#verdict")


# --- Twin tables ---


def shown_twin(shown: VerifyPage, hand: TwinHandInLog) -> str:
    """Check the hand under its log's key; return what the page says of the two decks."""
    give_key(shown, hand.log.vkey)
    shown.paste(hand.receipt().encode())
    return shown.page.inner_text("#twin")


@pytest.mark.parametrize("choices", test_verify_twin.BOTH)
def test_of_two_decks_it_shows_who_chose_which_is_played_and_the_whole_other_one(
    shown: VerifyPage, choices: tuple[bytes, bytes]
) -> None:
    hand = twin_played(choices=choices)
    said = shown_twin(shown, hand)
    played = json.loads(hand.log.raw[4])["deck"]
    assert shown.verdict == "checked"
    assert shown.steps["twin"] == ("checked", f"deck {1 - played} derived again, 52 cards")
    assert f"Players chose deck {played}; deck {1 - played} was opened" in shown.page.inner_text("#verdict")
    assert f"Chosen by\nseat-1 (you), seat-3\nPlayed\ndeck {played}\nOpened\ndeck {1 - played}, " in said
    assert "✓ this page shuffled it again: the same 52 cards" in said
    shown.page.click(f"summary:has-text('The cards of deck {1 - played}')")
    names = "cards => cards.map(card => card.getAttribute('aria-label'))"
    opened = shown.page.eval_on_selector_all("#twin [role=img]", names)
    full = HandInLog(mode="full", reveal="public").reserve().promise().seal().open(0, *range(52))
    shown.paste(full.receipt().encode())
    name_of = dict(zip(full.orders[0], shown.cards, strict=True))
    assert opened == [name_of[item] for item in hand.decks[1 - played][1]]
    assert not shown.page.is_visible("#twin"), "an ordinary hand has one deck"


def test_that_nobody_chose_is_said_to_prove_nothing(shown: VerifyPage) -> None:
    said = shown_twin(shown, twin_played(choices=(None, None)))
    assert "Nobody chose. The room knew before it sealed the decks which one it would open" in said
    assert "seat-1 (you) (gave none), seat-3 (gave none)" in said
    assert "caught" not in said
    assert "the opened deck proves nothing" in shown.page.inner_text("#verdict")
    assert "Not checked" not in shown.page.inner_text("#verdict").split("proves nothing")[1]


@pytest.mark.parametrize(
    ("hand", "of_decks", "verdict"),
    [
        (LIVES["twin, sealed"], "Nobody had chosen when this file was made", "was not decided when this file"),
        (LIVES["twin, aborted"], "The hand ended before a choice", "If you had given your choice, ask the room why"),
        (LIVES["twin, unused"], "", "ended before its two decks were sealed"),
        (LIVES["twin, reserved"], "", "plays one of two sealed decks"),
    ],
)
def test_a_hand_without_a_choice_is_said_to_be_one(
    shown: VerifyPage, hand: TwinHandInLog, of_decks: str, verdict: str
) -> None:
    give_key(shown, hand.log.vkey)
    shown.paste(hand.receipt(None).encode())
    assert shown.verdict == "checked"
    assert shown.page.is_visible("#twin") is bool(of_decks)
    assert of_decks in shown.page.inner_text("#twin")
    assert verdict in shown.page.inner_text("#verdict")


@pytest.mark.parametrize(
    ("cheat", "of_decks", "verdict"),
    [
        (
            lambda: test_verify_twin.unfair_opened(1, [0, 0, *range(2, 12)]),
            "✗ it does not come out of the seed that was shown",
            "The deck that was opened is not the one that was to be shuffled",
        ),
        (
            test_verify_twin.wrong_deck,
            "do not make this deck the one that is played",
            "Which deck was played was not decided by the players' secrets",
        ),
        (
            test_verify_twin.choice_dropped,
            "do not make this deck the one that is played",
            "the own choice is not among those that decided",
        ),
    ],
)
def test_whoever_cheats_with_two_decks_is_named(shown: VerifyPage, cheat: Any, of_decks: str, verdict: str) -> None:
    said = shown_twin(shown, cheat())
    assert shown.verdict == "failed"
    assert of_decks in said
    assert verdict in shown.page.inner_text("#verdict")


# --- The auditor ---


def test_in_a_saved_copy_the_auditor_opens_a_hand_and_his_key_stays_there(
    page: Page, saved_page: str, service: RunningService, croupier: Croupier, tmp_path: Path
) -> None:
    receipt = next(
        hand.receipt
        for hand in map(croupier.hand, range(1, 99, 2))
        if '\\"escrow\\":\\"' in hand.receipt and '"leaves"' in hand.receipt
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    copy = VerifyPage(page, saved_page)
    give_key(copy, service.log_key)
    copy.paste(receipt)
    assert copy.steps["derivation"][0] == "not shown"
    page.click("#auditor summary")
    wrong = tmp_path / "wrong.pem"
    for text, why in (("nonsense", "must be a private key in PEM"), (pem(AUDITOR), "does not open with this key")):
        wrong.write_text(text, encoding="utf-8")
        page.set_input_files("#opening-key", wrong)
        page.wait_for_selector(f"#auditor-said.failed:has-text('{why}'), #verdict:has-text('{why}')")
    copy.expect_another_verdict()
    page.set_input_files("#opening-key", service.auditor_keys)
    copy.wait_for_verdict()
    assert copy.verdict == "checked"
    assert copy.steps["reveal"] == ("checked", "the committed seed")
    assert copy.steps["derivation"][0] == "checked"
    assert page.evaluate("Object.keys(localStorage)") == []
    copy.open(saved_page)
    give_key(copy, service.log_key)
    copy.paste(receipt)
    assert copy.steps["derivation"][0] == "not shown", "the key is forgotten"
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_a_page_from_the_room_asks_for_no_auditors_key(shown: VerifyPage) -> None:
    hand = LIVES["escrow"]
    give_key(shown, hand.log.vkey)
    shown.paste(hand.receipt().encode())
    assert shown.verdict == "checked"
    assert not shown.page.is_visible("#auditor")


# --- How it is read ---


def test_the_verdict_gets_the_focus_so_that_it_is_read_out(shown: VerifyPage, hand: Dealt) -> None:
    shown.paste(hand.receipt)
    assert shown.page.evaluate("document.activeElement.id") == "said"
    assert shown.page.inner_text("#said") == "✓ This hand checks out"


def test_on_a_phone_the_whole_verdict_comes_into_view(shown: VerifyPage, hand: Dealt) -> None:
    shown.page.set_viewport_size({"width": 360, "height": 740})
    for document in (hand.receipt, hand.receipt.replace('"item": ', '"item": 1', 1), "{"):
        shown.paste(document)
        box = shown.page.locator("#verdict").bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 740


def test_every_step_is_explained_once(shown: VerifyPage, hand: Dealt) -> None:
    shown.paste(hand.receipt)
    assert set(shown.steps) == set(STEP_IDS)
    shown.paste(twin_played(n=12).receipt().encode())
    assert set(shown.steps) == {*STEP_IDS, *TWIN_STEP_IDS}
