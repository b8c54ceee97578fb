"""Runs blocking calls in threads, and refuses the store's at once while its server is gone.

The store's calls take well under a millisecond, so a few threads serve thousands of callers. Of a
server that does not answer each thread would wait for its timeout: after one failure the others are
refused for a moment. Whoever else is asked in the background, the carrier for one, may take
seconds, and has threads of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from callflow.errors import CallflowError, StoreError, StoreUnavailable

log = logging.getLogger(__name__)

THREADS = 16

BACKGROUND_MOST = 16
"""Threads for background calls, and how many are under way before no further one is begun."""

BEGIN_WAIT_S = 0.3
"""How long a caller waits for what only helps them later: a holding phrase is due."""

REFUSE_S = 0.25
"""How long the server is taken for gone after it failed: a failover takes seconds, so asking four
times a second finds its end soon enough."""

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have `work` done by the event loop for as long as the block runs."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()


class StoreExecutor:
    """Threads for the event loop of one process; `close` it in the end."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        self._background = ThreadPoolExecutor(BACKGROUND_MOST, thread_name_prefix="background")
        self._under_way = 0
        self._kept: set[asyncio.Future[Any]] = set()
        self._refuse_until = 0.0

    def close(self) -> None:
        """Let what was begun end."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._background.shutdown(wait=True, cancel_futures=True)

    async def run(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `question(*args, **kwargs)` returns or raises; StoreUnavailable at once while the
        server is known to be gone."""
        now = time.monotonic()
        if now < self._refuse_until:
            raise StoreUnavailable(self.where, "it did not answer a moment ago")
        if self._refuse_until:
            # This one tries; the others wait for what it finds.
            self._refuse_until = now + REFUSE_S
        try:
            answer = await _run_in(self._threads, question, *args, **kwargs)
        except StoreError:
            self._refuse_until = time.monotonic() + REFUSE_S
            raise
        except CallflowError:
            # It has answered: with a no.
            self._refuse_until = 0.0
            raise
        self._refuse_until = 0.0
        return answer

    async def limit(self, within_s: float, answer: Awaitable[T]) -> T:
        """What the store answers; StoreUnavailable where it takes longer: then it may be done all
        the same."""
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError as error:
            raise self.late() from error

    async def run_patiently(
        self, within_s: float, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`run` it until the store has answered, for `within_s`; then StoreError."""
        give_up = time.monotonic() + within_s
        while True:
            try:
                return await self.run(question, *args, **kwargs)
            except StoreError:
                if time.monotonic() > give_up:
                    raise
            await asyncio.sleep(REFUSE_S)

    def late(self) -> StoreUnavailable:
        """The error of a question that was given up."""
        return StoreUnavailable(self.where, "it did not answer in time")

    async def background(self, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What a call to somebody else brings back, however long it takes."""
        self._under_way += 1
        try:
            return await _run_in(self._background, job, *args, **kwargs)
        finally:
            self._under_way -= 1

    async def begin(self, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Begin in the background what anybody may repeat, and wait a moment for it; then it goes
        on behind us.

        Where too many are under way none is begun: what is to be done stands in the record, and the
        watchdog has a worker do it.
        """
        if self._under_way >= BACKGROUND_MOST:
            return
        begun = asyncio.ensure_future(self.background(job, *args, **kwargs))
        done, _ = await asyncio.wait({begun}, timeout=BEGIN_WAIT_S)
        if done:
            begun.result()
        else:
            self.keep(begun)

    def keep(self, begun: asyncio.Future[Any]) -> None:
        """Let it go on though nobody waits for it any more; what it could not do is logged."""
        self._kept.add(begun)
        begun.add_done_callback(self._kept.discard)
        begun.add_done_callback(_log_failure)


async def _run_in(
    threads: ThreadPoolExecutor, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    loop = asyncio.get_running_loop()
    # What is logged and traced in the thread is about the same call.
    asked = partial(contextvars.copy_context().run, question, *args, **kwargs)
    return await loop.run_in_executor(threads, asked)


def _log_failure(begun: asyncio.Future[Any]) -> None:
    if not begun.cancelled() and (error := begun.exception()) is not None:
        log.warning("what went on in the background failed: %s", error)
