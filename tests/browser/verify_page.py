"""The verify page as its user sees it: what he gives it, and what it says."""

from typing import Any

from playwright.sync_api import Page

PEOPLE_WAIT_MS = 20_000


class VerifyPage:
    """Drives one opened verify page."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.page.set_default_timeout(PEOPLE_WAIT_MS)
        self.open(url)

    def open(self, url: str) -> None:
        """Go to ``url`` and wait until the page is ready."""
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready]")

    def paste(self, document: str) -> None:
        """Put a document into the text field and wait for its verdict."""
        self.expect_another_verdict()
        # Not `fill`: it types the text in, and Chromium takes seconds to type some hundred lines.
        put = "(field, text) => { field.value = text; field.dispatchEvent(new Event('input')); }"
        self.page.eval_on_selector("#paste", put, document)
        self.wait_for_verdict()

    def expect_another_verdict(self) -> None:
        """Forget the verdict that is shown, so that the next one can be waited for."""
        self.page.evaluate("document.getElementById('verdict').removeAttribute('data-verdict')")

    def wait_for_verdict(self) -> None:
        """Wait for the verdict that was asked for."""
        self.page.wait_for_selector("#verdict[data-verdict]")

    @property
    def verdict(self) -> str:
        """checked, failed or open."""
        return self.page.get_attribute("#verdict", "data-verdict") or ""

    @property
    def steps(self) -> dict[str, tuple[str, str]]:
        """(outcome, detail) of each step."""
        read = "rows => rows.map(({ dataset }) => [dataset.step, dataset.outcome, dataset.detail])"
        rows: list[list[str]] = self.page.eval_on_selector_all("[data-step]", read)
        assert len({step for step, _, _ in rows}) == len(rows), "no step is shown twice"
        return {step: (outcome, detail) for step, outcome, detail in rows}

    @property
    def cards(self) -> list[str]:
        """What a screen reader reads of each card that is shown."""
        cards: list[Any] = self.page.eval_on_selector_all(
            "#cards [role=img]", "each => each.map(card => card.getAttribute('aria-label'))"
        )
        return cards

    def key(self, origin: str) -> str | None:
        """Return where the key of a log that the page knows comes from."""
        return self.page.get_attribute(f"[data-origin='{origin}']", "data-source")
