"""Simulates the people on a line: scripted callers, humans who are rung, a person who types."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from random import Random
from typing import Any, Final, Literal

from callflow.call.language_tag import primary_language
from callflow.lab.carrier.background_tasks import cancelled
from callflow.lab.carrier.network_faults import CallerFaults
from callflow.lab.carrier.phone_line import CallerLine, Floor


def script_lines(language: str, number: int) -> tuple[str, ...]:
    """What the `number`th caller of a load says; English where the language is not spoken here."""
    path = resources.files("callflow.lab.carrier") / "phone_scripts.json"
    scripts: dict[str, list[list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    known = scripts.get(primary_language(language), scripts["en"])
    return tuple(known[number % len(known)])


KEYS: Final = frozenset("0123456789*#")

MOST_REPEATS: Final = 3
"""In a row, of what nobody reacted to; then they hang up."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one caller does. Times are real seconds, whatever the speed of speech.

    A line of one key is pressed, an empty one is silence, all else is spoken.
    """

    lines: tuple[str, ...]
    turns: int | None = None
    """How often they speak before they hang up, the lines in a round; None: each line once."""
    language: str = "en"
    think_s: tuple[float, float] = (0.5, 2.0)
    """Between being asked and speaking."""
    interrupts: tuple[tuple[int, float], ...] = ()
    """Before which turn they do not wait for more than which share (0 to 1) of the agent's words.
    """
    hang_up_after_s: float | None = None
    """From the beginning of the call."""
    hang_up_in: tuple[int, float] | None = None
    """In which turn, and how long after their own words, they hang up without an answer."""
    patience_s: float | None = None
    """They hang up when they have heard nothing for so long."""
    repeats_after_s: float = 6.0
    """On a relay line, where nothing asks again, they say the same again after so much silence."""
    fillers: Collection[str] = field(default=(), repr=False)
    """Phrases that they understand as `one moment please`: they go on waiting for the reply."""
    say_again: Collection[str] = field(default=(), repr=False)
    """Phrases at which they repeat what they have said."""
    with_human_s: float | None = None
    """How long they stay with a human; None: until the human leaves."""

    @property
    def number_of_turns(self) -> int:
        """How often they speak if nothing comes in between."""
        return len(self.lines) if self.turns is None else self.turns

    def line(self, turn: int) -> str:
        """What they say in `turn`, from 1."""
        return self.lines[(turn - 1) % len(self.lines)]


class Caller:
    """One of them. Never waits in vain: every call ends, at the latest with `longest_s`."""

    def __init__(
        self,
        behaviour: Behaviour,
        caller_faults: CallerFaults,
        dice: Random,
        longest_s: float = 1800.0,
    ) -> None:
        self._behaviour = behaviour
        self._dice = dice
        self._interrupts = dict(behaviour.interrupts) | dict(caller_faults.interrupts)
        self._hang_up_in = behaviour.hang_up_in or caller_faults.hangs_up_in
        self._patience_s = behaviour.patience_s or caller_faults.patience_s
        self._longest_s = behaviour.hang_up_after_s or longest_s

    async def live(self, line: CallerLine) -> None:
        """Until they hang up, or the other side does."""
        work: list[Coroutine[Any, Any, None]] = [self._talk(line), asyncio.sleep(self._longest_s)]
        if self._patience_s is not None:
            work.append(self._lose_patience(line, self._patience_s))
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancelled(*tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _talk(self, line: CallerLine) -> None:
        number = repeats = 0
        said = ""
        while True:
            floor = await self._wait(line, number + 1)
            if floor is Floor.OVER:
                return
            if floor is Floor.HUMAN:
                await self._talk_with_human(line)
                continue
            again = number > 0 and (floor is Floor.UNHEARD or self._asked_again(line))
            repeats = repeats + 1 if again else 0
            if repeats > MOST_REPEATS:
                line.listener.report.gave_up = True
                return
            if not again:
                if number == self._behaviour.number_of_turns:
                    return
                number += 1
                said = self._behaviour.line(number)
            await self._think(floor, number)
            await self._speak(line, said, repeated=again)
            if self._hang_up_in is not None and self._hang_up_in[0] == number:
                await line.until(lambda: line.over, self._hang_up_in[1])
                return

    async def _wait(self, line: CallerLine, turn: int) -> Floor:
        return await line.floor(
            interrupt_at=self._interrupts.get(turn),
            unheard_after_s=self._behaviour.repeats_after_s,
        )

    async def _think(self, floor: Floor, turn: int) -> None:
        """Nobody thinks before they interrupt, or say again what was not heard."""
        if floor is Floor.MINE and turn not in self._interrupts:
            await asyncio.sleep(self._dice.uniform(*self._behaviour.think_s))

    async def _speak(self, line: CallerLine, said: str, *, repeated: bool) -> None:
        if said in KEYS:
            await line.press(said)
        elif said == "":
            await line.stay_silent()
        else:
            await line.say(said, repeated=repeated)

    async def _talk_with_human(self, line: CallerLine) -> None:
        """Stay with them; afterwards the agent is to speak again."""
        await line.until(lambda: line.over or not line.with_human, self._behaviour.with_human_s)
        if line.with_human:
            line.hang_up()

    def _asked_again(self, line: CallerLine) -> bool:
        turns = line.listener.report.turns
        last = turns[-1].heard[-1] if turns and turns[-1].heard else None
        return last is not None and line.listener.asks_again(last.text)

    async def _lose_patience(self, line: CallerLine, patience_s: float) -> None:
        while not line.over:
            since = line.listener.silent_since
            if since is None:
                await line.until(lambda: line.over or line.listener.silent_since is not None, 0.25)
            elif (left_s := since + patience_s - line.listener.now()) > 0:
                await asyncio.sleep(left_s)
            else:
                line.listener.report.gave_up = True
                line.hang_up()
                return


Answer = Literal["answers", "never", "busy", "refuses", "fails"]


@dataclass(frozen=True, slots=True)
class HumanBehaviour:
    """One number. Times are real seconds.

    `answer`: picks up after `after_s`; `never`: lets it ring; `busy`: is busy at once; `refuses`:
    turns the call away after `after_s`; `fails`: the number does not exist.
    """

    answer: Answer = "answers"
    after_s: float = 0.5
    presses: str | None = "1"
    """The key, once the line listens; None: an answering machine, which presses none."""
    thinks_s: float = 0.2
    """Between the end of the whisper and the key."""
    talks_s: float | None = 3.0
    """How long they stay with the caller; None: until the caller leaves."""
    hangs_up_after_s: float | None = None
    """From picking up, whatever happens; None: not on their own account."""


class RungHuman:
    """A person, or a machine, who has picked up."""

    def __init__(self, behaviour: HumanBehaviour) -> None:
        self._behaviour = behaviour

    async def live(self, line: CallerLine) -> None:
        """Hear the whisper, press the key, talk with the caller, hang up."""
        try:
            async with asyncio.timeout(self._behaviour.hangs_up_after_s):
                await self._live(line)
        except TimeoutError:
            """They have had enough: returning is hanging up."""

    async def _live(self, line: CallerLine) -> None:
        floor = await line.floor()
        if floor is Floor.MINE and self._behaviour.presses is not None:
            await asyncio.sleep(self._behaviour.thinks_s)
            await line.press(self._behaviour.presses)
        await line.until(lambda: line.over or line.with_human)
        await line.until(lambda: line.over, self._behaviour.talks_s)


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
        self._line: CallerLine | None = None
        self._interrupted = asyncio.Event()

    def interrupt(self) -> bool:
        """Cut off what is being said; False when nothing is, or it must not be interrupted."""
        receiver = None if self._line is None else self._line.receiver
        if receiver is None or receiver.interruptible_at is None:
            return False
        self._interrupted.set()
        return True

    async def live(self, line: CallerLine) -> None:
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

    async def _turn(self, line: CallerLine) -> Floor:
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

    async def _next(self, line: CallerLine) -> str | None:
        """The next line typed, unless the call ends or a human comes before."""
        receiver = line.receiver
        if receiver is not None:
            receiver.hold()
        line.listener.emit("listens")
        reading = asyncio.create_task(self._lines.get())
        gone = asyncio.create_task(line.until(lambda: line.over))
        try:
            await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            await cancelled(reading, gone)
