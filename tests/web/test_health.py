"""A web process runs; it is to be sent callers; callers are served: three answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from callflow.celery import CALLS, use_broker
from callflow.health.worker_reports import Phase, ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.web import monitoring
from callflow.web.app import create
from tests.exchange import PUBLIC, TOKEN, Exchange, open_exchange
from tests.parts import Parts
from tests.waiting import wait_until


@pytest.fixture
def exchange(fresh_exchange: Exchange) -> Exchange:
    """A web process remembers for a moment what it saw."""
    return fresh_exchange


@pytest.fixture(autouse=True)
def ask_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen a moment ago is not what a test wants to know."""
    monkeypatch.setattr(monitoring, "ASK_EVERY_S", -1.0)


def ask(exchange: Exchange, what: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{exchange.port}/{what}", timeout=10)


def worker_says(exchange: Exchange, phase: Phase = Phase.WORKING) -> None:
    signs = WorkerReport("w@test", phase=phase, slots=2, children=2, queues=CALLS)
    ReportStore(Scripts(exchange.parts.client)).save(signs)


def test_callers_are_served_when_somebody_sweeps_and_a_worker_takes_calls(
    exchange: Exchange,
) -> None:
    unserved = ask(exchange, "health")
    assert unserved.status_code == 503
    assert "watchdog" in unserved.json()["reason"]
    assert "no worker takes calls" in unserved.json()["reason"]
    worker_says(exchange)

    def served() -> httpx.Response | None:
        exchange.parts.watchdog.sweep("test")
        answer = ask(exchange, "health")
        return answer if answer.status_code == 200 else None

    answer = wait_until(served, "callers are served")
    assert answer is not None
    told = answer.json()
    assert (told["ok"], told["workers"], told["sweeps"]["by"]) == (True, ["w@test"], "test")


def test_a_worker_that_is_about_to_end_serves_nobody(exchange: Exchange) -> None:
    worker_says(exchange, Phase.DRAINING)
    assert "no worker takes calls" in ask(exchange, "health").json()["reason"]
    worker_says(exchange)
    assert "no worker takes calls" not in ask(exchange, "health").json()["reason"]


def test_a_process_without_workers_is_still_sent_callers(exchange: Exchange) -> None:
    """It says holding phrases and has a human rung: nobody else would."""
    ready = ask(exchange, "readyz")
    assert ready.status_code == 200
    assert ready.json()["workers"] == []
    assert "no worker takes calls" in ready.json()["reason"]


def test_a_process_whose_store_has_gone_is_still_sent_callers_and_says_so(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        with open_exchange(Parts(client), own_server.url, tmp_path) as exchange:
            assert ask(exchange, "readyz").status_code == 200
            own_server.kill()
            ready = ask(exchange, "readyz")
            assert ready.status_code == 200
            assert "cannot be reached" in ready.json()["store"]
            assert ask(exchange, "health").status_code == 503
            assert ask(exchange, "healthz").status_code == 200


def test_a_process_before_a_replica_is_sent_nobody(
    own_server: EmbeddedServer, redis_url: str, tmp_path: Path
) -> None:
    host, _, port = redis_url.rpartition("@")[2].partition("/")[0].partition(":")
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        client.replicaof(host, port)
        with open_exchange(Parts(client), own_server.url, tmp_path) as exchange:
            unready = ask(exchange, "readyz")
            assert unready.status_code == 503
            assert "read-only" in unready.json()["reason"]
            assert ask(exchange, "healthz").status_code == 200
            client.replicaof("NO", "ONE")
            assert ask(exchange, "readyz").status_code == 200


def test_a_process_before_a_full_server_is_sent_nobody(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        client.config_set("maxmemory", "1")
        with open_exchange(Parts(client), own_server.url, tmp_path) as exchange:
            unready = ask(exchange, "readyz")
            assert unready.status_code == 503
            assert "out of memory" in unready.json()["reason"]


def test_many_who_ask_at_once_ask_the_store_once(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may ask, and it must not cost the callers anything."""
    monkeypatch.setattr(monitoring, "ASK_EVERY_S", 60.0)
    ask(exchange, "readyz")
    before = exchange.parts.client.info("commandstats")["cmdstat_set"]["calls"]
    for _ in range(20):
        assert ask(exchange, "readyz").status_code == 200
    assert exchange.parts.client.info("commandstats")["cmdstat_set"]["calls"] == before


async def _block(_: Request) -> Response:
    time.sleep(1.5)  # noqa: ASYNC251 - what no handler may do
    return PlainTextResponse("done")


@contextmanager
def _served(app: Starlette) -> Iterator[int]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the web process did not start")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def test_fault_16_a_blocked_event_loop_answers_nothing_and_is_told_of_afterwards(
    redis_url: str,
) -> None:
    given = {"redis_url": redis_url, "public_url": PUBLIC, "twilio_auth_token": SecretStr(TOKEN)}
    app = create(Settings.model_validate(given), Sites(()), None)
    app.router.routes.append(Route("/block", _block))
    with _served(app) as port:
        base = f"http://127.0.0.1:{port}"
        assert httpx.get(f"{base}/health").json()["lag_ms"] < monitoring.LATE_MS
        blocker = threading.Thread(target=httpx.get, args=(f"{base}/block",))
        blocker.start()

        def no_answer() -> bool:
            try:
                httpx.get(f"{base}/healthz", timeout=0.5)
            except httpx.TimeoutException:
                return True
            return False

        wait_until(no_answer, "the loop was never blocked", within_s=3)
        blocker.join()
        late = httpx.get(f"{base}/health")
        assert late.status_code == 503
        assert late.json()["lag_ms"] > monitoring.LATE_MS
        assert "event loop was late" in late.json()["reason"]


def test_a_store_with_too_few_replicas_is_told_of(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    with open_exchange(parts, redis_url, tmp_path, min_replicas=1, replica_wait_s=0.01) as alone:
        worker_says(alone)
        assert "CALLFLOW_MIN_REPLICAS" in ask(alone, "health").json()["reason"]
        # Its callers are put through to a human: somebody has to do that.
        assert ask(alone, "readyz").status_code == 200
