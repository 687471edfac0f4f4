"""The pictures of docs/images: `python -m tests.browser.pictures [FOLDER]` deals a hand and takes them anew."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from tests.browser.dealt import Croupier
from tests.browser.engines import chromium_running
from tests.browser.verify_page import VerifyPage
from tests.rngsvc.conftest import RunningService, serve_ephemeral

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESKTOP = (960, 1180)
PHONE = (390, 844)
MOST_BYTES = 150_000


def main(folder: Path) -> None:
    """Take every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    running = serve_ephemeral()
    with closing(running), chromium_running() as browser:
        service = next(running)
        history = _stud_hand(service)
        page = _opened(browser, "light", DESKTOP)
        VerifyPage(page, f"{service.http}/verify").paste(json.dumps(history))
        _take(page, folder / "verify-page.png")
        page = _opened(browser, "dark", PHONE)
        _swap_a_card(history)
        VerifyPage(page, f"{service.http}/verify").paste(json.dumps(history))
        _take(page, folder / "verify-page-failed.png")
        page = _opened(browser, "light", PHONE)
        VerifyPage(page, f"{service.http}/verify").paste(_twin_hand(service))
        _take(page, folder / "verify-page-two-decks.png", "#twin")
        page = _opened(browser, "light", DESKTOP)
        page.goto(f"{service.http}/status")
        page.wait_for_selector("[data-verdict]")
        _take(page, folder / "status-page.png")


def _stud_hand(service: RunningService) -> dict[str, dict[str, list[dict[str, int]]]]:
    command = [sys.executable, "-m", "dealer", "demo", "--json", "--game", "limit_stud", "--hands", "1", "--seed", "7"]
    command += ["--rngsvc", service.grpc, "--log-key", service.log_key, "--auditor-keys", str(service.auditor_keys)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    history: dict[str, dict[str, list[dict[str, int]]]] = json.loads(told.stdout.splitlines()[0])["history"]
    return history


def _twin_hand(service: RunningService) -> str:
    with closing(Croupier(service)) as croupier:
        dealt = (croupier.hand(10).receipt for _ in range(100))
        return next(receipt for receipt in dealt if '"choice"' in receipt)


def _swap_a_card(history: dict[str, dict[str, list[dict[str, int]]]]) -> None:
    """What a cheating table would show: two cards have changed places."""
    first, second = history["receipt"]["openings"][2:4]
    first["item"], second["item"] = second["item"], first["item"]


def _opened(browser: Browser, scheme: Literal["light", "dark"], size: tuple[int, int]) -> Page:
    width, height = size
    return browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height}, locale="en-GB")


def _take(page: Page, path: Path, top: str = "[data-verdict]") -> None:
    """Take what is seen from the element ``top`` on."""
    page.eval_on_selector(top, "element => element.scrollIntoView()")
    page.screenshot(path=path)
    assert path.stat().st_size < MOST_BYTES, f"{path.name} is too large"
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
