"""The model's server, once for a test process, and a proxy in front of it for each test."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.model.asking import STEADY, heard, responder
from tests.model.llama import Llama, weights
from tests.model.proxy import Proxy, proxy
from tests.needs import missing
from tests.responder.calls import later


@pytest.fixture(scope="session")
def llama() -> Iterator[Llama]:
    """A server that is shared; who freezes it thaws it again."""
    with _started() as running:
        with proxy(running.address) as way:
            way.added = dict(STEADY)
            # The server remembers how the prompt begins: whose first request it is waits longest.
            heard(responder(way.url), later())
        yield running


@pytest.fixture
def own_llama() -> Iterator[Llama]:
    """A server of the test's own, to be killed."""
    with _started() as running:
        yield running


def _started() -> Llama:
    if importlib.util.find_spec("openai") is None:
        missing("the package openai", "make test-model")
    return Llama(weights())


@pytest.fixture
def through(llama: Llama) -> Iterator[Proxy]:
    """The way to the shared server, without a fault as yet, and with a model that keeps calm."""
    with proxy(llama.address) as running:
        running.added = dict(STEADY)
        yield running
