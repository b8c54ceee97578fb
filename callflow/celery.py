"""The Celery app (`celery -A callflow …`) and `wake`: the only sender of turns.

A message says which call to look at and nothing else; whoever gets it asks the record what is owed.
It may be lost without harm, because the script that stored the utterance also entered its deadline
in the index that the watchdog reads.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from celery import Celery
from kombu.connection import Connection
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES

from callflow import tracing
from callflow.call.urgency import AHEAD, LAST, Urgency

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
SWEEP = "callflow.sweep"
ARCHIVE = "callflow.archive"

_PUBLISH_AT_ONCE = {
    # A caller is waiting for the web process that wakes: kombu's own back-off takes 6 s, and the
    # watchdog makes a lost message good sooner than that.
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "socket_timeout": 1,
}


AT_ONCE_S = 0.2
"""A message that could not be sent in less time is sent once more."""


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


@cache
def _broker(url: str) -> Connection:
    """A kept connection for sending."""
    connection: Connection = app.connection_for_write(url, transport_options=_PUBLISH_AT_ONCE)
    return connection


# A forked child must not write into its parent's connection.
os.register_at_fork(after_in_child=_broker.cache_clear)


class Wake(StrEnum):
    """What became of a message."""

    SENT = "sent"
    LOST = "lost"
    """The broker cannot be reached. The call is not forgotten: the watchdog wakes it after its
    deadline."""


def wake(call_sid: str, *, takeover: bool = False, urgency: Urgency | None = None) -> Wake:
    """Ask any worker to look at this call. Waking twice does no harm.

    `urgency`: what is known of it decides the queue, and with it who waits longer under overload.
    """
    return _send(RUN_TURN, call_sid, TAKEOVER if takeover else _queue_of(urgency))


def _queue_of(urgency: Urgency | None) -> str:
    if urgency in AHEAD:
        return URGENT
    return TESTS if urgency in LAST else TURNS


def wake_ring(call_sid: str) -> Wake:
    """Ask any worker to see who is to be rung for this call. Waking twice rings nobody twice."""
    return _send(RING, call_sid, TAKEOVER)


def _send(task: str, call_sid: str, queue: str) -> Wake:
    with tracing.span("wake", call_sid=call_sid, queue=queue) as span:
        sent = _sent(task, call_sid, queue)
        tracing.note(span, sent=sent)
    return Wake.SENT if sent else Wake.LOST


def _sent(task: str, call_sid: str, queue: str) -> bool:
    message = _message(task, call_sid, queue)
    began = time.monotonic()
    # A kept connection that has not outlived a restart or a failover fails at once, and the second
    # try has one of its own. One that starves has cost a caller who waits its second already.
    return _pushed(queue, message) or (
        time.monotonic() - began < AT_ONCE_S and _pushed(queue, message)
    )


def _pushed(queue: str, message: str) -> bool:
    broker = _broker(app.conf.broker_write_url)
    try:
        channel: Any = broker.default_channel
        channel.client.lpush(queue, message)
    except (OperationalError, *broker.connection_errors, *broker.channel_errors):
        return False
    return True


def discard_sweeps() -> None:
    """Throw away the sweeps that nobody has taken: others have overtaken them all."""
    broker = _broker(app.conf.broker_write_url)
    # Without the broker there is nothing to throw away.
    with suppress(OperationalError, *broker.connection_errors, *broker.channel_errors):
        channel: Any = broker.default_channel
        channel.client.delete(WATCHDOG)


def next_turns(queue: str, most: int) -> list[tuple[bytes, str]]:
    """The messages about turns that are taken next from `queue`, the very next one first, each with
    the call that it is about; none without the broker. Nothing is taken."""
    broker = _broker(app.conf.broker_write_url)
    found: list[bytes] = []
    with suppress(OperationalError, *broker.connection_errors, *broker.channel_errors):
        channel: Any = broker.default_channel
        found = channel.client.lrange(queue, -most, -1)
    turns = []
    for line in reversed(found):
        message = json.loads(line)
        if message["headers"]["task"] == RUN_TURN:
            turns.append((line, str(json.loads(base64.b64decode(message["body"]))[0][0])))
    return turns


def any_waits() -> bool:
    """True when a call waits in any queue; False without the broker, which then has lost them."""
    broker = _broker(app.conf.broker_write_url)
    with suppress(OperationalError, *broker.connection_errors, *broker.channel_errors):
        channel: Any = broker.default_channel
        return bool(channel.client.exists(*CALLS))
    return False


def waiting() -> dict[str, int] | None:
    """How many messages are in each queue, that of sweeps included; None without the broker."""
    broker = _broker(app.conf.broker_write_url)
    queues = (*CALLS, WATCHDOG)
    with suppress(OperationalError, *broker.connection_errors, *broker.channel_errors):
        channel: Any = broker.default_channel
        with channel.client.pipeline(transaction=False) as pipe:
            for queue in queues:
                pipe.llen(queue)
            return dict(zip(queues, pipe.execute(), strict=True))
    return None


def discard(queue: str, messages: Sequence[bytes]) -> None:
    """Throw away these messages, unless somebody has taken them meanwhile. Each has a name of its
    own, so a newer one about the same call stays."""
    broker = _broker(app.conf.broker_write_url)
    with suppress(OperationalError, *broker.connection_errors, *broker.channel_errors):
        channel: Any = broker.default_channel
        with channel.client.pipeline(transaction=False) as pipe:
            for message in messages:
                pipe.lrem(queue, -1, message)
            pipe.execute()


def _message(task: str, call_sid: str, queue: str) -> str:
    """The message that `send_task` would send, without the half millisecond that it takes for it.

    Celery's message protocol, version 2, in the envelope of kombu's virtual transports;
    `tests/test_wake.py` compares it with Celery's own.
    """
    task_id = str(uuid.uuid4())
    body = json.dumps([[call_sid], {}, _NO_CANVAS]).encode()
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                **_HEADERS,
                "task": task,
                "id": task_id,
                "root_id": task_id,
                "argsrepr": f"({call_sid!r},)",
                # Nothing, where nothing is traced.
                **tracing.inject(),
            },
            "properties": {
                "correlation_id": task_id,
                "reply_to": "",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    )


_NO_CANVAS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

_HEADERS: dict[str, object] = {
    "lang": "py",
    "shadow": None,
    "eta": None,
    "expires": None,
    "group": None,
    "group_index": None,
    "retries": 0,
    "timelimit": [None, None],
    "parent_id": None,
    "kwargsrepr": "{}",
    "origin": "callflow",
    "ignore_result": True,
    "replaced_task_nesting": 0,
    "stamped_headers": None,
    "stamps": {},
}
