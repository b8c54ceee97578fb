"""What a Celery worker does besides its tasks: it warms up, and it is the watchdog's understudy.

The understudy sweeps when nobody has for a second. It runs in the worker's parent process and needs
no pool slot and no message, so takeovers go on when every beat scheduler is dead, when the broker
is empty and when all slots are busy. Of many workers one takes each missed round.
"""

from __future__ import annotations

from typing import Any

from celery.beat import Scheduler
from celery.bootsteps import StartStopStep
from celery.signals import celeryd_after_setup, worker_process_init, worker_ready

from callflow import bootstrap
from callflow.celery import TURNS, app, discard_sweeps
from callflow.errors import CallflowError

LOOK_EVERY_S = 0.25


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


app.steps["consumer"].add(Understudy)


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
        if self.node is not None:
            bootstrap.turns(self.node).heartbeat.start(expendable=expendable)

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
