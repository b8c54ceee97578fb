"""Fixtures: a web process with people at its board, one for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from callflow.board import feed
from callflow.redis.client import connect
from tests.dispatchers import Dispatcher, dispatcher, staffed_exchange
from tests.exchange import Exchange
from tests.parts import Parts
from tests.rest_api import RestApi, rest_api


@pytest.fixture(scope="module")
def rest() -> Iterator[RestApi]:
    with rest_api() as running:
        yield running


@pytest.fixture(scope="module")
def web_process(
    server_url: str, rest: RestApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Exchange]:
    """Its board shows what is there when it is asked, and nothing of the test before."""
    with pytest.MonkeyPatch.context() as patch, connect(server_url) as client:
        patch.setattr(feed, "LINGER_S", 0.0)
        patch.setattr(feed, "FRESH_S", 0.0)
        given = Parts(client), server_url, tmp_path_factory.mktemp("board")
        with staffed_exchange(*given, api_url=rest.url) as running:
            yield running


@pytest.fixture
def api(rest: RestApi) -> RestApi:
    """The carrier's API, which has been asked nothing."""
    rest.forget()
    return rest


@pytest.fixture
def exchange(web_process: Exchange, api: RestApi, parts: Parts) -> Exchange:
    """The process, with an empty store: ana and bo may act, vera may look."""
    return replace(web_process, parts=parts)


@pytest.fixture
def ana(exchange: Exchange) -> Iterator[Dispatcher]:
    with dispatcher(exchange, "ana") as person:
        yield person


@pytest.fixture
def bo(exchange: Exchange) -> Iterator[Dispatcher]:
    with dispatcher(exchange, "bo") as person:
        yield person
