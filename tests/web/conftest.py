"""Fixtures: a web process on the test's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exchange import Exchange, Line, open_exchange
from tests.parts import Parts


@pytest.fixture
def exchange(parts: Parts, redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """A web process that can ring nobody."""
    with open_exchange(parts, redis_url, tmp_path) as running:
        yield running


@pytest.fixture
def line(exchange: Exchange) -> Line:
    """A line to it."""
    return exchange.line()
