"""The Celery app (`celery -A callflow …`) and `wake`: the only sender of turns.

A message says which call to look at and nothing else; whoever gets it asks the record what is owed.
It may be lost without harm, because the script that stored the utterance also entered its deadline
in the index that the watchdog reads.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cache

from celery import Celery
from kombu.exceptions import OperationalError
from kombu.pools import ProducerPool, producers

from callflow.errors import SettingsError

TURNS = "turns"
"""Queue of calls in which the caller has said something new."""

TAKEOVER = "takeover"
"""Queue of calls that have waited already; workers serve it first (`-Q takeover,turns`)."""

WATCHDOG = "watchdog"
"""Queue of sweeps, for a worker process of its own."""

RUN_TURN = "callflow.run_turn"
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

app = Celery("callflow")
app.config_from_object("celeryconfig")


@app.on_after_configure.connect  # type: ignore[untyped-decorator]
def _refuse_unsafe_messages(sender: Celery, **_: object) -> None:
    """A `celeryconfig.py` in the working directory takes the place of ours, but not for pickle."""
    if list(sender.conf.accept_content) != ["json"]:
        raise SettingsError("accept_content", 'must be ["json"]: other messages could run code')


def use_broker(url: str) -> None:
    """Send messages through `url` from now on: for a process that starts its server itself."""
    app.conf.broker_url = url


@cache
def _producers(url: str) -> ProducerPool:
    """Open connections to one broker, ready to send."""
    pool: ProducerPool = producers[
        app.connection_for_write(url, transport_options=_PUBLISH_AT_ONCE)
    ]
    return pool


# A forked child must not write into its parent's connections.
os.register_at_fork(after_in_child=_producers.cache_clear)


class Wake(StrEnum):
    """What became of a message."""

    SENT = "sent"
    LOST = "lost"
    """The broker cannot be reached. The call is not forgotten: the watchdog wakes it after its
    deadline."""


def wake(call_sid: str, *, takeover: bool = False) -> Wake:
    """Ask any worker to look at this call. Waking twice does no harm."""
    try:
        with _producers(app.conf.broker_write_url).acquire(  # type: ignore[no-untyped-call]
            block=True
        ) as producer:
            app.send_task(
                RUN_TURN,
                args=(call_sid,),
                queue=TAKEOVER if takeover else TURNS,
                ignore_result=True,
                retry=False,
                producer=producer,
            )
    except OperationalError:
        return Wake.LOST
    return Wake.SENT
