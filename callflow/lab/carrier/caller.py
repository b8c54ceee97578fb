"""People in lifts: they listen, think, say their line, and go on when they have been answered."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from callflow.lab.carrier.background import cancelled
from callflow.lab.carrier.line import Floor, Line
from callflow.lab.carrier.mischief import Temper

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
        self, behaviour: Behaviour, temper: Temper, dice: Random, longest_s: float = 1800.0
    ) -> None:
        self._behaviour = behaviour
        self._dice = dice
        self._interrupts = dict(behaviour.interrupts) | dict(temper.interrupts)
        self._hang_up_in = behaviour.hang_up_in or temper.hangs_up_in
        self._patience_s = behaviour.patience_s or temper.patience_s
        self._longest_s = behaviour.hang_up_after_s or longest_s

    async def live(self, line: Line) -> None:
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

    async def _talk(self, line: Line) -> None:
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
                line.ear.report.gave_up = True
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

    async def _wait(self, line: Line, turn: int) -> Floor:
        return await line.floor(
            interrupt_at=self._interrupts.get(turn),
            unheard_after_s=self._behaviour.repeats_after_s,
        )

    async def _think(self, floor: Floor, turn: int) -> None:
        """Nobody thinks before they interrupt, or say again what was not heard."""
        if floor is Floor.MINE and turn not in self._interrupts:
            await asyncio.sleep(self._dice.uniform(*self._behaviour.think_s))

    async def _speak(self, line: Line, said: str, *, repeated: bool) -> None:
        if said in KEYS:
            await line.press(said)
        elif said == "":
            await line.stay_silent()
        else:
            await line.say(said, repeated=repeated)

    async def _talk_with_human(self, line: Line) -> None:
        """Stay with them; afterwards the agent is to speak again."""
        await line.until(lambda: line.over or not line.with_human, self._behaviour.with_human_s)
        if line.with_human:
            line.hang_up()

    def _asked_again(self, line: Line) -> bool:
        turns = line.ear.report.turns
        last = turns[-1].heard[-1] if turns and turns[-1].heard else None
        return last is not None and line.ear.asks_again(last.text)

    async def _lose_patience(self, line: Line, patience_s: float) -> None:
        while not line.over:
            since = line.ear.silent_since
            if since is None:
                await line.until(lambda: line.over or line.ear.silent_since is not None, 0.25)
            elif (left_s := since + patience_s - line.ear.now()) > 0:
                await asyncio.sleep(left_s)
            else:
                line.ear.report.gave_up = True
                line.hang_up()
                return
