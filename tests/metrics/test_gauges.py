"""How things stand, as the gauges tell it; and that what is not known any more is not told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from callflow.celery import TURNS, WATCHDOG, use_broker
from callflow.health.deployment_checks import UNDERSTUDY
from callflow.health.worker_reports import Phase, ReportStore, WorkerReport, WorkerReports
from callflow.messages import wake
from callflow.metrics.collector import (
    STALE_S,
    MetricsCollector,
    Surroundings,
    Survey,
    lifts_counter,
)
from callflow.records.keeping import Keeping
from callflow.redis.scripts import Scripts
from callflow.store.reader import CallWatcher
from tests.metrics.watched import Watched, numbers
from tests.parts import SID, TIMING, Parts, Says


def test_a_call_is_told_by_what_its_caller_lives_through(parts: Parts, watched: Watched) -> None:
    parts.intake.open(SID)
    assert watched.numbers()['callflow_calls{word="listening"}'] == 1
    now = parts.reader.now_ms()
    parts.store.record_utterance(SID, 1, "stuck", now_ms=now - 7_000)
    found = watched.numbers()
    assert found['callflow_calls{word="queued"}'] == 1
    assert found['callflow_calls{word="listening"}'] == 0
    assert found['callflow_calls_by_state{state="pending"}'] == 1
    assert found["callflow_active_calls"] == 1
    assert found["callflow_owed_turns"] == 1
    assert 7 <= found["callflow_oldest_owed_seconds"] < 20
    parts.worker(Says(("Hello.",))).run(SID)
    assert watched.numbers()["callflow_owed_turns"] == 0
    assert watched.now()["callflow_oldest_owed_seconds"] == 0
    parts.store.end(SID, "hung_up")
    found = watched.numbers()
    assert found["callflow_active_calls"] == 0
    assert sum(value for name, value in found.items() if name.startswith("callflow_calls{")) == 0


def test_danger_that_nobody_has_understood_yet_counts_as_p1(parts: Parts, watched: Watched) -> None:
    parts.intake.open(SID)
    parts.store.record_utterance(SID, 1, "fire", danger=True)
    assert watched.numbers()['callflow_calls_by_urgency{urgency="P1"}'] == 1


def test_calls_that_cannot_be_seen_are_told_of(parts: Parts) -> None:
    metrics = MetricsCollector(TIMING)
    look = CallWatcher(parts.client).look()
    metrics.look(dataclasses.replace(look, hidden=3, blind=frozenset({1, 2})))
    assert metrics.gauges()["active_calls", ""] == 3
    assert metrics.gauges()["blind_shards", ""] == 2


def test_what_is_old_is_not_told_as_if_it_were_of_now(parts: Parts) -> None:
    at = 100.0
    metrics = MetricsCollector(TIMING, monotonic=lambda: at)
    parts.intake.open(SID)
    before = numbers(metrics.exposition()[0].decode())
    assert before["callflow_store_up"] == 0
    assert "callflow_active_calls" not in before
    metrics.look(CallWatcher(parts.client).look())
    metrics.set_surroundings(Surroundings({TURNS: 3}, WorkerReports(0, ()), None))
    fresh = numbers(metrics.exposition()[0].decode())
    assert fresh["callflow_store_up"] == 1
    assert fresh["callflow_active_calls"] == 1
    at += STALE_S + 1
    old = numbers(metrics.exposition()[0].decode())
    assert old["callflow_store_up"] == 0
    assert old["callflow_data_age_seconds"] == STALE_S + 1
    assert old["callflow_calls_opened_total"] == 0
    for gone in ("active_calls", "oldest_owed_seconds", "worker_slots", "broker_up"):
        assert f"callflow_{gone}" not in old


def test_a_scrape_asks_the_store_for_nothing(parts: Parts, watched: Watched) -> None:
    parts.intake.open(SID)
    watched.look()
    before = parts.client.info("stats")["total_commands_processed"]
    for _ in range(20):
        assert watched.now()["callflow_active_calls"] == 1
    assert parts.client.info("stats")["total_commands_processed"] == before + 1


def test_workers_and_queues_are_told(parts: Parts, watched: Watched) -> None:
    vitals = ReportStore(Scripts(parts.client))
    works = WorkerReport("w1@here", slots=4, children=4, busy=3, queues=(TURNS,))
    vitals.save(works)
    vitals.save(dataclasses.replace(works, node="w2@here", phase=Phase.DRAINING))
    vitals.save(dataclasses.replace(works, node="w3@here"), now_ms=parts.reader.now_ms() - 9_000)
    parts.leases.mark_sweep(f"w1@here{UNDERSTUDY}")
    wake(SID)
    wake(SID)
    found = Survey(Scripts(parts.client), TIMING).look()
    for node in ("w1@here", "w2@here", "w3@here"):
        vitals.forget(node)
    watched.metrics.set_surroundings(found)
    told = watched.now()
    assert told['callflow_workers{phase="working"}'] == 1
    assert told['callflow_workers{phase="draining"}'] == 1
    assert told['callflow_workers{phase="silent"}'] == 1
    assert told["callflow_worker_slots"] == 4
    assert told["callflow_worker_slots_busy"] == 3
    assert told[f'callflow_queue_depth{{queue="{TURNS}"}}'] == 2
    assert told[f'callflow_queue_depth{{queue="{WATCHDOG}"}}'] == 0
    assert told["callflow_broker_up"] == 1
    assert told["callflow_sweeps_by_understudy"] == 1
    assert told["callflow_last_sweep_age_seconds"] < 2


def test_a_broker_that_is_gone_is_told_of_and_its_queues_are_not(
    parts: Parts, watched: Watched, redis_url: str
) -> None:
    use_broker("redis://127.0.0.1:1/0")
    try:
        found = Survey(Scripts(parts.client), TIMING).look()
    finally:
        use_broker(redis_url)
    watched.metrics.set_surroundings(found)
    told = watched.now()
    assert told["callflow_broker_up"] == 0
    assert not any(name.startswith("callflow_queue_depth") for name in told)


def test_while_nobody_sweeps_the_age_of_the_last_sweep_grows() -> None:
    at = 100.0
    metrics = MetricsCollector(TIMING, monotonic=lambda: at)
    metrics.set_surroundings(Surroundings({}, WorkerReports(0, ()), ("watchdog@here", 200)))
    at += 1
    assert round(metrics.gauges()["last_sweep_age_seconds", ""], 3) == 1.2
    assert metrics.gauges()["sweeps_by_understudy", ""] == 0
    metrics.set_surroundings(Surroundings({}, WorkerReports(0, ()), None))
    at += 20
    assert round(metrics.gauges()["last_sweep_age_seconds", ""], 3) == 21.2


def test_complete_calls_that_wait_for_their_record_are_told_of(
    parts: Parts, watched: Watched
) -> None:
    found = Survey(Scripts(parts.client), TIMING, keeps=True).look()
    assert found.unarchived == (0, 0)
    watched.metrics.set_surroundings(dataclasses.replace(found, unarchived=(3, 61_000)))
    told = watched.now()
    assert told["callflow_unarchived_calls"] == 3
    assert told["callflow_oldest_unarchived_seconds"] == 61
    assert Survey(Scripts(parts.client), TIMING).look().unarchived is None


def test_lifts_without_a_test_call_are_counted_by_the_lasting_records(
    watched: Watched, tmp_path: Path
) -> None:
    assert not any("lifts" in name or "records_up" in name for name in watched.now())
    url = f"sqlite:///{tmp_path}/records.db"
    count = lifts_counter(Keeping(url), ["tower", "mill"], 72)
    watched.metrics.set_untested_lifts(count())
    assert watched.now()["callflow_lifts_without_test_call"] == 2
    assert watched.now()["callflow_records_up"] == 1
    watched.metrics.set_untested_lifts(None)
    assert watched.now()["callflow_records_up"] == 0
    assert "callflow_lifts_without_test_call" not in watched.now()
