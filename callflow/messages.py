"""Sends Celery's messages about calls, and looks after those that wait in the broker's lists.

A message says which call to look at and nothing else; whoever gets it asks the record what is owed.
It may be lost without harm, because the script that stored the utterance also entered its deadline
in the index that the watchdog reads.

The message is written here and not by `app.send_task`, which even with a kept producer takes four
times the CPU (0.25 to 0.30 ms a message in place of 0.06 to 0.07). At 50 calls 1,000 turns then
cost 13 % more of all processes' CPU (3.67 s in place of 3.24 with prefork, 3.01 in place of 2.67
with threads), and more than half again as much of the web process's (0.82 s in place of 0.53):
`python -m benchmarks`, five interleaved rounds of 1,000 turns. `tests/test_messages.py` compares
the message with Celery's own.
"""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from kombu.connection import Connection
from kombu.exceptions import OperationalError

from callflow import tracing
from callflow.call.urgency import AHEAD, LAST, Urgency
from callflow.celery import (
    CALLS,
    FETCH,
    RING,
    RUN_TURN,
    TAKEOVER,
    TESTS,
    TURNS,
    URGENT,
    WATCHDOG,
    app,
)

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE_S = 0.2
"""A message that could not be sent in less time is sent once more."""

_PUBLISH_AT_ONCE = {
    # A caller is waiting for the web process that wakes: kombu's own back-off takes 6 s, and the
    # watchdog makes a lost message good sooner than that.
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "socket_timeout": 1,
}


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


def wake_ring(call_sid: str) -> Wake:
    """Ask any worker to see who is to be rung for this call. Waking twice rings nobody twice."""
    return _send(RING, call_sid, TAKEOVER)


def wake_fetch(call_sid: str) -> Wake:
    """Ask any worker to have the carrier bring this caller to a web process that listens."""
    return _send(FETCH, call_sid, TAKEOVER)


def next_turns(queue: str, most: int) -> list[tuple[bytes, str]]:
    """The messages about turns that are taken next from `queue`, the very next one first, each with
    the call that it is about; none without the broker. Nothing is taken."""
    found: list[bytes] = _at_broker(lambda lists: lists.lrange(queue, -most, -1), [])
    turns = []
    for line in reversed(found):
        message = json.loads(line)
        if message["headers"]["task"] == RUN_TURN:
            turns.append((line, str(json.loads(base64.b64decode(message["body"]))[0][0])))
    return turns


def waiting() -> dict[str, int] | None:
    """How many messages are in each queue, that of sweeps included; None without the broker."""
    queues = (*CALLS, WATCHDOG)

    def count(lists: Any) -> dict[str, int]:
        with lists.pipeline(transaction=False) as pipe:
            for queue in queues:
                pipe.llen(queue)
            return dict(zip(queues, pipe.execute(), strict=True))

    return _at_broker(count, None)


def any_waits() -> bool:
    """True when a call waits in any queue; False without the broker, which then has lost them."""
    return bool(_at_broker(lambda lists: lists.exists(*CALLS), 0))


def discard(queue: str, messages: Sequence[bytes]) -> None:
    """Throw away these messages, unless somebody has taken them meanwhile. Each has a name of its
    own, so a newer one about the same call stays."""

    def remove(lists: Any) -> None:
        with lists.pipeline(transaction=False) as pipe:
            for message in messages:
                pipe.lrem(queue, -1, message)
            pipe.execute()

    _at_broker(remove, None)


def discard_sweeps() -> None:
    """Throw away the sweeps that nobody has taken: others have overtaken them all."""
    _at_broker(lambda lists: lists.delete(WATCHDOG), None)


def _queue_of(urgency: Urgency | None) -> str:
    if urgency in AHEAD:
        return URGENT
    return TESTS if urgency in LAST else TURNS


def _send(task: str, call_sid: str, queue: str) -> Wake:
    with tracing.span("wake", call_sid=call_sid, queue=queue) as span:
        message, began = _message(task, call_sid, queue), time.monotonic()
        # A kept connection that has not outlived a restart or a failover fails at once, and the
        # second try has one of its own. One that starves has cost a caller its second already.
        sent = _push(queue, message) or (
            time.monotonic() - began < AT_ONCE_S and _push(queue, message)
        )
        tracing.note(span, sent=sent)
    return Wake.SENT if sent else Wake.LOST


def _push(queue: str, message: str) -> bool:
    return bool(_at_broker(lambda lists: lists.lpush(queue, message), 0))


def _at_broker(ask: Callable[[Any], T], without: U) -> T | U:
    """What the broker's lists answer; `without` where it cannot be reached."""
    broker = _broker(app.conf.broker_write_url)
    try:
        channel: Any = broker.default_channel
        return ask(channel.client)
    except (OperationalError, *broker.connection_errors, *broker.channel_errors):
        return without


@cache
def _broker(url: str) -> Connection:
    """A kept connection for sending."""
    connection: Connection = app.connection_for_write(url, transport_options=_PUBLISH_AT_ONCE)
    return connection


# A forked child must not write into its parent's connection.
os.register_at_fork(after_in_child=_broker.cache_clear)


def _message(task: str, call_sid: str, queue: str) -> str:
    """The message that `send_task` would send: Celery's message protocol, version 2, in the
    envelope of kombu's virtual transports."""
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
