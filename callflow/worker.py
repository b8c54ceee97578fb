"""Adds to Celery's worker: it warms up, sweeps when nobody else does, and ends without a loss.

The understudy sweeps when nobody has for a second. It runs in the worker's parent process and needs
no pool slot and no message, so takeovers go on when every beat scheduler is dead, when the broker
is empty and when all slots are busy. Of many workers one takes each missed round.

The end begins with SIGTERM (Celery's warm shutdown). No turn is begun from then on: what was taken
and not begun goes back to the front of its queue. The turns that run have `drain_s` to finish;
then each gives its call to another worker, without having cost it an attempt.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from celery.beat import Scheduler
from celery.bootsteps import StartStopStep
from celery.signals import (
    beat_init,
    celeryd_after_setup,
    celeryd_init,
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.common import ignore_errors

from callflow import bootstrap, logs, tracing
from callflow.celery import TURNS, app
from callflow.errors import CallflowError
from callflow.heartbeat import STUCK_AFTER_S, STUCK_STATUS
from callflow.messages import discard_sweeps
from callflow.worker_reporter import WorkerReporter

LOOK_EVERY_S = 0.25

LOOK_FOR_RECORDS_EVERY_S = 2.5
"""Complete calls are kept until they are archived: there is no haste."""

LEAVE_WITHIN_S = 10.0
"""What Celery may take to end itself once its turns are done: 1 to 2 s, and 5 s on a machine with
ten times too much to do."""


class Understudy(StartStopStep):
    """Sweeps in the watchdog's stead, for as long as the worker is connected."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        super().__init__(consumer, **kwargs)
        self._timers: list[Any] = []

    def start(self, consumer: Any) -> None:
        """Begin to look whether a sweep was missed, or a round of archiving."""
        by = (f"{consumer.hostname} (understudy)",)
        repeatedly = consumer.timer.call_repeatedly
        self._timers = [repeatedly(LOOK_EVERY_S, _sweep_if_missed, by)]
        if bootstrap.settings().archiving:
            self._timers.append(repeatedly(LOOK_FOR_RECORDS_EVERY_S, _archive_if_missed, by))

    def stop(self, consumer: Any) -> None:
        """Stop looking."""
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()


def _sweep_if_missed(by: str) -> None:
    with logs.bound(worker=by):
        swept = bootstrap.watchdog().sweep_if_missed(by)
    if swept is not None:
        # Beat goes on asking a watchdog that is not there, on a server that never evicts.
        discard_sweeps()


def _archive_if_missed(by: str) -> None:
    archivist = bootstrap.archivist()
    if archivist is not None:
        archivist.start_if_missed(by)


app.steps["consumer"].update((Understudy, WorkerReporter))


class Consumer(CeleryConsumer):
    """Celery's own, which keeps its line to the broker until every turn is done.

    For up to a second the server goes on handing it what arrives: nobody here reads it any more.

    It neither gossips nor mingles, whatever its command line says: the record tells what workers
    tell each other there, and a right to listen to all of them would be needed for it.
    """

    def __init__(self, *args: Any, worker_options: Any = None, **kwargs: Any) -> None:
        options = {**(worker_options or {}), "without_gossip": True, "without_mingle": True}
        super().__init__(*args, worker_options=options, **kwargs)

    def stop(self) -> None:
        """The worker ends: it was told to, or it cannot go on."""
        drain = bootstrap.drain()
        drain.begin()
        _end_by_force_after(drain.left_s + STUCK_AFTER_S + LEAVE_WITHIN_S)
        super().stop()
        if self.connection is not None and self.task_consumer is not None:
            # Takes what is on its way to us, and puts back all that no turn has begun with. Where
            # the broker is gone, others find it in the records.
            ignore_errors(  # type: ignore[no-untyped-call]
                self.connection, self.task_consumer.channel.close
            )


