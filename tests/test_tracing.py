"""Traces: the spans of one turn hang together, whichever process made them, and carry no words."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from callflow import tracing
from callflow.call.record import CallRecord
from callflow.celery import TAKEOVER, TURNS
from callflow.errors import SettingsError
from callflow.messages import wake
from callflow.responder import Piece
from callflow.settings import load
from tests.exchange import RELAY, Exchange, open_exchange
from tests.otlp import Collector, collecting
from tests.parts import SID, TIMING, Parts, Says
from tests.relay_socket import open_socket

SAID = "the private words of a caller"
REPLY = "I am here, and these words are private too."


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector to which this process sends its spans; `tracing.end()` sends what is left."""
    with collecting() as running:
        tracing.begin(running.url, "test")
        try:
            yield running
        finally:
            running.answers.set()
            tracing.end()


@pytest.fixture
def exchange(parts: Parts, redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    with open_exchange(parts, redis_url, tmp_path, reply_wait_s=3.0) as running:
        yield running


def _header(parts: Parts, queue: str) -> str | None:
    (message,) = parts.client.lrange(queue, 0, -1)
    header = json.loads(str(message))["headers"].get(tracing.HEADER)
    return None if header is None else str(header)


def test_a_turn_is_one_trace_from_the_webhook_to_the_reply(
    collector: Collector, exchange: Exchange
) -> None:
    line = exchange.arrived()
    with exchange.worker(REPLY):
        assert REPLY in line.says(1, SAID).says
    tracing.end()

    webhook = collector.one("/voice/turn", call_sid=SID, turn=1)
    names = {span.name for span in collector.whole(webhook.trace)}
    stages = {"turn", "claim", "understand", "respond", "commit"}
    assert names >= {"/voice/turn", "hear", "wake", "speak"} | stages
    turn = collector.one("turn")
    assert turn.attributes.items() >= {"call_sid": SID, "turn": 1, "fence": 1}.items()
    assert turn.attributes["attempts"] == 0
    assert turn.attributes["outcome"] == "answered"
    for name in stages - {"turn"}:
        stage = collector.one(name)
        assert stage.parent == turn.id
        assert turn.began_ns <= stage.began_ns <= stage.ended_ns <= turn.ended_ns
    for private in (SAID, REPLY, "private"):
        assert private.encode() not in collector.raw


def test_the_message_of_a_turn_carries_the_trace_to_whichever_worker_takes_it(
    collector: Collector, parts: Parts
) -> None:
    parts.intake.open(SID)
    parts.store.record_utterance(SID, 1, SAID)
    with tracing.turn("/voice/turn", SID, 1, first=True):
        wake(SID)
    header = _header(parts, TURNS)
    with tracing.extract({tracing.HEADER: header}):
        parts.worker(Says((REPLY,))).run(SID)
    tracing.end()

    webhook, sent, turn = (collector.one(name) for name in ("/voice/turn", "wake", "turn"))
    assert header == f"00-{webhook.trace}-{sent.id}-03"
    assert (sent.parent, turn.parent) == (webhook.id, sent.id)
    assert webhook.trace == turn.trace


def test_a_takeover_is_in_the_trace_of_the_lost_turn_and_linked_to_the_watchdog_s(
    collector: Collector, parts: Parts
) -> None:
    parts.intake.open(SID)
    with tracing.turn("/voice/turn", SID, 1, first=True):
        parts.intake.hear(SID, 1, SAID)
    parts.client.delete(TURNS)
    claimed_at = parts.reader.now_ms()
    parts.store.claim(SID, "lost@host/1-ab", "first")
    swept = parts.watchdog.sweep("test", now_ms=claimed_at + TIMING.stale_ms + 1_000)
    assert swept.to_worker == 1
    with tracing.extract({tracing.HEADER: _header(parts, TAKEOVER)}):
        assert parts.worker(Says((REPLY,))).run(SID) == "answered"
    tracing.end()

    webhook, reclaim, turn = (collector.one(name) for name in ("/voice/turn", "reclaim", "turn"))
    assert turn.trace == webhook.trace != reclaim.trace
    assert turn.attributes["attempts"] == 1
    assert reclaim.attributes.items() >= {"lost": "lost@host/1-ab", "fence": 1}.items()
    assert [trace for trace, _ in turn.links] == [reclaim.trace]
    collector.whole(turn.trace)


def test_a_reply_that_another_request_speaks_is_in_the_trace_of_its_turn(
    collector: Collector, parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    with open_exchange(parts, redis_url, tmp_path, reply_wait_s=0.5) as exchange:
        line = exchange.arrived()
        held = line.says(1, SAID)
        with exchange.worker(REPLY):
            assert REPLY in line.follow(held, "Redirect").says
    tracing.end()

    webhook, spoken = collector.one("/voice/turn"), collector.one("speak")
    assert spoken.parent == collector.one("/voice/wait").id
    assert spoken in collector.whole(webhook.trace)


def test_a_relay_turn_is_one_trace_as_well(collector: Collector, exchange: Exchange) -> None:
    exchange.line(called=RELAY).arrives()
    with exchange.worker(REPLY), open_socket(exchange) as socket:
        socket.says(SAID)
        assert socket.hears_reply() == REPLY
    tracing.end()

    heard = collector.one("hear", call_sid=SID, turn=1)
    names = {span.name for span in collector.whole(heard.trace)}
    assert names >= {"hear", "wake", "turn", "claim", "respond", "commit", "speak"}


def test_a_turn_that_fails_says_by_what_type_and_not_with_which_words(
    collector: Collector, parts: Parts
) -> None:
    class Fails:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            raise ValueError(SAID)
            yield

    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "stuck")
    with pytest.raises(ValueError, match=SAID):
        parts.worker(Fails()).run(SID)
    tracing.end()

    turn = collector.one("turn")
    assert turn.failed
    assert turn.attributes["error.type"] == "ValueError"
    assert SAID.encode() not in collector.raw


@pytest.mark.parametrize("header", [None, "", "00-zz-1-01", "00-" + "0" * 32 + "-" + "0" * 16, 7])
def test_a_message_without_a_trace_or_with_none_that_can_be_read_is_worked_on(
    collector: Collector, parts: Parts, header: object
) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "stuck")
    with tracing.extract({tracing.HEADER: header}):
        assert parts.worker(Says((REPLY,))).run(SID) == "answered"


