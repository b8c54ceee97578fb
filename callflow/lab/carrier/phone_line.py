"""Gives a person their end of a call: to hear, to speak, to press keys and to hang up.

`Listener` keeps the account of silence: words and tones close one, their end opens one, and
`end_silence` says that nobody is expected to speak. What takes in speech at the other end (a
Gather, a relay session) attaches itself to the `CallerLine`; between two nobody hears what is said.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Final, Protocol

from callflow.lab.carrier.call_report import (
    CallReport,
    Cause,
    HeardSound,
    Kind,
    Silence,
    SpokenTurn,
)

LETTERS_PER_S: Final = 15.0
CHARACTERS_PER_S: Final = 5.0
"""A Chinese or Japanese character is a syllable or two."""

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")

_SENTENCE: Final = re.compile(r".+?(?:[.!?。！？…]+[\"'”’»)]*\s*|$)", re.DOTALL)


def split_sentences(text: str) -> list[str]:
    """The sentences of `text`, each with the space behind it: together they are all of it."""
    return _SENTENCE.findall(text)


def speech_seconds(text: str, speed: float) -> float:
    characters = len(_CJK.findall(text))
    letters = len(text) - characters
    return (letters / LETTERS_PER_S + characters / CHARACTERS_PER_S) / speed


def spoken_part(text: str, after_s: float, speed: float) -> str:
    """The beginning of `text` that has been said after so long, to the letter."""
    if after_s >= speech_seconds(text, speed):
        return text
    left_s = max(0.0, after_s) * speed
    for position, char in enumerate(text):
        left_s -= 1 / (CHARACTERS_PER_S if _CJK.match(char) else LETTERS_PER_S)
        if left_s < 0:
            return text[:position]
    return text


SHORTEST_S: Final = 0.05
"""Between two sentences or tokens nobody notices less. After the caller's own words all counts."""

EventCallback = Callable[[str, dict[str, object]], None]
"""Is told each event as it happens: its name, and facts that JSON can hold."""


class Listener:
    """Times given and kept are monotonic, s; the report has them from the call's beginning."""

    def __init__(
        self,
        report: CallReport,
        fillers: Collection[str] = (),
        on_event: EventCallback | None = None,
        say_again: Collection[str] = (),
    ) -> None:
        self.report = report
        self.began = time.monotonic()
        self._fillers = frozenset(_plain(filler) for filler in fillers)
        self._again = frozenset(_plain(phrase) for phrase in say_again)
        self._on_event = on_event
        self._cause: Cause | None = None
        self._since = 0.0
        self._mischief_before = 0.0

    @property
    def silent_since(self) -> float | None:
        """Since when the application has owed a word; None while it does not."""
        return None if self._cause is None else self._since

    @staticmethod
    def now() -> float:
        return time.monotonic()

    def emit(self, event: str, **facts: object) -> None:
        if self._on_event is not None:
            self._on_event(event, {"at_s": round(time.monotonic() - self.began, 3), **facts})

    def expect_sound(self, cause: Cause, since: float | None = None) -> None:
        """It is the application's turn; a silence that runs already goes on."""
        if self._cause is None:
            self._cause = cause
            self._since = time.monotonic() if since is None else since
            self._mischief_before = self.report.mischief_s

    def end_silence(self) -> None:
        """Nobody is expected to speak: the silence, if there is one, ends here."""
        if self._cause is None:
            return
        cause, self._cause = self._cause, None
        length = time.monotonic() - self._since
        if length < SHORTEST_S and cause != "reply":
            return
        turn = self.report.turns[-1].number if self.report.turns else 0
        on_purpose_s = min(length, self.report.mischief_s - self._mischief_before)
        silence = Silence(self._since - self.began, length, cause, turn, on_purpose_s)
        self.report.silences.append(silence)
        self.emit("silence", length_s=round(length, 3), cause=cause)

    def begin(self, text: str, kind: Kind, at: float | None = None) -> HeardSound:
        """Something is heard from now on, or from `at`, when what is being said will have ended."""
        self.end_silence()
        begins = time.monotonic() if at is None else at
        heard = HeardSound(begins - self.began, text, kind, filler=self.is_filler(text))
        turns = self.report.turns
        (turns[-1].heard if turns else self.report.greeting).append(heard)
        self.emit("heard", kind=kind, text=text, filler=heard.filler)
        return heard

    def finish(self, heard: HeardSound, text: str | None = None, at: float | None = None) -> None:
        """It is over. `text`: the part that was heard, if it was cut off."""
        ended = time.monotonic() if at is None else at
        heard.until_s = ended - self.began
        if text is not None and text != heard.text:
            heard.text, heard.cut = text, True
            self.emit("cut", text=text)

    def retract(self, heard: HeardSound) -> None:
        """It was to be said, and then was not."""
        for one in (self.report.greeting, *(turn.heard for turn in self.report.turns[-2:])):
            if heard in one:
                one.remove(heard)

    def is_filler(self, text: str) -> bool:
        """True for a phrase after which one goes on waiting."""
        return _plain(text) in self._fillers

    def asks_again(self, text: str) -> bool:
        """True for a phrase that asks for what was said: no answer, and one's turn all the same."""
        return _plain(text) in self._again

    def settle_turn(self) -> None:
        """It is the caller's turn again, or the call is over: what they heard was the answer."""
        if self.report.turns:
            turn = self.report.turns[-1]
            spoken = (one for one in turn.heard if one.kind not in ("ring", "music", "stock"))
            turn.answered = turn.answered or any(not one.filler for one in spoken)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


