"""Fixtures: a web process on the test's own server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from callflow.celery import use_broker
from callflow.lab.chaos.chaos_servers import ServerPair, server_pair
from callflow.redis.client import connect
from tests.dispatchers import Dispatcher, dispatcher, staffed
from tests.exchange import RELAY, Exchange, Line, WebServer, open_exchange, web_server
from tests.parts import Parts


@pytest.fixture(scope="module")
def shared_web(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web process that can ring nobody and speaks fast, for all tests of a module."""
    folder = tmp_path_factory.mktemp("web")
    with web_server(server_url, folder, speech_letters_per_s=1_000) as running:
        yield running


@pytest.fixture
def exchange(parts: Parts, shared_web: WebServer) -> Iterator[Exchange]:
    """The module's web process, on an empty server."""
    with shared_web.exchange(parts) as running:
        yield running


@pytest.fixture
def relay_line(exchange: Exchange) -> Line:
    """A line that has arrived at a lift whose calls are spoken over a socket."""
    line = exchange.arrived(called=RELAY)
    return line


@pytest.fixture
def fresh_exchange(parts: Parts, redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """A web process for one test, which remembers nothing of another."""
    with open_exchange(parts, redis_url, tmp_path) as running:
        yield running


@pytest.fixture
def line(exchange: Exchange) -> Line:
    """A line to it."""
    return exchange.line()


def _staffed(url: str, folder: Path, letters_per_s: int) -> AbstractContextManager[WebServer]:
    return web_server(url, folder, speech_letters_per_s=letters_per_s, **staffed(folder))


@pytest.fixture(scope="module")
def staffed_web(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A web process with people at its board, for all tests of a module. It speaks fast."""
    with _staffed(server_url, tmp_path_factory.mktemp("staffed"), 1_000) as running:
        yield running


@pytest.fixture(scope="module")
def slow_web(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """The same, and it speaks slowly: what it sends takes seconds to be heard."""
    with _staffed(server_url, tmp_path_factory.mktemp("slow"), 5) as running:
        yield running


@pytest.fixture
def slow_exchange(parts: Parts, slow_web: WebServer) -> Iterator[Exchange]:
    with slow_web.exchange(parts) as running:
        yield running


@pytest.fixture
def ana(exchange: Exchange) -> Iterator[Dispatcher]:
    """A dispatcher at the board of the web process."""
    with dispatcher(exchange, "ana") as person:
        yield person


@pytest.fixture
def slow_ana(slow_exchange: Exchange) -> Iterator[Dispatcher]:
    """A dispatcher at the board of the one that speaks slowly."""
    with dispatcher(slow_exchange, "ana") as person:
        yield person


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    with server_pair() as running:
        use_broker(running.url)
        yield running


@pytest.fixture
def failing(pair: ServerPair, tmp_path: Path) -> Iterator[Exchange]:
    """A web process that waits for no replica."""
    with (
        connect(pair.url) as client,
        open_exchange(Parts(client), pair.url, tmp_path, speech_letters_per_s=1_000) as running,
    ):
        yield running


@pytest.fixture
def careful(pair: ServerPair, tmp_path: Path) -> Iterator[Exchange]:
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
