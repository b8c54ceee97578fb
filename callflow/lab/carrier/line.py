"""The telephone in a person's hand: wait for one's turn, speak, press keys, hang up.

Whoever listens at the other end (a Gather, a relay session, the keypad of a whisper) attaches
itself as `listener`; between two of them nobody hears what is said, as on a real line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

from callflow.lab.carrier import speech
from callflow.lab.carrier.ear import Ear
from callflow.lab.carrier.report import Turn

AWKWARD_S: Final = 5.0
"""For so long one keeps silent towards somebody who does not ask."""


class Floor(StrEnum):
    """Who is to speak now."""

    MINE = "mine"
    """The line listens and has said what it had to say; or the person may interrupt now."""
    HUMAN = "human"
    """A person is on the line."""
    UNHEARD = "unheard"
    """Nobody has said anything for longer than one waits."""
    OVER = "over"
    """The call has ended."""


class Listener(Protocol):
    """What listens to a person. Its methods return when the person may go on."""

    @property
    def ready(self) -> bool:
        """It is the person's turn."""

    @property
    def interruptible_at(self) -> Callable[[float], float] | None:
        """When such a share of the words that are being said is over (monotonic, s); None while
        nothing is said, or may not be interrupted."""

    @property
    def patient(self) -> bool:
        """True for one that never asks again by itself when it hears nothing."""

    async def speech_begins(self, turn: Turn) -> None:
        """The person has begun to speak: the agent falls silent."""

    async def speech_ends(self, turn: Turn) -> bool:
        """They have finished; False when what they said was not heard."""

    async def key(self, turn: Turn) -> bool:
        """They have pressed a key; False when it was not noticed."""

    def hold(self) -> None:
        """The person takes their time: none runs out for them."""

    def silence(self) -> None:
        """They let the others know that they will not say anything."""


class Line:
    """One end of a call, as its person sees it."""

    def __init__(self, ear: Ear, speed: float, hang_up: Callable[[], None]) -> None:
        self.ear = ear
        self.speed = speed
        self.listener: Listener | None = None
        self.awaiting = True
        """The person expects to be spoken to: a greeting, or the reply to what they said."""
        self.with_human = False
        self.speaking = False
        self.over = False
        self._hang_up = hang_up
        self._changed = asyncio.Event()

    def change(self) -> None:
        """Something that a person may be waiting for has happened."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool], within_s: float | None = None) -> bool:
        """True once `condition` holds; False if it does not in time."""
        end = None if within_s is None else time.monotonic() + within_s
        while not condition():
            left_s = None if end is None else end - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return True

    def attach(self, listener: Listener) -> None:
        """From now on `listener` hears the person."""
        self.listener = listener
        self.change()

    def detach(self, listener: Listener) -> None:
        """It hears nothing more; another one that has taken its place stays."""
        if self.listener is listener:
            self.listener = None
        self.change()

    def joined(self) -> None:
        """A person is on the line."""
        self.with_human = True
        self.awaiting = False
        self.change()

    def parted(self) -> None:
        """The person has left: what comes next is for the application to say."""
        self.with_human = False
        self.awaiting = True
        self.change()

    def closed(self) -> None:
        """The call is over."""
        self.over = True
        self.change()

    async def floor(
        self, *, interrupt_at: float | None = None, unheard_after_s: float | None = None
    ) -> Floor:
        """Wait until it is one's turn. `interrupt_at`: do not wait for more than such a share of
        the agent's words; `unheard_after_s`: nor for longer than this in silence."""
        while True:
            listener = self.listener
            if self.over:
                return Floor.OVER
            if self.with_human:
                return Floor.HUMAN
            wait_s: float | None = None
            now = time.monotonic()
            if listener is not None:
                if listener.ready:
                    return Floor.MINE
                silent_since = self.ear.silent_since
                if listener.patient and unheard_after_s is not None and silent_since is not None:
                    wait_s = silent_since + unheard_after_s - now
                    if wait_s <= 0:
                        return Floor.UNHEARD
                when = listener.interruptible_at
                if interrupt_at is not None and when is not None:
                    wait_s = when(interrupt_at) - now
                    if wait_s <= 0:
                        return Floor.MINE
            await self._next_change(wait_s)

    async def say(self, text: str, *, repeated: bool = False) -> Turn:
        """Say `text`; again, if nobody listened any more at its end. Returns the last try; without
        effect when the call is over or a human has come."""
        while True:
            turn = self._turn(text, repeated)
            listener = await self._heard_by()
            if listener is None:
                return turn
            self.report_said(turn)
            self.speaking = True
            try:
                await listener.speech_begins(turn)
                length_s = speech.seconds(text, self.speed)
                await self.until(lambda: self.over or self.with_human, length_s)
            finally:
                self.speaking = False
            turn.ended_s = self._now()
            if self.over or self.with_human:
                return turn
            self._expect_reply()
            if await listener.speech_ends(turn):
                return turn
            repeated = True

    async def interrupt(self) -> None:
        """Begin to speak without saying yet what: the agent falls silent."""
        if self.listener is not None:
            self.speaking = True
            self.ear.relieve()
            await self.listener.speech_begins(self._turn("", repeated=False))

    async def press(self, digit: str) -> Turn:
        """Press one key; not again when nobody noticed: one cannot tell."""
        turn = self._turn(digit, repeated=False)
        listener = await self._heard_by()
        if listener is not None:
            self.report_said(turn)
            turn.ended_s = turn.began_s
            self._expect_reply()
            await listener.key(turn)
        return turn

    async def stay_silent(self, *, at_once: bool = False) -> Turn:
        """Say nothing until the line stops listening; `at_once`: make it stop."""
        turn = self._turn("", repeated=False)
        listener = self.listener
        if listener is None or self.over or self.with_human:
            return turn
        self.report_said(turn)
        if at_once:
            listener.silence()
        longest_s = AWKWARD_S if listener.patient else None
        await self.until(
            lambda: self.listener is not listener or self.over or self.with_human, longest_s
        )
        turn.ended_s = self._now()
        return turn

    def hang_up(self) -> None:
        """Put the receiver down. Twice is once."""
        self._hang_up()

    def report_said(self, turn: Turn) -> None:
        """The turn has begun: from here on what is heard belongs to it."""
        turn.began_s = self._now()
        self.ear.settle_turn()
        self.ear.relieve()
        self.ear.report.turns.append(turn)
        self.ear.tell("said", turn=turn.number, text=turn.said, repeated=turn.repeated)

    def _turn(self, said: str, repeated: bool) -> Turn:
        return Turn(len(self.ear.report.turns) + 1, said, self._now(), repeated=repeated)

    def _now(self) -> float:
        return time.monotonic() - self.ear.began

    def _expect_reply(self) -> None:
        self.awaiting = True
        self.ear.owe("reply")

    async def _heard_by(self) -> Listener | None:
        """Whoever hears one now, once somebody does; None when the call is over or a human has
        come."""
        if self.listener is None and not self.over and not self.with_human:
            # They want to speak, and there is nobody: that is a silence too.
            self.ear.owe("session")
        await self.until(lambda: self.over or self.with_human or self._hears(self.listener))
        return None if self.over or self.with_human else self.listener

    @staticmethod
    def _hears(listener: Listener | None) -> bool:
        return listener is not None and (
            listener.ready or listener.patient or listener.interruptible_at is not None
        )

    async def _next_change(self, within_s: float | None) -> None:
        try:
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        except TimeoutError:
            return
