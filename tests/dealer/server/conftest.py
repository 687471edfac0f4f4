from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dealer.server import world


@pytest.fixture(scope="session")
def service() -> Iterator[dict[str, Any]]:
    """A shuffle service for all tests of the server that leave it alone."""
    with world.shuffle_service() as (_, ready):
        yield ready


@pytest.fixture
def house(tmp_path: Path, service: dict[str, Any]) -> Iterator[world.House]:
    with world.house(tmp_path, service) as made:
        yield made
