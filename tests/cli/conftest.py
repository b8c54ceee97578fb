"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.health import deployment_checks, node_check
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.leases import Leases
from tests.cli.running import TIMING, Cli
from tests.waiting import wait_until


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """The command line; no server is configured."""
    return Cli(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
def staffed_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a real worker that answers the calls on it."""
    with EmbeddedServer.start() as server:
        env = {"CALLFLOW_REDIS_URL": server.url}
        with LocalStack(env, tmp_path_factory.mktemp("logs")) as stack:
            worker = stack.start_worker("worker", slots=2, pool="threads")
            leases = Leases(Scripts(connect(server.url)), TIMING)
            wait_until(leases.present_now, f"a worker: {worker.last_lines()}", within_s=30)
            yield server.url


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A doctor need not look twice: what is wrong in a test stays so, and nobody sweeps."""
    monkeypatch.setattr(deployment_checks, "SWEEP_SAMPLES_S", (0.0,))
    monkeypatch.setattr(deployment_checks, "LOOK_AGAIN_S", 0.0)
    monkeypatch.setattr(node_check, "LOOK_AGAIN_S", 0.0)
