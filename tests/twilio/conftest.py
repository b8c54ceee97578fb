"""Fixtures of the Twilio tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.twilio.rest_api import RestApi, rest_api


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[RestApi]:
    """A server in the place of Twilio's; a proxy of this machine's does not stand before it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with rest_api() as serving:
        yield serving
