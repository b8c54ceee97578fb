"""The humans whom the application rings: what each number does when it rings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from callflow.lab.carrier.line import Floor, Line

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


class Human:
    """A person, or a machine, who has picked up."""

    def __init__(self, behaviour: HumanBehaviour) -> None:
        self._behaviour = behaviour

    async def live(self, line: Line) -> None:
        """Hear the whisper, press the key, talk with the caller, hang up."""
        try:
            async with asyncio.timeout(self._behaviour.hangs_up_after_s):
                await self._live(line)
        except TimeoutError:
            """They have had enough: returning is hanging up."""

    async def _live(self, line: Line) -> None:
        floor = await line.floor()
        if floor is Floor.MINE and self._behaviour.presses is not None:
            await asyncio.sleep(self._behaviour.thinks_s)
            await line.press(self._behaviour.presses)
        await line.until(lambda: line.over or line.with_human)
        await line.until(lambda: line.over, self._behaviour.talks_s)
