"""What a Celery worker does besides its tasks: it warms up, it is the watchdog's understudy, and it
ends so that no caller notices.

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
    celeryd_after_setup,
    worker_process_init,
    worker_ready,
    worker_shutting_down,
)
from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.common import ignore_errors

from callflow import bootstrap
from callflow.celery import TURNS, app, discard_sweeps
from callflow.errors import CallflowError
from callflow.heartbeat import STUCK_AFTER_S, STUCK_STATUS
from callflow.vitals import Pulse

LOOK_EVERY_S = 0.25

LEAVE_WITHIN_S = 10.0
"""What Celery may take to end itself once its turns are done: 1 to 2 s, and 5 s on a machine with
ten times too much to do."""


class Understudy(StartStopStep):
    """Runs for as long as the worker is connected; a reconnect starts it anew."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        super().__init__(consumer, **kwargs)
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        """Begin to look whether a sweep was missed."""
        self._timer = consumer.timer.call_repeatedly(
            LOOK_EVERY_S, _sweep_if_missed, (f"{consumer.hostname} (understudy)",)
        )

    def stop(self, consumer: Any) -> None:
        """Leave it to the others."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def _sweep_if_missed(by: str) -> None:
    if bootstrap.watchdog().sweep_if_missed(by) is not None:
        # Beat goes on asking a watchdog that is not there, on a server that never evicts.
        discard_sweeps()


app.steps["consumer"].update((Understudy, Pulse))


class Consumer(CeleryConsumer):
    """Celery's own, which keeps its line to the broker until every turn is done.

    For up to a second the server goes on handing it what arrives: nobody here reads it any more.
    """

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


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _begin_to_drain(**_: Any) -> None:
    bootstrap.drain().begin()


class Punctual(Scheduler):
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
            bootstrap.prepare()
        except CallflowError as error:
            # A worker without procedures would take calls from those that have them. Celery logs
            # and forgets what a signal handler raises, but not this.
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
            self.start(expendable=False)


def _is_prefork(pool: type | str) -> bool:
    return "prefork" in (pool if isinstance(pool, str) else pool.__module__)


_warm_up = _WarmUp()
celeryd_after_setup.connect(_warm_up.remember)
worker_process_init.connect(_warm_up.start)
worker_ready.connect(_warm_up.start_in_parent)
