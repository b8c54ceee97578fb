"""What the board shows, for all who look at it: one reader of the store in each web process.

The truth is asked for again and again while somebody looks, so nothing that is lost on the way
makes the board wrong. Every state of it has a version; whoever follows is told what has changed
since the one they have, so a slow board misses steps and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from callflow.board.news import Clock, News, Snapshot, State
from callflow.board.reader import Reader, Seen
from callflow.call.history import JournalEntry
from callflow.errors import StoreError
from callflow.store.reader import CallsOverview, CallSummary

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.25

PER_CALL_S: Final = 0.000_06
"""With more than 4,000 calls it is done less often: one takes some 6 µs of the server's time, which
is the callers', and a tenth of that is enough. With 10,000 it is right within a second still."""

LEAST_PAUSE_S: Final = 0.05

LINGER_S: Final = 60.0
"""So long the looking goes on behind the last one who looked: metrics are scraped every half minute
or so, and a page that is loaded anew finds its last hour."""

FRESH_S: Final = 1.0
"""Whoever looks first waits for what is no older."""

CLOCK_EVERY_S: Final = 0.5
"""So often those who follow are told at least what time it is, and how old what they see is."""

LineListener = Callable[[str, CallSummary, list[JournalEntry]], None]
LookListener = Callable[[CallsOverview], None]


class Feed:
    """One per web process, for its event loop: `async with feed.running():` around all else.

    While nobody looks nothing is asked. While the store is gone what was read last is shown with
    its age, and all goes on by itself when it is back.
    """

    def __init__(self, reader: Reader) -> None:
        self.name = secrets.token_hex(4)
        """Of this process: versions are counted by each for itself."""
        self._reader = reader
        self._state = State()
        self._as_of_ms = 0
        self._read_at = 0.0
        self._tried_at = float("-inf")
        self._trouble = ""
        self._looking = 0
        self._last_wanted = float("-inf")
        self._ending = False
        self.idle = True
        """Nobody looks, and nothing is asked."""
        self._wanted = asyncio.Event()
        self._turned = asyncio.Event()
        self._on_lines: list[LineListener] = []
        self._on_look: list[LookListener] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read for as long as the block runs, in a thread of its own."""
        with ThreadPoolExecutor(1, thread_name_prefix="feed") as thread:
            task = asyncio.create_task(self._run(thread))
            try:
                yield
            finally:
                self.end()
                task.cancel()
                await asyncio.wait({task})

    def end(self) -> None:
        """Let all who follow go: a process that is about to end would wait for their streams."""
        self._ending = True
        self._turn()

    def on_lines(self, listener: LineListener) -> None:
        """Have `listener` told each line that is written into a journal while this process looks,
        once, in the event loop. Lines from before its first look are not told."""
        self._on_lines.append(listener)

    def on_look(self, listener: LookListener) -> None:
        """Have `listener` told what each look finds, before the lines that came with it."""
        self._on_look.append(listener)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Somebody looks while the block runs, and for LINGER_S after it."""
        self._looking += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._looking -= 1
            self._last_wanted = time.monotonic()

    def clock(self) -> Clock:
        """What time it is by the server's clock, and how old the board is."""
        passed_ms = round(1000 * (time.monotonic() - self._read_at)) if self._as_of_ms else 0
        return Clock(self._as_of_ms + passed_ms, self._as_of_ms, self._trouble)

    def snapshot(self) -> Snapshot:
        """The board as it was read last, whenever that was: see `fresh`."""
        return self._state.snapshot(self.clock())

    async def fresh(self) -> Snapshot:
        """The board as it was at most FRESH_S ago; an older one where the store does not answer,
        whose header says so."""
        asked_at = time.monotonic()
        with self.looking():
            while self._tried_at < asked_at - FRESH_S and not self._ending:
                await self._turned.wait()
            return self.snapshot()

    async def follow(self, version: int | None = None) -> AsyncGenerator[News, None]:
        """All that whoever has `version` of this process' board (None: nothing) does not have, then
        each change as it is seen, and in between at least every CLOCK_EVERY_S what time it is."""
        with self.looking():
            await self.fresh()
            told, told_at = "", float("-inf")
            while not self._ending:
                turned = self._turned
                news = self._state.since(version, self.clock())
                due = time.monotonic() >= told_at + CLOCK_EVERY_S
                if news.changes is not None or due or told != self._trouble:
                    version, told, told_at = news.version, self._trouble, time.monotonic()
                    yield news
                await _either(turned, CLOCK_EVERY_S)

    async def _run(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._looking and time.monotonic() > self._last_wanted + LINGER_S:
                self._wanted.clear()
                self.idle = True
                await self._wanted.wait()
            self.idle = False
            began = time.monotonic()
            try:
                self._take(await loop.run_in_executor(thread, self._reader.round), began)
            except StoreError as error:
                self._trouble = str(error)
            except Exception as error:
                # Ours to mend, and no reason to stop: calls are answered by this process, and those
                # who look are told that what they see is old, and why.
                log.exception("the board could not be read")
                self._trouble = f"the board's reader failed ({type(error).__name__}): see the log"
            self._tried_at = time.monotonic()
            self._turn()
            every_s = max(LOOK_EVERY_S, PER_CALL_S * self._state.calls)
            await asyncio.sleep(max(LEAST_PAUSE_S, began + every_s - time.monotonic()))

    def _take(self, seen: Seen, began: float) -> None:
        # As old as the question: what changed while it was under way is not in the answer.
        self._as_of_ms, self._read_at = seen.look.now_ms, began
        self._trouble = seen.trouble
        self._state.take(seen)
        for tell in self._on_look:
            tell(seen.look)
        for call_sid, (sight, entries) in seen.lines.items():
            for listen in self._on_lines:
                listen(call_sid, sight, entries)

    def _turn(self) -> None:
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
