"""The board's events for browsers (Server-Sent Events, WHATWG HTML 9.2).

`snapshot` has all rows, `change` those that have changed and the calls that left, `clock` the time;
each has the header. The id names the process and the version, so whoever lost their connection gets
what they missed, or all of it where another process answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from callflow.access.sessions import Person
from callflow.board.feed import Feed

RETRY_MS: Final = 300
"""So soon a browser connects again: what it shows grows old meanwhile."""


class Stream:
    """The handler of the address at which browsers follow the board, for the board."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def __call__(self, request: Request, person: Person) -> Response:
        """Events until the browser goes, or the process ends."""
        version = _version(request.headers.get("last-event-id", ""), self._feed.name)
        return StreamingResponse(
            self._events(version),
            media_type="text/event-stream",
            # A proxy that gathers an answer before it passes it on shows nothing.
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _events(self, version: int | None) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\n\n".encode()
        async with aclosing(self._feed.follow(version)) as following:
            async for news in following:
                event = f"id: {self._feed.name}-{news.version}\nevent: {news.kind}\n"
                yield f"{event}data: {news.as_json()}\n\n".encode()


def _version(last_event_id: str, process: str) -> int | None:
    """The version that a browser has of this process' board; None where it has none."""
    name, _, version = last_event_id.partition("-")
    known = name == process and version.isascii() and version.isdecimal() and len(version) < 16
    return int(version) if known else None
