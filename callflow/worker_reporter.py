"""Reports once a second how a worker's parent process is, from the loop that takes its messages.

A parent whose loop is wedged or frozen, or that looks for its broker, cannot say that it is well;
one whose children are dead, or that consumes nothing any more, says so without knowing it. What
others make of it stands in `health/worker_checks.py`.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import time
from collections import deque
from contextlib import suppress
from typing import Any

from celery.bootsteps import RUN, StartStopStep
from celery.worker import state

from callflow import bootstrap
from callflow.celery import WATCHDOG
from callflow.errors import StoreError
from callflow.health.worker_reports import Phase, ReportStore, WorkerReport
from callflow.heartbeat import worker_name
from callflow.redis.scripts import Scripts

REPORT_EVERY_S = 1.0

STARTING_PATIENCE_MS = 600_000
"""Until it is connected a worker loads procedures, starts its children and waits for its broker;
the first of a machine builds an index by meaning, which takes a minute of CPU: on a machine with
ten times too much to do, ten minutes. Who restarts it meanwhile has it begin anew."""

DRAINING_PATIENCE_MS = 150_000
"""ECS kills what has not ended after 120 s at most."""

WORKING_PATIENCE_MS = 5_000
"""A loop that is late by four rounds does not take messages either."""

LOST_WITHIN_S = 60.0


class WorkerReporter(StartStopStep):  # type: ignore[misc]
    """Reports for as long as the worker is connected to its broker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        super().__init__(consumer, **kwargs)
        self.parent = ParentProcess(consumer)
        self._reports = ReportStore(Scripts(bootstrap.client()))
        self._timer: Any = None
        consumer.on_task_message.add(self.parent.count)
        atexit.register(self._leave, os.getpid())
        # No worker stays away because this could not be said: without it its children are
        # complained of, until it reports.
        with suppress(StoreError):
            self._reports.save(self.parent.report(Phase.STARTING))

    def start(self, consumer: Any) -> None:
        """Begin to report: the worker is connected, for the first time or again."""
        # By the timer at once, too: what is raised here ends the worker, and there it is logged.
        consumer.timer.call_after(0, self._report_soon, (consumer,))
        self._timer = consumer.timer.call_repeatedly(REPORT_EVERY_S, self._report_soon, (consumer,))

    def stop(self, consumer: Any) -> None:
        """Fall silent: the broker is gone. Or say that this worker takes no more and ends."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if consumer.blueprint.state != RUN:
            self._reports.save(self.parent.report(Phase.DRAINING))

    def _report_soon(self, consumer: Any) -> None:
        if consumer.hub is None:
            # Where timers run beside the loop that takes the messages: at its next round.
            consumer.call_soon(self._report)
        else:
            self._report()

    def _report(self) -> None:
        self._reports.save(self.parent.report(Phase.WORKING))

    def _leave(self, pid: int) -> None:
        if os.getpid() == pid:
            # Not said, it is remembered for a minute as one that fell silent.
            with suppress(StoreError):
                self._reports.forget(self.parent.node)


class ParentProcess:
    """What the parent process of one worker can tell of itself. Times are monotonic, s."""

    def __init__(self, consumer: Any) -> None:
        # As its processes call themselves, without what a channel's name may not have.
        self.node = worker_name(consumer.hostname).partition("/")[0]
        self._consumer = consumer
        self._version = _version()
        self._turn_ms = bootstrap.settings().timing.turn_ms
        now = time.monotonic()
        self._since = self._took_at = self._full_at = now
        self._taken = 0
        self._held: dict[str, float] = {}
        self._pids: frozenset[int] = frozenset()
        self._lost: deque[float] = deque()

    def count(self, _request: Any) -> None:
        """Count a message that was taken."""
        self._taken += 1
        self._took_at = time.monotonic()

    def report(self, phase: Phase) -> WorkerReport:
        """How it is at this moment."""
        now = time.monotonic()
        pool = self._consumer.pool
        kind = type(pool).__module__.rpartition(".")[2]
        # Before it is started it has no processes to count.
        slots = pool.limit if phase is Phase.STARTING else pool.num_processes
        children = self._ready_children(pool, now) if kind == "prefork" else slots
        if children >= slots or phase is not Phase.WORKING:
            self._full_at = now
        queues = self._queues()
        self._held = {one: self._held.get(one, now) for one in _in_hand()}
        return WorkerReport(
            self.node,
            patience_ms=self._patience_ms(phase, kind, queues),
            phase=phase,
            pool=kind,
            slots=slots,
            children=children,
            short_ms=_ms(now - self._full_at),
            lost=len(self._lost),
            busy=len(self._held),
            oldest_ms=_ms(now - min(self._held.values(), default=now)),
            taken=self._taken,
            idle_ms=_ms(now - self._took_at),
            turn_ms=self._turn_ms,
            queues=queues,
            up_ms=_ms(now - self._since),
            version=self._version,
        )

    def _queues(self) -> tuple[str, ...]:
        consumer = self._consumer.task_consumer
        return () if consumer is None else tuple(queue.name for queue in consumer.queues)

    def _patience_ms(self, phase: Phase, kind: str, queues: tuple[str, ...]) -> int:
        if phase is Phase.STARTING:
            return STARTING_PATIENCE_MS
        if phase is Phase.DRAINING:
            return DRAINING_PATIENCE_MS
        # Such a pool runs its tasks in the loop itself, which is silent while one runs.
        turns_in_the_loop = kind == "solo" and queues != (WATCHDOG,)
        return WORKING_PATIENCE_MS + (self._turn_ms if turns_in_the_loop else 0)

    def _ready_children(self, pool: Any, now: float) -> int:
        """Those that live and have said that they are up: before that they are given nothing."""
        inner = pool._pool
        if inner is None:
            return 0
        pids = frozenset(one.pid for one in inner._pool)
        # A pool that is told to replace its children after some tasks loses none by that.
        if not inner._maxtasksperchild:
            self._lost.extend(now for _ in self._pids - pids)
        self._pids = pids
        while self._lost and self._lost[0] < now - LOST_WITHIN_S:
            self._lost.popleft()
        up = inner._fileno_to_inq
        return sum(one.inqW_fd in up and one.exitcode is None for one in tuple(inner._pool))


def _in_hand() -> list[str]:
    """The messages that were taken and are not done with. In a pool of threads others end them
    meanwhile: the references are copied in one step."""
    requests = [reference() for reference in tuple(state.reserved_requests.data)]
    return [one.id for one in requests if one is not None]


def _version() -> str:
    try:
        return importlib.metadata.version("callflow")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
