"""Defines the Celery app (`celery -A callflow …`), its queues and its tasks' names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

TAKEOVER = "takeover"
"""Queue of calls whose worker was lost, and of telephones to be rung: they have waited already."""

URGENT = "urgent"
"""Queue of calls in which life is, or may be, at risk."""

TURNS = "turns"
"""Queue of calls in which the caller has said something new."""

TESTS = "tests"
"""Queue of calls that are known to be tests, mistakes or pranks."""

CALLS = (TAKEOVER, URGENT, TURNS, TESTS)
"""What a worker that answers callers serves, and in which order: `-Q takeover,urgent,turns,tests`.
Each queue is served to its end before the next, and within one who came first is served first, so
that under overload the oldest owed turn of the gravest kind is the next."""

WATCHDOG = "watchdog"
"""Queue of sweeps, for a worker process of its own."""

RUN_TURN = "callflow.run_turn"
RING = "callflow.ring"
FETCH = "callflow.fetch"
SWEEP = "callflow.sweep"
ARCHIVE = "callflow.archive"


def __getattr__(name: str) -> ModuleType:
    """`configuration`: our own `celeryconfig.py`, read when Celery first asks for it.

    By its place beside the package and not by its name: a `celeryconfig.py` of another project in
    the working directory would take its place, without our queues, and with any serializer.
    """
    if name != "configuration":
        raise AttributeError(name)
    path = Path(__file__).parents[1] / "celeryconfig.py"
    spec = importlib.util.spec_from_file_location("callflow_celeryconfig", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# By name, since the web process needs none of it before its first message. An address is all that
# Celery's commands and Flower look at; the setting `broker_transport` is not asked for
# redis+socket://.
TRANSPORT_ALIASES.update(
    redis="callflow.transport:Transport",
    rediss="callflow.transport:Transport",
    sentinel="callflow.transport:SentinelTransport",
)

app = Celery("callflow", amqp="callflow.transport:Amqp")
app.config_from_object("callflow.celery:configuration")


def use_broker(url: str) -> None:
    """Send messages through `url` from now on: for a process that starts its server itself."""
    app.conf.broker_url = url
