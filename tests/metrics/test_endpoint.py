"""`/metrics` of a real web process: who may read it, and what it says of real calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from callflow.celery import use_broker
from callflow.errors import SettingsError
from callflow.lab.embedded_server import EmbeddedServer
from callflow.metrics.catalogue import METRICS, Kind
from callflow.redis.client import connect
from callflow.settings import load
from tests.exchange import Exchange, open_exchange
from tests.metrics.promtool import promtool
from tests.metrics.watched import numbers
from tests.parts import Parts
from tests.waiting import wait_until

TOKEN = "0123456789abcdef-not-a-secret"


@pytest.fixture
def measured(parts: Parts, redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """A web process whose metrics may be read."""
    with open_exchange(parts, redis_url, tmp_path, metrics_token=TOKEN) as running:
        yield running


def ask(exchange: Exchange, **headers: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{exchange.port}/metrics", headers=headers)


def scrape(exchange: Exchange) -> dict[str, float]:
    answer = ask(exchange, Authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 200, answer.text
    return numbers(answer.text)


def seen(exchange: Exchange, name: str, value: float) -> dict[str, float]:
    wait_until(lambda: scrape(exchange).get(name) == value, f"{name} is {value}")
    return scrape(exchange)


def test_without_a_token_there_is_nothing_and_a_sentence_says_how(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    with open_exchange(parts, redis_url, tmp_path) as closed:
        for header in ("", "Bearer", "Bearer None"):
            answer = ask(closed, Authorization=header)
            assert answer.status_code == 404
            assert "CALLFLOW_METRICS_TOKEN" in answer.text
            assert "callflow_" not in answer.text


def test_who_does_not_show_the_token_is_told_nothing(measured: Exchange) -> None:
    for shown in ("", TOKEN, "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}"):
        answer = ask(measured, Authorization=shown)
        assert answer.status_code == 401, shown
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "callflow_" not in answer.text


def test_a_token_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(SettingsError, match="CALLFLOW_METRICS_TOKEN"):
        load({"CALLFLOW_METRICS_TOKEN": "secret"})


def test_what_cloudwatch_would_refuse_is_refused_at_once() -> None:
    for name in ("AWS/callflow", "with blanks", "é", "a" * 256):
        with pytest.raises(SettingsError, match="CALLFLOW_CLOUDWATCH_NAMESPACE"):
            load({"CALLFLOW_CLOUDWATCH_NAMESPACE": name})


def test_a_real_call_is_in_the_metrics_from_its_first_word_to_its_end(measured: Exchange) -> None:
    seen(measured, "callflow_store_up", 1)
    line = measured.arrived()
    seen(measured, "callflow_active_calls", 1)
    with measured.worker("Help is coming. ", "Stay inside."):
        assert "Stay inside." in line.says(1, "I am stuck").says
    found = seen(measured, "callflow_turns_answered_total", 1)
    assert found["callflow_caller_silence_seconds_count"] == 1
    assert found['callflow_calls{word="listening"}'] == 1
    line.post("/voice/status", CallStatus="completed")
    found = seen(measured, "callflow_active_calls", 0)
    assert found['callflow_calls_ended_total{reason="hung_up"}'] == 1
    assert found["callflow_data_age_seconds"] < 5


def test_prometheus_finds_no_fault_with_what_it_reads(measured: Exchange) -> None:
    with measured.worker("Stay inside."):
        line = measured.arrived()
        line.says(1, "stuck")
    seen(measured, "callflow_turns_answered_total", 1)
    answer = ask(measured, Authorization=f"Bearer {TOKEN}")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    promtool("check", "metrics", said=answer.content)
    told = {line.split()[2] for line in answer.text.splitlines() if line.startswith("# HELP")}
    of_records = {"unarchived", "records_up", "lifts_without"}
    assert told == {
        one.exported
        for one in METRICS
        if not (one.kind is Kind.GAUGE and any(word in one.name for word in of_records))
    }


def test_while_the_store_is_gone_the_metrics_say_so(
    own_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callflow.metrics.collector.STALE_S", 1.5)
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        with open_exchange(Parts(client), own_server.url, tmp_path, metrics_token=TOKEN) as running:
            seen(running, "callflow_store_up", 1)
            own_server.kill()
            found = seen(running, "callflow_store_up", 0)
            assert "callflow_active_calls" not in found
            assert found["callflow_calls_opened_total"] == 0
            own_server.restart()
            seen(running, "callflow_store_up", 1)
