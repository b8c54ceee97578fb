"""Carries out <Gather>: speaks the prompt and listens at once; words, keys or nothing result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from callflow.lab.carrier.background_tasks import cancelled
from callflow.lab.carrier.call_report import SpokenTurn
from callflow.lab.carrier.phone_line import speech_seconds
from callflow.lab.carrier.switchboard import CallBase
from callflow.lab.carrier.twiml_parser import Gather, Say

UNSURE: Final = 0.2
"""Share of speech results without `Confidence`: Twilio leaves it out at times."""

Result = tuple[dict[str, str], SpokenTurn | None]


async def gather(call: CallBase, verb: Gather) -> Result | None:
    """The fields for the action, and the turn they are about; None to go on with the next verb."""
    receiver = _GatherSession(call, verb)
    call.line.attach(receiver)
    try:
        await receiver.listen()
    finally:
        call.line.detach(receiver)
    call.listener.expect_sound("reply")
    return receiver.result()


class _GatherSession:
    patient = False

    def __init__(self, call: CallBase, verb: Gather) -> None:
        self._call = call
        self._verb = verb
        self._prompt: asyncio.Task[None] | None = None
        self._prompted = False
        self._began = time.monotonic()
        self._noticed = asyncio.Event()
        """Somebody speaks or presses keys."""
        self._finished = asyncio.Event()
        self._words: SpokenTurn | None = None
        self._keys: SpokenTurn | None = None
        self._digits = ""
        self._finished_on = ""
        self._last_key = 0.0
        self._held = False

    @property
    def ready(self) -> bool:
        """After a prompt, or where speech is wanted without one. A Gather that says nothing and
        hears only keys is a pause: nobody feels spoken to."""
        invites = self._verb.speech or any(isinstance(one, Say) for one in self._verb.prompt)
        begun = self._prompted or self._noticed.is_set()
        return begun and invites and not self._finished.is_set()

    @property
    def interruptible_at(self) -> Callable[[float], float] | None:
        """While the prompt is spoken, unless the Gather forbids it."""
        if self._prompted or self._noticed.is_set() or not self._verb.barge_in:
            return None
        words = (one.text for one in self._verb.prompt if isinstance(one, Say))
        length_s = sum(speech_seconds(text, self._call.switchboard.speed) for text in words)
        return lambda share: self._began + share * length_s

    async def speech_begins(self, turn: SpokenTurn) -> None:
        """The prompt is cut off and no time runs out any more."""
        if self._verb.speech:
            turn.interrupted = not self._prompted
            self._notice()

    async def speech_ends(self, turn: SpokenTurn) -> bool:
        """Speech that is not wanted is not recognised, and the caller cannot tell."""
        if self._call.line.receiver is not self:
            return False
        if self._verb.speech:
            self._words = turn
            self._finished.set()
        return True

    async def key(self, turn: SpokenTurn) -> bool:
        """Enough keys, or the finishing one, end it."""
        if not self._verb.keys or self._call.line.receiver is not self:
            return False
        turn.interrupted = not self._prompted
        self._keys = turn
        self._last_key = time.monotonic()
        if turn.said == self._verb.finish_on:
            self._finished_on = turn.said
        else:
            self._digits += turn.said
        if self._finished_on or len(self._digits) == self._verb.num_digits:
            self._finished.set()
        self._notice()
        return True

    def hold(self) -> None:
        """Words that are being typed are words that are being said, slowly."""
        self._held = True

    def silence(self) -> None:
        """As if the time had run out."""
        self._notice()
        self._finished.set()

    async def listen(self) -> None:
        """Return when words or keys are complete, or when there were none in time."""
        self._prompt = asyncio.create_task(self._say_prompt())
        try:
            # Cut off by whoever speaks, it ends without raising here.
            await asyncio.wait({self._prompt})
        finally:
            await cancelled(self._prompt)
        if not self._prompt.cancelled():
            self._prompt.result()
        self._prompted = True
        if self.ready and not self._noticed.is_set():
            self._call.line.awaiting = False
            self._call.listener.settle_turn()
            self._call.listener.end_silence()
            self._call.line.change()
        while not await _within(self._noticed, self._verb.timeout_s):
            if not self._held:
                return
        await self._complete()

    async def _complete(self) -> None:
        while self._keys is not None and not self._finished.is_set():
            left_s = self._last_key + self._verb.timeout_s - time.monotonic()
            if left_s <= 0:
                return
            await _within(self._finished, left_s)
        await self._finished.wait()
        if self._words is not None:
            pause_s = self._verb.speech_timeout_s
            await asyncio.sleep(self._call.switchboard.endpoint_s if pause_s is None else pause_s)

    def result(self) -> Result | None:
        if self._words is not None:
            dice = self._call.faults.dice("heard", self._words.number)
            fields = {"SpeechResult": self._words.said, "Language": self._verb.language}
            if dice.random() >= UNSURE:
                fields["Confidence"] = f"{dice.uniform(0.6, 0.99):.2f}"
            return fields, self._words
        if self._keys is not None and self._digits:
            return {"Digits": self._digits, "FinishedOnKey": self._finished_on}, self._keys
        return ({}, self._silent_turn()) if self._verb.empty_too else None

    def _silent_turn(self) -> SpokenTurn | None:
        """The turn in which the caller is saying nothing, if they meant to."""
        turns = self._call.report.turns
        silent = turns and turns[-1].said == "" and turns[-1].ended_s == 0
        return turns[-1] if silent else None

    async def _say_prompt(self) -> None:
        for one in self._verb.prompt:
            if isinstance(one, Say):
                await self._call.speak(one.text, "gather")
            else:
                await asyncio.sleep(one.seconds)

    def _notice(self) -> None:
        self._noticed.set()
        if self._prompt is not None:
            self._prompt.cancel()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
