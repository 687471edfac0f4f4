"""A real Chromium for the tests of one module: Playwright's loop must be gone before tests with loops of their own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.axe import source
from tests.browser.dealt import Croupier
from tests.browser.engines import Engine, InChromium, Node, chromium_running, complaints_of
from tests.rngsvc.conftest import RunningService, serve_ephemeral


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium_running() as running:
        yield running


@pytest.fixture(scope="module", params=["node", "chromium"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "node":
        return Node()
    return InChromium(request.getfixturevalue("browser"))


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    yield from serve_ephemeral()


@pytest.fixture(scope="module")
def croupier(service: RunningService) -> Iterator[Croupier]:
    croupier = Croupier(service)
    yield croupier
    croupier.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page with storage of its own, whose console must stay silent."""
    context = browser.new_context()
    page = context.new_page()
    complaints = complaints_of(page)
    yield page
    context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    return source(request.config.cache.mkdir("axe"))
