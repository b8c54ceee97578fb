"""Runs tasks beside the calls: repeats, status callbacks, answers that nobody waits for now.

A task that fails by a mistake of ours is not forgotten: its error is raised when all has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Keeps hold of tasks, which the event loop does not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._errors: list[BaseException] = []

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work`; whoever awaits the task sees its error as well."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def settle(self, within_s: float) -> None:
        """Wait for all of them, and for those that they start; cancel what takes longer. Raises
        the first error."""
        try:
            async with asyncio.timeout(within_s):
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        except TimeoutError:
            left = set(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if self._errors:
            raise self._errors[0]

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still runs of `tasks`, and wait until it has cleaned up."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
