"""A worker's parent says how it is, from the loop that takes its messages."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.bootsteps import CLOSE, RUN
from celery.worker import state
from kombu.asynchronous.timer import Timer

from callflow import bootstrap, worker_reporter
from callflow.health.worker_reports import (
    REMEMBERED_MS,
    REPORTS_KEY,
    UNTIL_KEY,
    Phase,
    ReportStore,
    WorkerReport,
    WorkerReports,
)
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.worker_reporter import WorkerReporter
from tests.waiting import wait_until

WELL = WorkerReport("w1@a", slots=2, children=2, queues=("turns",), version="1.0")
AT = 1_000_000


@pytest.fixture
def said(redis_url: str) -> ReportStore:
    return ReportStore(Scripts(connect(redis_url)))


def nodes(roll: WorkerReports) -> list[str]:
    return [one.node for one in roll.reports]


def test_what_was_said_last_can_be_read(each_server: EmbeddedServer) -> None:
    reports = ReportStore(Scripts(connect(each_server.url)))
    reports.save(WELL, now_ms=AT)
    reports.save(replace(WELL, busy=1), now_ms=AT + 1_000)
    reports.save(replace(WELL, node="w2@b"), now_ms=AT + 1_000)
    roll = reports.read(now_ms=AT + 1_500)
    assert roll == WorkerReports(
        AT + 1_500,
        (replace(WELL, busy=1, at=AT + 1_000), replace(WELL, node="w2@b", at=AT + 1_000)),
    )
    assert reports.read("w2@b", now_ms=AT + 1_500).reports == roll.reports[1:]
    assert reports.read("w3@c").reports == ()


def test_a_silence_is_told_from_a_pause(said: ReportStore) -> None:
    said.save(WELL, now_ms=AT)
    patience_ms = WELL.patience_ms
    for age_ms, silent_ms in ((patience_ms, 0), (patience_ms + 1, patience_ms + 1)):
        roll = said.read(now_ms=AT + age_ms)
        assert roll.silent_ms(roll.reports[0]) == silent_ms


def test_one_that_fell_silent_is_remembered_for_a_minute_and_then_forgotten(
    said: ReportStore, redis_url: str
) -> None:
    said.save(WELL, now_ms=AT)
    last = AT + WELL.patience_ms + REMEMBERED_MS
    assert nodes(said.read(now_ms=last - 1)) == ["w1@a"]
    assert nodes(said.read(now_ms=last)) == []
    assert connect(redis_url).hlen(REPORTS_KEY) == 1
    said.save(replace(WELL, node="w2@b"), now_ms=last)
    assert connect(redis_url).hkeys(REPORTS_KEY) == ["w2@b"]
    assert connect(redis_url).zrange(UNTIL_KEY, 0, -1) == ["w2@b"]


def test_what_is_said_ends_by_itself(said: ReportStore, redis_url: str) -> None:
    """And not before the one that is remembered longest."""
    client = connect(redis_url)
    said.save(replace(WELL, patience_ms=150_000))
    said.save(replace(WELL, node="w2@b"))
    for key in (REPORTS_KEY, UNTIL_KEY):
        assert 150_000 < client.pttl(key) <= 150_000 + REMEMBERED_MS


def test_who_leaves_is_forgotten_at_once(said: ReportStore) -> None:
    said.save(WELL)
    said.forget("w1@a")
    said.forget("w1@a")
    assert nodes(said.read()) == []


def test_what_another_version_says_is_read(said: ReportStore, redis_url: str) -> None:
    """In a rolling deploy both speak."""
    told = {"node": "w9@z", "at": 5, "slots": 3, "mood": "fine", "phase": "dreaming"}
    said.save(WELL)
    connect(redis_url).hset(REPORTS_KEY, "w9@z", json.dumps(told))
    assert said.read("w9@z", now_ms=10).reports == (WorkerReport("w9@z", at=5, slots=3),)


class Consumer(SimpleNamespace):
    """What a Celery consumer has of interest here, with a pool of threads."""

    def __init__(self) -> None:
        super().__init__(
            hostname="w1@test host",
            hub=object(),
            timer=Timer(),  # type: ignore[no-untyped-call]
            pool=SimpleNamespace(limit=4, num_processes=4),
            on_task_message=set(),
            task_consumer=None,
            blueprint=SimpleNamespace(state=RUN),
            soon=[],
        )
        self.call_soon = self.soon.append

    def connect(self, *queues: str) -> None:
        self.task_consumer = SimpleNamespace(queues=[SimpleNamespace(name=one) for one in queues])

    def run_timers(self) -> None:
        """What the event loop does with what is due."""
        for _, entry in self.timer:
            if entry is None:
                return
            entry()


@pytest.fixture
def consumer(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consumer]:
    monkeypatch.setenv("CALLFLOW_REDIS_URL", redis_url)
    monkeypatch.setenv("CALLFLOW_TURN_DEADLINE_S", "6")
    monkeypatch.setattr(worker_reporter, "REPORT_EVERY_S", 0.05)
    bootstrap.forget()
    yield Consumer()
    bootstrap.forget()


def only(said: ReportStore) -> WorkerReport:
    (one,) = said.read().reports
    return one


def test_a_worker_says_how_it_is_from_its_start_to_its_end(
    said: ReportStore, consumer: Consumer
) -> None:
    reporter = WorkerReporter(consumer)
    starting = only(said)
    assert (starting.node, starting.phase, starting.slots) == ("w1@test_host", "starting", 4)
    consumer.connect("takeover", "turns")
    reporter.start(consumer)
    consumer.run_timers()
    working = only(said)
    assert (working.phase, working.queues) == ("working", ("takeover", "turns"))
    assert (working.children, working.turn_ms) == (4, 6_000)
    consumer.blueprint.state = CLOSE
    reporter.stop(consumer)
    draining = only(said)
    assert draining.phase == "draining"
    assert draining.patience_ms >= 120_000
    reporter._leave(os.getpid() + 1)
    assert only(said) == draining, "a forked child has said good-bye for its parent"
    reporter._leave(os.getpid())
    assert said.read().reports == ()


def test_it_speaks_again_and_again_while_its_loop_turns_and_only_then(
    said: ReportStore, consumer: Consumer
) -> None:
    reporter = WorkerReporter(consumer)
    reporter.start(consumer)
    consumer.run_timers()
    first = only(said).at

    def later() -> bool:
        consumer.run_timers()
        return only(said).at > first

    wait_until(later, "it never spoke again")
    reporter.stop(consumer)  # The broker is gone: the worker is not told to end.
    last = only(said)
    assert last.phase == "working"
    assert all(one.entry.canceled for one in consumer.timer.queue)


def test_where_timers_run_beside_the_loop_it_waits_for_its_next_round(
    said: ReportStore, consumer: Consumer
) -> None:
    consumer.hub = None
    reporter = WorkerReporter(consumer)
    reporter.start(consumer)
    consumer.run_timers()
    assert only(said).phase == "starting"
    consumer.soon.pop()()
    assert only(said).phase == "working"
    reporter.stop(consumer)


def test_it_counts_what_it_takes_and_has_in_hand(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = WorkerReporter(consumer).parent
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    request = Request("task-1")
    (took,) = consumer.on_task_message
    took(request)
    state.reserved_requests.add(request)
    assert (parent.report(Phase.WORKING).busy, parent.report(Phase.WORKING).oldest_ms) == (1, 0)
    now[0] += 3
    found = parent.report(Phase.WORKING)
    assert (found.taken, found.idle_ms, found.oldest_ms, found.free) == (1, 3_000, 3_000, 3)
    state.reserved_requests.discard(request)
    found = parent.report(Phase.WORKING)
    assert (found.taken, found.busy, found.oldest_ms, found.free) == (1, 0, 0, 4)


class Request:
    """A message in hand."""

    def __init__(self, task_id: str) -> None:
        self.id = task_id


def test_a_worker_starts_and_works_while_the_store_is_away(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, consumer: Consumer
) -> None:
    monkeypatch.setenv("CALLFLOW_REDIS_URL", own_server.url)
    bootstrap.forget()
    own_server.kill()
    reporter = WorkerReporter(consumer)
    reporter.start(consumer)
    reporter._leave(os.getpid())


class TaskPool(SimpleNamespace):
    """A pool of processes, as Celery's own looks from inside."""