def _answered_in(exchange: Exchange, call_sid: str) -> float:
    line = exchange.arrived(call_sid)
    began = time.monotonic()
    assert REPLY in line.says(1, SAID).says
    return time.monotonic() - began


def _slow(collector: Collector) -> None:
    collector.answers.clear()


def _gone(collector: Collector) -> None:
    tracing.end()
    tracing.begin("http://127.0.0.1:9/v1/traces", "test")


@pytest.mark.parametrize("break_it", [_slow, _gone])
def test_a_collector_that_is_slow_or_gone_costs_no_caller_anything(
    break_it: Callable[[Collector], None],
    collector: Collector,
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    tracing.end()
    tracing.begin(collector.url, "test")
    break_it(collector)
    with exchange.worker(REPLY):
        took_s = [_answered_in(exchange, f"CA{number}") for number in range(10)]
    # A whole batch waits for 5 s, and the queue is full after one call.
    assert max(took_s) < 1
    began = time.monotonic()
    tracing.end()
    assert time.monotonic() - began < tracing.LEAVE_WITHIN_S + 0.5


def test_without_a_setting_nothing_is_imported_and_a_message_is_as_it_was(parts: Parts) -> None:
    wake(SID)
    assert _header(parts, TURNS) is None
    # What is listed is what we import: redis imports some of OpenTelemetry, for its own metrics.
    code = (
        "import sys, callflow.tasks, callflow.worker\n"
        "from callflow import tracing\n"
        "with tracing.turn('turn', 'CA1', 1) as one, tracing.span('claim') as two:\n"
        "    assert one is two\n"
        "ours = ('opentelemetry.sdk.trace', 'opentelemetry.exporter')\n"
        "sys.exit(any(name.startswith(ours) for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector:4317", "http://"])
def test_an_address_that_is_no_collector_s_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="http://collector:4318/v1/traces"):
        load({"CALLFLOW_TRACES_URL": url})


def test_a_setting_without_the_extra_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "_NEEDS", ("opentelemetry_of_another_world.sdk",))
    with pytest.raises(tracing.TracesMissing, match=r"pip install 'callflow\[traces\]'"):
        tracing.begin("http://127.0.0.1:9/v1/traces", "test")
