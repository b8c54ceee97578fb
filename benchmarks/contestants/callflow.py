"""callflow itself, through its own doors: Intake and Replies, its workers, watchdog and beat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redis

from benchmarks.contestants import WORKERS, consuming
from callflow import bootstrap
from callflow.intake import Intake
from callflow.lab.stack import LocalStack
from callflow.store.keys import SWEPT, presence_channel
from callflow.store.replies import Replies
from callflow.store.result import Result

WAIT_S = 110.0


def env(url: str) -> dict[str, str]:
    """The echo responder: what is measured is callflow and not the wording of replies."""
    return {"CALLFLOW_REDIS_URL": url, "CALLFLOW_RESPONDER": "echo"}


def start(stack: LocalStack, pool: str, slots: int) -> None:
    """All that a deployment runs: workers, and the watchdog with its clock."""
    for number in range(WORKERS):
        stack.start_worker(f"w{number}", pool=pool, slots=slots)
    stack.start_watchdog()
    stack.start_beat()


def ready(client: redis.Redis, pool: str, slots: int) -> bool:
    """Every process that runs turns is present, and the scheduled sweeps have begun."""
    present = len(client.pubsub_channels(presence_channel("*")))
    processes = WORKERS * (slots if pool == "prefork" else 1)
    swept_by = client.get(SWEPT)
    return (
        present >= processes
        and consuming(client) > WORKERS
        and isinstance(swept_by, bytes)
        and swept_by.startswith(b"watchdog")
    )


class CallflowCaller:
    """What the web process does: the store in threads, the replies by one subscription."""

    def __init__(self, intake: Intake, replies: Replies) -> None:
        self._intake = intake
        self._replies = replies

    async def open(self, call_sid: str) -> None:
        """The record is created."""
        await asyncio.to_thread(self._intake.open, call_sid)

    async def turn(self, call_sid: str, turn: int, text: str) -> str:
        """Stored, a worker woken, and the reply waited for."""
        with self._replies.expect(call_sid, turn) as expected:
            heard, _ = await asyncio.to_thread(self._intake.hear, call_sid, turn, text)
            reply = await expected.wait(WAIT_S, look_first=heard.result is Result.AGAIN)
        return reply.text if reply is not None and reply.done else ""

    async def end(self, call_sid: str) -> None:
        """The record is completed and gets its lifetime."""
        await asyncio.to_thread(self._intake.end, call_sid, "hung_up")


@asynccontextmanager
async def connect(url: str, calls: int) -> AsyncIterator[CallflowCaller]:
    """One listener for all calls; the threads are the event loop's own few."""
    async with Replies.listening(url) as replies:
        yield CallflowCaller(bootstrap.intake(), replies)
