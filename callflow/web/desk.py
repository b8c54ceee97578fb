"""Asks the store from an event loop, and fails at once while the server is known to be gone.

The store's calls are blocking and take well under a millisecond, so a few threads serve thousands
of callers. When the server does not answer, each of those threads would wait for its timeout while
hundreds of carriers' requests pile up behind them: after one failure the others are refused for a
moment, and a single one tries again.

Errands ask somebody else, the carrier for one, who may take seconds. They have threads of their
own, so that a carrier that does not answer keeps no caller from the store.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from callflow.errors import CallflowError, StoreError, StoreUnavailable

log = logging.getLogger(__name__)

THREADS = 16

ERRANDS = 16
"""Threads for errands, and how many are under way before no further one is begun."""

ERRAND_WAIT_S = 0.3
"""How long a caller waits for what only helps them later: a holding phrase is due."""

REFUSE_S = 0.25
"""How long the server is taken for gone after it failed: a failover takes seconds, so asking four
times a second finds its end soon enough."""

P = ParamSpec("P")
T = TypeVar("T")


class Desk:
    """Runs blocking questions in threads. One per process; `close` it in the end."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="desk")
        self._runners = ThreadPoolExecutor(ERRANDS, thread_name_prefix="errand")
        self._under_way = 0
        self._errands: set[asyncio.Future[Any]] = set()
        self._refuse_until = 0.0

    def close(self) -> None:
        """Let what was begun end."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._runners.shutdown(wait=True, cancel_futures=True)

    async def ask(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `question(*args, **kwargs)` returns or raises; StoreUnavailable at once while the
        server is known to be gone."""
        now = time.monotonic()
        if now < self._refuse_until:
            raise StoreUnavailable(self.where, "it did not answer a moment ago")
        if self._refuse_until:
            # This one tries; the others wait for what it finds.
            self._refuse_until = now + REFUSE_S
        try:
            answer = await _in(self._threads, question, *args, **kwargs)
        except StoreError:
            self._refuse_until = time.monotonic() + REFUSE_S
            raise
        except CallflowError:
            # It has answered: with a no.
            self._refuse_until = 0.0
            raise
        self._refuse_until = 0.0
        return answer

    async def errand(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What an errand brings back, however long it takes."""
        self._under_way += 1
        try:
            return await _in(self._runners, question, *args, **kwargs)
        finally:
            self._under_way -= 1

    async def begin(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Begin an errand that anybody may repeat, and wait a moment for it; it goes on behind us.

        Where too many are under way none is begun: what is to be done stands in the record, and the
        watchdog has a worker do it.
        """
        if self._under_way >= ERRANDS:
            return
        errand = asyncio.ensure_future(self.errand(question, *args, **kwargs))
        done, _ = await asyncio.wait({errand}, timeout=ERRAND_WAIT_S)
        if done:
            errand.result()
        else:
            self.keep(errand)

    def keep(self, errand: asyncio.Future[Any]) -> None:
        """Let an errand go on for which nobody waits any more; what it could not do is logged."""
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)
        errand.add_done_callback(_told_late)


async def _in(
    threads: ThreadPoolExecutor, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    loop = asyncio.get_running_loop()
    # What is logged and traced in the thread is about the same call.
    asked = partial(contextvars.copy_context().run, question, *args, **kwargs)
    return await loop.run_in_executor(threads, asked)


def _told_late(errand: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more: what it could not do is in the log."""
    if not errand.cancelled() and (error := errand.exception()) is not None:
        log.warning("an errand came to nothing: %s", error)