def _end_by_force_after(seconds: float) -> None:
    """A turn that is stuck in a thread would keep the worker from ending at all."""
    timer = threading.Timer(seconds, os._exit, (STUCK_STATUS,))
    timer.daemon = True
    timer.start()


@setup_logging.connect  # type: ignore[untyped-decorator]
def _log(loglevel: int, logfile: str | None, **_: Any) -> None:
    """For workers and beat. Celery cannot tell `-l` from its default: a setting comes first."""
    known = bootstrap.settings()
    logs.configure(known.log_format, known.log_level or loglevel, file=logfile)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _trace(**_: Any) -> None:
    """In the processes that run turns, and that of the watchdog: not in the parent of a pool."""
    tracing.begin(bootstrap.settings().traces_url, "worker")


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _end_traces(**_: Any) -> None:
    # A pool's child ends without what Python does at the end.
    tracing.end()


@beat_init.connect  # type: ignore[untyped-decorator]
def _needs_a_broker(**_: Any) -> None:
    _refuse_without(bootstrap.settings().queue_url)


@celeryd_init.connect  # type: ignore[untyped-decorator]
def _needs_a_server(**_: Any) -> None:
    _refuse_without(bootstrap.settings().redis_url)


def _refuse_without(url: str | None) -> None:
    """Celery's own default is this machine's port 6379, and would be asked for ever."""
    if url is None:
        # Celery logs and forgets what a signal handler raises, but not this.
        raise SystemExit(
            "callflow: CALLFLOW_REDIS_URL is not set: name the server that holds the calls "
            "(redis://… or rediss://…); that of a `callflow up` stands in the file "
            f"{bootstrap.settings().data_dir / 'url'} while it runs"
        )


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _begin_to_drain(**_: Any) -> None:
    bootstrap.drain().begin()


class PunctualScheduler(Scheduler):
    """Celery's beat without its shelf of last runs, and without its haste.

    Beat wakes up 10 ms too early and spins until it is time; at five sweeps a second that is 4 %
    of a core. What was sent last need not outlive it: every sweep is due at once.
    """

    def adjust(self, n: float, drift: float = 0.0) -> float:
        """The seconds to wait: all of them."""
        return n


class _WarmUp:
    """Loads procedures and becomes present before the first call, so that none waits for it.

    Pool children are forked from the parent, which knows the worker's name and its queues; a
    child must have begun within 4 s, after which Celery takes it for dead.
    """

    node: str | None = None

    def remember(self, sender: str, instance: Any, **_: Any) -> None:
        bootstrap.drain()
        if not _is_prefork(instance.pool_cls):
            app.conf.worker_disable_prefetch = False
        if TURNS not in instance.app.amqp.queues.consume_from:
            return
        self.node = sender
        try:
            tracing.check(bootstrap.settings().traces_url)
            bootstrap.prepare()
        except CallflowError as error:
            # A worker without procedures would take calls from those that have them.
            raise SystemExit(f"callflow: {error}") from error

    def start(self, *, expendable: bool = True, **_: Any) -> None:
        if self.node is None:
            return
        try:
            bootstrap.turns(self.node).heartbeat.start(expendable=expendable)
        except Exception as error:
            if expendable:
                # Celery would replace this child by another that cannot either, for ever, and its
                # parent would take messages for them all the while.
                os.kill(os.getppid(), signal.SIGTERM)
            raise SystemExit(f"callflow: no turns here: {error!r}") from error

    def start_in_parent(self, sender: Any, **_: Any) -> None:
        # Prefork runs turns in its children only: a present parent would vouch for dead ones.
        if not _is_prefork(type(sender.pool)):
            _trace()
            self.start(expendable=False)


def _is_prefork(pool: type | str) -> bool:
    return "prefork" in (pool if isinstance(pool, str) else pool.__module__)


_warm_up = _WarmUp()
celeryd_after_setup.connect(_warm_up.remember)
worker_process_init.connect(_warm_up.start)
worker_ready.connect(_warm_up.start_in_parent)
