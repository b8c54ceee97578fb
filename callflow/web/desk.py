"""Asks the store from an event loop, and fails at once while the server is known to be gone.

The store's calls are blocking and take well under a millisecond, so a few threads serve thousands
of callers. When the server does not answer, each of those threads would wait for its timeout while
hundreds of carriers' requests pile up behind them: after one failure the others are refused for a
moment, and a single one tries again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from callflow.errors import CallflowError, StoreError, StoreUnavailable

THREADS = 16

REFUSE_S = 0.25
"""How long the server is taken for gone after it failed: a failover takes seconds, so asking four
times a second finds its end soon enough."""

P = ParamSpec("P")
T = TypeVar("T")


class Desk:
    """Runs blocking questions in threads. One per process; `close` it in the end."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="desk")
        self._refuse_until = 0.0

    def close(self) -> None:
        """Let what was begun end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def ask(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `question(*args, **kwargs)` returns or raises; StoreUnavailable at once while the
        server is known to be gone."""
        now = time.monotonic()
        if now < self._refuse_until:
            raise StoreUnavailable(self._where, "it did not answer a moment ago")
        if self._refuse_until:
            # This one tries; the others wait for what it finds.
            self._refuse_until = now + REFUSE_S
        try:
            answer = await self.errand(question, *args, **kwargs)
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
        """The same without any judgement about the server: for what asks somebody else."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(question, *args, **kwargs))
