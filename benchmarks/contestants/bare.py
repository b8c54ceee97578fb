"""A task round trip and nothing else, under callflow's own Celery settings: the floor.

The worker says that it is done by PUBLISH, and the client hears all of them by one subscription.
That is the cheapest signal there is (one command, nothing stored, nobody polls), and the one that
callflow uses, so what callflow adds to this is its record and not another way of telling.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import redis
import redis.asyncio

from benchmarks.contestants import WORKERS, consuming
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect as client_of

DONE = "bare:done"
"""Pub/sub: the ticket of a task that has run."""


def env(url: str) -> dict[str, str]:
    """`celeryconfig.py` reads callflow's settings."""
    return {"CALLFLOW_REDIS_URL": url}


def start(stack: LocalStack, pool: str, slots: int) -> None:
    """The same workers with the same options as callflow's."""
    for number in range(WORKERS):
        name = f"w{number}"
        stack.start(
            name,
            [
                *(sys.executable, "-m", "celery", "-A", "benchmarks.bare_app", "worker"),
                *("-n", f"{name}@%h", "-l", "WARNING", "-Q", "takeover,turns"),
                *("-c", str(slots), "-P", pool),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ],
        )


def ready(client: redis.Redis, pool: str, slots: int) -> bool:
    """All workers wait at their queues."""
    return consuming(client) >= WORKERS


class BareCaller:
    """Sends tasks in threads, as callflow's callers do, and hears of them by one subscription."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client
        self._waiting: dict[str, asyncio.Event] = {}

    async def open(self, call_sid: str) -> None:
        """Nothing is kept."""

    async def turn(self, call_sid: str, turn: int, text: str) -> str:
        """Send, and wait for the signal. Nothing is worded, so the reply is made up here."""
        from benchmarks.bare_app import nothing

        ticket = f"{call_sid}/{turn}"
        done = self._waiting[ticket] = asyncio.Event()
        await asyncio.to_thread(nothing.apply_async, (ticket,))
        await done.wait()
        del self._waiting[ticket]
        return text + text

    async def end(self, call_sid: str) -> None:
        """Nothing is kept."""

    async def listen(self, listening: asyncio.Event) -> None:
        """Hand the signals on for ever."""
        async with self._client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(DONE)
            await channel.get_message(timeout=1.0)
            listening.set()
            async for message in channel.listen():
                self._waiting[message["data"]].set()


@asynccontextmanager
async def connect(url: str, calls: int) -> AsyncIterator[BareCaller]:
    """One listener for all."""
    async with redis.asyncio.Redis.from_url(url, decode_responses=True, protocol=2) as client:
        caller = BareCaller(client)
        listening = asyncio.Event()
        listener = asyncio.create_task(caller.listen(listening))
        await listening.wait()
        yield caller
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener


def publish(ticket: str) -> None:
    """The worker's whole work."""
    _publisher().publish(DONE, ticket)


_clients: dict[int, redis.Redis] = {}


def _publisher() -> redis.Redis:
    # One for each process: a forked child must not share its parent's connection.
    pid = os.getpid()
    if pid not in _clients:
        _clients[pid] = client_of(os.environ["CALLFLOW_REDIS_URL"])
    return _clients[pid]
