"""A person at a terminal, or a program at a pipe, who calls: each line is something they say."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

from callflow.lab.carrier.background import cancelled
from callflow.lab.carrier.caller import KEYS
from callflow.lab.carrier.line import Floor, Line

_CHUNK: Final = 65_536


class Keyboard:
    """Lines of a file descriptor, as they come; None once there are no more."""

    def __init__(self, descriptor: int) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._descriptor = descriptor
        self._rest = b""
        self._ended = False

    def start(self) -> None:
        """Begin to read. What is no terminal, pipe or socket can be read at once."""
        try:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        except PermissionError:
            while not self._ended:
                self._read()

    def stop(self) -> None:
        """Read no more. Twice is once."""
        with suppress(PermissionError):
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _CHUNK)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk:
            self._ended = True
            self.stop()
            lines = [self._rest] if self._rest else []
        for line in lines:
            self.lines.put_nowait(line.decode("utf-8", "replace").rstrip("\r"))
        if self._ended:
            self.lines.put_nowait(None)


class Typist:
    """Says each line when it is their turn; the end of input hangs up.

    A line of one key is pressed, an empty one is silence. Whoever types takes their time: a Gather
    waits for them.
    """

    def __init__(self, lines: asyncio.Queue[str | None]) -> None:
        self._lines = lines
        self._line: Line | None = None
        self._interrupted = asyncio.Event()

    def interrupt(self) -> bool:
        """Cut off what is being said; False when nothing is, or it must not be interrupted."""
        listener = None if self._line is None else self._line.listener
        if listener is None or listener.interruptible_at is None:
            return False
        self._interrupted.set()
        return True

    async def live(self, line: Line) -> None:
        """Until the input ends, or the call."""
        self._line = line
        while True:
            floor = await self._turn(line)
            if floor is Floor.OVER:
                return
            if floor is Floor.HUMAN:
                await line.until(lambda: line.over or not line.with_human)
                continue
            said = await self._next(line)
            if line.over or said is None:
                return
            if said in KEYS:
                await line.press(said)
            elif said:
                await line.say(said)
            else:
                await line.stay_silent(at_once=True)

    async def _turn(self, line: Line) -> Floor:
        """Wait for one's turn, or take it."""
        self._interrupted.clear()
        waiting = asyncio.create_task(line.floor())
        interrupting = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait({waiting, interrupting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            await line.interrupt()
            return Floor.MINE
        finally:
            await cancelled(waiting, interrupting)

    async def _next(self, line: Line) -> str | None:
        """The next line typed, unless the call ends or a human comes before."""
        listener = line.listener
        if listener is not None:
            listener.hold()
        line.ear.tell("listens")
        reading = asyncio.create_task(self._lines.get())
        gone = asyncio.create_task(line.until(lambda: line.over))
        try:
            await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            await cancelled(reading, gone)
