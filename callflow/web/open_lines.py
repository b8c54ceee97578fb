"""Beats for the sockets that one web process holds open, so that a silent process is noticed.

The beats come from the event loop that also reads and speaks: frozen or cut off from the server it
cannot beat, and the carrier brings its callers to another process (store/caller_line.py).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from callflow.errors import StoreError
from callflow.store.caller_line import COVER_MS, CallerLines
from callflow.web.executor import StoreExecutor

BEAT_S = 0.4
"""Three beats may come late before a line counts as lost."""

NO_SOCKET = "none"
"""Holds a line whose socket is still to open."""

SOCKET_WITHIN_MS = 2_000
"""A carrier opens one in some hundred milliseconds, and the caller hears nothing before."""

ASKED_AGAIN_MS = 300
"""A carrier that sees a socket break asks at once what comes next."""


@dataclass(eq=False, slots=True)
class OpenLine:
    """The line of one call, as the socket that speaks on it holds it."""

    call_sid: str
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    beaten_at: float = field(default_factory=time.monotonic)
    """When the last beat that held was sent, s."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Another socket has the line, or the carrier was asked for it."""

    @property
    def covered(self) -> bool:
        """False when nobody may have answered for the line for a while."""
        return time.monotonic() - self.beaten_at < COVER_MS / 1000


class OpenLines:
    """All lines that this process holds."""

    def __init__(self, lines: CallerLines, executor: StoreExecutor) -> None:
        self._lines = lines
        self._executor = executor
        self._open: set[OpenLine] = set()

    @contextmanager
    def holding(self, call_sid: str) -> Iterator[OpenLine]:
        """A line that is beaten for in this block, once it was taken."""
        line = OpenLine(call_sid)
        try:
            yield line
        finally:
            self._open.discard(line)

    async def take(self, line: OpenLine) -> None:
        """From now on this socket has the line. Raises StoreError: then the next beat takes it."""
        self._open.add(line)
        await self._executor.run(self._lines.take, line.call_sid, line.holder)

    async def expect_socket(self, call_sid: str) -> None:
        """The carrier is told to open a socket: where none comes soon, the line is lost."""
        with suppress(StoreError):
            await self._executor.run(
                self._lines.take, call_sid, NO_SOCKET, cover_ms=SOCKET_WITHIN_MS
            )

    async def is_ours(self, line: OpenLine) -> bool:
        """False where another socket has the line, or may have: this process was frozen, and what
        it reads now may be old. Costs nothing while the beats keep time. Raises StoreError."""
        if not line.covered:
            await self._beat([line])
        return not line.lost.is_set()

    async def release(self, line: OpenLine, *, by_carrier: bool) -> None:
        """The socket has gone. Unless the carrier has closed it, it may not know that, and the line
        is lost if it does not soon ask what comes next."""
        self._open.discard(line)
        due_ms = None if by_carrier else ASKED_AGAIN_MS
        with suppress(StoreError):  # Without another beat the line is lost soon, and asked for.
            await self._executor.run(self._lines.release, line.call_sid, line.holder, due_ms=due_ms)

    async def release_call(self, call_sid: str) -> None:
        """The carrier asks what comes next: no socket has the line, whichever had it."""
        with suppress(StoreError):
            await self._executor.run(self._lines.release, call_sid)

    async def beat_all(self) -> None:
        """Beat for as long as the process runs."""
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(StoreError):  # The next beat says so; a line may be lost meanwhile.
                await self._beat([line for line in self._open if not line.lost.is_set()])

    async def _beat(self, held: list[OpenLine]) -> None:
        """One beat for each. Two sockets of one call are told apart by their holders."""
        for back in (True, False):
            some = {line.call_sid: line for line in held if line.covered is back}
            if some:
                sent_at = time.monotonic()
                names = {sid: line.holder for sid, line in some.items()}
                lost = await self._executor.run(self._lines.beat, names, back=back)
                for sid, line in some.items():
                    if sid in lost:
                        line.lost.set()
                    else:
                        line.beaten_at = sent_at