TaskPool.__module__ = "celery.concurrency.prefork"


def processes(*pids: int, dead: tuple[int, ...] = (), up: tuple[int, ...] = ()) -> Any:
    made = [
        SimpleNamespace(pid=pid, inqW_fd=pid, exitcode=9 if pid in dead else None) for pid in pids
    ]
    return SimpleNamespace(
        _pool=made, _fileno_to_inq=dict.fromkeys(up or pids), _maxtasksperchild=None
    )


def test_only_children_that_live_and_have_come_up_are_ready(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    consumer.pool = TaskPool(limit=3, num_processes=3, _pool=None)
    parent = WorkerReporter(consumer).parent

    def signs(inner: Any) -> WorkerReport:
        consumer.pool._pool = inner
        now[0] += 2
        return parent.report(Phase.WORKING)

    assert signs(processes(1, 2, 3)).children == 3
    fewer = signs(processes(1, 2, 3, dead=(2,), up=(1, 2)))
    assert (fewer.children, fewer.short_ms, fewer.lost) == (1, 2_000, 0)
    fewer = signs(processes(1, 3, 4, up=(1, 3)))
    assert (fewer.children, fewer.short_ms, fewer.lost) == (2, 4_000, 1)
    whole = signs(processes(1, 3, 4))
    assert (whole.children, whole.short_ms, whole.lost) == (3, 0, 1)
    now[0] += 60
    assert signs(processes(1, 3, 4)).lost == 0


@pytest.mark.stack
def test_a_real_worker_of_processes_says_so_and_leaves(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    said = ReportStore(Scripts(connect(own_server.url)))
    with LocalStack({"CALLFLOW_REDIS_URL": own_server.url}, tmp_path / "logs") as stack:
        worker = stack.start_worker("w1", slots=2)

        def ready() -> WorkerReport | None:
            signs = said.read().reports
            return signs[0] if signs and signs[0].children == 2 else None

        found = wait_until(ready, f"ready: {worker.last_lines()}", within_s=30)
        assert found is not None
        assert (found.pool, found.slots, found.phase) == ("prefork", 2, "working")
        assert found.queues == ("takeover", "urgent", "turns", "tests")
        os.kill(worker.pid, signal.SIGTERM)
        worker.popen.wait(20)
        assert said.read().reports == ()
