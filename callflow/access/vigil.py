"""Keeps an eye on the session behind an open stream: a board is looked at all night."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any

from callflow.errors import StoreError

AGAIN_S = 2.0
"""How often it is looked whether the session has ended."""

UNKNOWN_S = 30.0
"""While the store does not answer nobody knows. A failover is over by then, and until then boards
show that what they show is old."""


async def while_valid(
    parts: AsyncIterable[Any], valid: Callable[[], Awaitable[bool]]
) -> AsyncIterator[Any]:
    """The parts of a stream, as they come, until the session behind it has ended.

    It is looked while the stream goes on, and whenever a part comes: a stream must say something
    every second.
    """
    loop = asyncio.get_running_loop()
    known_at = looked_at = loop.time()
    look: asyncio.Task[bool] | None = None
    try:
        async for part in parts:
            now = loop.time()
            if look is not None and look.done():
                found = _found(look)
                if found is False:
                    return
                known_at, looked_at, look = now if found else known_at, now, None
            if now - known_at > UNKNOWN_S:
                return
            if look is None and now - looked_at > AGAIN_S:
                look = asyncio.ensure_future(_asked(valid))
            yield part
    finally:
        if look is not None:
            look.cancel()
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()


async def _asked(valid: Callable[[], Awaitable[bool]]) -> bool:
    return await valid()


def _found(look: asyncio.Task[bool]) -> bool | None:
    """What the look has found; None where the store did not answer, which is asked again."""
    error = look.exception()
    if isinstance(error, StoreError):
        return None
    return look.result()
