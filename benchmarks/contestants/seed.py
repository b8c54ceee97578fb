"""The seed's own design (see `benchmarks/seed`): prefork and Celery's defaults throughout."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import redis

from benchmarks.contestants import WORKERS, consuming
from benchmarks.crowd import TURN_TIMEOUT_S
from callflow.lab.stack import LocalStack

PACKAGES = Path(__file__).parents[1] / "seed" / "packages"


def env(url: str) -> dict[str, str]:
    """Where its broker, results and documents are: one server, as for callflow.

    Its processes find no hiredis: the customer names the packages celery and redis, which do not
    bring it, while callflow asks for it.
    """
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(PACKAGES), *([before] if before else [])])
    return {"BENCHMARKS_SEED_URL": url, "PYTHONPATH": path}


def start(stack: LocalStack, pool: str, slots: int) -> None:
    """Workers with nothing said but their number of slots, and the watchdog."""
    assert pool == "prefork", "the seed runs Celery as it comes"
    for number in range(WORKERS):
        name = f"w{number}"
        stack.start(
            name,
            [
                *(sys.executable, "-m", "celery", "-A", "benchmarks.seed.app", "worker"),
                *("-n", f"{name}@%h", "-c", str(slots)),
            ],
        )
    stack.start("watchdog", [sys.executable, "-m", "benchmarks.seed.watchdog"])


def ready(client: redis.Redis, pool: str, slots: int) -> bool:
    """All workers wait at their queues."""
    return consuming(client) >= WORKERS


class SeedCaller:
    """What a web process does: store the words, send the task, get its result in a thread."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    async def open(self, call_sid: str) -> None:
        """The document is created."""
        from benchmarks.seed.app import documents

        await self._in_thread(documents.create, call_sid)

    async def turn(self, call_sid: str, turn: int, text: str) -> str:
        """One request: it returns when the task's result has arrived."""
        return str(await self._in_thread(_ask, call_sid, text))

    async def end(self, call_sid: str) -> None:
        """The document is completed and gets its lifetime."""
        from benchmarks.seed.app import documents

        await self._in_thread(documents.complete, call_sid)

    async def _in_thread(self, function: object, *arguments: str) -> object:
        assert callable(function)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)


def _ask(call_sid: str, text: str) -> object:
    from benchmarks.seed.app import documents, handle_turn

    documents.say(call_sid, "user", text)
    return handle_turn.delay(call_sid).get(timeout=TURN_TIMEOUT_S)


THREADS = 64
"""Of the callers' process. Above a hundred redis-py's connection pool refuses, and the seed says
nothing of its size; calls beyond wait for a thread, as they do in a threaded web server."""


@asynccontextmanager
async def connect(url: str, calls: int) -> AsyncIterator[SeedCaller]:
    """A thread for each request that is being answered."""
    with ThreadPoolExecutor(max_workers=min(calls, THREADS)) as threads:
        yield SeedCaller(threads)
