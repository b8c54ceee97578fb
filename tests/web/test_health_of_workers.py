"""/health tells what `callflow doctor` finds wrong with workers; /readyz says it and goes on."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from callflow.celery import CALLS, use_broker
from callflow.health.worker_reports import ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.keys import call_keys
from callflow.web import monitoring
from tests.exchange import Exchange, open_exchange
from tests.parts import SID, Parts
from tests.waiting import wait_until

WELL = WorkerReport(
    "w@test",
    patience_ms=60_000,
    pool="prefork",
    slots=2,
    children=2,
    idle_ms=60_000,
    turn_ms=8_000,
    queues=CALLS,
)


@pytest.fixture
def exchange(fresh_exchange: Exchange) -> Exchange:
    """A web process remembers for a moment what it saw."""
    return fresh_exchange


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was seen a moment ago is not what a test wants to know, and what is wrong stays so."""
    monkeypatch.setattr(monitoring, "ASK_EVERY_S", -1.0)
    monkeypatch.setattr(monitoring, "LOOK_AGAIN_S", 0.05)


def ask(exchange: Exchange, what: str = "health") -> httpx.Response:
    exchange.parts.watchdog.sweep("test")
    return httpx.get(f"http://127.0.0.1:{exchange.port}/{what}", timeout=10)


def are_served(exchange: Exchange) -> None:
    """By the first look that is not late: a sweep counts for a second."""
    wait_until(lambda: ask(exchange).status_code == 200, "callers are served")


def say(exchange: Exchange, signs: WorkerReport) -> None:
    ReportStore(Scripts(exchange.parts.client)).save(signs)


def reason(exchange: Exchange) -> str:
    """Why callers are not served; those who are ready say it too, and stay ready."""
    found = ask(exchange)
    assert found.status_code == 503, found.text
    ready = ask(exchange, "readyz")
    told = str(found.json()["reason"])
    assert (ready.status_code, _timeless(ready.json()["reason"])) == (200, _timeless(told))
    return told


def _timeless(told: str) -> str:
    return re.sub(r"[\d.]+", "", told)


def test_workers_that_are_well_serve(exchange: Exchange) -> None:
    say(exchange, WELL)
    are_served(exchange)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"children": 0, "short_ms": 11_000}, "has had no child ready for 11 s"),
        ({"busy": 2, "oldest_ms": 30_000}, "has had a message in work for 30 s"),
        ({"queues": ("takeover", "urgent", "tests")}, "nobody consumes the queue turns"),
        ({"queues": ()}, "w@test consumes no queue"),
    ],
)
def test_what_the_doctor_calls_a_failure_is_a_reason(
    exchange: Exchange, changed: dict[str, object], words: str
) -> None:
    say(exchange, replace(WELL, **changed))  # type: ignore[arg-type]
    assert words in reason(exchange)
    say(exchange, WELL)
    are_served(exchange)


def test_messages_that_a_free_worker_does_not_take_are_a_reason(
    exchange: Exchange, redis_url: str
) -> None:
    say(exchange, WELL)
    with connect(redis_url) as broker:
        broker.rpush("turns", "one")
        assert "has taken nothing for" in reason(exchange)
        broker.delete("turns")


def test_what_is_gone_at_the_second_look_is_no_reason(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(exchange, replace(WELL, queues=CALLS[1:]))
    monkeypatch.setattr(monitoring, "LOOK_AGAIN_S", 60.0)
    began = time.monotonic()
    assert ask(exchange, "readyz").status_code == 200
    assert time.monotonic() - began < 5, "/readyz waits for no second look"
    assert "reason" not in ask(exchange, "readyz").json()


def _owed_for(exchange: Exchange, ms: int) -> None:
    parts = exchange.parts
    now_ms = parts.reader.now_ms()
    parts.store.open(SID, now_ms=now_ms - ms)
    parts.store.record_utterance(SID, 1, "help", now_ms=now_ms - ms)
    # Woken a moment ago, so that no sweep of ours wakes it and a worker here takes it.
    parts.client.zadd(call_keys(SID).shard.owed, {SID: now_ms + 60_000})


def test_a_caller_who_waits_longer_than_a_turn_while_no_slot_is_free_is_a_reason(
    exchange: Exchange,
) -> None:
    say(exchange, replace(WELL, busy=2))
    _owed_for(exchange, 7_000)
    are_served(exchange)
    exchange.parts.store.end(SID, "hung_up")


def test_a_caller_who_waits_past_the_deadline_of_a_turn_is_a_reason_at_once(
    exchange: Exchange,
) -> None:
    say(exchange, replace(WELL, busy=2))
    _owed_for(exchange, 8_500)
    assert "no slot is free, and no turn may take so long" in reason(exchange)
    exchange.parts.store.end(SID, "hung_up")
    are_served(exchange)


def test_a_broker_that_does_not_answer_is_a_reason_and_keeps_nobody_waiting(
    parts: Parts, redis_url: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    with open_exchange(parts, redis_url, tmp_path) as exchange:
        use_broker(own_server.url)
        say(exchange, WELL)
        are_served(exchange)
        os.kill(own_server.pid, signal.SIGSTOP)
        began = time.monotonic()
        ready = ask(exchange, "readyz")
        assert time.monotonic() - began < 1
        assert ready.status_code == 200
        assert "the server with the messages does not answer" in reason(exchange)
        os.kill(own_server.pid, signal.SIGCONT)
        are_served(exchange)


def test_a_server_that_wants_more_replicas_is_told_of_as_it_is(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        client.config_set("min-replicas-to-write", "3")
        with open_exchange(Parts(client), own_server.url, tmp_path) as exchange:
            url = f"http://127.0.0.1:{exchange.port}/health"
            told = httpx.get(url, timeout=10).json()["reason"]
        client.config_set("min-replicas-to-write", "0")
    assert "min-replicas-to-write" in told
    assert "cannot be reached" not in told
    assert "callflow up" not in told
