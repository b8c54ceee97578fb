"""The servers that tests share: each started on first use, once per test process."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from callflow.lab.embedded_server import (
    EmbeddedServer,
    debian_redis_binary,
    find_server_binary,
    keys_without_lifetime,
)
from tests.needs import missing

KINDS = ("valkey", "redis7")

EACH = (KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.stack))
"""For tests that run on each kind; on the second one in CI alone."""


def binary_of(kind: str) -> Path:
    """The binary of one of `KINDS`; skips or fails the test that asks when it is not installed."""
    if kind == "valkey":
        return find_server_binary()
    return debian_redis_binary() or missing("redis-server", "apt-get install redis-server")


class Servers:
    """Starts each kind of server at most once, and remembers which ones the test at hand used."""

    def __init__(self) -> None:
        self._running: dict[str, EmbeddedServer] = {}
        self.used: set[str] = set()

    def clean(self, kind: str) -> EmbeddedServer:
        """The server of this kind, with nothing stored; one that a test killed comes back."""
        server = self._running.get(kind)
        if server is None:
            server = self._running[kind] = EmbeddedServer.start(binary=binary_of(kind))
        elif not server.alive:
            server.restart()
        with redis.Redis.from_url(server.url) as client:
            client.flushall()
        self.used.add(kind)
        return server

    def leaks(self) -> list[str]:
        """The keys of ours, on every server used, that will stay for ever."""
        found: list[str] = []
        for kind in sorted(self.used):
            server = self._running[kind]
            if server.alive:
                with redis.Redis.from_url(server.url, decode_responses=True) as client:
                    found += [f"{key} ({kind})" for key in keys_without_lifetime(client)]
        return found

    def stop(self) -> None:
        """End them all."""
        for server in self._running.values():
            server.stop()
