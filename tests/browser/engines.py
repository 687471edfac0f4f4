"""The checking module `rngsvc/pages/rs1.js` in the two places where people run it: Node and a real Chromium."""

import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

import rngsvc
from rngsvc.protocol.verify import Report

MODULE = Path(rngsvc.__file__).parent / "pages" / "rs1.js"
HARNESS = Path(__file__).parent / "harness.mjs"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

CALL_ROWS = 1000  # so that a full count does not become one message of hundreds of megabytes

Row = tuple[str | bytes, str | None, int | None]
"""A document, the log's verifier key and the time in ms."""
Steps = list[list[str]]
"""[id, claim, outcome, detail] of each step."""


class Engine(Protocol):
    """Runs one function of `harness.mjs`."""

    def call(self, name: str, argument: object) -> Any:
        """Return its JSON result."""


def verify_all(engine: Engine, rows: Sequence[Row], policy: str = "", auditor: str = "") -> list[Steps]:
    """Return for each row the steps that the module reports, under a policy file and with an auditor's PEM if given."""
    given = [
        [{"base64": b64encode(document).decode()} if isinstance(document, bytes) else document, *known, policy, auditor]
        for document, *known in rows
    ]
    reports: list[Steps] = []
    for at in range(0, len(given), CALL_ROWS):
        reports += engine.call("verifyAll", given[at : at + CALL_ROWS])
    return reports


def steps_of(report: Report) -> Steps:
    """Return Python's report in the form in which the module's comes."""
    return [[step.id, step.claim, step.outcome.value, step.detail] for step in report.steps]


class Node:
    """One process for each call."""

    def call(self, name: str, argument: object) -> Any:
        """Run it; AssertionError if Node does not answer."""
        node = shutil.which("node")
        if not node:
            pytest.skip("node is not installed (Debian: nodejs)")
        asked = json.dumps({"module": MODULE.as_uri(), "call": name, "argument": argument})
        runner = HARNESS.parent / "run_in_node.mjs"
        ran = subprocess.run([node, runner], input=asked, capture_output=True, text=True, timeout=280, check=False)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


class InChromium:
    """A blank page that has imported the module. Loopback is what browsers give cryptography to without TLS."""

    def __init__(self, browser: Browser) -> None:
        self._page = browser.new_page()
        self._page.route("http://localhost/**", self._answer)
        self._page.goto("http://localhost/")

    @staticmethod
    def _answer(route: Route) -> None:
        files = {"/rs1.js": MODULE, "/harness.mjs": HARNESS}
        path = route.request.url.removeprefix("http://localhost")
        if path in files:
            route.fulfill(body=files[path].read_text(encoding="utf-8"), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    def call(self, name: str, argument: object) -> Any:
        """Evaluate it in the page."""
        run = """async ([name, argument]) => {
            const [rs1, { vectors, ...others }] = await Promise.all([import("/rs1.js"), import("/harness.mjs")]);
            return { ...others, ...vectors }[name](rs1, argument);
        }"""
        return self._page.evaluate(run, [name, argument])


@contextmanager
def chromium_running() -> Iterator[Browser]:
    """Run Debian's Chromium while the context lasts; skips the test where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not path:
        pytest.skip("chromium is not installed (Debian: chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def complaints_of(page: Page) -> list[str]:
    """Return a list to which every error and every warning of the page's console will be added."""
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints
