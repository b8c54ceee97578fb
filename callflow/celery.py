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
import uuid
from contextlib import suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from celery import Celery
from kombu.connection import Connection
from kombu.exceptions import OperationalError

TURNS = "turns"
"""Queue of calls in which the caller has said something new."""

TAKEOVER = "takeover"
"""Queue of calls that have waited already; workers serve it first (`-Q takeover,turns`)."""

WATCHDOG = "watchdog"
"""Queue of sweeps, for a worker process of its own."""

RUN_TURN = "callflow.run_turn"
RING = "callflow.ring"
SWEEP = "callflow.sweep"

_PUBLISH_AT_ONCE = {
    # A caller is waiting for the web process that wakes: kombu's own back-off takes 6 s, and the
    # watchdog makes a lost message good sooner than that.
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "socket_timeout": 1,
}


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


app = Celery("callflow")
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


def wake(call_sid: str, *, takeover: bool = False) -> Wake:
    """Ask any worker to look at this call. Waking twice does no harm."""
    return _send(RUN_TURN, call_sid, TAKEOVER if takeover else TURNS)


def wake_ring(call_sid: str) -> Wake:
    """Ask any worker to see who is to be rung for this call. Waking twice rings nobody twice."""
    return _send(RING, call_sid, TAKEOVER)


def _send(task: str, call_sid: str, queue: str) -> Wake:
    broker = _broker(app.conf.broker_write_url)
    try:
        channel: Any = broker.default_channel
        channel.client.lpush(queue, _message(task, call_sid, queue))
    except (OperationalError, *broker.connection_errors, *broker.channel_errors):
        return Wake.LOST
    return Wake.SENT


def discard_sweeps() -> None:
    """Throw away the sweeps that nobody has taken: others have overtaken them all."""
    broker = _broker(app.conf.broker_write_url)
    # Without the broker there is nothing to throw away.
    with suppress(OperationalError, *broker.connection_errors, *broker.channel_errors):
        channel: Any = broker.default_channel
        channel.client.delete(WATCHDOG)


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
