"""A real Chromium for the tests of one module: Playwright's loop must be gone before tests with loops of their own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.engines import Engine, InChromium, Node, chromium_running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium_running() as running:
        yield running


@pytest.fixture(scope="module", params=["node", "chromium"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "node":
        return Node()
    return InChromium(request.getfixturevalue("browser"))