AWKWARD_S: Final = 5.0
"""For so long one keeps silent towards somebody who does not ask."""


class Floor(StrEnum):
    MINE = "mine"
    """The line listens and has said what it had to say; or the person may interrupt now."""
    HUMAN = "human"
    UNHEARD = "unheard"
    """Nobody has said anything for longer than one waits."""
    OVER = "over"


class SpeechReceiver(Protocol):
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

    async def speech_begins(self, turn: SpokenTurn) -> None:
        """The person has begun to speak: the agent falls silent."""

    async def speech_ends(self, turn: SpokenTurn) -> bool:
        """They have finished; False when what they said was not heard."""

    async def key(self, turn: SpokenTurn) -> bool:
        """They have pressed a key; False when it was not noticed."""

    def hold(self) -> None:
        """The person takes their time: none runs out for them."""

    def silence(self) -> None:
        """They let the others know that they will not say anything."""


class CallerLine:
    def __init__(self, listener: Listener, speed: float, hang_up: Callable[[], None]) -> None:
        self.listener = listener
        self.speed = speed
        self.receiver: SpeechReceiver | None = None
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
            await self._next_change(left_s)
        return True

    def attach(self, receiver: SpeechReceiver) -> None:
        """From now on `receiver` hears the person."""
        self.receiver = receiver
        self.change()

    def detach(self, receiver: SpeechReceiver) -> None:
        """It hears nothing more; another one that has taken its place stays."""
        if self.receiver is receiver:
            self.receiver = None
        self.change()

    def joined(self) -> None:
        """A person is on the line."""
        self.with_human, self.awaiting = True, False
        self.change()

    def parted(self) -> None:
        """The person has left: what comes next is for the application to say."""
        self.with_human, self.awaiting = False, True
        self.change()

    def closed(self) -> None:
        self.over = True
        self.change()

    async def floor(
        self, *, interrupt_at: float | None = None, unheard_after_s: float | None = None
    ) -> Floor:
        """Wait until it is one's turn. `interrupt_at`: do not wait for more than such a share of
        the agent's words; `unheard_after_s`: nor for longer than this in silence."""
        while True:
            receiver = self.receiver
            if self.over:
                return Floor.OVER
            if self.with_human:
                return Floor.HUMAN
            wait_s: float | None = None
            now = time.monotonic()
            if receiver is not None:
                if receiver.ready:
                    return Floor.MINE
                silent_since = self.listener.silent_since
                if receiver.patient and unheard_after_s is not None and silent_since is not None:
                    wait_s = silent_since + unheard_after_s - now
                    if wait_s <= 0:
                        return Floor.UNHEARD
                when = receiver.interruptible_at
                if interrupt_at is not None and when is not None:
                    wait_s = when(interrupt_at) - now
                    if wait_s <= 0:
                        return Floor.MINE
            await self._next_change(wait_s)

    async def say(self, text: str, *, repeated: bool = False) -> SpokenTurn:
        """Say `text`; again, if nobody listened any more at its end. Returns the last try; without
        effect when the call is over or a human has come."""
        while True:
            turn = self._turn(text, repeated)
            receiver = await self._heard_by()
            if receiver is None:
                return turn
            self.report_said(turn)
            self.speaking = True
            try:
                await receiver.speech_begins(turn)
                length_s = speech_seconds(text, self.speed)
                await self.until(lambda: self.over or self.with_human, length_s)
            finally:
                self.speaking = False
            turn.ended_s = self._now()
            if self.over or self.with_human:
                return turn
            self._expect_reply()
            if await receiver.speech_ends(turn):
                return turn
            repeated = True

    async def interrupt(self) -> None:
        """Begin to speak without saying yet what: the agent falls silent."""
        if self.receiver is not None:
            self.speaking = True
            self.listener.end_silence()
            await self.receiver.speech_begins(self._turn("", repeated=False))

    async def press(self, digit: str) -> SpokenTurn:
        """Press one key; not again when nobody noticed: one cannot tell."""
        turn = self._turn(digit, repeated=False)
        receiver = await self._heard_by()
        if receiver is not None:
            self.report_said(turn)
            turn.ended_s = turn.began_s
            self._expect_reply()
            await receiver.key(turn)
        return turn

    async def stay_silent(self, *, at_once: bool = False) -> SpokenTurn:
        """Say nothing until the line stops listening; `at_once`: make it stop."""
        turn = self._turn("", repeated=False)
        receiver = self.receiver
        if receiver is None or self.over or self.with_human:
            return turn
        self.report_said(turn)
        if at_once:
            receiver.silence()
        longest_s = AWKWARD_S if receiver.patient else None
        await self.until(
            lambda: self.receiver is not receiver or self.over or self.with_human, longest_s
        )
        turn.ended_s = self._now()
        return turn

    def hang_up(self) -> None:
        """Put the receiver down. Twice is once."""
        self._hang_up()

    def report_said(self, turn: SpokenTurn) -> None:
        """The turn has begun: from here on what is heard belongs to it."""
        turn.began_s = self._now()
        self.listener.settle_turn()
        self.listener.end_silence()
        self.listener.report.turns.append(turn)
        self.listener.emit("said", turn=turn.number, text=turn.said, repeated=turn.repeated)

    def _turn(self, said: str, repeated: bool) -> SpokenTurn:
        return SpokenTurn(len(self.listener.report.turns) + 1, said, self._now(), repeated=repeated)

    def _now(self) -> float:
        return time.monotonic() - self.listener.began

    def _expect_reply(self) -> None:
        self.awaiting = True
        self.listener.expect_sound("reply")

    async def _heard_by(self) -> SpeechReceiver | None:
        """Whoever hears one now, once somebody does; None when the call is over or a human has
        come."""
        if self.receiver is None and not self.over and not self.with_human:
            # They want to speak, and there is nobody: that is a silence too.
            self.listener.expect_sound("session")

        def heard_or_over() -> bool:
            one = self.receiver
            hears = one and (one.ready or one.patient or one.interruptible_at is not None)
            return self.over or self.with_human or bool(hears)

        await self.until(heard_or_over)
        return None if self.over or self.with_human else self.receiver

    async def _next_change(self, within_s: float | None) -> None:
        try:
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        except TimeoutError:
            return
