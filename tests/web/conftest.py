"""Fixtures: a web process on the test's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.celery import use_broker
from callflow.redis.client import connect
from tests.exchange import Exchange, Line, WebServer, open_exchange, web_server
from tests.pairs import Pair, pair_of_servers
from tests.parts import Parts
from tests.servers import Servers


@pytest.fixture(scope="module")
def shared_web(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebServer]:
    """A web process that can ring nobody and speaks fast, for all tests of a module."""
    url = servers.clean(request.config.getoption("--server")).url
    folder = tmp_path_factory.mktemp("web")
    with web_server(url, folder, speech_letters_per_s=1_000) as running:
        yield running


@pytest.fixture
def exchange(parts: Parts, shared_web: WebServer) -> Iterator[Exchange]:
    """The module's web process, on an empty server."""
    with shared_web.exchange(parts) as running:
        yield running


@pytest.fixture
def fresh_exchange(parts: Parts, redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """A web process for one test, which remembers nothing of another."""
    with open_exchange(parts, redis_url, tmp_path) as running:
        yield running


@pytest.fixture
def line(exchange: Exchange) -> Line:
    """A line to it."""
    return exchange.line()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with pair_of_servers() as running:
        use_broker(running.url)
        yield running


@pytest.fixture
def failing(pair: Pair, tmp_path: Path) -> Iterator[Exchange]:
    """A web process that waits for no replica."""
    with (
        connect(pair.url) as client,
        open_exchange(Parts(client), pair.url, tmp_path, speech_letters_per_s=1_000) as running,
    ):
        yield running


@pytest.fixture
def careful(pair: Pair, tmp_path: Path) -> Iterator[Exchange]:
    """A web process that waits for the replica."""
    with (
        connect(pair.url) as client,
        open_exchange(
            Parts(client),
            pair.url,
            tmp_path,
            min_replicas=1,
            replica_wait_s=0.1,
            outage_transfer_s=1,
            speech_letters_per_s=1_000,
        ) as running,
    ):
        yield running
